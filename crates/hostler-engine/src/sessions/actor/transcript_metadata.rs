//! Syncs title and tag between the session and the agent's transcript, and tracks the conversation's id.
//!
//! Both directions: a title or tag that people set on the session is written to the transcript, and one that another
//! program writes there is adopted if it is new; a known value changes nothing, so the two cannot alternate. Values
//! that the transcript lacks are *pending*: they are written when there is a transcript, when an agent has ended that
//! may know an older value, and after a restart.

use ahp_types::StateAction;
use ahp_types::actions::SessionMetaChangedAction;
use ahp_types::common::JsonObject;
use hostler_driver::{ConversationTag, ExternalConversation, ResumeToken};
use hostler_store::BatchDurability;
use serde_json::{Value, json};
use uuid::Uuid;

use super::SessionActor;
use super::context::SessionContext;
use crate::external_sessions::{MetadataUpdate, TAG_META_KEY, session_tag};
use crate::sessions::record::{MetadataSync, SessionRecord};

/// The metadata to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingMetadata {
    Title,
    Tag,
    Both,
}

impl SessionActor {
    /// Writes a person's title to the transcript, as soon as there is one.
    pub(super) async fn write_title_to_transcript(&mut self) {
        self.title_set_beside_agent |= self.agent.has_process();
        self.ctx
            .store_metadata_sync(MetadataSync { is_title_pending: true, ..self.ctx.session.metadata_sync.clone() })
            .await;
        self.ctx.write_pending_metadata(PendingMetadata::Title);
    }

    /// Handles that a person has set or removed the tag; the transcript, if there is one, contains it already.
    pub(super) async fn handle_tag_changed(&mut self, tag: Option<String>) {
        self.tag_set_beside_agent |= self.agent.has_process();
        self.ctx
            .store_metadata_sync(MetadataSync {
                is_tag_pending: self.agent.has_process(),
                ..self.ctx.session.metadata_sync.clone()
            })
            .await;
        self.ctx.set_tag(tag).await;
    }

    /// Resumes pending writes from before a restart when the session is opened.
    pub(super) fn resume_metadata_writes(&self) {
        self.ctx.write_pending_metadata(PendingMetadata::Both);
    }

    /// Writes the metadata again after the agent has ended, because some builds rewrite the title and tag that they
    /// knew at their start.
    pub(super) fn rewrite_metadata(&mut self) {
        let beside = (std::mem::take(&mut self.title_set_beside_agent), std::mem::take(&mut self.tag_set_beside_agent));
        match beside {
            (true, true) => self.ctx.write_pending_metadata(PendingMetadata::Both),
            (true, false) => self.ctx.write_pending_metadata(PendingMetadata::Title),
            (false, true) => self.ctx.write_pending_metadata(PendingMetadata::Tag),
            (false, false) => {}
        }
    }

    /// Handles a change of the transcript's metadata.
    pub(super) async fn handle_transcript_metadata(&mut self, record: ExternalConversation) {
        if record.id == self.ctx.session.conversation {
            self.restart_import();
        }
        if record.id != self.ctx.current_conversation() {
            return;
        }
        self.handle_transcript_changed();
        // A title beside a running agent may be replaced by the one that the agent knows.
        if !self.title_set_beside_agent {
            self.sync_title(record.id, record.custom_title).await;
        }
        if !self.tag_set_beside_agent {
            self.sync_tag(record.id, &record.tag).await;
        }
    }

    /// Adopts the transcript's tag if it is new, or writes the session's pending one.
    async fn sync_tag(&mut self, conversation: Uuid, tag: &ConversationTag) {
        let is_news = tag.differs_from(session_tag(self.ctx.session.session.meta.as_ref()));
        match self.ctx.session.metadata_sync.is_tag_pending {
            true if is_news || *tag == ConversationTag::Unknown => {
                self.write_unless_writing(conversation, PendingMetadata::Tag)
            }
            true => {
                self.ctx
                    .store_metadata_sync(MetadataSync {
                        is_tag_pending: false,
                        ..self.ctx.session.metadata_sync.clone()
                    })
                    .await
            }
            false if is_news => self.ctx.set_tag(tag.text().map(str::to_owned)).await,
            false => {}
        }
    }

