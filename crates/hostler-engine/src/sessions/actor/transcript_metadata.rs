//! Follows title and tag in the agent's transcript, and tracks the conversation's id.
//!
//! Titles and tags that people set here are stored with the session. One that another program writes to the transcript
//! replaces them; a value that was there before does not.

use hostler_driver::{ExternalConversation, ResumeToken};
use hostler_store::BatchDurability;
use uuid::Uuid;

use super::context::SessionContext;
use super::effect::SessionEffect;
use super::external_sync::SyncEvent;
use crate::external_sessions::{TAG_META_KEY, session_tag};
use crate::sessions::record::{MetadataSync, SessionRecord};

impl SessionContext {
    /// The id of the agent's current conversation.
    pub(super) fn current_conversation(&self) -> Uuid {
        let token = self.session.resume_token.as_ref();
        token.and_then(|token| self.conversation_of_token(token)).unwrap_or(self.session.conversation)
    }

    fn conversation_of_token(&self, token: &ResumeToken) -> Option<Uuid> {
        self.host.agents.transcript_store(&self.session.session.provider)?.conversation_id(token)
    }

    /// Stores the resume token, and the conversation's owner.
    pub(super) async fn store_resume_token(&mut self, token: ResumeToken) {
        let conversation = self.conversation_of_token(&token);
        let record = match (SessionRecord::Resume { token }).to_host_record(&self.session.chat_uri) {
            Ok(record) => record,
            Err(error) => return tracing::error!(%error, "failed to encode a host record; skipped"),
        };
        let mut batch = self.new_batch(BatchDurability::Stream).record(record);
        if let Some(id) = conversation {
            batch = batch.conversation(id.to_string(), Some(&self.session.uri));
            self.host.catalog.sessions().set_conversation_owner(id, Some(self.session.uri.clone()));
        }
        self.submit(batch).await;
    }

    /// Adopts a title and a tag that are new in the transcript, and syncs its turns.
    pub(super) async fn adopt_metadata(&mut self, conversation: ExternalConversation) -> Vec<SessionEffect> {
        if conversation.id != self.current_conversation() {
            return Vec::new();
        }
        let sync = vec![SessionEffect::Sync(SyncEvent::Changed.into())];
        let known = self.session.metadata_sync.clone();
        let transcript_title = conversation.custom_title.or_else(|| known.transcript_title.clone());
        let transcript_tag = conversation.tag.or_else(|| known.transcript_tag.clone());
        if let Some(title) = transcript_title.clone().filter(|_| transcript_title != known.transcript_title) {
            if let Err(error) = self.set_title(title).await {
                tracing::warn!(%error, "failed to store a session's new title");
                return sync;
            }
            self.update_summaries().await;
        }
        if let Some(tag) = transcript_tag.clone().filter(|_| transcript_tag != known.transcript_tag) {
            self.publish_tag(tag).await;
        }
        self.store_metadata_sync(MetadataSync { transcript_title, transcript_tag }).await;
        sync
    }

    /// Handles that the agent reports a resume token.
    pub(super) async fn update_resume_token(&mut self, token: ResumeToken) {
        if self.session.resume_token.as_ref() != Some(&token) {
            self.session.resume_token = Some(token.clone());
            self.store_resume_token(token).await;
        }
    }

    /// Handles that a person has set or removed the tag.
    pub(super) async fn set_tag(&mut self, tag: Option<String>) {
        // Earlier versions wrote tags to the transcript, where this one is no change.
        let before = session_tag(self.session.session.meta.as_ref()).unwrap_or_default().to_owned();
        let mut known = self.session.metadata_sync.clone();
        known.transcript_tag.get_or_insert(before);
        self.store_metadata_sync(known).await;
        self.publish_tag(tag.unwrap_or_default()).await;
    }

    /// Stores what is known about the transcript's metadata.
    async fn store_metadata_sync(&mut self, metadata_sync: MetadataSync) {
        if self.session.metadata_sync != metadata_sync {
            self.session.metadata_sync = metadata_sync.clone();
            self.append_record(&SessionRecord::MetadataSynced { metadata_sync }).await;
        }
    }

    async fn publish_tag(&mut self, tag: String) {
        if session_tag(self.session.session.meta.as_ref()).unwrap_or_default() != tag {
            self.publish_session_meta(TAG_META_KEY, (!tag.is_empty()).then_some(tag).into()).await;
            self.update_summaries().await;
        }
    }
}
