//! How much of the journal is kept for replay, and what makes the rest removable.
//!
//! A session's state can be rebuilt from its last snapshot and the rows after it; older rows serve clients that come
//! back. They are kept for a day or 64 MB, whichever is reached first, and never removed before a snapshot covers them.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::StoreError;

/// Bounds of the replayable past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How old a row may become, in milliseconds.
    pub age_ms: i64,
    /// How many bytes of rows are kept.
    pub bytes: i64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { age_ms: 24 * 60 * 60 * 1000, bytes: 64 * 1024 * 1024 }
    }
}

/// How many rows one step removes at most, so that nobody waits long behind it.
const STEP: i64 = 20_000;

/// Notes that everything up to `seq` was written by now, and how many bytes that made in all.
pub(crate) fn mark(db: &Connection, seq: i64, now_ms: i64, bytes: i64) -> Result<(), StoreError> {
    db.prepare_cached("INSERT OR REPLACE INTO marks (seq, at_ms, bytes) VALUES (?1, ?2, ?3)")?
        .execute(params![seq, now_ms, bytes])?;
    Ok(())
}

/// The bytes that were ever written, as far as the marks tell.
pub(crate) fn total_bytes(db: &Connection) -> Result<i64, StoreError> {
    Ok(db.query_row("SELECT COALESCE(MAX(bytes), 0) FROM marks", [], |row| row.get(0))?)
}

/// Removes a step's worth of rows that are neither needed for replay nor for a session's state. Tells whether there may
/// be more.
pub(crate) fn sweep(db: &mut Connection, retention: Retention, now_ms: i64) -> Result<bool, StoreError> {
    let total = total_bytes(db)?;
    let cutoff: Option<i64> = db
        .prepare_cached("SELECT MAX(seq) FROM marks WHERE at_ms < ?1 OR bytes < ?2")?
        .query_row(params![now_ms - retention.age_ms, total - retention.bytes], |row| row.get(0))
        .optional()?
        .flatten();
    let Some(cutoff) = cutoff else { return Ok(false) };
    let tx = db.transaction()?;
    let removed = tx.execute(
        "DELETE FROM journal WHERE seq IN (
             SELECT j.seq FROM journal j
             JOIN channels c ON c.id = j.channel
             JOIN snapshots s ON s.session = c.session
             WHERE j.seq <= ?1 AND j.seq <= s.seq
             ORDER BY j.seq LIMIT ?2)",
        params![cutoff, STEP],
    )?;
    tx.execute("UPDATE reserved SET replay_from = MAX(replay_from, ?1)", params![cutoff])?;
    tx.execute("DELETE FROM marks WHERE seq < ?1", params![cutoff])?;
    tx.commit()?;
    Ok(i64::try_from(removed).is_ok_and(|removed| removed == STEP))
}
