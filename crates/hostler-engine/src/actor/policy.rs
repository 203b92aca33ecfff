//! How an agent works: facts that are given at its start, told while it lives, or make it start anew.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostler_driver::{ConnectionError, PolicyChange};
use url::Url;

use super::agent::AgentNews;
use super::{Actor, Input};
use crate::clock::ClockExt as _;
use crate::config;
use crate::turn::{Input as TurnInput, Need};

/// How long an agent may take to be told something.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a process was started with, or told since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// By the id that clients use.
    pub(super) model: String,
    pub(super) effort: Option<String>,
    pub(super) thinking_budget: Option<u32>,
    pub(super) more_directories: Vec<PathBuf>,
}

impl Actor {
    /// How the agent is to work on the running turn.
    pub(super) fn wanted_facts(&self, default_model: &str) -> Facts {
        let chosen = self.session.chat.active_turn.as_ref().and_then(|turn| turn.message.model.as_ref());
        let effort = chosen.and_then(|model| model.config.as_ref()?.get(config::EFFORT)?.as_str());
        let directories = self.session.session.working_directories.iter().flatten().skip(1);
        Facts {
            model: chosen.map_or_else(|| self.model_or(default_model), |model| model.id.clone()),
            effort: effort.or_else(|| self.session.config(config::EFFORT)).and_then(config::effort),
            thinking_budget: self.session.session.config.as_ref().and_then(|now| config::thinking(&now.values)),
            more_directories: directories.filter_map(|uri| Url::parse(uri).ok()?.to_file_path().ok()).collect(),
        }
    }

    /// The session's own model, or this one.
    fn model_or(&self, default: &str) -> String {
        self.session.config(config::MODEL).unwrap_or(default).to_owned()
    }

    /// What the live agent needs before it can take the turn.
    pub(super) fn need(&self) -> Need {
        let Some((facts, lease)) = self.agent.facts() else { return Need::Nothing };
        if self.is_stale() || self.warm_is_stale() {
            return Need::Reopen;
        }
        // A message that names no model goes on with the one that is there.
        let wanted = self.wanted_facts(&facts.model);
        if wanted == *facts {
            return Need::Nothing;
        }
        let same_place = wanted.more_directories == facts.more_directories;
        let same_way = wanted.model == facts.model || self.host.gateway.relet(lease, &wanted.model).is_some();
        if same_place && same_way { Need::Adapt } else { Need::Reopen }
    }

    /// Tells the agent how to work from now on, one fact after the other.
    pub(super) fn adapt_agent(&mut self) {
        let Some((facts, lease)) = self.agent.facts() else { return };
        let wanted = self.wanted_facts(&facts.model);
        let mut changes = Vec::new();
        if wanted.model != facts.model
            && let Some(model) = self.host.gateway.relet(lease, &wanted.model)
        {
            changes.push(PolicyChange::Model(model));
        }
        if wanted.effort != facts.effort {
            changes.push(PolicyChange::Effort(wanted.effort.clone()));
        }
        if wanted.thinking_budget != facts.thinking_budget {
            changes.push(PolicyChange::ThinkingBudget(wanted.thinking_budget));
        }
        let Some((connection, attempt)) = self.agent.connection() else { return };
        if changes.iter().any(|change| matches!(change, PolicyChange::Model(_))) {
            self.model_sent();
        }
        let clock = Arc::clone(&self.host.clock);
        self.tasks.spawn(async move {
            let telling = async {
                for change in changes {
                    connection.apply(change).await?;
                }
                Ok(())
            };
            let told = clock.timeout(PATIENCE, telling).await;
            let result = told.unwrap_or_else(|| Err(ConnectionError::Refused("it did not answer".to_owned())));
            Input::Agent(AgentNews::Adapted { attempt, facts: wanted, result })
        });
    }

    /// The agent works as it should, or another one has to.
    pub(super) async fn adapted(&mut self, attempt: u64, facts: Facts, result: Result<(), ConnectionError>) {
        if !self.agent.is_live(attempt) {
            return;
        }
        match result {
            Ok(()) => {
                self.agent.took_facts(facts);
                self.drive(TurnInput::Adapted).await;
            }
            Err(error) => {
                tracing::info!(session = &*self.session.uri, %error, "the agent is started anew, since it takes no change");
                self.drive(TurnInput::NotAdapted).await;
            }
        }
    }
}
