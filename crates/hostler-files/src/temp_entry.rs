use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::path_target::PathTarget;
use crate::{FileError, tree};

/// How the names begin under which something is made before it gets its own.
const TEMP_NAME_PREFIX: &str = ".hostler-new-";

/// Whether a name is one that is used while something is made. It is gone in a moment, or was left by a host that died.
pub fn is_temp_name(name: &OsStr) -> bool {
    name.as_bytes().starts_with(TEMP_NAME_PREFIX.as_bytes())
}

/// Something new in a directory that has no name of its own yet. Dropped without one, it is removed.
#[derive(Debug)]
pub(crate) struct TempEntry<'a> {
    directory: BorrowedFd<'a>,
    name: OsString,
}

impl<'a> TempEntry<'a> {
    /// An empty file. What the mode allows, the process's mask may take away.
    pub(crate) fn create_file(directory: BorrowedFd<'a>, mode: Mode) -> Result<(Self, File), FileError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let make = |name: &OsStr| rustix::fs::openat(directory, name, flags, mode);
        let (name, file) = create_with_unique_name(make)?;
        Ok((Self { directory, name }, File::from(file)))
    }

    /// An empty directory, for its owner alone.
    pub(crate) fn create_directory(directory: BorrowedFd<'a>) -> Result<(Self, OwnedFd), FileError> {
        let (name, ()) = create_with_unique_name(|name| rustix::fs::mkdirat(directory, name, Mode::RWXU))?;
        let fresh = Self { directory, name };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(directory, &fresh.name, flags, Mode::empty())?;
        Ok((fresh, opened))
    }

    /// Gives it its name. What has that name is replaced, and removed.
    pub(crate) fn persist_replacing(self, place: &PathTarget) -> Result<(), FileError> {
        replace(self.directory, &self.name, place)
    }

    /// Gives it its name, unless something has it.
    pub(crate) fn persist_new(self, place: &PathTarget) -> Result<(), FileError> {
        create(self.directory, &self.name, place)
    }
}

impl Drop for TempEntry<'_> {
    fn drop(&mut self) {
        // With a name of its own it is not there any more. What cannot be removed is called by what it is.
        let _ = tree::remove_tree(self.directory, &self.name);
    }
}

/// Finds a name that nothing has.
fn create_with_unique_name<T>(make: impl Fn(&OsStr) -> Result<T, Errno>) -> Result<(OsString, T), FileError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!("{TEMP_NAME_PREFIX}{}-{number}", std::process::id()));
        match make(&name) {
            Ok(made) => return Ok((name, made)),
            // An earlier host of the same number left it.
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Moves something to a place. What is there is replaced in one step, and removed.
pub(crate) fn replace(directory: impl AsFd + Copy, name: &OsStr, place: &PathTarget) -> Result<(), FileError> {
    let target = &place.directory.handle;
    match rustix::fs::renameat(directory, name, target, &place.name) {
        // A directory is replaced, or something by one: they change places first.
        Err(Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR) => {
            rustix::fs::renameat_with(directory, name, target, &place.name, RenameFlags::EXCHANGE)?;
            tree::remove_tree(directory, name)
        }
        renamed => Ok(renamed?),
    }
}

/// Moves something to a place where nothing is.
pub(crate) fn create(directory: impl AsFd + Copy, name: &OsStr, place: &PathTarget) -> Result<(), FileError> {
    let target = &place.directory.handle;
    match rustix::fs::renameat_with(directory, name, target, &place.name, RenameFlags::NOREPLACE) {
        // Not every file system can do that. A second name for a file cannot take another's place either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(directory, name, target, &place.name, AtFlags::empty())?;
            Ok(rustix::fs::unlinkat(directory, name, AtFlags::empty())?)
        }
        renamed => Ok(renamed?),
    }
}
