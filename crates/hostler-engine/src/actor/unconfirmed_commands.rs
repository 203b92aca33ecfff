//! Commands of ours in the agent's record.
//!
//! A message is known by its id, wherever the agent keeps it. Not so a command: one build gives commands ids of its own, and
//! another writes a change of the model as one. So the host remembers what it has sent, in order, until it has heard of it in
//! the record: a command that nobody here has sent was given elsewhere.

use std::collections::VecDeque;
use std::sync::Arc;

use hostler_driver::{Prompt, Transcript, TurnOrigin};
use uuid::Uuid;

use super::SessionActor;
use crate::session_record::{SessionRecord, UnconfirmedCommand};

/// How a change of the model is written down.
const MODEL_COMMAND: &str = "/model";

/// Which turns of a record are ours, beyond their ids.
#[derive(Debug, Default)]
pub(super) struct ConfirmedCommands {
    /// How much of what was sent is heard of at a place of the record.
    confirmed: Vec<(usize, usize)>,
}

impl ConfirmedCommands {
    /// How much of what was sent is heard of before a place.
    pub(super) fn confirmed_before(&self, end: usize) -> usize {
        self.confirmed.iter().take_while(|(place, _)| *place < end).last().map_or(0, |(_, heard)| *heard)
    }
}

impl SessionActor {
    /// A message is on its way to the agent.
    pub(super) fn track_sent_message(&mut self, prompt: &Prompt, id: Uuid) {
        let command = prompt.expose().trim_start().starts_with('/').then(|| normalize_whitespace(prompt.expose()));
        // Where nothing is waited for, there is nothing to be in order with.
        if command.is_some() || !self.session.unconfirmed_commands.is_empty() {
            self.add_unconfirmed_command(UnconfirmedCommand { prompt_id: Some(id), command_text: command });
        }
    }

    /// The agent was told to use another model.
    pub(super) fn track_model_change(&mut self) {
        self.add_unconfirmed_command(UnconfirmedCommand {
            prompt_id: None,
            command_text: Some(MODEL_COMMAND.to_owned()),
        });
    }

    fn add_unconfirmed_command(&mut self, sent: UnconfirmedCommand) {
        self.unwritten_records.push(SessionRecord::CommandSent { command: sent.clone() });
        self.session.add_unconfirmed_command(sent);
    }

    /// Writes down what was sent.
    pub(super) async fn write_unwritten_records(&mut self) {
        for record in std::mem::take(&mut self.unwritten_records) {
            self.append_record(&record).await;
        }
    }

    /// Finds the commands that the host itself has sent, from a place of the record on, and says whose those turns are.
    pub(super) async fn confirm_own_commands(
        &self,
        chronicle: &Arc<dyn Transcript>,
        first: usize,
        ours: &mut [bool],
    ) -> ConfirmedCommands {
        let (mut claims, mut sent) = (ConfirmedCommands::default(), self.session.unconfirmed_commands.clone());
        let mut owner = first.checked_sub(1).and_then(|before| ours.get(before)).copied().unwrap_or_default();
        for (place, mark) in chronicle.turns().iter().enumerate().skip(first) {
            let heard = match mark.message_id {
                None => None,
                Some(id) if self.is_own_prompt(id) => {
                    owner = true;
                    sent.iter().position(|sent| sent.prompt_id == Some(id))
                }
                Some(_) => {
                    let found = find_unconfirmed_command(chronicle, place, &sent).await;
                    owner = found.is_some();
                    found
                }
            };
            if let Some(ours) = ours.get_mut(place) {
                *ours = owner;
            }
            if let Some(heard) = heard {
                // What was sent before it, and does not stand before it, was never written down.
                sent.drain(..=heard);
                claims.confirmed.push((place, self.session.unconfirmed_commands.len() - sent.len()));
            }
        }
        claims
    }
}

/// What was sent that a turn of the record is, by its words.
async fn find_unconfirmed_command(
    chronicle: &Arc<dyn Transcript>,
    place: usize,
    sent: &VecDeque<UnconfirmedCommand>,
) -> Option<usize> {
    if sent.iter().all(|sent| sent.command_text.is_none()) {
        return None;
    }
    let told = Arc::clone(chronicle).load_turns(place..place + 1).await.ok()?.pop()?;
    let TurnOrigin::User { text, .. } = told.origin else { return None };
    let said = normalize_whitespace(&text);
    let is_it =
        |command: &str| command == said || (command == MODEL_COMMAND && said.split(' ').next() == Some(MODEL_COMMAND));
    sent.iter().position(|sent| sent.command_text.as_deref().is_some_and(is_it))
}

/// A command, however it was spaced.
fn normalize_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
