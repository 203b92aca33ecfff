use std::path::{Path, PathBuf};

/// What may be done with what lies within a root. Each includes what stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileAccess {
    /// Directories are listed, and it is told what there is; contents are not.
    Browse,
    /// Contents are read.
    Read,
    /// Everything is changed.
    Write,
}

/// Something that was granted, by a name that may lead over links.
#[derive(Debug, Clone)]
pub struct Root {
    pub(crate) granted_path: PathBuf,
    /// Where the name led when it was granted; nowhere, if there was nothing. A name that is later made to lead elsewhere
    /// grants nothing there.
    pub(crate) real_path: Option<PathBuf>,
    pub(crate) access: FileAccess,
}

impl Root {
    /// Grants a directory with everything below it, by its absolute path, as it is now.
    pub fn directory(given: PathBuf, access: FileAccess) -> Self {
        let root = Self::file_or_directory(given, access);
        Self { real_path: root.real_path.filter(|real| real.is_dir()), ..root }
    }

    /// Grants a directory, or one file alone.
    pub fn file_or_directory(granted_path: PathBuf, access: FileAccess) -> Self {
        let real_path = granted_path.is_absolute().then(|| fs_err::canonicalize(&granted_path).ok()).flatten();
        Self { real_path, granted_path, access }
    }

    /// Whether there was something when it was granted.
    pub fn existed(&self) -> bool {
        self.real_path.is_some()
    }

    /// Where it led when it was granted.
    pub fn real_path(&self) -> Option<&Path> {
        self.real_path.as_deref()
    }
}
