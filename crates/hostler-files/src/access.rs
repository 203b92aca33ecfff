use std::path::{Path, PathBuf};

/// What may be done with what lies within a root. Each includes what stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
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
    pub(crate) given: PathBuf,
    /// Where the name led when it was granted; nowhere, if there was nothing. A name that is later made to lead elsewhere
    /// grants nothing there.
    pub(crate) real: Option<PathBuf>,
    pub(crate) access: Access,
}

impl Root {
    /// Grants a directory with everything below it, by its absolute path, as it is now.
    pub fn directory(given: PathBuf, access: Access) -> Self {
        let root = Self::anything(given, access);
        Self { real: root.real.filter(|real| real.is_dir()), ..root }
    }

    /// Grants a directory, or one file alone.
    pub fn anything(given: PathBuf, access: Access) -> Self {
        let real = given.is_absolute().then(|| fs_err::canonicalize(&given).ok()).flatten();
        Self { real, given, access }
    }

    /// Whether there was something when it was granted.
    pub fn is_there(&self) -> bool {
        self.real.is_some()
    }

    /// Where it led when it was granted.
    pub fn path(&self) -> Option<&Path> {
        self.real.as_deref()
    }
}
