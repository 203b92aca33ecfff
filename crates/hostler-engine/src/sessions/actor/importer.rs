//! Imports an external session: its last turns at once, older turns in batches, newest first.
//!
//! Positions of older turns are fixed from the start (`EvictedTurns::count`). The snapshot stores how many turns are
//! missing and before which turn of the transcript, so that a restarted host continues
//! (`external_sessions/startup_cleanup.rs`). A turn that the transcript no longer contains is replaced by a
//! placeholder; a temporary read error is retried instead.

use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::SessionChatAddedAction;
use hostler_driver::{Transcript, TranscriptStoreError};
use hostler_store::{ActionEntry, Batch, BatchDurability, StoreError, TurnRow};
use uuid::Uuid;

use super::context::{SessionContext, build_catalog_put};
use super::input::SessionInput;
use super::turn_lifecycle::STORE_RETRY_DELAY;
use crate::EngineError;
use crate::external_sessions::{self, ExternalSession, ImportBatch, ImportedSession, load_import_batch};
use crate::host::Host;
use crate::sessions::session::{Session, clone_without_turns};
use crate::sessions::sub_agent_chat;
use crate::sessions::turn_storage::{EvictedTurns, TurnStorage};

/// Maximum delay between two attempts to read an unreadable transcript.
const MAX_IMPORT_RETRY_DELAY: Duration = Duration::from_secs(10 * 60);

/// Number of failed attempts after which the import pauses until the transcript changes or a client opens the chat. A
/// transcript that is missing this often, also across restarts, counts as deleted.
const MAX_IMPORT_ATTEMPTS: usize = 10;

/// The state of the import of older turns.
#[derive(Debug, Default)]
pub(super) struct Importer {
    /// Whether a batch is being loaded.
    is_loading: bool,
    /// Whether a retry is scheduled.
    retry_scheduled: bool,
    /// Number of failed attempts since the last success, without attempts that clients requested.
    failed_attempts: usize,
}

/// Imports an external session into the store.
pub(super) async fn import_session(
    host: &Arc<Host>,
    uri: &Arc<str>,
    found: &ExternalSession,
) -> Result<(Session, Arc<dyn Transcript>), EngineError> {
    let ImportedSession { mut session, blobs, transcript } =
        external_sessions::import_session(host, uri, found).await?;
    session.is_listed = true;
    let summary = session.summary();
    let (catalogue_host, session_uri, line) = (Arc::clone(host), Arc::clone(uri), summary.clone());
    let batch = Batch::new(Some(Arc::clone(uri)), BatchDurability::Durable)
        .blobs(blobs)
        .catalog(build_catalog_put(uri, true, &summary)?)
        .conversation(session.conversation.to_string(), Some(uri))
        .snapshot(session.snapshot_row()?)
        .after_publish(move |_| {
            if let Some(notice) = catalogue_host.update_list_entry(session_uri, line) {
                catalogue_host.publication.notify(notice);
            }
        });
    host.publication.commit(batch).await?;
    host.resources.set_session_directories(uri, session.session.working_directories.as_deref().unwrap_or_default());
    host.catalog.sessions().set_conversation_owner(session.conversation, Some(Arc::clone(uri)));
    session.is_stored = true;
    session.mark_turns_submitted();
    session.mark_turns_committed();
    Ok((session, transcript))
}

impl Importer {
    /// Imports the next batch of older turns, if any are missing. Readers of these turns wait for it.
    pub(super) fn import_older_turns(&mut self, transcript: Option<Arc<dyn Transcript>>, ctx: &mut SessionContext) {
        ctx.host.external.set_unimported(&ctx.session.chat_uri, ctx.session.unimported_turns);
        if ctx.session.unimported_turns == 0 || std::mem::replace(&mut self.is_loading, true) {
            return;
        }
        let transcript_store = ctx.host.agents.transcript_store(&ctx.session.session.provider);
        let empty = Session {
            unimported_turns: ctx.session.unimported_turns,
            import_cursor: ctx.session.import_cursor,
            conversation: ctx.session.conversation,
            chat_uri: Arc::clone(&ctx.session.chat_uri),
            ..Session::provisional(
                Arc::clone(&ctx.session.uri),
                ctx.session.session.provider.clone(),
                Vec::new(),
                None,
                ctx.session.created_at.clone(),
            )
        };
        let gone = ctx.session.missing_transcript_count >= MAX_IMPORT_ATTEMPTS;
        ctx.tasks.spawn(async move {
            SessionInput::OlderTurnsLoaded(
                load_import_batch(transcript_store, transcript, empty, gone).await.map(Box::new),
            )
        });
    }

    /// Retries at once, because a client opens the chat.
    pub(super) fn resume(&mut self, ctx: &mut SessionContext) {
        if ctx.session.unimported_turns > 0 && !self.is_loading {
            self.import_older_turns(None, ctx);
        }
    }

    /// Retries because the transcript has changed, if it is the one that is imported.
    pub(super) fn restart(&mut self, conversation: Uuid, ctx: &mut SessionContext) {
        if conversation == ctx.session.conversation {
            self.failed_attempts = 0;
            self.resume(ctx);
        }
    }

