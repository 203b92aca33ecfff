use std::path::{Path, PathBuf};

use crate::{FileError, Roots};

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// Something that lies within the roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its path, all links resolved.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
}

impl Roots {
    /// Looks whether something is there.
    ///
    /// # Errors
    /// If it is not, or not within the roots.
    pub fn find(&self, path: &Path) -> Result<Found, FileError> {
        let path = fs_err::canonicalize(path).map_err(|_| FileError::NotFound)?;
        if !self.directories().any(|root| path.starts_with(root)) {
            return Err(FileError::Outside);
        }
        let facts = fs_err::metadata(&path)?;
        let kind = if facts.is_dir() { FileKind::Directory } else { FileKind::File };
        Ok(Found { path, kind, size: facts.len() })
    }

    /// Reads a regular file that is not larger than `most` bytes.
    ///
    /// # Errors
    /// If there is none within the roots, it is larger, or it changes meanwhile.
    pub fn read(&self, path: &Path, most: u64) -> Result<Vec<u8>, FileError> {
        let found = self.find(path)?;
        if found.size > most {
            return Err(FileError::TooLarge(most));
        }
        Ok(fs_err::read(found.path)?)
    }
}
