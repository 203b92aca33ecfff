//! What was granted: a root and the access to it.

use std::path::{Path, PathBuf};

/// What may be done within a root. Each level includes the previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileAccess {
    /// List directories and read metadata, but not contents.
    Browse,
    /// Read contents.
    Read,
    /// Change everything.
    Write,
}

/// A granted file or directory, by a path that may contain links.
#[derive(Debug, Clone)]
pub struct Root {
    pub(crate) granted_path: PathBuf,
    /// The real path when the root was granted; `None` if nothing existed there. A link that is changed later does not
    /// extend the grant to its new target.
    pub(crate) real_path: Option<PathBuf>,
    pub(crate) access: FileAccess,
}

impl Root {
    /// Grants a directory and everything below it, by its absolute path. Links are resolved now.
    pub fn directory(given: PathBuf, access: FileAccess) -> Self {
        let root = Self::file_or_directory(given, access);
        Self { real_path: root.real_path.filter(|real| real.is_dir()), ..root }
    }

    /// Grants a directory, or a single file.
    pub fn file_or_directory(granted_path: PathBuf, access: FileAccess) -> Self {
        let real_path = granted_path.is_absolute().then(|| fs_err::canonicalize(&granted_path).ok()).flatten();
        Self { real_path, granted_path, access }
    }

    /// Whether the path existed when it was granted.
    pub fn existed(&self) -> bool {
        self.real_path.is_some()
    }

    /// The real path when the root was granted.
    pub fn real_path(&self) -> Option<&Path> {
        self.real_path.as_deref()
    }
}
