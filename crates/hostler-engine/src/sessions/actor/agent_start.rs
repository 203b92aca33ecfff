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

use super::agent::{AgentState, AgentTaskEvent, LiveAgent, SessionAgent};
use super::agent_settings::AgentSettings;
use super::context::SessionContext;
use super::effect::SessionEffect;
use super::folder_trust::FolderSetup;
use super::input::SessionInput;
use super::permission_mode::ModeEvent;
use crate::agents::model_gateway::AgentStatus;
use crate::agents::pool::{AgentSlot, SlotAcquisition, SlotWaiter};
use crate::permissions::session_gate::SessionGate;
use crate::sessions::action_mapper::{TurnErrorDetails, activity_action};
use crate::sessions::config;
use crate::sessions::session::Session;
use crate::sessions::turn::{AgentPhase, TurnInput, TurnMachine, TurnPhase};

/// The parts of a prewarmed agent that cannot be changed while it runs. Secrets that are created for each process are
/// not included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PrewarmSpec {
    conversation: ConversationStart,
    working_directory: PathBuf,
    /// A fingerprint of its configuration files.
    settings_fingerprint: String,
}

impl PrewarmSpec {
    fn new(driver: &dyn Driver, session: &Session) -> Self {
        let working_directory = session.working_directory().unwrap_or_default();
        Self {
            conversation: session.conversation_start(),
            settings_fingerprint: driver.settings_fingerprint(&working_directory),
            working_directory,
        }
    }
}

impl SessionAgent {
    /// Opens an agent as soon as a slot is free.
    pub(super) async fn open(&mut self, machine: &TurnMachine, ctx: &mut SessionContext) {
        self.attempt += 1;
        self.prompt_in_flight = false;
        // It reads the current transcript.
        (self.is_stale, ctx.own_commands) = (false, 0);
        if *machine.turn_phase() == TurnPhase::None {
            // A prewarmed agent has acquired its slot already.
            return self.assess_before_opening(ctx);
        }
        // The previous process has ended; its slot goes to the next request in order.
        self.set_slot(None);
        match ctx.host.agents.pool().acquire() {
            SlotAcquisition::Acquired(slot) => {
                self.set_slot(Some(slot));
                self.assess_before_opening(ctx);
            }
            SlotAcquisition::Waiting(waiting) => self.wait_for_slot(waiting, ctx).await,
        }
    }

    async fn wait_for_slot(&mut self, waiting: SlotWaiter, ctx: &mut SessionContext) {
        let attempt = self.attempt;
        let text = waiting.status_text();
        let cancel = CancellationToken::new();
        let cancelled = cancel.clone();
        ctx.tasks.spawn(async move {
            let news = tokio::select! {
                biased;
                () = cancelled.cancelled() => AgentTaskEvent::OpenCancelled { attempt },
                slot = waiting.acquired() => AgentTaskEvent::SlotAcquired { attempt, slot },
            };
            SessionInput::AgentTask(news)
        });
        self.state = AgentState::Waiting { cancel };
        ctx.publish_output(&mut activity_action(Some(text)).into()).await;
    }

    /// Continues with the slot, or returns it if opening was cancelled meanwhile.
    pub(super) fn use_slot(&mut self, slot: AgentSlot, ctx: &mut SessionContext) -> Vec<SessionEffect> {
        let AgentState::Waiting { .. } = self.state else { return self.finish_closing() };
        self.slot = Some(slot);
        self.assess_before_opening(ctx);
        Vec::new()
    }

