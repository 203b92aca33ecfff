use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use crate::reach::{Reached, WAYS};
use crate::{Access, EntryKind, Facts, FileError, Opened, Roots};

/// How many links may lead to one file, as the system has it.
const MAX_LINKS: usize = 40;

/// A name in a directory that is open: where something is, or could be.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) directory: Reached,
    pub(crate) name: OsString,
}

/// What becomes of a link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
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
    pub fn resolve(&self, path: &Path, follow: bool) -> Result<Facts, FileError> {
        if !follow {
            // What is no link is the same either way, the roots themselves included.
            match self.place(path, Access::Browse, Last::Keep).and_then(|place| place.link_facts()) {
                Ok(Some(facts)) => return Ok(facts),
                Ok(None) | Err(FileError::Name(_) | FileError::Outside) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.open_by(WAYS, path, Access::Browse)?.facts())
    }

    /// Where something is or could be, within a root that allows so much.
    pub(crate) fn place(&self, path: &Path, access: Access, last: Last) -> Result<Place, FileError> {
        let place = self.settle(path, last).map_err(|error| self.discreet(path, error))?;
        if !self.hold(&place.path(), access) {
            return Err(FileError::Outside);
        }
        if place.directory.handle.is_of_processes()? {
            return Err(FileError::Special);
        }
        Ok(place)
    }

    /// As [`Roots::place`], where the directory itself is what changes: a root is not part of itself.
    pub(crate) fn place_within(&self, path: &Path, access: Access) -> Result<Place, FileError> {
        let place = self.place(path, access, Last::Keep)?;
        if self.hold(&place.directory.path, access) { Ok(place) } else { Err(FileError::Outside) }
    }

    /// Follows links at the end of a path, one by one: each is a name in a directory that is open.
    fn settle(&self, path: &Path, last: Last) -> Result<Place, FileError> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let (parent, name) = split(&path)?;
            let directory = self.reach_by(WAYS, parent)?;
            let place = Place { directory, name: name.to_owned() };
            match place.link()? {
                Some(target) if last == Last::Follow => path = place.directory.path.join(target),
                _ => return Ok(place),
            }
        }
        Err(Errno::LOOP.into())
    }
}

impl Place {
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
    pub(crate) fn open(&self, roots: &Roots) -> Result<Opened, FileError> {
        let handle = self.directory.handle.child(&self.name)?;
        roots.shared(Opened::new(Reached { handle, path: self.path() })?)
    }

    fn link(&self) -> Result<Option<PathBuf>, FileError> {
        match rustix::fs::readlinkat(&self.directory.handle, &self.name, Vec::new()) {
            Ok(target) => Ok(Some(PathBuf::from(OsString::from_vec(target.into_bytes())))),
            // There is nothing, or it is no link.
            Err(Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What is told of a link that is there.
    fn link_facts(&self) -> Result<Option<Facts>, FileError> {
        let stat = self.stat()?.ok_or(FileError::NotFound)?;
        let facts = Facts::of(self.path(), &stat, None);
        Ok((facts.kind == EntryKind::Link).then_some(facts))
    }
}

/// A path's directory, and the name in it.
fn split(path: &Path) -> Result<(&Path, &OsStr), FileError> {
    if !path.is_absolute() {
        return Err(FileError::Outside);
    }
    let bytes = path.as_os_str().as_bytes();
    if bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
        return Err(FileError::Name("the path ends like a directory's"));
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(FileError::Name("the path ends with no name")),
    }
}
