//! The agent's own record of the conversation: whose it is, and the name and the tag in it.
//!
//! Both go both ways. What people put on the session here is written into the record, and what somebody writes there is taken
//! over, if it is news: what stood there before changes nothing, so that the two cannot chase each other. What the record
//! does not say yet is *due*: it is written when there is a record, when an agent is gone that may know an older word, and in
//! another life of the host.

use ahp_types::StateAction;
use ahp_types::actions::{
    PartialChatSummary, SessionChatUpdatedAction, SessionMetaChangedAction, SessionTitleChangedAction,
};
use ahp_types::common::JsonObject;
use hostler_driver::{FoundConversation, ResumeToken, Tag};
use hostler_store::{Durability, StoreError};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Actor;
use super::change::Change;
use crate::found::{Note, TAG, tag_of};
use crate::record::{Notes, Record};

/// What is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Title,
    Tag,
    Both,
}

impl Actor {
    /// The conversation that the agent leads now.
    pub(super) fn conversation(&self) -> Uuid {
        let token = self.session.token.as_ref();
        token.and_then(|token| self.conversation_of(token)).unwrap_or(self.session.conversation)
    }

    fn conversation_of(&self, token: &ResumeToken) -> Option<Uuid> {
        self.host.archive(&self.session.session.provider)?.conversation(token)
    }

    /// How the conversation goes on from here, and under which id.
    pub(super) async fn note_token(&mut self, token: ResumeToken) {
        let conversation = self.conversation_of(&token);
        let record = match (Record::Resume { token }).on(&self.session.chat_uri) {
            Ok(record) => record,
            Err(error) => return tracing::error!(%error, "a host record was skipped"),
        };
        let mut batch = self.batch(Durability::Stream).record(record);
        if let Some(id) = conversation {
            batch = batch.conversation(id.to_string(), Some(&self.session.uri));
            self.host.sessions().conversations.insert(id, Some(self.session.uri.clone()));
        }
        self.submit(batch).await;
        self.write_due(Due::Both);
    }

    /// A person has named the session: the agent's record is to say so, as soon as there is one.
    pub(super) async fn write_title(&mut self) {
        self.named_beside |= self.agent.is_there();
        self.noted(Notes { title_due: true, ..self.session.notes.clone() }).await;
        self.write_due(Due::Title);
    }

    /// A person has put a tag on the session, or taken it off; the record says so already, where there is one.
    pub(super) async fn tagged(&mut self, tag: Option<String>) {
        self.tagged_beside |= self.agent.is_there();
        self.noted(Notes { tag_due: self.agent.is_there(), ..self.session.notes.clone() }).await;
        self.set_tag(tag).await;
    }

    /// What is due is written after whatever is to be written there before it.
    fn write_due(&self, due: Due) {
        if self.session.token.is_none() {
            return;
        }
        let Notes { title_due, tag_due, .. } = self.session.notes;
        let (provider, conversation) = (&self.session.session.provider, self.conversation());
        if title_due && due != Due::Tag {
            let title = self.session.session.title.clone();
            self.host.namer.write(provider, conversation, Note::Title(title));
        }
        if tag_due && due != Due::Title {
            let tag = tag_of(self.session.session.meta.as_ref()).map(str::to_owned);
            self.host.namer.write(provider, conversation, Note::Tag(tag));
        }
    }

    /// The session is opened: what an earlier life has left undone is done now.
    pub(super) fn write_what_is_due(&self) {
        self.write_due(Due::Both);
    }

    /// The agent is gone. Some builds write the name and the tag once more then that they knew when they began.
    pub(super) fn name_again(&mut self) {
        let beside = (std::mem::take(&mut self.named_beside), std::mem::take(&mut self.tagged_beside));
        match beside {
            (true, true) => self.write_due(Due::Both),
            (true, false) => self.write_due(Due::Title),
            (false, true) => self.write_due(Due::Tag),
            (false, false) => {}
        }
    }

