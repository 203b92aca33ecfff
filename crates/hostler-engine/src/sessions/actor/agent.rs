//! The connection to the session's agent: its state, interrupts, closing and idle timer.
//!
//! At most one process exists at a time. Results of its tasks return as [`AgentTaskEvent`]; what follows from them is
//! decided by the turn machine. Starting is in `agent_start`, prompts are in `agent_prompts`, settings and permission
//! mode are in `agent_settings`.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use hostler_driver::{
    AgentConnection, AgentRequestId, Answer, CloseMode, ConnectionError, DriverEvent, FolderConfiguration, OpenError,
    OpenedConnection, RemoveImagesError, StderrTail,
};
use hostler_trust::TrustAssessment;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::agent_prompts::LoadedMessage;
use super::agent_settings::AgentSettings;
use super::agent_start::PrewarmSpec;
use super::background_work::BackgroundEvent;
use super::context::SessionContext;
use super::effect::SessionEffect;
use super::folder_trust::{AssessmentPurpose, FolderEvent, FolderSetup};
use super::idle_timer::{AgentActivity, IdleTimer, IdleTimerEffect, IdleTimerEvent, format_duration};
use super::image_removal::ImageRemovalEvent;
use super::input::SessionInput;
use super::pending_messages::MessageEvent;
use super::permission_mode::{ModeChanges, ModeEvent};
use crate::agents::model_gateway::ModelLease;
use crate::agents::pool::AgentSlot;
use crate::sessions::action_mapper::{ActionBuffer, TurnErrorDetails, activity_action};
use crate::sessions::session::Dispatch;
use crate::sessions::turn::{AgentPhase, TurnInput, TurnMachine, TurnPhase};

