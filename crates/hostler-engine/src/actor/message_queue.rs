//! The queue of a chat: messages that wait for the running turn to end, stored durably in order of arrival.

use ahp_types::StateAction;
use ahp_types::actions::{
    ChatPendingMessageRemovedAction, ChatPendingMessageSetAction, ChatQueuedMessagesReorderedAction,
    ChatTurnStartedAction,
};
use ahp_types::state::{Message, MessageKind, PendingMessageKind};
use serde_json::Value;
use uuid::Uuid;

use super::SessionActor;
use super::session_change::SessionChange;
use crate::action_mapper::TurnErrorDetails;
use crate::attachments::message_attachments;
use crate::clock::ClockExt as _;
use crate::rejection::ActionRejection;
use crate::session::Dispatch;
use crate::state::complete_queue_order;
use crate::turn::TurnInput;

/// The key, below `hostler` in the session's `_meta`, for whether the queue waits for a person.
const QUEUE_PAUSED_KEY: &str = "queuePaused";

impl SessionActor {
    /// Handles a message for the queue, or for the running turn.
    pub(super) async fn handle_pending_message_set(
        &mut self,
        dispatch: &Dispatch,
        action: ChatPendingMessageSetAction,
    ) -> Result<(), ActionRejection> {
        check_message(&action.message, dispatch)?;
        self.check_local_command(&action.message)?;
        if action.id.is_empty() {
            return Err(ActionRejection::InvalidMessageId);
        }
        match action.kind {
            PendingMessageKind::Queued => self.queue_message(dispatch, action).await,
            PendingMessageKind::Steering => self.steer_turn(dispatch, action).await,
        }
    }

    /// Appends a message to the queue, or replaces the queued message with its id.
    pub(super) async fn queue_message(
        &mut self,
        dispatch: &Dispatch,
        action: ChatPendingMessageSetAction,
    ) -> Result<(), ActionRejection> {
        let queue = self.session.queued_messages();
        let waits = queue.iter().any(|message| message.id == action.id);
        if !waits && self.session.consumed_messages.contains(&action.id) {
            return Err(ActionRejection::MessageAlreadySent);
        }
        if self.session.steering_message().is_some_and(|(message, _)| message.id == action.id) {
            return Err(ActionRejection::MessageIsSteering);
        }
        if !waits && queue.len() >= self.host.max_queued_messages {
            return Err(ActionRejection::QueueFull { max: self.host.max_queued_messages });
        }
        self.check_not_active_elsewhere().await?;
        let change = SessionChange::default()
            .client_chat_action(StateAction::ChatPendingMessageSet(action), Some(dispatch.origin()));
        let change = change.blobs(dispatch.attachment_contents.blobs());
        let change = if self.session.is_stored { change } else { change.persist_session() };
        self.commit(change).await?;
        let queue = self.queue_changed_input(!waits);
        self.drive(queue).await;
        Ok(())
    }

    pub(super) async fn handle_pending_message_removed(
        &mut self,
        dispatch: &Dispatch,
        action: ChatPendingMessageRemovedAction,
    ) -> Result<(), ActionRejection> {
        match action.kind {
            PendingMessageKind::Steering => self.withdraw_steering(&action.id)?,
            PendingMessageKind::Queued
                if self.session.queued_messages().iter().any(|message| message.id == action.id) => {}
            PendingMessageKind::Queued if self.session.consumed_messages.contains(&action.id) => {
                return Err(ActionRejection::MessageAlreadySent);
            }
            PendingMessageKind::Queued => return Err(ActionRejection::MessageNotQueued),
        }
        let change = SessionChange::default()
            .client_chat_action(StateAction::ChatPendingMessageRemoved(action), Some(dispatch.origin()));
        let committed = self.commit(change).await;
        if committed.is_err() {
            self.hand_over_steering();
        }
        committed?;
        let queue = self.queue_changed_input(false);
        self.drive(queue).await;
        Ok(())
    }

    pub(super) async fn handle_queue_reordered(
        &mut self,
        dispatch: &Dispatch,
        action: ChatQueuedMessagesReorderedAction,
    ) -> Result<(), ActionRejection> {
        if self.session.queued_messages().is_empty() {
            return Err(ActionRejection::QueueEmpty);
        }
        // The order names every id, because reducers treat missing ids differently.
        let order = complete_queue_order(&self.session.chat, &action.order);
        let action = StateAction::ChatQueuedMessagesReordered(ChatQueuedMessagesReorderedAction { order });
        let change = SessionChange::default().client_chat_action(action, Some(dispatch.origin()));
        self.commit(change).await?;
        let queue = self.queue_changed_input(true);
        self.drive(queue).await;
        Ok(())
    }

    /// The state of the queue as input for the turn machine.
    pub(super) fn queue_changed_input(&self, go_on: bool) -> TurnInput<TurnErrorDetails> {
        TurnInput::QueueChanged {
            head: self.session.queued_messages().first().map(|message| message.id.clone()),
            resume: go_on,
        }
    }

    /// Starts a turn with the head of the queue: one action removes the message and starts the turn.
    ///
    /// While another process runs a turn, the queue waits until the transcript shows that it has ended.
    pub(super) async fn start_queued_turn(&mut self, id: &str) -> Vec<TurnInput<TurnErrorDetails>> {
        if self.check_not_active_elsewhere().await.is_err() {
            self.hold_queue_for_external_turn();
            return vec![TurnInput::StartFailed];
        }
        let Some(waiting) = self.session.queued_messages().iter().find(|message| message.id == id) else {
            return vec![TurnInput::StartFailed];
        };
        let (turn, text) = (Uuid::new_v4().to_string(), waiting.message.text.clone());
        let action = ChatTurnStartedAction {
            turn_id: turn.clone(),
            started_at: self.host.clock.now_timestamp(),
            message: waiting.message.clone(),
            queued_message_id: Some(id.to_owned()),
            meta: None,
        };
        match self.begin_turn(action, None, Vec::new()).await {
            Ok(()) => {
                self.turn_client_id = None;
                vec![self.build_accepted_input(turn, &text), self.queue_changed_input(false)]
            }
            Err(error) => {
                tracing::error!(session = &*self.session.uri, %error, "failed to start the turn of a queued message; retrying");
                self.schedule_queue_retry();
                vec![TurnInput::StartFailed]
            }
        }
    }

    /// Publishes whether the queue waits for a person, if that has changed.
    pub(super) async fn publish_queue_paused(&mut self) {
        let paused = self.machine.is_queue_paused();
        let was_paused = self.session.hostler_meta(QUEUE_PAUSED_KEY).and_then(Value::as_bool).unwrap_or(false);
        if was_paused != paused {
            self.publish_session_meta(QUEUE_PAUSED_KEY, paused.into()).await;
        }
    }
}

/// Checks that apply to every message of a person.
pub(super) fn check_message(message: &Message, dispatch: &Dispatch) -> Result<(), ActionRejection> {
    if message.origin.kind != MessageKind::User {
        return Err(ActionRejection::NotUserMessage);
    }
    let attached = !message_attachments(message).is_empty();
    if attached && !dispatch.attachment_contents.is_prepared() {
        return Err(ActionRejection::AttachmentsNotPrepared);
    }
    if message.text.trim().is_empty() && !attached {
        return Err(ActionRejection::MessageEmpty);
    }
    Ok(())
}
