//! A conversation that only its agent knew becomes a session of the store: its last turns at once, the others after them.

use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::SessionChatAddedAction;
use hostler_driver::{Transcript, TranscriptStoreError};
use hostler_store::{ActionEntry, Batch, BatchDurability, StoreError, TurnRow};

use super::turn_lifecycle::STORE_RETRY_DELAY;
use super::{SessionActor, SessionInput, build_catalog_put};
use crate::broadcaster::HostNotificationKind;
use crate::external_sessions::{self, ExternalSession, ImportBatch, ImportedSession, load_import_batch};
use crate::host::Host;
use crate::session::{Session, clone_without_turns};
use crate::session_catalog::summary_changes;
use crate::turn_storage::{EvictedTurns, TurnStorage};
use crate::{EngineError, sub_agent_chat, uri};

/// The longest time between two looks at a record that cannot be read.
const MAX_IMPORT_RETRY_DELAY: Duration = Duration::from_secs(10 * 60);

/// How often a record is tried in vain before it is left alone until it changes or somebody wants to see it. One that is not
/// there so often, in this life of the host or in several, is gone.
const MAX_IMPORT_ATTEMPTS: usize = 10;

/// How older turns come in.
#[derive(Debug, Default)]
pub(super) struct Importer {
    /// A piece is under way.
    is_loading: bool,
    /// The next try has its time.
    retry_scheduled: bool,
    /// How often it was tried in vain since it went well, not counting what people have asked for in between.
    failed_attempts: usize,
}

/// Makes a stored session of a found one.
pub(super) async fn import_session(
    host: &Arc<Host>,
    uri: &Arc<str>,
    found: &ExternalSession,
) -> Result<(Session, Arc<dyn Transcript>), EngineError> {
    let ImportedSession { mut session, blobs, transcript: chronicle } =
        external_sessions::import_session(host, uri, found).await?;
    session.is_listed = true;
    let summary = session.summary();
    let (catalogue_host, session_uri, line) = (Arc::clone(host), Arc::clone(uri), summary.clone());
    let batch = Batch::new(Some(Arc::clone(uri)), BatchDurability::Durable)
        .blobs(blobs)
        .catalog(build_catalog_put(uri, true, &summary)?)
        .conversation(session.conversation.to_string(), Some(uri))
        .snapshot(session.snapshot_row()?)
        .after_publish(move |_| publish_imported_session(&catalogue_host, session_uri, line));
    host.store.sequencer().commit(batch).await?;
    host.resources.session_directories.set(uri, session.session.working_directories.as_deref().unwrap_or_default());
    host.sessions().conversation_owners.insert(session.conversation, Some(Arc::clone(uri)));
    session.is_stored = true;
    session.mark_turns_submitted();
    session.mark_turns_committed();
    Ok((session, chronicle))
}

/// It may have been in the list before, or not: that is a matter of what people want to see there.
fn publish_imported_session(host: &Host, session: Arc<str>, line: ahp_types::state::SessionSummary) {
    let known = host.catalog.summary(&session);
    host.catalog.upsert(&session, &line);
    let Some(known) = known else {
        return host.broadcaster.notify(uri::ROOT_CHANNEL_URI, HostNotificationKind::SessionAdded(Box::new(line)));
    };
    let changes = Box::new(summary_changes(&known, &line));
    if *changes != Default::default() {
        host.broadcaster
            .notify(uri::ROOT_CHANNEL_URI, HostNotificationKind::SessionSummaryChanged { session, changes });
    }
}

impl SessionActor {
    /// Takes older turns in, as long as there are any. Whoever wants one of them waits for it.
    pub(super) fn import_older_turns(&mut self, chronicle: Option<Arc<dyn Transcript>>) {
        self.host.unimported_turns.set_missing(&self.session.chat_uri, self.session.unimported_turns);
        if self.session.unimported_turns == 0 || std::mem::replace(&mut self.importer.is_loading, true) {
            return;
        }
        let archive = self.host.transcript_store(&self.session.session.provider);
        let empty = Session {
            unimported_turns: self.session.unimported_turns,
            import_cursor: self.session.import_cursor,
            conversation: self.session.conversation,
            chat_uri: Arc::clone(&self.session.chat_uri),
            ..Session::provisional(
                Arc::clone(&self.session.uri),
                self.session.session.provider.clone(),
                Vec::new(),
                None,
                self.session.created_at.clone(),
            )
        };
        let gone = self.session.missing_transcript_count >= MAX_IMPORT_ATTEMPTS;
        self.tasks.spawn(async move {
            SessionInput::OlderTurnsLoaded(load_import_batch(archive, chronicle, empty, gone).await.map(Box::new))
        });
    }

