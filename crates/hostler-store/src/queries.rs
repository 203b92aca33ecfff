//! Queries for stored sessions, journal rows, clients and conversations.

use std::fmt;

use ahp_types::ActionOrigin;
use hostler_redact::byte_length;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::StoreError;
use crate::batch::{StoredClient, StoredConversation};
use crate::turns::{self, StoredTurn};

/// A session's row in the catalog.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredSession {
    /// The session's URI.
    pub uri: String,
    /// Whether it was ever announced.
    pub listed: bool,
    /// The last `SessionSummary` as JSON.
    pub summary: String,
}

/// One row of the journal.
#[derive(Clone, PartialEq)]
pub enum JournalRow {
    /// An accepted action.
    Action {
        /// Its sequence number.
        seq: u64,
        /// Its channel.
        channel: String,
        /// The action as JSON.
        json: String,
        /// The dispatch that it echoes.
        origin: Option<ActionOrigin>,
    },
    /// A host record.
    Record {
        /// Its sequence number.
        seq: u64,
        /// The channel that it is about.
        channel: String,
        /// The record as JSON.
        json: String,
    },
}

// Debug output is redacted: summaries, actions, records and snapshots contain messages and resume tokens.

impl fmt::Debug for StoredSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredSession")
            .field("uri", &self.uri)
            .field("listed", &self.listed)
            .field("summary", &byte_length(&self.summary))
            .finish()
    }
}

impl fmt::Debug for JournalRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, seq, channel, json, origin) = match self {
            Self::Action { seq, channel, json, origin } => ("Action", seq, channel, json, origin.as_ref()),
            Self::Record { seq, channel, json } => ("Record", seq, channel, json, None),
        };
        f.debug_struct(name)
            .field("seq", seq)
            .field("channel", channel)
            .field("json", &byte_length(json))
            .field("origin", &origin)
            .finish()
    }
}

impl fmt::Debug for StoredSessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredSessionState")
            .field("snapshot", &self.snapshot.as_ref().map(byte_length))
            .field("turns", &self.turns)
            .field("journal", &self.journal)
            .finish()
    }
}

pub(crate) fn sessions(db: &Connection) -> Result<Vec<StoredSession>, StoreError> {
    let mut statement = db.prepare_cached("SELECT uri, listed, summary FROM sessions")?;
    let rows = statement
        .query_map([], |row| Ok(StoredSession { uri: row.get(0)?, listed: row.get(1)?, summary: row.get(2)? }))?;
    rows.collect::<Result<_, _>>().map_err(StoreError::from)
}

pub(crate) fn conversations(db: &Connection) -> Result<Vec<StoredConversation>, StoreError> {
    let mut statement = db.prepare_cached("SELECT id, session FROM conversations")?;
    let rows = statement.query_map([], |row| Ok(StoredConversation { id: row.get(0)?, session: row.get(1)? }))?;
    rows.collect::<Result<_, _>>().map_err(StoreError::from)
}

pub(crate) fn pending_deletions(db: &Connection) -> Result<Vec<String>, StoreError> {
    let mut statement = db.prepare_cached("SELECT conversation FROM pending_transcript_deletions")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect::<Result<_, _>>().map_err(StoreError::from)
}

/// The sequence number of each session's last snapshot.
pub(crate) fn snapshot_seqs(db: &Connection) -> Result<Vec<(String, u64)>, StoreError> {
    let mut statement = db.prepare_cached("SELECT session, seq FROM snapshots")?;
    let rows =
        statement.query_map([], |row| Ok((row.get(0)?, u64::try_from(row.get::<_, i64>(1)?).unwrap_or_default())))?;
    rows.collect::<Result<_, _>>().map_err(StoreError::from)
}

/// The sequence number of a session's last snapshot.
pub(crate) fn snapshot_seq(db: &Connection, session: &str) -> Result<Option<u64>, StoreError> {
    let mut statement = db.prepare_cached("SELECT seq FROM snapshots WHERE session = ?1")?;
    let seq: Option<i64> = statement.query_row(params![session], |row| row.get(0)).optional()?;
    Ok(seq.and_then(|seq| u64::try_from(seq).ok()))
}

/// The stored state of a session.
#[derive(Clone, PartialEq, Default)]
pub struct StoredSessionState {
    /// The last snapshot's JSON.
    pub snapshot: Option<String>,
    /// The ended turns that the snapshot omits, in the order of each chat, from the first one that is needed.
    pub turns: Vec<StoredTurn>,
    /// The journal after the snapshot; all of it, if there is none.
    pub journal: Vec<JournalRow>,
}

