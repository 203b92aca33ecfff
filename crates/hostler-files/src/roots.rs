use std::path::{Path, PathBuf};

/// Directories that were granted.
#[derive(Debug, Clone, Default)]
pub struct Roots(Vec<PathBuf>);

impl Roots {
    /// Grants directories, each by its absolute path.
    pub fn new(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(directories.into_iter().collect())
    }

    /// The granted directories.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }
}
