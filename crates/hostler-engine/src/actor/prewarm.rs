//! Prewarmed agents: used once, and only if an agent that is opened now would be the same.

use std::path::PathBuf;

use hostler_driver::{ConversationStart, Driver};

use super::SessionActor;
use crate::action_mapper::TurnErrorDetails;

/// The parts of a prewarmed agent that cannot be changed while it runs. Secrets that are created for each process are
/// not included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PrewarmSpec {
    conversation: ConversationStart,
    working_directory: PathBuf,
    /// A fingerprint of its configuration files.
    settings_fingerprint: String,
}

impl SessionActor {
    pub(super) fn prewarm_spec(&self, driver: &dyn Driver) -> PrewarmSpec {
        let working_directory = self.session.working_directory().unwrap_or_default();
        let settings = driver.settings_fingerprint(&working_directory);
        PrewarmSpec {
            conversation: self.session.conversation_start(),
            working_directory,
            settings_fingerprint: settings,
        }
    }

    /// The model of a message without one: the model of the draft or of the last message, so that it makes no
    /// difference whether the agent was closed in between.
    pub(super) fn inherited_model_or(&self, default: &str) -> String {
        let chat = &self.session.chat;
        let written = chat.draft.as_ref().filter(|_| chat.active_turn.is_none());
        let said = chat.turns.iter().rev().map(|turn| &turn.message);
        let model = written.into_iter().chain(said).find_map(|message| message.model.as_ref());
        let earlier = || self.session.turn_storage.evicted.last_model.clone();
        model.map(|model| model.id.clone()).or_else(earlier).unwrap_or_else(|| default.to_owned())
    }

    /// Whether the agent is prewarmed and differs from one that would be opened now.
    pub(super) fn is_prewarmed_stale(&self) -> bool {
        let Some(facts) = self.agent.prewarm_spec() else { return false };
        let driver = self.host.drivers.get(&self.session.session.provider);
        driver.is_none_or(|driver| self.prewarm_spec(&**driver) != *facts)
    }

    /// Announces the session at the first message for a prewarmed agent.
    pub(super) async fn use_prewarmed_agent(&mut self) -> Result<(), TurnErrorDetails> {
        if !self.agent.clear_prewarm() {
            return Ok(());
        }
        let announced = self.announce_session().await;
        announced.map_err(|error| TurnErrorDetails {
            error_type: "store".to_owned(),
            message: error.to_string(),
            stderr: None,
        })?;
        // The resume token that the agent sent before the session was stored.
        if let Some(token) = self.session.resume_token.clone() {
            self.store_resume_token(token).await;
        }
        Ok(())
    }
}
