//! Steering: one message at a time for the running turn.
//!
//! A steer stays in the chat's steering slot until its receipt. Where the answer to it starts, the turn is split:
//! `turnComplete` (with `continuedIn`), then `turnStarted` with the steer's text (`continues`). An undelivered steer
//! becomes the head of the queue. A receipt that is still outstanding when the turn ends is awaited, so the text is
//! neither lost nor sent twice.

use ahp_types::actions::{
    ChatPendingMessageRemovedAction, ChatPendingMessageSetAction, ChatQueuedMessagesReorderedAction,
    ChatTurnCancelledAction, ChatTurnCompleteAction, ChatTurnStartedAction,
};
use ahp_types::common::JsonObject;
use ahp_types::state::{Message, PendingMessage, PendingMessageKind, ResponsePart, SystemNotificationResponsePart};
use ahp_types::{StateAction, StringOrMarkdown};
use hostler_attachments::DisplayName;
use hostler_driver::{Prompt, SteeringMessage, SteeringMessageId};
use serde_json::json;
use uuid::Uuid;

use super::SessionActor;
use super::session_change::SessionChange;
use crate::action_mapper::{ActionBuffer, ActionMapper, TurnErrorDetails};
use crate::attachments::{attachment_label, message_attachments};
use crate::clock::ClockExt as _;
use crate::rejection::ActionRejection;
use crate::session::Dispatch;
use crate::session_record::SessionRecord;
use crate::turn::{AgentPhase, TurnEffect, TurnInput, TurnPhase};

/// Prefix of the notice about a steer that the agent received and did not answer.
const STEERING_NOTICE_PREFIX: &str = "You said, while the agent was working: ";

/// What happens to the steering slot at the turn's end.
#[derive(Debug, Default)]
pub(super) struct SteeringAtTurnEnd {
    /// The notice before the turn's end, if the agent received the steer and did not answer.
    pub(super) notice: Option<String>,
    actions_after_end: Vec<StateAction>,
}

impl SteeringAtTurnEnd {
    /// Adds the actions after the turn's end.
    pub(super) fn add_actions_to(self, change: SessionChange) -> SessionChange {
        self.actions_after_end.into_iter().fold(change, SessionChange::chat_action)
    }
}

impl SessionActor {
    pub(super) async fn steer_turn(
        &mut self,
        dispatch: &Dispatch,
        action: ChatPendingMessageSetAction,
    ) -> Result<(), ActionRejection> {
        let running = matches!(self.machine.turn_phase(), TurnPhase::Pending(_) | TurnPhase::Running { .. });
        let prompt = Prompt::new(action.message.text.clone());
        let fits = SteeringMessage { id: SteeringMessageId(action.id.clone()), prompt }.is_within_size_limit();
        // Local commands cannot be steered into an agent's turn.
        let fits = fits && self.host.local_command(&action.message.text).is_none();
        // A second steer replaces the first only while the agent has not received it.
        if !running || !fits || !self.recall_steering() {
            let action = ChatPendingMessageSetAction { kind: PendingMessageKind::Queued, ..action };
            return self.queue_message(dispatch, action).await;
        }
        if self.session.queued_messages().iter().any(|message| message.id == action.id) {
            self.hand_over_steering();
            return Err(ActionRejection::MessageAlreadyQueued);
        }
        let change = SessionChange::default()
            .client_chat_action(StateAction::ChatPendingMessageSet(action), Some(dispatch.origin()));
        let change = change.blobs(dispatch.attachment_contents.blobs());
        let committed = self.commit(change).await;
        self.hand_over_steering();
        Ok(committed?)
    }

    /// Withdraws a steer on a client's request.
    pub(super) fn withdraw_steering(&mut self, id: &str) -> Result<(), ActionRejection> {
        match self.session.steering_message() {
            Some((message, _)) if message.id == id => {}
            _ => return Err(ActionRejection::MessageNotSteering),
        }
        if self.recall_steering() { Ok(()) } else { Err(ActionRejection::MessageAlreadyDelivered) }
    }

    /// Recalls the steer from the driver. `true` if the slot is empty, or if the agent has not received the steer and
    /// will not.
    fn recall_steering(&mut self) -> bool {
        let Some((message, injected)) = self.session.steering_message() else { return true };
        if self.steer_in_driver.as_ref() != Some(&message.id) {
            if !injected {
                self.steer_load = None;
            }
            return !injected;
        }
        let id = SteeringMessageId(message.id.clone());
        let taken = self.agent.connection().is_none_or(|(connection, _)| connection.cancel_steering(&id));
        if taken {
            self.steer_in_driver = None;
        }
        taken
    }

