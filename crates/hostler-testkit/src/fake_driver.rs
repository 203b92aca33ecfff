//! A driver whose agents do exactly what a test says, for states that a real agent will not be in on request.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_driver::{
    AgentCommand, Answer, Archive, CloseMode, Connection, ConnectionError, ConnectionFacts, Driver, DriverEvent,
    DropError, FolderConfiguration, Images, OpenError, OpenErrorKind, OpenSpec, Opened, PartId, PartKind, PolicyChange,
    Prompt, ProviderInfo, RequestId, ResumeToken, StderrTail, Steer, SteerId, TokenUsage, TurnOutcome,
    WorkspaceConfiguration,
};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use uuid::Uuid;

/// A driver whose starts and agents are in the test's hands.
pub struct FakeDriver {
    starts: mpsc::Sender<FakeStart>,
    opens: Arc<AtomicUsize>,
    settings: Arc<AtomicUsize>,
    manners: Arc<Manners>,
}

/// What a test says about all agents of a driver.
#[derive(Default)]
struct Manners {
    /// The longest prompt; 0: any.
    longest: AtomicUsize,
    /// The pictures that were dropped, and how many there are to say.
    dropped: Mutex<Vec<(ResumeToken, Images)>>,
    /// What folders bring.
    workspace: Mutex<WorkspaceConfiguration>,
    /// What its agents keep.
    archive: Option<Arc<dyn Archive>>,
}

/// Where a test meets the starts of its driver.
pub struct FakeStarts {
    queue: mpsc::Receiver<FakeStart>,
    opens: Arc<AtomicUsize>,
    settings: Arc<AtomicUsize>,
    manners: Arc<Manners>,
}

/// An agent that somebody wants to open. Dropping it is a failed start.
pub struct FakeStart {
    /// What was asked for.
    pub spec: OpenSpec,
    answer: oneshot::Sender<Result<Opened, OpenError>>,
}

/// A live agent.
pub struct FakeAgent {
    /// What arrives as the agent's doing.
    pub events: mpsc::Sender<DriverEvent>,
    /// The prompts that were written to it.
    pub prompts: mpsc::Receiver<String>,
    /// The answers to its requests.
    pub answers: mpsc::Receiver<(RequestId, Answer)>,
    /// The permission modes that it was told.
    pub modes: mpsc::Receiver<String>,
    /// The other changes of its policy.
    pub changes: mpsc::Receiver<PolicyChange>,
    /// The background tasks that it was told to stop.
    pub stopped: mpsc::Receiver<String>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    interrupts: AtomicUsize,
    /// Whether it ever got a prompt.
    prompted: AtomicBool,
    /// The last prompt, with what followed its words.
    last: Mutex<Option<Prompt>>,
    interrupted: Notify,
    steer: Mutex<Option<Steer>>,
    steered: Notify,
    closed: AtomicBool,
    closed_now: Notify,
    close_mode: Mutex<Option<CloseMode>>,
    /// Where background work writes.
    outputs: Mutex<HashMap<String, PathBuf>>,
    /// Closed while the test wants it: then a close does not come to its end.
    lingers: Mutex<Option<watch::Sender<bool>>>,
}

impl State {
    fn steer(&self) -> std::sync::MutexGuard<'_, Option<Steer>> {
        self.steer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FakeDriver {
    /// A driver and the place where its starts arrive.
    pub fn new() -> (Arc<Self>, FakeStarts) {
        Self::with_archive(None)
    }

    /// The same, whose agents keep conversations.
    pub fn with_archive(archive: Option<Arc<dyn Archive>>) -> (Arc<Self>, FakeStarts) {
        let (starts, queue) = mpsc::channel(64);
        let (opens, settings) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let manners = Arc::new(Manners { archive, ..Manners::default() });
        let driver =
            Self { starts, opens: Arc::clone(&opens), settings: Arc::clone(&settings), manners: Arc::clone(&manners) };
        (Arc::new(driver), FakeStarts { queue, opens, settings, manners })
    }
}

impl FakeStarts {
    /// The next start.
    pub async fn next(&mut self) -> FakeStart {
        self.queue.recv().await.expect("the driver is alive")
    }