    /// The record looks like this now.
    pub(super) async fn record_is(&mut self, record: FoundConversation) {
        if record.id == self.session.conversation {
            self.older_may_come();
        }
        if record.id != self.conversation() {
            return;
        }
        self.record_changed();
        // What stands there beside an agent may be replaced by what it knows.
        if !self.named_beside {
            self.title_is(record.id, record.given_title).await;
        }
        if !self.tagged_beside {
            self.tag_is(record.id, &record.tag).await;
        }
    }

    /// The record has this tag, or none, or it was not seen.
    async fn tag_is(&mut self, conversation: Uuid, tag: &Tag) {
        let is_news = tag.is_news_to(tag_of(self.session.session.meta.as_ref()));
        match self.session.notes.tag_due {
            true if is_news || *tag == Tag::Unseen => self.write_unless_at_it(conversation, Due::Tag),
            true => self.noted(Notes { tag_due: false, ..self.session.notes.clone() }).await,
            false if is_news => self.set_tag(tag.text().map(str::to_owned)).await,
            false => {}
        }
    }

    /// The record has this name, or none that was seen.
    async fn title_is(&mut self, conversation: Uuid, title: Option<String>) {
        let Notes { title: before, title_due, .. } = &self.session.notes;
        let (is_old, is_due) = (title.is_none() || title == *before, *title_due);
        if title.as_ref() == Some(&self.session.session.title) {
            self.noted(Notes { title, title_due: false, ..self.session.notes.clone() }).await;
        } else if is_old && is_due {
            self.write_unless_at_it(conversation, Due::Title);
        } else if !is_old && !self.host.namer.is_writing(conversation) {
            let Some(new) = title.clone() else { return };
            if let Err(error) = self.retitle(new).await {
                return tracing::warn!(%error, "a session's new name could not be stored");
            }
            self.host.namer.forget_title(conversation);
            self.noted(Notes { title, title_due: false, ..self.session.notes.clone() }).await;
            self.project().await;
        }
    }

    fn write_unless_at_it(&self, conversation: Uuid, due: Due) {
        if !self.host.namer.is_at_it(conversation) {
            self.write_due(due);
        }
    }

    /// Remembers what is known of the record.
    async fn noted(&mut self, notes: Notes) {
        if self.session.notes != notes {
            self.session.notes = notes.clone();
            self.note(&Record::Noted { notes }).await;
        }
    }

    async fn set_tag(&mut self, tag: Option<String>) {
        if tag_of(self.session.session.meta.as_ref()) == tag.as_deref() {
            return;
        }
        let meta = Some(tagged(self.session.session.meta.as_ref(), tag.as_deref()));
        self.tell_session(StateAction::SessionMetaChanged(SessionMetaChangedAction { meta })).await;
        self.project().await;
    }

    /// Another title: the only chat that people write in has the session's title as its own.
    pub(super) async fn retitle(&mut self, title: String) -> Result<(), StoreError> {
        let titled = || StateAction::SessionTitleChanged(SessionTitleChangedAction { title: title.clone() });
        let changes = PartialChatSummary { title: Some(title.clone()), ..PartialChatSummary::default() };
        let line = SessionChatUpdatedAction { chat: self.session.chat_uri.to_string(), changes };
        let change = Change::default().chat(titled()).session(StateAction::SessionChatUpdated(line)).session(titled());
        self.commit(change).await
    }
}

fn tagged(meta: Option<&JsonObject>, tag: Option<&str>) -> JsonObject {
    let mut meta = meta.cloned().unwrap_or_default();
    let mut hostler = meta.get("hostler").and_then(Value::as_object).cloned().unwrap_or_default();
    match tag {
        Some(tag) => hostler.insert(TAG.to_owned(), json!(tag)),
        None => hostler.remove(TAG),
    };
    meta.insert("hostler".to_owned(), hostler.into());
    meta
}
