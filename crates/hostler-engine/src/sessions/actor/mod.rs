//! The session's actor: the single writer of a session.
//!
//! One loop, one [`SessionInput`], one `match`. It checks preconditions at the moment of reducing, passes events to its
//! components and carries out their effects. It knows nothing of connections, JSON-RPC or protocol versions.
//!
//! | component | decides | effects are carried out in |
//! |---|---|---|
//! | `turn::TurnMachine` | turns and the agent's process | `turn_lifecycle` |
//! | [`PendingMessages`] | queue and steering slot | `message_delivery` |
//! | [`ModeChanges`] | changes of the permission mode | `agent_settings` |
//! | [`FolderTrust`] | trust in the folder | `folder_assessment` |
//! | [`BackgroundTasks`] | background work after a stop | `background_tasks` |
//! | `IdleTimer` of [`SessionAgent`] | when an unused agent closes | `agent` |
//! | [`ImageRemoval`] | when the transcript may be changed | `agent` |
//! | [`BudgetView`] | display of usage and limits | `budget_view` |
//!
//! A component owns its state and gets what it reads as a parameter. What it decides has no clock, I/O, channel or host.
//! What all of them share (state, publication, gate, tasks, the running turn) is in [`SessionContext`].

mod agent;
mod agent_events;
mod agent_requests;
mod agent_settings;
mod agent_start;
mod answers;
mod background_tasks;
mod background_work;
mod budget_view;
mod completion_context;
mod context;
mod dispatch;
mod external_sync;
mod external_turns;
mod folder_assessment;
mod folder_trust;
mod idle_timer;
mod image_removal;
mod importer;
mod local_turns;
mod message_delivery;
mod pending_messages;
mod permission_mode;
mod presence;
mod publishing;
mod session_change;
mod sub_agent_ends;
mod sub_agents;
mod transcript_metadata;
mod turn_failure;
mod turn_lifecycle;
mod turn_resume;
mod unload;

use std::sync::Arc;

use futures::StreamExt as _;
use hostler_driver::{AgentRequestId, DriverEvent, ExternalConversation, ImageSelection, TranscriptStoreError};
use hostler_store::AuditEntry;
use tokio::sync::{mpsc, oneshot};

use self::agent::{AgentTaskEvent, SessionAgent};
use self::agent_requests::PreparedRequest;
pub use self::background_tasks::BackgroundOutput;
use self::background_tasks::StopTaskResult;
use self::background_work::{BackgroundEvent, BackgroundTasks};
use self::budget_view::{BudgetEvent, BudgetView};
use self::context::SessionContext;
pub(crate) use self::context::build_catalog_put;
pub(crate) use self::external_sync::EXTERNAL_SYNC_POLL_INTERVAL;
use self::external_sync::SyncEvent;
use self::external_turns::SyncedTranscript;
use self::folder_trust::FolderTrust;
use self::idle_timer::IdleTimerEvent;
pub use self::image_removal::ImageRemovalError;
use self::image_removal::{ImageRemoval, ImageRemovalEvent, ImageRemovalResult};
use self::importer::Importer;
use self::local_turns::{LocalCommandEvent, LocalCommandRun};
use self::pending_messages::PendingMessages;
use self::permission_mode::ModeChanges;
use self::sub_agents::ActiveSubAgents;
use self::unload::Quiescence;
pub(crate) use self::unload::{DisposeFailure, DisposeResult, DisposedSession};
use crate::EngineError;
use crate::attachments::ChatView;
use crate::clients::broadcaster::Subscriber;
use crate::clients::completion::CompletionContext;
use crate::external_sessions::{ExternalSession, ImportBatch, SyncPass};
use crate::host::Host;
use crate::permissions::pending_requests::PendingRequests;
use crate::permissions::session_gate::{GateDirectories, SessionGate};
use crate::sessions::action_mapper::TurnErrorDetails;
use crate::sessions::config;
use crate::sessions::paging::{PreparedTurns, SnapshotTurns, StoredPart};
use crate::sessions::restore;
use crate::sessions::session::{Dispatch, Session};
use crate::sessions::turn::{TurnEndReason, TurnInput, TurnMachine, TurnPhase};

/// Maximum number of inputs that wait for one session.
const MAILBOX_CAPACITY: usize = 256;

