//! `SessionChange`: actions on chats and the session, with host records and contents, that are committed together.

use std::sync::Arc;

use ahp_types::state::{SessionInputRequest, SessionStatus};
use ahp_types::{ActionOrigin, StateAction};
use hostler_store::{ActionEntry, AuditEntry, Batch, BatchDurability, Blob, StoreError};

use super::agent_requests::input_needed_removed;
use super::context::{SessionContext, build_catalog_put};
use crate::attachments::{AttachmentContents, named_in_draft};
use crate::permissions::session_gate::MAX_UNWRITTEN_DECISIONS;
use crate::sessions::action_mapper::ActionBuffer;
use crate::sessions::background_on_stop;
use crate::sessions::record::SessionRecord;
use crate::sessions::session::Session;

/// The channel of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ActionTarget {
    Chat,
    Session,
    /// A sub-agent's chat.
    SubAgentChat(Arc<str>),
}

/// Actions and host records that are stored and published together, or not at all.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SessionChange {
    actions: Vec<(ActionTarget, StateAction, Option<ActionOrigin>)>,
    blobs: Vec<Blob>,
    audit: Vec<AuditEntry>,
    records: Vec<SessionRecord>,
    /// The change starts a turn or queues a message, which makes a provisional session durable.
    persists_session: bool,
}

impl SessionChange {
    pub(super) fn chat_action(mut self, action: StateAction) -> Self {
        self.actions.push((ActionTarget::Chat, action, None));
        self
    }

    /// A client's action on the chat.
    pub(super) fn client_chat_action(mut self, action: StateAction, origin: Option<ActionOrigin>) -> Self {
        self.actions.push((ActionTarget::Chat, action, origin));
        self
    }

    /// An action on any chat, by a client or the host.
    pub(super) fn action_on(mut self, home: ActionTarget, action: StateAction, origin: Option<ActionOrigin>) -> Self {
        self.actions.push((home, action, origin));
        self
    }

    /// Output on any chat.
    pub(super) fn output_on(mut self, home: &ActionTarget, output: ActionBuffer) -> Self {
        self.actions.extend(output.actions.into_iter().map(|action| (home.clone(), action, None)));
        self.blobs.extend(output.blobs);
        self
    }

    /// Contents that the actions refer to.
    pub(super) fn blobs(mut self, blobs: impl IntoIterator<Item = Blob>) -> Self {
        self.blobs.extend(blobs);
        self
    }

    pub(super) fn session_action(mut self, action: StateAction) -> Self {
        self.actions.push((ActionTarget::Session, action, None));
        self
    }

    /// Adds the removal of pending requests from the session's `inputNeeded`: those of the chats that `is_over` selects.
    pub(super) fn remove_input_needed(self, session: &Session, is_over: impl Fn(&str) -> bool) -> Self {
        let open = session.session.input_needed.iter().flatten().filter_map(|request| match request {
            SessionInputRequest::ChatInput(request) => Some((&request.id, &request.chat)),
            SessionInputRequest::ToolConfirmation(request) => Some((&request.id, &request.chat)),
            _ => None,
        });
        // The session's own question belongs to no turn.
        let open = open.filter(|(id, chat)| *id != background_on_stop::STOP_QUESTION_REQUEST_ID && is_over(chat));
        open.fold(self, |change, (id, _)| change.session_action(input_needed_removed(id.clone())))
    }

    /// Marks that the change starts a turn or queues a message. A provisional session is stored together with it.
    pub(super) fn persist_session(mut self) -> Self {
        self.persists_session = true;
        self
    }

    pub(super) fn output(self, output: ActionBuffer) -> Self {
        self.output_on(&ActionTarget::Chat, output)
    }

    pub(super) fn audit(mut self, entries: impl IntoIterator<Item = AuditEntry>) -> Self {
        self.audit.extend(entries);
        self
    }

    pub(super) fn record(mut self, record: SessionRecord) -> Self {
        self.records.push(record);
        self
    }

    /// The actions, in order.
    #[cfg(test)]
    pub(super) fn actions(&self) -> impl Iterator<Item = &StateAction> {
        self.actions.iter().map(|(_, action, _)| action)
    }
}

