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
mod error;
mod file_metadata;
mod file_operations;
mod file_write;
mod locate;
mod opened_file;
mod path_locks;
mod path_target;
mod private_files;
mod resolved_file;
mod roots;
mod temp_entry;
mod tree;
mod tree_operations;
mod uri;

pub use access::{FileAccess, Root};
pub use error::FileError;
pub use file_metadata::FileMetadata;
pub use file_operations::FileOperations;
pub use file_write::{FileWrite, WriteMode};
pub use opened_file::OpenedFile;
pub use resolved_file::{DirectoryEntry, EntryKind, FileKind, ResolvedFile};
pub use roots::Roots;
pub use temp_entry::is_temp_name;
pub use tree::TreeLimits;
pub use uri::{file_uri_to_path, path_to_file_uri};
