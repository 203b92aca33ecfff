//! The session's actor: the one writer of a session.
//!
//! One loop, one [`Input`], one `match`. It checks preconditions at the moment of reducing, feeds the turn machine and
//! carries out its effects. It knows nothing of connections, JSON-RPC or protocol versions.

mod agent;
mod answers;
mod appending;
mod attendance;
mod background;
mod branch;
mod budget;
mod change;
mod delivery;
mod desk;
mod dispatch;
mod elsewhere;
mod events;
mod known;
mod leaving;
mod local;
mod mode;
mod naming;
mod opening;
mod output;
mod pictures;
mod policy;
mod queue;
mod rest;
mod resume;
mod sent;
mod sign_in;
mod steer;
mod stopping;
mod taking;
mod telling;
mod trust;
mod turns;
mod warm;
mod worker_ends;
mod workers;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use ahp_types::state::SessionSummary;
use futures::StreamExt as _;
use hostler_driver::{ArchiveError, BackgroundTask, Chronicle, DriverEvent, FoundConversation, Images, RequestId};
use hostler_rules::Mode;
use hostler_store::{AuditEntry, Batch, CatalogueChange, Durability, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use uuid::Uuid;

use self::agent::{Agent, AgentNews};
use self::background::Stopped;
use self::budget::Budget;
use self::elsewhere::Elsewhere;
use self::leaving::Calm;
pub(crate) use self::leaving::{Disposed, Forgotten, NotForgotten};
use self::local::{LocalNews, Run};
pub use self::output::BackgroundOutput;
use self::pictures::{Dropped, Dropping};
use self::rest::{Rest, RestOver};
use self::stopping::StopQuestion;
use self::taking::Taking;
use self::workers::Workers;
use crate::attach::View;
use crate::complete::Known;
use crate::desk::Desk;
use crate::found::{FoundSession, Piece};
use crate::gate::{Places, SessionGate};
use crate::host::Host;
use crate::hub::Subscriber;
use crate::paging::Extent;
use crate::record::Record;
use crate::session::{Dispatch, Session};
use crate::transcript::{Failure, Transcript};
use crate::turn::{End, Input as TurnInput, TurnMachine, TurnPhase};
use crate::{EngineError, config, restore};

/// How many requests may wait for one session.
const MAILBOX: usize = 256;

/// How often a session that stops tries to store the end of its turn, after the store has refused it.
const LAST_TRIES: u32 = 3;

/// Everything that can happen to a session.
pub(crate) enum Input {
    /// A client wants something.
    Dispatch(Box<Dispatch>),
    /// A client wants to hear a channel.
    Subscribe(Subscribe),
    /// Somebody asks whether a channel is this session's.
    Exists(String, oneshot::Sender<bool>),
    /// Somebody looks at a chat.
    View(String, oneshot::Sender<Option<View>>),
    /// The line in the list is due.
    Project,
    /// A client's time to come back is over.
    ClientDue(String),
    /// A client has left.
    ClientGone(String),
    /// The agent did something.
    Event(DriverEvent),
    /// Something that was started for the agent is finished.
    Agent(AgentNews),
    /// The gate has decided something.
    Decided(AuditEntry),
    /// The host's rules have changed.
    RulesChanged,
    /// A decision about a folder was made.
    TrustChanged,
    /// The agent has been at rest for long enough, or its seat is wanted.
    RestOver(RestOver),
    /// Nobody has answered a request in time.
    Unanswered(RequestId),
    /// The session has used something, a limit was changed, or a request waits or goes on.
    BudgetChanged,
    /// The totals have been gathered long enough.
    BudgetDue,
    /// A queued message could not be started; try again.
    QueueDue,
    /// The turn's end could not be stored; try again.
    RetryEnd(String, End<Failure>),
    /// The ends of sub-agents could not be stored; try again.
    RetryWorkers,
    /// Somebody wants a piece of background work to end.
    StopWork(String, oneshot::Sender<Stopped>),
    /// Somebody wants to see what a piece of background work has written.
    WorkOutput(String, oneshot::Sender<Result<BackgroundOutput, EngineError>>),
    /// Somebody wants pictures out of the conversation.
    DropImages(Images, oneshot::Sender<Dropped>),
    /// Somebody who is typing in a chat wants to know what can be offered.
    Known(String, oneshot::Sender<Option<Known>>),
    /// A person's command has printed something, or is over.
    Local(LocalNews),
    /// It is time to look whether somebody else is still in the middle of a turn.
    LookAgain,
    /// It was read, or could not be.
    RecordRead(Result<Arc<dyn Chronicle>, ArchiveError>),
    /// Older turns of the agent's record are told, or cannot be at the moment.
    Told(Result<Box<Piece>, ArchiveError>),
    /// It is time to try older turns again.
    TellAgain,
    /// The agent's record of the conversation looks like this now.
    Record(Box<FoundConversation>),
    /// A person has put a tag on the session, or taken it off.
    Tagged(Option<String>),
    /// Git has said which branch the directory is on.
    Branch(Option<String>),
    /// Forget the session.
    Dispose(oneshot::Sender<Disposed>),
    /// The host is going down.
    Shutdown(oneshot::Sender<()>),
}

/// A subscription on its way through the actor.
pub(crate) struct Subscribe {
    pub(crate) channel: String,
    pub(crate) extent: Extent,
    pub(crate) subscriber: Subscriber,
    pub(crate) token: u64,
    pub(crate) reply: oneshot::Sender<Result<(), EngineError>>,
}

/// Where a session comes from.
#[derive(Clone)]
pub(crate) enum Origin {
    /// Just created.
    Provisional(Box<Session>),
    /// Known to the store.
    Stored { uri: Arc<str>, listed: bool },
    /// Known to its agent alone.
    Found { uri: Arc<str>, found: Box<FoundSession> },
}

impl Origin {
    fn uri(&self) -> &Arc<str> {
        match self {
            Self::Provisional(session) => &session.uri,
            Self::Stored { uri, .. } | Self::Found { uri, .. } => uri,
        }
    }
}

/// The way to a session's actor.
#[derive(Clone)]
pub(crate) struct SessionHandle {
    mailbox: mpsc::Sender<Input>,
}

impl SessionHandle {
    /// Starts an actor. It ends by itself after a dispose or a shutdown.
    pub(crate) fn spawn(host: &Arc<Host>, origin: Origin) -> Self {
        let (mailbox, inputs) = mpsc::channel(MAILBOX);
        let task_host = Arc::clone(host);
        host.tasks.spawn(async move { run(task_host, origin, inputs).await });
        Self { mailbox }
    }

    /// Sends without waiting. `false` if the session is too busy, or gone.
    pub(crate) fn try_send(&self, input: Input) -> bool {
        self.mailbox.try_send(input).is_ok()
    }

    /// Whether nobody else can send anything.
    fn is_the_only_one(&self) -> bool {
        self.mailbox.strong_count() == 1
    }

    pub(crate) async fn send(&self, input: Input) -> Result<(), EngineError> {
        self.mailbox.send(input).await.map_err(|_| EngineError::Stopping)
    }
}

async fn run(host: Arc<Host>, origin: Origin, mut inputs: mpsc::Receiver<Input>) {
    let (session, restored, chronicle) = match origin {
        Origin::Provisional(session) => (*session, false, None),
        Origin::Stored { uri, listed } => match load(&host, &uri, listed).await {
            Ok(session) => (session, true, None),
            Err(error) => return leaving::give_back(&host, inputs, Origin::Stored { uri, listed }, &error).await,
        },
        Origin::Found { uri, found } => match taking::take_in(&host, &uri, &found).await {
            Ok((session, chronicle)) => (session, true, Some(chronicle)),
            Err(error) => return leaving::give_back(&host, inputs, Origin::Found { uri, found }, &error).await,
        },
    };
    let provider = host.drivers.get(&session.session.provider);
    let places = Places {
        directory: session.working_directory().unwrap_or_default(),
        home: host.permissions.home.clone(),
        plans: provider.and_then(|driver| driver.describe().plans),
        own: host.permissions.own_directories.clone(),
    };
    let name = session.config(config::PERMISSION_MODE).unwrap_or(config::DEFAULT_MODE);
    let mode = config::mode(name, host.permissions.allow_bypass);
    let (gate, decisions) =
        SessionGate::new(places, Arc::clone(&host.rules), mode, session.rules.clone(), Arc::clone(&host.clock));
    let mut rules = host.rules_version.subscribe();
    let mut trust = host.trust_version.subscribe();
    let mut budget_changes = host.gateway.budget_changes(&session.uri).fuse();
    let head = session.queue().first().map(|message| message.id.clone());
    let mut actor = Actor {
        host,
        session,
        gate,
        decisions,
        desk: Desk::default(),
        beside: HashMap::new(),
        workers: Workers::default(),
        stop_question: None,
        folder_skipped: false,
        handed: None,
        loading: None,
        dropping: None,
        readings: 0,
        unsent: false,
        prompted: None,
        elsewhere: Elsewhere::default(),
        taking: Taking::default(),
        named_beside: false,
        tagged_beside: false,
        unwritten: Vec::new(),
        changing: VecDeque::new(),
        modes_in_flight: 0,
        reported_mode: None,
        machine: TurnMachine::restored(head),
        agent: Agent::default(),
        rest: Rest::default(),
        runs: Vec::new(),
        asked_by: None,
        budget: Budget::default(),
        transcript: None,
        turn_started: Instant::now(),
        summary_due: false,
        told: None,
        tasks: JoinSet::new(),
    };
    if restored {
        actor.told = Some(actor.session.summary());
        actor.nothing_beside().await;
        actor.end_interrupted_workers().await;
        actor.end_interrupted_turn().await;
        actor.first_look(chronicle.clone()).await;
        actor.write_what_is_due();
        actor.tell_queue().await;
        actor.expect_clients().await;
    }
    actor.begin_budget().await;
    actor.look_at_branch();
    actor.tell_older(chronicle);
    let mut calm = Calm::default();
    calm.after_input(&actor);
    loop {
        let input = tokio::select! {
            Some(input) = inputs.recv() => input,
            Some(event) = actor.agent.next_event() => Input::Event(event),
            why = actor.rest.over() => Input::RestOver(why),
            Some(entry) = actor.decisions.recv() => Input::Decided(entry),
            Ok(()) = rules.changed() => Input::RulesChanged,
            Ok(()) = trust.changed() => Input::TrustChanged,
            Some(()) = budget_changes.next() => Input::BudgetChanged,
            () = calm.over() => {
                if calm.was_kept(&actor) && actor.goes_back(&inputs).await {
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
        let moved = input.moves();
        if actor.handle(input).await.is_break() {
            break;
        }
        actor.write_sent().await;
        actor.retire_stale().await;
        actor.take_stock(moved);
        calm.after_input(&actor);
    }
    // Whoever waits for turns that were still to be taken in need not wait any longer.
    actor.host.untold.set(&actor.session.chat_uri, 0);
}

async fn load(host: &Host, uri: &Arc<str>, listed: bool) -> Result<Session, EngineError> {
    let stored = host.store.session(uri).await?;
    let session = restore::session(uri, listed, stored);
    let mut session = session.ok_or_else(|| EngineError::SessionNotFound(uri.to_string()))?;
    session.trim(host.turns_in_memory);
    Ok(session)
}

pub(super) struct Actor {
    host: Arc<Host>,
    session: Session,
    machine: TurnMachine,
    agent: Agent,
    rest: Rest,
    /// Decides on every call.
    gate: Arc<SessionGate>,
    /// What the gate has decided and nobody has written down yet.
    decisions: mpsc::Receiver<AuditEntry>,
    /// What waits for a person.
    desk: Desk,
    /// What the agent does beside the turns.
    beside: HashMap<String, BackgroundTask>,
    /// The sub-agents that work.
    workers: Workers,
    /// What is asked about the work beside a turn that was stopped.
    stop_question: Option<StopQuestion>,
    /// A person has left the question about the folder open: its configuration is ignored and it is not asked again.
    folder_skipped: bool,
    /// The steering message that the driver holds for the agent.
    handed: Option<String>,
    /// Contents of the steering message are being read back, by the number of the reading.
    loading: Option<u64>,
    readings: u64,
    /// Pictures that are on their way out of the conversation.
    dropping: Option<Dropping>,
    /// The turn's prompt is on its way to the agent, which has nothing yet that words could be folded into.
    unsent: bool,
    /// By which id the agent's record will have that prompt, if it keeps it.
    prompted: Option<Uuid>,
    /// Changes of the permission mode, in the order of the wishes; the agent has not taken the first one yet.
    changing: VecDeque<(Box<Dispatch>, Mode)>,
    /// How many modes the agent was set to and has not answered.
    modes_in_flight: usize,
    /// The mode that the agent reported last while it was being set to another one.
    reported_mode: Option<String>,
    /// What others do in the conversation.
    elsewhere: Elsewhere,
    /// How older turns of the record come in.
    taking: Taking,
    /// The session was given a name while an agent was there that may know an older one.
    named_beside: bool,
    /// The same of a tag.
    tagged_beside: bool,
    /// What was sent to the agent and is not written down yet.
    unwritten: Vec<Record>,
    /// The commands of people that run.
    runs: Vec<Run>,
    /// The client that has started the turn.
    asked_by: Option<String>,
    budget: Budget,
    /// The running turn's parts.
    transcript: Option<Transcript>,
    turn_started: Instant,
    /// Whether the line in the list is about to be brought up to date.
    summary_due: bool,
    /// The line in the list as clients were told last.
    told: Option<SessionSummary>,
    /// Opening, sending, closing, timers. Each ends in an input; dropping the actor drops them all.
    tasks: JoinSet<Input>,
}

type Flow = std::ops::ControlFlow<()>;

impl Actor {
    async fn handle(&mut self, input: Input) -> Flow {
        match input {
            Input::Dispatch(dispatch) => self.dispatch(*dispatch).await,
            Input::Subscribe(subscribe) => {
                self.want_older();
                self.reopened();
                self.subscribe(subscribe).await;
            }
            Input::Exists(channel, reply) => {
                let chat = self.session.chat_on(&channel).is_some();
                let _ = reply.send(chat || channel == *self.session.uri || self.session.is_annotations(&channel));
            }
            Input::View(channel, reply) => {
                self.want_older();
                let _ = reply.send(self.view(&channel));
            }
            Input::Project => self.publish_summary().await,
            Input::ClientDue(client) => self.client_due(&client).await,
            Input::ClientGone(client) => self.client_gone(&client).await,
            Input::Event(event) => self.events(event).await,
            Input::Agent(news) => self.agent_news(news).await,
            Input::Decided(entry) => self.decided(entry).await,
            Input::RulesChanged => self.review().await,
            Input::TrustChanged => self.trust_changed(),
            Input::RestOver(why) => self.rest_over(why).await,
            Input::Unanswered(request) => self.unanswered(&request).await,
            Input::BudgetChanged => self.budget_changed().await,
            Input::BudgetDue => self.budget_due().await,
            Input::QueueDue => {
                let queue = self.queue_now(false);
                self.drive(queue).await;
            }
            Input::RetryEnd(turn, end) => self.retry_end(turn, end).await,
            Input::RetryWorkers => self.retry_workers().await,
            Input::StopWork(id, reply) => self.stop_work(id, reply),
            Input::WorkOutput(id, reply) => self.work_output(&id, reply),
            Input::DropImages(which, reply) => self.drop_images(which, reply).await,
            Input::Known(channel, reply) => drop(reply.send(self.known(&channel))),
            Input::Local(news) => self.local_news(news).await,
            Input::LookAgain => self.look_again(),
            Input::RecordRead(read) => self.record_read(read).await,
            Input::Told(told) => self.told_older(told).await,
            Input::TellAgain => self.tell_again(),
            Input::Record(record) => self.record_is(*record).await,
            Input::Tagged(tag) => self.tagged(tag).await,
            Input::Branch(branch) => self.branch_is(branch).await,
            Input::Dispose(reply) => {
                let began = self.agent.is_there();
                self.stop().await;
                let _ = reply.send(self.forget(began).await);
                return Flow::Break(());
            }
            Input::Shutdown(reply) => {
                self.stop().await;
                let _ = reply.send(());
                return Flow::Break(());
            }
        }
        Flow::Continue(())
    }

    // ── The end ───────────────────────────────────────────────────────────────────────────────────────────────────

    /// Ends the turn as cancelled and the agent with everything it started.
    async fn stop(&mut self) {
        self.drive(TurnInput::Stop).await;
        if self.summary_due {
            self.publish_summary().await;
        }
        let mut tries = LAST_TRIES;
        while self.agent.is_there()
            || !self.runs.is_empty()
            || (tries > 0 && matches!(self.machine.turn(), TurnPhase::Ending(_)))
        {
            let Some(done) = self.tasks.join_next().await else { break };
            match done {
                Ok(Input::Agent(news)) => self.agent_news(news).await,
                Ok(Input::Local(news)) => self.local_news(news).await,
                Ok(Input::RetryEnd(turn, end)) => {
                    tries = tries.saturating_sub(1);
                    self.retry_end(turn, end).await;
                }
                _ => {}
            }
        }
        self.retry_workers().await;
        self.tasks.shutdown().await;
        if let Ok(entry) = self.decisions.try_recv() {
            self.decided(entry).await;
        }
    }

    // ── Small helpers ─────────────────────────────────────────────────────────────────────────────────────────────

    /// A batch of this session; memory only as long as the session is provisional.
    fn batch(&self, durability: Durability) -> Batch {
        let durability = if self.session.stored { durability } else { Durability::Memory };
        Batch::new(Some(Arc::clone(&self.session.uri)), durability)
    }

    async fn submit(&self, batch: Batch) {
        if let Err(error) = self.host.store.sequencer().submit(batch).await {
            tracing::debug!(%error, "a batch came too late");
        }
    }
}

/// The catalogue's row of a session.
pub(super) fn put(session: &Arc<str>, listed: bool, summary: &SessionSummary) -> Result<CatalogueChange, StoreError> {
    let summary = serde_json::to_string(summary)
        .map_err(|error| StoreError::Database(format!("a summary cannot be encoded: {error}")))?;
    Ok(CatalogueChange::Put { session: Arc::clone(session), listed, summary })
}