/// How often a stopping session tries to store the end of its turn.
const MAX_SHUTDOWN_STORE_ATTEMPTS: u32 = 3;

/// Inputs of a session's actor.
pub(crate) enum SessionInput {
    /// A client's action.
    Dispatch(Box<Dispatch>),
    /// A client subscribes to a channel.
    Subscribe(SubscribeRequest),
    /// Asks whether a channel belongs to this session.
    HasChannel(String, oneshot::Sender<bool>),
    /// Asks for the current state of a chat.
    ViewChat(String, oneshot::Sender<Option<ChatView>>),
    /// The session summary is due for publication.
    PublishSummary,
    /// The time for a client to reconnect is over.
    ClientReconnectTimeout(String),
    /// A client has left the session.
    ClientLeft(String),
    /// An event of the agent.
    AgentEvent(DriverEvent),
    /// A task for the agent has finished.
    AgentTask(AgentTaskEvent),
    /// The gate has made a decision.
    GateDecided(AuditEntry),
    /// The host's rules have changed.
    RulesChanged,
    /// A trust decision was made.
    TrustChanged,
    /// The idle window has ended, or the pool needs the agent's slot.
    IdleTimer(IdleTimerEvent),
    /// What is displayed with a request was read, or its time limit is over.
    RequestPrepared(Box<PreparedRequest>),
    /// The unattended policy answers a request.
    RequestTimedOut(AgentRequestId),
    /// Usage, limits or waits for limits have changed.
    BudgetChanged,
    /// The totals are due for publication.
    PublishBudget,
    /// Starting a queued message failed; try again.
    RetryQueue,
    /// Storing the turn's end failed; try again.
    RetryTurnEnd(String, TurnEndReason<TurnErrorDetails>),
    /// Storing the ends of sub-agents failed; try again.
    RetrySubAgentEnds,
    /// Stops a piece of background work.
    StopBackgroundTask(String, oneshot::Sender<StopTaskResult>),
    /// Reads the output of a piece of background work.
    ReadBackgroundOutput(String, oneshot::Sender<Result<BackgroundOutput, EngineError>>),
    /// Removes images from the conversation.
    RemoveImages(ImageSelection, oneshot::Sender<ImageRemovalResult>),
    /// Asks for the completion context of a chat.
    CompletionContext(String, oneshot::Sender<Option<CompletionContext>>),
    /// Output or end of a local command.
    LocalCommand(LocalCommandEvent),
    /// A timer of the transcript sync has elapsed.
    Sync(Box<SyncEvent<Dispatch>>),
    /// A pass of the transcript sync has ended, or failed.
    SyncPassed(Box<Result<SyncPass, TranscriptStoreError>>),
    /// Older turns were loaded from the transcript, or loading failed.
    OlderTurnsLoaded(Result<Box<ImportBatch>, TranscriptStoreError>),
    /// Retries the import of older turns.
    RetryImport,
    /// The transcript has changed; its current metadata.
    TranscriptChanged(Box<ExternalConversation>),
    /// A person sets or removes the session's tag.
    SetTag(Option<String>, oneshot::Sender<Result<(), EngineError>>),
    /// The git branch of the directory was read.
    GitBranchRead(Option<String>),
    /// Deletes the session.
    Dispose(oneshot::Sender<DisposeResult>),
    /// The host is shutting down.
    Shutdown(oneshot::Sender<()>),
}

/// A subscription request for the actor.
pub(crate) struct SubscribeRequest {
    pub(crate) channel: String,
    pub(crate) extent: SnapshotTurns,
    pub(crate) subscriber: Subscriber,
    pub(crate) token: u64,
    /// What was read from the store for the snapshot.
    pub(crate) prepared: PreparedTurns,
    pub(crate) reply: oneshot::Sender<Result<SubscribeOutcome, EngineError>>,
}

/// Result of a subscription request.
pub(crate) enum SubscribeOutcome {
    /// The snapshot is in the subscriber's queue.
    Subscribed,
    /// This part has to be read from the store first; then the request is repeated.
    ReadFirst(StoredPart, PreparedTurns),
}

/// The source of a session.
#[derive(Clone)]
pub(crate) enum SessionSource {
    /// Newly created.
    Provisional(Box<Session>),
    /// In the store.
    Stored { uri: Arc<str>, listed: bool },
    /// Only in an agent's transcripts.
    External { uri: Arc<str>, external: Box<ExternalSession> },
}

