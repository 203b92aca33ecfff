//! Starts an agent: acquires a slot, assesses the folder, opens the process.
//!
//! A provisional session materializes with its first message: the engine leases a bearer from the gateway, the driver
//! starts the agent under a supervisor and completes its handshake; then the session is ready and announced (a question
//! about its folder announces it earlier). If the start fails, the turn ends with the reason, no process remains, the
//! session is stored but not listed, and the next message tries again. A later message reuses the running process.
//!
//! A prewarmed agent is used once, and only if an agent that is opened now would be the same.

use std::path::PathBuf;
use std::sync::Arc;

use hostler_driver::{
    CloseMode, ConnectionInfo, ConversationStart, Driver, FolderConfiguration, OpenError, OpenSpec, OpenedConnection,
    StderrTail,
};
use tokio_util::sync::CancellationToken;

use super::agent::{AgentState, AgentTaskEvent, LiveAgent};
use super::agent_settings::AgentSettings;
use super::folder_trust::FolderSetup;
use super::permission_mode::ModeEvent;
use super::{SessionActor, SessionInput};
use crate::agents::model_gateway::AgentStatus;
use crate::agents::pool::{AgentSlot, SlotAcquisition, SlotWaiter};
use crate::permissions::session_gate::SessionGate;
use crate::sessions::action_mapper::{TurnErrorDetails, activity_action};
use crate::sessions::config;
use crate::sessions::turn::{AgentPhase, TurnInput, TurnPhase};

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
    /// Opens an agent as soon as a slot is free.
    pub(super) async fn open_agent(&mut self) {
        self.agent.attempt += 1;
        self.agent.prompt_in_flight = false;
        (self.external.agent_is_stale, self.external.own_commands) = (false, 0);
        if *self.machine.turn_phase() == TurnPhase::None {
            // A prewarmed agent has acquired its slot already.
            return self.assess_before_opening();
        }
        // The previous process has ended; its slot goes to the next request in order.
        self.agent.set_slot(None);
        match self.ctx.host.agent_pool.acquire() {
            SlotAcquisition::Acquired(slot) => {
                self.agent.set_slot(Some(slot));
                self.assess_before_opening();
            }
            SlotAcquisition::Waiting(waiting) => self.wait_for_slot(waiting).await,
        }
    }

    async fn wait_for_slot(&mut self, waiting: SlotWaiter) {
        let attempt = self.agent.attempt;
        let text = waiting.status_text();
        let cancel = CancellationToken::new();
        let cancelled = cancel.clone();
        self.ctx.tasks.spawn(async move {
            let news = tokio::select! {
                biased;
                () = cancelled.cancelled() => AgentTaskEvent::OpenCancelled { attempt },
                slot = waiting.acquired() => AgentTaskEvent::SlotAcquired { attempt, slot },
            };
            SessionInput::AgentTask(news)
        });
        self.agent.state = AgentState::Waiting { cancel };
        self.ctx.publish_output(&mut activity_action(Some(text)).into()).await;
    }

    /// Continues with the slot, or returns it if opening was cancelled meanwhile.
    pub(super) async fn handle_slot_acquired(&mut self, attempt: u64, slot: AgentSlot) {
        if attempt != self.agent.attempt {
            return;
        }
        if let AgentState::Waiting { .. } = self.agent.state {
            self.agent.slot = Some(slot);
            self.assess_before_opening();
        } else {
            drop(slot);
            self.handle_agent_closed().await;
        }
    }

    /// Starts the agent with the folder configuration that applies.
    pub(super) async fn start_agent(&mut self, folder: FolderSetup) {
        let attempt = self.agent.attempt;
        let Some(driver) = self.ctx.host.drivers.get(&self.ctx.session.session.provider).cloned() else {
            let message = format!("This host does not offer the agent {:?}.", self.ctx.session.session.provider);
            let result = Err(OpenError {
                kind: hostler_driver::OpenErrorKind::ExecutableMissing,
                message,
                stderr: StderrTail::default(),
            });
            self.ctx.tasks.spawn(async move { SessionInput::AgentTask(AgentTaskEvent::Opened { attempt, result }) });
            return;
        };
        let info = driver.describe();
        let facts = AgentSettings::for_new_agent(&self.ctx.session, &info.default_model);
        let warm = (*self.machine.turn_phase() == TurnPhase::None).then(|| self.prewarm_spec(&*driver));
        let ahead = warm.is_some();
        if !ahead && let Some(needed) = self.ctx.host.gateway.required_sign_in(&facts.model) {
            // Without the sign-in the agent would start and then fail.
            let (kind, message) = (hostler_driver::OpenErrorKind::SignInRequired, needed.sign_in_instructions());
            let result = Err(OpenError { kind, message, stderr: StderrTail::default() });
            self.ctx.tasks.spawn(async move { SessionInput::AgentTask(AgentTaskEvent::Opened { attempt, result }) });
            return;
        }
        let directories =
            self.ctx.session.working_directory().into_iter().chain(facts.additional_directories.iter().cloned());
        let checked = directories.map(|directory| self.ctx.host.resources.session_roots.check(&directory));
        if let Err(error) = checked.collect::<Result<(), _>>() {
            // The allowed directories have changed since the session was created, or a link has another target now.
            let (kind, message) = (hostler_driver::OpenErrorKind::NoWorkingDirectory, format!("{error}."));
            let result = Err(OpenError { kind, message, stderr: StderrTail::default() });
            self.ctx.tasks.spawn(async move { SessionInput::AgentTask(AgentTaskEvent::Opened { attempt, result }) });
            return;
        }
        let lease = self.ctx.host.gateway.lease(&self.ctx.session.uri, &self.ctx.session.chat_uri, &facts.model);
        let permission_mode = config::agent_mode_name(self.configured_mode()).to_owned();
        let spec = OpenSpec {
            conversation: self.ctx.session.conversation_start(),
            working_directory: self.ctx.session.working_directory().unwrap_or_default(),
            model: lease.model.clone(),
            web_search: lease.web_search,
            permission_mode: permission_mode.clone(),
            effort: facts.effort.clone(),
            thinking_budget: facts.thinking_budget,
            additional_directories: facts.additional_directories.clone(),
            folder_configuration: folder.configuration.clone(),
            endpoint: lease.endpoint.clone(),
            permission_gate: Arc::<SessionGate>::clone(&self.ctx.gate),
        };
        let cancel = CancellationToken::new();
        let cancelled = cancel.clone();
        self.ctx.tasks.spawn(async move {
            let news = tokio::select! {
                biased;
                () = cancelled.cancelled() => AgentTaskEvent::OpenCancelled { attempt },
                result = driver.open(spec) => AgentTaskEvent::Opened { attempt, result },
            };
            SessionInput::AgentTask(news)
        });
        self.agent.state = AgentState::Opening {
            cancel,
            settings: facts,
            permission_mode,
            lease,
            prewarm: warm,
            folder_setup: folder,
        };
        // Removes the folder rules of the previous agent.
        self.ctx.gate.set_folder_rules(&[]);
        if ahead {
            return;
        }
        self.ctx.publish_output(&mut activity_action(Some(format!("Starting {}", info.display_name))).into()).await;
    }

    pub(super) async fn handle_agent_opened(&mut self, attempt: u64, result: Result<OpenedConnection, OpenError>) {
        let meant = attempt == self.agent.attempt && self.machine.agent_phase() == AgentPhase::Opening;
        let opened = match result {
            Ok(opened) => opened,
            Err(error) => {
                if meant {
                    self.agent.state = AgentState::None;
                    self.clear_activity().await;
                    self.drive(TurnInput::AgentOpenFailed(failure_from_open_error(error))).await;
                } else if attempt == self.agent.attempt {
                    self.handle_agent_closed().await;
                }
                return;
            }
        };
        if !meant {
            // Opening was cancelled just before it succeeded: the connection is closed.
            self.ctx.tasks.spawn(async move {
                opened.connection.close(CloseMode::Now).await;
                SessionInput::AgentTask(AgentTaskEvent::Closed { attempt })
            });
            return;
        }
        // Registered before it is announced: a client that sees the session may ask for its agent.
        let ConnectionInfo { pid, version, commands, .. } = opened.info.clone();
        let status = AgentStatus { session: self.ctx.session.uri.to_string(), pid, version };
        self.ctx.host.register_agent(&self.ctx.session.uri, status);
        self.ctx.session.commands = commands;
        // A prewarmed agent is announced with its first message.
        let announced =
            if *self.machine.turn_phase() == TurnPhase::None { Ok(()) } else { self.ctx.announce_session().await };
        if let Err(error) = announced {
            self.ctx.host.unregister_agent(&self.ctx.session.uri);
            opened.connection.close(CloseMode::Now).await;
            self.agent.state = AgentState::None;
            self.ctx.publish_output(&mut activity_action(None).into()).await;
            let failure = TurnErrorDetails { error_type: "store".to_owned(), message: error.to_string(), stderr: None };
            self.drive(TurnInput::AgentOpenFailed(failure)).await;
            return;
        }
        if let (true, AgentState::Opening { folder_setup: folder, .. }) =
            (opened.info.applied_configuration, &self.agent.state)
        {
            self.ctx.gate.set_folder_rules(&folder.rules);
        }
        self.set_live_agent(opened);
        self.step_modes(ModeEvent::AgentOpened).await;
        self.clear_activity().await;
        self.drive(TurnInput::AgentOpened).await;
    }

    pub(super) async fn clear_activity(&mut self) {
        if self.ctx.session.chat.activity.is_some() {
            self.ctx.publish_output(&mut activity_action(None).into()).await;
        }
    }

    fn set_live_agent(&mut self, opened: OpenedConnection) {
        let AgentState::Opening {
            settings: facts, permission_mode, lease, prewarm: warm, folder_setup: folder, ..
        } = std::mem::take(&mut self.agent.state)
        else {
            return;
        };
        let OpenedConnection { connection, events, info } = opened;
        let connection = connection.into();
        let FolderSetup { configuration, trust_version: version, .. } = folder;
        // A configuration that has changed since its assessment is not applied; the folder is assessed again before the
        // first message. The same holds if a trust decision was made during the start.
        let as_decided = info.applied_configuration == matches!(configuration, FolderConfiguration::Applied { .. });
        let assessed = warm.is_none() && as_decided && version == self.ctx.host.permissions.trust.version();
        let folder = if info.applied_configuration { configuration } else { FolderConfiguration::Ignored };
        self.agent.state = AgentState::Live(LiveAgent {
            connection,
            events,
            settings: facts,
            permission_mode,
            lease,
            prewarm: warm,
            folder_configuration: folder,
            folder_assessed: assessed,
        });
    }

    // ── Prewarmed agents ──────────────────────────────────────────────────────────────────────────────────────────

    /// Prewarms an agent when a client opens the session, if a slot is free.
    pub(super) async fn prewarm_agent(&mut self) {
        let absent = self.machine.agent_phase() == AgentPhase::Absent && self.machine.can_accept_turn();
        if !self.ctx.host.agent_pool.config.prewarm || !absent || self.ctx.host.stop.is_cancelled() {
            return;
        }
        if let Some(slot) = self.ctx.host.agent_pool.try_acquire_prewarm() {
            self.agent.set_slot(Some(slot));
            self.drive(TurnInput::Prewarm).await;
        }
    }

    pub(super) fn prewarm_spec(&self, driver: &dyn Driver) -> PrewarmSpec {
        let working_directory = self.ctx.session.working_directory().unwrap_or_default();
        let settings = driver.settings_fingerprint(&working_directory);
        PrewarmSpec {
            conversation: self.ctx.session.conversation_start(),
            working_directory,
            settings_fingerprint: settings,
        }
    }

    /// Whether the agent is prewarmed and differs from one that would be opened now.
    pub(super) fn is_prewarmed_stale(&self) -> bool {
        let Some(facts) = self.agent.prewarm_spec() else { return false };
        let driver = self.ctx.host.drivers.get(&self.ctx.session.session.provider);
        driver.is_none_or(|driver| self.prewarm_spec(&**driver) != *facts)
    }

    /// Announces the session at the first message for a prewarmed agent.
    pub(super) async fn use_prewarmed_agent(&mut self) -> Result<(), TurnErrorDetails> {
        if !self.agent.clear_prewarm() {
            return Ok(());
        }
        let announced = self.ctx.announce_session().await;
        announced.map_err(|error| TurnErrorDetails {
            error_type: "store".to_owned(),
            message: error.to_string(),
            stderr: None,
        })?;
        // The resume token that the agent sent before the session was stored.
        if let Some(token) = self.ctx.session.resume_token.clone() {
            self.store_resume_token(token).await;
        }
        Ok(())
    }
}

fn failure_from_open_error(error: OpenError) -> TurnErrorDetails {
    TurnErrorDetails {
        error_type: error.kind.as_str().to_owned(),
        message: error.message,
        stderr: Some(error.stderr.as_str().to_owned()),
    }
}
