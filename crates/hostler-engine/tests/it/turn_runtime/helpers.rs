//! Client actions and views for these tests.

use hostler_driver::{DriverEvent, PartId, PartKind};
use hostler_engine::default_chat_uri;
use hostler_testkit::fake_driver::FakeAgent;
use serde_json::{Value, json};

use crate::common::{Listener, Rig, SESSION, dispatch_json};

impl Rig {
    /// Dispatches an action on the chat's channel.
    pub(crate) async fn chat(&self, action: Value) {
        self.engine.dispatch(dispatch_json(&default_chat_uri(SESSION), 0, action, None)).await;
    }

    pub(crate) async fn queue(&self, id: &str, text: &str) {
        self.pending("queued", id, text).await;
    }

    pub(crate) async fn steer(&self, id: &str, text: &str) {
        self.pending("steering", id, text).await;
    }

    async fn pending(&self, kind: &str, id: &str, text: &str) {
        let message = json!({"text": text, "origin": {"kind": "user"}});
        self.chat(json!({"type": "chat/pendingMessageSet", "kind": kind, "id": id, "message": message})).await;
    }

    pub(crate) async fn remove_pending(&self, kind: &str, id: &str) {
        self.chat(json!({"type": "chat/pendingMessageRemoved", "kind": kind, "id": id})).await;
    }

    pub(crate) async fn reorder(&self, order: &[&str]) {
        self.chat(json!({"type": "chat/queuedMessagesReordered", "order": order})).await;
    }
}

impl Listener {
    /// The texts of the queue.
    pub(crate) fn queued(&self) -> Vec<String> {
        let queue = self.chat.as_ref().unwrap().queued_messages.clone().unwrap_or_default();
        queue.into_iter().map(|pending| pending.message.text).collect()
    }

    pub(crate) fn steering(&self) -> Option<String> {
        self.chat.as_ref().unwrap().steering_message.as_ref().map(|pending| pending.message.text.clone())
    }

    /// The messages of the completed turns, in order.
    pub(crate) fn message_texts(&self) -> Vec<String> {
        self.chat.as_ref().unwrap().turns.iter().map(|turn| turn.message.text.clone()).collect()
    }

    pub(crate) fn is_paused(&self) -> bool {
        let meta = self.session.as_ref().unwrap().meta.clone().unwrap_or_default();
        meta.get("hostler").is_some_and(|hostler| hostler["queuePaused"] == json!(true))
    }
}

/// The model starts an answer, with one part so far.
pub(crate) async fn emit_partial_answer(agent: &FakeAgent, part: u64, text: &str) {
    agent.emit(DriverEvent::MessageStarted).await;
    agent.emit(DriverEvent::PartStarted { part: PartId(part), kind: PartKind::Text }).await;
    agent.emit(DriverEvent::PartDelta { part: PartId(part), text: text.to_owned() }).await;
}
