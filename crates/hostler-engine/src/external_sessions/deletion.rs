//! Deletes conversations: stores their ids, so that scans skip them, and deletes the agent's files.

use std::sync::Arc;

use hostler_driver::ExternalActivity;
use hostler_store::{Batch, BatchDurability};
use uuid::Uuid;

use super::ExternalSession;
use crate::EngineError;
use crate::clients::broadcaster::HostNotificationKind;
use crate::host::Host;

impl Host {
    /// Deletes an external session without importing it. `None` if it is not an external session.
    pub(crate) async fn delete_external_session(self: &Arc<Self>, session: &str) -> Option<Result<(), EngineError>> {
        let (uri, found) = {
            let mut sessions = self.catalog.sessions();
            let (uri, found) = sessions.remove_external(session)?;
            sessions.begin_dispose(Arc::clone(&uri));
            (uri, found)
        };
        let forgotten = self.delete_external_conversation(&uri, &found).await;
        let mut sessions = self.catalog.sessions();
        sessions.end_dispose(&uri);
        if forgotten.is_err() {
            sessions.insert_external(uri, found);
        }
        Some(forgotten)
    }

    /// Deletes a conversation that has no stored session.
    pub(crate) async fn delete_external_conversation(
        self: &Arc<Self>,
        uri: &Arc<str>,
        found: &ExternalSession,
    ) -> Result<(), EngineError> {
        let ExternalSession { provider, conversation } = found;
        let (host, gone) = (Arc::clone(self), Arc::clone(uri));
        let batch = Batch::new(None, BatchDurability::Durable)
            .conversation(conversation.id.to_string(), None)
            .deletion(conversation.id.to_string(), true)
            .after_publish(move |_| {
                if host.catalog.remove(&gone) {
                    host.publication.notify(HostNotificationKind::SessionRemoved(gone));
                }
            });
        self.publication.commit(batch).await?;
        self.catalog.sessions().set_conversation_owner(conversation.id, None);
        self.catalog.mark_removed(uri);
        self.delete_transcript(provider, conversation.id).await;
        Ok(())
    }

    /// Rejects the deletion of a session while another process runs a turn in it: its output would go to a deleted
    /// file.
    pub(crate) async fn check_not_active_elsewhere(&self, session: &str) -> Result<(), EngineError> {
        let (provider, conversations) = {
            let sessions = self.catalog.sessions();
            match sessions.external(session) {
                Some(found) => (found.provider.clone(), vec![found.conversation.id]),
                None => (self.provider_of(session).to_owned(), sessions.conversations_of(session)),
            }
        };
        let Some(transcript_store) = self.agents.transcript_store(&provider) else { return Ok(()) };
        for conversation in conversations {
            if transcript_store.external_activity(conversation).await == Some(ExternalActivity::Busy) {
                return Err(EngineError::ActiveElsewhere);
            }
        }
        Ok(())
    }

    /// The provider of a stored session.
    fn provider_of<'a>(&'a self, session: &'a str) -> &'a str {
        let scheme = session.split_once(':').map_or("", |(scheme, _)| scheme);
        if self.agents.has_provider(scheme) { scheme } else { &self.settings.default_provider }
    }

    /// Marks the conversations of a deleted session, so that scans skip them. Transcripts of its agent, if there are
    /// any, are deleted too.
    pub(crate) async fn delete_session_conversations(&self, session: &str, has_conversation: bool) {
        let forgotten = self.catalog.sessions().delete_conversations_of(session);
        let provider = self.provider_of(session);
        for id in forgotten.into_iter().filter(|_| has_conversation) {
            self.delete_transcript(provider, id).await;
        }
    }

    /// Deletes a transcript. If that fails, the session stays deleted: `sessions doctor` reports the file, and the next
    /// start tries again. A deleted transcript that is restored later is not deleted again.
    async fn delete_transcript(&self, provider: &str, conversation: Uuid) {
        let Some(transcript_store) = self.agents.transcript_store(provider) else { return };
        if let Err(error) = transcript_store.delete(conversation).await {
            tracing::warn!(%conversation, %error, "failed to delete transcript");
            return;
        }
        let removed = Batch::new(None, BatchDurability::Stream).deletion(conversation.to_string(), false);
        if let Err(error) = self.publication.submit(removed).await {
            tracing::debug!(%error, "failed to store that a transcript was deleted");
        }
    }

    /// Deletes transcripts of deleted sessions that could not be deleted before a restart.
    pub(super) async fn delete_pending_transcripts(&self) {
        let pending = self.store.pending_deletions().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to read the pending transcript deletions");
            Vec::new()
        });
        for conversation in pending.iter().filter_map(|id| Uuid::try_parse(id).ok()) {
            for (provider, transcript_store) in self.external.scanner.transcript_stores() {
                // Only one of the stores has it, and no file of a running turn is deleted.
                if transcript_store.external_activity(conversation).await != Some(ExternalActivity::Busy) {
                    self.delete_transcript(provider, conversation).await;
                }
            }
        }
    }
}
