//! The granted roots, and the checks of whether a path is within them.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use crate::locate::{LOCATE_METHODS, LocateMethod, LocatedFile};
use crate::private_files::PrivateFiles;
use crate::{DirectoryEntry, FileAccess, FileError, OpenedFile, ResolvedFile, Root};

/// The granted files and directories.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    roots: Vec<Root>,
    /// Paths that are excluded from all roots.
    excluded: Vec<PathBuf>,
    private_files: PrivateFiles,
}

impl FromIterator<Root> for Roots {
    fn from_iter<T: IntoIterator<Item = Root>>(roots: T) -> Self {
        Self { roots: roots.into_iter().collect(), ..Self::default() }
    }
}

impl Roots {
    /// Grants read access to directories, by their absolute paths. Links are resolved now.
    pub fn new(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        directories.into_iter().map(|given| Root::directory(given, FileAccess::Read)).collect()
    }

    /// Excludes a directory or file from all roots, with the hard links to its files. The path must not contain links.
    #[must_use]
    pub fn excluding(mut self, directory: PathBuf) -> Self {
        self.excluded.push(directory);
        self
    }

    /// Whether an absolute path, existing or not, is granted `access`.
    pub fn is_allowed(&self, path: &Path, access: FileAccess) -> bool {
        find_existing_ancestor(self, path).is_ok_and(|(top, missing)| {
            let whole = missing.iter().fold(top.path, |path, name| path.join(name));
            self.contains(&whole, access)
        })
    }

    /// The granted directories, by the paths with which they were granted.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.granted_path.as_path())
    }

    /// Opens an absolute path.
    ///
    /// # Errors
    /// If the path does not exist, may not be read, or is neither a file nor a directory.
    pub fn open(&self, path: &Path) -> Result<OpenedFile, FileError> {
        self.open_with(LOCATE_METHODS, path, FileAccess::Read)
    }

    /// Looks up a path without reading it.
    ///
    /// # Errors
    /// If the path does not exist, is not within the roots, or is neither a file nor a directory.
    pub fn find(&self, path: &Path) -> Result<ResolvedFile, FileError> {
        Ok(self.open_with(LOCATE_METHODS, path, FileAccess::Browse)?.resolved().clone())
    }

    /// Reads a regular file of at most `most` bytes.
    ///
    /// # Errors
    /// Those of [`Roots::open`] and [`OpenedFile::read`].
    pub fn read(&self, path: &Path, most: u64) -> Result<Vec<u8>, FileError> {
        self.open(path)?.read(most)
    }

    /// Lists a directory with at most `most` entries.
    ///
    /// # Errors
    /// Those of [`Roots::find`] and [`OpenedFile::list`].
    pub fn list(&self, path: &Path, most: usize) -> Result<Vec<DirectoryEntry>, FileError> {
        self.open_with(LOCATE_METHODS, path, FileAccess::Browse)?.list(most)
    }

    pub(crate) fn open_with(
        &self,
        ways: &[LocateMethod],
        path: &Path,
        access: FileAccess,
    ) -> Result<OpenedFile, FileError> {
        match self.locate_with(ways, path) {
            Ok(reached) if self.contains(&reached.path, access) => self.check_not_private(OpenedFile::new(reached)?),
            Ok(_) => Err(FileError::Outside),
            Err(error) => Err(self.hide_outside_error(path, error)),
        }
    }

    /// Opens a path without checking the roots. The caller has to check the real path.
    pub(crate) fn locate_with(&self, ways: &[LocateMethod], path: &Path) -> Result<LocatedFile, FileError> {
        // A relative path would depend on the host's current directory.
        if !path.is_absolute() {
            return Err(FileError::Outside);
        }
        for way in ways {
            if let Some(reached) = way.locate(path)? {
                return Ok(reached);
            }
        }
        Err(FileError::Outside)
    }

    /// Refuses a hard link to an excluded file.
    pub(crate) fn check_not_private(&self, opened: OpenedFile) -> Result<OpenedFile, FileError> {
        if self.private_files.contains(&self.excluded, opened.stat()) { Err(FileError::Private) } else { Ok(opened) }
    }

    /// Replaces errors about paths outside the roots, so that they do not reveal what exists there.
    pub(crate) fn hide_outside_error(&self, path: &Path, error: FileError) -> FileError {
        if self.appears_inside(path) { error } else { FileError::Outside }
    }

    /// Whether a path without links is within a root that grants `access`.
    pub(crate) fn contains(&self, path: &Path, access: FileAccess) -> bool {
        let roots = self.roots.iter().filter(|root| root.access >= access);
        let held = roots.filter_map(Root::real_path).any(|real| path.starts_with(real));
        held && !self.excluded.iter().any(|except| path.starts_with(except))
    }

    /// Refuses a tree that contains an excluded path.
    pub(crate) fn check_no_exclusions_below(&self, tree: &Path) -> Result<(), FileError> {
        let holed = self.excluded.iter().any(|except| except.starts_with(tree));
        if holed { Err(FileError::Outside) } else { Ok(()) }
    }

    /// Whether a path looks as if it were within a root. Only selects the error message, never grants access.
    fn appears_inside(&self, path: &Path) -> bool {
        let mut folded = PathBuf::new();
        for component in path.components() {
            match component {
                Component::ParentDir => drop(folded.pop()),
                Component::CurDir => {}
                component => folded.push(component),
            }
        }
        let names = |root: &Root| {
            folded.starts_with(&root.granted_path) || root.real_path().is_some_and(|real| folded.starts_with(real))
        };
        self.roots.iter().any(names)
    }
}

/// Finds the deepest existing ancestor of a path, and the names that are missing below it.
pub(crate) fn find_existing_ancestor<'a>(
    roots: &Roots,
    path: &'a Path,
) -> Result<(LocatedFile, Vec<&'a OsStr>), FileError> {
    let (mut there, mut missing) = (path, Vec::new());
    loop {
        match roots.locate_with(LOCATE_METHODS, there) {
            Ok(reached) => {
                missing.reverse();
                return Ok((reached, missing));
            }
            Err(FileError::NotFound) => {}
            Err(error) => return Err(error),
        }
        missing.push(there.file_name().ok_or(FileError::NotFound)?);
        there = there.parent().ok_or(FileError::NotFound)?;
    }
}

#[cfg(test)]
#[path = "roots_tests.rs"]
mod tests;