/// A task for the agent has finished. Each event carries its attempt, so that an event of an earlier agent changes
/// nothing.
pub(crate) enum AgentTaskEvent {
    /// An agent slot was assigned.
    SlotAcquired { attempt: u64, slot: AgentSlot },
    /// The handshake has succeeded or failed.
    Opened { attempt: u64, result: Result<OpenedConnection, OpenError> },
    /// The folder was assessed; `None` if that failed.
    FolderAssessed {
        attempt: u64,
        purpose: AssessmentPurpose,
        trust_version: u64,
        assessment: Option<Box<TrustAssessment>>,
    },
    /// An attempt to open was cancelled; no process of it remains.
    OpenCancelled { attempt: u64 },
    /// A message's attachments were read from the store.
    MessageLoaded { attempt: u64, message: LoadedMessage },
    /// The prompt was written, or writing failed.
    PromptSent { attempt: u64, result: Result<Uuid, ConnectionError> },
    /// The settings were applied, or the agent did not accept all of them.
    SettingsApplied { attempt: u64, settings: AgentSettings, result: Result<(), ConnectionError> },
    /// The agent did not react to an interrupt in time.
    InterruptTimedOut { attempt: u64, interrupt: u64 },
    /// An answer to a request was written, or the request was no longer open.
    AnswerSent { result: Result<(), ConnectionError> },
    /// The agent accepted or rejected a permission mode.
    PermissionModeApplied { attempt: u64, mode: &'static str, result: Result<(), ConnectionError> },
    /// Images were removed from the conversation, or removing them failed.
    ImagesRemoved { result: Result<usize, RemoveImagesError> },
    /// The process tree is empty.
    Closed { attempt: u64 },
}

/// An event of the agent's connection, from another component.
pub(super) enum AgentEvent {
    /// The process has ended by itself.
    Exited { status: String, stderr: StderrTail },
    /// The model starts to answer.
    AnswerStarted,
    /// Another process has continued the conversation.
    ConversationContinued,
    /// An event of the permission mode.
    Modes(ModeEvent<Box<Dispatch>>),
    /// The live agent has this permission mode.
    SetMode(&'static str),
    /// Answer a request of the agent.
    Answer(AgentRequestId, Answer),
    /// Assess the folder before the agent is opened.
    AssessFolder,
    /// The folder is assessed: start the process.
    Start(FolderSetup),
    /// Do not prewarm an agent.
    AbandonPrewarm,
    /// Opening waits for a person's decision about the folder.
    AwaitTrustDecision,
    /// Restart opening, if it waits, with the folder configuration that applies now.
    RestartOpening,
    /// Opening was cancelled; no process exists.
    FinishClosing,
    /// Write the turn's prompt.
    SendPrompt(String),
    /// The turn's prompt is not written, because the turn has ended.
    DropPrompt(String),
}

/// The session's agent. At most one process at a time.
#[derive(Default)]
pub(super) struct SessionAgent {
    pub(super) attempt: u64,
    /// Counts interrupts, so that the timeout of an old one cannot end the wait for a new one.
    pub(super) interrupt_count: u64,
    pub(super) state: AgentState,
    /// The slot of the current or starting process.
    pub(super) slot: Option<AgentSlot>,
    idle_timer: IdleTimer,
    /// The wait for the idle timer (the mutex is never locked; it only makes the actor `Sync`).
    idle_wait: Option<Mutex<BoxFuture<'static, ()>>>,
    /// The turn's prompt is being written; the agent has nothing yet that could be steered.
    pub(super) prompt_in_flight: bool,
    /// The id of that prompt in the transcript, if the agent stores it.
    pub(super) sent_prompt_id: Option<Uuid>,
    /// Whether the conversation has continued without the agent.
    pub(super) is_stale: bool,
    /// Changes of the permission mode.
    pub(super) mode_changes: ModeChanges<Box<Dispatch>>,
}

#[derive(Default)]
pub(super) enum AgentState {
    #[default]
    None,
    /// No slot is free, the folder is being assessed, or a person decides about it.
    Waiting {
        cancel: CancellationToken,
    },
    Opening {
        cancel: CancellationToken,
        settings: AgentSettings,
        permission_mode: String,
        lease: ModelLease,
        /// Set until the agent receives its first message.
        prewarm: Option<PrewarmSpec>,
        folder_setup: FolderSetup,
    },
    Live(LiveAgent),
    /// The process is being closed; its lease ends with it.
    Closing(#[expect(dead_code, reason = "held for its Drop")] Option<ModelLease>),
}

pub(super) struct LiveAgent {
    pub(super) connection: Arc<dyn AgentConnection>,
    pub(super) events: mpsc::Receiver<DriverEvent>,
    pub(super) settings: AgentSettings,
    pub(super) permission_mode: String,
    pub(super) lease: ModelLease,
    pub(super) prewarm: Option<PrewarmSpec>,
    /// The folder configuration that it was opened with.
    pub(super) folder_configuration: FolderConfiguration,
    /// Whether the folder was assessed for the next message already.
    pub(super) folder_assessed: bool,
}

impl SessionAgent {
    /// The next event of the live agent, the idle timer or the slot; pending forever without them.
    pub(super) async fn next_input(&mut self) -> SessionInput {
        let Self { state, slot, idle_wait, .. } = self;
        let event = async {
            match state {
                AgentState::Live(live) => live.events.recv().await,
                _ => std::future::pending().await,
            }
        };
        let elapsed = async {
            match idle_wait {
                Some(wait) => wait.get_mut().unwrap_or_else(PoisonError::into_inner).await,
                None => std::future::pending().await,
            }
        };
        let slot_requested = async {
            match slot {
                Some(slot) => slot.eviction_requested().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // The driver sends `ProcessExited` before it closes the channel; the default covers a driver that does not.
            event = event => SessionInput::AgentEvent(event.unwrap_or_else(|| DriverEvent::ProcessExited {
                status: "the driver ended".to_owned(),
                stderr: StderrTail::default(),
            })),
            () = elapsed => {
                *idle_wait = None;
                SessionInput::IdleTimer(IdleTimerEvent::Elapsed)
            }
            () = slot_requested => SessionInput::IdleTimer(IdleTimerEvent::SlotRequested),
        }
    }

    /// Uses this slot from now on, and releases the one before.
    pub(super) fn set_slot(&mut self, slot: Option<AgentSlot>) {
        (self.slot, self.idle_timer, self.idle_wait) = (slot, IdleTimer::default(), None);
    }

    /// The next event, if one is available.
    pub(super) fn try_next_event(&mut self) -> Option<DriverEvent> {
        match &mut self.state {
            AgentState::Live(live) => live.events.try_recv().ok(),
            _ => None,
        }
    }

    /// Whether a process may still exist.
    pub(super) fn has_process(&self) -> bool {
        !matches!(self.state, AgentState::None)
    }

    /// The current settings of the agent, and its lease of the gateway.
    pub(super) fn settings_and_lease(&self) -> Option<(&AgentSettings, &ModelLease)> {
        match &self.state {
            AgentState::Opening { settings: facts, lease, .. }
            | AgentState::Live(LiveAgent { settings: facts, lease, .. }) => Some((facts, lease)),
            _ => None,
        }
    }

    /// Stores the settings that the live agent has accepted.
    pub(super) fn set_settings(&mut self, new: AgentSettings) {
        if let AgentState::Live(LiveAgent { settings: facts, .. }) = &mut self.state {
            *facts = new;
        }
    }

    /// The connection of the live agent, and its attempt.
    pub(super) fn connection(&self) -> Option<(Arc<dyn AgentConnection>, u64)> {
        match &self.state {
            AgentState::Live(live) => Some((Arc::clone(&live.connection), self.attempt)),
            _ => None,
        }
    }

    /// Whether the agent of this attempt is live.
    pub(super) fn is_live(&self, attempt: u64) -> bool {
        attempt == self.attempt && matches!(self.state, AgentState::Live(_))
    }

    /// The folder configuration that the live agent was opened with.
    pub(super) fn folder_configuration(&self) -> Option<&FolderConfiguration> {
        match &self.state {
            AgentState::Live(live) => Some(&live.folder_configuration),
            _ => None,
        }
    }

    /// Whether the folder was assessed for the next message. Resets the flag, because it counts for one message.
    pub(super) fn take_folder_assessed(&mut self) -> bool {
        match &mut self.state {
            AgentState::Live(live) => std::mem::take(&mut live.folder_assessed),
            _ => false,
        }
    }

    /// Stores the permission mode of the live agent.
    pub(super) fn set_permission_mode(&mut self, mode: &str) {
        if let AgentState::Live(live) = &mut self.state {
            mode.clone_into(&mut live.permission_mode);
        }
    }

    /// The specification of a prewarmed agent that has received no message yet.
    pub(super) fn prewarm_spec(&self) -> Option<&PrewarmSpec> {
        match &self.state {
            AgentState::Opening { prewarm: warm, .. } | AgentState::Live(LiveAgent { prewarm: warm, .. }) => {
                warm.as_ref()
            }
            _ => None,
        }
    }

    /// Marks a prewarmed agent as used at its first message. `false` if it was not prewarmed.
    pub(super) fn clear_prewarm(&mut self) -> bool {
        match &mut self.state {
            AgentState::Live(live) => live.prewarm.take().is_some(),
            _ => false,
        }
    }

    /// The agent's permission mode, by the agent's name for it.
    pub(super) fn permission_mode(&self) -> Option<&str> {
        match &self.state {
            AgentState::Opening { permission_mode, .. } | AgentState::Live(LiveAgent { permission_mode, .. }) => {
                Some(permission_mode)
            }
            _ => None,
        }
    }
}

impl SessionAgent {
    /// Handles an event of another component.
    pub(super) async fn step(
        &mut self,
        event: AgentEvent,
        machine: &TurnMachine,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        match event {
            AgentEvent::Exited { status, stderr } => return self.finish_exit(&status, &stderr, ctx),
            AgentEvent::AnswerStarted => self.mark_delivered(machine, ctx).await,
            AgentEvent::ConversationContinued => self.is_stale |= machine.agent_phase() != AgentPhase::Absent,
            AgentEvent::Modes(event) => return self.step_modes(event, ctx).await,
            AgentEvent::SetMode(mode) => self.set_permission_mode(mode),
            AgentEvent::Answer(request, answer) => self.answer(request, answer, ctx),
            AgentEvent::AssessFolder => self.assess_before_opening(ctx),
            AgentEvent::Start(folder) => self.start(folder, machine, ctx).await,
            AgentEvent::AbandonPrewarm => {
                self.state = AgentState::None;
                return vec![SessionEffect::Turn(TurnInput::AgentOpenFailed(TurnErrorDetails::abandoned()))];
            }
            AgentEvent::AwaitTrustDecision => self.await_trust_decision(ctx),
            AgentEvent::RestartOpening => {
                if let AgentState::Waiting { cancel } = &self.state {
                    cancel.cancel();
                    self.open(machine, ctx).await;
                }
            }
            AgentEvent::FinishClosing => return self.finish_closing(),
            AgentEvent::SendPrompt(turn) => self.send_prompt(turn, ctx),
            AgentEvent::DropPrompt(turn) => return self.drop_prompt(turn, TurnErrorDetails::abandoned()),
        }
        Vec::new()
    }

