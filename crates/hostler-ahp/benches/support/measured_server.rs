//! A server in a process of its own, with its CPU time and memory.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::servers::{FanOut, ServerKind};

/// A server; it ends when this is dropped.
pub(crate) struct MeasuredServer {
    child: Child,
    orders: ChildStdin,
    reports: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl MeasuredServer {
    pub(crate) fn start(kind: ServerKind) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args(["--serve", kind.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let orders = child.stdin.take().expect("a pipe");
        let mut reports = BufReader::new(child.stdout.take().expect("a pipe"));
        let address = next_line(&mut reports).parse().expect("an address");
        Self { child, orders, reports, address }
    }

    /// Starts a fan-out to all connections; returns the bytes that each receives.
    pub(crate) fn fan_out(&mut self, order: FanOut) -> usize {
        writeln!(self.orders, "{} {} {}", order.messages, order.bytes, order.gap_ms).expect("the server reads");
        next_line(&mut self.reports).parse().expect("a number of bytes")
    }

    /// Returns the CPU time of all threads.
    pub(crate) fn processor_time(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("the server is alive");
        let spent = tasks.map(|task| {
            let path = task.expect("a task").path().join("schedstat");
            let text = std::fs::read_to_string(path).expect("a task");
            text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse::<u64>().ok()).expect("nanoseconds")
        });
        Duration::from_nanos(spent.sum())
    }

    /// Returns the memory that is not a part of a file, in KiB.
    pub(crate) fn anonymous_kib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("the server is alive");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Drop for MeasuredServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn next_line(reports: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    reports.read_line(&mut line).expect("the server reports");
    line.trim().to_owned()
}
