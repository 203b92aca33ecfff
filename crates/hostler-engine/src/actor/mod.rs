//! The session's actor: the one writer of a session.
//!
//! One loop, one [`Input`], one `match`. It checks preconditions at the moment of reducing, feeds the turn machine and
//! carries out its effects. It knows nothing of connections, JSON-RPC or protocol versions.

mod agent;
mod agent_events;
mod agent_requests;
mod agent_settings;
mod agent_start;
mod answers;
mod background_output;
mod background_tasks;
mod budget_view;
mod completion_context;
mod dispatch;
mod external_sync;
mod external_turns;
mod folder_trust;
mod git_branch;
mod idle_timer;
mod image_removal;
mod importer;
mod local_commands;
mod message_delivery;
mod message_queue;
mod permission_mode;
mod presence;
mod prewarm;
mod publishing;
mod session_change;
mod sign_in_failure;
mod steering;
mod stop_question;
mod sub_agent_ends;
mod sub_agents;
mod transcript_metadata;
mod turn_lifecycle;
mod turn_resume;
mod unconfirmed_commands;
mod unload;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use ahp_types::state::SessionSummary;
use futures::StreamExt as _;
use hostler_driver::{
    AgentRequestId, BackgroundTask, DriverEvent, ExternalConversation, ImageSelection, Transcript, TranscriptStoreError,
};
use hostler_rules::PermissionMode;
use hostler_store::{AuditEntry, Batch, BatchDurability, CatalogChange, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use uuid::Uuid;

use self::agent::{AgentTaskEvent, SessionAgent};
pub use self::background_output::BackgroundOutput;
use self::background_tasks::StopTaskResult;
use self::budget_view::BudgetView;
use self::external_sync::ExternalSync;
use self::idle_timer::{IdleTimer, IdleTimerEvent};
use self::image_removal::{ImageRemovalResult, PendingImageRemoval};
use self::importer::Importer;
use self::local_commands::{LocalCommandEvent, LocalCommandRun};
use self::stop_question::StopQuestion;
use self::sub_agents::ActiveSubAgents;
use self::unload::Quiescence;
pub(crate) use self::unload::{DisposeFailure, DisposeResult, DisposedSession};
use crate::action_mapper::{ActionMapper, TurnErrorDetails};
use crate::attachments::ChatView;
use crate::broadcaster::Subscriber;
use crate::completion::CompletionContext;
use crate::external_sessions::{ExternalSession, ImportBatch};
use crate::host::Host;
use crate::paging::SnapshotTurns;
use crate::pending_requests::PendingRequests;
use crate::session::{Dispatch, Session};
use crate::session_gate::{GateDirectories, SessionGate};
use crate::session_record::SessionRecord;
use crate::turn::{TurnEndReason, TurnInput, TurnMachine, TurnPhase};
use crate::{EngineError, config, session_restore};

/// How many requests may wait for one session.
const MAILBOX_CAPACITY: usize = 256;

/// How often a session that stops tries to store the end of its turn, after the store has refused it.
const MAX_SHUTDOWN_STORE_ATTEMPTS: u32 = 3;

/// Everything that can happen to a session.
pub(crate) enum SessionInput {
    /// A client wants something.
    Dispatch(Box<Dispatch>),
    /// A client wants to hear a channel.
    Subscribe(SubscribeRequest),
    /// Somebody asks whether a channel is this session's.
    HasChannel(String, oneshot::Sender<bool>),
    /// Somebody looks at a chat.
    ViewChat(String, oneshot::Sender<Option<ChatView>>),
    /// The line in the list is due.
    PublishSummary,
    /// A client's time to come back is over.
    ClientReconnectTimeout(String),
    /// A client has left.
    ClientLeft(String),
    /// The agent did something.
    AgentEvent(DriverEvent),
    /// Something that was started for the agent is finished.
    AgentTask(AgentTaskEvent),
    /// The gate has decided something.
    GateDecided(AuditEntry),
    /// The host's rules have changed.
    RulesChanged,
    /// A decision about a folder was made.
    TrustChanged,
    /// The agent has been at rest for long enough, or its seat is wanted.
    IdleTimer(IdleTimerEvent),
    /// Nobody has answered a request in time.
    RequestTimedOut(AgentRequestId),
    /// The session has used something, a limit was changed, or a request waits or goes on.
    BudgetChanged,
    /// The totals have been gathered long enough.
    PublishBudget,
    /// A queued message could not be started; try again.
    RetryQueue,
    /// The turn's end could not be stored; try again.
    RetryTurnEnd(String, TurnEndReason<TurnErrorDetails>),
    /// The ends of sub-agents could not be stored; try again.
    RetrySubAgentEnds,
    /// Somebody wants a piece of background work to end.
    StopBackgroundTask(String, oneshot::Sender<StopTaskResult>),
    /// Somebody wants to see what a piece of background work has written.
    ReadBackgroundOutput(String, oneshot::Sender<Result<BackgroundOutput, EngineError>>),
    /// Somebody wants pictures out of the conversation.
    RemoveImages(ImageSelection, oneshot::Sender<ImageRemovalResult>),
    /// Somebody who is typing in a chat wants to know what can be offered.
    CompletionContext(String, oneshot::Sender<Option<CompletionContext>>),
    /// A person's command has printed something, or is over.
    LocalCommand(LocalCommandEvent),
    /// It is time to look whether somebody else is still in the middle of a turn.
    PollTranscript,
    /// It was read, or could not be.
    TranscriptOpened(Result<Arc<dyn Transcript>, TranscriptStoreError>),
    /// Older turns of the agent's record are told, or cannot be at the moment.
    OlderTurnsLoaded(Result<Box<ImportBatch>, TranscriptStoreError>),
    /// It is time to try older turns again.
    RetryImport,
    /// The agent's record of the conversation looks like this now.
    TranscriptChanged(Box<ExternalConversation>),
    /// A person has put a tag on the session, or taken it off.
    TagChanged(Option<String>),
    /// Git has said which branch the directory is on.
    GitBranchRead(Option<String>),
    /// Forget the session.
    Dispose(oneshot::Sender<DisposeResult>),
    /// The host is going down.
    Shutdown(oneshot::Sender<()>),
}

/// A subscription on its way through the actor.
pub(crate) struct SubscribeRequest {
    pub(crate) channel: String,
    pub(crate) extent: SnapshotTurns,
    pub(crate) subscriber: Subscriber,
    pub(crate) token: u64,
    pub(crate) reply: oneshot::Sender<Result<(), EngineError>>,
}

/// Where a session comes from.
#[derive(Clone)]
pub(crate) enum SessionSource {
    /// Just created.
    Provisional(Box<Session>),
    /// Known to the store.
    Stored { uri: Arc<str>, listed: bool },
    /// Known to its agent alone.
    External { uri: Arc<str>, external: Box<ExternalSession> },
}

impl SessionSource {
    fn uri(&self) -> &Arc<str> {
        match self {
            Self::Provisional(session) => &session.uri,
            Self::Stored { uri, .. } | Self::External { uri, .. } => uri,
        }
    }
}

/// The way to a session's actor.
#[derive(Clone)]
pub(crate) struct SessionHandle {
    mailbox: mpsc::Sender<SessionInput>,
}

impl SessionHandle {
    /// Starts an actor. It ends by itself after a dispose or a shutdown.
    pub(crate) fn spawn(host: &Arc<Host>, origin: SessionSource) -> Self {
        let (mailbox, inputs) = mpsc::channel(MAILBOX_CAPACITY);
        let task_host = Arc::clone(host);
        host.tasks.spawn(async move { run_session(task_host, origin, inputs).await });
        Self { mailbox }
    }

    /// Sends without waiting. `false` if the session is too busy, or gone.
    pub(crate) fn try_send(&self, input: SessionInput) -> bool {
        self.mailbox.try_send(input).is_ok()
    }

    /// Whether nobody else can send anything.
    fn is_last_handle(&self) -> bool {
        self.mailbox.strong_count() == 1
    }

    pub(crate) async fn send(&self, input: SessionInput) -> Result<(), EngineError> {
        self.mailbox.send(input).await.map_err(|_| EngineError::Stopping)
    }
}

async fn run_session(host: Arc<Host>, origin: SessionSource, mut inputs: mpsc::Receiver<SessionInput>) {
    let (session, restored, chronicle) = match origin {
        SessionSource::Provisional(session) => (*session, false, None),
        SessionSource::Stored { uri, listed } => match load_session(&host, &uri, listed).await {
            Ok(session) => (session, true, None),
            Err(error) => {
                return unload::unload_unopened(&host, inputs, SessionSource::Stored { uri, listed }, &error).await;
            }
        },
        SessionSource::External { uri, external: found } => match importer::import_session(&host, &uri, &found).await {
            Ok((session, chronicle)) => (session, true, Some(chronicle)),
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
        home: host.permissions.home_directory.clone(),
        plans_directory: provider.and_then(|driver| driver.describe().plans_directory),
        host_directories: host.permissions.host_directories.clone(),
    };
    let name = session.config_value(config::PERMISSION_MODE).unwrap_or(config::DEFAULT_MODE);
    let mode = config::parse_mode(name, host.permissions.allow_bypass);
    let (gate, decisions) =
        SessionGate::new(places, Arc::clone(&host.rules), mode, session.rules.clone(), Arc::clone(&host.clock));
    let mut rules = host.rules_version.subscribe();
    let mut trust = host.trust_version.subscribe();
    let mut budget_changes = host.gateway.budget_changes(&session.uri).fuse();
    let head = session.queued_messages().first().map(|message| message.id.clone());
    let mut actor = SessionActor {
        host,
        session,
        gate,
        unwritten_decisions: decisions,
        pending_requests: PendingRequests::default(),
        background_tasks: HashMap::new(),
        sub_agents: ActiveSubAgents::default(),
        stop_question: None,
        folder_question_skipped: false,
        steer_in_driver: None,
        steer_load: None,
        image_removal: None,
        steer_load_count: 0,
        prompt_in_flight: false,
        sent_prompt_id: None,
        external_sync: ExternalSync::default(),
        importer: Importer::default(),
        title_set_beside_agent: false,
        tag_set_beside_agent: false,
        unwritten_records: Vec::new(),
        pending_mode_changes: VecDeque::new(),
        modes_in_flight: 0,
        reported_mode: None,
        machine: TurnMachine::restored(head),
        agent: SessionAgent::default(),
        idle_timer: IdleTimer::default(),
        local_commands: Vec::new(),
        turn_client_id: None,
        budget_view: BudgetView::default(),
        action_mapper: None,
        turn_started_at: Instant::now(),
        summary_scheduled: false,
        published_summary: None,
        tasks: JoinSet::new(),
    };
    if restored {
        actor.published_summary = Some(actor.session.summary());
        actor.clear_background_tasks().await;
        actor.end_interrupted_sub_agents().await;
        actor.end_interrupted_turn().await;
        actor.sync_on_open(chronicle.clone()).await;
        actor.resume_metadata_writes();
        actor.publish_queue_paused().await;
        actor.start_reconnect_timeouts().await;
    }
    actor.start_budget().await;
    actor.read_git_branch();
    actor.import_older_turns(chronicle);
    let mut calm = Quiescence::default();
    calm.record_input(&actor);
    loop {
        let input = tokio::select! {
            Some(input) = inputs.recv() => input,
            Some(event) = actor.agent.next_event() => SessionInput::AgentEvent(event),
            why = actor.idle_timer.next_event() => SessionInput::IdleTimer(why),
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
            Some(done) = actor.tasks.join_next(), if !actor.tasks.is_empty() => match done {
                Ok(input) => input,
                Err(error) => {
                    tracing::error!(%error, "a task of a session ended abnormally");
                    continue;
                }
            },
            else => break,
        };
        let moved = input.is_activity();
        if actor.handle_input(input).await.is_break() {
            break;
        }
        actor.write_unwritten_records().await;
        actor.retire_stale_agent().await;
        actor.update_idle_timer(moved);
        calm.record_input(&actor);
    }
    // Whoever waits for turns that were still to be taken in need not wait any longer.
    actor.host.unimported_turns.set_missing(&actor.session.chat_uri, 0);
}

async fn load_session(host: &Host, uri: &Arc<str>, listed: bool) -> Result<Session, EngineError> {
    let stored = host.store.load_session(uri).await?;
    let session = session_restore::restore_session(uri, listed, stored);
    let mut session = session.ok_or_else(|| EngineError::SessionNotFound(uri.to_string()))?;
    session.evict_turns(host.turns_in_memory);
    Ok(session)
}

pub(super) struct SessionActor {
    host: Arc<Host>,
    session: Session,
    machine: TurnMachine,
    agent: SessionAgent,
    idle_timer: IdleTimer,
    /// Decides on every call.
    gate: Arc<SessionGate>,
    /// What the gate has decided and nobody has written down yet.
    unwritten_decisions: mpsc::Receiver<AuditEntry>,
    /// What waits for a person.
    pending_requests: PendingRequests,
    /// What the agent does beside the turns.
    background_tasks: HashMap<String, BackgroundTask>,
    /// The sub-agents that work.
    sub_agents: ActiveSubAgents,
    /// What is asked about the work beside a turn that was stopped.
    stop_question: Option<StopQuestion>,
    /// A person has left the question about the folder open: its configuration is ignored and it is not asked again.
    folder_question_skipped: bool,
    /// The steering message that the driver holds for the agent.
    steer_in_driver: Option<String>,
    /// Contents of the steering message are being read back, by the number of the reading.
    steer_load: Option<u64>,
    steer_load_count: u64,
    /// Pictures that are on their way out of the conversation.
    image_removal: Option<PendingImageRemoval>,
    /// The turn's prompt is on its way to the agent, which has nothing yet that words could be folded into.
    prompt_in_flight: bool,
    /// By which id the agent's record will have that prompt, if it keeps it.
    sent_prompt_id: Option<Uuid>,
    /// Changes of the permission mode, in the order of the wishes; the agent has not taken the first one yet.
    pending_mode_changes: VecDeque<(Box<Dispatch>, PermissionMode)>,
    /// How many modes the agent was set to and has not answered.
    modes_in_flight: usize,
    /// The mode that the agent reported last while it was being set to another one.
    reported_mode: Option<String>,
    /// What others do in the conversation.
    external_sync: ExternalSync,
    /// How older turns of the record come in.
    importer: Importer,
    /// The session was given a name while an agent was there that may know an older one.
    title_set_beside_agent: bool,
    /// The same of a tag.
    tag_set_beside_agent: bool,
    /// What was sent to the agent and is not written down yet.
    unwritten_records: Vec<SessionRecord>,
    /// The commands of people that run.
    local_commands: Vec<LocalCommandRun>,
    /// The client that has started the turn.
    turn_client_id: Option<String>,
    budget_view: BudgetView,
    /// The running turn's parts.
    action_mapper: Option<ActionMapper>,
    turn_started_at: Instant,
    /// Whether the line in the list is about to be brought up to date.
    summary_scheduled: bool,
    /// The line in the list as clients were told last.
    published_summary: Option<SessionSummary>,
    /// Opening, sending, closing, timers. Each ends in an input; dropping the actor drops them all.
    tasks: JoinSet<SessionInput>,
}

type LoopControl = std::ops::ControlFlow<()>;

impl SessionActor {
    async fn handle_input(&mut self, input: SessionInput) -> LoopControl {
        match input {
            SessionInput::Dispatch(dispatch) => self.handle_dispatch(*dispatch).await,
            SessionInput::Subscribe(subscribe) => {
                self.resume_import();
                self.retry_sync_on_open();
                self.handle_subscribe(subscribe).await;
            }
            SessionInput::HasChannel(channel, reply) => {
                let chat = self.session.chat_by_uri(&channel).is_some();
                let _ =
                    reply.send(chat || channel == *self.session.uri || self.session.is_annotations_channel(&channel));
            }
            SessionInput::ViewChat(channel, reply) => {
                self.resume_import();
                let _ = reply.send(self.view_chat(&channel));
            }
            SessionInput::PublishSummary => self.publish_summary().await,
            SessionInput::ClientReconnectTimeout(client) => self.handle_reconnect_timeout(&client).await,
            SessionInput::ClientLeft(client) => self.remove_active_client(&client).await,
            SessionInput::AgentEvent(event) => self.handle_agent_events(event).await,
            SessionInput::AgentTask(news) => self.handle_agent_task(news).await,
            SessionInput::GateDecided(entry) => self.write_gate_decisions(entry).await,
            SessionInput::RulesChanged => self.reevaluate_pending_calls().await,
            SessionInput::TrustChanged => self.handle_trust_changed(),
            SessionInput::IdleTimer(why) => self.handle_idle_timer(why).await,
            SessionInput::RequestTimedOut(request) => self.handle_unanswered(&request).await,
            SessionInput::BudgetChanged => self.handle_budget_changed().await,
            SessionInput::PublishBudget => self.publish_scheduled_budget().await,
            SessionInput::RetryQueue => {
                let queue = self.queue_changed_input(false);
                self.drive(queue).await;
            }
            SessionInput::RetryTurnEnd(turn, end) => self.retry_turn_end(turn, end).await,
            SessionInput::RetrySubAgentEnds => self.retry_sub_agent_ends().await,
            SessionInput::StopBackgroundTask(id, reply) => self.stop_background_task(id, reply),
            SessionInput::ReadBackgroundOutput(id, reply) => self.read_background_output(&id, reply),
            SessionInput::RemoveImages(which, reply) => self.remove_images(which, reply).await,
            SessionInput::CompletionContext(channel, reply) => drop(reply.send(self.completion_context(&channel))),
            SessionInput::LocalCommand(news) => self.handle_local_command_event(news).await,
            SessionInput::PollTranscript => self.poll_transcript(),
            SessionInput::TranscriptOpened(read) => self.handle_transcript_opened(read).await,
            SessionInput::OlderTurnsLoaded(told) => self.handle_older_turns(told).await,
            SessionInput::RetryImport => self.retry_import(),
            SessionInput::TranscriptChanged(record) => self.handle_transcript_metadata(*record).await,
            SessionInput::TagChanged(tag) => self.handle_tag_changed(tag).await,
            SessionInput::GitBranchRead(branch) => self.publish_git_branch(branch).await,
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

    // ── The end ───────────────────────────────────────────────────────────────────────────────────────────────────

    /// Ends the turn as cancelled and the agent with everything it started.
    async fn stop_session(&mut self) {
        self.drive(TurnInput::Stop).await;
        if self.summary_scheduled {
            self.publish_summary().await;
        }
        let mut tries = MAX_SHUTDOWN_STORE_ATTEMPTS;
        while self.agent.has_process()
            || !self.local_commands.is_empty()
            || (tries > 0 && matches!(self.machine.turn_phase(), TurnPhase::Ending(_)))
        {
            let Some(done) = self.tasks.join_next().await else { break };
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
        self.tasks.shutdown().await;
        if let Ok(entry) = self.unwritten_decisions.try_recv() {
            self.write_gate_decisions(entry).await;
        }
    }

    // ── Small helpers ─────────────────────────────────────────────────────────────────────────────────────────────

    /// A batch of this session; memory only as long as the session is provisional.
    fn new_batch(&self, durability: BatchDurability) -> Batch {
        let durability = if self.session.is_stored { durability } else { BatchDurability::Memory };
        Batch::new(Some(Arc::clone(&self.session.uri)), durability)
    }

    async fn submit(&self, batch: Batch) {
        if let Err(error) = self.host.store.sequencer().submit(batch).await {
            tracing::debug!(%error, "a batch came too late");
        }
    }
}

/// The catalogue's row of a session.
pub(super) fn build_catalog_put(
    session: &Arc<str>,
    listed: bool,
    summary: &SessionSummary,
) -> Result<CatalogChange, StoreError> {
    let summary = serde_json::to_string(summary)
        .map_err(|error| StoreError::Database(format!("a summary cannot be encoded: {error}")))?;
    Ok(CatalogChange::Put { session: Arc::clone(session), listed, summary })
}
