//! The supervisor: starts one agent and ends the agent's whole process tree.
//!
//! It is a single-threaded process of its own and knows nothing of tokio, conversations or the agent's output.
//!
//! Shells that Claude Code starts leave its process group and session, so killing a group is not enough; the
//! supervisor adopts orphans. The agent holds the host's pipes directly. On the host's order, or when the lifeline
//! closes because the host died, the supervisor ends the tree: SIGTERM, one second, then SIGKILL, until no child
//! remains. It inherits the conversation's lock, so nothing resumes the conversation beside an agent that is being
//! ended. A program in a terminal has a session of its own and receives a hangup before it is killed.

mod agent;
mod inherited_files;
mod tree;

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use nix::unistd::setsid;

use crate::lifeline::{LaunchMessage, SupervisorReport};
use crate::platform::{self, Wakeups};
use crate::signals;
use inherited_files::InheritedFiles;

/// Runs the hidden `supervise` command. Call it before anything else in `main`: it closes every file that it does not
/// know, and it must run on the only thread.
pub fn supervise_main() -> ExitCode {
    match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Until the agent runs, the host displays this standard error; after that it is `/dev/null`.
            let _ = writeln!(io::stderr(), "hostler supervise: {error}");
            ExitCode::FAILURE
        }
    }
}

fn supervise() -> io::Result<()> {
    let mut inherited = InheritedFiles::take()?;
    // A session of its own: the terminal's signals do not reach it, and the host can distinguish its own children
    // from orphans.
    setsid()?;
    platform::hide_memory()?;
    platform::become_subreaper()?;
    signals::restore_default_sigchld()?;
    let wakeups = Wakeups::new()?;
    let Some(launch) = LaunchMessage::read_from(&mut inherited.lifeline)? else {
        return Ok(());
    };
    // A lock without a file of its own stays among the inherited files until the end.
    let lock = launch.lock.clone().map(|path| inherited.lock(path));

    let started = agent::start_agent(&launch);
    // Only the agent holds the pipes, so their end is the agent's.
    inherited_files::redirect_standard_streams_to_null()?;
    let request = if launch.terminal { tree::TERMINAL_HANGUP_SIGNALS } else { tree::TERMINATE_SIGNALS };
    drop(launch);
    let agent = match started {
        Ok(agent) => agent,
        Err(failure) => {
            drop(lock);
            send_report(&inherited.lifeline, failure);
            return Ok(());
        }
    };
    send_report(&inherited.lifeline, SupervisorReport::Started { pid: agent.as_raw().unsigned_abs() });
    tree::watch_until_empty(agent, request, &inherited.lifeline, &wakeups)?;
    // Released before it is reported, so that a host that receives "empty" can lock the conversation.
    drop(lock);
    send_report(&inherited.lifeline, SupervisorReport::TreeEmpty);
    Ok(())
}

/// Sends a report to the host, if it is still alive.
fn send_report(mut lifeline: &UnixStream, report: SupervisorReport) {
    let _ = lifeline.write_all(format!("{report}\n").as_bytes());
}
