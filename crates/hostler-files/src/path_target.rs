use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use crate::locate::{LOCATE_METHODS, LocatedFile};
use crate::{EntryKind, FileAccess, FileError, FileMetadata, OpenedFile, Roots};

/// How many links may lead to one file, as the system has it.
const MAX_SYMLINKS: usize = 40;

/// A name in a directory that is open: where something is, or could be.
#[derive(Debug)]
pub(crate) struct PathTarget {
    pub(crate) directory: LocatedFile,
    pub(crate) name: OsString,
}

/// What becomes of a link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinalLink {
    /// Where it leads is meant.
    Follow,
    /// It is meant itself.
    Keep,
}

impl Roots {
    /// All that is told of what is at a path; a link at its end is followed, or told of itself.
    ///
    /// # Errors
    /// If there is nothing, if it is not within the roots, or if it is neither file, directory nor link.
    pub fn resolve(&self, path: &Path, follow: bool) -> Result<FileMetadata, FileError> {
        if !follow {
            // What is no link is the same either way, the roots themselves included.
            match self.locate_target(path, FileAccess::Browse, FinalLink::Keep).and_then(|place| place.link_metadata())
            {
                Ok(Some(facts)) => return Ok(facts),
                Ok(None) | Err(FileError::InvalidName(_) | FileError::Outside) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.open_with(LOCATE_METHODS, path, FileAccess::Browse)?.metadata())
    }

    /// Where something is or could be, within a root that allows so much.
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

    /// As [`Roots::place`], where the directory itself is what changes: a root is not part of itself.
    pub(crate) fn locate_child_target(&self, path: &Path, access: FileAccess) -> Result<PathTarget, FileError> {
        let place = self.locate_target(path, access, FinalLink::Keep)?;
        if self.contains(&place.directory.path, access) { Ok(place) } else { Err(FileError::Outside) }
    }

    /// Follows links at the end of a path, one by one: each is a name in a directory that is open.
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
    /// Without links, if what is there is none.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path.join(&self.name)
    }

    /// What is there, links not followed.
    pub(crate) fn stat(&self) -> Result<Option<Stat>, FileError> {
        match rustix::fs::statat(&self.directory.handle, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The file or directory that is there.
    pub(crate) fn open(&self, roots: &Roots) -> Result<OpenedFile, FileError> {
        let handle = self.directory.handle.open_child(&self.name)?;
        roots.check_not_private(OpenedFile::new(LocatedFile { handle, path: self.path() })?)
    }

    fn read_link(&self) -> Result<Option<PathBuf>, FileError> {
        match rustix::fs::readlinkat(&self.directory.handle, &self.name, Vec::new()) {
            Ok(target) => Ok(Some(PathBuf::from(OsString::from_vec(target.into_bytes())))),
            // There is nothing, or it is no link.
            Err(Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What is told of a link that is there.
    fn link_metadata(&self) -> Result<Option<FileMetadata>, FileError> {
        let stat = self.stat()?.ok_or(FileError::NotFound)?;
        let facts = FileMetadata::from_stat(self.path(), &stat, None);
        Ok((facts.kind == EntryKind::Link).then_some(facts))
    }
}

/// A path's directory, and the name in it.
fn split_path(path: &Path) -> Result<(&Path, &OsStr), FileError> {
    if !path.is_absolute() {
        return Err(FileError::Outside);
    }
    let bytes = path.as_os_str().as_bytes();
    if bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
        return Err(FileError::InvalidName("the path ends like a directory's"));
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(FileError::InvalidName("the path ends with no name")),
    }
}
