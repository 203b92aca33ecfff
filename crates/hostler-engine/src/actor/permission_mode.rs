//! Changes of the permission mode in a live session. Until the agent confirms a new mode, the gate is as strict as the
//! old and the new mode together; then the state changes. An agent that does not accept the mode is closed. Further
//! changes wait, count in the gate like the first one, and are carried out in order: the last one wins.
//!
//! The session follows an agent that changes its mode on its own (`EnterPlanMode`): a stricter mode applies at once, is
//! stored and published. If the mode is looser than a person's choice, the agent is set back.

use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::SessionConfigChangedAction;
use ahp_types::common::JsonObject;
use hostler_driver::{AgentSettingChange, ConnectionError};
use hostler_rules::PermissionMode;

use super::agent::AgentTaskEvent;
use super::session_change::SessionChange;
use super::{SessionActor, SessionInput};
use crate::action_mapper::TurnErrorDetails;
use crate::clock::ClockExt as _;
use crate::config;
use crate::rejection::ActionRejection;
use crate::session::Dispatch;
use crate::turn::TurnInput;

/// Maximum number of mode changes that wait for the agent.
const MAX_PENDING_MODE_CHANGES: usize = 16;

/// Maximum time that an agent may take to accept a mode.
const MODE_CHANGE_TIMEOUT: Duration = Duration::from_secs(10);

impl SessionActor {
    /// The mode of the session's configuration.
    pub(super) fn configured_mode(&self) -> PermissionMode {
        let name = self.session.config_value(config::PERMISSION_MODE).unwrap_or(config::DEFAULT_MODE);
        config::parse_mode(name, self.host.permissions.allow_bypass)
    }

    /// The configuration after all pending changes.
    pub(super) fn pending_config_values(&self) -> JsonObject {
        let mut values = self.session.session.config.as_ref().map(|config| config.values.clone()).unwrap_or_default();
        for (dispatch, _) in &self.pending_mode_changes {
            if let StateAction::SessionConfigChanged(change) = &dispatch.action {
                values.extend(change.config.clone());
            }
        }
        values
    }

    /// Handles a client's change of the session's configuration.
    pub(super) async fn handle_config_changed(
        &mut self,
        dispatch: &Dispatch,
        action: &SessionConfigChangedAction,
    ) -> Result<(), ActionRejection> {
        let offer = self.host.config_choices(None);
        let now = self.pending_config_values();
        let whole = config::resolve_change(&offer, &now, &action.config, action.replace.unwrap_or(false))?;
        let wanted = whole.get(config::PERMISSION_MODE).and_then(serde_json::Value::as_str);
        let mode = wanted.map(|name| config::parse_mode(name, offer.allow_bypass));
        let change = SessionConfigChangedAction { config: whole, replace: action.replace };
        let dispatch = Dispatch { action: StateAction::SessionConfigChanged(change), ..dispatch.clone() };
        let Some(mode) = mode else {
            return self.accept_plain_action(&dispatch).await;
        };
        if self.pending_mode_changes.len() >= MAX_PENDING_MODE_CHANGES {
            return Err(ActionRejection::TooManyModeChanges);
        }
        self.gate.begin_mode_change(mode);
        self.pending_mode_changes.push_back((Box::new(dispatch), mode));
        if self.pending_mode_changes.len() == 1 {
            self.apply_pending_modes().await;
        }
        Ok(())
    }

    /// Carries out pending mode changes in order, until one has to wait for the agent.
    async fn apply_pending_modes(&mut self) {
        while let Some(mode_name) = self.pending_mode_changes.front().map(|(_, mode)| config::agent_mode_name(*mode)) {
            if self.agent.permission_mode().is_some_and(|known| known != mode_name)
                && self.send_mode_to_agent(mode_name)
            {
                return;
            }
            self.accept_mode_change().await;
        }
    }

    /// Accepts the first pending change, if it can be stored.
    async fn accept_mode_change(&mut self) {
        let Some((dispatch, _)) = self.pending_mode_changes.pop_front() else { return };
        match self.accept_plain_action(&dispatch).await {
            Ok(()) => {
                self.gate.finish_mode_change();
                self.reevaluate_pending_calls().await;
            }
            Err(rejection) => {
                self.gate.abandon_mode_change();
                self.host.reject(*dispatch, rejection).await;
            }
        }
    }

