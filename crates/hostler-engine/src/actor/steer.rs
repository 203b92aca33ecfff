//! The one message that is to be folded into the running turn.
//!
//! It stays in the chat's slot until the agent's answer to it begins: there the turn is split, so that the transcript
//! reads in order. What the agent could not be told becomes the first of the queue.

use ahp_types::actions::{
    ChatPendingMessageRemovedAction, ChatPendingMessageSetAction, ChatQueuedMessagesReorderedAction,
    ChatTurnCancelledAction, ChatTurnCompleteAction, ChatTurnStartedAction,
};
use ahp_types::common::JsonObject;
use ahp_types::state::{Message, PendingMessage, PendingMessageKind, ResponsePart, SystemNotificationResponsePart};
use ahp_types::{StateAction, StringOrMarkdown};
use hostler_attachments::Title;
use hostler_driver::{Prompt, Steer, SteerId};
use serde_json::json;
use uuid::Uuid;

use super::Actor;
use super::change::Change;
use super::dispatch::Refusal;
use crate::attach::{attachments, label};
use crate::clock::ClockExt as _;
use crate::record::Record;
use crate::session::Dispatch;
use crate::transcript::{Failure, Output, Transcript};
use crate::turn::{AgentPhase, Effect, Input as TurnInput, TurnPhase};

/// How a turn shows what the agent was told and did not answer any more.
const TOLD: &str = "You said, while the agent was working: ";

/// What becomes of the slot when its turn is over.
#[derive(Debug, Default)]
pub(super) struct SlotAtEnd {
    /// The agent was told, and has not answered any more: the turn says so before its end.
    pub(super) told: Option<String>,
    after: Vec<StateAction>,
}

impl SlotAtEnd {
    /// What follows the turn's end.
    pub(super) fn after(self, change: Change) -> Change {
        self.after.into_iter().fold(change, Change::chat)
    }
}

impl Actor {
    pub(super) async fn steer(
        &mut self,
        dispatch: &Dispatch,
        action: ChatPendingMessageSetAction,
    ) -> Result<(), Refusal> {
        let running = matches!(self.machine.turn(), TurnPhase::Pending(_) | TurnPhase::Running { .. });
        let words = Prompt::new(action.message.text.clone());
        let fits = Steer { id: SteerId(action.id.clone()), text: words }.fits();
        // What the host does itself is nothing that an agent could be told.
        let fits = fits && self.host.local(&action.message.text).is_none();
        // A second one takes the place of the first only while the agent was not told.
        if !running || !fits || !self.take_held_back() {
            let action = ChatPendingMessageSetAction { kind: PendingMessageKind::Queued, ..action };
            return self.queue(dispatch, action).await;
        }
        if self.session.queue().iter().any(|message| message.id == action.id) {
            self.hand_steer();
            return Err("that message is queued; remove it from the queue first".to_owned());
        }
        let change = Change::default().chat_of(StateAction::ChatPendingMessageSet(action), Some(dispatch.origin()));
        let change = change.blobs(dispatch.contents.blobs());
        let committed = self.commit(change).await.map_err(|error| error.to_string());
        self.hand_steer();
        committed
    }

    /// A client takes the message in the slot back.
    pub(super) fn take_steer_back(&mut self, id: &str) -> Result<(), Refusal> {
        match self.session.steering() {
            Some((message, _)) if message.id == id => {}
            _ => return Err("no such message waits for the running turn".to_owned()),
        }
        if self.take_held_back() { Ok(()) } else { Err("the agent was told already".to_owned()) }
    }

    /// Whether the slot is empty, or what is in it was not told and will not be any more.
    fn take_held_back(&mut self) -> bool {
        let Some((message, injected)) = self.session.steering() else { return true };
        if self.handed.as_ref() != Some(&message.id) {
            if !injected {
                self.loading = None;
            }
            return !injected;
        }
        let id = SteerId(message.id.clone());
        let taken = self.agent.connection().is_none_or(|(connection, _)| connection.unsteer(&id));
        if taken {
            self.handed = None;
        }
        taken
    }

