//! The supervisor: starts one agent, and ends the agent's whole tree.
//!
//! It runs as a process of its own, single-threaded, and knows nothing of tokio, conversations or what the agent says.

mod agent;
mod inheritance;
mod tree;

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use nix::unistd::setsid;

use crate::lifeline::{Launch, Report};
use crate::platform::{self, Wakeups};
use crate::signals;
use inheritance::Inheritance;

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
    let mut inherited = Inheritance::take()?;
    // Its own session: the terminal's signals do not reach it, and the host can tell its own children from orphans.
    setsid()?;
    platform::hide_memory()?;
    platform::adopt_orphans()?;
    signals::notice_children()?;
    let wakeups = Wakeups::new()?;
    let Some(launch) = Launch::read_from(&mut inherited.lifeline)? else {
        return Ok(());
    };
    // A lock without a file of its own stays among what was inherited, to the end.
    let lock = launch.lock.clone().map(|path| inherited.lock(path));

    let started = agent::start(&launch);
    // The agent alone holds the pipes: their ends mean what they say.
    inheritance::let_go_of_standard_streams()?;
    let request = if launch.terminal { tree::HANG_UP } else { tree::REQUEST };
    drop(launch);
    let agent = match started {
        Ok(agent) => agent,
        Err(failure) => {
            drop(lock);
            report(&inherited.lifeline, failure);
            return Ok(());
        }
    };
    report(&inherited.lifeline, Report::Started { pid: agent.as_raw().unsigned_abs() });
    tree::watch_until_empty(agent, request, &inherited.lifeline, &wakeups)?;
    // Freed before it is announced, so that whoever hears "empty" can lock the conversation.
    drop(lock);
    report(&inherited.lifeline, Report::Empty);
    Ok(())
}

/// Tells the host, if there still is one.
fn report(mut lifeline: &UnixStream, report: Report) {
    let _ = lifeline.write_all(format!("{report}\n").as_bytes());
}
