//! Systems without subreapers and `/proc`: only the agent's process group can be ended.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::openpty;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::{AdoptedChild, WakeReason};

/// How often children are polled: no call here waits for a child and a socket at once in a single-threaded process.
const CHILD_POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(())
}

pub(crate) fn hide_memory() -> io::Result<()> {
    Ok(())
}

pub(crate) fn die_with_parent() -> nix::Result<()> {
    Ok(())
}

/// Both ends of a new terminal, the host's (nonblocking) first.
pub(crate) fn open_pty() -> io::Result<(OwnedFd, OwnedFd)> {
    let ends = openpty(None, None)?;
    for end in [&ends.master, &ends.slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    fcntl(&ends.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((ends.master, ends.slave))
}

/// Sends `signal` to the agent and its process group.
pub(crate) fn signal_tree(agent: Option<Pid>, signal: Signal) {
    if let Some(agent) = agent {
        let _ = killpg(agent, signal);
        let _ = kill(agent, signal);
    }
}

/// Without subreapers no child is adopted.
pub(crate) fn adopted_children(_is_own: impl Fn(Pid) -> bool) -> Vec<AdoptedChild> {
    Vec::new()
}

pub(crate) fn has_exited_child() -> bool {
    false
}

pub(crate) struct Wakeups;

impl Wakeups {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn wait(&self, lifeline: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> io::Result<WakeReason> {
        let mut watched: Vec<_> = lifeline.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).into_iter().collect();
        let timeout = timeout.map_or(CHILD_POLL_INTERVAL, |timeout| timeout.min(CHILD_POLL_INTERVAL));
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::ZERO);
        match poll(&mut watched, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let lifeline_readable = watched.first().and_then(PollFd::any).unwrap_or(false);
        Ok(WakeReason { lifeline_readable, stop_requested: false })
    }
}
