//! Any Unix: an entry is within the roots if the same device and inode are found at a path without links.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, Stat};

use super::{FileHandle, LocatedFile, READ_FLAGS};
use crate::FileError;

pub(super) fn locate(path: &Path) -> Result<LocatedFile, FileError> {
    let readable = rustix::fs::open(path, READ_FLAGS, Mode::empty())?;
    let opened = rustix::fs::fstat(&readable)?;
    let path = canonicalize(path)?;
    let there = stat_without_links(&path)?;
    if (opened.st_dev, opened.st_ino) != (there.st_dev, there.st_ino) {
        return Err(FileError::Changed);
    }
    Ok(LocatedFile { handle: FileHandle::Readable(readable), path })
}

/// The metadata of a path without links, opened one component at a time. A link that was added meanwhile is not
/// followed.
fn stat_without_links(path: &Path) -> Result<Stat, FileError> {
    let flags = READ_FLAGS | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let mut directory = rustix::fs::open("/", flags, Mode::empty())?;
    let mut steps = path.components().filter(|step| matches!(step, Component::Normal(_))).peekable();
    while let Some(step) = steps.next() {
        let name = step.as_os_str();
        if steps.peek().is_none() {
            return Ok(rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?);
        }
        directory = rustix::fs::openat(&directory, name, flags, Mode::empty()).map_err(|_| FileError::Changed)?;
    }
    Ok(rustix::fs::fstat(&directory)?)
}

/// Opens an entry of a directory, if it is on the same device.
pub(super) fn open_beneath(directory: &impl AsFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, FileError> {
    let opened = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    if rustix::fs::fstat(&opened)?.st_dev != rustix::fs::fstat(directory)?.st_dev {
        return Err(FileError::MountPoint);
    }
    Ok(opened)
}

fn canonicalize(path: &Path) -> Result<PathBuf, FileError> {
    fs_err::canonicalize(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => FileError::NotFound,
        _ => FileError::Io(error),
    })
}
