//! Copies and removes whole trees by descriptors from the top down. Links are never followed, other file systems never
//! entered.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::locate::{FileHandle, LocatedFile, READ_FLAGS};
use crate::{EntryKind, FileError, FileKind, OpenedFile, Roots};

/// Limits of one tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeLimits {
    /// Maximum number of files, directories and links.
    pub entries: usize,
    /// Maximum size of all files together.
    pub bytes: u64,
    /// Maximum depth: every directory on the path to an entry is open at the same time.
    pub depth: usize,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self { entries: 200_000, bytes: 4 << 30, depth: 128 }
    }
}

/// The unused part of the limits.
struct TreeBudget {
    limits: TreeLimits,
    entries: usize,
    bytes: u64,
}

impl TreeBudget {
    fn new(limits: &TreeLimits) -> Self {
        Self { limits: *limits, entries: limits.entries, bytes: limits.bytes }
    }

    /// Counts one entry at this depth.
    fn take_entry(&mut self, depth: usize) -> Result<(), FileError> {
        if depth >= self.limits.depth {
            return Err(FileError::TooDeep(self.limits.depth));
        }
        self.entries = self.entries.checked_sub(1).ok_or(FileError::TooMany(self.limits.entries))?;
        Ok(())
    }
}

/// Copies the entries of a directory into an empty one.
pub(crate) fn copy_tree(roots: &Roots, from: FileHandle, into: &OwnedFd, limits: &TreeLimits) -> Result<(), FileError> {
    copy_directory(roots, from, into, &mut TreeBudget::new(limits), 0).map_err(|error| match error {
        // The error states the limit, not the unused part of it.
        FileError::TooMany(_) => FileError::TooMany(limits.entries),
        FileError::TooLarge(_) => FileError::TooLarge(limits.bytes),
        error => error,
    })
}

fn copy_directory(
    roots: &Roots,
    from: FileHandle,
    into: &OwnedFd,
    budget: &mut TreeBudget,
    depth: usize,
) -> Result<(), FileError> {
    let directory = from.try_clone()?;
    for entry in from.list(budget.entries)? {
        budget.take_entry(depth)?;
        let open = || {
            let handle = directory.open_child(&entry.name)?;
            roots.check_not_private(OpenedFile::new(LocatedFile { handle, path: PathBuf::new() })?)
        };
        match entry.kind {
            EntryKind::File => {
                let file = open()?;
                let mode = permission_bits(file.stat().st_mode);
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let copy = File::from(rustix::fs::openat(into, &entry.name, flags, Mode::RUSR | Mode::WUSR)?);
                budget.bytes -= copy_file(file, &copy, budget.bytes)?;
                rustix::fs::fchmod(&copy, mode)?;
            }
            EntryKind::Directory => {
                let child = open()?;
                let mode = permission_bits(child.stat().st_mode);
                rustix::fs::mkdirat(into, &entry.name, Mode::RWXU)?;
                let copy = open_new_directory(into, &entry.name)?;
                copy_directory(roots, child.into_handle(), &copy, budget, depth + 1)?;
                rustix::fs::fchmod(&copy, mode)?;
            }
            EntryKind::Link => {
                let target = rustix::fs::readlinkat(&directory, &entry.name, Vec::new())?;
                rustix::fs::symlinkat(target, into, &entry.name)?;
            }
            EntryKind::Special => return Err(FileError::Special),
        }
    }
    Ok(())
}

/// Copies a file of at most `most` bytes; returns the number of bytes.
pub(crate) fn copy_file(from: OpenedFile, mut into: &File, most: u64) -> Result<u64, FileError> {
    if from.resolved().kind != FileKind::File {
        return Err(FileError::Changed);
    }
    let from = File::from(from.into_handle().into_readable()?);
    let copied = io::copy(&mut (&from).take(most), &mut into)?;
    // The file is larger than `most`.
    if (&from).take(1).read(&mut [0])? > 0 {
        return Err(FileError::TooLarge(most));
    }
    Ok(copied)
}

/// Maximum depth of a tree that is removed.
const MAX_REMOVE_DEPTH: usize = 512;

/// Removes an entry of a directory, with everything below it.
pub(crate) fn remove_tree(directory: impl AsFd, name: &OsStr) -> Result<(), FileError> {
    remove_entry(&directory, name, 0)
}

fn remove_entry(directory: &impl AsFd, name: &OsStr, depth: usize) -> Result<(), FileError> {
    if depth >= MAX_REMOVE_DEPTH {
        return Err(FileError::TooDeep(MAX_REMOVE_DEPTH));
    }
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Ok(rustix::fs::unlinkat(directory, name, AtFlags::empty())?);
    }
    let child = FileHandle::open_directory(directory, name)?;
    for entry in child.try_clone()?.list(usize::MAX)? {
        match remove_entry(&child, &entry.name, depth + 1) {
            // Another process has removed it.
            Err(FileError::NotFound) => {}
            removed => removed?,
        }
    }
    Ok(rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?)
}

/// Opens a directory that was just created.
fn open_new_directory(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(directory, name, READ_FLAGS | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
}

/// Permissions for a copy, without set-user-ID, set-group-ID and sticky bits.
pub(crate) fn permission_bits(mode: rustix::fs::RawMode) -> Mode {
    Mode::from_raw_mode(mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO)
}