    /// Adopts the transcript's title if it is new, or writes the session's pending one.
    async fn sync_title(&mut self, conversation: Uuid, title: Option<String>) {
        let MetadataSync { transcript_title: before, is_title_pending: title_due, .. } =
            &self.ctx.session.metadata_sync;
        let (is_old, is_due) = (title.is_none() || title == *before, *title_due);
        if title.as_ref() == Some(&self.ctx.session.session.title) {
            self.ctx
                .store_metadata_sync(MetadataSync {
                    transcript_title: title,
                    is_title_pending: false,
                    ..self.ctx.session.metadata_sync.clone()
                })
                .await;
        } else if is_old && is_due {
            self.write_unless_writing(conversation, PendingMetadata::Title);
        } else if !is_old && !self.ctx.host.external.metadata_writer.is_writing(conversation) {
            let Some(new) = title.clone() else { return };
            if let Err(error) = self.ctx.set_title(new).await {
                return tracing::warn!(%error, "failed to store a session's new title");
            }
            self.ctx.host.external.metadata_writer.supersede_title(conversation);
            self.ctx
                .store_metadata_sync(MetadataSync {
                    transcript_title: title,
                    is_title_pending: false,
                    ..self.ctx.session.metadata_sync.clone()
                })
                .await;
            self.ctx.update_summaries().await;
        }
    }

    fn write_unless_writing(&self, conversation: Uuid, due: PendingMetadata) {
        if !self.ctx.host.external.metadata_writer.has_pending_writes(conversation) {
            self.ctx.write_pending_metadata(due);
        }
    }
}

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
        self.write_pending_metadata(PendingMetadata::Both);
    }

    /// Enqueues pending metadata after earlier writes to the same transcript.
    fn write_pending_metadata(&self, due: PendingMetadata) {
        if self.session.resume_token.is_none() {
            return;
        }
        let MetadataSync { is_title_pending: title_due, is_tag_pending: tag_due, .. } = self.session.metadata_sync;
        let (provider, conversation) = (&self.session.session.provider, self.current_conversation());
        if title_due && due != PendingMetadata::Tag {
            let title = self.session.session.title.clone();
            self.host.external.metadata_writer.enqueue(provider, conversation, MetadataUpdate::Title(title));
        }
        if tag_due && due != PendingMetadata::Title {
            let tag = session_tag(self.session.session.meta.as_ref()).map(str::to_owned);
            self.host.external.metadata_writer.enqueue(provider, conversation, MetadataUpdate::Tag(tag));
        }
    }

    /// Stores what is known about the transcript's metadata.
    pub(super) async fn store_metadata_sync(&mut self, notes: MetadataSync) {
        if self.session.metadata_sync != notes {
            self.session.metadata_sync = notes.clone();
            self.append_record(&SessionRecord::MetadataSynced { metadata_sync: notes }).await;
        }
    }

    async fn set_tag(&mut self, tag: Option<String>) {
        if session_tag(self.session.session.meta.as_ref()) == tag.as_deref() {
            return;
        }
        let meta = Some(tagged(self.session.session.meta.as_ref(), tag.as_deref()));
        self.publish_session_action(StateAction::SessionMetaChanged(SessionMetaChangedAction { meta })).await;
        self.update_summaries().await;
    }

    /// Handles that the agent reports a resume token.
    pub(super) async fn update_resume_token(&mut self, token: ResumeToken) {
        if self.session.resume_token.as_ref() == Some(&token) {
            return;
        }
        self.session.resume_token = Some(token.clone());
        self.store_resume_token(token).await;
    }
}

fn tagged(meta: Option<&JsonObject>, tag: Option<&str>) -> JsonObject {
    let mut meta = meta.cloned().unwrap_or_default();
    let mut hostler = meta.get("hostler").and_then(Value::as_object).cloned().unwrap_or_default();
    match tag {
        Some(tag) => hostler.insert(TAG_META_KEY.to_owned(), json!(tag)),
        None => hostler.remove(TAG_META_KEY),
    };
    meta.insert("hostler".to_owned(), hostler.into());
    meta
}
