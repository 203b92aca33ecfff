//! The pending messages of a chat: the queue, and the steering slot for the running turn.
//!
//! A component like the turn machine: no clock, no I/O, no channels. The actor passes events and carries out effects.
//! The messages themselves are part of the chat's state; the component owns what the driver has of them.
//!
//! A steer stays in the chat's steering slot until its receipt. Where the answer to it starts, the turn is split. An
//! undelivered steer becomes the head of the queue. A receipt that is still outstanding when the turn ends is awaited,
//! so the text is neither lost nor sent twice.

use ahp_types::actions::{
    ChatPendingMessageRemovedAction, ChatPendingMessageSetAction, ChatQueuedMessagesReorderedAction,
};
use ahp_types::state::{
    Message, MessageKind, PendingMessage, PendingMessageKind, ResponsePart, SystemNotificationResponsePart,
};
use ahp_types::{ActionOrigin, StateAction, StringOrMarkdown};
use hostler_attachments::DisplayName;
use hostler_driver::{Prompt, SteeringMessage, SteeringMessageId};
use hostler_store::Blob;

use super::session_change::SessionChange;
use crate::attachments::{attachment_label, has_blocks, message_attachments};
use crate::sessions::action_mapper::{ActionBuffer, ActionMapper};
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::{Dispatch, Session};
use crate::sessions::state::complete_queue_order;
use crate::sessions::turn::{AgentPhase, TurnMachine, TurnPhase};

#[cfg(test)]
mod tests;

/// Prefix of the notice about a steer that the agent received and did not answer.
const STEERING_NOTICE_PREFIX: &str = "You said, while the agent was working: ";

/// What the component reads.
pub(super) struct MessageContext<'a> {
    pub(super) session: &'a Session,
    pub(super) machine: &'a TurnMachine,
    /// Whether there is a live agent, and no prompt is being written to it.
    pub(super) can_deliver: bool,
    /// Maximum number of queued messages.
    pub(super) max_queued: usize,
    /// Takes a steer back from the driver; `false` if the agent has received it.
    pub(super) recall: &'a dyn Fn(&SteeringMessageId) -> bool,
}

impl MessageContext<'_> {
    /// Whether the agent works on a turn that can be steered.
    fn can_steer(&self) -> bool {
        matches!(self.machine.turn_phase(), TurnPhase::Running { .. }) && self.machine.agent_phase() == AgentPhase::Busy
    }
}

/// An event of the pending messages.
#[derive(Debug)]
pub(super) enum MessageEvent {
    /// A client adds or replaces a message; its form is checked.
    Set {
        action: ChatPendingMessageSetAction,
        origin: ActionOrigin,
        blobs: Vec<Blob>,
        is_local_command: bool,
        /// Whether another process is running a turn; then no message is queued.
        is_active_elsewhere: bool,
    },
    /// A client removes a message.
    Removed { action: ChatPendingMessageRemovedAction, origin: ActionOrigin },
    /// A client reorders the queue.
    Reordered { action: ChatQueuedMessagesReorderedAction, origin: ActionOrigin },
    /// The running turn may be ready for its steer.
    DeliverSteering,
    /// The contents of a steer were loaded; `None` if that failed, or if its agent has ended.
    ContentsLoaded { load: u64, message: Option<SteeringMessage> },
    /// The agent received the steer.
    Injected(SteeringMessageId),
    /// The agent's turn ended before it received the steer.
    Undelivered(SteeringMessageId),
    /// The agent starts to answer.
    AnswerStarted,
    /// The agent's process has ended.
    AgentEnded,
}

