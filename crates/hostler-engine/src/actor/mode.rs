//! The permission mode of a session that lives. The gate is as strict as the old and the new mode together until the
//! agent has taken the new one; only then does the state say so. An agent that does not take it is ended. Wishes that come
//! meanwhile wait, count in the gate like the first one, and are carried out in their order: the last one wins.
//!
//! The session follows an agent that changes its mode on its own (`EnterPlanMode`): a stricter mode holds at once, is stored
//! and announced. A mode that is looser than what a person chose is taken back from the agent.

use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::SessionConfigChangedAction;
use ahp_types::common::JsonObject;
use hostler_driver::{ConnectionError, PolicyChange};
use hostler_rules::Mode;

use super::agent::AgentNews;
use super::change::Change;
use super::{Actor, Input};
use crate::clock::ClockExt as _;
use crate::config;
use crate::desk::Refusal;
use crate::session::Dispatch;
use crate::transcript::Failure;
use crate::turn::Input as TurnInput;

/// How many wishes for a mode may wait for the agent.
const MOST_WISHES: usize = 16;

/// How long an agent may take to take a mode.
const PATIENCE: Duration = Duration::from_secs(10);

impl Actor {
    /// The mode that the session is configured for.
    pub(super) fn wanted_mode(&self) -> Mode {
        let name = self.session.config(config::PERMISSION_MODE).unwrap_or(config::DEFAULT_MODE);
        config::mode(name, self.host.permissions.allow_bypass)
    }

    /// The configuration as it will be when the agent has taken all wishes that wait.
    pub(super) fn newest_values(&self) -> JsonObject {
        let mut values = self.session.session.config.as_ref().map(|config| config.values.clone()).unwrap_or_default();
        for (dispatch, _) in &self.changing {
            if let StateAction::SessionConfigChanged(change) = &dispatch.action {
                values.extend(change.config.clone());
            }
        }
        values
    }

    /// A client wants the session to be configured otherwise.
    pub(super) async fn config_changed(
        &mut self,
        dispatch: &Dispatch,
        action: &SessionConfigChangedAction,
    ) -> Result<(), Refusal> {
        let offer = self.host.offer(None);
        let now = self.newest_values();
        let whole = config::change(&offer, &now, &action.config, action.replace.unwrap_or(false))?;
        let wanted = whole.get(config::PERMISSION_MODE).and_then(serde_json::Value::as_str);
        let mode = wanted.map(|name| config::mode(name, offer.bypass));
        let change = SessionConfigChangedAction { config: whole, replace: action.replace };
        let dispatch = Dispatch { action: StateAction::SessionConfigChanged(change), ..dispatch.clone() };
        let Some(mode) = mode else {
            return self.accept_simple(&dispatch).await;
        };
        if self.changing.len() >= MOST_WISHES {
            return Err("the permission mode is being changed again and again; wait for the agent".to_owned());
        }
        self.gate.begin_change(mode);
        self.changing.push_back((Box::new(dispatch), mode));
        if self.changing.len() == 1 {
            self.change_mode().await;
        }
        Ok(())
    }

    /// Carries out the wishes for a mode in their order, until the agent has to be waited for.
    async fn change_mode(&mut self) {
        while let Some(word) = self.changing.front().map(|(_, mode)| config::agent_mode(*mode)) {
            if self.agent.permission_mode().is_some_and(|known| known != word) && self.tell_agent(word) {
                return;
            }
            self.accept_mode().await;
        }
    }

    /// The first wish comes about, if it can be stored.
    async fn accept_mode(&mut self) {
        let Some((dispatch, _)) = self.changing.pop_front() else { return };
        match self.accept_simple(&dispatch).await {
            Ok(()) => {
                self.gate.finish_change();
                self.review().await;
            }
            Err(reason) => {
                self.gate.abandon_change();
                self.host.reject(*dispatch, reason).await;
            }
        }
    }

