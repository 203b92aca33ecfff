//! Limits of the journal for replay, and the removal of rows beyond them.
//!
//! After each turn a session is stored as a snapshot and turn rows. Its state is restored from the last snapshot and
//! the rows after it; older rows serve reconnecting clients. They are removed when they are a day old or the journal
//! has grown by 64 MB, whichever comes first, and never before a snapshot covers them. Identities of clients are
//! stored for 30 days.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::StoreError;

/// Limits of the replayable journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalRetention {
    /// Maximum age of a row, in milliseconds.
    pub max_age_ms: i64,
    /// Maximum total size of rows, in bytes.
    pub max_bytes: i64,
    /// How long the identity of a disconnected client is stored, in milliseconds.
    pub max_client_age_ms: i64,
    /// Minimum time between sweeps for old rows; an idle store is not swept.
    pub sweep_interval: Duration,
}

impl Default for JournalRetention {
    fn default() -> Self {
        const DAY: i64 = 24 * 60 * 60 * 1000;
        Self {
            max_age_ms: DAY,
            max_bytes: 64 * 1024 * 1024,
            max_client_age_ms: 30 * DAY,
            sweep_interval: Duration::from_secs(30),
        }
    }
}

impl JournalRetention {
    /// Minimum time between marks, which is the precision of the limit on age.
    pub(crate) fn mark_interval(self) -> Duration {
        self.sweep_interval / 30
    }
}

/// Maximum number of rows that one step removes, so that batches do not wait long behind it.
const SWEEP_BATCH_ROWS: i64 = 5_000;

/// Records that everything up to `seq` is written by now, and the total number of bytes.
pub(crate) fn write_mark(db: &Connection, seq: i64, now_ms: i64, bytes: i64) -> Result<(), StoreError> {
    db.prepare_cached("INSERT OR REPLACE INTO journal_marks (seq, written_at_ms, total_bytes) VALUES (?1, ?2, ?3)")?
        .execute(params![seq, now_ms, bytes])?;
    Ok(())
}

/// The total number of bytes ever written, according to the marks.
pub(crate) fn total_bytes(db: &Connection) -> Result<i64, StoreError> {
    Ok(db.query_row("SELECT COALESCE(MAX(total_bytes), 0) FROM journal_marks", [], |row| row.get(0))?)
}

