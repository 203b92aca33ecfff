//! One installer per build at a time, across processes.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use hostler_process::ProcessTreeLock;

/// Poll interval of a waiting installer. A blocking wait could not be cancelled.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The exclusive right to install one build; released when it is dropped or its process dies and all programs that
/// ran under it have ended.
#[derive(Debug)]
pub(super) struct BuildLock(File);

impl BuildLock {
    /// Waits for the lock; `waiting` is called once if another process holds it.
    pub(super) async fn acquire(path: &Path, waiting: impl FnOnce()) -> io::Result<Self> {
        let file = fs_err::OpenOptions::new().create(true).truncate(false).write(true).open(path)?.into_file();
        let mut waiting = Some(waiting);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            if let Some(notify) = waiting.take() {
                notify();
            }
            tokio::time::sleep(LOCK_POLL_INTERVAL).await;
        }
    }

    /// The lock for a supervisor. If this process is killed, the next installer waits until the remaining npm has
    /// stopped writing.
    pub(super) fn to_tree_lock(&self) -> io::Result<ProcessTreeLock> {
        self.0.try_clone().map(ProcessTreeLock::File)
    }
}
