//! Limits the journal: counts written bytes and removes expired rows after batches. The limits and the
//! queries are in `retention`.

use std::time::Instant;

use rusqlite::Connection;

use crate::StoreError;
use crate::pending_rows::as_sql;
use crate::retention::{self, JournalRetention};

/// Counts what is written, and removes expired rows.
pub(crate) struct RetentionSweeper {
    retention: JournalRetention,
    total_bytes: i64,
    last_mark: Option<Instant>,
    last_sweep: Instant,
}

impl RetentionSweeper {
    pub(crate) fn new(db: &Connection, retention: JournalRetention) -> Self {
        let total_bytes = retention::total_bytes(db).unwrap_or_default();
        Self { retention, total_bytes, last_mark: None, last_sweep: Instant::now() }
    }

    /// Counts what a transaction writes, and records a mark from time to time.
    pub(crate) fn record_written(&mut self, tx: &Connection, seq: u64, bytes: usize) -> Result<(), StoreError> {
        self.total_bytes = self.total_bytes.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
        if self.last_mark.is_none_or(|at| at.elapsed() >= self.retention.mark_interval()) {
            retention::write_mark(tx, as_sql(seq), now_ms(), self.total_bytes)?;
            self.last_mark = Some(Instant::now());
        }
        Ok(())
    }

    pub(crate) fn sweep_if_due(&mut self, db: &mut Connection) {
        if self.last_sweep.elapsed() < self.retention.sweep_interval {
            return;
        }
        match retention::remove_expired_rows(db, self.retention, now_ms()) {
            // The rest is removed after the next batch, so that batches do not wait for all of it.
            Ok(true) => {}
            Ok(false) => self.last_sweep = Instant::now(),
            Err(error) => {
                tracing::warn!(%error, "failed to remove expired rows of the journal");
                self.last_sweep = Instant::now();
            }
        }
    }
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or_default()
}