    /// Starts the agent with the folder configuration that applies.
    pub(super) async fn start(&mut self, folder: FolderSetup, machine: &TurnMachine, ctx: &mut SessionContext) {
        let attempt = self.attempt;
        let Some(driver) = ctx.host.agents.driver(&ctx.session.session.provider).cloned() else {
            let message = format!("This host does not offer the agent {:?}.", ctx.session.session.provider);
            let result = Err(OpenError {
                kind: hostler_driver::OpenErrorKind::ExecutableMissing,
                message,
                stderr: StderrTail::default(),
            });
            ctx.tasks.spawn(async move { SessionInput::AgentTask(AgentTaskEvent::Opened { attempt, result }) });
            return;
        };
        let info = driver.describe();
        let facts = AgentSettings::for_new_agent(&ctx.session, &info.default_model);
        let warm = (*machine.turn_phase() == TurnPhase::None).then(|| PrewarmSpec::new(&*driver, &ctx.session));
        let ahead = warm.is_some();
        if !ahead && let Some(needed) = ctx.host.agents.gateway().required_sign_in(&facts.model) {
            // Without the sign-in the agent would start and then fail.
            let (kind, message) = (hostler_driver::OpenErrorKind::SignInRequired, needed.sign_in_instructions());
            let result = Err(OpenError { kind, message, stderr: StderrTail::default() });
            ctx.tasks.spawn(async move { SessionInput::AgentTask(AgentTaskEvent::Opened { attempt, result }) });
            return;
        }
        let directories =
            ctx.session.working_directory().into_iter().chain(facts.additional_directories.iter().cloned());
        let checked = directories.map(|directory| ctx.host.resources.session_roots().check(&directory));
        if let Err(error) = checked.collect::<Result<(), _>>() {
            // The allowed directories have changed since the session was created, or a link has another target now.
            let (kind, message) = (hostler_driver::OpenErrorKind::NoWorkingDirectory, format!("{error}."));
            let result = Err(OpenError { kind, message, stderr: StderrTail::default() });
            ctx.tasks.spawn(async move { SessionInput::AgentTask(AgentTaskEvent::Opened { attempt, result }) });
            return;
        }
        let lease = ctx.host.agents.gateway().lease(&ctx.session.uri, &ctx.session.chat_uri, &facts.model);
        let permission_mode = config::agent_mode_name(ctx.configured_mode()).to_owned();
        let spec = OpenSpec {
            conversation: ctx.session.conversation_start(),
            working_directory: ctx.session.working_directory().unwrap_or_default(),
            model: lease.model.clone(),
            web_search: lease.web_search,
            permission_mode: permission_mode.clone(),
            effort: facts.effort.clone(),
            thinking_budget: facts.thinking_budget,
            additional_directories: facts.additional_directories.clone(),
            folder_configuration: folder.configuration.clone(),
            endpoint: lease.endpoint.clone(),
            permission_gate: Arc::<SessionGate>::clone(&ctx.gate),
        };
        let cancel = CancellationToken::new();
        let cancelled = cancel.clone();
        ctx.tasks.spawn(async move {
            let news = tokio::select! {
                biased;
                () = cancelled.cancelled() => AgentTaskEvent::OpenCancelled { attempt },
                result = driver.open(spec) => AgentTaskEvent::Opened { attempt, result },
            };
            SessionInput::AgentTask(news)
        });
        self.state = AgentState::Opening {
            cancel,
            settings: facts,
            permission_mode,
            lease,
            prewarm: warm,
            folder_setup: folder,
        };
        // Removes the folder rules of the previous agent.
        ctx.gate.set_folder_rules(&[]);
        if ahead {
            return;
        }
        ctx.publish_output(&mut activity_action(Some(format!("Starting {}", info.display_name))).into()).await;
    }

