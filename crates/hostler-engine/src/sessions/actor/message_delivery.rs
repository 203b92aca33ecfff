//! Carries out the effects of the pending messages, and sends messages to the agent; the contents of attachments are
//! read from the store off the actor.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::{
    ChatPendingMessageSetAction, ChatTurnCancelledAction, ChatTurnCompleteAction, ChatTurnStartedAction,
};
use ahp_types::common::JsonObject;
use ahp_types::state::{Message, PendingMessage};
use hostler_driver::{Prompt, SteeringMessage, SteeringMessageId};
use serde_json::{Value, json};
use uuid::Uuid;

use super::agent::AgentTaskEvent;
use super::pending_messages::{
    MessageContext, MessageEffect, MessageEvent, PendingMessages, SteeringAtTurnEnd, check_message, steering_notice,
    steering_removed,
};
use super::session_change::SessionChange;
use super::{SessionActor, SessionInput, turn_resume};
use crate::attachments::{attachment_history, check_fits, has_blocks, load_blocks, message_blocks};
use crate::clock::ClockExt as _;
use crate::sessions::action_mapper::{ActionBuffer, ActionMapper, TurnErrorDetails};
use crate::sessions::record::SessionRecord;
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::Dispatch;
use crate::sessions::turn::{TurnEffect, TurnInput, TurnPhase};

/// The key, below `hostler` in the session's `_meta`, for whether the queue waits for a person.
const QUEUE_PAUSED_KEY: &str = "queuePaused";

/// A message for the live agent, with its contents.
pub(crate) enum LoadedMessage {
    /// A turn's prompt.
    Prompt { turn: String, result: Result<Prompt, TurnErrorDetails> },
    /// A steering message for the running turn; `None` if its contents could not be read.
    Steer { load: u64, message: Option<SteeringMessage> },
}

impl SessionActor {
    // ── Pending messages ──────────────────────────────────────────────────────────────────────────────────────────

    fn with_message_context<T>(&mut self, step: impl FnOnce(&mut PendingMessages, &MessageContext<'_>) -> T) -> T {
        let connection = self.agent.connection();
        let context = MessageContext {
            session: &self.ctx.session,
            machine: &self.machine,
            can_deliver: connection.is_some() && !self.agent.prompt_in_flight,
            max_queued: self.ctx.host.settings.max_queued_messages,
            recall: &|id| connection.as_ref().is_none_or(|(connection, _)| connection.cancel_steering(id)),
        };
        step(&mut self.pending_messages, &context)
    }

    /// Passes an event to the pending messages and carries out the effects.
    pub(super) async fn step_messages(&mut self, event: MessageEvent) -> Result<(), ActionRejection> {
        let mut result = Ok(());
        for effect in self.with_message_context(|messages, context| messages.on(event, context))? {
            match effect {
                MessageEffect::DeliverSteering => self.deliver_steering(),
                _ if result.is_err() => {}
                MessageEffect::CheckNotActiveElsewhere => result = self.check_not_active_elsewhere(),
                MessageEffect::Commit(change) => result = self.ctx.commit(change).await.map_err(ActionRejection::from),
                MessageEffect::QueueChanged { resume } => {
                    let queue = self.queue_changed_input(resume);
                    self.drive(queue).await;
                }
                MessageEffect::MarkInjected(message) => {
                    self.ctx.session.injected_message = Some(message.clone());
                    let change = SessionChange::default().record(SessionRecord::SteeringInjected { message });
                    result = self.ctx.commit(change).await.map_err(ActionRejection::from);
                }
                MessageEffect::RecordLate(message) => result = self.record_late_steering(message).await,
                MessageEffect::SplitTurn(message) => result = self.split_turn(message).await,
                MessageEffect::Steer(message) => self.steer_agent(message),
                MessageEffect::LoadContents { load, message } => self.load_steering(load, message),
            }
        }
        result
    }

    /// Does the same for an event of the agent: a failure is logged.
    pub(super) async fn step_agent_messages(&mut self, event: MessageEvent) {
        if let Err(error) = self.step_messages(event).await {
            tracing::error!(session = &*self.ctx.session.uri, %error, "failed to store a change of the steering message");
        }
    }

    /// Handles a client's message for the queue, or for the running turn.
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
        let is_local_command = self.ctx.host.local_command(&action.message.text).is_some();
        let blobs = dispatch.attachment_contents.blobs().collect();
        self.step_messages(MessageEvent::Set { action, origin: dispatch.origin(), blobs, is_local_command }).await
    }

    /// Passes the steer to the driver, if a running turn can be steered.
    pub(super) fn deliver_steering(&mut self) {
        let effects =
            self.with_message_context(|messages, context| messages.on(MessageEvent::DeliverSteering, context));
        for effect in effects.into_iter().flatten() {
            match effect {
                MessageEffect::Steer(message) => self.steer_agent(message),
                MessageEffect::LoadContents { load, message } => self.load_steering(load, message),
                _ => {}
            }
        }
    }

