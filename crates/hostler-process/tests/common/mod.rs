//! Runs shells as agents and inspects the process table.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use hostler_process::{AgentProcess, Environment, LineReader, SpawnSpec, SupervisorCommand};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub(crate) const TEST_BINARY: &str = env!("CARGO_BIN_EXE_hostler-process-test-supervisor");

/// A descendant that calls setsid, and one that does so after a double fork. Prints two pids.
pub(crate) const SETSID_CHILDREN: &str = "setsid sleep 1000 & echo $!\n(setsid sh -c 'echo $$; exec sleep 1000' &)\n";

/// The same, ignoring SIGTERM.
pub(crate) const STUBBORN_CHILDREN: &str =
    "trap '' TERM\nsetsid sleep 1000 & echo $!\n(setsid sh -c 'echo $$; exec sleep 1000' &)\n";

pub(crate) fn supervisor() -> SupervisorCommand {
    SupervisorCommand { program: TEST_BINARY.into(), args: vec!["supervise".into()] }
}

pub(crate) fn program(program: impl Into<PathBuf>, args: &[&str]) -> SpawnSpec {
    let path = std::env::var_os("PATH").unwrap();
    SpawnSpec {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        env: Environment::from_vars([("PATH".into(), path)]),
        cwd: "/".into(),
        supervisor: supervisor(),
        lock: None,
        redact: Vec::new(),
    }
}

pub(crate) fn shell(script: &str) -> SpawnSpec {
    program("/bin/sh", &["-c", script])
}

pub(crate) async fn start(script: &str) -> AgentProcess {
    hostler_process::spawn(shell(script)).await.unwrap()
}

pub(crate) async fn line(stdout: &mut LineReader) -> String {
    let line = stdout.next_line().await.unwrap().expect("the agent's output has ended");
    String::from_utf8(line.to_vec()).unwrap()
}

pub(crate) async fn all_lines(stdout: &mut LineReader) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(line) = stdout.next_line().await.unwrap() {
        lines.push(String::from_utf8(line.to_vec()).unwrap());
    }
    lines
}

/// Reads `count` pids that the agent prints.
pub(crate) async fn pids(stdout: &mut LineReader, count: usize) -> Vec<u32> {
    let mut pids = Vec::new();
    for _ in 0..count {
        pids.push(line(stdout).await.parse().unwrap());
    }
    pids
}

/// Whether the process exists, zombies included.
pub(crate) fn exists(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

pub(crate) fn assert_all_gone(pids: &[u32]) {
    for pid in pids {
        assert!(!exists(*pid), "process {pid} is still there");
    }
}

/// Waits until a condition holds; the test runner's timeout ends a wait in vain.
pub(crate) async fn until(mut fact: impl FnMut() -> bool) {
    while !fact() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
}

/// The parent of a process, from `/proc`.
pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The children of this process, zombies included.
pub(crate) fn own_children() -> Vec<u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|pid| parent_of(*pid) == Some(std::process::id()))
        .collect()
}

pub(crate) fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
