//! Deletions that the blob collector has the writer carry out between two batches.

use std::sync::mpsc::{SyncSender, sync_channel};

use rusqlite::Connection;

use crate::sequencer::SequencerShared;
use crate::{StoreError, blob};

/// A small step, so that batches do not wait long behind it.
pub(crate) enum BlobCleanup {
    /// A session no longer refers to these, unless it did so after a sequence number.
    References { session: String, hashes: Vec<String>, until_seq: i64 },
    /// No session refers to these, unless one has done so since.
    Blobs(Vec<String>),
}

impl BlobCleanup {
    fn execute(&self, db: &mut Connection) -> Result<(), StoreError> {
        let tx = db.transaction()?;
        match self {
            Self::References { session, hashes, until_seq: until } => {
                blob::remove_references(&tx, session, hashes, *until)?
            }
            Self::Blobs(hashes) => {
                let bytes = blob::remove_orphans(&tx, hashes)?;
                tracing::info!(bytes, "removed unreferenced blobs");
            }
        }
        tx.commit()?;
        Ok(())
    }
}

/// A cleanup, and the sender that reports its end.
pub(crate) struct CleanupJob {
    cleanup: BlobCleanup,
    done: SyncSender<Result<(), StoreError>>,
}

impl CleanupJob {
    pub(crate) fn execute(self, db: &mut Connection) {
        // The collector may have stopped waiting.
        let _ = self.done.send(self.cleanup.execute(db));
    }
}

impl SequencerShared {
    /// Has the writer carry out a cleanup, and waits for it.
    pub(crate) fn run_cleanup(&self, cleanup: BlobCleanup) -> Result<(), StoreError> {
        let (done, outcome) = sync_channel(1);
        let mut inner = self.lock();
        if inner.is_stopping {
            return Err(StoreError::Stopped);
        }
        inner.cleanup_job = Some(CleanupJob { cleanup, done });
        drop(inner);
        self.writer_wake.notify_one();
        outcome.recv().map_err(|_| StoreError::Stopped)?
    }
}