    /// Whether the agent works on a turn that can be steered.
    pub(super) fn can_steer(&self) -> bool {
        matches!(self.machine.turn_phase(), TurnPhase::Running { .. }) && self.machine.agent_phase() == AgentPhase::Busy
    }

    /// Passes the steer to the driver, if a running turn can be steered.
    pub(super) fn hand_over_steering(&mut self) {
        let Some((message, false)) = self.session.steering_message() else { return };
        if self.steer_in_driver.is_some() || self.steer_load.is_some() || self.prompt_in_flight || !self.can_steer() {
            return;
        }
        let PendingMessage { id, message } = message.clone();
        self.steer_with_message(id, &message);
    }

    /// Handles that the agent received the steer. It is stored at once, so that the steer is not sent again after a
    /// restart.
    pub(super) async fn handle_steer_injected(&mut self, id: SteeringMessageId) {
        self.steer_in_driver.take_if(|handed| *handed == id.0);
        let Some((message, _)) = self.session.steering_message().filter(|(message, _)| message.id == id.0) else {
            return;
        };
        if !self.can_steer() {
            let message = message.clone();
            return self.record_late_steering(message).await;
        }
        self.session.injected_message = Some(id.0.clone());
        if let Err(error) =
            self.commit(SessionChange::default().record(SessionRecord::SteeringInjected { message: id.0 })).await
        {
            tracing::error!(session = &*self.session.uri, %error, "failed to store the receipt of a steering message");
        }
    }

    /// Records a steer whose receipt arrived after the turn's end: the agent remembers it, so the chat must contain it.
    async fn record_late_steering(&mut self, PendingMessage { id, message }: PendingMessage) {
        let mut output = ActionBuffer::default();
        let change = if let (Some(_), Some(transcript)) = (&self.session.chat.active_turn, self.action_mapper.as_mut())
        {
            transcript.add_notice(steering_notice(&message), &mut output);
            SessionChange::default().output(output).chat_action(steering_removed(id))
        } else {
            let turn_id = Uuid::new_v4().to_string();
            ActionMapper::new(turn_id.clone())
                .add_notice("The agent received this message while its turn was ending.".to_owned(), &mut output);
            let started = ChatTurnStartedAction {
                turn_id: turn_id.clone(),
                started_at: self.host.clock.now_timestamp(),
                message,
                queued_message_id: Some(id),
                meta: None,
            };
            let ended = ChatTurnCancelledAction { turn_id, duration: 0, meta: None };
            let change = SessionChange::default().chat_action(StateAction::ChatTurnStarted(started)).output(output);
            change.chat_action(StateAction::ChatTurnCancelled(ended))
        };
        self.commit_steering(change).await;
        self.update_summaries().await;
    }

    /// Handles that the agent's turn ended before it received the steer.
    pub(super) async fn handle_steer_undelivered(&mut self, id: SteeringMessageId) {
        self.steer_in_driver.take_if(|handed| *handed == id.0);
        // During a turn, its end handles the steer.
        if !self.can_steer() {
            self.requeue_steering().await;
        }
    }

    /// Queues a steer whose receipt is outstanding when the process has ended.
    pub(super) async fn requeue_unreported_steering(&mut self) {
        let handed = self.steer_in_driver.take();
        if handed.is_some() && matches!(self.machine.turn_phase(), TurnPhase::None) {
            self.requeue_steering().await;
        }
    }

    /// Moves the steer to the head of the queue after its turn.
    async fn requeue_steering(&mut self) {
        if let Some((message, false)) = self.session.steering_message() {
            let actions = self.requeue_first_actions(message);
            self.commit_steering(actions.into_iter().fold(SessionChange::default(), SessionChange::chat_action)).await;
        }
    }

    async fn commit_steering(&mut self, change: SessionChange) {
        if let Err(error) = self.commit(change).await {
            tracing::error!(session = &*self.session.uri, %error, "failed to move a steering message");
            return;
        }
        let queue = self.queue_changed_input(false);
        self.drive(queue).await;
    }

