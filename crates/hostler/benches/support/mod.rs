//! Shared parts of the benchmarks: the release host in its own directories.
#![allow(dead_code, unreachable_pub, reason = "each benchmark uses its own part")]

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;

/// Directories of a user.
pub struct BenchmarkHome(TempDir);

impl BenchmarkHome {
    pub fn new() -> Self {
        let home = Self(tempfile::tempdir().expect("a temporary directory"));
        for name in ["home", "work", "run", "claude"] {
            std::fs::create_dir(home.path(name)).expect("a directory");
        }
        home
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn serve(&self, args: &[&str]) -> BenchmarkHost {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").expect("a home")).join(".cache"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_hostler"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--no-token"])
            .args(args)
            .current_dir(self.path("work"))
            .env("XDG_CACHE_HOME", cache)
            .env("HOME", self.path("home"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("CLAUDE_CONFIG_DIR", self.path("claude"))
            .env("TMPDIR", self.path("run"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let started = Instant::now();
        let mut child = command.spawn().expect("the host starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let port = line.trim().strip_prefix("READY:").expect("READY").to_owned();
        BenchmarkHost { url: format!("ws://127.0.0.1:{port}/"), pid: child.id(), child, started }
    }
}

/// Running host; ended when dropped.
pub struct BenchmarkHost {
    pub url: String,
    pub pid: u32,
    pub started: Instant,
    child: Child,
}

impl Drop for BenchmarkHost {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.pid).unwrap_or_default());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

/// Returns the resident memory of a process in MiB.
pub fn resident_memory_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the host is alive");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a resident size");
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
    kilobytes / 1024.0
}

/// Returns the milliseconds between two times.
pub fn elapsed_ms(from: Instant, to: Instant) -> f64 {
    to.duration_since(from).as_secs_f64() * 1000.0
}
