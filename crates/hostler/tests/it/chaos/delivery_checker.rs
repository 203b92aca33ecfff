//! Checks what the host acknowledged against the resulting chat.

use std::collections::HashMap;

use ahp_types::common::StringOrMarkdown;
use ahp_types::state::{ChatState, MessageKind, ResponsePart};
use serde_json::Value;

use crate::chaos::chaos_client::ReceivedEnvelope;

/// How a message was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendKind {
    Turn,
    Queued,
    Steering,
}

/// Outcome of a message, as far as clients know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageFate {
    Unknown,
    /// Accepted with this number.
    Accepted(i64),
    Refused,
}

#[derive(Debug)]
struct Message {
    tag: String,
    kind: SendKind,
    fate: MessageFate,
    /// A client withdrew it, or replaced it.
    withdrawn: bool,
}

/// All sent messages and their outcomes.
#[derive(Debug, Default)]
pub(crate) struct DeliveryChecker {
    messages: Vec<Message>,
    /// By client and number.
    sent: HashMap<(String, i64), usize>,
    taken_back: HashMap<(String, i64), String>,
}

impl DeliveryChecker {
    /// Returns a text that is in no other message.
    pub(crate) fn next_tag(&self) -> String {
        format!("#{};", self.messages.len())
    }

    /// Records a dispatched message that ends with the last tag.
    pub(crate) fn record_sent(&mut self, client: &str, number: i64, kind: SendKind) {
        self.sent.insert((client.to_owned(), number), self.messages.len());
        self.messages.push(Message { tag: self.next_tag(), kind, fate: MessageFate::Unknown, withdrawn: false });
    }

    /// Records that a client removes a queued message.
    pub(crate) fn record_removal(&mut self, client: &str, number: i64, text: &str) {
        self.taken_back.insert((client.to_owned(), number), text.to_owned());
    }

    /// Records a received envelope.
    pub(crate) fn record_envelope(&mut self, received: &ReceivedEnvelope) {
        let envelope = &received.envelope;
        let origin = &envelope["origin"];
        let (Some(client), Some(number)) = (origin["clientId"].as_str(), origin["clientSeq"].as_i64()) else { return };
        let key = (client.to_owned(), number);
        let refused = envelope.get("rejectionReason").is_some();
        if refused && !received.is_own {
            // Rejections are not recorded: a disconnected client dispatches again, which may succeed.
            return;
        }
        if let Some(message) = self.sent.get(&key).and_then(|index| self.messages.get_mut(*index)) {
            let seq = envelope["serverSeq"].as_i64().unwrap();
            let fate = if refused { MessageFate::Refused } else { MessageFate::Accepted(seq) };
            let fate_before = message.fate;
            assert!(fate_before == MessageFate::Unknown || fate_before == fate, "{message:?} is {fate:?} as well");
            message.fate = fate;
            // There is one steering slot: a new message replaces the one in it.
            let fills_slot = envelope["action"]["kind"] == "steering" && fate_before == MessageFate::Unknown;
            if fills_slot
                && !refused
                && let Some(replaced) = &received.slot_before
            {
                self.withdraw(replaced);
            }
        }
        if !refused && let Some(text) = self.taken_back.get(&key).cloned() {
            self.withdraw(&text);
        }
    }

    fn withdraw(&mut self, text: &str) {
        for message in self.messages.iter_mut().filter(|message| text.ends_with(&message.tag)) {
            message.withdrawn = true;
        }
    }

    /// Records a snapshot instead of envelopes: messages that it does not contain may have been replaced meanwhile.
    pub(crate) fn record_snapshot(&mut self, before: Option<&str>, now: &ChatState) {
        let Some(before) = before else { return };
        if !places(now).iter().any(|(text, _)| text.contains(before)) {
            self.withdraw(before);
        }
    }

    pub(crate) fn accepted_count(&self) -> usize {
        self.messages.iter().filter(|message| matches!(message.fate, MessageFate::Accepted(_))).count()
    }

    /// Returns the tag of the last sent message.
    pub(crate) fn last_tag(&self) -> &str {
        self.messages.last().map_or("", |message| &message.tag)
    }

