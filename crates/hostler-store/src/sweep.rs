//! What the collector has the writer take away, between two batches.

use std::sync::mpsc::{SyncSender, sync_channel};

use rusqlite::Connection;

use crate::sequencer::Shared;
use crate::{StoreError, blob};

/// A small step: nobody waits long behind it.
pub(crate) enum Sweep {
    /// A session does not name these any more, unless it has done so after a number.
    Names { session: String, hashes: Vec<String>, until: i64 },
    /// No session names these, unless one has done so since.
    Contents(Vec<String>),
}

impl Sweep {
    fn carry_out(&self, db: &mut Connection) -> Result<(), StoreError> {
        let tx = db.transaction()?;
        match self {
            Self::Names { session, hashes, until } => blob::unname(&tx, session, hashes, *until)?,
            Self::Contents(hashes) => {
                let bytes = blob::remove(&tx, hashes)?;
                tracing::info!(bytes, "contents that nothing names any more are removed");
            }
        }
        tx.commit()?;
        Ok(())
    }
}

/// A sweep, and who waits for it.
pub(crate) struct Order {
    sweep: Sweep,
    done: SyncSender<Result<(), StoreError>>,
}

impl Order {
    pub(crate) fn carry_out(self, db: &mut Connection) {
        // Who ordered it may have given up.
        let _ = self.done.send(self.sweep.carry_out(db));
    }
}

impl Shared {
    /// Has the writer carry a sweep out, and waits for it.
    pub(crate) fn order(&self, sweep: Sweep) -> Result<(), StoreError> {
        let (done, outcome) = sync_channel(1);
        let mut inner = self.lock();
        if inner.stopping {
            return Err(StoreError::Stopped);
        }
        inner.order = Some(Order { sweep, done });
        drop(inner);
        self.wake.notify_one();
        outcome.recv().map_err(|_| StoreError::Stopped)?
    }
}