impl SessionInput {
    /// Whether the input comes from the agent or a person; it restarts the window of an agent with a pending request.
    fn is_activity(&self) -> bool {
        matches!(self, Self::Dispatch(_) | Self::AgentEvent(_))
    }
}

impl SessionSource {
    fn uri(&self) -> &Arc<str> {
        match self {
            Self::Provisional(session) => &session.uri,
            Self::Stored { uri, .. } | Self::External { uri, .. } => uri,
        }
    }
}

/// A handle to a session's actor.
#[derive(Clone)]
pub(crate) struct SessionHandle {
    mailbox: mpsc::Sender<SessionInput>,
}

impl SessionHandle {
    /// Starts an actor. It ends after a dispose, an unload or a shutdown.
    pub(crate) fn spawn(host: &Arc<Host>, origin: SessionSource) -> Self {
        let (mailbox, inputs) = mpsc::channel(MAILBOX_CAPACITY);
        let task_host = Arc::clone(host);
        host.tasks.spawn(async move { run_session(task_host, origin, inputs).await });
        Self { mailbox }
    }

    /// Sends without waiting. `false` if the mailbox is full or the actor has ended.
    pub(crate) fn try_send(&self, input: SessionInput) -> bool {
        self.mailbox.try_send(input).is_ok()
    }

    /// Whether no other handle can send inputs.
    fn is_last_handle(&self) -> bool {
        self.mailbox.strong_count() == 1
    }

    pub(crate) async fn send(&self, input: SessionInput) -> Result<(), EngineError> {
        self.mailbox.send(input).await.map_err(|_| EngineError::Stopping)
    }
}

async fn run_session(host: Arc<Host>, origin: SessionSource, mut inputs: mpsc::Receiver<SessionInput>) {
    let (session, restored, transcript) = match origin {
        SessionSource::Provisional(session) => (*session, false, None),
        SessionSource::Stored { uri, listed } => match load_session(&host, &uri, listed).await {
            Ok(session) => (session, true, None),
            Err(error) => {
                return unload::unload_unopened(&host, inputs, SessionSource::Stored { uri, listed }, &error).await;
            }
        },
        SessionSource::External { uri, external: found } => match importer::import_session(&host, &uri, &found).await {
            Ok((session, transcript)) => (session, true, Some(transcript)),
            Err(error) => {
                return unload::unload_unopened(
                    &host,
                    inputs,
                    SessionSource::External { uri, external: found },
                    &error,
                )
                .await;
            }
        },
    };
    let provider = host.drivers.get(&session.session.provider);
    let places = GateDirectories {
        working_directory: session.working_directory().unwrap_or_default(),
        home: host.permissions.config.home_directory.clone(),
        plans_directory: provider.and_then(|driver| driver.describe().plans_directory),
        host_directories: host.permissions.config.host_directories.clone(),
    };
    let name = session.config_value(config::PERMISSION_MODE).unwrap_or(config::DEFAULT_MODE);
    let mode = config::parse_mode(name, host.permissions.config.allow_bypass);
    let (gate, decisions) = SessionGate::new(
        places,
        Arc::clone(&host.permissions.rules),
        mode,
        session.rules.clone(),
        Arc::clone(&host.clock),
    );
    let mut rules = host.permissions.rule_changes();
    let mut trust = host.permissions.trust_changes();
    let mut budget_changes = host.gateway.budget_changes(&session.uri).fuse();
    let head = session.queued_messages().first().map(|message| message.id.clone());
    let mut actor = SessionActor {
        ctx: SessionContext::new(host, session, gate),
        unwritten_decisions: decisions,
        pending_requests: PendingRequests::default(),
        background_tasks: BackgroundTasks::default(),
        sub_agents: ActiveSubAgents::default(),
        folder_trust: FolderTrust::default(),
        pending_messages: PendingMessages::default(),
        image_removal: ImageRemoval::default(),
        external: SyncedTranscript::default(),
        importer: Importer::default(),
        mode_changes: ModeChanges::default(),
        machine: TurnMachine::restored(head),
        agent: SessionAgent::default(),
        local_commands: Vec::new(),
        budget_view: BudgetView::default(),
    };
    if restored {
        actor.ctx.summary.published = Some(actor.ctx.session.summary());
        actor.step_background(BackgroundEvent::AgentEnded).await;
        actor.end_interrupted_sub_agents().await;
        actor.end_interrupted_turn().await;
        actor.sync_on_open(transcript.clone()).await;
        actor.publish_queue_paused().await;
        actor.start_reconnect_timeouts().await;
    }
    actor.budget_view.start(&mut actor.ctx).await;
    actor.ctx.read_git_branch();
    actor.import_older_turns(transcript);
    let mut calm = Quiescence::default();
    calm.record_input(&actor);
    loop {
        let input = tokio::select! {
            Some(input) = inputs.recv() => input,
            input = actor.agent.next_input() => input,
            Some(entry) = actor.unwritten_decisions.recv() => SessionInput::GateDecided(entry),
            Ok(()) = rules.changed() => SessionInput::RulesChanged,
            Ok(()) = trust.changed() => SessionInput::TrustChanged,
            Some(()) = budget_changes.next() => SessionInput::BudgetChanged,
            () = calm.elapsed() => {
                if calm.restart_if_quiet(&actor) && actor.try_unload(&inputs).await {
                    break;
                }
                continue;
            }
            Some(done) = actor.ctx.tasks.join_next(), if !actor.ctx.tasks.is_empty() => match done {
                Ok(input) => input,
                Err(error) if error.is_cancelled() => continue,
                Err(error) => {
                    tracing::error!(%error, "a task of a session panicked");
                    continue;
                }
            },
            else => break,
        };
        let moved = input.is_activity();
        if actor.handle_input(input).await.is_break() {
            break;
        }
        actor.retire_stale_agent().await;
        actor.update_idle_timer(moved).await;
        calm.record_input(&actor);
    }
    // Readers that wait for missing turns need not wait any longer.
    actor.ctx.host.unimported_turns.set_missing(&actor.ctx.session.chat_uri, 0);
}

