//! Messages with attachments, as a client sends them.

use ahp_types::StateAction;
use ahp_types::actions::{ChatPendingMessageSetAction, ChatTurnStartedAction};
use ahp_types::state::{Message, MessageAttachment, PendingMessageKind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hostler_engine::{ClientFileReader, NoClientFiles};
use serde_json::{Value, json};

use crate::common::{Listener, Rig, SESSION, dispatch, message, started};

/// An image of one pixel.
pub(crate) fn png() -> Vec<u8> {
    let one_pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
    STANDARD.decode(one_pixel).unwrap()
}

pub(crate) fn embedded(label: &str, contents: &[u8]) -> Value {
    let (data, kind) = (STANDARD.encode(contents), "application/octet-stream");
    json!({ "type": "embeddedResource", "label": label, "data": data, "contentType": kind })
}

pub(crate) fn resource(label: &str, uri: &str) -> Value {
    json!({ "type": "resource", "label": label, "uri": uri })
}

pub(crate) fn with(text: &str, attached: &[Value]) -> Message {
    let attached = attached.iter().map(|value| serde_json::from_value(value.clone()).unwrap()).collect();
    Message { attachments: Some(attached), ..message(text, None) }
}

pub(crate) fn starts(turn: &str, message: Message) -> StateAction {
    StateAction::ChatTurnStarted(ChatTurnStartedAction { message, ..started(turn, "") })
}

pub(crate) fn pending(kind: PendingMessageKind, id: &str, message: Message) -> StateAction {
    StateAction::ChatPendingMessageSet(ChatPendingMessageSetAction { kind, id: id.into(), message })
}

impl Rig {
    /// Dispatches an action with attachments, as a surface does.
    pub(crate) async fn attach(&self, action: StateAction) {
        self.attach_from(action, &NoClientFiles).await;
    }

    pub(crate) async fn attach_from(&self, action: StateAction, fetch: &dyn ClientFileReader) {
        let dispatch = dispatch(SESSION, action);
        assert!(dispatch.has_attachments());
        self.engine.dispatch_with_attachments(dispatch, fetch).await;
    }

    /// Starts a host with `SESSION`, whose first message has these attachments.
    pub(crate) async fn begun_with(attached: &[Value]) -> (Self, Listener) {
        let (rig, listener) = Self::with_session().await;
        rig.attach(starts("t1", with("look", attached))).await;
        (rig, listener)
    }
}

impl Listener {
    /// The reason of the next rejection.
    pub(crate) async fn refusal(&mut self) -> String {
        loop {
            if let Some((_, reason)) = self.next().await.split_once(" rejected: ") {
                return reason.to_owned();
            }
        }
    }

    /// The attachments of the running turn's message, or of the last turn's.
    pub(crate) fn attached(&self) -> Vec<MessageAttachment> {
        let chat = self.chat.as_ref().unwrap();
        let active = chat.active_turn.as_ref().map(|turn| &turn.message);
        let message = active.or(chat.turns.last().map(|turn| &turn.message)).unwrap();
        message.attachments.clone().unwrap_or_default()
    }
}