    /// Whether the agent works on a turn that something can be folded into.
    pub(super) fn is_foldable(&self) -> bool {
        matches!(self.machine.turn(), TurnPhase::Running { .. }) && self.machine.agent() == AgentPhase::Busy
    }

    /// Gives the driver what is in the slot, if a turn is running that it can be folded into.
    pub(super) fn hand_steer(&mut self) {
        let Some((message, false)) = self.session.steering() else { return };
        if self.handed.is_some() || self.loading.is_some() || self.unsent || !self.is_foldable() {
            return;
        }
        let PendingMessage { id, message } = message.clone();
        self.hand_message(id, &message);
    }

    /// The agent was told. Written down at once: it must not hear it again after a restart.
    pub(super) async fn steer_injected(&mut self, id: SteerId) {
        self.handed.take_if(|handed| *handed == id.0);
        let Some((message, _)) = self.session.steering().filter(|(message, _)| message.id == id.0) else { return };
        if !self.is_foldable() {
            let message = message.clone();
            return self.told_too_late(message).await;
        }
        self.session.injected = Some(id.0.clone());
        if let Err(error) = self.commit(Change::default().record(Record::Injected { message: id.0 })).await {
            tracing::error!(session = &*self.session.uri, %error, "a receipt could not be stored");
        }
    }

    /// The turn is over; the agent remembers it all the same, and so must the transcript.
    async fn told_too_late(&mut self, PendingMessage { id, message }: PendingMessage) {
        let mut output = Output::default();
        let change = if let (Some(_), Some(transcript)) = (&self.session.chat.active_turn, self.transcript.as_mut()) {
            transcript.notice(you_said(&message), &mut output);
            Change::default().output(output).chat(removed(id))
        } else {
            let turn_id = Uuid::new_v4().to_string();
            Transcript::new(turn_id.clone())
                .notice("The agent was told this in the moment in which its turn was ended.".to_owned(), &mut output);
            let started = ChatTurnStartedAction {
                turn_id: turn_id.clone(),
                started_at: self.host.clock.now_text(),
                message,
                queued_message_id: Some(id),
                meta: None,
            };
            let ended = ChatTurnCancelledAction { turn_id, duration: 0, meta: None };
            let change = Change::default().chat(StateAction::ChatTurnStarted(started)).output(output);
            change.chat(StateAction::ChatTurnCancelled(ended))
        };
        self.settle_slot(change).await;
        self.project().await;
    }

    /// The agent's work ended before it could be told.
    pub(super) async fn steer_undelivered(&mut self, id: SteerId) {
        self.handed.take_if(|handed| *handed == id.0);
        // The end of the turn, which follows, sees to it.
        if !self.is_foldable() {
            self.requeue_slot().await;
        }
    }

    /// The process is gone, and nobody will say any more what it was told.
    pub(super) async fn steer_unknown(&mut self) {
        let handed = self.handed.take();
        if handed.is_some() && matches!(self.machine.turn(), TurnPhase::None) {
            self.requeue_slot().await;
        }
    }

    /// What is in the slot becomes the first of the queue, after its turn is over.
    async fn requeue_slot(&mut self) {
        if let Some((message, false)) = self.session.steering() {
            let actions = self.first_of_the_queue(message);
            self.settle_slot(actions.into_iter().fold(Change::default(), Change::chat)).await;
        }
    }

    async fn settle_slot(&mut self, change: Change) {
        if let Err(error) = self.commit(change).await {
            tracing::error!(session = &*self.session.uri, %error, "a steering message stays where it is");
            return;
        }
        let queue = self.queue_now(false);
        self.drive(queue).await;
    }

