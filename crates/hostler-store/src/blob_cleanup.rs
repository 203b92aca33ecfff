//! What the collector has the writer take away, between two batches.

use std::sync::mpsc::{SyncSender, sync_channel};

use rusqlite::Connection;

use crate::sequencer::SequencerShared;
use crate::{StoreError, blob};

/// A small step: nobody waits long behind it.
pub(crate) enum BlobCleanup {
    /// A session does not name these any more, unless it has done so after a number.
    References { session: String, hashes: Vec<String>, until_seq: i64 },
    /// No session names these, unless one has done so since.
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
                tracing::info!(bytes, "contents that nothing names any more are removed");
            }
        }
        tx.commit()?;
        Ok(())
    }
}

/// A sweep, and who waits for it.
pub(crate) struct CleanupJob {
    cleanup: BlobCleanup,
    done: SyncSender<Result<(), StoreError>>,
}

impl CleanupJob {
    pub(crate) fn execute(self, db: &mut Connection) {
        // Who ordered it may have given up.
        let _ = self.done.send(self.cleanup.execute(db));
    }
}

impl SequencerShared {
    /// Has the writer carry a sweep out, and waits for it.
    pub(crate) fn run_cleanup(&self, sweep: BlobCleanup) -> Result<(), StoreError> {
        let (done, outcome) = sync_channel(1);
        let mut inner = self.lock();
        if inner.is_stopping {
            return Err(StoreError::Stopped);
        }
        inner.cleanup_job = Some(CleanupJob { cleanup: sweep, done });
        drop(inner);
        self.writer_wake.notify_one();
        outcome.recv().map_err(|_| StoreError::Stopped)?
    }
}
