//! Watches the agent's process tree and ends it.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::send_report;
use crate::exit_report::ExitReport;
use crate::lifeline::SupervisorReport;
use crate::platform::{self, Wakeups};

/// How long the tree may take to exit after SIGTERM.
const TERMINATE_GRACE_PERIOD: Duration = Duration::from_secs(1);

/// The signals that ask an agent's tree to exit.
pub(super) const TERMINATE_SIGNALS: &[Signal] = &[Signal::SIGTERM];

/// The same for a terminal's tree: interactive shells ignore SIGTERM, and a stopped job receives nothing until
/// SIGCONT.
pub(super) const TERMINAL_HANGUP_SIGNALS: &[Signal] = &[Signal::SIGHUP, Signal::SIGTERM, Signal::SIGCONT];

/// First interval between kills: a process may have forked while it was being killed.
const MIN_KILL_INTERVAL: Duration = Duration::from_millis(5);

/// Longest interval between kills: a process may be stuck in the kernel or belong to another user.
const MAX_KILL_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Clone, Copy)]
enum TreePhase {
    /// The agent runs.
    Running,
    /// The tree has been asked to exit.
    Terminating { deadline: Instant },
    /// The tree is being killed, again after `repeat`.
    Killing { repeat: Duration },
}

/// Returns when the tree is empty. Ends the tree when the lifeline closes, when the agent exits, or on a signal;
/// `request` lists the signals that ask the tree to exit.
pub(super) fn watch_until_empty(
    agent: Pid,
    request: &[Signal],
    lifeline: &UnixStream,
    wakeups: &Wakeups,
) -> io::Result<()> {
    let mut phase = TreePhase::Running;
    let mut living_agent = Some(agent);
    let mut listening = true;
    loop {
        match reap_children(agent)? {
            ReapResult::NoChildren(exit) => {
                if let Some(exit) = exit {
                    send_report(lifeline, SupervisorReport::Exited(exit));
                }
                return Ok(());
            }
            ReapResult::AgentExited(exit) => {
                send_report(lifeline, SupervisorReport::Exited(exit));
                living_agent = None;
                if let TreePhase::Running = phase {
                    phase = request_termination(living_agent, request);
                }
            }
            ReapResult::OthersRemain => {}
        }
        let timeout = match phase {
            TreePhase::Running => None,
            TreePhase::Terminating { deadline: until } => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    phase = TreePhase::Killing { repeat: MIN_KILL_INTERVAL };
                    continue;
                }
                Some(left)
            }
            TreePhase::Killing { repeat } => {
                platform::signal_tree(living_agent, Signal::SIGKILL);
                phase = TreePhase::Killing { repeat: (repeat * 2).min(MAX_KILL_INTERVAL) };
                Some(repeat)
            }
        };
        let wake = wakeups.wait(listening.then(|| lifeline.as_fd()), timeout)?;
        let host_is_done = wake.lifeline_readable && is_closed(lifeline);
        listening &= !host_is_done;
        if (host_is_done || wake.stop_requested)
            && let TreePhase::Running = phase
        {
            phase = request_termination(living_agent, request);
        }
    }
}

fn request_termination(agent: Option<Pid>, request: &[Signal]) -> TreePhase {
    for signal in request {
        platform::signal_tree(agent, *signal);
    }
    TreePhase::Terminating { deadline: Instant::now() + TERMINATE_GRACE_PERIOD }
}

enum ReapResult {
    /// Children remain; the agent was not reaped in this call.
    OthersRemain,
    /// The agent was reaped; children remain.
    AgentExited(ExitReport),
    /// No children remain. A subreaper without children has no descendants.
    NoChildren(Option<ExitReport>),
}

fn reap_children(agent: Pid) -> io::Result<ReapResult> {
    let mut exit = None;
    loop {
        match reap_one() {
            Ok(Some((pid, status))) if pid == agent => {
                exit = Some(ExitReport { code: status.code(), signal: status.signal() });
            }
            Ok(Some(_)) | Err(Errno::EINTR) => {}
            Ok(None) => return Ok(exit.map_or(ReapResult::OthersRemain, ReapResult::AgentExited)),
            Err(Errno::ECHILD) => return Ok(ReapResult::NoChildren(exit)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reaps any child that has exited, without waiting.
#[expect(unsafe_code, reason = "the safe waitpid fails on children that a real-time signal has ended")]
fn reap_one() -> nix::Result<Option<(Pid, ExitStatus)>> {
    let mut status = 0;
    // SAFETY: `status` has room for one int and lives as long as the call.
    let pid = Errno::result(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) })?;
    Ok((pid != 0).then(|| (Pid::from_raw(pid), ExitStatus::from_raw(status))))
}

/// The host sends nothing after the launch, so a readable lifeline is a closed one.
fn is_closed(mut lifeline: &UnixStream) -> bool {
    let mut byte = [0];
    !matches!(lifeline.read(&mut byte), Ok(1))
}