    /// From now on agents would be configured otherwise.
    pub fn change_settings(&self) {
        self.settings.fetch_add(1, Ordering::SeqCst);
    }

    /// From now on every folder brings this.
    pub fn set_workspace(&self, workspace: WorkspaceConfiguration) {
        *self.manners.workspace.lock().unwrap_or_else(PoisonError::into_inner) = workspace;
    }

    /// From now on prompts may have so many bytes.
    pub fn limit_prompts(&self, longest: usize) {
        self.manners.longest.store(longest, Ordering::SeqCst);
    }

    /// The conversations whose pictures were dropped, and which.
    pub fn dropped(&self) -> Vec<(ResumeToken, Images)> {
        self.manners.dropped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many starts there were.
    pub fn count(&self) -> usize {
        self.opens.load(Ordering::SeqCst)
    }
}

impl Driver for FakeDriver {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo {
            id: "claude".to_owned(),
            display_name: "Fake".to_owned(),
            description: "An agent in the test's hands.".to_owned(),
            default_model: "fake-model".to_owned(),
            plans: None,
        }
    }

    fn settings_fingerprint(&self, _working_directory: &Path) -> String {
        self.settings.load(Ordering::SeqCst).to_string()
    }

    fn workspace_configuration(&self, _working_directory: &Path) -> WorkspaceConfiguration {
        self.manners.workspace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn longest_prompt(&self) -> usize {
        match self.manners.longest.load(Ordering::SeqCst) {
            0 => usize::MAX,
            longest => longest,
        }
    }

    fn drop_images(&self, token: &ResumeToken, which: Images) -> BoxFuture<'static, Result<usize, DropError>> {
        let mut dropped = self.manners.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        dropped.push((token.clone(), which));
        std::future::ready(Ok(1)).boxed()
    }

    fn archive(&self) -> Option<Arc<dyn Archive>> {
        self.manners.archive.clone()
    }

    fn open(&self, spec: OpenSpec) -> BoxFuture<'static, Result<Opened, OpenError>> {
        self.opens.fetch_add(1, Ordering::SeqCst);
        let starts = self.starts.clone();
        async move {
            let (answer, result) = oneshot::channel();
            let failed = || OpenError {
                kind: OpenErrorKind::Other,
                message: "the test dropped the start".to_owned(),
                stderr: StderrTail::default(),
            };
            starts.send(FakeStart { spec, answer }).await.map_err(|_| failed())?;
            result.await.map_err(|_| failed())?
        }
        .boxed()
    }
}

impl FakeStart {
    /// The handshake succeeds.
    pub fn succeed(self) -> FakeAgent {
        self.succeed_with(Vec::new())
    }

    /// The handshake succeeds, and tells of commands.
    pub fn succeed_with(self, commands: Vec<AgentCommand>) -> FakeAgent {
        let applied = self.spec.folder_configuration != FolderConfiguration::Ignored;
        self.succeed_as(commands, applied)
    }

    /// The handshake succeeds, and says whether the folder's configuration is applied.
    pub fn succeed_as(self, commands: Vec<AgentCommand>, applied: bool) -> FakeAgent {
        let (events, receiver) = mpsc::channel(4096);
        let (prompt_sender, prompts) = mpsc::channel(64);
        let (answer_sender, answers) = mpsc::channel(64);
        // The second one is taken when the test has read the first one.
        let (mode_sender, modes) = mpsc::channel(1);
        let (change_sender, changes) = mpsc::channel(64);
        let (stop_sender, stopped) = mpsc::channel(64);
        let state = Arc::new(State::default());
        let connection = FakeConnection {
            prompts: prompt_sender,
            answers: answer_sender,
            modes: mode_sender,
            changes: change_sender,
            stopped: stop_sender,
            state: Arc::clone(&state),
        };
        let facts = ConnectionFacts {
            pid: 4_000_000,
            version: Some("0.0.0-fake".to_owned()),
            commands,
            applied_configuration: applied,
        };
        let opened = Opened { connection: Box::new(connection), events: receiver, facts };
        // The one who wanted it may have given up.
        let _ = self.answer.send(Ok(opened));
        FakeAgent { events, prompts, answers, modes, changes, stopped, state }
    }

