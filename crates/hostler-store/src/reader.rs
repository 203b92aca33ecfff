//! Reading back what was stored.

use ahp_types::ActionOrigin;
use rusqlite::{Connection, params};

use crate::StoreError;

/// A session's row in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSession {
    /// The session's URI.
    pub uri: String,
    /// Whether it was ever announced.
    pub listed: bool,
    /// The last `SessionSummary` as JSON.
    pub summary: String,
}

/// One row of the journal.
#[derive(Debug, Clone, PartialEq)]
pub enum JournalRow {
    /// An accepted action.
    Action {
        /// Its number.
        seq: u64,
        /// Its channel.
        channel: String,
        /// The action as JSON.
        json: String,
        /// Whose dispatch it was.
        origin: Option<ActionOrigin>,
    },
    /// A private fact.
    Record {
        /// Its number.
        seq: u64,
        /// The channel that it is about.
        channel: String,
        /// The record as JSON.
        json: String,
    },
}

pub(crate) fn sessions(db: &Connection) -> Result<Vec<StoredSession>, StoreError> {
    let mut statement = db.prepare_cached("SELECT uri, listed, summary FROM sessions")?;
    let rows = statement
        .query_map([], |row| Ok(StoredSession { uri: row.get(0)?, listed: row.get(1)?, summary: row.get(2)? }))?;
    rows.collect::<Result<_, _>>().map_err(StoreError::from)
}

pub(crate) fn journal(db: &Connection, session: &str) -> Result<Vec<JournalRow>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT j.seq, c.uri, j.kind, j.body, j.client, j.client_seq
         FROM journal j JOIN channels c ON c.id = j.channel
         WHERE c.session = ?1 ORDER BY j.seq",
    )?;
    let rows = statement.query_map(params![session], |row| {
        let seq: i64 = row.get(0)?;
        let seq = u64::try_from(seq).unwrap_or_default();
        let channel = row.get(1)?;
        let json = row.get(3)?;
        let kind: i64 = row.get(2)?;
        if kind == 1 {
            return Ok(JournalRow::Record { seq, channel, json });
        }
        let client: Option<String> = row.get(4)?;
        let client_seq: Option<i64> = row.get(5)?;
        let origin = client.zip(client_seq).map(|(client_id, client_seq)| ActionOrigin { client_id, client_seq });
        Ok(JournalRow::Action { seq, channel, json, origin })
    })?;
    rows.collect::<Result<_, _>>().map_err(StoreError::from)
}
