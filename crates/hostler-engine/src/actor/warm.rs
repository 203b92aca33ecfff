//! Agents that are opened ahead: used once, and only if they are what would be opened now.

use std::path::PathBuf;
use std::sync::Arc;

use hostler_driver::{ConversationStart, Driver, OpenSpec};

use super::Actor;
use super::policy::Facts;
use crate::config;
use crate::gate::SessionGate;
use crate::port::Lease;
use crate::record::Record;
use crate::transcript::Failure;

/// What a driver is told to open, and the right that goes with it.
pub(super) struct Start {
    pub(super) spec: OpenSpec,
    pub(super) facts: Facts,
    pub(super) lease: Lease,
}

/// What an agent was opened with, as far as it makes a difference to the next message. Secrets that are minted for each
/// process are no part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpawnFacts {
    conversation: ConversationStart,
    working_directory: PathBuf,
    model: String,
    web_search: bool,
    effort: Option<String>,
    thinking_budget: Option<u32>,
    more_directories: Vec<PathBuf>,
    gateway: String,
    settings: String,
}

impl SpawnFacts {
    pub(super) fn of(spec: &OpenSpec, driver: &dyn Driver) -> Self {
        Self {
            conversation: spec.conversation.clone(),
            working_directory: spec.working_directory.clone(),
            model: spec.model.clone(),
            web_search: spec.web_search,
            effort: spec.effort.clone(),
            thinking_budget: spec.thinking_budget,
            more_directories: spec.more_directories.clone(),
            gateway: spec.endpoint.base_url.clone(),
            settings: driver.settings_fingerprint(&spec.working_directory),
        }
    }
}

impl Actor {
    /// What an agent is opened with now.
    pub(super) fn start_spec(&self, driver: &dyn Driver) -> Start {
        let likely = self.likely_model().unwrap_or_else(|| driver.describe().default_model);
        let facts = self.wanted_facts(&likely);
        let lease = self.host.gateway.lease(&self.session.uri, &self.session.chat_uri, &facts.model);
        let spec = OpenSpec {
            conversation: self.session.conversation_start(),
            working_directory: self.session.working_directory().unwrap_or_default(),
            model: lease.model.clone(),
            web_search: lease.web_search,
            permission_mode: config::agent_mode(self.wanted_mode()).to_owned(),
            effort: facts.effort.clone(),
            thinking_budget: facts.thinking_budget,
            more_directories: facts.more_directories.clone(),
            endpoint: lease.endpoint.clone(),
            gatekeeper: Arc::<SessionGate>::clone(&self.gate),
        };
        Start { spec, facts, lease }
    }

    /// Before there is a message: the model of what is being written, or of the last one.
    fn likely_model(&self) -> Option<String> {
        let chat = &self.session.chat;
        if chat.active_turn.is_some() {
            return None;
        }
        let said = chat.turns.last().map(|turn| &turn.message);
        chat.draft.as_ref().or(said)?.model.as_ref().map(|model| model.id.clone())
    }

    /// Whether the agent that was opened ahead is not what the message that was just accepted needs.
    pub(super) fn warm_is_stale(&self) -> bool {
        let Some(facts) = self.agent.warm_facts() else { return false };
        let Some(driver) = self.host.drivers.get(&self.session.session.provider) else { return true };
        SpawnFacts::of(&self.start_spec(&**driver).spec, &**driver) != *facts
            || self.agent.permission_mode() != Some(config::agent_mode(self.wanted_mode()))
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
            self.note(&Record::Resume { token }).await;
        }
        Ok(())
    }
}