/// An effect that the actor carries out, in order. After one that fails, only [`MessageEffect::DeliverSteering`] is
/// carried out.
#[derive(Debug, PartialEq)]
pub(super) enum MessageEffect {
    /// Store and publish the change.
    Commit(SessionChange),
    /// Pass the queue to the turn machine; `resume` if a person continues it.
    QueueChanged { resume: bool },
    /// Pass [`MessageEvent::DeliverSteering`].
    DeliverSteering,
    /// Load the contents of a steer, then pass [`MessageEvent::ContentsLoaded`].
    LoadContents { load: u64, message: PendingMessage },
    /// Pass the steer to the driver.
    Steer(SteeringMessage),
    /// Store that the agent received the steer, so that it is not sent again after a restart.
    MarkInjected(String),
    /// Add a steer to the chat whose receipt arrived after its turn: the agent remembers it.
    RecordLate(PendingMessage),
    /// Split the turn: the agent answers the steer from here on.
    SplitTurn(PendingMessage),
}

/// What happens to the steering slot at the turn's end.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SteeringAtTurnEnd {
    /// The notice before the turn's end, if the agent received the steer and did not answer.
    pub(super) notice: Option<String>,
    actions_after_end: Vec<StateAction>,
}

impl SteeringAtTurnEnd {
    /// The notice as output of the turn.
    pub(super) fn notice_in(&self, mapper: &mut ActionMapper) -> ActionBuffer {
        let mut output = ActionBuffer::default();
        if let Some(notice) = &self.notice {
            mapper.add_notice(notice.clone(), &mut output);
        }
        output
    }

    /// Adds the actions after the turn's end.
    pub(super) fn add_actions_to(self, change: SessionChange) -> SessionChange {
        self.actions_after_end.into_iter().fold(change, SessionChange::chat_action)
    }
}

/// The component. See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct PendingMessages {
    /// The steer that the driver holds for the agent.
    in_driver: Option<String>,
    /// The load that reads the steer's contents, if one is in progress.
    load: Option<u64>,
    load_count: u64,
}

impl PendingMessages {
    /// Applies an event and returns the effects that follow.
    pub(super) fn on(
        &mut self,
        event: MessageEvent,
        context: &MessageContext<'_>,
    ) -> Result<Vec<MessageEffect>, ActionRejection> {
        Ok(match event {
            MessageEvent::Set { action, origin, blobs, is_local_command, is_active_elsewhere } => {
                let steers = action.kind == PendingMessageKind::Steering && !is_local_command;
                return self.set(action, steers, is_active_elsewhere, origin, blobs, context);
            }
            MessageEvent::Removed { action, origin } => return self.remove(action, origin, context),
            MessageEvent::Reordered { action, origin } => {
                if context.session.queued_messages().is_empty() {
                    return Err(ActionRejection::QueueEmpty);
                }
                // The order names every id, because reducers treat missing ids differently.
                let order = complete_queue_order(&context.session.chat, &action.order);
                let action = StateAction::ChatQueuedMessagesReordered(ChatQueuedMessagesReorderedAction { order });
                vec![client_commit(action, origin), MessageEffect::QueueChanged { resume: true }]
            }
            MessageEvent::DeliverSteering => self.deliver(context),
            MessageEvent::ContentsLoaded { load, message } => {
                // Another message may have replaced it, or it was withdrawn. A steer that cannot be read stays in its
                // slot: at the turn's end it becomes the head of the queue, and its own turn displays the error.
                let message = self.load.take_if(|now| *now == load).and(message);
                match message.filter(|_| context.can_deliver && context.can_steer()) {
                    Some(steer) => self.pass_to_driver(steer),
                    None => Vec::new(),
                }
            }
            MessageEvent::Injected(id) => {
                self.in_driver.take_if(|handed| *handed == id.0);
                match context.session.steering_message().filter(|(message, _)| message.id == id.0) {
                    None => Vec::new(),
                    Some(_) if context.can_steer() => vec![MessageEffect::MarkInjected(id.0)],
                    Some((message, _)) => vec![MessageEffect::RecordLate(message.clone())],
                }
            }
            MessageEvent::Undelivered(id) => {
                self.in_driver.take_if(|handed| *handed == id.0);
                // During a turn, its end handles the steer.
                if context.can_steer() { Vec::new() } else { requeue(context.session) }
            }
            MessageEvent::AnswerStarted => {
                let injected = context.session.steering_message();
                let injected = injected.filter(|(_, injected)| *injected && context.machine.is_output_visible());
                injected.map(|(message, _)| MessageEffect::SplitTurn(message.clone())).into_iter().collect()
            }
            // The receipt does not arrive any more.
            MessageEvent::AgentEnded => match (self.in_driver.take(), context.machine.turn_phase()) {
                (Some(_), TurnPhase::None) => requeue(context.session),
                _ => Vec::new(),
            },
        })
    }

