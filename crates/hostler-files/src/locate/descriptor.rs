//! Linux: an `O_PATH` descriptor does not affect the file, and `/proc` reports its path.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{FileHandle, LocatedFile, READ_FLAGS};
use crate::FileError;

pub(super) fn locate(path: &Path) -> Result<Option<LocatedFile>, FileError> {
    let place = open_path_only(path)?;
    // Without `/proc`, the other method is used.
    let Ok(path) = fs_err::read_link(proc_path(&place)) else { return Ok(None) };
    Ok(Some(LocatedFile { handle: FileHandle::PathOnly(place), path }))
}

/// Opens the same file for reading.
pub(super) fn reopen(place: &OwnedFd) -> Result<OwnedFd, FileError> {
    Ok(rustix::fs::open(proc_path(place), READ_FLAGS, Mode::empty())?)
}

/// Opens an entry of a directory. `None` if the kernel has no `openat2`, which can stay on one file system.
pub(super) fn open_beneath(directory: &impl AsFd, name: &OsStr, flags: OFlags) -> Option<Result<OwnedFd, FileError>> {
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    match rustix::fs::openat2(directory, name, flags, Mode::empty(), within) {
        Err(Errno::NOSYS | Errno::PERM) => None,
        Err(Errno::XDEV) => Some(Err(FileError::MountPoint)),
        opened => Some(opened.map_err(FileError::from)),
    }
}

fn open_path_only(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    // Magic links of `/proc` point at open files of other descriptors, without a path lookup.
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
        // An old kernel, or a seccomp filter that denies the call. The location is checked afterwards in any case.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::open(path, flags, Mode::empty()),
        opened => opened,
    }
}

fn proc_path(place: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", place.as_raw_fd()))
}
