//! Carries out the effects of the pending messages. The contents of a steer's attachments are read from the store off
//! the actor.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::{ChatTurnCancelledAction, ChatTurnCompleteAction, ChatTurnStartedAction};
use ahp_types::common::JsonObject;
use ahp_types::state::PendingMessage;
use hostler_driver::{Prompt, SteeringMessage, SteeringMessageId};
use hostler_store::StoreError;
use serde_json::{Value, json};
use uuid::Uuid;

use super::agent::{AgentTaskEvent, SessionAgent};
use super::agent_prompts::LoadedMessage;
use super::context::SessionContext;
use super::effect::SessionEffect;
use super::input::SessionInput;
use super::pending_messages::{
    MessageContext, MessageEffect, MessageEvent, PendingMessages, SteeringAtTurnEnd, steering_notice, steering_removed,
};
use super::session_change::SessionChange;
use crate::attachments::{load_blocks, message_blocks};
use crate::clock::ClockExt as _;
use crate::sessions::action_mapper::{ActionBuffer, ActionMapper, TurnErrorDetails};
use crate::sessions::record::SessionRecord;
use crate::sessions::rejection::ActionRejection;
use crate::sessions::turn::{TurnInput, TurnMachine};

/// The key, below `hostler` in the session's `_meta`, for whether the queue waits for a person.
const QUEUE_PAUSED_KEY: &str = "queuePaused";

impl PendingMessages {
    fn with_context<T>(
        &mut self,
        ctx: &SessionContext,
        machine: &TurnMachine,
        agent: &SessionAgent,
        step: impl FnOnce(&mut Self, &MessageContext<'_>) -> T,
    ) -> T {
        let connection = agent.connection();
        let context = MessageContext {
            session: &ctx.session,
            machine,
            can_deliver: connection.is_some() && !agent.prompt_in_flight,
            max_queued: ctx.host.settings.max_queued_messages,
            recall: &|id| connection.as_ref().is_none_or(|(connection, _)| connection.cancel_steering(id)),
        };
        step(self, &context)
    }

    /// Passes an event and carries out the effects.
    pub(super) async fn step(
        &mut self,
        event: MessageEvent,
        ctx: &mut SessionContext,
        machine: &TurnMachine,
        agent: &SessionAgent,
    ) -> Result<Vec<SessionEffect>, ActionRejection> {
        let (mut result, mut next) = (Ok(()), Vec::new());
        for effect in self.with_context(ctx, machine, agent, |messages, context| messages.on(event, context))? {
            match effect {
                MessageEffect::DeliverSteering => self.deliver_steering(ctx, machine, agent),
                _ if result.is_err() => {}
                MessageEffect::Commit(change) => result = ctx.commit(change).await,
                MessageEffect::QueueChanged { resume } => next.push(SessionEffect::QueueChanged { resume }),
                MessageEffect::MarkInjected(message) => {
                    ctx.session.injected_message = Some(message.clone());
                    let change = SessionChange::default().record(SessionRecord::SteeringInjected { message });
                    result = ctx.commit(change).await;
                }
                MessageEffect::RecordLate(message) => next.extend(ctx.record_late_steering(message).await?),
                MessageEffect::SplitTurn(message) => next.extend(ctx.split_turn(message).await?),
                MessageEffect::Steer(message) => steer_agent(message, ctx, agent),
                MessageEffect::LoadContents { load, message } => load_steering(load, message, ctx, agent),
            }
        }
        result?;
        Ok(next)
    }

    /// Does the same for an event of the agent: a failure is logged.
    pub(super) async fn step_agent_event(
        &mut self,
        event: MessageEvent,
        ctx: &mut SessionContext,
        machine: &TurnMachine,
        agent: &SessionAgent,
    ) -> Vec<SessionEffect> {
        self.step(event, ctx, machine, agent).await.unwrap_or_else(|error| {
            tracing::error!(session = &*ctx.session.uri, %error, "failed to store a change of the steering message");
            Vec::new()
        })
    }

    /// Passes the steer to the driver, if a running turn can be steered.
    pub(super) fn deliver_steering(&mut self, ctx: &mut SessionContext, machine: &TurnMachine, agent: &SessionAgent) {
        let deliver = MessageEvent::DeliverSteering;
        let effects = self.with_context(ctx, machine, agent, |messages, context| messages.on(deliver, context));
        for effect in effects.into_iter().flatten() {
            match effect {
                MessageEffect::Steer(message) => steer_agent(message, ctx, agent),
                MessageEffect::LoadContents { load, message } => load_steering(load, message, ctx, agent),
                _ => {}
            }
        }
    }

    /// Determines what happens to the steer at the turn's end.
    pub(super) fn end_turn(
        &mut self,
        ctx: &SessionContext,
        machine: &TurnMachine,
        agent: &SessionAgent,
    ) -> SteeringAtTurnEnd {
        self.with_context(ctx, machine, agent, Self::resolve_at_turn_end)
    }
}

fn steer_agent(SteeringMessage { id, prompt }: SteeringMessage, ctx: &SessionContext, agent: &SessionAgent) {
    if let Some((connection, _)) = agent.connection() {
        connection.steer(SteeringMessage { id, prompt: prompt.with_id(ctx.mint_prompt_id()) });
    }
}

fn load_steering(
    load: u64,
    PendingMessage { id, message }: PendingMessage,
    ctx: &mut SessionContext,
    agent: &SessionAgent,
) {
    let (host, attempt) = (Arc::clone(&ctx.host), agent.attempt);
    ctx.tasks.spawn(async move {
        let blocks = load_blocks(&host.store, &message_blocks(&message)).await.ok();
        let message = blocks.map(|blocks| SteeringMessage {
            id: SteeringMessageId(id),
            prompt: Prompt::new(message.text).with_blocks(blocks),
        });
        let message = LoadedMessage::Steer { load, message };
        SessionInput::AgentTask(AgentTaskEvent::MessageLoaded { attempt, message })
    });
}

impl SessionContext {
    /// The id of the next prompt. It identifies the prompt as this host's own in the transcript.
    pub(super) fn mint_prompt_id(&self) -> Uuid {
        self.host.external.mint_prompt_id(self.session.conversation)
    }