    /// Sets an agent that was opened under another mode to the session's mode.
    pub(super) fn sync_agent_mode(&mut self) {
        let mode_name = config::agent_mode_name(self.configured_mode());
        if self.agent.permission_mode().is_some_and(|known| known != mode_name) {
            self.send_mode_to_agent(mode_name);
        }
    }

    /// Sends a mode to the agent. `false` if there is no agent.
    fn send_mode_to_agent(&mut self, mode_name: &'static str) -> bool {
        let Some((connection, attempt)) = self.agent.connection() else { return false };
        let clock = Arc::clone(&self.host.clock);
        self.modes_in_flight += 1;
        self.tasks.spawn(async move {
            let applied = connection.apply_setting(AgentSettingChange::PermissionMode(mode_name.to_owned()));
            let answered = clock.timeout(MODE_CHANGE_TIMEOUT, applied).await;
            let result =
                answered.unwrap_or_else(|| Err(ConnectionError::Refused("the agent did not answer".to_owned())));
            SessionInput::AgentTask(AgentTaskEvent::PermissionModeApplied { attempt, mode: mode_name, result })
        });
        true
    }

    /// Handles the agent's answer to a mode change.
    pub(super) async fn handle_mode_applied(
        &mut self,
        attempt: u64,
        mode_name: &'static str,
        result: Result<(), ConnectionError>,
    ) {
        let meant = self.agent.is_live(attempt);
        self.modes_in_flight = self.modes_in_flight.saturating_sub(1);
        match result {
            Ok(()) if meant => self.agent.set_permission_mode(mode_name),
            Err(error) if meant => return self.close_distrusted_agent(&error).await,
            // The agent has ended; the next one is opened under the mode that applies then.
            _ => {}
        }
        // An earlier change may have been sent with another mode.
        if self.pending_mode_changes.front().is_some_and(|(_, mode)| config::agent_mode_name(*mode) == mode_name) {
            self.accept_mode_change().await;
            self.apply_pending_modes().await;
            if self.pending_mode_changes.is_empty() {
                // If it could not be stored, the agent's mode differs from the session's.
                self.sync_agent_mode();
            }
        }
        if self.modes_in_flight == 0
            && let Some(mode_name) = self.reported_mode.take().filter(|_| meant)
        {
            self.follow_agent_mode(&mode_name).await;
        }
    }

    /// Handles a report of the agent about its mode.
    pub(super) async fn handle_mode_reported(&mut self, mode_name: String) {
        // The report may be older than the mode change that is in progress.
        if self.modes_in_flight > 0 {
            self.reported_mode = Some(mode_name);
        } else {
            self.follow_agent_mode(&mode_name).await;
        }
    }

    async fn follow_agent_mode(&mut self, mode_name: &str) {
        self.agent.set_permission_mode(mode_name);
        let now = self.configured_mode();
        if config::agent_mode_name(now) == mode_name {
            return;
        }
        match config::mode_after_agent_change(mode_name, self.gate.chosen_mode()) {
            Some((name, mode)) => {
                self.gate.follow_agent_mode(mode);
                let changed = SessionConfigChangedAction {
                    config: config::values_for_mode(name, &self.pending_config_values()),
                    replace: None,
                };
                let change = SessionChange::default().session_action(StateAction::SessionConfigChanged(changed));
                if let Err(error) = self.commit(change).await {
                    tracing::error!(session = &*self.session.uri, %error, "failed to store the agent's permission mode");
                    self.gate.follow_agent_mode(now);
                    return self.sync_agent_mode();
                }
                self.update_summaries().await;
                self.reevaluate_pending_calls().await;
            }
            None => {
                tracing::warn!(session = &*self.session.uri, "the agent loosened its permission mode; resetting it");
                self.sync_agent_mode();
            }
        }
    }

    async fn close_distrusted_agent(&mut self, error: &ConnectionError) {
        tracing::error!(session = &*self.session.uri, %error, "the agent did not apply the permission mode; stopping it");
        self.reported_mode = None;
        while let Some((dispatch, _)) = self.pending_mode_changes.pop_front() {
            self.gate.abandon_mode_change();
            self.host.reject(*dispatch, ActionRejection::ModeNotApplied(error.clone())).await;
        }
        let failure = TurnErrorDetails {
            error_type: "permissionMode".to_owned(),
            message:
                "The agent did not apply the permission mode, so it was stopped. Send the message again to continue."
                    .to_owned(),
            stderr: None,
        };
        self.drive(TurnInput::AbortAndClose(failure)).await;
    }
}