    /// The start fails.
    pub fn fail(self, kind: OpenErrorKind, message: &str, stderr: &str) {
        let stderr = StderrTail::from_redacted(stderr);
        let _ = self.answer.send(Err(OpenError { kind, message: message.to_owned(), stderr }));
    }

    /// Whether the one who wanted the agent has given up.
    pub fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }

    /// Waits until the one who wanted the agent has given up.
    pub async fn abandoned(&mut self) {
        self.answer.closed().await;
    }
}

impl FakeAgent {
    /// Something happens.
    pub async fn emit(&self, event: DriverEvent) {
        // A closed channel means that the host no longer listens, which some tests provoke.
        let _ = self.events.send(event).await;
    }

    /// A whole plain answer: one text part in two deltas, usage, end.
    pub async fn answer(&self, part: u64, first: &str, second: &str) {
        let id = PartId(part);
        self.emit(DriverEvent::PartStarted { part: id, kind: PartKind::Text }).await;
        self.emit(DriverEvent::Delta { part: id, text: first.to_owned() }).await;
        self.emit(DriverEvent::Delta { part: id, text: second.to_owned() }).await;
        self.emit(DriverEvent::Usage(TokenUsage { input: 10, output: 2, ..TokenUsage::default() })).await;
        self.emit(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })).await;
    }

    /// The next answer to one of its requests.
    pub async fn answered(&mut self) -> (RequestId, Answer) {
        self.answers.recv().await.expect("an answer")
    }

    /// The agent says where a piece of background work writes.
    pub fn writes(&self, id: &str, path: PathBuf) {
        self.state.outputs.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), path);
    }

    /// The next prompt.
    pub async fn prompt(&mut self) -> String {
        self.prompts.recv().await.expect("a prompt")
    }

    /// The next prompt, with what follows its words.
    pub async fn whole_prompt(&mut self) -> Prompt {
        self.prompt().await;
        self.state.last.lock().unwrap_or_else(PoisonError::into_inner).clone().expect("a prompt")
    }

    /// The process ends by itself.
    pub async fn die(self, status: &str, stderr: &str) {
        let stderr = StderrTail::from_redacted(stderr);
        self.emit(DriverEvent::Gone { status: status.to_owned(), stderr }).await;
    }

    /// Tells the model what is held for it, and says so. `None` if nothing is held.
    pub async fn inject(&self) -> Option<Steer> {
        let steer = self.state.steer().take()?;
        self.emit(DriverEvent::SteerInjected(steer.id.clone())).await;
        Some(steer)
    }

    /// Takes what is held for the agent, and says nothing.
    pub fn take_steer(&self) -> Option<Steer> {
        self.state.steer().take()
    }

    /// Ends the turn as drivers do: what is held and was not told is given back first.
    pub async fn end(&self, outcome: TurnOutcome) {
        let held = self.state.steer().take();
        if let Some(steer) = held {
            self.emit(DriverEvent::SteerUndelivered(steer.id)).await;
        }
        self.emit(DriverEvent::TurnEnded(outcome)).await;
    }

    /// Waits until words are held for the agent.
    pub async fn steered(&self) -> Steer {
        loop {
            let held = self.state.steer().clone();
            if let Some(steer) = held {
                return steer;
            }
            self.state.steered.notified().await;
        }
    }

    /// Waits for an interrupt.
    pub async fn interrupted(&self) {
        while self.state.interrupts.load(Ordering::SeqCst) == 0 {
            self.state.interrupted.notified().await;
        }
    }

    /// Waits until the connection was closed, and tells how.
    pub async fn closed(&self) -> CloseMode {
        while !self.state.closed.load(Ordering::SeqCst) {
            self.state.closed_now.notified().await;
        }
        self.state.close_mode.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or(CloseMode::Now)
    }

    /// From now on a close takes until [`let_go`](Self::let_go).
    pub fn linger(&self) {
        let lingers = watch::Sender::new(true);
        *self.state.lingers.lock().unwrap_or_else(PoisonError::into_inner) = Some(lingers);
    }

    /// A close that is under way, or the next one, comes to its end.
    pub fn let_go(&self) {
        if let Some(lingers) = &*self.state.lingers.lock().unwrap_or_else(PoisonError::into_inner) {
            lingers.send_replace(false);
        }
    }

    /// Whether the connection was closed.
    pub fn is_closed(&self) -> bool {
        self.state.closed.load(Ordering::SeqCst)
    }
}

