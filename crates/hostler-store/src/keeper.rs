//! Keeps the journal within its bounds.

use std::time::Instant;

use rusqlite::Connection;

use crate::StoreError;
use crate::retention::{self, Retention};
use crate::rows::as_sql;

/// Counts what is written, and removes what is too old.
pub(crate) struct Keeper {
    retention: Retention,
    bytes: i64,
    marked: Option<Instant>,
    swept: Instant,
}

impl Keeper {
    pub(crate) fn new(db: &Connection, retention: Retention) -> Self {
        let bytes = retention::total_bytes(db).unwrap_or_default();
        Self { retention, bytes, marked: None, swept: Instant::now() }
    }

    /// Counts what a transaction writes, and notes it from time to time.
    pub(crate) fn count(&mut self, tx: &Connection, seq: u64, bytes: usize) -> Result<(), StoreError> {
        self.bytes = self.bytes.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
        if self.marked.is_none_or(|at| at.elapsed() >= self.retention.mark_interval()) {
            retention::mark(tx, as_sql(seq), now_ms(), self.bytes)?;
            self.marked = Some(Instant::now());
        }
        Ok(())
    }

    pub(crate) fn sweep_if_due(&mut self, db: &mut Connection) {
        if self.swept.elapsed() < self.retention.interval {
            return;
        }
        match retention::sweep(db, self.retention, now_ms()) {
            // The rest goes after the next batch, so that nobody waits for all of it.
            Ok(true) => {}
            Ok(false) => self.swept = Instant::now(),
            Err(error) => {
                tracing::warn!(%error, "old rows of the journal could not be removed");
                self.swept = Instant::now();
            }
        }
    }
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or_default()
}
