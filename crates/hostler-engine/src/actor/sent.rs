//! Commands of ours in the agent's record.
//!
//! A message is known by its id, wherever the agent keeps it. Not so a command: one build gives commands ids of its own, and
//! another writes a change of the model as one. So the host remembers what it has sent, in order, until it has heard of it in
//! the record: a command that nobody here has sent was given elsewhere.

use std::collections::VecDeque;
use std::sync::Arc;

use hostler_driver::{Chronicle, Prompt, Said};
use uuid::Uuid;

use super::Actor;
use crate::record::{Record, Sent};

/// How a change of the model is written down.
const MODEL: &str = "/model";

/// Which turns of a record are ours, beyond their ids.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// How much of what was sent is heard of at a place of the record.
    heard: Vec<(usize, usize)>,
}

impl Claims {
    /// How much of what was sent is heard of before a place.
    pub(super) fn before(&self, end: usize) -> usize {
        self.heard.iter().take_while(|(place, _)| *place < end).last().map_or(0, |(_, heard)| *heard)
    }
}

impl Actor {
    /// A message is on its way to the agent.
    pub(super) fn message_sent(&mut self, prompt: &Prompt, id: Uuid) {
        let command = prompt.expose().trim_start().starts_with('/').then(|| words(prompt.expose()));
        // Where nothing is waited for, there is nothing to be in order with.
        if command.is_some() || !self.session.sent.is_empty() {
            self.remember_sent(Sent { id: Some(id), command });
        }
    }

    /// The agent was told to use another model.
    pub(super) fn model_sent(&mut self) {
        self.remember_sent(Sent { id: None, command: Some(MODEL.to_owned()) });
    }

    fn remember_sent(&mut self, sent: Sent) {
        self.unwritten.push(Record::Sent { sent: sent.clone() });
        self.session.remember_sent(sent);
    }

    /// Writes down what was sent.
    pub(super) async fn write_sent(&mut self) {
        for record in std::mem::take(&mut self.unwritten) {
            self.note(&record).await;
        }
    }

    /// Finds the commands that the host itself has sent, from a place of the record on, and says whose those turns are.
    pub(super) async fn claim(&self, chronicle: &Arc<dyn Chronicle>, first: usize, ours: &mut [bool]) -> Claims {
        let (mut claims, mut sent) = (Claims::default(), self.session.sent.clone());
        let mut owner = first.checked_sub(1).and_then(|before| ours.get(before)).copied().unwrap_or_default();
        for (place, mark) in chronicle.turns().iter().enumerate().skip(first) {
            let heard = match mark.message {
                None => None,
                Some(id) if self.is_ours(id) => {
                    owner = true;
                    sent.iter().position(|sent| sent.id == Some(id))
                }
                Some(_) => {
                    let found = find(chronicle, place, &sent).await;
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
                claims.heard.push((place, self.session.sent.len() - sent.len()));
            }
        }
        claims
    }
}

/// What was sent that a turn of the record is, by its words.
async fn find(chronicle: &Arc<dyn Chronicle>, place: usize, sent: &VecDeque<Sent>) -> Option<usize> {
    if sent.iter().all(|sent| sent.command.is_none()) {
        return None;
    }
    let told = Arc::clone(chronicle).tell(place..place + 1).await.ok()?.pop()?;
    let Said::Person { text, .. } = told.said else { return None };
    let said = words(&text);
    let is_it = |command: &str| command == said || (command == MODEL && said.split(' ').next() == Some(MODEL));
    sent.iter().position(|sent| sent.command.as_deref().is_some_and(is_it))
}

/// A command, however it was spaced.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
