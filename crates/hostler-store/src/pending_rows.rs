//! Rows to be written, and how each is written.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Transaction, params};

use crate::batch::{ActionEntry, CatalogChange, HostRecord, SnapshotRow, StoredClient, StoredConversation};
use crate::{AuditEntry, Blob, StoreError, audit, blob, turns};

/// One row to write.
pub(crate) enum PendingRow {
    Journal {
        seq: u64,
        session: Option<Arc<str>>,
        channel: Arc<str>,
        kind: i64,
        body: Arc<str>,
        client: Option<(String, i64)>,
    },
    Catalog(CatalogChange),
    Snapshot {
        session: Arc<str>,
        seq: u64,
        row: SnapshotRow,
    },
    Client(StoredClient),
    Conversation(StoredConversation),
    /// The transcript of a conversation is to be deleted, or was.
    PendingDeletion {
        conversation: String,
        is_pending: bool,
    },
    Blob {
        session: Arc<str>,
        seq: u64,
        blob: Blob,
    },
    Audit {
        session: Arc<str>,
        entry: AuditEntry,
    },
}

impl PendingRow {
    pub(crate) fn record(seq: u64, session: Option<Arc<str>>, record: HostRecord) -> Self {
        Self::Journal { seq, session, channel: record.channel, kind: 1, body: record.json.into(), client: None }
    }

    pub(crate) fn action(seq: u64, session: Option<Arc<str>>, entry: &ActionEntry) -> Self {
        Self::Journal {
            seq,
            session,
            channel: Arc::clone(&entry.channel),
            kind: 0,
            body: Arc::clone(&entry.action_json),
            client: entry.origin.as_ref().map(|origin| (origin.client_id.clone(), origin.client_seq)),
        }
    }

    /// Writes the row as part of a transaction.
    pub(crate) fn write(&self, tx: &Transaction<'_>, channels: &mut ChannelIds) -> Result<(), StoreError> {
        match self {
            Self::Journal { seq, session, channel, kind, body, client } => {
                let channel = channels.get_or_insert(tx, channel, session.as_deref())?;
                tx.prepare_cached(
                    "INSERT INTO journal (seq, channel, kind, body, client, client_seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![
                    as_sql(*seq),
                    channel,
                    kind,
                    &**body,
                    client.as_ref().map(|(id, _)| id),
                    client.as_ref().map(|(_, seq)| seq)
                ])?;
            }
            Self::Catalog(CatalogChange::Put { session, listed, summary }) => {
                tx.prepare_cached(
                    "INSERT INTO sessions (uri, listed, summary) VALUES (?1, ?2, ?3)
                     ON CONFLICT (uri) DO UPDATE SET listed = excluded.listed, summary = excluded.summary",
                )?
                .execute(params![&**session, listed, summary])?;
            }
            Self::Catalog(CatalogChange::Remove { session }) => {
                channels.clear();
                tx.execute(
                    "DELETE FROM journal WHERE channel IN (SELECT id FROM channels WHERE session = ?1)",
                    params![&**session],
                )?;
                tx.execute("DELETE FROM channels WHERE session = ?1", params![&**session])?;
                for statement in [
                    "DELETE FROM sessions WHERE uri = ?1",
                    "DELETE FROM snapshots WHERE session = ?1",
                    "DELETE FROM turns WHERE session = ?1",
                    "DELETE FROM chats WHERE session = ?1",
                    "DELETE FROM audit WHERE session = ?1",
                    "UPDATE conversations SET session = NULL WHERE session = ?1",
                ] {
                    tx.execute(statement, params![&**session])?;
                }
                blob::remove_session(tx, session)?;
            }
            Self::Conversation(StoredConversation { id, session }) => {
                tx.prepare_cached(
                    "INSERT INTO conversations (id, session) VALUES (?1, ?2)
                     ON CONFLICT (id) DO UPDATE SET session = excluded.session",
                )?
                .execute(params![id, session])?;
                if session.is_some() {
                    // The conversation is in use again, so its transcript is no longer to be deleted.
                    write_pending_deletion(tx, id, false)?;
                }
            }
            Self::PendingDeletion { conversation, is_pending } => {
                write_pending_deletion(tx, conversation, *is_pending)?
            }
            Self::Blob { session, seq, blob } => blob::write(tx, session, as_sql(*seq), blob)?,
            Self::Audit { session, entry } => audit::write(tx, session, entry)?,
            Self::Snapshot { session, seq, row } => write_snapshot(tx, session, *seq, row)?,
            Self::Client(StoredClient { id, client_metadata, last_seen_ms }) => {
                tx.prepare_cached(
                    "INSERT INTO clients (id, metadata, last_seen_ms) VALUES (?1, ?2, ?3)
                     ON CONFLICT (id) DO UPDATE SET metadata = excluded.metadata, last_seen_ms = excluded.last_seen_ms",
                )?
                .execute(params![id, client_metadata, last_seen_ms])?;
            }
        }
        Ok(())
    }
}

/// Records whether the transcript of a conversation is to be deleted.
fn write_pending_deletion(tx: &Transaction<'_>, conversation: &str, is_pending: bool) -> Result<(), StoreError> {
    let change = match is_pending {
        true => "INSERT OR IGNORE INTO pending_transcript_deletions (conversation) VALUES (?1)",
        false => "DELETE FROM pending_transcript_deletions WHERE conversation = ?1",
    };
    tx.prepare_cached(change)?.execute(params![conversation])?;
    Ok(())
}

fn write_snapshot(tx: &Transaction<'_>, session: &Arc<str>, seq: u64, row: &SnapshotRow) -> Result<(), StoreError> {
    for chat in &row.chats {
        turns::write_chat(tx, session, chat)?;
    }
    for turn in &row.turns {
        turns::write(tx, session, turn)?;
    }
    tx.prepare_cached(
        "INSERT INTO snapshots (session, seq, body) VALUES (?1, ?2, ?3)
         ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, body = excluded.body",
    )?
    .execute(params![&**session, as_sql(seq), row.body])?;
    Ok(())
}

/// Cache of the channels' ids in the database.
#[derive(Default)]
pub(crate) struct ChannelIds {
    ids: HashMap<Arc<str>, i64>,
}

impl ChannelIds {
    fn get_or_insert(
        &mut self,
        tx: &Transaction<'_>,
        uri: &Arc<str>,
        session: Option<&str>,
    ) -> Result<i64, StoreError> {
        if let Some(id) = self.ids.get(uri) {
            return Ok(*id);
        }
        tx.prepare_cached("INSERT INTO channels (uri, session) VALUES (?1, ?2) ON CONFLICT (uri) DO NOTHING")?
            .execute(params![&**uri, session])?;
        let id = tx
            .prepare_cached("SELECT id FROM channels WHERE uri = ?1")?
            .query_row(params![&**uri], |row| row.get(0))?;
        self.ids.insert(Arc::clone(uri), id);
        Ok(id)
    }

    /// After a rollback or a removal, cached ids may not exist.
    pub(crate) fn clear(&mut self) {
        self.ids.clear();
    }
}

pub(crate) fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

pub(crate) fn as_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
