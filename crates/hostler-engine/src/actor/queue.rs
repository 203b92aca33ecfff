//! Messages that wait for their turn: one durable queue per chat, in the order of their arrival.

use ahp_types::StateAction;
use ahp_types::actions::{
    ChatPendingMessageRemovedAction, ChatPendingMessageSetAction, ChatQueuedMessagesReorderedAction,
    ChatTurnStartedAction,
};
use ahp_types::state::{Message, MessageKind, PendingMessageKind};
use serde_json::Value;
use uuid::Uuid;

use super::Actor;
use super::change::Change;
use super::dispatch::Refusal;
use crate::attach::attachments;
use crate::clock::ClockExt as _;
use crate::session::Dispatch;
use crate::state::whole_order;
use crate::transcript::Failure;
use crate::turn::Input as TurnInput;

/// The key, below `hostler` in the session's `_meta`, that says that the queue waits for a person.
const QUEUE_PAUSED: &str = "queuePaused";

impl Actor {
    /// A message is to wait for its turn, or to be folded into the running one.
    pub(super) async fn pending_message_set(
        &mut self,
        dispatch: &Dispatch,
        action: ChatPendingMessageSetAction,
    ) -> Result<(), Refusal> {
        check_message(&action.message, dispatch)?;
        self.check_local(&action.message)?;
        if action.id.is_empty() {
            return Err("the message needs an id".to_owned());
        }
        match action.kind {
            PendingMessageKind::Queued => self.queue(dispatch, action).await,
            PendingMessageKind::Steering => self.steer(dispatch, action).await,
        }
    }

    /// A message joins the queue, or takes the place of the one that it corrects.
    pub(super) async fn queue(
        &mut self,
        dispatch: &Dispatch,
        action: ChatPendingMessageSetAction,
    ) -> Result<(), Refusal> {
        let queue = self.session.queue();
        let waits = queue.iter().any(|message| message.id == action.id);
        if !waits && self.session.consumed.contains(&action.id) {
            return Err("that message has become a turn already".to_owned());
        }
        if self.session.steering().is_some_and(|(message, _)| message.id == action.id) {
            return Err("that message is on its way into the running turn; take it back first".to_owned());
        }
        if !waits && queue.len() >= self.host.max_queue {
            let max = self.host.max_queue;
            return Err(format!("the queue is full ({max} messages); wait for a turn's end or remove one"));
        }
        self.check_elsewhere().await?;
        let change = Change::default().chat_of(StateAction::ChatPendingMessageSet(action), Some(dispatch.origin()));
        let change = change.blobs(dispatch.contents.blobs());
        let change = if self.session.stored { change } else { change.opens() };
        self.commit(change).await.map_err(|error| error.to_string())?;
        let queue = self.queue_now(!waits);
        self.drive(queue).await;
        Ok(())
    }

    pub(super) async fn pending_message_removed(
        &mut self,
        dispatch: &Dispatch,
        action: ChatPendingMessageRemovedAction,
    ) -> Result<(), Refusal> {
        match action.kind {
            PendingMessageKind::Steering => self.take_steer_back(&action.id)?,
            PendingMessageKind::Queued if self.session.queue().iter().any(|message| message.id == action.id) => {}
            PendingMessageKind::Queued if self.session.consumed.contains(&action.id) => {
                return Err("that message has become a turn already; cancel the turn instead".to_owned());
            }
            PendingMessageKind::Queued => return Err("no such message is queued".to_owned()),
        }
        let change = Change::default().chat_of(StateAction::ChatPendingMessageRemoved(action), Some(dispatch.origin()));
        let committed = self.commit(change).await;
        if committed.is_err() {
            self.hand_steer();
        }
        committed.map_err(|error| error.to_string())?;
        let queue = self.queue_now(false);
        self.drive(queue).await;
        Ok(())
    }

    pub(super) async fn queue_reordered(
        &mut self,
        dispatch: &Dispatch,
        action: ChatQueuedMessagesReorderedAction,
    ) -> Result<(), Refusal> {
        if self.session.queue().is_empty() {
            return Err("no message is queued".to_owned());
        }
        // Every id is named, since reducers differ about those that are not.
        let order = whole_order(&self.session.chat, &action.order);
        let action = StateAction::ChatQueuedMessagesReordered(ChatQueuedMessagesReorderedAction { order });
        let change = Change::default().chat_of(action, Some(dispatch.origin()));
        self.commit(change).await.map_err(|error| error.to_string())?;
        let queue = self.queue_now(true);
        self.drive(queue).await;
        Ok(())
    }

    /// What the machine must know of the queue.
    pub(super) fn queue_now(&self, go_on: bool) -> TurnInput<Failure> {
        TurnInput::Queue { head: self.session.queue().first().map(|message| message.id.clone()), go_on }
    }

    /// The head of the queue becomes a turn: one action takes it out and starts it.
    ///
    /// Not while somebody else is in the middle of a turn: then it waits until the record says that they are done.
    pub(super) async fn start_queued(&mut self, id: &str) -> Vec<TurnInput<Failure>> {
        if self.check_elsewhere().await.is_err() {
            self.hold_queue();
            return vec![TurnInput::NotStarted];
        }
        let Some(waiting) = self.session.queue().iter().find(|message| message.id == id) else {
            return vec![TurnInput::NotStarted];
        };
        let (turn, text) = (Uuid::new_v4().to_string(), waiting.message.text.clone());
        let action = ChatTurnStartedAction {
            turn_id: turn.clone(),
            started_at: self.host.clock.now_text(),
            message: waiting.message.clone(),
            queued_message_id: Some(id.to_owned()),
            meta: None,
        };
        match self.begin_turn(action, None, Vec::new()).await {
            Ok(()) => {
                self.asked_by = None;
                vec![self.accepted(turn, &text), self.queue_now(false)]
            }
            Err(error) => {
                tracing::error!(session = &*self.session.uri, %error, "a queued message could not be started yet");
                self.retry_queue();
                vec![TurnInput::NotStarted]
            }
        }
    }

    /// Says whether the queue waits for a person, if that is news.
    pub(super) async fn tell_queue(&mut self) {
        let paused = self.machine.is_paused();
        let told = self.session.hostler_meta(QUEUE_PAUSED).and_then(Value::as_bool).unwrap_or(false);
        if told != paused {
            self.tell_meta(QUEUE_PAUSED, paused.into()).await;
        }
    }
}

/// What every message of a person must be.
pub(super) fn check_message(message: &Message, dispatch: &Dispatch) -> Result<(), Refusal> {
    if message.origin.kind != MessageKind::User {
        return Err("a client can only send messages of its user".to_owned());
    }
    let attached = !attachments(message).is_empty();
    if attached && !dispatch.contents.is_prepared() {
        return Err("nobody has looked at what is attached to the message".to_owned());
    }
    if message.text.trim().is_empty() && !attached {
        return Err("the message is empty".to_owned());
    }
    Ok(())
}
