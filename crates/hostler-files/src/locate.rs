//! Opens whatever a path leads to, and asks the system where that is.
//!
//! Nothing is read and nobody is waited for: a pipe without a writer and a terminal are opened like anything else.

#[cfg(target_os = "linux")]
mod descriptor;
mod identity;

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::FileError;

/// How a descriptor is opened that contents are read from: it never waits, and never becomes our terminal.
pub(crate) const READ_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Something that is open, and where it is.
#[derive(Debug)]
pub(crate) struct LocatedFile {
    pub(crate) handle: FileHandle,
    /// Without links. True of the moment at which the system was asked.
    pub(crate) path: PathBuf,
}

/// A descriptor of something that was opened.
#[derive(Debug)]
pub(crate) enum FileHandle {
    /// It only says which file is meant.
    #[cfg(target_os = "linux")]
    PathOnly(OwnedFd),
    /// It can be read from.
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

    /// What a directory holds under a name, be it a link, and nothing that is mounted there.
    pub(crate) fn open_child(&self, name: &OsStr) -> Result<Self, FileError> {
        Ok(match self {
            #[cfg(target_os = "linux")]
            Self::PathOnly(place) => {
                Self::PathOnly(open_beneath(place, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC)?)
            }
            Self::Readable(directory) => Self::Readable(open_beneath(directory, name, READ_FLAGS | OFlags::NOFOLLOW)?),
        })
    }

    /// A directory that is in another one under a name, and not mounted there.
    pub(crate) fn open_directory(parent: impl AsFd, name: &OsStr) -> Result<Self, FileError> {
        let flags = READ_FLAGS | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let opened = open_beneath(parent, name, flags)?;
        Ok(Self::Readable(opened))
    }

    /// Another handle of the same thing.
    pub(crate) fn try_clone(&self) -> Result<Self, FileError> {
        Ok(match self {
            #[cfg(target_os = "linux")]
            Self::PathOnly(place) => Self::PathOnly(place.try_clone()?),
            Self::Readable(readable) => Self::Readable(readable.try_clone()?),
        })
    }

    /// Whether it is a file by name only: an environment, the memory or a descriptor of a process, perhaps our own.
    pub(crate) fn is_procfs(&self) -> Result<bool, FileError> {
        #[cfg(target_os = "linux")]
        return Ok(rustix::fs::fstatfs(self.descriptor())?.f_type == rustix::fs::PROC_SUPER_MAGIC);
        #[cfg(not(target_os = "linux"))]
        Ok(false)
    }

    /// A descriptor of the same file that can be read from.
    pub(crate) fn into_readable(self) -> Result<OwnedFd, FileError> {
        match self {
            #[cfg(target_os = "linux")]
            Self::PathOnly(place) => descriptor::reopen(&place),
            Self::Readable(readable) => Ok(readable),
        }
    }
}

/// Opens what is in a directory under a name of one part, on the same file system.
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

/// How the place of something is found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocateMethod {
    /// The system says where a descriptor leads.
    #[cfg(target_os = "linux")]
    Descriptor,
    /// What is at the resolved path is compared with what was opened.
    Identity,
}

/// Every way that this system knows, the best one first.
pub(crate) const LOCATE_METHODS: &[LocateMethod] = &[
    #[cfg(target_os = "linux")]
    LocateMethod::Descriptor,
    LocateMethod::Identity,
];

impl LocateMethod {
    /// `None` if the system does not offer this way.
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
    fn what_is_mounted_in_a_tree_is_no_part_of_it() {
        for way in LOCATE_METHODS {
            let top = way.locate(Path::new("/")).unwrap().unwrap().handle;
            let name = OsStr::new("proc");
            assert!(matches!(top.open_child(name), Err(FileError::MountPoint)), "{way:?}");
            assert!(matches!(FileHandle::open_directory(&top, name), Err(FileError::MountPoint)), "{way:?}");
        }
    }
}