    /// Determines what happens to the steer at the turn's end: nothing while the driver's receipt is outstanding.
    pub(super) fn resolve_at_turn_end(&mut self, context: &MessageContext<'_>) -> SteeringAtTurnEnd {
        let recalled = self.recall(context);
        match context.session.steering_message() {
            Some((message, true)) => SteeringAtTurnEnd {
                notice: Some(steering_notice(&message.message)),
                actions_after_end: vec![steering_removed(message.id.clone())],
            },
            Some((message, false)) if recalled => {
                SteeringAtTurnEnd { notice: None, actions_after_end: requeue_actions(context.session, message) }
            }
            _ => SteeringAtTurnEnd::default(),
        }
    }

    fn set(
        &mut self,
        action: ChatPendingMessageSetAction,
        steers: bool,
        is_active_elsewhere: bool,
        origin: ActionOrigin,
        blobs: Vec<Blob>,
        context: &MessageContext<'_>,
    ) -> Result<Vec<MessageEffect>, ActionRejection> {
        let session = context.session;
        let is_queued = session.queued_messages().iter().any(|message| message.id == action.id);
        let has_turn = matches!(context.machine.turn_phase(), TurnPhase::Pending(_) | TurnPhase::Running { .. });
        let prompt = Prompt::new(action.message.text.clone());
        let steer = SteeringMessage { id: SteeringMessageId(action.id.clone()), prompt };
        if steers && has_turn && steer.is_within_size_limit() {
            if is_queued && !session.steering_message().is_some_and(|(_, injected)| injected) {
                return Err(ActionRejection::MessageAlreadyQueued);
            }
            // A second steer replaces the first only while the agent has not received it.
            if self.recall(context) {
                let change = SessionChange::default()
                    .client_chat_action(StateAction::ChatPendingMessageSet(action), Some(origin))
                    .blobs(blobs);
                return Ok(vec![MessageEffect::Commit(change), MessageEffect::DeliverSteering]);
            }
        }
        if !is_queued && session.consumed_messages.contains(&action.id) {
            return Err(ActionRejection::MessageAlreadySent);
        }
        if session.steering_message().is_some_and(|(message, _)| message.id == action.id) {
            return Err(ActionRejection::MessageIsSteering);
        }
        if !is_queued && session.queued_messages().len() >= context.max_queued {
            return Err(ActionRejection::QueueFull { max: context.max_queued });
        }
        if is_active_elsewhere {
            return Err(ActionRejection::ActiveElsewhere);
        }
        let action = ChatPendingMessageSetAction { kind: PendingMessageKind::Queued, ..action };
        let change = SessionChange::default()
            .client_chat_action(StateAction::ChatPendingMessageSet(action), Some(origin))
            .blobs(blobs);
        let change = if session.is_stored { change } else { change.persist_session() };
        Ok(vec![MessageEffect::Commit(change), MessageEffect::QueueChanged { resume: !is_queued }])
    }

    fn remove(
        &mut self,
        action: ChatPendingMessageRemovedAction,
        origin: ActionOrigin,
        context: &MessageContext<'_>,
    ) -> Result<Vec<MessageEffect>, ActionRejection> {
        let session = context.session;
        match action.kind {
            PendingMessageKind::Steering => {
                if session.steering_message().is_none_or(|(message, _)| message.id != action.id) {
                    return Err(ActionRejection::MessageNotSteering);
                }
                if !self.recall(context) {
                    return Err(ActionRejection::MessageAlreadyDelivered);
                }
            }
            PendingMessageKind::Queued if session.queued_messages().iter().any(|message| message.id == action.id) => {}
            PendingMessageKind::Queued if session.consumed_messages.contains(&action.id) => {
                return Err(ActionRejection::MessageAlreadySent);
            }
            PendingMessageKind::Queued => return Err(ActionRejection::MessageNotQueued),
        }
        let recalled = action.kind == PendingMessageKind::Steering;
        let mut effects = vec![
            client_commit(StateAction::ChatPendingMessageRemoved(action), origin),
            MessageEffect::QueueChanged { resume: false },
        ];
        if recalled {
            // If the removal could not be stored, the steer is still in its slot.
            effects.push(MessageEffect::DeliverSteering);
        }
        Ok(effects)
    }