    /// The state of the queue as input for the turn machine; `resume` if a person continues it.
    pub(super) fn queue_changed(&self, resume: bool) -> TurnInput<TurnErrorDetails> {
        let head = self.session.queued_messages().first().map(|message| message.id.clone());
        TurnInput::QueueChanged { head, resume }
    }

    /// Publishes whether the queue waits for a person, if that has changed.
    pub(super) async fn publish_queue_paused(&mut self, paused: bool) {
        let was_paused = self.session.hostler_meta(QUEUE_PAUSED_KEY).and_then(Value::as_bool).unwrap_or(false);
        if was_paused != paused {
            self.publish_session_meta(QUEUE_PAUSED_KEY, paused.into()).await;
        }
    }

    /// Adds a steer whose receipt arrived after its turn to the running turn, or as a turn of its own.
    async fn record_late_steering(
        &mut self,
        PendingMessage { id, message }: PendingMessage,
    ) -> Result<Vec<SessionEffect>, StoreError> {
        let mut output = ActionBuffer::default();
        let change = if let (Some(_), Some(transcript)) = (&self.session.chat.active_turn, self.turn.mapper.as_mut()) {
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
        self.commit(change).await?;
        Ok(vec![SessionEffect::QueueChanged { resume: false }, SessionEffect::UpdateSummaries])
    }

    /// Splits the turn where the agent starts to answer the steer: `turnComplete` (with `continuedIn`), then
    /// `turnStarted` with the steer's text (`continues`).
    async fn split_turn(
        &mut self,
        PendingMessage { id, message }: PendingMessage,
    ) -> Result<Vec<SessionEffect>, StoreError> {
        let Some(transcript) = self.turn.mapper.as_ref().filter(|transcript| !transcript.has_open_calls()) else {
            return Ok(Vec::new());
        };
        let (turn, next) = (transcript.turn().to_owned(), Uuid::new_v4().to_string());
        let transcript = transcript.continue_in(next.clone());
        let change = SessionChange::default()
            .chat_action(StateAction::ChatTurnComplete(ChatTurnCompleteAction {
                turn_id: turn.clone(),
                duration: self.turn.duration_ms(),
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
        self.commit(change).await?;
        self.session.set_delivered(next.clone(), None);
        self.set_running_turn(transcript).await;
        Ok(vec![SessionEffect::Turn(TurnInput::Split(next))])
    }
}

fn hostler_meta(key: &str, turn: &str) -> JsonObject {
    let mut meta = JsonObject::new();
    meta.insert("hostler".to_owned(), json!({ key: turn }));
    meta
}
