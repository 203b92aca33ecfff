//! Recognizes this host's own commands in the agent's transcript.
//!
//! A message is recognized by its id. A command may appear in the transcript under an id that this host did not create:
//! one build gives commands ids of its own, another writes a model change as a command. It counts as ours if it has the
//! text of a command that was sent and is not confirmed yet. Sent commands are stored in order until the transcript
//! contains them.

use std::collections::VecDeque;
use std::sync::Arc;

use hostler_driver::{Prompt, Transcript, TurnOrigin};
use uuid::Uuid;

use super::SessionActor;
use super::context::SessionContext;
use crate::sessions::record::{SessionRecord, UnconfirmedCommand};

/// The command by which a model change appears in the transcript.
const MODEL_COMMAND: &str = "/model";

/// The turns of a transcript that are this host's commands.
#[derive(Debug, Default)]
pub(super) struct ConfirmedCommands {
    /// Index of a turn, and the number of sent commands that are confirmed up to it.
    confirmed: Vec<(usize, usize)>,
}

impl ConfirmedCommands {
    /// Number of sent commands that are confirmed before an index.
    pub(super) fn confirmed_before(&self, end: usize) -> usize {
        self.confirmed
            .iter()
            .take_while(|(place, _)| *place < end)
            .last()
            .map_or(0, |(_, confirmed_index)| *confirmed_index)
    }
}

impl SessionContext {
    /// Tracks a message that is being sent to the agent.
    pub(super) fn track_sent_message(&mut self, prompt: &Prompt, id: Uuid) {
        let command = prompt.expose().trim_start().starts_with('/').then(|| normalize_whitespace(prompt.expose()));
        // A message matters only as a position after unconfirmed commands.
        if command.is_some() || !self.session.unconfirmed_commands.is_empty() {
            self.add_unconfirmed_command(UnconfirmedCommand { prompt_id: Some(id), command_text: command });
        }
    }

    /// Tracks a model change that was sent to the agent.
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

    /// Writes the host records of sent commands.
    pub(super) async fn write_unwritten_records(&mut self) {
        for record in std::mem::take(&mut self.unwritten_records) {
            self.append_record(&record).await;
        }
    }
}

impl SessionActor {
    /// Finds this host's commands in the transcript from an index on, and marks the owners of these turns.
    pub(super) async fn confirm_own_commands(
        &self,
        transcript: &Arc<dyn Transcript>,
        first: usize,
        ours: &mut [bool],
    ) -> ConfirmedCommands {
        let (mut claims, mut sent) = (ConfirmedCommands::default(), self.ctx.session.unconfirmed_commands.clone());
        let mut owner = first.checked_sub(1).and_then(|before| ours.get(before)).copied().unwrap_or_default();
        for (place, mark) in transcript.turns().iter().enumerate().skip(first) {
            let confirmed_index = match mark.message_id {
                None => None,
                Some(id) if self.is_own_prompt(id) => {
                    owner = true;
                    sent.iter().position(|sent| sent.prompt_id == Some(id))
                }
                Some(_) => {
                    let found = find_unconfirmed_command(transcript, place, &sent).await;
                    owner = found.is_some();
                    found
                }
            };
            if let Some(ours) = ours.get_mut(place) {
                *ours = owner;
            }
            if let Some(confirmed_index) = confirmed_index {
                // Earlier commands that the transcript lacks were never written.
                sent.drain(..=confirmed_index);
                claims.confirmed.push((place, self.ctx.session.unconfirmed_commands.len() - sent.len()));
            }
        }
        claims
    }
}

/// The unconfirmed command with the text of a turn in the transcript.
async fn find_unconfirmed_command(
    transcript: &Arc<dyn Transcript>,
    place: usize,
    sent: &VecDeque<UnconfirmedCommand>,
) -> Option<usize> {
    if sent.iter().all(|sent| sent.command_text.is_none()) {
        return None;
    }
    let loaded = Arc::clone(transcript).load_turns(place..place + 1).await.ok()?.pop()?;
    let TurnOrigin::User { text, .. } = loaded.origin else { return None };
    let said = normalize_whitespace(&text);
    let is_it =
        |command: &str| command == said || (command == MODEL_COMMAND && said.split(' ').next() == Some(MODEL_COMMAND));
    sent.iter().position(|sent| sent.command_text.as_deref().is_some_and(is_it))
}

/// A command with normalized whitespace.
fn normalize_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