    /// Recalls the steer from the driver. `true` if the slot is empty, or if the agent has not received the steer and
    /// will not.
    fn recall(&mut self, context: &MessageContext<'_>) -> bool {
        let Some((message, injected)) = context.session.steering_message() else { return true };
        if self.in_driver.as_ref() != Some(&message.id) {
            if !injected {
                self.load = None;
            }
            return !injected;
        }
        let recalled = (context.recall)(&SteeringMessageId(message.id.clone()));
        if recalled {
            self.in_driver = None;
        }
        recalled
    }

    /// Passes the steer to the driver, if a running turn can be steered.
    fn deliver(&mut self, context: &MessageContext<'_>) -> Vec<MessageEffect> {
        let Some((pending, false)) = context.session.steering_message() else { return Vec::new() };
        if self.in_driver.is_some() || self.load.is_some() || !context.can_deliver || !context.can_steer() {
            return Vec::new();
        }
        if has_blocks(&pending.message) {
            self.load_count = self.load_count.wrapping_add(1);
            self.load = Some(self.load_count);
            return vec![MessageEffect::LoadContents { load: self.load_count, message: pending.clone() }];
        }
        let prompt = Prompt::new(pending.message.text.clone());
        self.pass_to_driver(SteeringMessage { id: SteeringMessageId(pending.id.clone()), prompt })
    }

    fn pass_to_driver(&mut self, steer: SteeringMessage) -> Vec<MessageEffect> {
        self.in_driver = Some(steer.id.0.clone());
        vec![MessageEffect::Steer(steer)]
    }
}

fn client_commit(action: StateAction, origin: ActionOrigin) -> MessageEffect {
    MessageEffect::Commit(SessionChange::default().client_chat_action(action, Some(origin)))
}

/// Moves the steer to the head of the queue after its turn.
fn requeue(session: &Session) -> Vec<MessageEffect> {
    let Some((message, false)) = session.steering_message() else { return Vec::new() };
    let actions = requeue_actions(session, message);
    let change = actions.into_iter().fold(SessionChange::default(), SessionChange::chat_action);
    vec![MessageEffect::Commit(change), MessageEffect::QueueChanged { resume: false }]
}

fn requeue_actions(session: &Session, PendingMessage { id, message }: &PendingMessage) -> Vec<StateAction> {
    let queued = StateAction::ChatPendingMessageSet(ChatPendingMessageSetAction {
        kind: PendingMessageKind::Queued,
        id: id.clone(),
        message: message.clone(),
    });
    let mut order = vec![id.clone()];
    order.extend(session.queued_messages().iter().map(|message| message.id.clone()));
    let first = StateAction::ChatQueuedMessagesReordered(ChatQueuedMessagesReorderedAction { order });
    vec![steering_removed(id.clone()), queued, first]
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

/// The notice about a steer that the agent received and did not answer.
pub(super) fn steering_notice(message: &Message) -> String {
    let mut said = format!("{STEERING_NOTICE_PREFIX}{}", message.text);
    for attached in message_attachments(message) {
        said.push_str(&format!("\n(attached: {})", DisplayName::new(attachment_label(attached))));
    }
    said
}

pub(super) fn steering_removed(id: String) -> StateAction {
    StateAction::ChatPendingMessageRemoved(ChatPendingMessageRemovedAction { kind: PendingMessageKind::Steering, id })
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
