//! Faults that are injected into processes from outside, by descriptors and signals.

use std::os::fd::OwnedFd;

use hostler_testkit::processes;
use nix::sys::signal::{Signal, kill};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// Kills the newest agent of a host; `false` if it has none.
pub(crate) fn kill_agent(host: u32) -> bool {
    agent(host).is_some_and(kill_now)
}

pub(crate) fn kill_supervisor(host: u32) -> bool {
    processes::supervisor_processes(host).last().is_some_and(|supervisor| kill_now(supervisor.pid))
}

fn kill_now(pid: u32) -> bool {
    kill(nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).is_ok()
}

/// Writes invalid lines between the agent's own; `false` if there is no agent.
pub(crate) fn write_malformed(host: u32) -> bool {
    const LINES: &[u8] = b"this is not JSON\n{\"type\":\"stream_event\",\"event\":\n\n[7]\n{\"type\":\"assistant\",\"message\":7}\n\xff\xfe\n";
    let Some(stdout) = agent(host).and_then(|agent| descriptor(agent, 1)) else { return false };
    rustix::io::write(stdout, LINES).is_ok_and(|written| written == LINES.len())
}

/// Breaks every connection between the agent and the gateway; `false` if there was none.
pub(crate) fn cut_gateway(host: u32) -> bool {
    let Some(agent) = agent(host) else { return false };
    let Ok(entries) = std::fs::read_dir(format!("/proc/{agent}/fd")) else { return false };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut cut = false;
    for socket in numbers.filter_map(|number| descriptor(agent, number)) {
        let peer = rustix::net::getpeername(&socket).ok().flatten();
        let peer = peer.and_then(|peer| std::net::SocketAddr::try_from(peer).ok());
        if peer.is_some_and(|peer| peer.ip().is_loopback()) {
            cut |= rustix::net::shutdown(&socket, rustix::net::Shutdown::Both).is_ok();
        }
    }
    cut
}

fn agent(host: u32) -> Option<u32> {
    // Orphaned children of the agent have the same parent, and a real agent rewrites its command line.
    let agents = processes::agent_processes(host);
    let named = agents.iter().rfind(|process| process.command.contains("--output-format"));
    named.or_else(|| agents.iter().min_by_key(|process| process.pid)).map(|process| process.pid)
}

/// Duplicates a descriptor of another process.
fn descriptor(pid: u32, number: i32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    pidfd_getfd(process, number, PidfdGetfdFlags::empty()).ok()
}