    pub(super) async fn finish_opening(
        &mut self,
        attempt: u64,
        result: Result<OpenedConnection, OpenError>,
        machine: &TurnMachine,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        let meant = attempt == self.attempt && machine.agent_phase() == AgentPhase::Opening;
        let opened = match result {
            Ok(opened) => opened,
            Err(error) => {
                if meant {
                    self.state = AgentState::None;
                    ctx.clear_activity().await;
                    return vec![SessionEffect::Turn(TurnInput::AgentOpenFailed(failure_from_open_error(error)))];
                }
                return if attempt == self.attempt { self.finish_closing() } else { Vec::new() };
            }
        };
        if !meant {
            // Opening was cancelled just before it succeeded: the connection is closed.
            ctx.tasks.spawn(async move {
                opened.connection.close(CloseMode::Now).await;
                SessionInput::AgentTask(AgentTaskEvent::Closed { attempt })
            });
            return Vec::new();
        }
        // Registered before it is announced: a client that sees the session may ask for its agent.
        let ConnectionInfo { pid, version, commands, .. } = opened.info.clone();
        let status = AgentStatus { session: ctx.session.uri.to_string(), pid, version };
        ctx.host.agents.register_running(&ctx.session.uri, status);
        ctx.session.commands = commands;
        // A prewarmed agent is announced with its first message.
        let announced = if *machine.turn_phase() == TurnPhase::None { Ok(()) } else { ctx.announce_session().await };
        if let Err(error) = announced {
            ctx.host.agents.unregister_running(&ctx.session.uri);
            opened.connection.close(CloseMode::Now).await;
            self.state = AgentState::None;
            ctx.publish_output(&mut activity_action(None).into()).await;
            let failure = TurnErrorDetails { error_type: "store".to_owned(), message: error.to_string(), stderr: None };
            return vec![SessionEffect::Turn(TurnInput::AgentOpenFailed(failure))];
        }
        if let (true, AgentState::Opening { folder_setup: folder, .. }) =
            (opened.info.applied_configuration, &self.state)
        {
            ctx.gate.set_folder_rules(&folder.rules);
        }
        self.set_live(opened, ctx);
        let mut effects = self.step_modes(ModeEvent::AgentOpened, ctx).await;
        ctx.clear_activity().await;
        effects.push(SessionEffect::Turn(TurnInput::AgentOpened));
        effects
    }

    fn set_live(&mut self, opened: OpenedConnection, ctx: &SessionContext) {
        let AgentState::Opening {
            settings: facts, permission_mode, lease, prewarm: warm, folder_setup: folder, ..
        } = std::mem::take(&mut self.state)
        else {
            return;
        };
        let OpenedConnection { connection, events, info } = opened;
        let connection = connection.into();
        let FolderSetup { configuration, trust_version: version, .. } = folder;
        // A configuration that has changed since its assessment is not applied; the folder is assessed again before the
        // first message. The same holds if a trust decision was made during the start.
        let as_decided = info.applied_configuration == matches!(configuration, FolderConfiguration::Applied { .. });
        let assessed = warm.is_none() && as_decided && version == ctx.host.permissions.trust().version();
        let folder = if info.applied_configuration { configuration } else { FolderConfiguration::Ignored };
        self.state = AgentState::Live(LiveAgent {
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
    pub(super) fn prewarm(&mut self, machine: &TurnMachine, ctx: &SessionContext) -> Vec<SessionEffect> {
        let absent = machine.agent_phase() == AgentPhase::Absent && machine.can_accept_turn();
        if !ctx.host.agents.pool().config.prewarm || !absent || ctx.host.tasks.is_stopping() {
            return Vec::new();
        }
        let Some(slot) = ctx.host.agents.pool().try_acquire_prewarm() else { return Vec::new() };
        self.set_slot(Some(slot));
        vec![SessionEffect::Turn(TurnInput::Prewarm)]
    }

    /// Whether the agent is prewarmed and differs from one that would be opened now.
    pub(super) fn is_prewarmed_stale(&self, ctx: &SessionContext) -> bool {
        let Some(spec) = self.prewarm_spec() else { return false };
        let driver = ctx.host.agents.driver(&ctx.session.session.provider);
        driver.is_none_or(|driver| PrewarmSpec::new(&**driver, &ctx.session) != *spec)
    }

    /// Announces the session at the first message for a prewarmed agent.
    pub(super) async fn use_prewarmed(&mut self, ctx: &mut SessionContext) -> Result<(), TurnErrorDetails> {
        if !self.clear_prewarm() {
            return Ok(());
        }
        let announced = ctx.announce_session().await;
        announced.map_err(|error| TurnErrorDetails {
            error_type: "store".to_owned(),
            message: error.to_string(),
            stderr: None,
        })?;
        // The resume token that the agent sent before the session was stored.
        if let Some(token) = ctx.session.resume_token.clone() {
            ctx.store_resume_token(token).await;
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
