//! The agent's own record of the conversation: whose it is, and the name and the tag in it.
//!
//! A name goes both ways. What people call the session here is written into the record, and what somebody calls it there is
//! taken over, if it is news: a name that is the session's already changes nothing, so that the two cannot chase each other.

use ahp_types::StateAction;
use ahp_types::actions::{
    PartialChatSummary, SessionChatUpdatedAction, SessionMetaChangedAction, SessionTitleChangedAction,
};
use ahp_types::common::JsonObject;
use hostler_driver::{FoundConversation, ResumeToken};
use hostler_store::{Durability, StoreError};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Actor;
use super::change::Change;
use crate::found::{TAG, tag_of};
use crate::record::Record;

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
    }

    /// Writes the session's title into the agent's record, after whatever is to be written there before it.
    pub(super) fn write_title(&mut self) {
        let title = self.session.session.title.clone();
        if self.session.token.is_some() {
            self.named_beside |= self.agent.is_there();
            self.host.namer.write(&self.session.session.provider, self.conversation(), title);
        }
    }

    /// The agent is gone. Some builds write the name once more then that they knew when they began.
    pub(super) fn name_again(&mut self) {
        if std::mem::take(&mut self.named_beside) {
            self.write_title();
        }
    }

    /// The record looks like this now.
    pub(super) async fn record_is(&mut self, record: FoundConversation) {
        if record.id != self.conversation() {
            return;
        }
        self.record_changed();
        if let Some(title) = record.given_title.filter(|_| !self.named_beside)
            && self.host.namer.is_news(record.id, &title)
            && title != self.session.session.title
        {
            match self.retitle(title).await {
                Ok(()) => self.project().await,
                Err(error) => tracing::warn!(%error, "a session's new name could not be stored"),
            }
        }
        if tag_of(self.session.session.meta.as_ref()) != record.tag.as_deref() {
            let meta = Some(tagged(self.session.session.meta.as_ref(), record.tag));
            self.tell_session(StateAction::SessionMetaChanged(SessionMetaChangedAction { meta })).await;
            self.project().await;
        }
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

fn tagged(meta: Option<&JsonObject>, tag: Option<String>) -> JsonObject {
    let mut meta = meta.cloned().unwrap_or_default();
    let mut hostler = meta.get("hostler").and_then(Value::as_object).cloned().unwrap_or_default();
    match tag {
        Some(tag) => hostler.insert(TAG.to_owned(), json!(tag)),
        None => hostler.remove(TAG),
    };
    meta.insert("hostler".to_owned(), hostler.into());
    meta
}
