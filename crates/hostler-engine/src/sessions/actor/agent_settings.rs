//! The agent's settings: model, effort, thinking budget and directories; and its permission mode.
//!
//! The settings that a message needs are compared with those of the process. Settings that a live agent accepts are
//! applied and awaited; for the others the agent is reopened. The effects of permission mode changes are carried out
//! here.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::SessionConfigChangedAction;
use ahp_types::common::JsonObject;
use hostler_driver::{AgentSettingChange, ConnectionError};
use hostler_rules::PermissionMode;
use url::Url;

use super::agent::{AgentEvent, AgentTaskEvent, SessionAgent};
use super::context::SessionContext;
use super::effect::SessionEffect;
use super::input::SessionInput;
use super::permission_mode::{ModeContext, ModeEffect, ModeEvent};
use super::session_change::SessionChange;
use crate::clock::ClockExt as _;
use crate::sessions::action_mapper::TurnErrorDetails;
use crate::sessions::config;
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::{Dispatch, Session};
use crate::sessions::turn::{AgentPreparation, TurnInput};

/// Maximum time that an agent may take to apply a setting.
const SETTINGS_CHANGE_TIMEOUT: Duration = Duration::from_secs(10);

const MODE_NOT_APPLIED: &str =
    "The agent did not apply the permission mode, so it was stopped. Send the message again to continue.";

/// The settings that a process was started with or has accepted since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentSettings {
    /// The id that clients use.
    pub(super) model: String,
    pub(super) effort: Option<String>,
    pub(super) thinking_budget: Option<u32>,
    pub(super) additional_directories: Vec<PathBuf>,
}

impl AgentSettings {
    /// The settings that the running turn needs. A message without a model uses `default_model`.
    pub(super) fn for_turn(session: &Session, default_model: &str) -> Self {
        let chosen = session.chat.active_turn.as_ref().and_then(|turn| turn.message.model.as_ref());
        let configured = || session.config_value(config::MODEL).unwrap_or(default_model).to_owned();
        let effort = chosen.and_then(|model| model.config.as_ref()?.get(config::EFFORT)?.as_str());
        let directories = session.session.working_directories.iter().flatten().skip(1);
        Self {
            model: chosen.map_or_else(configured, |model| model.id.clone()),
            effort: effort.or_else(|| session.config_value(config::EFFORT)).and_then(config::parse_effort),
            thinking_budget: session.session.config.as_ref().and_then(|now| config::thinking_budget(&now.values)),
            additional_directories: directories.filter_map(|uri| Url::parse(uri).ok()?.to_file_path().ok()).collect(),
        }
    }

    /// The settings for an agent that is opened now. A message without a model uses the model of the draft or of the
    /// last message, so that it makes no difference whether the agent was closed in between.
    pub(super) fn for_new_agent(session: &Session, default_model: &str) -> Self {
        let chat = &session.chat;
        let draft = chat.draft.as_ref().filter(|_| chat.active_turn.is_none());
        let messages = chat.turns.iter().rev().map(|turn| &turn.message);
        let model = draft.into_iter().chain(messages).find_map(|message| message.model.as_ref());
        let model = model.map(|model| &model.id).or(session.turn_storage.evicted.last_model.as_ref());
        Self::for_turn(session, model.map_or(default_model, String::as_str))
    }
}

impl SessionAgent {
    /// The input for an accepted message: a turn of the agent, or a local turn.
    pub(super) fn accepted_input(&self, turn: String, text: &str, ctx: &SessionContext) -> TurnInput<TurnErrorDetails> {
        match ctx.host.local_command(text) {
            Some(_) => TurnInput::AcceptedLocal(turn),
            None => TurnInput::Accepted { turn, preparation: self.preparation(ctx) },
        }
    }

