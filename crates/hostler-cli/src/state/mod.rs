//! State directory: private to the user, one host at a time, with a token and the address of the running host.

mod directory;
mod editor_announcement;
mod endpoint;
mod lock;
mod token;

use std::path::PathBuf;

use nix::sys::signal::kill;
use nix::unistd::Pid;

pub(crate) use directory::StateDir;
pub(crate) use editor_announcement::{EditorAnnouncement, editor_data_dirs};
pub(crate) use endpoint::{HostEndpoint, PublishedEndpoint, to_local_ip};
pub(crate) use lock::HostLock;
pub(crate) use token::{is_valid_token, read_token};

/// Returns whether a process with this id exists.
fn process_exists(pid: u32) -> bool {
    // Signal 0 only checks. A process of another user could not hold our lock.
    i32::try_from(pid).is_ok_and(|pid| pid > 0 && kill(Pid::from_raw(pid), None).is_ok())
}

/// Errors of the state directory.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// File system error.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Another user owns the directory.
    #[error("The state directory {0} belongs to another user. Choose another with --state-dir.")]
    ForeignOwner(PathBuf),
    /// The directory contains other files, and its permissions would have to change.
    #[error(
        "The directory {0} contains other files and is accessible to other users. Choose an empty directory with --state-dir."
    )]
    NotAStateDirectory(PathBuf),
    /// Another host runs on it.
    #[error(
        "Another host{} uses the state directory {path}. Stop it, or choose another directory with --state-dir.",
        .pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Process that holds the lock, if the lock file names it.
        pid: Option<u32>,
    },
    /// A token file does not contain a token.
    #[error(
        "{0} does not contain a valid token: one line of letters, digits, `_` and `-`. Remove the file to create a new token."
    )]
    BadToken(PathBuf),
}

impl StateError {
    /// Returns the code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io(_) => "ioError",
            Self::ForeignOwner(_) => "stateDirForeignOwner",
            Self::NotAStateDirectory(_) => "stateDirNotPrivate",
            Self::InUse { .. } => "stateDirInUse",
            Self::BadToken(_) => "invalidTokenFile",
        }
    }
}