    fn requeue_first_actions(&self, PendingMessage { id, message }: &PendingMessage) -> Vec<StateAction> {
        let queued = StateAction::ChatPendingMessageSet(ChatPendingMessageSetAction {
            kind: PendingMessageKind::Queued,
            id: id.clone(),
            message: message.clone(),
        });
        let mut order = vec![id.clone()];
        order.extend(self.session.queued_messages().iter().map(|message| message.id.clone()));
        let first = StateAction::ChatQueuedMessagesReordered(ChatQueuedMessagesReorderedAction { order });
        vec![steering_removed(id.clone()), queued, first]
    }

    /// Splits the turn where the agent starts to answer the steer.
    pub(super) async fn split_turn(&mut self) {
        let Some(PendingMessage { id, message }) = self.injected_message() else { return };
        let Some(transcript) = self.action_mapper.as_ref().filter(|transcript| !transcript.has_open_calls()) else {
            return;
        };
        if !self.machine.step::<TurnErrorDetails>(TurnInput::Output).contains(&TurnEffect::PublishOutput) {
            return;
        }
        let (turn, next) = (transcript.turn().to_owned(), Uuid::new_v4().to_string());
        let transcript = transcript.continue_in(next.clone());
        let change = SessionChange::default()
            .chat_action(StateAction::ChatTurnComplete(ChatTurnCompleteAction {
                turn_id: turn.clone(),
                duration: self.turn_duration_ms(),
                meta: Some(hostler_meta("continuedIn", &next)),
            }))
            .chat_action(StateAction::ChatTurnStarted(ChatTurnStartedAction {
                turn_id: next.clone(),
                started_at: self.host.clock.now_timestamp(),
                message,
                queued_message_id: Some(id),
                meta: Some(hostler_meta("continues", &turn)),
            }))
            .record(SessionRecord::Delivered { turn: next.clone(), prompt_id: None })
            .persist_session();
        if let Err(error) = self.commit(change).await {
            tracing::error!(session = &*self.session.uri, %error, "failed to split a turn");
            return;
        }
        (self.session.delivered_turn, self.session.delivered_prompt_id) = (Some(next.clone()), None);
        self.set_running_turn(transcript).await;
        self.drive(TurnInput::Split(next)).await;
    }

    fn injected_message(&self) -> Option<PendingMessage> {
        self.session.steering_message().filter(|(_, injected)| *injected).map(|(message, _)| message.clone())
    }

    /// Determines what happens to the steer at the turn's end: nothing while the driver's receipt is outstanding.
    pub(super) fn resolve_steering_at_turn_end(&mut self) -> SteeringAtTurnEnd {
        let taken = self.recall_steering();
        match self.session.steering_message() {
            Some((message, true)) => SteeringAtTurnEnd {
                notice: Some(steering_notice(&message.message)),
                actions_after_end: vec![steering_removed(message.id.clone())],
            },
            Some((message, false)) if taken => {
                SteeringAtTurnEnd { notice: None, actions_after_end: self.requeue_first_actions(message) }
            }
            _ => SteeringAtTurnEnd::default(),
        }
    }
}

/// The person's last steer before the turn broke off. An agent that dies during a call loses the text that it received
/// at the call's start, so a resume has to repeat it.
pub(super) fn last_steering_message(parts: &[ResponsePart]) -> Option<&str> {
    let last = parts.iter().rev().find(|part| !matches!(part, ResponsePart::Error(_)))?;
    match last {
        ResponsePart::SystemNotification(SystemNotificationResponsePart {
            content: StringOrMarkdown::Plain(text),
            ..
        }) => text.strip_prefix(STEERING_NOTICE_PREFIX),
        _ => None,
    }
}

fn steering_notice(message: &Message) -> String {
    let mut said = format!("{STEERING_NOTICE_PREFIX}{}", message.text);
    for attached in message_attachments(message) {
        said.push_str(&format!("\n(attached: {})", DisplayName::new(attachment_label(attached))));
    }
    said
}

fn steering_removed(id: String) -> StateAction {
    StateAction::ChatPendingMessageRemoved(ChatPendingMessageRemovedAction { kind: PendingMessageKind::Steering, id })
}

fn hostler_meta(key: &str, turn: &str) -> JsonObject {
    let mut meta = JsonObject::new();
    meta.insert("hostler".to_owned(), json!({ key: turn }));
    meta
}
