//! Handle of a running agent: pid, exit, stderr tail and termination.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::exit_report::ExitReport;
use crate::stderr_buffer::StderrBuffer;

/// How long an agent may take to exit after its standard input was closed.
const STDIN_CLOSE_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// How an agent is terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminationMode {
    /// The caller has closed the agent's standard input: wait up to two seconds for the exit, then as
    /// [`Now`](Self::Now).
    Graceful,
    /// SIGTERM to the whole tree, up to one second, then SIGKILL until the tree is empty.
    Now,
}

/// A running agent. Clones share it; dropping the last one ends the agent's tree.
#[derive(Clone)]
pub struct ProcessHandle {
    shared: Arc<HandleState>,
}

pub(crate) struct HandleState {
    pub(crate) pid: u32,
    pub(crate) stderr: Arc<StderrBuffer>,
    pub(crate) progress: watch::Receiver<ProcessProgress>,
    /// `true`, or dropped: end the tree.
    pub(crate) stop: watch::Sender<bool>,
}

/// What is known about an agent; facts are only added.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessProgress {
    /// The agent's pid, or why it did not start.
    pub(crate) start: Option<Result<u32, StartFailure>>,
    pub(crate) exit: Option<ExitReport>,
    /// The tree is empty, the supervisor has exited, and the lock is free.
    pub(crate) is_tree_empty: bool,
}

/// Why an agent did not start.
#[derive(Clone, Debug)]
pub(crate) enum StartFailure {
    Directory(i32),
    Program(i32),
    /// The supervisor failed; a description.
    Supervisor(String),
}

impl ProcessHandle {
    pub(crate) fn new(shared: HandleState) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// The agent's pid.
    pub fn pid(&self) -> u32 {
        self.shared.pid
    }

    /// The last 8 KiB of the agent's standard error, redacted. Complete once [`wait_for_exit`](Self::wait_for_exit)
    /// has resolved.
    pub fn stderr_tail(&self) -> String {
        self.shared.stderr.text()
    }

    /// Waits for the agent's own exit. Other processes of its tree may still run for a moment.
    pub async fn wait_for_exit(&self) -> ExitReport {
        let mut progress = self.shared.progress.clone();
        // An error means that the runtime is shutting down and the watcher has ended.
        match progress.wait_for(|progress| progress.exit.is_some()).await {
            Ok(progress) => progress.exit.unwrap_or(ExitReport::UNKNOWN),
            Err(_) => ExitReport::UNKNOWN,
        }
    }

    /// Waits until the tree is empty, the supervisor has exited, and the conversation's lock is free.
    pub async fn wait_until_tree_empty(&self) {
        let mut progress = self.shared.progress.clone();
        let _ = progress.wait_for(|progress| progress.is_tree_empty).await;
    }

    /// Ends the agent and its whole tree; returns when the tree is empty.
    ///
    /// May be called repeatedly and from several tasks; the most urgent mode applies.
    pub async fn close(&self, mode: TerminationMode) {
        if mode == TerminationMode::Graceful {
            let _ = tokio::time::timeout(STDIN_CLOSE_GRACE_PERIOD, self.wait_for_exit()).await;
        }
        self.shared.stop.send_replace(true);
        self.wait_until_tree_empty().await;
    }
}

impl fmt::Debug for ProcessHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessHandle").field("pid", &self.shared.pid).finish_non_exhaustive()
    }
}