    /// Somebody wants to see the chat: what is missing is tried at once.
    pub(super) fn resume_import(&mut self) {
        if self.session.unimported_turns > 0 && !self.importer.is_loading {
            self.import_older_turns(None);
        }
    }

    /// The record has changed: it may be read again.
    pub(super) fn restart_import(&mut self) {
        self.importer.failed_attempts = 0;
        self.resume_import();
    }

    /// A pause is over.
    pub(super) fn retry_import(&mut self) {
        self.importer.retry_scheduled = false;
        self.resume_import();
    }

    /// Older turns are told, or cannot be at the moment.
    pub(super) async fn handle_older_turns(&mut self, told: Result<Box<ImportBatch>, TranscriptStoreError>) {
        self.importer.is_loading = false;
        match told {
            Ok(piece) => self.import_batch(piece).await,
            Err(error) => self.handle_import_error(error).await,
        }
    }

    /// A disk that is away comes back, and what it has is not lost.
    async fn handle_import_error(&mut self, error: TranscriptStoreError) {
        tracing::warn!(session = &*self.session.uri, %error, "older turns of a record cannot be told yet");
        let missing = error == TranscriptStoreError::Missing;
        self.host.unimported_turns.fail(&self.session.chat_uri, EngineError::ImportIncomplete(error));
        if self.importer.retry_scheduled {
            return;
        }
        self.importer.failed_attempts += 1;
        if missing {
            self.session.missing_transcript_count += 1;
            // In the middle of a turn its end does so.
            if self.session.chat.active_turn.is_none() {
                self.save_snapshot().await;
            }
            if self.session.missing_transcript_count >= MAX_IMPORT_ATTEMPTS {
                return self.import_older_turns(None);
            }
        }
        if missing || self.importer.failed_attempts < MAX_IMPORT_ATTEMPTS {
            self.importer.retry_scheduled = true;
            let pause = self.host.clock.sleep(import_retry_delay(self.importer.failed_attempts));
            self.tasks.spawn(async move {
                pause.await;
                SessionInput::RetryImport
            });
        }
    }

    /// Older turns get their rows, and their sub-agents their chats.
    async fn import_batch(&mut self, piece: Box<ImportBatch>) {
        match self.store_import_batch(&piece).await {
            Ok(session) => {
                self.session = session;
                self.session.mark_turns_committed();
                self.importer.failed_attempts = 0;
                self.host.search_indexer.mark_changed(&self.session.uri);
                self.import_older_turns(piece.transcript);
            }
            Err(error) => {
                tracing::error!(session = &*self.session.uri, %error, "older turns could not be stored yet");
                self.host.unimported_turns.fail(&self.session.chat_uri, error.into());
                // It is under way as long as it is here.
                self.importer.is_loading = true;
                self.importer.failed_attempts += 1;
                let pause = self.host.clock.sleep(import_retry_delay(self.importer.failed_attempts));
                self.tasks.spawn(async move {
                    pause.await;
                    SessionInput::OlderTurnsLoaded(Ok(piece))
                });
            }
        }
    }

    /// Commits a piece, and gives the session as it is with it.
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
            // Memory does not hold them: somebody who wants to see them is rare.
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
        self.host.store.sequencer().commit(batch).await?;
        Ok(session)
    }
}

/// How long to wait after so many failures: longer and longer.
fn import_retry_delay(tries: usize) -> Duration {
    let doublings = u32::try_from(tries.saturating_sub(1)).unwrap_or(u32::MAX);
    MAX_IMPORT_RETRY_DELAY.min(STORE_RETRY_DELAY.saturating_mul(2u32.saturating_pow(doublings)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest_one() {
        let pauses = [0, 1, 2, 3, 10, 11, 12, 1000].map(|tries| import_retry_delay(tries).as_millis());
        assert_eq!(pauses, [500, 500, 1_000, 2_000, 256_000, 512_000, 600_000, 600_000]);
    }
}
