//! What the actor changes together: actions of the chat and of the session, and the facts beside them.

use std::sync::Arc;

use ahp_types::state::SessionStatus;
use ahp_types::{ActionOrigin, StateAction};
use hostler_store::{AuditEntry, Batch, Blob, Durability, Entry, StoreError};

use super::{Actor, put};
use crate::attach::named_in_draft;
use crate::record::Record;
use crate::transcript::Output;

/// Where an action goes.
#[derive(Debug, Clone)]
pub(super) enum Home {
    Chat,
    Session,
    /// A sub-agent's chat.
    Worker(Arc<str>),
}

/// Actions and facts that are stored and published together, or not at all.
#[derive(Debug, Default)]
pub(super) struct Change {
    entries: Vec<(Home, StateAction, Option<ActionOrigin>)>,
    blobs: Vec<Blob>,
    audit: Vec<AuditEntry>,
    records: Vec<Record>,
    /// A turn begins with it, or a message waits for one: it is the end of a provisional session.
    opens: bool,
}

impl Change {
    pub(super) fn chat(mut self, action: StateAction) -> Self {
        self.entries.push((Home::Chat, action, None));
        self
    }

    /// A client's own action on the chat.
    pub(super) fn chat_of(mut self, action: StateAction, origin: Option<ActionOrigin>) -> Self {
        self.entries.push((Home::Chat, action, origin));
        self
    }

    /// An action on some chat, a client's own or the host's.
    pub(super) fn on(mut self, home: Home, action: StateAction, origin: Option<ActionOrigin>) -> Self {
        self.entries.push((home, action, origin));
        self
    }

    /// What happens on some chat.
    pub(super) fn output_on(mut self, home: &Home, output: Output) -> Self {
        self.entries.extend(output.actions.into_iter().map(|action| (home.clone(), action, None)));
        self.blobs.extend(output.blobs);
        self
    }

    /// Contents that the actions name.
    pub(super) fn blobs(mut self, blobs: impl IntoIterator<Item = Blob>) -> Self {
        self.blobs.extend(blobs);
        self
    }

    pub(super) fn session(mut self, action: StateAction) -> Self {
        self.entries.push((Home::Session, action, None));
        self
    }

    /// A turn begins with this, or a message waits for one. For a provisional session it is stored together with the
    /// session itself.
    pub(super) fn opens(mut self) -> Self {
        self.opens = true;
        self
    }

    pub(super) fn output(self, output: Output) -> Self {
        self.output_on(&Home::Chat, output)
    }

    pub(super) fn audit(mut self, entries: impl IntoIterator<Item = AuditEntry>) -> Self {
        self.audit.extend(entries);
        self
    }

    pub(super) fn record(mut self, record: Record) -> Self {
        self.records.push(record);
        self
    }
}

impl Actor {
    /// Commits a change, then reduces it: a failed commit leaves the state untouched.
    pub(super) async fn commit(&mut self, change: Change) -> Result<(), StoreError> {
        let Change { entries, blobs, audit, records, opens } = change;
        let mut batch = match opens {
            true => Batch::new(Some(Arc::clone(&self.session.uri)), Durability::Durable),
            false => self.batch(Durability::Durable),
        };
        batch = batch.blobs(blobs).audit(audit);
        if opens && !self.session.stored {
            let opened = Record::Opened {
                session: Box::new((*self.session.session).clone()),
                chat: Box::new((*self.session.chat).clone()),
                created_at: self.session.created_at.clone(),
                conversation: self.session.conversation,
                annotations: Some((*self.session.annotations).clone()).filter(|all| !all.annotations.is_empty()),
                heard: self.session.heard,
                notes: self.session.notes.clone(),
            };
            batch = batch.record(opened.on(&self.session.uri)?).blobs(self.draft_contents().await);
            batch = batch.conversation(self.session.conversation.to_string(), Some(&self.session.uri));
            let uri = Arc::clone(&self.session.uri);
            self.host.sessions().conversations.insert(self.session.conversation, Some(uri));
        }
        if opens {
            // After a crash the row tells, without reading the journal, that a turn was running.
            let mut summary = self.session.summary();
            summary.status = SessionStatus::InProgress.bits();
            batch = batch.catalogue(put(&self.session.uri, self.session.listed, &summary)?);
        }
        for record in records {
            batch = batch.record(record.on(&self.session.chat_uri)?);
        }
        for (home, action, origin) in &entries {
            let entry = Entry::new(self.channel(home), action.clone())?;
            batch = batch.entry(entry.with_origin(origin.clone()));
        }
        self.host.store.sequencer().commit(batch).await?;
        self.session.stored |= opens;
        // What was streamed before it is committed with it at the latest.
        self.session.rows_are_safe();
        for (home, action, _) in &entries {
            let channel = self.channel(home);
            self.session.apply(&channel, action);
        }
        self.session.trim(self.host.turns_in_memory);
        Ok(())
    }

    /// What the draft names: whoever stores it brings it, since nothing has held it until now.
    async fn draft_contents(&self) -> Vec<Blob> {
        let mut contents = Vec::new();
        for hash in self.session.chat.draft.iter().flat_map(named_in_draft) {
            contents.extend(self.host.store.blob(&hash).await.ok().flatten());
        }
        contents
    }

    pub(super) fn channel(&self, home: &Home) -> Arc<str> {
        match home {
            Home::Chat => Arc::clone(&self.session.chat_uri),
            Home::Session => Arc::clone(&self.session.uri),
            Home::Worker(chat) => Arc::clone(chat),
        }
    }

    /// Reduces and publishes streamed actions of the chat. Where they name contents, those are stored first. `false` if
    /// that failed; then nothing was said.
    pub(super) async fn flush(&mut self, output: &mut Output) -> bool {
        self.flush_on(&Home::Chat, output).await
    }

    /// The same on some chat.
    pub(super) async fn flush_on(&mut self, home: &Home, output: &mut Output) -> bool {
        let output = std::mem::take(output);
        if output.is_empty() {
            return true;
        }
        if !output.blobs.is_empty() {
            let committed = self.commit(Change::default().output_on(home, output)).await;
            return match committed {
                Ok(()) => true,
                Err(error) => {
                    tracing::error!(session = &*self.session.uri, %error, "what a tool did could not be shown");
                    false
                }
            };
        }
        let of_activity = output.actions.iter().any(|action| matches!(action, StateAction::ChatActivityChanged(_)));
        self.stream(home, Durability::Stream, output).await;
        if of_activity {
            // What the agent does stands in the list of sessions, too.
            self.project().await;
        }
        true
    }

    /// Reduces and publishes actions of the chat that something later says again: they are never written.
    pub(super) async fn show_in_passing(&mut self, output: Output) {
        if !output.is_empty() {
            self.stream(&Home::Chat, Durability::Memory, output).await;
        }
    }

    async fn stream(&mut self, home: &Home, durability: Durability, output: Output) {
        let channel = self.channel(home);
        let mut batch = self.batch(durability);
        for action in output.actions {
            self.session.apply(&channel, &action);
            match Entry::new(Arc::clone(&channel), action) {
                Ok(entry) => batch = batch.entry(entry),
                Err(error) => tracing::error!(%error, "an action was skipped"),
            }
        }
        self.submit(batch).await;
    }

    /// Writes decisions down.
    pub(super) async fn write_down(&mut self, entries: Vec<AuditEntry>) {
        if !entries.is_empty() {
            let batch = self.batch(Durability::Stream).audit(entries);
            self.submit(batch).await;
        }
    }
}
