//! The supervisor: starts one agent, and ends the agent's whole tree.
//!
//! It runs as a process of its own, single-threaded, and knows nothing of tokio, conversations or what the agent says.

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

/// What the hidden `supervise` command runs. Call it before anything else in `main`: it closes every file that it does
/// not know, and it must be the only thread.
pub fn supervise_main() -> ExitCode {
    match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Until the agent runs, standard error is the one that the host shows; after that it leads nowhere.
            let _ = writeln!(io::stderr(), "hostler supervise: {error}");
            ExitCode::FAILURE
        }
    }
}

fn supervise() -> io::Result<()> {
    let mut inherited = InheritedFiles::take()?;
    // Its own session: the terminal's signals do not reach it, and the host can tell its own children from orphans.
    setsid()?;
    platform::hide_memory()?;
    platform::become_subreaper()?;
    signals::restore_default_sigchld()?;
    let wakeups = Wakeups::new()?;
    let Some(launch) = LaunchMessage::read_from(&mut inherited.lifeline)? else {
        return Ok(());
    };
    // A lock without a file of its own stays among what was inherited, to the end.
    let lock = launch.lock.clone().map(|path| inherited.lock(path));

    let started = agent::start_agent(&launch);
    // The agent alone holds the pipes: their ends mean what they say.
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
    // Freed before it is announced, so that whoever hears "empty" can lock the conversation.
    drop(lock);
    send_report(&inherited.lifeline, SupervisorReport::TreeEmpty);
    Ok(())
}

/// Tells the host, if there still is one.
fn send_report(mut lifeline: &UnixStream, report: SupervisorReport) {
    let _ = lifeline.write_all(format!("{report}\n").as_bytes());
}