    /// Determines what happens to the steer at the turn's end.
    pub(super) fn resolve_steering_at_turn_end(&mut self) -> SteeringAtTurnEnd {
        self.with_message_context(PendingMessages::resolve_at_turn_end)
    }

    /// The state of the queue as input for the turn machine.
    pub(super) fn queue_changed_input(&self, resume: bool) -> TurnInput<TurnErrorDetails> {
        let head = self.ctx.session.queued_messages().first().map(|message| message.id.clone());
        TurnInput::QueueChanged { head, resume }
    }

    /// Starts a turn with the head of the queue: one action removes the message and starts the turn.
    ///
    /// The queue waits until the transcript is synced and no other process runs a turn.
    pub(super) async fn start_queued_turn(&mut self, id: &str) -> Vec<TurnInput<TurnErrorDetails>> {
        if !self.can_start_queued_turn().await {
            return vec![TurnInput::StartFailed];
        }
        let Some(waiting) = self.ctx.session.queued_messages().iter().find(|message| message.id == id) else {
            return vec![TurnInput::StartFailed];
        };
        let (turn, text) = (Uuid::new_v4().to_string(), waiting.message.text.clone());
        let action = ChatTurnStartedAction {
            turn_id: turn.clone(),
            started_at: self.ctx.host.clock.now_timestamp(),
            message: waiting.message.clone(),
            queued_message_id: Some(id.to_owned()),
            meta: None,
        };
        match self.begin_turn(action, None, Vec::new()).await {
            Ok(()) => {
                self.ctx.turn.client_id = None;
                vec![self.build_accepted_input(turn, &text), self.queue_changed_input(false)]
            }
            Err(error) => {
                tracing::error!(session = &*self.ctx.session.uri, %error, "failed to start the turn of a queued message; retrying");
                self.schedule_queue_retry();
                vec![TurnInput::StartFailed]
            }
        }
    }

    /// Publishes whether the queue waits for a person, if that has changed.
    pub(super) async fn publish_queue_paused(&mut self) {
        let paused = self.machine.is_queue_paused();
        let was_paused = self.ctx.session.hostler_meta(QUEUE_PAUSED_KEY).and_then(Value::as_bool).unwrap_or(false);
        if was_paused != paused {
            self.ctx.publish_session_meta(QUEUE_PAUSED_KEY, paused.into()).await;
        }
    }

    /// Adds a steer whose receipt arrived after its turn to the running turn, or as a turn of its own.
    async fn record_late_steering(
        &mut self,
        PendingMessage { id, message }: PendingMessage,
    ) -> Result<(), ActionRejection> {
        let mut output = ActionBuffer::default();
        let change =
            if let (Some(_), Some(transcript)) = (&self.ctx.session.chat.active_turn, self.ctx.turn.mapper.as_mut()) {
                transcript.add_notice(steering_notice(&message), &mut output);
                SessionChange::default().output(output).chat_action(steering_removed(id))
            } else {
                let turn_id = Uuid::new_v4().to_string();
                ActionMapper::new(turn_id.clone())
                    .add_notice("The agent received this message while its turn was ending.".to_owned(), &mut output);
                let started = ChatTurnStartedAction {
                    turn_id: turn_id.clone(),
                    started_at: self.ctx.host.clock.now_timestamp(),
                    message,
                    queued_message_id: Some(id),
                    meta: None,
                };
                let ended = ChatTurnCancelledAction { turn_id, duration: 0, meta: None };
                let change = SessionChange::default().chat_action(StateAction::ChatTurnStarted(started)).output(output);
                change.chat_action(StateAction::ChatTurnCancelled(ended))
            };
        self.ctx.commit(change).await?;
        let queue = self.queue_changed_input(false);
        self.drive(queue).await;
        self.ctx.update_summaries().await;
        Ok(())
    }

