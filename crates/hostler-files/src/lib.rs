//! Files that clients and messages may name: what lies within granted roots once every link is resolved, and nothing else.
//!
//! Something is opened first, then the system is asked where that very thing is, and only if it lies within a root is
//! anything of it told or read. Links may lead anywhere within any of the roots. What is changed is changed in a directory
//! that is open and was checked in the same way, by a name of one part, and links are not followed then.
//!
//! **Architecture Invariant:** what is checked is what is opened. A path is resolved by the kernel while it is opened, never
//! before, so that nothing can be put in its place in between.

#![forbid(unsafe_code)]

mod access;
mod change;
mod error;
mod facts;
mod files;
mod found;
mod fresh;
mod locks;
mod opened;
mod place;
mod private;
mod reach;
mod roots;
mod tree;
mod uri;
mod write;

pub use access::{Access, Root};
pub use error::FileError;
pub use facts::Facts;
pub use files::Files;
pub use found::{Entry, EntryKind, FileKind, Found};
pub use fresh::is_fresh;
pub use opened::Opened;
pub use roots::Roots;
pub use tree::TreeLimits;
pub use uri::{path_of, uri_of};
pub use write::{Write, WriteMode};