    pub(super) fn interrupt(&mut self, ctx: &mut SessionContext) {
        let Some((connection, attempt)) = self.connection() else { return };
        self.interrupt_count += 1;
        let interrupt = self.interrupt_count;
        let grace = ctx.host.clock.sleep(ctx.host.settings.interrupt_grace);
        ctx.tasks.spawn(async move {
            // The result does not matter: the turn's end counts, and the timeout covers its absence.
            let asking = async {
                if let Err(error) = connection.interrupt().await {
                    tracing::debug!(%error, "the agent did not answer an interrupt");
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = asking => {}
                () = grace => {}
            }
            SessionInput::AgentTask(AgentTaskEvent::InterruptTimedOut { attempt, interrupt })
        });
    }

    pub(super) fn close(&mut self, mode: CloseMode, ctx: &mut SessionContext) {
        let attempt = self.attempt;
        ctx.host.agents.unregister_running(&ctx.session.uri);
        match std::mem::take(&mut self.state) {
            AgentState::Waiting { cancel } => {
                cancel.cancel();
                self.state = AgentState::Closing(None);
            }
            AgentState::Opening { cancel, lease, .. } => {
                cancel.cancel();
                self.state = AgentState::Closing(Some(lease));
            }
            AgentState::Live(live) => {
                self.state = AgentState::Closing(Some(live.lease));
                ctx.tasks.spawn(async move {
                    live.connection.close(mode).await;
                    SessionInput::AgentTask(AgentTaskEvent::Closed { attempt })
                });
            }
            other => {
                self.state = other;
                ctx.tasks.spawn(async move { SessionInput::AgentTask(AgentTaskEvent::Closed { attempt }) });
            }
        }
    }

    /// Handles that a task has finished.
    pub(super) async fn finish_task(
        &mut self,
        event: AgentTaskEvent,
        machine: &TurnMachine,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        match event {
            AgentTaskEvent::SlotAcquired { attempt, slot } if attempt == self.attempt => self.use_slot(slot, ctx),
            AgentTaskEvent::Opened { attempt, result } => self.finish_opening(attempt, result, machine, ctx).await,
            AgentTaskEvent::FolderAssessed { attempt, purpose, trust_version: version, assessment } => {
                vec![SessionEffect::Folder(attempt, FolderEvent::Assessed { purpose, version, assessment })]
            }
            AgentTaskEvent::OpenCancelled { attempt } | AgentTaskEvent::Closed { attempt }
                if attempt == self.attempt =>
            {
                self.finish_closing()
            }
            AgentTaskEvent::MessageLoaded { attempt, message } => {
                self.send_loaded(message, attempt == self.attempt, machine, ctx)
            }
            AgentTaskEvent::PromptSent { attempt, result } => {
                if let Err(error) = result {
                    tracing::debug!(attempt, %error, "failed to write a prompt; the agent is ending");
                }
                if attempt != self.attempt {
                    return Vec::new();
                }
                self.prompt_in_flight = false;
                vec![SessionEffect::Messages(MessageEvent::DeliverSteering)]
            }
            AgentTaskEvent::SettingsApplied { attempt, settings, result } if self.is_live(attempt) => {
                vec![SessionEffect::Turn(self.finish_applying_settings(settings, result, ctx))]
            }
            AgentTaskEvent::AnswerSent { result } => {
                if let Err(error) = result {
                    tracing::debug!(%error, "failed to send an answer to the agent");
                }
                Vec::new()
            }
            AgentTaskEvent::ImagesRemoved { result } => {
                vec![SessionEffect::ImageRemoval(ImageRemovalEvent::Removed(result))]
            }
            AgentTaskEvent::PermissionModeApplied { attempt, mode, result } => {
                let is_current = self.is_live(attempt);
                self.step_modes(ModeEvent::Answered { mode, result, is_current }, ctx).await
            }
            AgentTaskEvent::InterruptTimedOut { attempt, interrupt }
                if (attempt, interrupt) == (self.attempt, self.interrupt_count) =>
            {
                vec![SessionEffect::Turn(TurnInput::InterruptTimedOut)]
            }
            // Results of an earlier agent.
            AgentTaskEvent::SlotAcquired { .. }
            | AgentTaskEvent::OpenCancelled { .. }
            | AgentTaskEvent::Closed { .. }
            | AgentTaskEvent::SettingsApplied { .. }
            | AgentTaskEvent::InterruptTimedOut { .. } => Vec::new(),
        }
    }

    /// Handles that an agent was closed, or that its start was cancelled, and no process remains.
    pub(super) fn finish_closing(&mut self) -> Vec<SessionEffect> {
        self.state = AgentState::None;
        vec![
            SessionEffect::Background(BackgroundEvent::AgentEnded),
            SessionEffect::Messages(MessageEvent::AgentEnded),
            SessionEffect::ImageRemoval(ImageRemovalEvent::AgentEnded),
        ]
    }

    /// Handles that the process ended by itself. The driver has ended its process tree before.
    fn finish_exit(&mut self, status: &str, stderr: &StderrTail, ctx: &SessionContext) -> Vec<SessionEffect> {
        if !matches!(self.state, AgentState::Live(_)) {
            return Vec::new();
        }
        self.state = AgentState::None;
        ctx.host.agents.unregister_running(&ctx.session.uri);
        let failure = TurnErrorDetails {
            error_type: "agentExited".to_owned(),
            message: format!(
                "The agent exited during the turn ({status}). Resume the turn, or send a message to continue."
            ),
            stderr: Some(stderr.as_str().to_owned()),
        };
        vec![
            SessionEffect::Background(BackgroundEvent::AgentEnded),
            SessionEffect::Turn(TurnInput::AgentExited(failure)),
            SessionEffect::Messages(MessageEvent::AgentEnded),
        ]
    }

    /// Sends an answer to the agent. Its effects arrive as events.
    fn answer(&self, request: AgentRequestId, answer: Answer, ctx: &mut SessionContext) {
        let Some((connection, _)) = self.connection() else { return };
        ctx.tasks.spawn(async move {
            let result = connection.answer(&request, answer).await;
            SessionInput::AgentTask(AgentTaskEvent::AnswerSent { result })
        });
    }

    /// Closes a stale agent once it is idle.
    pub(super) fn retire_if_stale(&self, machine: &TurnMachine) -> Vec<SessionEffect> {
        let is_idle = matches!(machine.agent_phase(), AgentPhase::Idle | AgentPhase::Opening);
        match self.is_stale && is_idle && *machine.turn_phase() == TurnPhase::None {
            true => vec![SessionEffect::Turn(TurnInput::RetireAgent)],
            false => Vec::new(),
        }
    }

    /// What the agent does.
    pub(super) fn activity(&self, machine: &TurnMachine, has_background: bool, has_requests: bool) -> AgentActivity {
        AgentActivity::new(machine, self.prewarm_spec().is_some(), has_background, has_requests)
    }

    /// Passes an event to the idle timer and carries out the effects.
    pub(super) async fn step_idle_timer(
        &mut self,
        event: IdleTimerEvent,
        activity: AgentActivity,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        let config = ctx.host.agents.pool().config;
        let mut effects = Vec::new();
        for effect in self.idle_timer.on(event, activity, &config) {
            match effect {
                IdleTimerEffect::ReleaseSlot => self.set_slot(None),
                IdleTimerEffect::ReportUse(usage) => self.slot.iter().for_each(|slot| slot.set_use(usage)),
                IdleTimerEffect::SetTimer(due) => {
                    let wait = due.map(|due| ctx.host.clock.sleep(due.saturating_sub(ctx.host.clock.monotonic())));
                    self.idle_wait = wait.map(Mutex::new);
                }
                IdleTimerEffect::Retire => effects.push(SessionEffect::Turn(TurnInput::RetireAgent)),
                IdleTimerEffect::RetireIfEvicting => {
                    if self.slot.as_ref().is_some_and(AgentSlot::is_evicting) {
                        effects.push(SessionEffect::Turn(TurnInput::RetireAgent));
                    }
                }
                IdleTimerEffect::RetireWithBackgroundWork => {
                    let time = format_duration(config.max_idle_timeout);
                    tracing::info!(session = &*ctx.session.uri, "closing an idle agent that has background work");
                    let text = format!("The agent was closed after {time}, and its background work has ended");
                    ctx.publish_output(&mut activity_action(Some(text)).into()).await;
                    effects.push(SessionEffect::Turn(TurnInput::RetireAgent));
                }
                IdleTimerEffect::AbortUnanswered => {
                    let time = format_duration(config.max_idle_timeout);
                    let message = format!(
                        "The agent was closed, because its request was not answered for {time}. Send a message to continue."
                    );
                    let failure = TurnErrorDetails { error_type: "unanswered".to_owned(), message, stderr: None };
                    effects.push(SessionEffect::Turn(TurnInput::AbortAndClose(failure)));
                }
                IdleTimerEffect::ReportStall => {
                    let mut output = ActionBuffer::default();
                    if let Some(transcript) = ctx.turn.mapper.as_mut() {
                        transcript.report_stall(&format_duration(config.stall_timeout), &mut output);
                    }
                    ctx.publish_output(&mut output).await;
                }
            }
        }
        effects
    }
}
