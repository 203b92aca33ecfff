//! Kinds of entries, and what a lookup returns.

use std::ffi::OsString;
use std::path::PathBuf;

use rustix::fs::FileType;

/// The kind of a resolved path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// A file or directory within the roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedFile {
    /// Its path, all links resolved.
    pub path: PathBuf,
    /// Its kind.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryEntry {
    /// The name, which need not be UTF-8.
    pub name: OsString,
    /// Its kind; links are not followed.
    pub kind: EntryKind,
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A link. Its target, and whether that is within the roots, is determined by resolving its path.
    Link,
    /// A pipe, a socket or a device.
    Special,
}

impl From<FileType> for EntryKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            _ => Self::Special,
        }
    }
}
