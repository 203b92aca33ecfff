//! Agents that are opened ahead: used once, and only if they are what would be opened now.

use std::path::PathBuf;

use hostler_driver::{ConversationStart, Driver};

use super::Actor;
use crate::transcript::Failure;

/// What an agent was opened with that it cannot be told while it lives. Secrets that are minted for each process are no
/// part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpawnFacts {
    conversation: ConversationStart,
    working_directory: PathBuf,
    /// A fingerprint of the files that it is configured by.
    settings: String,
}

impl Actor {
    pub(super) fn spawn_facts(&self, driver: &dyn Driver) -> SpawnFacts {
        let working_directory = self.session.working_directory().unwrap_or_default();
        let settings = driver.settings_fingerprint(&working_directory);
        SpawnFacts { conversation: self.session.conversation_start(), working_directory, settings }
    }

    /// The model of a message that names none: the one of the messages before, so that it makes no difference whether the
    /// agent was closed in between. Before there is a message, it is the one of what is being written.
    pub(super) fn usual_model(&self, default: &str) -> String {
        let chat = &self.session.chat;
        let written = chat.draft.as_ref().filter(|_| chat.active_turn.is_none());
        let said = chat.turns.iter().rev().map(|turn| &turn.message);
        let model = written.into_iter().chain(said).find_map(|message| message.model.as_ref());
        let earlier = || self.session.kept.past.model.clone();
        model.map(|model| model.id.clone()).or_else(earlier).unwrap_or_else(|| default.to_owned())
    }

    /// Whether the agent was opened ahead and is not what would be opened now, whatever it is told.
    pub(super) fn warm_is_stale(&self) -> bool {
        let Some(facts) = self.agent.warm() else { return false };
        let driver = self.host.drivers.get(&self.session.session.provider);
        driver.is_none_or(|driver| self.spawn_facts(&**driver) != *facts)
    }

    /// The first message for an agent that was opened ahead: now its session is announced.
    pub(super) async fn use_warm(&mut self) -> Result<(), Failure> {
        if !self.agent.no_longer_warm() {
            return Ok(());
        }
        let announced = self.announce().await;
        announced.map_err(|error| Failure {
            error_type: "store".to_owned(),
            message: error.to_string(),
            stderr: None,
        })?;
        // What the agent said before the session was stored.
        if let Some(token) = self.session.token.clone() {
            self.note_token(token).await;
        }
        Ok(())
    }
}