    fn first_of_the_queue(&self, PendingMessage { id, message }: &PendingMessage) -> Vec<StateAction> {
        let queued = StateAction::ChatPendingMessageSet(ChatPendingMessageSetAction {
            kind: PendingMessageKind::Queued,
            id: id.clone(),
            message: message.clone(),
        });
        let mut order = vec![id.clone()];
        order.extend(self.session.queue().iter().map(|message| message.id.clone()));
        let first = StateAction::ChatQueuedMessagesReordered(ChatQueuedMessagesReorderedAction { order });
        vec![removed(id.clone()), queued, first]
    }

    /// The agent begins its answer to what it was told: from here on it is another turn.
    pub(super) async fn split_turn(&mut self) {
        let Some(PendingMessage { id, message }) = self.injected_message() else { return };
        let Some(transcript) = self.transcript.as_ref().filter(|transcript| !transcript.has_open_calls()) else {
            return;
        };
        if !self.machine.step::<Failure>(TurnInput::Output).contains(&Effect::Show) {
            return;
        }
        let (turn, next) = (transcript.turn().to_owned(), Uuid::new_v4().to_string());
        let transcript = transcript.continued_in(next.clone());
        let change = Change::default()
            .chat(StateAction::ChatTurnComplete(ChatTurnCompleteAction {
                turn_id: turn.clone(),
                duration: self.turn_duration(),
                meta: Some(hostler("continuedIn", &next)),
            }))
            .chat(StateAction::ChatTurnStarted(ChatTurnStartedAction {
                turn_id: next.clone(),
                started_at: self.host.clock.now_text(),
                message,
                queued_message_id: Some(id),
                meta: Some(hostler("continues", &turn)),
            }))
            .record(Record::Delivered { turn: next.clone(), prompt: None })
            .opens();
        if let Err(error) = self.commit(change).await {
            tracing::error!(session = &*self.session.uri, %error, "a turn could not be split");
            return;
        }
        (self.session.delivered, self.session.delivered_as) = (Some(next.clone()), None);
        self.turn_begins(transcript).await;
        self.drive(TurnInput::Split(next)).await;
    }

    fn injected_message(&self) -> Option<PendingMessage> {
        self.session.steering().filter(|(_, injected)| *injected).map(|(message, _)| message.clone())
    }

    /// What the end of the turn means for what is in the slot. Where the driver has told the agent and not said so yet,
    /// nothing: its word is waited for.
    pub(super) fn empty_slot(&mut self) -> SlotAtEnd {
        let taken = self.take_held_back();
        match self.session.steering() {
            Some((message, true)) => {
                SlotAtEnd { told: Some(you_said(&message.message)), after: vec![removed(message.id.clone())] }
            }
            Some((message, false)) if taken => SlotAtEnd { told: None, after: self.first_of_the_queue(message) },
            _ => SlotAtEnd::default(),
        }
    }
}

/// What a person said right before the turn broke off. An agent that dies with a call takes with it what it was told at the
/// call's beginning, so whoever takes the turn up again has to say it once more.
pub(super) fn said_last(parts: &[ResponsePart]) -> Option<&str> {
    let last = parts.iter().rev().find(|part| !matches!(part, ResponsePart::Error(_)))?;
    match last {
        ResponsePart::SystemNotification(SystemNotificationResponsePart {
            content: StringOrMarkdown::Plain(text),
            ..
        }) => text.strip_prefix(TOLD),
        _ => None,
    }
}

fn you_said(message: &Message) -> String {
    let mut said = format!("{TOLD}{}", message.text);
    for attached in attachments(message) {
        said.push_str(&format!("\n(attached: {})", Title::new(label(attached))));
    }
    said
}

fn removed(id: String) -> StateAction {
    StateAction::ChatPendingMessageRemoved(ChatPendingMessageRemovedAction { kind: PendingMessageKind::Steering, id })
}

fn hostler(key: &str, turn: &str) -> JsonObject {
    let mut meta = JsonObject::new();
    meta.insert("hostler".to_owned(), json!({ key: turn }));
    meta
}
