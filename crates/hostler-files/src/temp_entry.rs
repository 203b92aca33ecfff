//! New entries under temporary names, and moving them to their final names.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::path_target::PathTarget;
use crate::{FileError, tree};

/// Prefix of temporary names.
const TEMP_NAME_PREFIX: &str = ".hostler-new-";

/// Whether a name is temporary. Such an entry is short-lived, or remained after a host crashed.
pub fn is_temp_name(name: &OsStr) -> bool {
    name.as_bytes().starts_with(TEMP_NAME_PREFIX.as_bytes())
}

/// A new entry with a temporary name. It is removed on drop unless it was moved to its final name.
#[derive(Debug)]
pub(crate) struct TempEntry<'a> {
    directory: BorrowedFd<'a>,
    name: OsString,
}

impl<'a> TempEntry<'a> {
    /// Creates an empty file. The process's umask applies to the mode.
    pub(crate) fn create_file(directory: BorrowedFd<'a>, mode: Mode) -> Result<(Self, File), FileError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let make = |name: &OsStr| rustix::fs::openat(directory, name, flags, mode);
        let (name, file) = create_with_unique_name(make)?;
        Ok((Self { directory, name }, File::from(file)))
    }

    /// Creates an empty directory that only its owner can access.
    pub(crate) fn create_directory(directory: BorrowedFd<'a>) -> Result<(Self, OwnedFd), FileError> {
        let (name, ()) = create_with_unique_name(|name| rustix::fs::mkdirat(directory, name, Mode::RWXU))?;
        let fresh = Self { directory, name };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(directory, &fresh.name, flags, Mode::empty())?;
        Ok((fresh, opened))
    }

    /// Moves the entry to its final name, replacing and removing an existing entry.
    pub(crate) fn persist_replacing(self, place: &PathTarget) -> Result<(), FileError> {
        replace(self.directory, &self.name, place)
    }

    /// Moves the entry to its final name, unless that exists.
    pub(crate) fn persist_new(self, place: &PathTarget) -> Result<(), FileError> {
        create(self.directory, &self.name, place)
    }
}

impl Drop for TempEntry<'_> {
    fn drop(&mut self) {
        // After a move the temporary name no longer exists. An entry that cannot be removed is recognizable by its
        // name.
        let _ = tree::remove_tree(self.directory, &self.name);
    }
}

/// Creates an entry under an unused temporary name.
fn create_with_unique_name<T>(make: impl Fn(&OsStr) -> Result<T, Errno>) -> Result<(OsString, T), FileError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!("{TEMP_NAME_PREFIX}{}-{number}", std::process::id()));
        match make(&name) {
            Ok(made) => return Ok((name, made)),
            // The name remained from an earlier host with the same process id.
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Moves an entry to its target. An existing target is replaced in one step, and then removed.
pub(crate) fn replace(directory: impl AsFd + Copy, name: &OsStr, place: &PathTarget) -> Result<(), FileError> {
    let target = &place.directory.handle;
    match rustix::fs::renameat(directory, name, target, &place.name) {
        // One of the two is a directory: they are exchanged first.
        Err(Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR) => {
            rustix::fs::renameat_with(directory, name, target, &place.name, RenameFlags::EXCHANGE)?;
            tree::remove_tree(directory, name)
        }
        renamed => Ok(renamed?),
    }
}

/// Moves an entry to a target that does not exist.
pub(crate) fn create(directory: impl AsFd + Copy, name: &OsStr, place: &PathTarget) -> Result<(), FileError> {
    let target = &place.directory.handle;
    match rustix::fs::renameat_with(directory, name, target, &place.name, RenameFlags::NOREPLACE) {
        // Not every file system supports `RENAME_NOREPLACE`. A hard link does not replace an existing entry either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(directory, name, target, &place.name, AtFlags::empty())?;
            Ok(rustix::fs::unlinkat(directory, name, AtFlags::empty())?)
        }
        renamed => Ok(renamed?),
    }
}
