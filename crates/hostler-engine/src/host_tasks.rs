//! `HostTasks`: the host's tasks beside the sessions' own ones, and the order of its shutdown. Knows no task's work.

use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tasks that the host waits for before it ends.
#[derive(Default)]
pub(crate) struct HostTasks {
    tracker: TaskTracker,
    /// Cancelled when the host shuts down: nothing new starts.
    stop: CancellationToken,
    shutdown: OnceCell<()>,
}

impl HostTasks {
    /// Starts a task that the shutdown waits for.
    pub(crate) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tracker.spawn(task)
    }

    /// Starts a task that ends with the host at the latest.
    pub(crate) fn spawn_until_stopped(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move { stop.run_until_cancelled(task).await });
    }

    /// Starts a blocking function that the shutdown waits for.
    pub(crate) fn spawn_blocking<T: Send + 'static>(&self, task: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        self.tracker.spawn_blocking(task)
    }

    /// Whether the host shuts down: nothing new starts.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Waits until the host shuts down.
    pub(crate) async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Waits for a future; `None` if the host shuts down first.
    pub(crate) async fn run_until_stopped<F: Future>(&self, future: F) -> Option<F::Output> {
        self.stop.run_until_cancelled(future).await
    }

    /// A token that is cancelled when the host shuts down, for tasks that must not hold the host.
    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Ends what ends with the host.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until all tasks have ended. Later tasks are not waited for.
    pub(crate) async fn wait(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Runs the shutdown once; every other caller waits for it.
    pub(crate) async fn shut_down_once<F: Future<Output = ()>>(&self, shutdown: impl FnOnce() -> F) {
        self.shutdown.get_or_init(shutdown).await;
    }
}
