//! Disk that a test stalls: everything that reads or writes it on a blocking thread hangs until the stall ends.
//!
//! The store's writer has a thread of its own and continues, so accepted actions are still committed.

use std::sync::mpsc;

use tokio::sync::oneshot;

/// Runs a test in a runtime with one blocking thread.
pub fn run_with_stallable_disk<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).max_blocking_threads(1).enable_all().build().expect("a runtime").block_on(test)
}

/// A stall of the disk, which ends when it is dropped.
pub struct StalledDisk {
    _end: mpsc::Sender<()>,
}

impl StalledDisk {
    /// Stalls the disk of a [`run_with_stallable_disk`] test: returns when its blocking thread hangs.
    pub async fn start() -> Self {
        let ((end, ended), (sender, hangs)) = (mpsc::channel(), oneshot::channel());
        tokio::task::spawn_blocking(move || {
            let _ = sender.send(());
            // Fails when the stall is dropped.
            let _ = ended.recv();
        });
        hangs.await.expect("the blocking thread runs");
        Self { _end: end }
    }
}
