//! A running agent, as its driver sees it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::exit_report::ExitReport;
use crate::stderr_buffer::StderrBuffer;

/// How long an agent whose standard input is closed may take to finish.
const STDIN_CLOSE_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// How an agent is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminationMode {
    /// The caller has closed the agent's standard input: wait up to two seconds for its exit, then as [`Now`](Self::Now).
    Graceful,
    /// SIGTERM to the whole tree, up to one second, then SIGKILL until nothing is left.
    Now,
}

/// A running agent. Clones share it; when the last one is dropped, the agent's tree is ended.
#[derive(Clone)]
pub struct ProcessHandle {
    shared: Arc<HandleState>,
}

pub(crate) struct HandleState {
    pub(crate) pid: u32,
    pub(crate) stderr: Arc<StderrBuffer>,
    pub(crate) progress: watch::Receiver<ProcessProgress>,
    /// True, or gone: end the tree.
    pub(crate) stop: watch::Sender<bool>,
}

/// What is known about an agent; it only ever grows.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessProgress {
    /// The agent's process number, or why there is none.
    pub(crate) start: Option<Result<u32, StartFailure>>,
    pub(crate) exit: Option<ExitReport>,
    /// Nothing of the tree is left, the supervisor included, and the lock is free.
    pub(crate) is_tree_empty: bool,
}

/// Why an agent did not start.
#[derive(Clone, Debug)]
pub(crate) enum StartFailure {
    Directory(i32),
    Program(i32),
    /// In words.
    Supervisor(String),
}

impl ProcessHandle {
    pub(crate) fn new(shared: HandleState) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// The agent's process number.
    pub fn pid(&self) -> u32 {
        self.shared.pid
    }

    /// The last 8 KiB of the agent's standard error, without secrets. Complete once [`exited`](Self::exited) has
    /// resolved.
    pub fn stderr_tail(&self) -> String {
        self.shared.stderr.text()
    }

    /// Waits for the agent's own end. Processes that it has started may still be there for a moment.
    pub async fn wait_for_exit(&self) -> ExitReport {
        let mut progress = self.shared.progress.clone();
        // An error means that the runtime is being shut down and nobody is watching any more.
        match progress.wait_for(|progress| progress.exit.is_some()).await {
            Ok(progress) => progress.exit.unwrap_or(ExitReport::UNKNOWN),
            Err(_) => ExitReport::UNKNOWN,
        }
    }

    /// Waits until no process of the tree is left, the supervisor has ended, and the conversation's lock is free.
    pub async fn wait_until_tree_empty(&self) {
        let mut progress = self.shared.progress.clone();
        let _ = progress.wait_for(|progress| progress.is_tree_empty).await;
    }

    /// Ends the agent and everything that it has started; returns when the tree is empty.
    ///
    /// Calling it again, or from several tasks, is fine: the most impatient caller decides.
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
