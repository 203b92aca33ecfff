//! Files that clients and messages may name: what lies within granted roots once every link is resolved, and nothing else.
//!
//! Something is opened first, then the system is asked where that very thing is, and only if it lies within a root is
//! anything of it told or read. Links may lead anywhere within any of the roots.
//!
//! **Architecture Invariant:** what is checked is what is opened. A path is resolved by the kernel while it is opened, never
//! before, so that nothing can be put in its place in between.

#![forbid(unsafe_code)]

mod error;
mod found;
mod opened;
mod reach;
mod roots;

pub use error::FileError;
pub use found::{Entry, EntryKind, FileKind, Found};
pub use opened::Opened;
pub use roots::Roots;
