//! The files that a supervisor inherits: lifeline, lock and standard streams. All others are closed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockaddrLike, UnixAddr, getsockname};
use nix::unistd::{close, dup2_stderr, dup2_stdin, dup2_stdout};

use crate::lifeline::{LIFELINE_FD, LOCK_FD};
use crate::lock::ConversationLock;

/// Lists the open files of the calling process on every supported system.
const OPEN_FILES_DIRECTORY: &str = "/dev/fd";

pub(super) struct InheritedFiles {
    pub(super) lifeline: UnixStream,
    lock: Option<OwnedFd>,
}

impl InheritedFiles {
    /// Takes the lifeline and the lock, and closes every other file that the host's parents left open.
    pub(super) fn take() -> io::Result<Self> {
        for fd in list_open_descriptors()? {
            if fd > LOCK_FD {
                // The listing's own descriptor may be in the list; it is closed already.
                let _ = close(fd);
            }
        }
        if getsockname::<UnixAddr>(LIFELINE_FD).ok().and_then(|name| name.family()) != Some(AddressFamily::Unix) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "this command is internal to the host; run `hostler serve` instead",
            ));
        }
        Ok(Self {
            lifeline: UnixStream::from(take_descriptor(LIFELINE_FD)?),
            lock: is_open(LOCK_FD).then(|| take_descriptor(LOCK_FD)).transpose()?,
        })
    }

    /// The lock whose file is at `path`, held until it is dropped.
    pub(super) fn lock(&mut self, path: PathBuf) -> Option<ConversationLock> {
        let file = File::from(self.lock.take()?);
        Some(ConversationLock::inherited(file, path))
    }
}

/// Redirects the standard streams to `/dev/null`.
pub(super) fn redirect_standard_streams_to_null() -> io::Result<()> {
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(nothing.as_fd())?;
    dup2_stdout(nothing.as_fd())?;
    dup2_stderr(nothing.as_fd())?;
    Ok(())
}

fn list_open_descriptors() -> io::Result<Vec<RawFd>> {
    let names = std::fs::read_dir(OPEN_FILES_DIRECTORY)?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    Ok(names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
}

fn is_open(fd: RawFd) -> bool {
    std::fs::symlink_metadata(format!("{OPEN_FILES_DIRECTORY}/{fd}")).is_ok()
}

/// Takes ownership of an inherited file and sets close-on-exec, so that the agent does not inherit it.
#[expect(unsafe_code, reason = "inherited files are known by number only")]
fn take_descriptor(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the supervisor runs this first, on its only thread, once per number, after it has checked that the
    // number is open; so nothing else in this process owns it.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    fcntl(&owned, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    Ok(owned)
}