impl SessionContext {
    /// Commits a change, then reduces it: a failed commit leaves the state unchanged.
    pub(super) async fn commit(&mut self, change: SessionChange) -> Result<(), StoreError> {
        let SessionChange { actions: entries, blobs, audit, records, persists_session: opens } = change;
        let mut batch = match opens {
            true => Batch::new(Some(Arc::clone(&self.session.uri)), BatchDurability::Durable),
            false => self.new_batch(BatchDurability::Durable),
        };
        batch = batch.blobs(blobs).audit(audit);
        if opens && !self.session.is_stored {
            let opened = SessionRecord::Opened {
                session: Box::new((*self.session.session).clone()),
                chat: Box::new((*self.session.chat).clone()),
                created_at: self.session.created_at.clone(),
                conversation: self.session.conversation,
                annotations: Some((*self.session.annotations).clone()).filter(|all| !all.annotations.is_empty()),
                synced_through: self.session.synced_through,
                metadata_sync: self.session.metadata_sync.clone(),
            };
            batch = batch.record(opened.to_host_record(&self.session.uri)?).blobs(self.draft_blobs());
            batch = batch.conversation(self.session.conversation.to_string(), Some(&self.session.uri));
            let uri = Arc::clone(&self.session.uri);
            self.host.catalog.sessions().set_conversation_owner(self.session.conversation, Some(uri));
        }
        if opens {
            // After a crash the catalog row shows, without reading the journal, that a turn was running.
            let mut summary = self.session.summary();
            summary.status = SessionStatus::InProgress.bits();
            batch = batch.catalog(build_catalog_put(&self.session.uri, self.session.is_listed, &summary)?);
        }
        for record in records {
            batch = batch.record(record.to_host_record(&self.session.chat_uri)?);
        }
        for (home, action, origin) in &entries {
            let entry = ActionEntry::new(self.channel_uri(home), action.clone())?;
            batch = batch.entry(entry.with_origin(origin.clone()));
        }
        self.host.publication.commit(batch).await?;
        if opens {
            self.session.is_stored = true;
            self.draft_contents = AttachmentContents::default();
        }
        // Earlier stream batches are committed with it at the latest.
        self.session.mark_turns_committed();
        for (home, action, _) in &entries {
            let channel = self.channel_uri(home);
            self.session.apply(&channel, action);
        }
        self.session.evict_turns(self.host.settings.turns_in_memory);
        Ok(())
    }

    /// The contents of the draft, which are stored with the session, because nothing referred to them until now.
    fn draft_blobs(&self) -> Vec<Blob> {
        let hashes: Vec<String> = self.session.chat.draft.iter().flat_map(named_in_draft).collect();
        self.draft_contents.blobs().filter(|blob| hashes.iter().any(|hash| hash == blob.hash())).collect()
    }

    /// Keeps the contents of a changed draft until the session is stored.
    pub(super) fn keep_draft_contents(&mut self, contents: &AttachmentContents) {
        if !self.session.is_stored {
            self.draft_contents = contents.clone();
        }
    }

    pub(super) fn channel_uri(&self, home: &ActionTarget) -> Arc<str> {
        match home {
            ActionTarget::Chat => Arc::clone(&self.session.chat_uri),
            ActionTarget::Session => Arc::clone(&self.session.uri),
            ActionTarget::SubAgentChat(chat) => Arc::clone(chat),
        }
    }

    /// Reduces and publishes stream actions of the chat, after the contents that they refer to are stored. `false` if
    /// that failed; then nothing is published.
    pub(super) async fn publish_output(&mut self, output: &mut ActionBuffer) -> bool {
        self.publish_output_on(&ActionTarget::Chat, output).await
    }

    /// Does the same on any chat.
    pub(super) async fn publish_output_on(&mut self, home: &ActionTarget, output: &mut ActionBuffer) -> bool {
        let output = std::mem::take(output);
        if output.is_empty() {
            return true;
        }
        if !output.blobs.is_empty() {
            let committed = self.commit(SessionChange::default().output_on(home, output)).await;
            return match committed {
                Ok(()) => true,
                Err(error) => {
                    tracing::error!(session = &*self.session.uri, %error, "failed to store tool output");
                    false
                }
            };
        }
        let of_activity = output.actions.iter().any(|action| matches!(action, StateAction::ChatActivityChanged(_)));
        self.publish_streamed(home, BatchDurability::Stream, output).await;
        if of_activity {
            // The agent's activity is part of the session summary.
            self.update_summaries().await;
        }
        true
    }

    /// Reduces and publishes actions of the chat that a later action repeats: they are never stored.
    pub(super) async fn publish_transient(&mut self, output: ActionBuffer) {
        if !output.is_empty() {
            self.publish_streamed(&ActionTarget::Chat, BatchDurability::Memory, output).await;
        }
    }

    async fn publish_streamed(&mut self, home: &ActionTarget, durability: BatchDurability, output: ActionBuffer) {
        let channel = self.channel_uri(home);
        let mut batch = self.new_batch(durability);
        for action in output.actions {
            self.session.apply(&channel, &action);
            match ActionEntry::new(Arc::clone(&channel), action) {
                Ok(entry) => batch = batch.entry(entry),
                Err(error) => tracing::error!(%error, "failed to encode an action; skipped"),
            }
        }
        self.submit(batch).await;
    }

    /// Writes decisions to the audit log.
    pub(super) async fn write_audit(&mut self, entries: Vec<AuditEntry>) {
        if !entries.is_empty() {
            let batch = self.new_batch(BatchDurability::Stream).audit(entries);
            self.submit(batch).await;
        }
    }

    /// Writes a decision of the gate to the audit log, with all decisions that are available already.
    pub(super) async fn write_gate_decisions(&mut self, first: AuditEntry) {
        let mut entries = vec![first];
        while entries.len() < MAX_UNWRITTEN_DECISIONS
            && let Ok(entry) = self.unwritten_decisions.try_recv()
        {
            entries.push(entry);
        }
        self.write_audit(entries).await;
    }
}
