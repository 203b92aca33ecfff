//! Sends prompts to the agent. The contents of attachments are read from the store off the actor.

use std::sync::Arc;

use ahp_types::state::Message;
use hostler_driver::{Prompt, SteeringMessage};

use super::agent::{AgentTaskEvent, SessionAgent};
use super::context::SessionContext;
use super::effect::SessionEffect;
use super::input::SessionInput;
use super::pending_messages::MessageEvent;
use super::turn_resume;
use crate::attachments::{attachment_history, check_fits, has_blocks, load_blocks, message_blocks};
use crate::sessions::action_mapper::TurnErrorDetails;
use crate::sessions::record::SessionRecord;
use crate::sessions::turn::{TurnInput, TurnMachine, TurnPhase};

/// A message for the live agent, with its contents.
pub(crate) enum LoadedMessage {
    /// A turn's prompt.
    Prompt { turn: String, result: Result<Prompt, TurnErrorDetails> },
    /// A steering message for the running turn; `None` if its contents could not be read.
    Steer { load: u64, message: Option<SteeringMessage> },
}

impl SessionAgent {
    /// Sends a turn's prompt, after the folder is assessed for this turn.
    pub(super) async fn send_turn_prompt(&mut self, turn: String, ctx: &mut SessionContext) -> Vec<SessionEffect> {
        if let Err(failure) = self.use_prewarmed(ctx).await {
            return vec![SessionEffect::Turn(TurnInput::AbortAndClose(failure))];
        }
        if !self.assess_before_prompt(&turn, ctx) {
            self.send_prompt(turn, ctx);
        }
        Vec::new()
    }

    /// Sends a turn's prompt: its message, or the request to continue if the agent has the message.
    pub(super) fn send_prompt(&mut self, turn: String, ctx: &mut SessionContext) {
        let Some(active) = ctx.session.chat.active_turn.as_ref().filter(|active| active.id == turn) else { return };
        if ctx.session.delivered_turn.as_ref() == Some(&turn) {
            let prompt = turn_resume::continue_prompt(&active.response_parts);
            return self.write_prompt(Prompt::new(prompt), ctx);
        }
        let mut message = active.message.clone();
        message.text = turn_resume::with_last_steering(message.text, &active.response_parts);
        self.send_message(turn, &message, ctx);
    }

    fn write_prompt(&mut self, prompt: Prompt, ctx: &mut SessionContext) {
        let Some((connection, attempt)) = self.connection() else { return };
        let id = ctx.mint_prompt_id();
        // Not every build stores the ids of commands.
        let is_command = prompt.expose().trim_start().starts_with('/');
        self.sent_prompt_id = (!is_command).then_some(id);
        ctx.own_commands += usize::from(is_command);
        if let Some(turn) = ctx.session.chat.active_turn.as_ref().map(|turn| turn.id.clone()) {
            ctx.session.add_prompt(id, turn);
        }
        let prompt = prompt.with_id(id);
        self.prompt_in_flight = true;
        ctx.tasks.spawn(async move {
            let result = connection.send(prompt).await;
            SessionInput::AgentTask(AgentTaskEvent::PromptSent { attempt, result })
        });
    }

    /// Sends a turn's message, after its attachments are read.
    fn send_message(&mut self, turn: String, message: &Message, ctx: &mut SessionContext) {
        if !has_blocks(message) {
            return self.write_prompt(Prompt::new(message.text.clone()), ctx);
        }
        let session = &ctx.session;
        let carried = attachment_history(&session.session, &session.chat, &session.turn_storage.evicted);
        let fits = check_fits(message, carried, ctx.host.attachments.limits());
        let (blocks, text) = (message_blocks(message), message.text.clone());
        let (host, attempt) = (Arc::clone(&ctx.host), self.attempt);
        self.prompt_in_flight = true;
        ctx.tasks.spawn(async move {
            let result = match fits {
                Ok(()) => load_blocks(&host.store, &blocks).await.map(|blocks| Prompt::new(text).with_blocks(blocks)),
                Err(failure) => Err(failure),
            };
            let message = LoadedMessage::Prompt { turn, result };
            SessionInput::AgentTask(AgentTaskEvent::MessageLoaded { attempt, message })
        });
    }

    /// Sends a message whose contents were loaded. Its turn or its agent may have ended; then it is not `is_current`.
    pub(super) fn send_loaded(
        &mut self,
        loaded: LoadedMessage,
        is_current: bool,
        machine: &TurnMachine,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        match loaded {
            LoadedMessage::Prompt { turn, result } if is_current => {
                let wanted = matches!(machine.turn_phase(), TurnPhase::Running { turn: now, .. } if *now == turn);
                match result {
                    Ok(prompt) if wanted => self.write_prompt(prompt, ctx),
                    Ok(_) => return self.drop_prompt(turn, TurnErrorDetails::abandoned()),
                    Err(failure) => return self.drop_prompt(turn, failure),
                }
                Vec::new()
            }
            LoadedMessage::Prompt { .. } => Vec::new(),
            LoadedMessage::Steer { load, message } => {
                let message = message.filter(|_| is_current);
                vec![SessionEffect::Messages(MessageEvent::ContentsLoaded { load, message })]
            }
        }
    }

    /// Handles that a turn's prompt is not sent.
    pub(super) fn drop_prompt(&mut self, turn: String, reason: TurnErrorDetails) -> Vec<SessionEffect> {
        self.prompt_in_flight = false;
        vec![SessionEffect::Turn(TurnInput::PromptNotSent { turn, reason })]
    }

    /// Records that the agent has received the turn's message, because the model answers: it must not be sent again.
    pub(super) async fn mark_delivered(&mut self, machine: &TurnMachine, ctx: &mut SessionContext) {
        if !machine.is_answering() {
            return;
        }
        let Some(turn) = ctx.turn.mapper.as_ref().map(|transcript| transcript.turn().to_owned()) else { return };
        if ctx.session.delivered_turn.as_ref() != Some(&turn) {
            let prompt = self.sent_prompt_id.take();
            ctx.session.set_delivered(turn.clone(), prompt);
            ctx.append_record(&SessionRecord::Delivered { turn, prompt_id: prompt }).await;
        }
    }
}