async fn load_session(host: &Host, uri: &Arc<str>, listed: bool) -> Result<Session, EngineError> {
    let stored = host.store.load_session(uri).await?;
    let session = restore::restore_session(uri, listed, stored);
    let mut session = session.ok_or_else(|| EngineError::SessionNotFound(uri.to_string()))?;
    session.evict_turns(host.settings.turns_in_memory);
    Ok(session)
}

pub(super) struct SessionActor {
    ctx: SessionContext,
    machine: TurnMachine,
    agent: SessionAgent,
    /// Decisions of the gate that are not in the audit log yet.
    unwritten_decisions: mpsc::Receiver<AuditEntry>,
    /// Requests that wait for a person.
    pending_requests: PendingRequests,
    /// The agent's background work, and the question about it after a turn was stopped.
    background_tasks: BackgroundTasks,
    /// The running sub-agents.
    sub_agents: ActiveSubAgents,
    /// Trust in the session's folder.
    folder_trust: FolderTrust,
    /// The queue and the steering slot.
    pending_messages: PendingMessages,
    /// The removal of images from the transcript.
    image_removal: ImageRemoval<oneshot::Sender<ImageRemovalResult>>,
    /// Changes of the permission mode.
    mode_changes: ModeChanges<Box<Dispatch>>,
    /// The sync with turns of other processes.
    external: SyncedTranscript,
    /// The import of older turns.
    importer: Importer,
    /// The running local commands.
    local_commands: Vec<LocalCommandRun>,
    budget_view: BudgetView,
}

type LoopControl = std::ops::ControlFlow<()>;

