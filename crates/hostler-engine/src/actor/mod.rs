//! The session's actor: the one writer of a session.
//!
//! One loop, one [`Input`], one `match`. It checks preconditions at the moment of reducing, feeds the turn machine and
//! carries out its effects. It knows nothing of connections, JSON-RPC or protocol versions.

mod agent;
mod budget;
mod change;
mod desk;
mod dispatch;
mod mode;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahp_types::StateAction;
use ahp_types::actions::{SessionActiveClientRemovedAction, SessionIsReadChangedAction};
use ahp_types::state::{SessionStatus, SessionSummary};
use futures::StreamExt as _;
use hostler_driver::{ApiErrorCategory, DriverEvent, RequestId, TurnCause, TurnFailure};
use hostler_rules::Mode;
use hostler_store::{AuditEntry, Batch, CatalogueChange, Durability, Entry, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use self::agent::{Agent, AgentNews};
use self::budget::Budget;
use self::change::Change;
use crate::catalogue::difference;
use crate::desk::Desk;
use crate::gate::{Places, SessionGate, UNWRITTEN};
use crate::host::Host;
use crate::hub::{ChannelState, NoticeKind, Subscriber};
use crate::record::Record;
use crate::session::{Dispatch, Session};
use crate::transcript::{Failure, Output, Transcript, error};
use crate::turn::{Effect, End, Input as TurnInput, TurnMachine};
use crate::{EngineError, config, restore, uri};

/// How many requests may wait for one session.
const MAILBOX: usize = 256;

/// How many events that are waiting already are looked at together.
const MERGE: usize = 256;

/// How long to wait before a turn's end is stored again after a failure.
const END_RETRY: Duration = Duration::from_millis(500);

/// How long changes of the line in the list are gathered.
const SUMMARY_DELAY: Duration = Duration::from_millis(100);

/// Everything that can happen to a session.
pub(crate) enum Input {
    /// A client wants something.
    Dispatch(Box<Dispatch>),
    /// A client wants to hear a channel.
    Subscribe(Subscribe),
    /// Somebody asks whether a channel is this session's.
    Exists(String, oneshot::Sender<bool>),
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
    /// Nobody has answered a request in time.
    Unanswered(RequestId),
    /// The session has used something, a limit was changed, or a request waits or goes on.
    BudgetChanged,
    /// The totals have been gathered long enough.
    BudgetDue,
    /// The turn's end could not be stored; try again.
    RetryEnd(String, End<Failure>),
    /// Forget the session.
    Dispose(oneshot::Sender<Disposed>),
    /// The host is going down.
    Shutdown(oneshot::Sender<()>),
}

/// A subscription on its way through the actor.
pub(crate) struct Subscribe {
    pub(crate) channel: String,
    pub(crate) subscriber: Subscriber,
    pub(crate) token: u64,
    pub(crate) reply: oneshot::Sender<Result<(), EngineError>>,
}

/// How a dispose went: the session is gone, or the store could not forget it and it is only at rest.
pub(crate) type Disposed = Result<(), NotForgotten>;

/// A session that the store could not forget.
pub(crate) struct NotForgotten {
    pub(crate) listed: bool,
    pub(crate) error: StoreError,
}

/// Where a session comes from.
pub(crate) enum Origin {
    /// Just created.
    Provisional(Box<Session>),
    /// Known to the store.
    Stored { uri: Arc<str>, listed: bool },
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

    pub(crate) async fn send(&self, input: Input) -> Result<(), EngineError> {
        self.mailbox.send(input).await.map_err(|_| EngineError::Stopping)
    }
}

async fn run(host: Arc<Host>, origin: Origin, mut inputs: mpsc::Receiver<Input>) {
    let (session, restored) = match origin {
        Origin::Provisional(session) => (*session, false),
        Origin::Stored { uri, listed } => match load(&host, &uri, listed).await {
            Ok(session) => (session, true),
            Err(error) => return refuse_all(inputs, &uri, &error).await,
        },
    };
    let provider = host.drivers.get(&session.session.provider);
    let places = Places {
        directory: session.working_directory().unwrap_or_default(),
        home: host.permissions.home.clone(),
        plans: provider.and_then(|driver| driver.describe().plans),
    };
    let name = session.config(config::PERMISSION_MODE).unwrap_or(config::DEFAULT_MODE);
    let mode = config::mode(name, host.permissions.allow_bypass);
    let (gate, decisions) = SessionGate::new(places, Arc::clone(&host.rules), mode, session.rules.clone());
    let mut budget_changes = host.gateway.budget_changes(&session.uri).fuse();
    let mut actor = Actor {
        host,
        session,
        gate,
        decisions,
        desk: Desk::default(),
        changing: None,
        machine: TurnMachine::default(),
        agent: Agent::default(),
        budget: Budget::default(),
        transcript: None,
        turn_started: Instant::now(),
        summary_due: false,
        told: None,
        tasks: JoinSet::new(),
    };
    if restored {
        actor.told = Some(actor.session.summary());
        actor.end_interrupted_turn().await;
        actor.expect_clients().await;
    }
    actor.begin_budget().await;
    loop {
        let input = tokio::select! {
            Some(input) = inputs.recv() => input,
            Some(event) = actor.agent.next_event() => Input::Event(event),
            Some(entry) = actor.decisions.recv() => Input::Decided(entry),
            Some(()) = budget_changes.next() => Input::BudgetChanged,
            Some(done) = actor.tasks.join_next(), if !actor.tasks.is_empty() => match done {
                Ok(input) => input,
                Err(error) => {
                    tracing::error!(%error, "a task of a session ended abnormally");
                    continue;
                }
            },
            else => break,
        };
        if actor.handle(input).await.is_break() {
            break;
        }
    }
}

async fn load(host: &Host, uri: &Arc<str>, listed: bool) -> Result<Session, EngineError> {
    let stored = host.store.session(uri).await?;
    restore::session(uri, listed, stored).ok_or_else(|| EngineError::SessionNotFound(uri.to_string()))
}

/// A session that cannot be loaded answers everything with the reason.
async fn refuse_all(mut inputs: mpsc::Receiver<Input>, uri: &str, error: &EngineError) {
    tracing::error!(session = uri, %error, "a stored session could not be loaded");
    while let Some(input) = inputs.recv().await {
        match input {
            Input::Subscribe(subscribe) => drop(subscribe.reply.send(Err(error.clone()))),
            Input::Exists(_, reply) => drop(reply.send(false)),
            Input::Dispose(reply) => {
                let _ = reply.send(Ok(()));
                return;
            }
            Input::Shutdown(reply) => {
                let _ = reply.send(());
                return;
            }
            _ => {}
        }
    }
}

pub(super) struct Actor {
    host: Arc<Host>,
    session: Session,
    machine: TurnMachine,
    agent: Agent,
    /// Decides on every call.
    gate: Arc<SessionGate>,
    /// What the gate has decided and nobody has written down yet.
    decisions: mpsc::Receiver<AuditEntry>,
    /// What waits for a person.
    desk: Desk,
    /// A change of the permission mode that the agent has not taken yet.
    changing: Option<(Box<Dispatch>, Mode)>,
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
            Input::Subscribe(subscribe) => self.subscribe(subscribe).await,
            Input::Exists(channel, reply) => {
                let _ = reply.send(channel == *self.session.uri || channel == *self.session.chat_uri);
            }
            Input::Project => self.publish_summary().await,
            Input::ClientDue(client) => self.client_due(&client).await,
            Input::ClientGone(client) => self.client_gone(&client).await,
            Input::Event(event) => self.events(event).await,
            Input::Agent(news) => self.agent_news(news).await,
            Input::Decided(entry) => self.decided(entry).await,
            Input::Unanswered(request) => self.unanswered(&request).await,
            Input::BudgetChanged => self.budget_changed().await,
            Input::BudgetDue => self.budget_due().await,
            Input::RetryEnd(turn, end) => {
                if self.end_turn(turn, end).await {
                    self.drive(TurnInput::EndStored).await;
                }
            }
            Input::Dispose(reply) => {
                self.stop().await;
                let _ = reply.send(self.forget().await);
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

    // ── The agent speaks ──────────────────────────────────────────────────────────────────────────────────────────

    /// Handles an event and whatever is waiting behind it. Nothing waits in order to be merged.
    async fn events(&mut self, first: DriverEvent) {
        let mut actions = Output::default();
        let mut next = Some(first);
        let mut left = MERGE;
        while let Some(event) = next.take() {
            match event {
                DriverEvent::TurnBegan(TurnCause::Prompt) => {}
                DriverEvent::TurnBegan(TurnCause::Agent(_)) => self.drive(TurnInput::BeganUnasked).await,
                DriverEvent::ResumeToken(token) => {
                    self.flush(&mut actions).await;
                    self.remember_token(token).await;
                }
                DriverEvent::TurnEnded(outcome) => {
                    self.flush(&mut actions).await;
                    self.drive(TurnInput::Ended(outcome)).await;
                }
                DriverEvent::Retrying { category: ApiErrorCategory::Auth, status, .. } => {
                    self.flush(&mut actions).await;
                    let message = "The model's provider refused the credential.".to_owned();
                    let failure = TurnFailure { category: ApiErrorCategory::Auth, message, status };
                    self.drive(TurnInput::GiveUp(failure.into())).await;
                }
                DriverEvent::Retrying { category: ApiErrorCategory::RateLimit, .. }
                    if let Some(failure) = self.refused_by_budget() =>
                {
                    self.flush(&mut actions).await;
                    self.drive(TurnInput::GiveUp(failure)).await;
                }
                DriverEvent::Gone { status, stderr } => {
                    self.flush(&mut actions).await;
                    self.agent_gone(status, &stderr).await;
                }
                DriverEvent::RequestWithdrawn(request) => {
                    self.flush(&mut actions).await;
                    self.withdrawn(&request).await;
                }
                asked @ (DriverEvent::PermissionRequested(_)
                | DriverEvent::QuestionsAsked(_)
                | DriverEvent::PlanProposed(_)) => {
                    self.flush(&mut actions).await;
                    match self.machine.step::<Failure>(TurnInput::Output).contains(&Effect::Show) {
                        true => self.asked(asked).await,
                        false => self.asked_too_late(asked),
                    }
                }
                output => {
                    let over = self.waits_although_over(&output);
                    for effect in self.machine.step::<Failure>(TurnInput::Output) {
                        if effect == Effect::Show
                            && let Some(transcript) = self.transcript.as_mut()
                        {
                            transcript.show(output, &mut actions);
                            break;
                        }
                    }
                    if let Some(call) = over {
                        self.flush(&mut actions).await;
                        self.overtaken(&call).await;
                    }
                }
            }
            left -= 1;
            if left > 0 {
                next = self.agent.waiting_event();
            }
        }
        self.flush(&mut actions).await;
    }

    /// Writes down what the gate has decided, and whatever is waiting behind it.
    async fn decided(&mut self, first: AuditEntry) {
        let mut entries = vec![first];
        while entries.len() < UNWRITTEN
            && let Ok(entry) = self.decisions.try_recv()
        {
            entries.push(entry);
        }
        self.write_down(entries).await;
    }

    async fn remember_token(&mut self, token: hostler_driver::ResumeToken) {
        if self.session.token.as_ref() == Some(&token) {
            return;
        }
        self.session.token = Some(token.clone());
        self.note(&Record::Resume { token }).await;
    }

    /// Appends a private fact.
    async fn note(&mut self, record: &Record) {
        match record.on(&self.session.chat_uri) {
            Ok(record) => {
                let batch = self.batch(Durability::Stream).record(record);
                self.submit(batch).await;
            }
            Err(error) => tracing::error!(%error, "a host record was skipped"),
        }
    }

    // ── The machine moves ─────────────────────────────────────────────────────────────────────────────────────────

    /// Feeds the machine and carries out what it says, until nothing follows.
    async fn drive(&mut self, input: TurnInput<Failure>) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for effect in self.machine.step(input) {
                match effect {
                    Effect::Open => self.open_agent().await,
                    Effect::Send(turn) => self.send_prompt(turn),
                    Effect::Show | Effect::Drop => {}
                    Effect::Interrupt => self.interrupt_agent(),
                    Effect::Close => self.close_agent(hostler_driver::CloseMode::Now),
                    Effect::CloseGracefully => self.close_agent(hostler_driver::CloseMode::Graceful),
                    Effect::End(turn, end) => {
                        if self.end_turn(turn, end).await {
                            inputs.push_back(TurnInput::EndStored);
                        }
                    }
                }
            }
        }
    }

    /// Stores and publishes a turn's end. `false` if the store refused; then it is tried again later.
    async fn end_turn(&mut self, turn: String, end: End<Failure>) -> bool {
        let duration = i64::try_from(self.turn_started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let mut output = Output::default();
        let shown = self.name_budget(end.clone());
        let transcript = self.transcript.get_or_insert_with(|| Transcript::new(turn.clone()));
        transcript.end(shown, duration, &mut output);
        self.clear_desk().await;
        let change = self.nothing_needed(Change::default().output(output));
        match self.commit(change).await {
            Ok(()) => {
                self.transcript = None;
                self.turn_left_the_line();
                self.tell_budget().await;
                self.mark_unread().await;
                self.project().await;
                self.save_snapshot().await;
                true
            }
            Err(error) => {
                tracing::error!(session = &*self.session.uri, %error, "a turn's end could not be stored yet");
                self.tasks.spawn(async move {
                    tokio::time::sleep(END_RETRY).await;
                    Input::RetryEnd(turn, end)
                });
                false
            }
        }
    }

    /// A turn that was running when the host died ends now.
    async fn end_interrupted_turn(&mut self) {
        let Some(turn) = self.session.chat.active_turn.as_ref().map(|turn| turn.id.clone()) else {
            self.project().await;
            return;
        };
        let failure = Failure {
            error_type: "interrupted".to_owned(),
            message: "The host stopped while this turn was running. Send a message to continue the conversation."
                .to_owned(),
            stderr: None,
        };
        let change = self.nothing_needed(Change::default().chat(error(turn, 0, failure)));
        if let Err(error) = self.commit(change).await {
            tracing::error!(%error, "an interrupted turn could not be ended");
        }
        // It was acknowledged, so it is listed, even if its agent never came up.
        if !self.session.listed
            && let Err(error) = self.announce().await
        {
            tracing::error!(%error, "an interrupted session could not be announced");
        }
        self.project().await;
    }

    // ── Telling the world ─────────────────────────────────────────────────────────────────────────────────────────

    /// `session/ready`, the catalogue's row and `root/sessionAdded`: once, after the handshake.
    async fn announce(&mut self) -> Result<(), StoreError> {
        if self.session.listed {
            return Ok(());
        }
        let ready = StateAction::SessionReady(ahp_types::actions::SessionReadyAction {});
        let summary = self.session.summary();
        let host = Arc::clone(&self.host);
        let added = summary.clone();
        let session_uri = Arc::clone(&self.session.uri);
        let batch = self
            .batch(Durability::Durable)
            .entry(Entry::new(Arc::clone(&self.session.uri), ready.clone())?)
            .catalogue(put(&self.session.uri, true, &summary)?)
            .then(move |_| {
                host.catalogue.put(&session_uri, added.clone());
                host.hub.notify(uri::ROOT, NoticeKind::SessionAdded(Box::new(added)));
            });
        self.host.store.sequencer().commit(batch).await?;
        let channel = Arc::clone(&self.session.uri);
        self.session.apply(&channel, &ready);
        self.session.listed = true;
        self.told = Some(summary);
        Ok(())
    }

    /// Brings the session's line about its chat up to date, and soon afterwards the session's line in the list.
    async fn project(&mut self) {
        if let Some(action) = self.session.chat_projection() {
            self.tell_session(action).await;
        }
        if self.session.listed {
            // Whoever asks for the list gets the truth; only the telling is gathered.
            self.host.catalogue.put(&self.session.uri, self.session.summary());
        }
        if self.session.stored && !self.summary_due {
            self.summary_due = true;
            self.tasks.spawn(async {
                tokio::time::sleep(SUMMARY_DELAY).await;
                Input::Project
            });
        }
    }

    /// A streamed action on the session's own channel.
    async fn tell_session(&mut self, action: StateAction) {
        let channel = Arc::clone(&self.session.uri);
        self.session.apply(&channel, &action);
        match Entry::new(channel, action) {
            Ok(entry) => {
                let batch = self.batch(Durability::Stream).entry(entry);
                self.submit(batch).await;
            }
            Err(error) => tracing::error!(%error, "an action was skipped"),
        }
    }

    /// The session's line in the list, in memory, on disk and for everybody who watches it.
    async fn publish_summary(&mut self) {
        self.summary_due = false;
        let summary = self.session.summary();
        let row = match put(&self.session.uri, self.session.listed, &summary) {
            Ok(row) => row,
            Err(error) => {
                tracing::error!(%error, "a session's line could not be updated");
                return;
            }
        };
        let mut batch = self.batch(Durability::Stream).catalogue(row);
        if self.session.listed {
            let host = Arc::clone(&self.host);
            let session = Arc::clone(&self.session.uri);
            let told = self.told.replace(summary.clone());
            let changes = told.map(|told| difference(&told, &summary)).filter(|changes| *changes != Default::default());
            batch = batch.then(move |_| {
                if let Some(changes) = changes {
                    let changes = Box::new(changes);
                    host.hub.notify(uri::ROOT, NoticeKind::SessionSummaryChanged { session, changes });
                }
            });
        }
        self.submit(batch).await;
    }

    /// After a turn there is something to read.
    async fn mark_unread(&mut self) {
        if self.session.session.status & SessionStatus::IsRead.bits() != 0 {
            self.tell_session(StateAction::SessionIsReadChanged(SessionIsReadChangedAction { is_read: false })).await;
        }
    }

    /// Writes the session's state down, so that the journal before it can go.
    async fn save_snapshot(&mut self) {
        match self.session.snapshot_row() {
            Ok(row) => {
                self.session.stored_turns = self.session.chat.turns.len();
                let batch = self.batch(Durability::Stream).snapshot(row);
                self.submit(batch).await;
            }
            Err(error) => tracing::error!(%error, "a session could not be written down"),
        }
    }

    /// The clients that were part of the session in an earlier life have some time to come back.
    async fn expect_clients(&mut self) {
        let active = self.session.session.active_clients.iter();
        let clients: Vec<_> = active.map(|active| active.client_id.clone()).collect();
        for client in clients {
            self.host.hub.clients.take_part(&client);
            let Some(since) = self.host.hub.clients.away_since(&client) else { continue };
            let due = since + self.host.absence;
            if due <= tokio::time::Instant::now() {
                self.client_gone(&client).await;
            } else {
                self.tasks.spawn(async move {
                    tokio::time::sleep_until(due).await;
                    Input::ClientDue(client)
                });
            }
        }
    }

    /// A client that is still away is gone. One that was here in between has a time of its own.
    async fn client_due(&mut self, client: &str) {
        match self.host.hub.clients.away_since(client) {
            Some(since) if since.elapsed() >= self.host.absence => self.client_gone(client).await,
            Some(_) => {}
            // It may have been unknown before.
            None => self.host.hub.clients.take_part(client),
        }
    }

    /// A client that does not come back is no longer part of the session.
    async fn client_gone(&mut self, client: &str) {
        if self.session.session.active_clients.iter().any(|active| active.client_id == client) {
            let client_id = client.to_owned();
            let action = SessionActiveClientRemovedAction { client_id };
            self.tell_session(StateAction::SessionActiveClientRemoved(action)).await;
        }
    }

    /// Takes the snapshot and the subscription at one number.
    async fn subscribe(&mut self, subscribe: Subscribe) {
        let Subscribe { channel, subscriber, token, reply } = subscribe;
        let (resource, state) = if channel == *self.session.uri {
            (Arc::clone(&self.session.uri), ChannelState::Session(Arc::clone(&self.session.session)))
        } else if channel == *self.session.chat_uri {
            (Arc::clone(&self.session.chat_uri), ChannelState::Chat(Arc::clone(&self.session.chat)))
        } else {
            let _ = reply.send(Err(EngineError::ChannelNotFound(channel)));
            return;
        };
        let result = self.host.deliver_snapshot(resource, state, subscriber, token).await;
        let _ = reply.send(result);
    }

    // ── The end ───────────────────────────────────────────────────────────────────────────────────────────────────

    /// Ends the turn as cancelled and the agent with everything it started.
    async fn stop(&mut self) {
        self.drive(TurnInput::Stop).await;
        if self.summary_due {
            self.publish_summary().await;
        }
        while self.agent.is_there() {
            let Some(done) = self.tasks.join_next().await else { break };
            if let Ok(Input::Agent(news)) = done {
                self.agent_news(news).await;
            }
        }
        self.tasks.shutdown().await;
        if let Ok(entry) = self.decisions.try_recv() {
            self.decided(entry).await;
        }
    }

    /// Removes the session from the store and the list.
    async fn forget(&mut self) -> Disposed {
        let host = Arc::clone(&self.host);
        let (session, chat) = (Arc::clone(&self.session.uri), Arc::clone(&self.session.chat_uri));
        let mut batch = self.batch(if self.session.stored { Durability::Durable } else { Durability::Memory });
        if self.session.stored {
            batch = batch.catalogue(CatalogueChange::Remove { session: Arc::clone(&session) });
        }
        let batch = batch.then(move |_| {
            host.hub.close(&chat);
            host.hub.close(&session);
            if host.catalogue.remove(&session) {
                host.hub.notify(uri::ROOT, NoticeKind::SessionRemoved(session));
            }
        });
        match self.host.store.sequencer().commit(batch).await {
            Ok(_) => {
                self.forget_budget();
                Ok(())
            }
            Err(error) => Err(NotForgotten { listed: self.session.listed, error }),
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
