use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use crate::locate::{LOCATE_METHODS, LocateMethod, LocatedFile};
use crate::private_files::PrivateFiles;
use crate::{DirectoryEntry, FileAccess, FileError, OpenedFile, ResolvedFile, Root};

/// Directories that were granted.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    roots: Vec<Root>,
    /// What is in no root, wherever it lies.
    excluded: Vec<PathBuf>,
    private_files: PrivateFiles,
}

impl FromIterator<Root> for Roots {
    fn from_iter<T: IntoIterator<Item = Root>>(roots: T) -> Self {
        Self { roots: roots.into_iter().collect(), ..Self::default() }
    }
}

impl Roots {
    /// Grants reading of directories, each by its absolute path, as they are now.
    pub fn new(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        directories.into_iter().map(|given| Root::directory(given, FileAccess::Read)).collect()
    }

    /// Takes a directory, or a file, out of whatever root it lies in, and the hard links to its files. It is named without links.
    #[must_use]
    pub fn excluding(mut self, directory: PathBuf) -> Self {
        self.excluded.push(directory);
        self
    }

    /// Whether so much is allowed at an absolute path, be there something or not.
    pub fn is_allowed(&self, path: &Path, access: FileAccess) -> bool {
        find_existing_ancestor(self, path).is_ok_and(|(top, missing)| {
            let whole = missing.iter().fold(top.path, |path, name| path.join(name));
            self.contains(&whole, access)
        })
    }

    /// The granted directories, by the names that they were granted by.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.granted_path.as_path())
    }

    /// Opens what is at an absolute path.
    ///
    /// # Errors
    /// If there is nothing, if it may not be read, or if it is neither a file nor a directory.
    pub fn open(&self, path: &Path) -> Result<OpenedFile, FileError> {
        self.open_with(LOCATE_METHODS, path, FileAccess::Read)
    }

    /// Looks whether something is there.
    ///
    /// # Errors
    /// If there is nothing, if it is not within the roots, or if it is neither a file nor a directory.
    pub fn find(&self, path: &Path) -> Result<ResolvedFile, FileError> {
        Ok(self.open_with(LOCATE_METHODS, path, FileAccess::Browse)?.resolved().clone())
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
    /// As [`Roots::find`] and [`Opened::list`].
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

    /// Opens whatever is at a path, within the roots or not: whoever asks has yet to look where it is.
    pub(crate) fn locate_with(&self, ways: &[LocateMethod], path: &Path) -> Result<LocatedFile, FileError> {
        // What a relative path leads to depends on where the host was started.
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

    /// Refuses another name of a file that is taken out of the roots.
    pub(crate) fn check_not_private(&self, opened: OpenedFile) -> Result<OpenedFile, FileError> {
        if self.private_files.contains(&self.excluded, opened.stat()) { Err(FileError::Private) } else { Ok(opened) }
    }

    /// Whether there is something outside, and what, is nobody's business.
    pub(crate) fn hide_outside_error(&self, path: &Path, error: FileError) -> FileError {
        if self.appears_inside(path) { error } else { FileError::Outside }
    }

    /// Whether a path without links lies within a root that allows so much.
    pub(crate) fn contains(&self, path: &Path, access: FileAccess) -> bool {
        let roots = self.roots.iter().filter(|root| root.access >= access);
        let held = roots.filter_map(Root::real_path).any(|real| path.starts_with(real));
        held && !self.excluded.iter().any(|except| path.starts_with(except))
    }

    /// A whole tree can be taken only if everything in it can.
    pub(crate) fn check_no_exclusions_below(&self, tree: &Path) -> Result<(), FileError> {
        let holed = self.excluded.iter().any(|except| except.starts_with(tree));
        if holed { Err(FileError::Outside) } else { Ok(()) }
    }

    /// Whether a path looks as if it lay within a root. Decides what is said, never what is opened.
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

/// The deepest directory on the way to a path that is there, and the names that are missing below it.
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