    /// Brings an agent that was opened under another mode to the session's.
    pub(super) fn tell_mode(&mut self) {
        let word = config::agent_mode(self.wanted_mode());
        if self.agent.permission_mode().is_some_and(|known| known != word) {
            self.tell_agent(word);
        }
    }

    /// `false` if there is no agent to be told.
    fn tell_agent(&mut self, word: &'static str) -> bool {
        let Some((connection, attempt)) = self.agent.connection() else { return false };
        let clock = Arc::clone(&self.host.clock);
        self.modes_in_flight += 1;
        self.tasks.spawn(async move {
            let applied = connection.apply(PolicyChange::PermissionMode(word.to_owned()));
            let told = clock.timeout(PATIENCE, applied).await;
            let result = told.unwrap_or_else(|| Err(ConnectionError::Refused("it did not answer".to_owned())));
            Input::Agent(AgentNews::ModeTaken { attempt, word, result })
        });
        true
    }

    /// The agent has taken a mode, or it has not.
    pub(super) async fn mode_taken(&mut self, attempt: u64, word: &'static str, result: Result<(), ConnectionError>) {
        let meant = self.agent.is_live(attempt);
        self.modes_in_flight = self.modes_in_flight.saturating_sub(1);
        match result {
            Ok(()) if meant => self.agent.took_mode(word),
            Err(error) if meant => return self.distrust(&error).await,
            // It is gone; the next one is opened under the mode that holds then.
            _ => {}
        }
        // Another change may have been told before this one.
        if self.changing.front().is_some_and(|(_, mode)| config::agent_mode(*mode) == word) {
            self.accept_mode().await;
            self.change_mode().await;
            if self.changing.is_empty() {
                // If it could not be stored, the agent works under a mode that the session does not have.
                self.tell_mode();
            }
        }
        if self.modes_in_flight == 0
            && let Some(word) = self.reported_mode.take().filter(|_| meant)
        {
            self.follow_mode(&word).await;
        }
    }

    /// The agent says which mode it works under.
    pub(super) async fn mode_reported(&mut self, word: String) {
        // It may have been said before the agent took the mode that it is being set to.
        if self.modes_in_flight > 0 {
            self.reported_mode = Some(word);
        } else {
            self.follow_mode(&word).await;
        }
    }

    async fn follow_mode(&mut self, word: &str) {
        self.agent.took_mode(word);
        let now = self.wanted_mode();
        if config::agent_mode(now) == word {
            return;
        }
        match config::followed(word, self.gate.chosen_mode()) {
            Some((name, mode)) => {
                self.gate.follow(mode);
                let changed = SessionConfigChangedAction {
                    config: config::said_by_mode(name, &self.newest_values()),
                    replace: None,
                };
                let change = Change::default().session(StateAction::SessionConfigChanged(changed));
                if let Err(error) = self.commit(change).await {
                    tracing::error!(session = &*self.session.uri, %error, "failed to store the agent's permission mode");
                    self.gate.follow(now);
                    return self.tell_mode();
                }
                self.project().await;
                self.review().await;
            }
            None => {
                tracing::warn!(session = &*self.session.uri, "the agent loosened its permission mode; it is set back");
                self.tell_mode();
            }
        }
    }

    async fn distrust(&mut self, error: &ConnectionError) {
        tracing::error!(session = &*self.session.uri, %error, "the agent did not take the permission mode; it is ended");
        self.reported_mode = None;
        while let Some((dispatch, _)) = self.changing.pop_front() {
            self.gate.abandon_change();
            let reason = format!("the agent did not take the permission mode and was ended: {error}");
            self.host.reject(*dispatch, reason).await;
        }
        let failure = Failure {
            error_type: "permissionMode".to_owned(),
            message: "The agent did not take the permission mode, so it was ended. Send the message again to go on."
                .to_owned(),
            stderr: None,
        };
        self.drive(TurnInput::Distrusted(failure)).await;
    }
}