    /// Returns whether the last sent message was accepted; `None` if that is unknown.
    pub(crate) fn last_is_accepted(&self) -> Option<bool> {
        match self.messages.last()?.fate {
            MessageFate::Unknown => None,
            fate => Some(matches!(fate, MessageFate::Accepted(_))),
        }
    }

    /// Checks that no acknowledged message is lost or duplicated, no rejected one is present, and all are in order.
    /// Returns how many accepted messages are present.
    pub(crate) fn check_chat(&self, chat: &ChatState) -> usize {
        let places = places(chat);
        let show = || format!("{:#?}\n{places:#?}", self.messages);
        for message in &self.messages {
            let count = places.iter().filter(|(text, _)| text.ends_with(&message.tag)).count();
            let right = match (message.fate, message.withdrawn) {
                (MessageFate::Refused, _) | (MessageFate::Accepted(_), true) => count == 0,
                (MessageFate::Accepted(_), false) => count == 1,
                (MessageFate::Unknown, _) => count <= 1,
            };
            assert!(right, "{message:?} occurs {count} times\n{}", show());
        }
        for (text, is_persons) in &places {
            let known = self.messages.iter().any(|message| text.ends_with(&message.tag));
            assert!(known || !is_persons, "no client sent {text:?}\n{}", show());
        }
        for kind in [SendKind::Turn, SendKind::Queued] {
            let position = |message: &Message| places.iter().position(|(text, _)| text.ends_with(&message.tag));
            let number = |message: &Message| match message.fate {
                MessageFate::Accepted(number) => Some(number),
                _ => None,
            };
            let of_kind = self.messages.iter().filter(|message| message.kind == kind);
            let mut order: Vec<_> =
                of_kind.filter_map(|message| Some((number(message)?, position(message)?))).collect();
            order.sort_unstable();
            assert!(order.is_sorted_by_key(|(_, position)| *position), "out of order: {order:?}\n{}", show());
        }
        let mut ids: Vec<_> = chat.turns.iter().map(|turn| &turn.id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), chat.turns.len(), "a turn occurs twice");
        let is_retained = |message: &&Message| matches!(message.fate, MessageFate::Accepted(_)) && !message.withdrawn;
        self.messages.iter().filter(is_retained).count()
    }
}

/// Returns messages in order: in the transcript, in the slot, in the queue. With each, whether a person sent it.
fn places(chat: &ChatState) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let ended = chat.turns.iter().map(|turn| (&turn.message, &turn.response_parts));
    let active = chat.active_turn.iter().map(|turn| (&turn.message, &turn.response_parts));
    for (message, parts) in ended.chain(active) {
        found.push((message.text.clone(), message.origin.kind == MessageKind::User));
        for part in parts {
            // An injected steer without an answer is shown by the turn that it was injected into.
            if let ResponsePart::SystemNotification(notice) = part
                && let StringOrMarkdown::Plain(text) = &notice.content
            {
                found.push((text.clone(), false));
            }
        }
    }
    let waiting = chat.steering_message.iter().chain(chat.queued_messages.iter().flatten());
    found.extend(waiting.map(|message| (message.message.text.clone(), true)));
    found
}

/// Checks that completed turns have not changed.
pub(crate) fn check_past(before: &ChatState, now: &ChatState) {
    for (old, new) in before.turns.iter().zip(&now.turns) {
        let (old, new) = (serde_json::to_value(old).unwrap(), serde_json::to_value(new).unwrap());
        assert!(old == new, "a turn that was over has changed from\n{old}\nto\n{new}");
    }
    assert!(now.turns.len() >= before.turns.len(), "turns that were over are gone");
}

/// Returns the action of a message.
pub(crate) fn action(kind: SendKind, text: &str) -> Value {
    let message = serde_json::json!({"text": text, "origin": {"kind": "user"}});
    let id = uuid::Uuid::new_v4();
    match kind {
        SendKind::Turn => serde_json::json!({"type": "chat/turnStarted", "turnId": id, "message": message,
            "startedAt": "2026-11-15T08:00:00.000Z"}),
        SendKind::Queued => {
            serde_json::json!({"type": "chat/pendingMessageSet", "kind": "queued", "id": id, "message": message})
        }
        SendKind::Steering => {
            serde_json::json!({"type": "chat/pendingMessageSet", "kind": "steering", "id": id, "message": message})
        }
    }
}