    /// Splits the turn where the agent starts to answer the steer: `turnComplete` (with `continuedIn`), then
    /// `turnStarted` with the steer's text (`continues`).
    async fn split_turn(&mut self, PendingMessage { id, message }: PendingMessage) -> Result<(), ActionRejection> {
        let Some(transcript) = self.ctx.turn.mapper.as_ref().filter(|transcript| !transcript.has_open_calls()) else {
            return Ok(());
        };
        if !self.machine.step::<TurnErrorDetails>(TurnInput::Output).contains(&TurnEffect::PublishOutput) {
            return Ok(());
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
                started_at: self.ctx.host.clock.now_timestamp(),
                message,
                queued_message_id: Some(id),
                meta: Some(hostler_meta("continues", &turn)),
            }))
            .record(SessionRecord::Delivered { turn: next.clone(), prompt_id: None })
            .persist_session();
        self.ctx.commit(change).await?;
        self.ctx.session.set_delivered(next.clone(), None);
        self.set_running_turn(transcript).await;
        self.drive(TurnInput::Split(next)).await;
        Ok(())
    }

    // ── Messages to the agent ─────────────────────────────────────────────────────────────────────────────────────

    /// Sends a turn's prompt to the agent: its message, or the request to continue if the agent has the message.
    pub(super) fn send_prompt(&mut self, turn: String) {
        let Some(active) = self.ctx.session.chat.active_turn.as_ref().filter(|active| active.id == turn) else {
            return;
        };
        if self.ctx.session.delivered_turn.as_ref() == Some(&turn) {
            let prompt = turn_resume::continue_prompt(&active.response_parts);
            return self.write_prompt(Prompt::new(prompt));
        }
        let mut message = active.message.clone();
        message.text = turn_resume::with_last_steering(message.text, &active.response_parts);
        self.send_message(turn, &message);
    }

    fn write_prompt(&mut self, prompt: Prompt) {
        let Some((connection, attempt)) = self.agent.connection() else { return };
        let id = self.mint_prompt_id();
        // Not every build stores the ids of commands.
        let is_command = prompt.expose().trim_start().starts_with('/');
        self.agent.sent_prompt_id = (!is_command).then_some(id);
        self.external.own_commands += usize::from(is_command);
        if let Some(turn) = self.ctx.session.chat.active_turn.as_ref().map(|turn| turn.id.clone()) {
            self.ctx.session.add_prompt(id, turn);
        }
        let prompt = prompt.with_id(id);
        self.agent.prompt_in_flight = true;
        self.ctx.tasks.spawn(async move {
            let result = connection.send(prompt).await;
            SessionInput::AgentTask(AgentTaskEvent::PromptSent { attempt, result })
        });
    }

    /// The id of the next prompt. It identifies the prompt as this host's own in the transcript.
    fn mint_prompt_id(&self) -> Uuid {
        self.ctx.host.prompt_ids.mint(self.ctx.session.conversation)
    }

    fn steer_agent(&mut self, SteeringMessage { id, prompt }: SteeringMessage) {
        if let Some((connection, _)) = self.agent.connection() {
            connection.steer(SteeringMessage { id, prompt: prompt.with_id(self.mint_prompt_id()) });
        }
    }

    fn load_steering(&mut self, load: u64, PendingMessage { id, message }: PendingMessage) {
        let (host, attempt) = (Arc::clone(&self.ctx.host), self.agent.attempt);
        self.ctx.tasks.spawn(async move {
            let blocks = load_blocks(&host.store, &message_blocks(&message)).await.ok();
            let message = blocks.map(|blocks| SteeringMessage {
                id: SteeringMessageId(id),
                prompt: Prompt::new(message.text).with_blocks(blocks),
            });
            let message = LoadedMessage::Steer { load, message };
            SessionInput::AgentTask(AgentTaskEvent::MessageLoaded { attempt, message })
        });
    }

    /// Sends a turn's message to the agent, after its attachments are read.
    fn send_message(&mut self, turn: String, message: &Message) {
        if !has_blocks(message) {
            return self.write_prompt(Prompt::new(message.text.clone()));
        }
        let carried = attachment_history(
            &self.ctx.session.session,
            &self.ctx.session.chat,
            &self.ctx.session.turn_storage.evicted,
        );
        let fits = check_fits(message, carried, &self.ctx.host.attachments.limits);
        let (blocks, text) = (message_blocks(message), message.text.clone());
        let (host, attempt) = (Arc::clone(&self.ctx.host), self.agent.attempt);
        self.agent.prompt_in_flight = true;
        self.ctx.tasks.spawn(async move {
            let result = match fits {
                Ok(()) => load_blocks(&host.store, &blocks).await.map(|blocks| Prompt::new(text).with_blocks(blocks)),
                Err(failure) => Err(failure),
            };
            SessionInput::AgentTask(AgentTaskEvent::MessageLoaded {
                attempt,
                message: LoadedMessage::Prompt { turn, result },
            })
        });
    }

    /// Handles loaded contents. Their turn or their agent may have ended.
    pub(super) async fn handle_loaded_message(&mut self, attempt: u64, loaded: LoadedMessage) {
        let is_current = attempt == self.agent.attempt;
        match loaded {
            LoadedMessage::Prompt { turn, result } if is_current => {
                let wanted = matches!(self.machine.turn_phase(), TurnPhase::Running { turn: now, .. } if *now == turn);
                match result {
                    Ok(prompt) if wanted => self.write_prompt(prompt),
                    Ok(_) => self.fail_unsent_prompt(turn, TurnErrorDetails::abandoned()).await,
                    Err(failure) => self.fail_unsent_prompt(turn, failure).await,
                }
            }
            LoadedMessage::Prompt { .. } => {}
            LoadedMessage::Steer { load, message } => {
                let message = message.filter(|_| is_current);
                self.step_agent_messages(MessageEvent::ContentsLoaded { load, message }).await;
            }
        }
    }

    pub(super) async fn fail_unsent_prompt(&mut self, turn: String, reason: TurnErrorDetails) {
        self.agent.prompt_in_flight = false;
        self.drive(TurnInput::PromptNotSent { turn, reason }).await;
    }
}

fn hostler_meta(key: &str, turn: &str) -> JsonObject {
    let mut meta = JsonObject::new();
    meta.insert("hostler".to_owned(), json!({ key: turn }));
    meta
}
