//! Files that clients and messages may name: what lies within granted roots once every link is resolved, and nothing else.
//!
//! **Architecture Invariant:** what is checked is what is opened. A path is resolved by the kernel while it is opened, never
//! before, so that nothing can be put in its place in between.

#![forbid(unsafe_code)]

mod error;
mod read;
mod roots;

pub use error::FileError;
pub use read::{FileKind, Found};
pub use roots::Roots;