/// Removes one step of rows that are needed neither for replay nor for a session's state. Returns whether there may be
/// more.
pub(crate) fn remove_expired_rows(
    db: &mut Connection,
    retention: JournalRetention,
    now_ms: i64,
) -> Result<bool, StoreError> {
    db.prepare_cached("DELETE FROM clients WHERE last_seen_ms < ?1")?
        .execute(params![now_ms - retention.max_client_age_ms])?;
    let total = total_bytes(db)?;
    let cutoff: Option<i64> = db
        .prepare_cached("SELECT MAX(seq) FROM journal_marks WHERE written_at_ms < ?1 OR total_bytes < ?2")?
        .query_row(params![now_ms - retention.max_age_ms, total - retention.max_bytes], |row| row.get(0))
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
        params![cutoff, SWEEP_BATCH_ROWS],
    )?;
    tx.execute("UPDATE sequence SET replayable_after = MAX(replayable_after, ?1)", params![cutoff])?;
    tx.execute("DELETE FROM journal_marks WHERE seq < ?1", params![cutoff])?;
    tx.commit()?;
    Ok(i64::try_from(removed).is_ok_and(|removed| removed == SWEEP_BATCH_ROWS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database;

    const NEVER: i64 = i64::MAX / 2;

    /// A journal with ten rows of ten bytes for each session; row `n` was written at time `n`.
    fn journal(sessions: &[&str]) -> (tempfile::TempDir, Connection) {
        let dir = tempfile::tempdir().unwrap();
        let db = database::open_writer(dir.path(), false).unwrap();
        let mut seq = 0;
        for (channel, session) in (1..).zip(sessions) {
            db.execute("INSERT INTO channels VALUES (?1, ?2, ?2)", params![channel, session]).unwrap();
            for _ in 0..10 {
                seq += 1;
                db.execute("INSERT INTO journal VALUES (?1, ?2, 0, '0123456789', NULL, NULL)", params![seq, channel])
                    .unwrap();
                write_mark(&db, seq, seq, 10 * seq).unwrap();
            }
        }
        (dir, db)
    }

    fn write_snapshot(db: &Connection, session: &str, seq: i64) {
        db.execute("INSERT OR REPLACE INTO snapshots VALUES (?1, ?2, '{}')", params![session, seq]).unwrap();
    }

    fn remaining_rows(db: &Connection) -> Vec<i64> {
        let mut statement = db.prepare("SELECT seq FROM journal ORDER BY seq").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    fn replayable_after(db: &Connection) -> i64 {
        db.query_row("SELECT replayable_after FROM sequence", [], |row| row.get(0)).unwrap()
    }

    fn limits(age_ms: i64, bytes: i64) -> JournalRetention {
        JournalRetention { max_age_ms: age_ms, max_bytes: bytes, ..JournalRetention::default() }
    }

    #[test]
    fn expired_rows_are_removed_once_a_snapshot_covers_them() {
        let (_dir, mut db) = journal(&["claude:/1"]);
        assert!(!remove_expired_rows(&mut db, limits(5, NEVER), 10).unwrap(), "one step was enough");
        assert_eq!(remaining_rows(&db), (1..=10).collect::<Vec<_>>(), "no snapshot covers them");
        write_snapshot(&db, "claude:/1", 3);
        remove_expired_rows(&mut db, limits(5, NEVER), 10).unwrap();
        assert_eq!(remaining_rows(&db), (4..=10).collect::<Vec<_>>(), "rows after the snapshot stay at any age");
        write_snapshot(&db, "claude:/1", 10);
        remove_expired_rows(&mut db, limits(5, NEVER), 10).unwrap();
        assert_eq!(remaining_rows(&db), (5..=10).collect::<Vec<_>>(), "rows within the maximum age stay");
        assert_eq!(replayable_after(&db), 4);
    }

    #[test]
    fn rows_over_the_size_limit_are_removed_once_a_snapshot_covers_them() {
        let (_dir, mut db) = journal(&["claude:/1", "claude:/2"]);
        write_snapshot(&db, "claude:/1", 10);
        remove_expired_rows(&mut db, limits(NEVER, 50), 20).unwrap();
        assert_eq!(remaining_rows(&db), (11..=20).collect::<Vec<_>>(), "the other session has no snapshot");
        write_snapshot(&db, "claude:/2", 20);
        remove_expired_rows(&mut db, limits(NEVER, 50), 20).unwrap();
        assert_eq!(
            remaining_rows(&db),
            (15..=20).collect::<Vec<_>>(),
            "the newest rows stay, at least as many bytes as the limit"
        );
        assert_eq!(replayable_after(&db), 14);
    }

    #[test]
    fn rows_within_the_limits_are_not_removed() {
        let (_dir, mut db) = journal(&["claude:/1"]);
        write_snapshot(&db, "claude:/1", 10);
        remove_expired_rows(&mut db, limits(10, 100), 10).unwrap();
        assert_eq!(remaining_rows(&db).len(), 10);
        assert_eq!(replayable_after(&db), 0);
    }

    #[test]
    fn expired_clients_are_removed() {
        let (_dir, mut db) = journal(&[]);
        db.execute("INSERT INTO clients (id, last_seen_ms) VALUES ('early', 1), ('late', 9)", []).unwrap();
        remove_expired_rows(&mut db, JournalRetention { max_client_age_ms: 5, ..JournalRetention::default() }, 10)
            .unwrap();
        let remaining: Vec<String> = db
            .prepare("SELECT id FROM clients")
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(remaining, ["late"]);
    }
}