    /// Retries after a delay.
    pub(super) fn retry(&mut self, ctx: &mut SessionContext) {
        self.retry_scheduled = false;
        self.resume(ctx);
    }

    /// Handles a loaded batch, or a read error. An error, such as an unavailable disk, is retried, so that no turn is
    /// lost.
    pub(super) async fn finish_loading(
        &mut self,
        loaded: Result<Box<ImportBatch>, TranscriptStoreError>,
        ctx: &mut SessionContext,
    ) {
        self.is_loading = false;
        let missing = matches!(loaded, Err(TranscriptStoreError::Missing));
        let error = match loaded {
            Ok(batch) => match ctx.store_import_batch(&batch).await {
                Ok(session) => {
                    ctx.session = session;
                    ctx.session.mark_turns_committed();
                    self.failed_attempts = 0;
                    ctx.host.catalog.mark_changed(&ctx.session.uri);
                    return self.import_older_turns(batch.transcript, ctx);
                }
                Err(error) => error.into(),
            },
            Err(error) => EngineError::ImportIncomplete(error),
        };
        tracing::warn!(session = &*ctx.session.uri, %error, "failed to import older turns; retrying");
        ctx.host.external.fail_import(&ctx.session.chat_uri, error);
        if self.retry_scheduled {
            return;
        }
        self.failed_attempts += 1;
        if missing {
            ctx.session.missing_transcript_count += 1;
            // During a turn, the turn's end saves the snapshot.
            if ctx.session.chat.active_turn.is_none() {
                ctx.save_snapshot().await;
            }
            if ctx.session.missing_transcript_count >= MAX_IMPORT_ATTEMPTS {
                return self.import_older_turns(None, ctx);
            }
        }
        if missing || self.failed_attempts < MAX_IMPORT_ATTEMPTS {
            self.retry_scheduled = true;
            let pause = ctx.host.clock.sleep(import_retry_delay(self.failed_attempts));
            ctx.tasks.spawn(async move {
                pause.await;
                SessionInput::RetryImport
            });
        }
    }
}

impl SessionContext {
    /// Commits a batch, and returns the session that includes it.
    async fn store_import_batch(&self, piece: &ImportBatch) -> Result<Session, StoreError> {
        let encode = |error: serde_json::Error| StoreError::Database(format!("a turn cannot be encoded: {error}"));
        let row = |chat: &Arc<str>, position: usize, turn: &ahp_types::state::Turn| {
            let body = serde_json::to_string(turn).map_err(encode)?;
            Ok::<_, StoreError>(TurnRow { chat: Arc::clone(chat), position, id: turn.id.clone(), body })
        };
        let mut session = self.session.clone();
        let (mut rows, mut entries) = (Vec::new(), Vec::new());
        for (at, turn) in piece.turns.iter().enumerate() {
            rows.push(row(&session.chat_uri, piece.first + at, turn)?);
        }
        let uri = Arc::clone(&session.uri);
        for (line, chat) in &piece.sub_agent_chats {
            if session.chat_by_uri(&chat.resource).is_some()
                || session.sub_agent_chats.len() >= sub_agent_chat::MAX_SUB_AGENT_CHATS
            {
                continue;
            }
            let added = StateAction::SessionChatAdded(SessionChatAddedAction { summary: line.clone() });
            session.apply(&uri, &added);
            entries.push(ActionEntry::new(Arc::clone(&uri), added)?);
            let Some(worker) = session.sub_agent_chats.last_mut() else { continue };
            for (at, turn) in chat.turns.iter().enumerate() {
                rows.push(row(&worker.uri, at, turn)?);
            }
            // The turns are not kept in memory, because they are rarely read.
            worker.state = Arc::new(clone_without_turns(chat));
            let completed = !chat.turns.is_empty();
            worker.turn_storage = TurnStorage::for_import(EvictedTurns {
                count: chat.turns.len(),
                has_completed_turn: completed,
                ..EvictedTurns::default()
            });
        }
        (session.unimported_turns, session.import_cursor) = (piece.first, piece.import_cursor);
        if piece.transcript.is_some() {
            session.missing_transcript_count = 0;
        }
        let mut snapshot = session.snapshot_row()?;
        snapshot.turns.extend(rows);
        session.mark_turns_submitted();
        let batch =
            self.new_batch(BatchDurability::Durable).entries(entries).blobs(piece.blobs.clone()).snapshot(snapshot);
        self.host.publication.commit(batch).await?;
        Ok(session)
    }
}

/// The delay after this many failures; it doubles up to the maximum.
fn import_retry_delay(tries: usize) -> Duration {
    let doublings = u32::try_from(tries.saturating_sub(1)).unwrap_or(u32::MAX);
    MAX_IMPORT_RETRY_DELAY.min(STORE_RETRY_DELAY.saturating_mul(2u32.saturating_pow(doublings)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn import_retry_delay_doubles_up_to_the_maximum() {
        let pauses = [0, 1, 2, 3, 10, 11, 12, 1000].map(|tries| import_retry_delay(tries).as_millis());
        assert_eq!(pauses, [500, 500, 1_000, 2_000, 256_000, 512_000, 600_000, 600_000]);
    }
}