const SELECT_JOURNAL: &str = "SELECT j.seq, c.uri, j.kind, j.body, j.client, j.client_seq
     FROM journal j JOIN channels c ON c.id = j.channel";

pub(crate) fn load_session(db: &Connection, session: &str) -> Result<StoredSessionState, StoreError> {
    // One transaction, so that a concurrent commit is visible completely or not at all.
    let tx = db.unchecked_transaction()?;
    let snapshot: Option<(i64, String)> = tx
        .prepare_cached("SELECT seq, body FROM snapshots WHERE session = ?1")?
        .query_row(params![session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let after = snapshot.as_ref().map_or(0, |(seq, _)| *seq);
    let turns = turns::load_needed(&tx, session)?;
    let rows = tx
        .prepare_cached(&format!("{SELECT_JOURNAL} WHERE c.session = ?1 AND j.seq > ?2 ORDER BY j.seq"))?
        .query_map(params![session, after], to_journal_row)?
        .collect::<Result<_, _>>()?;
    Ok(StoredSessionState { snapshot: snapshot.map(|(_, body)| body), turns, journal: rows })
}

pub(crate) fn actions(
    db: &Connection,
    after: u64,
    until: u64,
    channels: &[String],
) -> Result<Vec<JournalRow>, StoreError> {
    let mut statement =
        db.prepare_cached(&format!("{SELECT_JOURNAL} WHERE c.uri = ?1 AND j.seq > ?2 AND j.seq <= ?3 AND j.kind = 0"))?;
    let (after, until) = (sql(after), sql(until));
    let mut rows = Vec::new();
    for channel in channels {
        for found in statement.query_map(params![channel, after, until], to_journal_row)? {
            rows.push(found?);
        }
    }
    rows.sort_by_key(JournalRow::seq);
    Ok(rows)
}

pub(crate) fn missed_actions(
    db: &Connection,
    after: u64,
    until: u64,
    channels: &[String],
) -> Result<Option<Vec<JournalRow>>, StoreError> {
    // One transaction, so that a concurrent sweep cannot remove rows unnoticed.
    let tx = db.unchecked_transaction()?;
    let replayable_after: i64 = tx.query_row("SELECT replayable_after FROM sequence", [], |row| row.get(0))?;
    if sql(after) < replayable_after {
        return Ok(None);
    }
    actions(&tx, after, until, channels).map(Some)
}

pub(crate) fn dispatched_action(
    db: &Connection,
    client: &str,
    client_seq: i64,
) -> Result<Option<JournalRow>, StoreError> {
    db.prepare_cached(&format!(
        "{SELECT_JOURNAL} WHERE j.client = ?1 AND j.client_seq = ?2 ORDER BY j.seq DESC LIMIT 1"
    ))?
    .query_row(params![client, client_seq], to_journal_row)
    .optional()
    .map_err(StoreError::from)
}

pub(crate) fn last_dispatch_seq(db: &Connection, client: &str) -> Result<Option<i64>, StoreError> {
    db.prepare_cached("SELECT MAX(client_seq) FROM journal WHERE client = ?1")?
        .query_row(params![client], |row| row.get(0))
        .map_err(StoreError::from)
}

pub(crate) fn clients(db: &Connection, since_ms: i64, limit: usize) -> Result<Vec<StoredClient>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT id, metadata, last_seen_ms FROM clients
         WHERE last_seen_ms >= ?1 ORDER BY last_seen_ms DESC LIMIT ?2",
    )?;
    let client =
        |row: &Row<'_>| Ok(StoredClient { id: row.get(0)?, client_metadata: row.get(1)?, last_seen_ms: row.get(2)? });
    let rows = statement.query_map(params![since_ms, sql(limit as u64)], client)?;
    rows.collect::<Result<_, _>>().map_err(StoreError::from)
}

fn to_journal_row(row: &Row<'_>) -> rusqlite::Result<JournalRow> {
    let seq: i64 = row.get(0)?;
    let seq = u64::try_from(seq).unwrap_or_default();
    let (channel, json) = (row.get(1)?, row.get(3)?);
    let kind: i64 = row.get(2)?;
    if kind == 1 {
        return Ok(JournalRow::Record { seq, channel, json });
    }
    let client: Option<String> = row.get(4)?;
    let client_seq: Option<i64> = row.get(5)?;
    let origin = client.zip(client_seq).map(|(client_id, client_seq)| ActionOrigin { client_id, client_seq });
    Ok(JournalRow::Action { seq, channel, json, origin })
}

fn sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl JournalRow {
    /// Its sequence number.
    pub fn seq(&self) -> u64 {
        match self {
            Self::Action { seq, .. } | Self::Record { seq, .. } => *seq,
        }
    }
}
