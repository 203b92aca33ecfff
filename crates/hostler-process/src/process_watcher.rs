//! The host's side of one agent: a task that lives until the agent's tree is empty.
//!
//! It owns the lifeline, standard error, the supervisor's process and the host's copy of the lock, so that a caller
//! who drops everything early leaves nothing behind.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf, pipe};
use tokio::process::Child;
use tokio::sync::watch;

use crate::child_registry::RegisteredChild;
use crate::exit_report::ExitReport;
use crate::lifeline::{StartStep, SupervisorReport};
use crate::lines::LineReader;
use crate::lock::ProcessTreeLock;
use crate::orphans;
use crate::process_handle::{ProcessProgress, StartFailure};
use crate::stderr_buffer::StderrBuffer;

/// A process that reports nothing for so long is not our supervisor, even on a loaded machine.
const FIRST_REPORT_TIMEOUT: Duration = Duration::from_secs(30);

/// Longer than any report.
const MAX_REPORT_BYTES: usize = 256;

pub(crate) struct ProcessWatcher {
    pub(crate) supervisor: RegisteredChild<Child>,
    pub(crate) lifeline: tokio::net::UnixStream,
    pub(crate) launch: Vec<u8>,
    pub(crate) stderr: pipe::Receiver,
    pub(crate) stderr_buffer: Arc<StderrBuffer>,
    pub(crate) progress: watch::Sender<ProcessProgress>,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) lock: Option<ProcessTreeLock>,
}

impl ProcessWatcher {
    /// Watches until the tree is empty.
    pub(crate) async fn run(mut self) {
        let (reports, orders) = self.lifeline.into_split();
        let reader = ReportReader {
            lines: LineReader::with_limit(reports, MAX_REPORT_BYTES),
            stderr: &self.stderr,
            tail: &self.stderr_buffer,
            progress: &self.progress,
        };
        let emptied = tokio::select! {
            emptied = reader.publish_reports() => emptied,
            () = drive_lifeline(orders, self.launch, self.stop) => false,
            () = collect_stderr(&self.stderr, &self.stderr_buffer) => false,
        };
        if !emptied {
            // It has closed its lifeline and is of no more use: dead, dying, or not our supervisor.
            let _ = self.supervisor.child.start_kill();
        }
        let ended = self.supervisor.child.wait().await;
        if !emptied {
            orphans::kill_orphans().await;
        }
        drain_stderr(&self.stderr, &self.stderr_buffer);
        drop(self.supervisor);
        if let Some(ProcessTreeLock::Conversation(lock)) = &mut self.lock
            && !emptied
        {
            lock.reclaim_file();
        }
        drop(self.lock);
        self.progress.send_modify(|progress| {
            if progress.start.is_none() {
                progress.start = Some(Err(StartFailure::Supervisor(describe_failure(&ended, &self.stderr_buffer))));
            }
            // The kernel kills the agent together with its supervisor.
            progress.exit.get_or_insert(ExitReport::from_signal(Signal::SIGKILL as i32));
            progress.is_tree_empty = true;
        });
    }
}

/// Sends the launch, holds the lifeline open until the tree has to end, closes it, and then waits forever.
async fn drive_lifeline(mut lifeline: OwnedWriteHalf, launch: Vec<u8>, mut stop: watch::Receiver<bool>) {
    // If this fails the supervisor is gone, which the reading side detects as well.
    if lifeline.write_all(&launch).await.is_ok() {
        drop(launch);
        // A stop order, or the last handle was dropped.
        let _ = stop.wait_for(|stop| *stop).await;
    }
    drop(lifeline);
    std::future::pending().await
}

/// Collects standard error, and waits forever after its end.
async fn collect_stderr(stderr: &pipe::Receiver, tail: &StderrBuffer) {
    let mut chunk = vec![0; 8 * 1024];
    while stderr.readable().await.is_ok() {
        match stderr.try_read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => tail.push(chunk.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    std::future::pending().await
}

/// Reads everything that is in the pipe now. Asks the kernel, because the runtime may not have noticed the newest
/// bytes.
fn drain_stderr(stderr: &pipe::Receiver, tail: &StderrBuffer) {
    let mut chunk = vec![0; 8 * 1024];
    loop {
        match nix::unistd::read(stderr, &mut chunk) {
            Ok(length @ 1..) => tail.push(chunk.get(..length).unwrap_or_default()),
            Err(Errno::EINTR) => {}
            Ok(0) | Err(_) => return,
        }
    }
}

struct ReportReader<'a> {
    lines: LineReader<OwnedReadHalf>,
    stderr: &'a pipe::Receiver,
    tail: &'a StderrBuffer,
    progress: &'a watch::Sender<ProcessProgress>,
}

impl ReportReader<'_> {
    /// Publishes the supervisor's reports until the lifeline closes. Returns whether the last one was "empty", or
    /// whether the supervisor never started a tree.
    async fn publish_reports(mut self) -> bool {
        let Ok(Some(first)) = tokio::time::timeout(FIRST_REPORT_TIMEOUT, self.next_report()).await else {
            return false;
        };
        let mut report = Some(first);
        while let Some(news) = report {
            match news {
                SupervisorReport::Started { pid } => self.publish(|progress| progress.start = Some(Ok(pid))),
                SupervisorReport::Failed { step, errno } => {
                    let failure = match step {
                        StartStep::Directory => StartFailure::Directory(errno),
                        StartStep::Program => StartFailure::Program(errno),
                    };
                    self.publish(|progress| progress.start = Some(Err(failure)));
                    return true;
                }
                SupervisorReport::Exited(exit) => {
                    // A caller that sees the exit can read the complete stderr tail.
                    drain_stderr(self.stderr, self.tail);
                    self.publish(|progress| progress.exit = Some(exit));
                }
                SupervisorReport::TreeEmpty => return true,
            }
            report = self.next_report().await;
        }
        false
    }

    async fn next_report(&mut self) -> Option<SupervisorReport> {
        let line = self.lines.next_line().await.ok()??;
        std::str::from_utf8(&line).ok()?.parse().ok()
    }

    fn publish(&self, change: impl FnOnce(&mut ProcessProgress)) {
        self.progress.send_modify(change);
    }
}

fn describe_failure(ended: &io::Result<ExitStatus>, tail: &StderrBuffer) -> String {
    let status = match ended {
        Ok(status) => format!("it exited with {status} before it started the agent"),
        Err(error) => format!("failed to wait for it: {error}"),
    };
    match tail.text().trim() {
        "" => status,
        stderr => format!("{status}: {stderr}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::Redactor;
    use std::io::Write;

    #[tokio::test]
    async fn exit_is_published_with_a_complete_stderr_tail() {
        let (stderr, mut agent) = io::pipe().unwrap();
        let stderr = pipe::Receiver::from_owned_fd(stderr.into()).unwrap();
        let (host, mut supervisor) = tokio::net::UnixStream::pair().unwrap();
        let (progress, seen) = watch::channel(ProcessProgress::default());
        let tail = StderrBuffer::new(Redactor::new(Vec::new()));
        let reports = ReportReader {
            lines: LineReader::new(host.into_split().0),
            stderr: &stderr,
            tail: &tail,
            progress: &progress,
        };
        agent.write_all(b"last output").unwrap();
        supervisor.write_all(b"started 7\nexited code 1\nempty\n").await.unwrap();
        assert!(reports.publish_reports().await);
        assert_eq!(tail.text(), "last output");
        assert_eq!(seen.borrow().exit, Some(ExitReport::from_code(1)));
    }
}
