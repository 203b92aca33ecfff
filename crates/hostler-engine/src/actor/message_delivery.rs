//! Sends messages with attachments to the agent; the contents are read from the store off the actor.

use std::sync::Arc;

use ahp_types::state::Message;
use hostler_driver::{Prompt, SteeringMessage, SteeringMessageId};

use super::agent::AgentTaskEvent;
use super::{SessionActor, SessionInput};
use crate::action_mapper::TurnErrorDetails;
use crate::attachments::{attachment_history, check_fits, has_blocks, load_blocks, message_blocks};
use crate::turn::{TurnInput, TurnPhase};

/// A message for the live agent, with its contents.
pub(crate) enum LoadedMessage {
    /// A turn's prompt.
    Prompt { turn: String, result: Result<Prompt, TurnErrorDetails> },
    /// A steering message for the running turn.
    Steer { load: u64, result: Result<SteeringMessage, TurnErrorDetails> },
}

impl SessionActor {
    /// Sends a turn's message to the agent, after its attachments are read.
    pub(super) fn send_message(&mut self, turn: String, message: &Message) {
        if !has_blocks(message) {
            return self.write_prompt(Prompt::new(message.text.clone()));
        }
        let carried = attachment_history(&self.session.session, &self.session.chat, &self.session.turn_storage.evicted);
        let fits = check_fits(message, carried, &self.host.attachment_limits);
        let (blocks, text) = (message_blocks(message), message.text.clone());
        let (host, attempt) = (Arc::clone(&self.host), self.agent.attempt);
        self.prompt_in_flight = true;
        self.tasks.spawn(async move {
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

    /// Passes a steering message to the driver, after its attachments are read.
    pub(super) fn steer_with_message(&mut self, id: String, message: &Message) {
        let Some((connection, attempt)) = self.agent.connection() else { return };
        if !has_blocks(message) {
            let text = Prompt::new(message.text.clone()).with_id(self.mint_prompt_id());
            connection.steer(SteeringMessage { id: SteeringMessageId(id.clone()), prompt: text });
            self.steer_in_driver = Some(id);
            return;
        }
        let (blocks, text, host) = (message_blocks(message), message.text.clone(), Arc::clone(&self.host));
        let prompt_id = self.mint_prompt_id();
        let reading = self.steer_load_count.wrapping_add(1);
        (self.steer_load_count, self.steer_load) = (reading, Some(reading));
        self.tasks.spawn(async move {
            let result = load_blocks(&host.store, &blocks).await;
            let text = Prompt::new(text).with_id(prompt_id);
            let result =
                result.map(|blocks| SteeringMessage { id: SteeringMessageId(id), prompt: text.with_blocks(blocks) });
            SessionInput::AgentTask(AgentTaskEvent::MessageLoaded {
                attempt,
                message: LoadedMessage::Steer { load: reading, result },
            })
        });
    }

    /// Handles loaded contents. Their turn may have ended.
    pub(super) async fn handle_loaded_message(&mut self, loaded: LoadedMessage) {
        match loaded {
            LoadedMessage::Prompt { turn, result } => {
                let wanted = matches!(self.machine.turn_phase(), TurnPhase::Running { turn: now, .. } if *now == turn);
                match result {
                    Ok(prompt) if wanted => self.write_prompt(prompt),
                    Ok(_) => self.fail_unsent_prompt(turn, TurnErrorDetails::abandoned()).await,
                    Err(failure) => self.fail_unsent_prompt(turn, failure).await,
                }
            }
            // Another message may have replaced it, or it was withdrawn.
            LoadedMessage::Steer { load: reading, .. } if self.steer_load != Some(reading) => {}
            // A steering message that cannot be read stays in its slot: at the turn's end it becomes the head of the
            // queue, and its own turn displays the error.
            LoadedMessage::Steer { result, .. } => {
                self.steer_load = None;
                if let (Ok(steer), Some((connection, _)), true) = (result, self.agent.connection(), self.can_steer()) {
                    self.steer_in_driver = Some(steer.id.0.clone());
                    connection.steer(steer);
                }
            }
        }
    }

    pub(super) async fn fail_unsent_prompt(&mut self, turn: String, reason: TurnErrorDetails) {
        self.prompt_in_flight = false;
        self.drive(TurnInput::PromptNotSent { turn, reason }).await;
    }
}