struct FakeConnection {
    prompts: mpsc::Sender<String>,
    answers: mpsc::Sender<(RequestId, Answer)>,
    modes: mpsc::Sender<String>,
    changes: mpsc::Sender<PolicyChange>,
    stopped: mpsc::Sender<String>,
    state: Arc<State>,
}

impl Connection for FakeConnection {
    fn send(&self, prompt: Prompt) -> BoxFuture<'_, Result<Uuid, ConnectionError>> {
        async move {
            let text = prompt.expose().to_owned();
            let id = prompt.id().unwrap_or_else(Uuid::new_v4);
            *self.state.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(prompt);
            self.state.prompted.store(true, Ordering::SeqCst);
            self.prompts.send(text).await.map_err(|_| ConnectionError::Gone(None))?;
            Ok(id)
        }
        .boxed()
    }

    fn interrupt(&self) -> BoxFuture<'_, Result<(), ConnectionError>> {
        self.state.interrupts.fetch_add(1, Ordering::SeqCst);
        self.state.interrupted.notify_one();
        async { Ok(()) }.boxed()
    }

    fn answer(&self, request: &RequestId, answer: Answer) -> BoxFuture<'_, Result<(), ConnectionError>> {
        let request = request.clone();
        async move { self.answers.send((request, answer)).await.map_err(|_| ConnectionError::Gone(None)) }.boxed()
    }

    fn steer(&self, steer: Steer) {
        // Words for an agent that has nothing to do are nobody's.
        if !self.state.prompted.load(Ordering::SeqCst) {
            return;
        }
        *self.state.steer() = Some(steer);
        self.state.steered.notify_one();
    }

    fn unsteer(&self, id: &SteerId) -> bool {
        self.state.steer().take_if(|held| held.id == *id).is_some()
    }

    fn apply(&self, change: PolicyChange) -> BoxFuture<'_, Result<(), ConnectionError>> {
        async move {
            let gone = |_| ConnectionError::Gone(None);
            match change {
                PolicyChange::PermissionMode(mode) => self.modes.send(mode).await.map_err(gone),
                other => self.changes.send(other).await.map_err(|_| ConnectionError::Gone(None)),
            }
        }
        .boxed()
    }

    fn stop_task(&self, id: &str) -> BoxFuture<'_, Result<(), ConnectionError>> {
        let id = id.to_owned();
        async move { self.stopped.send(id).await.map_err(|_| ConnectionError::Gone(None)) }.boxed()
    }

    fn task_output(&self, id: &str) -> Option<PathBuf> {
        self.state.outputs.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    fn close(&self, mode: CloseMode) -> BoxFuture<'_, ()> {
        *self.state.close_mode.lock().unwrap_or_else(PoisonError::into_inner) = Some(mode);
        self.state.closed.store(true, Ordering::SeqCst);
        self.state.closed_now.notify_one();
        let lingers = self.state.lingers.lock().unwrap_or_else(PoisonError::into_inner);
        let lingers = lingers.as_ref().map(watch::Sender::subscribe);
        async move {
            if let Some(mut lingers) = lingers {
                let _ = lingers.wait_for(|lingers| !lingers).await;
            }
        }
        .boxed()
    }
}
