//! The agent's settings: model, effort, thinking budget and directories.
//!
//! The settings that a message needs are compared with those of the process. Settings that a live agent accepts are
//! applied and awaited; for the others the agent is reopened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostler_driver::{AgentSettingChange, ConnectionError};
use url::Url;

use super::agent::AgentTaskEvent;
use super::{SessionActor, SessionInput};
use crate::clock::ClockExt as _;
use crate::config;
use crate::turn::{AgentPreparation, TurnInput};

/// Maximum time that an agent may take to apply a setting.
const SETTINGS_CHANGE_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings that a process was started with or has accepted since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentSettings {
    /// The id that clients use.
    pub(super) model: String,
    pub(super) effort: Option<String>,
    pub(super) thinking_budget: Option<u32>,
    pub(super) additional_directories: Vec<PathBuf>,
}

impl SessionActor {
    /// The settings that the running turn needs.
    pub(super) fn wanted_settings(&self, default_model: &str) -> AgentSettings {
        let chosen = self.session.chat.active_turn.as_ref().and_then(|turn| turn.message.model.as_ref());
        let effort = chosen.and_then(|model| model.config.as_ref()?.get(config::EFFORT)?.as_str());
        let directories = self.session.session.working_directories.iter().flatten().skip(1);
        AgentSettings {
            model: chosen.map_or_else(|| self.configured_model_or(default_model), |model| model.id.clone()),
            effort: effort.or_else(|| self.session.config_value(config::EFFORT)).and_then(config::parse_effort),
            thinking_budget: self.session.session.config.as_ref().and_then(|now| config::thinking_budget(&now.values)),
            additional_directories: directories.filter_map(|uri| Url::parse(uri).ok()?.to_file_path().ok()).collect(),
        }
    }

    /// The model of the session's configuration, or this one.
    fn configured_model_or(&self, default: &str) -> String {
        self.session.config_value(config::MODEL).unwrap_or(default).to_owned()
    }

    /// What the live agent needs before it can receive the turn's message.
    pub(super) fn agent_preparation(&self) -> AgentPreparation {
        let Some((facts, lease)) = self.agent.settings_and_lease() else { return AgentPreparation::None };
        if self.is_agent_stale() || self.is_prewarmed_stale() {
            return AgentPreparation::Reopen;
        }
        // A message without a model uses the current one.
        let wanted = self.wanted_settings(&facts.model);
        if wanted == *facts {
            return AgentPreparation::None;
        }
        let same_place = wanted.additional_directories == facts.additional_directories;
        let same_way = wanted.model == facts.model || self.host.gateway.switch_model(lease, &wanted.model).is_some();
        if same_place && same_way { AgentPreparation::ApplySettings } else { AgentPreparation::Reopen }
    }

    /// Applies the changed settings to the live agent, one after the other.
    pub(super) fn apply_settings(&mut self) {
        let Some((facts, lease)) = self.agent.settings_and_lease() else { return };
        let wanted = self.wanted_settings(&facts.model);
        let mut changes = Vec::new();
        if wanted.model != facts.model
            && let Some(model) = self.host.gateway.switch_model(lease, &wanted.model)
        {
            changes.push(AgentSettingChange::Model(model));
        }
        if wanted.effort != facts.effort {
            changes.push(AgentSettingChange::Effort(wanted.effort.clone()));
        }
        if wanted.thinking_budget != facts.thinking_budget {
            changes.push(AgentSettingChange::ThinkingBudget(wanted.thinking_budget));
        }
        let Some((connection, attempt)) = self.agent.connection() else { return };
        if changes.iter().any(|change| matches!(change, AgentSettingChange::Model(_))) {
            self.track_model_change();
        }
        let clock = Arc::clone(&self.host.clock);
        self.tasks.spawn(async move {
            let applying = async {
                for change in changes {
                    connection.apply_setting(change).await?;
                }
                Ok(())
            };
            let applied = clock.timeout(SETTINGS_CHANGE_TIMEOUT, applying).await;
            let result =
                applied.unwrap_or_else(|| Err(ConnectionError::Refused("the agent did not answer".to_owned())));
            SessionInput::AgentTask(AgentTaskEvent::SettingsApplied { attempt, settings: wanted, result })
        });
    }

    /// Continues with the turn if the settings were applied, or reopens the agent.
    pub(super) async fn handle_settings_applied(
        &mut self,
        attempt: u64,
        facts: AgentSettings,
        result: Result<(), ConnectionError>,
    ) {
        if !self.agent.is_live(attempt) {
            return;
        }
        match result {
            Ok(()) => {
                self.agent.set_settings(facts);
                self.drive(TurnInput::SettingsApplied).await;
            }
            Err(error) => {
                tracing::info!(session = &*self.session.uri, %error, "restarting the agent, because it rejected a changed setting");
                self.drive(TurnInput::SettingsRefused).await;
            }
        }
    }
}