    /// What the live agent needs before it can receive the turn's message.
    pub(super) fn preparation(&self, ctx: &SessionContext) -> AgentPreparation {
        let Some((facts, lease)) = self.settings_and_lease() else { return AgentPreparation::None };
        if self.is_stale || self.is_prewarmed_stale(ctx) {
            return AgentPreparation::Reopen;
        }
        // A message without a model uses the current one.
        let wanted = AgentSettings::for_turn(&ctx.session, &facts.model);
        if wanted == *facts {
            return AgentPreparation::None;
        }
        let same_place = wanted.additional_directories == facts.additional_directories;
        let same_way =
            wanted.model == facts.model || ctx.host.agents.gateway().switch_model(lease, &wanted.model).is_some();
        if same_place && same_way { AgentPreparation::ApplySettings } else { AgentPreparation::Reopen }
    }

    /// Applies the changed settings to the live agent, one after the other.
    pub(super) fn apply_settings(&self, ctx: &mut SessionContext) {
        let Some((facts, lease)) = self.settings_and_lease() else { return };
        let wanted = AgentSettings::for_turn(&ctx.session, &facts.model);
        let mut changes = Vec::new();
        if wanted.model != facts.model
            && let Some(model) = ctx.host.agents.gateway().switch_model(lease, &wanted.model)
        {
            changes.push(AgentSettingChange::Model(model));
        }
        if wanted.effort != facts.effort {
            changes.push(AgentSettingChange::Effort(wanted.effort.clone()));
        }
        if wanted.thinking_budget != facts.thinking_budget {
            changes.push(AgentSettingChange::ThinkingBudget(wanted.thinking_budget));
        }
        let Some((connection, attempt)) = self.connection() else { return };
        // One build writes a model change as a command.
        ctx.own_commands += changes.iter().filter(|change| matches!(change, AgentSettingChange::Model(_))).count();
        let clock = Arc::clone(&ctx.host.clock);
        ctx.tasks.spawn(async move {
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
    pub(super) fn finish_applying_settings(
        &mut self,
        settings: AgentSettings,
        result: Result<(), ConnectionError>,
        ctx: &SessionContext,
    ) -> TurnInput<TurnErrorDetails> {
        match result {
            Ok(()) => {
                self.set_settings(settings);
                TurnInput::SettingsApplied
            }
            Err(error) => {
                tracing::info!(session = &*ctx.session.uri, %error, "restarting the agent, because it rejected a changed setting");
                TurnInput::SettingsRefused
            }
        }
    }

    // ── Permission mode ───────────────────────────────────────────────────────────────────────────────────────────

    /// The configuration after all pending changes.
    pub(super) fn pending_config_values(&self, session: &Session) -> JsonObject {
        let mut values = session.session.config.as_ref().map(|config| config.values.clone()).unwrap_or_default();
        for dispatch in self.mode_changes.pending() {
            if let StateAction::SessionConfigChanged(change) = &dispatch.action {
                values.extend(change.config.clone());
            }
        }
        values
    }

    /// Handles a client's change of the session's configuration.
    pub(super) async fn change_config(
        &mut self,
        dispatch: &Dispatch,
        action: &SessionConfigChangedAction,
        ctx: &mut SessionContext,
    ) -> Result<Vec<SessionEffect>, ActionRejection> {
        let offer = ctx.host.config_choices(None);
        let now = self.pending_config_values(&ctx.session);
        let whole = config::resolve_change(&offer, &now, &action.config, action.replace.unwrap_or(false))?;
        let wanted = whole.get(config::PERMISSION_MODE).and_then(serde_json::Value::as_str);
        let mode = wanted.map(|name| config::parse_mode(name, offer.allow_bypass));
        let change = SessionConfigChangedAction { config: whole, replace: action.replace };
        let dispatch = Dispatch { action: StateAction::SessionConfigChanged(change), ..dispatch.clone() };
        let Some(mode) = mode else {
            return ctx.accept_plain_action(&dispatch).await.map(|()| Vec::new());
        };
        if self.mode_changes.is_full() {
            return Err(ActionRejection::TooManyModeChanges);
        }
        Ok(self.step_modes(ModeEvent::Requested { change: Box::new(dispatch), mode }, ctx).await)
    }

    /// Passes an event to the mode changes and carries out the effects.
    pub(super) async fn step_modes(
        &mut self,
        event: ModeEvent<Box<Dispatch>>,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        let agent_mode = self.permission_mode().map(str::to_owned);
        let context = ModeContext {
            agent_mode: agent_mode.as_deref(),
            is_live: self.connection().is_some(),
            configured: ctx.configured_mode(),
            chosen: ctx.gate.chosen_mode(),
        };
        let mut next = Vec::new();
        for effect in self.mode_changes.on(event, context) {
            match effect {
                ModeEffect::BeginInGate(mode) => ctx.gate.begin_mode_change(mode),
                ModeEffect::Send(mode) => self.send_mode(mode, ctx),
                ModeEffect::Accept(dispatch) => next.push(SessionEffect::AcceptModeChange(dispatch)),
                ModeEffect::Abandon(dispatch, error) => {
                    ctx.gate.abandon_mode_change();
                    ctx.host.publication.reject(*dispatch, ActionRejection::ModeNotApplied(error)).await;
                }
                ModeEffect::SetAgentMode(mode) => self.set_permission_mode(&mode),
                ModeEffect::Follow(name, mode) => next.push(self.follow_mode(name, mode, ctx).await),
                ModeEffect::Settle { resync, is_current } => {
                    next.push(SessionEffect::Agent(AgentEvent::Modes(ModeEvent::Settled { resync, is_current })));
                }
                ModeEffect::CloseAgent(error) => {
                    tracing::error!(session = &*ctx.session.uri, %error, "the agent did not apply the permission mode; stopping it");
                    let failure = TurnErrorDetails {
                        error_type: "permissionMode".to_owned(),
                        message: MODE_NOT_APPLIED.to_owned(),
                        stderr: None,
                    };
                    next.push(SessionEffect::Turn(TurnInput::AbortAndClose(failure)));
                }
            }
        }
        next
    }

    fn send_mode(&self, mode: &'static str, ctx: &mut SessionContext) {
        let Some((connection, attempt)) = self.connection() else { return };
        let clock = Arc::clone(&ctx.host.clock);
        ctx.tasks.spawn(async move {
            let applied = connection.apply_setting(AgentSettingChange::PermissionMode(mode.to_owned()));
            let answered = clock.timeout(SETTINGS_CHANGE_TIMEOUT, applied).await;
            let result =
                answered.unwrap_or_else(|| Err(ConnectionError::Refused("the agent did not answer".to_owned())));
            SessionInput::AgentTask(AgentTaskEvent::PermissionModeApplied { attempt, mode, result })
        });
    }

    /// Stores and publishes the mode that the agent changed to. If that fails, the agent is set back.
    async fn follow_mode(&self, name: &'static str, mode: PermissionMode, ctx: &mut SessionContext) -> SessionEffect {
        let before = ctx.configured_mode();
        ctx.gate.follow_agent_mode(mode);
        let config = config::values_for_mode(name, &self.pending_config_values(&ctx.session));
        let changed = StateAction::SessionConfigChanged(SessionConfigChangedAction { config, replace: None });
        if let Err(error) = ctx.commit(SessionChange::default().session_action(changed)).await {
            tracing::error!(session = &*ctx.session.uri, %error, "failed to store the agent's permission mode");
            ctx.gate.follow_agent_mode(before);
            return SessionEffect::Agent(AgentEvent::Modes(ModeEvent::Settled { resync: true, is_current: true }));
        }
        ctx.update_summaries().await;
        SessionEffect::ReevaluateCalls
    }
}

impl SessionContext {
    /// Accepts a client's change of the permission mode, if it can be stored.
    pub(super) async fn accept_mode_change(&mut self, dispatch: Box<Dispatch>) -> Vec<SessionEffect> {
        match self.accept_plain_action(&dispatch).await {
            Ok(()) => {
                self.gate.finish_mode_change();
                vec![SessionEffect::ReevaluateCalls]
            }
            Err(rejection) => {
                self.gate.abandon_mode_change();
                self.host.publication.reject(*dispatch, rejection).await;
                Vec::new()
            }
        }
    }
}
