use std::path::{Component, Path, PathBuf};

use crate::reach::{WAYS, Way};
use crate::{Entry, FileError, Found, Opened};

/// Directories that were granted.
#[derive(Debug, Clone, Default)]
pub struct Roots(Vec<Root>);

/// A directory that was granted, by a name that may lead over links.
#[derive(Debug, Clone)]
struct Root {
    given: PathBuf,
    /// Where the name led when it was granted; nowhere, if there was no such directory. A name that is later made to lead
    /// elsewhere grants nothing there.
    real: Option<PathBuf>,
}

impl Roots {
    /// Grants directories, each by its absolute path, as they are now.
    pub fn new(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(directories.into_iter().map(Root::new).collect())
    }

    /// The granted directories, by the names that they were granted by.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|root| root.given.as_path())
    }

    /// Opens what is at an absolute path.
    ///
    /// # Errors
    /// If there is nothing, if it is not within the roots, or if it is neither a file nor a directory.
    pub fn open(&self, path: &Path) -> Result<Opened, FileError> {
        self.open_by(WAYS, path)
    }

    /// Looks whether something is there.
    ///
    /// # Errors
    /// As [`Roots::open`].
    pub fn find(&self, path: &Path) -> Result<Found, FileError> {
        Ok(self.open(path)?.found().clone())
    }

    /// Reads a regular file that is not larger than `most` bytes.
    ///
    /// # Errors
    /// As [`Roots::open`] and [`Opened::read`].
    pub fn read(&self, path: &Path, most: u64) -> Result<Vec<u8>, FileError> {
        self.open(path)?.read(most)
    }

    /// Lists a directory with at most `most` entries.
    ///
    /// # Errors
    /// As [`Roots::open`] and [`Opened::list`].
    pub fn list(&self, path: &Path, most: usize) -> Result<Vec<Entry>, FileError> {
        self.open(path)?.list(most)
    }

    pub(crate) fn open_by(&self, ways: &[Way], path: &Path) -> Result<Opened, FileError> {
        // What a relative path leads to depends on where the host was started.
        if !path.is_absolute() {
            return Err(FileError::Outside);
        }
        for way in ways {
            match way.reach(path) {
                Ok(Some(reached)) if self.hold(&reached.path) => return Opened::new(reached),
                Ok(Some(_)) => return Err(FileError::Outside),
                Ok(None) => {}
                // Whether there is something outside, and what, is nobody's business.
                Err(_) if !self.name(path) => return Err(FileError::Outside),
                Err(error) => return Err(error),
            }
        }
        Err(FileError::Outside)
    }

    /// Whether a path without links lies within a root.
    fn hold(&self, path: &Path) -> bool {
        self.0.iter().filter_map(|root| root.real.as_deref()).any(|real| path.starts_with(real))
    }

    /// Whether a path looks as if it lay within a root. Decides what is said, never what is opened.
    fn name(&self, path: &Path) -> bool {
        let mut folded = PathBuf::new();
        for component in path.components() {
            match component {
                Component::ParentDir => drop(folded.pop()),
                Component::CurDir => {}
                component => folded.push(component),
            }
        }
        let names = |root: &Root| {
            folded.starts_with(&root.given) || root.real.as_ref().is_some_and(|real| folded.starts_with(real))
        };
        self.0.iter().any(names)
    }
}

impl Root {
    fn new(given: PathBuf) -> Self {
        let real = given.is_absolute().then(|| fs_err::canonicalize(&given).ok()).flatten();
        Self { real: real.filter(|real| real.is_dir()), given }
    }
}

#[cfg(test)]
#[path = "roots_tests.rs"]
mod tests;
