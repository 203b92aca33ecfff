//! The target of a change: an open, checked directory and a name in it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use crate::locate::{LOCATE_METHODS, LocatedFile};
use crate::{EntryKind, FileAccess, FileError, FileMetadata, OpenedFile, Roots};

/// Limit of links to follow, the same as the kernel's.
const MAX_SYMLINKS: usize = 40;

/// A name in an open directory. The entry need not exist.
#[derive(Debug)]
pub(crate) struct PathTarget {
    pub(crate) directory: LocatedFile,
    pub(crate) name: OsString,
}

/// How a link at the end of a path is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinalLink {
    /// Use the link's target.
    Follow,
    /// Use the link itself.
    NoFollow,
}

impl Roots {
    /// The metadata of a path. With `follow`, a link at its end is resolved; otherwise the metadata is that of the
    /// link.
    ///
    /// # Errors
    /// If the path does not exist, is not within the roots, or is neither file, directory nor link.
    pub fn resolve(&self, path: &Path, follow: bool) -> Result<FileMetadata, FileError> {
        if !follow {
            // For everything but a link both ways are equal, also for the roots themselves.
            match self
                .locate_target(path, FileAccess::Browse, FinalLink::NoFollow)
                .and_then(|place| place.link_metadata())
            {
                Ok(Some(facts)) => return Ok(facts),
                Ok(None) | Err(FileError::InvalidName(_) | FileError::Outside) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.open_with(LOCATE_METHODS, path, FileAccess::Browse)?.metadata())
    }

    /// Locates an entry that may or may not exist, within a root that grants `access`.
    pub(crate) fn locate_target(
        &self,
        path: &Path,
        access: FileAccess,
        last: FinalLink,
    ) -> Result<PathTarget, FileError> {
        let place = self.follow_final_links(path, last).map_err(|error| self.hide_outside_error(path, error))?;
        if !self.contains(&place.path(), access) {
            return Err(FileError::Outside);
        }
        if place.directory.handle.is_procfs()? {
            return Err(FileError::Special);
        }
        Ok(place)
    }

    /// Like [`Roots::locate_target`], for operations that change the parent directory. A root itself is refused.
    pub(crate) fn locate_child_target(&self, path: &Path, access: FileAccess) -> Result<PathTarget, FileError> {
        let place = self.locate_target(path, access, FinalLink::NoFollow)?;
        if self.contains(&place.directory.path, access) { Ok(place) } else { Err(FileError::Outside) }
    }

    /// Follows links at the end of a path one by one: each is a name in an open directory.
    fn follow_final_links(&self, path: &Path, last: FinalLink) -> Result<PathTarget, FileError> {
        let mut path = path.to_owned();
        for _ in 0..MAX_SYMLINKS {
            let (parent, name) = split_path(&path)?;
            let directory = self.locate_with(LOCATE_METHODS, parent)?;
            let place = PathTarget { directory, name: name.to_owned() };
            match place.read_link()? {
                Some(target) if last == FinalLink::Follow => path = place.directory.path.join(target),
                _ => return Ok(place),
            }
        }
        Err(Errno::LOOP.into())
    }
}

impl PathTarget {
    /// The path without links, unless the entry is a link.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path.join(&self.name)
    }

    /// The metadata of the entry; links are not followed.
    pub(crate) fn stat(&self) -> Result<Option<Stat>, FileError> {
        match rustix::fs::statat(&self.directory.handle, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the entry, a file or a directory.
    pub(crate) fn open(&self, roots: &Roots) -> Result<OpenedFile, FileError> {
        let handle = self.directory.handle.open_child(&self.name)?;
        roots.check_not_private(OpenedFile::new(LocatedFile { handle, path: self.path() })?)
    }

    fn read_link(&self) -> Result<Option<PathBuf>, FileError> {
        match rustix::fs::readlinkat(&self.directory.handle, &self.name, Vec::new()) {
            Ok(target) => Ok(Some(PathBuf::from(OsString::from_vec(target.into_bytes())))),
            // The entry does not exist, or is not a link.
            Err(Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The metadata of the entry if it is a link.
    fn link_metadata(&self) -> Result<Option<FileMetadata>, FileError> {
        let stat = self.stat()?.ok_or(FileError::NotFound)?;
        let facts = FileMetadata::from_stat(self.path(), &stat, None);
        Ok((facts.kind == EntryKind::Link).then_some(facts))
    }
}

/// Splits a path into its directory and the name in it.
fn split_path(path: &Path) -> Result<(&Path, &OsStr), FileError> {
    if !path.is_absolute() {
        return Err(FileError::Outside);
    }
    let bytes = path.as_os_str().as_bytes();
    if bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
        return Err(FileError::InvalidName("the path ends with a slash, as for a directory"));
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(FileError::InvalidName("the path does not end with a file name")),
    }
}