impl SessionActor {
    async fn handle_input(&mut self, input: SessionInput) -> LoopControl {
        match input {
            SessionInput::Dispatch(dispatch) => self.handle_dispatch(*dispatch).await,
            SessionInput::Subscribe(subscribe) => {
                self.resume_import();
                self.sync_transcript(SyncEvent::Opened).await;
                self.handle_subscribe(subscribe).await;
            }
            SessionInput::HasChannel(channel, reply) => {
                let chat = self.ctx.session.chat_by_uri(&channel).is_some();
                let _ = reply.send(
                    chat || channel == *self.ctx.session.uri || self.ctx.session.is_annotations_channel(&channel),
                );
            }
            SessionInput::ViewChat(channel, reply) => {
                self.resume_import();
                let _ = reply.send(self.view_chat(&channel));
            }
            SessionInput::PublishSummary => self.ctx.publish_summary().await,
            SessionInput::ClientReconnectTimeout(client) => self.handle_reconnect_timeout(&client).await,
            SessionInput::ClientLeft(client) => self.remove_active_client(&client).await,
            SessionInput::AgentEvent(event) => self.handle_agent_events(event).await,
            SessionInput::AgentTask(news) => self.handle_agent_task(news).await,
            SessionInput::GateDecided(entry) => self.write_gate_decisions(entry).await,
            SessionInput::RulesChanged => self.reevaluate_pending_calls().await,
            SessionInput::TrustChanged => self.handle_trust_changed().await,
            SessionInput::IdleTimer(event) => self.step_idle_timer(event).await,
            SessionInput::RequestPrepared(prepared) => self.handle_request_prepared(*prepared).await,
            SessionInput::RequestTimedOut(request) => self.handle_unanswered(&request).await,
            SessionInput::BudgetChanged => self.budget_view.step(BudgetEvent::Changed, &mut self.ctx).await,
            SessionInput::PublishBudget => self.budget_view.step(BudgetEvent::PublishDue, &mut self.ctx).await,
            SessionInput::RetryQueue => {
                let queue = self.queue_changed_input(false);
                self.drive(queue).await;
            }
            SessionInput::RetryTurnEnd(turn, end) => self.retry_turn_end(turn, end).await,
            SessionInput::RetrySubAgentEnds => self.retry_sub_agent_ends().await,
            SessionInput::StopBackgroundTask(id, reply) => self.stop_background_task(id, reply),
            SessionInput::ReadBackgroundOutput(id, reply) => self.read_background_output(&id, reply),
            SessionInput::RemoveImages(images, requester) => {
                self.step_image_removal(ImageRemovalEvent::Requested { images, requester }).await;
            }
            SessionInput::CompletionContext(channel, reply) => {
                drop(reply.send(CompletionContext::new(&self.ctx.session, &channel)));
            }
            SessionInput::LocalCommand(news) => self.handle_local_command_event(news).await,
            SessionInput::Sync(event) => self.step_sync(*event).await,
            SessionInput::SyncPassed(pass) => self.handle_sync_passed(*pass).await,
            SessionInput::OlderTurnsLoaded(loaded) => self.handle_older_turns(loaded).await,
            SessionInput::RetryImport => self.retry_import(),
            SessionInput::TranscriptChanged(record) => self.handle_transcript_changed(*record).await,
            SessionInput::SetTag(tag, reply) => {
                self.set_tag(tag).await;
                let _ = reply.send(Ok(()));
            }
            SessionInput::GitBranchRead(branch) => self.ctx.publish_git_branch(branch).await,
            SessionInput::Dispose(reply) => {
                let began = self.agent.has_process();
                self.stop_session().await;
                let _ = reply.send(self.dispose_session(began).await);
                return LoopControl::Break(());
            }
            SessionInput::Shutdown(reply) => {
                self.stop_session().await;
                let _ = reply.send(());
                return LoopControl::Break(());
            }
        }
        LoopControl::Continue(())
    }

    // ── Shutdown ──────────────────────────────────────────────────────────────────────────────────────────────────

    /// Ends the turn as cancelled, and the agent with its whole process tree.
    async fn stop_session(&mut self) {
        self.drive(TurnInput::Stop).await;
        if self.ctx.summary.is_scheduled {
            self.ctx.publish_summary().await;
        }
        let mut tries = MAX_SHUTDOWN_STORE_ATTEMPTS;
        while self.agent.has_process()
            || !self.local_commands.is_empty()
            || (tries > 0 && matches!(self.machine.turn_phase(), TurnPhase::Ending(_)))
        {
            let Some(done) = self.ctx.tasks.join_next().await else { break };
            match done {
                Ok(SessionInput::AgentTask(news)) => self.handle_agent_task(news).await,
                Ok(SessionInput::LocalCommand(news)) => self.handle_local_command_event(news).await,
                Ok(SessionInput::RetryTurnEnd(turn, end)) => {
                    tries = tries.saturating_sub(1);
                    self.retry_turn_end(turn, end).await;
                }
                _ => {}
            }
        }
        self.retry_sub_agent_ends().await;
        self.ctx.tasks.shutdown().await;
        if let Ok(entry) = self.unwritten_decisions.try_recv() {
            self.write_gate_decisions(entry).await;
        }
    }
}
