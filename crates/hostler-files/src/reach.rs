//! Opens whatever a path leads to, and asks the system where that is.
//!
//! Nothing is read and nobody is waited for: a pipe without a writer and a terminal are opened like anything else.

#[cfg(target_os = "linux")]
mod descriptor;
mod identity;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::FileError;

/// How a descriptor is opened that contents are read from: it never waits, and never becomes our terminal.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

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
