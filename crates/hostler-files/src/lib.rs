//! Access to files that clients and messages name, confined to granted roots after all links are resolved.
//!
//! An entry is opened first, then the kernel reports the path of the open descriptor, and metadata or contents are
//! returned only if that path is within a root. Links may point anywhere within any of the roots. A changed entry is a
//! one-component name in a directory that was opened and checked in the same way; links are not followed then. New
//! contents get a temporary name and replace the old ones in one step: a file is never half written and a link is never
//! written through.
//!
//! The crate does not know sessions or clients; the caller passes the roots.
//!
//! **Architecture Invariant:** the entry that is checked is the entry that is opened. The kernel resolves a path while
//! it opens it, never before, so nothing can be swapped in between.

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
