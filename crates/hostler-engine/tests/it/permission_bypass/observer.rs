//! A subscriber of everything about a session, which applies actions to the chat's state by the protocol's own reducer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ahp::reducers::apply_action_to_chat;
use ahp_types::StateAction;
use ahp_types::state::{ChatState, ResponsePart, ToolCallState, ToolInput};
use hostler_engine::{ChannelState, Delivery, PublishedAction, Subscriber, default_chat_uri};

use crate::common::Rig;

/// An accepted confirmation of a call, and the call's state when it arrived.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) call: String,
    pub(crate) turn: String,
    pub(crate) approved: bool,
    /// Whether a person confirmed it; otherwise a rule or the mode did.
    pub(crate) person: bool,
    pub(crate) option: Option<String>,
    /// The pending input; `None` if the call was not pending.
    pub(crate) shown: Option<String>,
    pub(crate) edited: Option<String>,
    /// Whether the agent has received it.
    pub(crate) is_received: bool,
}

pub(crate) struct Observer {
    pub(crate) subscriber: Subscriber,
    deliveries: hostler_engine::Deliveries,
    chat_uri: String,
    pub(crate) chat: ChatState,
    pub(crate) accepted: Vec<Accepted>,
    /// The sequence numbers of the dispatches that were accepted or rejected.
    answered: BTreeSet<i64>,
}

impl Observer {
    pub(crate) async fn on(rig: &Rig, session: &str) -> Self {
        let (subscriber, mut deliveries) = Subscriber::new(100_000);
        let chat_uri = default_chat_uri(session);
        rig.engine.subscribe(&chat_uri, &subscriber, 1).await.unwrap();
        let Some(Delivery::Snapshot { snapshot, .. }) = deliveries.recv().await else { panic!("no snapshot") };
        let ChannelState::Chat(chat) = snapshot.state else { panic!("no chat") };
        rig.engine.subscribe(session, &subscriber, 2).await.unwrap();
        let Some(Delivery::Snapshot { .. }) = deliveries.recv().await else { panic!("no snapshot") };
        Self {
            subscriber,
            deliveries,
            chat_uri,
            chat: (*chat).clone(),
            accepted: Vec::new(),
            answered: BTreeSet::new(),
        }
    }

    /// Applies actions until one matches; returns that one.
    pub(crate) async fn until(&mut self, what: &str, fits: impl Fn(&PublishedAction) -> bool) -> Arc<PublishedAction> {
        loop {
            let next = tokio::time::timeout(Duration::from_secs(30), self.deliveries.recv()).await;
            let delivery = next.unwrap_or_else(|_| panic!("no further action before {what}")).unwrap();
            if let Some(item) = self.apply_delivery(delivery)
                && fits(&item)
            {
                return item;
            }
        }
    }

    /// Applies actions until this many dispatches are accepted or rejected.
    pub(crate) async fn until_answered(&mut self, dispatches: i64) {
        while !(1..=dispatches).all(|seq| self.answered.contains(&seq)) {
            self.until("the end of a step", |_| true).await;
        }
    }

    /// Applies the actions that have arrived.
    pub(crate) fn catch_up(&mut self) {
        while let Ok(delivery) = self.deliveries.try_recv() {
            self.apply_delivery(delivery);
        }
    }

    fn apply_delivery(&mut self, delivery: Delivery) -> Option<Arc<PublishedAction>> {
        let Delivery::Envelope(item) = delivery else { return None };
        self.answered.extend(item.origin.as_ref().map(|origin| origin.client_seq));
        if item.rejection.is_none() && *item.channel == *self.chat_uri {
            if let StateAction::ChatToolCallConfirmed(confirmation) = &*item.action {
                let shown = self.waiting_input(&confirmation.tool_call_id);
                self.accepted.push(Accepted {
                    call: confirmation.tool_call_id.clone(),
                    turn: confirmation.turn_id.clone(),
                    approved: confirmation.approved,
                    person: item.origin.is_some(),
                    option: confirmation.selected_option_id.clone(),
                    shown,
                    edited: confirmation.edited_tool_input.clone(),
                    is_received: false,
                });
            }
            apply_action_to_chat(&mut self.chat, &item.action);
        }
        Some(item)
    }

    /// The calls of a completed or running turn.
    fn calls(parts: &[ResponsePart]) -> impl Iterator<Item = &ToolCallState> {
        parts.iter().filter_map(|part| match part {
            ResponsePart::ToolCall(part) => Some(&part.tool_call),
            _ => None,
        })
    }

    /// The input of a pending call.
    pub(crate) fn waiting_input(&self, id: &str) -> Option<String> {
        let parts = &self.chat.active_turn.as_ref()?.response_parts;
        Self::calls(parts).find_map(|call| match call {
            ToolCallState::PendingConfirmation(call) if call.tool_call_id == id => Some(match &call.tool_input {
                Some(ToolInput::Inline(input)) => input.clone(),
                _ => String::new(),
            }),
            _ => None,
        })
    }

    pub(crate) fn waits(&self, id: &str) -> bool {
        self.waiting_input(id).is_some()
    }

    /// The protocol's status of a call.
    pub(crate) fn status(&self, turn: &str, id: &str) -> Option<String> {
        let running = self.chat.active_turn.iter().map(|turn| (&turn.id, &turn.response_parts));
        let turns = self.chat.turns.iter().map(|turn| (&turn.id, &turn.response_parts));
        let parts = turns.chain(running).find(|(known, _)| *known == turn)?.1;
        let calls = Self::calls(parts).map(|call| serde_json::to_value(call).unwrap());
        let call = calls.into_iter().find(|call| call["toolCallId"] == id)?;
        Some(call["status"].as_str()?.to_owned())
    }

    pub(crate) fn turn(&self) -> Option<String> {
        self.chat.active_turn.as_ref().map(|turn| turn.id.clone())
    }
}
