//! Opens the entry at a path, and determines the real path of what was opened.
//!
//! Nothing is read, and opening never blocks: a pipe without a writer and a terminal open like any other entry.

#[cfg(target_os = "linux")]
mod descriptor;
mod identity;

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::FileError;

/// Flags of a descriptor for reading contents: it never blocks and never becomes the controlling terminal.
pub(crate) const READ_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// An open entry and its real path.
#[derive(Debug)]
pub(crate) struct LocatedFile {
    pub(crate) handle: FileHandle,
    /// Without links; correct at the time of the query.
    pub(crate) path: PathBuf,
}

/// Descriptor of an open entry.
#[derive(Debug)]
pub(crate) enum FileHandle {
    /// It identifies the file, but cannot be read.
    #[cfg(target_os = "linux")]
    PathOnly(OwnedFd),
    /// It can be read.
    Readable(OwnedFd),
}

impl FileHandle {
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        match self {
            #[cfg(target_os = "linux")]
            Self::PathOnly(place) => place,
            Self::Readable(readable) => readable,
        }
    }

    /// Opens an entry of this directory. A link is opened itself; a mount point is an error.
    pub(crate) fn open_child(&self, name: &OsStr) -> Result<Self, FileError> {
        Ok(match self {
            #[cfg(target_os = "linux")]
            Self::PathOnly(place) => {
                Self::PathOnly(open_beneath(place, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC)?)
            }
            Self::Readable(directory) => Self::Readable(open_beneath(directory, name, READ_FLAGS | OFlags::NOFOLLOW)?),
        })
    }

    /// Opens a subdirectory of `parent`. A link or a mount point is an error.
    pub(crate) fn open_directory(parent: impl AsFd, name: &OsStr) -> Result<Self, FileError> {
        let flags = READ_FLAGS | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let opened = open_beneath(parent, name, flags)?;
        Ok(Self::Readable(opened))
    }

    /// Another handle of the same entry.
    pub(crate) fn try_clone(&self) -> Result<Self, FileError> {
        Ok(match self {
            #[cfg(target_os = "linux")]
            Self::PathOnly(place) => Self::PathOnly(place.try_clone()?),
            Self::Readable(readable) => Self::Readable(readable.try_clone()?),
        })
    }

    /// Whether the entry belongs to procfs: the environment, the memory or a descriptor of a process, possibly of this
    /// one.
    pub(crate) fn is_procfs(&self) -> Result<bool, FileError> {
        #[cfg(target_os = "linux")]
        return Ok(rustix::fs::fstatfs(self.descriptor())?.f_type == rustix::fs::PROC_SUPER_MAGIC);
        #[cfg(not(target_os = "linux"))]
        Ok(false)
    }

    /// A readable descriptor of the same file.
    pub(crate) fn into_readable(self) -> Result<OwnedFd, FileError> {
        match self {
            #[cfg(target_os = "linux")]
            Self::PathOnly(place) => descriptor::reopen(&place),
            Self::Readable(readable) => Ok(readable),
        }
    }
}

/// Opens an entry by a one-component name, on the same file system.
fn open_beneath(directory: impl AsFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, FileError> {
    #[cfg(target_os = "linux")]
    if let Some(opened) = descriptor::open_beneath(&directory, name, flags) {
        return opened;
    }
    identity::open_beneath(&directory, name, flags)
}

impl AsFd for FileHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor().as_fd()
    }
}

/// How the real path of an entry is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocateMethod {
    /// The kernel reports the path of a descriptor.
    #[cfg(target_os = "linux")]
    Descriptor,
    /// The entry at the canonical path is compared with the one that was opened.
    Identity,
}

/// Every method of this system, the best one first.
pub(crate) const LOCATE_METHODS: &[LocateMethod] = &[
    #[cfg(target_os = "linux")]
    LocateMethod::Descriptor,
    LocateMethod::Identity,
];

impl LocateMethod {
    /// `None` if the system does not support this method.
    pub(crate) fn locate(self, path: &Path) -> Result<Option<LocatedFile>, FileError> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Descriptor => descriptor::locate(path),
            Self::Identity => identity::locate(path).map(Some),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn opening_a_mount_point_is_an_error() {
        for way in LOCATE_METHODS {
            let top = way.locate(Path::new("/")).unwrap().unwrap().handle;
            let name = OsStr::new("proc");
            assert!(matches!(top.open_child(name), Err(FileError::MountPoint)), "{way:?}");
            assert!(matches!(FileHandle::open_directory(&top, name), Err(FileError::MountPoint)), "{way:?}");
        }
    }
}
