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
pub(crate) const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Something that is open, and where it is.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) handle: Handle,
    /// Without links. True of the moment at which the system was asked.
    pub(crate) path: PathBuf,
}

/// A descriptor of something that was opened.
#[derive(Debug)]
pub(crate) enum Handle {
    /// It only says which file is meant.
    #[cfg(target_os = "linux")]
    Place(OwnedFd),
    /// It can be read from.
    Readable(OwnedFd),
}

impl Handle {
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        match self {
            #[cfg(target_os = "linux")]
            Self::Place(place) => place,
            Self::Readable(readable) => readable,
        }
    }

    /// What a directory holds under a name, be it a link, and nothing that is mounted there.
    pub(crate) fn child(&self, name: &OsStr) -> Result<Self, FileError> {
        Ok(match self {
            #[cfg(target_os = "linux")]
            Self::Place(place) => Self::Place(beneath(place, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC)?),
            Self::Readable(directory) => Self::Readable(beneath(directory, name, READ | OFlags::NOFOLLOW)?),
        })
    }

    /// A directory that is in another one under a name, and not mounted there.
    pub(crate) fn directory(parent: impl AsFd, name: &OsStr) -> Result<Self, FileError> {
        let flags = READ | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let opened = beneath(parent, name, flags)?;
        Ok(Self::Readable(opened))
    }

    /// Another handle of the same thing.
    pub(crate) fn again(&self) -> Result<Self, FileError> {
        Ok(match self {
            #[cfg(target_os = "linux")]
            Self::Place(place) => Self::Place(place.try_clone()?),
            Self::Readable(readable) => Self::Readable(readable.try_clone()?),
        })
    }

    /// Whether it is a file by name only: an environment, the memory or a descriptor of a process, perhaps our own.
    pub(crate) fn is_of_processes(&self) -> Result<bool, FileError> {
        #[cfg(target_os = "linux")]
        return Ok(rustix::fs::fstatfs(self.descriptor())?.f_type == rustix::fs::PROC_SUPER_MAGIC);
        #[cfg(not(target_os = "linux"))]
        Ok(false)
    }

    /// A descriptor of the same file that can be read from.
    pub(crate) fn readable(self) -> Result<OwnedFd, FileError> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Place(place) => descriptor::reopen(&place),
            Self::Readable(readable) => Ok(readable),
        }
    }
}

/// Opens what is in a directory under a name of one part, on the same file system.
fn beneath(directory: impl AsFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, FileError> {
    #[cfg(target_os = "linux")]
    if let Some(opened) = descriptor::beneath(&directory, name, flags) {
        return opened;
    }
    identity::beneath(&directory, name, flags)
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor().as_fd()
    }
}

/// How the place of something is found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The system says where a descriptor leads.
    #[cfg(target_os = "linux")]
    Descriptor,
    /// What is at the resolved path is compared with what was opened.
    Identity,
}

/// Every way that this system knows, the best one first.
pub(crate) const WAYS: &[Way] = &[
    #[cfg(target_os = "linux")]
    Way::Descriptor,
    Way::Identity,
];

impl Way {
    /// `None` if the system does not offer this way.
    pub(crate) fn reach(self, path: &Path) -> Result<Option<Reached>, FileError> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Descriptor => descriptor::reach(path),
            Self::Identity => identity::reach(path).map(Some),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_in_a_tree_is_no_part_of_it() {
        for way in WAYS {
            let top = way.reach(Path::new("/")).unwrap().unwrap().handle;
            let name = OsStr::new("proc");
            assert!(matches!(top.child(name), Err(FileError::Mounted)), "{way:?}");
            assert!(matches!(Handle::directory(&top, name), Err(FileError::Mounted)), "{way:?}");
        }
    }
}
