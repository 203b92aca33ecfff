//! Linux: subreapers, `/proc`, `signalfd`.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::{AdoptedChild, WakeReason};

/// Orphaned descendants become this process's children instead of init's.
pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

/// Prevents other processes from reading this process's memory or environment.
pub(crate) fn hide_memory() -> io::Result<()> {
    Ok(prctl::set_dumpable(false)?)
}

/// The calling process is killed when the thread that started it ends. Async-signal-safe.
pub(crate) fn die_with_parent() -> nix::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)
}

/// Both ends of a new terminal, the host's (nonblocking) first. No program inherits either, and neither becomes the
/// controlling terminal of the calling process.
pub(crate) fn open_pty() -> io::Result<(OwnedFd, OwnedFd)> {
    let end = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)?;
    grantpt(&end)?;
    unlockpt(&end)?;
    // `OpenOptions` sets close-on-exec.
    let terminal = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(ptsname_r(&end)?)?;
    Ok((end.into(), terminal.into()))
}

/// Sends `signal` to the agent and to every descendant of the calling process.
///
/// The pid of a process that exits between listing and signalling could in theory be reused; the kernel assigns pids
/// in a circle, so a whole round would have to pass within microseconds.
pub(crate) fn signal_tree(agent: Option<Pid>, signal: Signal) {
    let found = ProcessTable::read().map(|table| table.descendants(Pid::this())).unwrap_or_default();
    let missed = agent.filter(|agent| !found.contains(agent));
    for pid in found.into_iter().chain(missed) {
        // It may have exited already.
        let _ = kill(pid, signal);
    }
}

/// The children that the calling process has adopted, each with its descendants: those in another session for which
/// `is_own` returns false.
pub(crate) fn adopted_children(is_own: impl Fn(Pid) -> bool) -> Vec<AdoptedChild> {
    let Ok(table) = ProcessTable::read() else {
        return Vec::new();
    };
    let Some(this) = table.get(Pid::this()) else {
        return Vec::new();
    };
    table
        .children(this.pid)
        .filter(|child| child.session != this.session && !is_own(child.pid))
        .map(|child| AdoptedChild { pid: child.pid, descendants: table.descendants(child.pid) })
        .collect()
}

/// Whether any child waits to be reaped.
pub(crate) fn has_exited_child() -> bool {
    let peek = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(waitid(Id::All, peek), Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD))
}

/// One process, as listed in `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: Pid,
    parent: Pid,
    session: Pid,
}

/// All processes at about one moment.
struct ProcessTable {
    processes: Vec<Process>,
}

impl ProcessTable {
    fn read() -> io::Result<Self> {
        let mut processes = Vec::new();
        for entry in std::fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A process that has exited meanwhile has no file.
            if let Ok(stat) = std::fs::read(format!("/proc/{pid}/stat")) {
                processes.extend(parse_stat(pid, &stat));
            }
        }
        Ok(Self { processes })
    }

    fn get(&self, pid: Pid) -> Option<&Process> {
        self.processes.iter().find(|process| process.pid == pid)
    }

    fn children(&self, parent: Pid) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(move |process| process.parent == parent)
    }

    /// Children, their children, and so on.
    fn descendants(&self, root: Pid) -> Vec<Pid> {
        let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
        for process in &self.processes {
            children.entry(process.parent).or_default().push(process.pid);
        }
        let mut found = children.remove(&root).unwrap_or_default();
        let mut next = 0;
        while let Some(pid) = found.get(next) {
            found.extend(children.remove(pid).unwrap_or_default());
            next += 1;
        }
        found
    }
}

/// `pid (name) state parent group session …`; the name may contain spaces and parentheses.
fn parse_stat(pid: i32, stat: &[u8]) -> Option<Process> {
    let after_name = stat.rsplit(|&byte| byte == b')').next()?;
    let mut fields = std::str::from_utf8(after_name).ok()?.split_ascii_whitespace().skip(1);
    let mut number = || fields.next()?.parse().ok().map(Pid::from_raw);
    let (parent, _group, session) = (number()?, number()?, number()?);
    Some(Process { pid: Pid::from_raw(pid), parent, session })
}

/// Lets a single-threaded supervisor wait for its children, its lifeline and signals at once.
pub(crate) struct Wakeups {
    signals: SignalFd,
}

impl Wakeups {
    /// Takes over the signals of the calling process.
    pub(crate) fn new() -> io::Result<Self> {
        let mut caught = SigSet::from(Signal::SIGCHLD);
        caught.extend([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT]);
        caught.thread_set_mask()?;
        Ok(Self { signals: SignalFd::with_flags(&caught, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)? })
    }

    /// Waits until something happens or `timeout` has passed. Spurious returns are fine.
    pub(crate) fn wait(&self, lifeline: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> io::Result<WakeReason> {
        let mut watched = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        watched.extend(lifeline.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
            // Rounded up, so that a deadline has passed when the wait ends.
            let rounded = timeout + Duration::from_millis(1);
            PollTimeout::try_from(rounded).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut watched, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = |index: usize| watched.get(index).and_then(PollFd::any).unwrap_or(false);
        let lifeline = ready(1);
        let mut stop_requested = false;
        while let Some(signal) = self.signals.read_signal()? {
            stop_requested |= signal.ssi_signo != Signal::SIGCHLD as u32;
        }
        Ok(WakeReason { lifeline_readable: lifeline, stop_requested })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_names_may_contain_spaces_and_parentheses() {
        let process = parse_stat(7, b"7 (a b) c) S 3 5 6 0 -1").unwrap();
        assert_eq!(process, Process { pid: Pid::from_raw(7), parent: Pid::from_raw(3), session: Pid::from_raw(6) });
        assert_eq!(parse_stat(7, b""), None);
        assert_eq!(parse_stat(7, b"7 (x) S 3"), None);
    }

    #[test]
    fn descendants_are_found_at_any_depth() {
        let row =
            |pid, parent| Process { pid: Pid::from_raw(pid), parent: Pid::from_raw(parent), session: Pid::from_raw(1) };
        let table = ProcessTable { processes: vec![row(9, 8), row(2, 1), row(8, 2), row(3, 1), row(5, 4), row(1, 0)] };
        let mut found = table.descendants(Pid::from_raw(1));
        found.sort();
        assert_eq!(found, [2, 3, 8, 9].map(Pid::from_raw));
    }

    #[test]
    fn this_process_is_in_the_table() {
        let table = ProcessTable::read().unwrap();
        assert_eq!(table.get(Pid::this()).unwrap().parent, Pid::parent());
    }
}
