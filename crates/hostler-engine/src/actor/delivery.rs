//! What follows the words of a message on its way to the agent: read back from the store, beside the actor.

use std::sync::Arc;

use ahp_types::state::Message;
use hostler_driver::{Prompt, Steer, SteerId};

use super::agent::AgentNews;
use super::{Actor, Input};
use crate::attach::{blocks_of, has_blocks, history, load, still_fits};
use crate::transcript::Failure;
use crate::turn::{Input as TurnInput, TurnPhase};

/// Contents that were read back for the live agent.
pub(crate) enum Loaded {
    /// A turn's whole prompt.
    Prompt { turn: String, result: Result<Prompt, Failure> },
    /// Words for the running turn, with what is attached to them.
    Steer { reading: u64, result: Result<Steer, Failure> },
}

impl Actor {
    /// Writes a turn's message to the agent; what is attached to it is read first.
    pub(super) fn send_message(&mut self, turn: String, message: &Message) {
        if !has_blocks(message) {
            return self.write_prompt(Prompt::new(message.text.clone()));
        }
        let carried = history(&self.session.session, &self.session.chat, &self.session.kept.past);
        let fits = still_fits(message, carried, &self.host.attachments);
        let (blocks, text) = (blocks_of(message), message.text.clone());
        let (host, attempt) = (Arc::clone(&self.host), self.agent.attempt);
        self.unsent = true;
        self.tasks.spawn(async move {
            let result = match fits {
                Ok(()) => load(&host.store, &blocks).await.map(|blocks| Prompt::new(text).with_blocks(blocks)),
                Err(failure) => Err(failure),
            };
            Input::Agent(AgentNews::Loaded { attempt, loaded: Loaded::Prompt { turn, result } })
        });
    }

    /// Gives the driver a message for the running turn; what is attached to it is read first.
    pub(super) fn hand_message(&mut self, id: String, message: &Message) {
        let Some((connection, attempt)) = self.agent.connection() else { return };
        if !has_blocks(message) {
            let text = Prompt::new(message.text.clone()).with_id(self.prompt_id());
            connection.steer(Steer { id: SteerId(id.clone()), text });
            self.handed = Some(id);
            return;
        }
        let (blocks, text, host) = (blocks_of(message), message.text.clone(), Arc::clone(&self.host));
        let prompt_id = self.prompt_id();
        let reading = self.readings.wrapping_add(1);
        (self.readings, self.loading) = (reading, Some(reading));
        self.tasks.spawn(async move {
            let result = load(&host.store, &blocks).await;
            let text = Prompt::new(text).with_id(prompt_id);
            let result = result.map(|blocks| Steer { id: SteerId(id), text: text.with_blocks(blocks) });
            Input::Agent(AgentNews::Loaded { attempt, loaded: Loaded::Steer { reading, result } })
        });
    }

    /// Contents are there. What they were for may be over.
    pub(super) async fn loaded(&mut self, loaded: Loaded) {
        match loaded {
            Loaded::Prompt { turn, result } => {
                let wanted = matches!(self.machine.turn(), TurnPhase::Running { turn: now, .. } if *now == turn);
                match result {
                    Ok(prompt) if wanted => self.write_prompt(prompt),
                    Ok(_) => self.not_sent(turn, Failure::nobody_waits()).await,
                    Err(failure) => self.not_sent(turn, failure).await,
                }
            }
            // Another message may have taken its place, or it was taken back.
            Loaded::Steer { reading, .. } if self.loading != Some(reading) => {}
            // What cannot be read stays where it is: at the turn's end it becomes the first of the queue, and its own turn
            // says what is wrong.
            Loaded::Steer { result, .. } => {
                self.loading = None;
                if let (Ok(steer), Some((connection, _)), true) = (result, self.agent.connection(), self.is_foldable())
                {
                    self.handed = Some(steer.id.0.clone());
                    connection.steer(steer);
                }
            }
        }
    }

    pub(super) async fn not_sent(&mut self, turn: String, reason: Failure) {
        self.unsent = false;
        self.drive(TurnInput::Unsent { turn, reason }).await;
    }
}
