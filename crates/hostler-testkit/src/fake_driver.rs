//! Driver whose agents a test controls, for states that a real agent does not reach on demand.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_driver::{
    AgentConnection, AgentRequestId, AgentSettingChange, Answer, CloseMode, ConnectionError, ConnectionInfo, Driver,
    DriverEvent, FolderConfiguration, ImageSelection, OpenError, OpenErrorKind, OpenSpec, OpenedConnection, PartId,
    PartKind, Prompt, ProviderInfo, RemoveImagesError, ResumeToken, SlashCommand, StderrTail, SteeringMessage,
    SteeringMessageId, TokenUsage, TranscriptStore, TurnOutcome, WorkspaceConfiguration,
};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use uuid::Uuid;

/// Driver whose starts and agents a test controls.
pub struct FakeDriver {
    starts: mpsc::Sender<FakeAgentStart>,
    open_count: Arc<AtomicUsize>,
    settings_version: Arc<AtomicUsize>,
    behavior: Arc<FakeDriverBehavior>,
}

/// Behavior of all agents of a driver.
#[derive(Default)]
struct FakeDriverBehavior {
    /// Maximum prompt size in bytes; 0 is unlimited.
    max_prompt_bytes: AtomicUsize,
    /// Requests to remove images.
    removed_images: Mutex<Vec<(ResumeToken, ImageSelection)>>,
    /// Configuration of every folder.
    workspace: Mutex<WorkspaceConfiguration>,
    /// Transcripts of its agents.
    transcript_store: Option<Arc<dyn TranscriptStore>>,
}

/// Receives the starts of a driver.
pub struct FakeAgentStarts {
    queue: mpsc::Receiver<FakeAgentStart>,
    open_count: Arc<AtomicUsize>,
    settings_version: Arc<AtomicUsize>,
    behavior: Arc<FakeDriverBehavior>,
}

/// Pending start of an agent. Dropping it fails the start.
pub struct FakeAgentStart {
    /// Requested spec.
    pub spec: OpenSpec,
    result: oneshot::Sender<Result<OpenedConnection, OpenError>>,
}

/// Running agent.
pub struct FakeAgent {
    /// Sends events as the agent.
    pub events: mpsc::Sender<DriverEvent>,
    /// Prompts that were written to it.
    pub prompts: mpsc::Receiver<String>,
    /// Answers to its requests.
    pub answers: mpsc::Receiver<(AgentRequestId, Answer)>,
    /// Permission modes that were set.
    pub permission_modes: mpsc::Receiver<String>,
    /// Other setting changes.
    pub policy_changes: mpsc::Receiver<AgentSettingChange>,
    /// Background tasks that it was asked to stop.
    pub stopped_tasks: mpsc::Receiver<String>,
    state: Arc<FakeAgentState>,
}

#[derive(Default)]
struct FakeAgentState {
    interrupts: AtomicUsize,
    /// Whether it has received a prompt.
    prompted: AtomicBool,
    /// Last prompt, attachments included.
    last_prompt: Mutex<Option<Prompt>>,
    interrupted_notify: Notify,
    steer: Mutex<Option<SteeringMessage>>,
    steered_notify: Notify,
    is_closed: AtomicBool,
    closed_notify: Notify,
    close_mode: Mutex<Option<CloseMode>>,
    /// Output files of background work.
    outputs: Mutex<HashMap<String, PathBuf>>,
    /// Set while the test blocks closes.
    close_blocked: Mutex<Option<watch::Sender<bool>>>,
}

impl FakeAgentState {
    fn lock_steer(&self) -> std::sync::MutexGuard<'_, Option<SteeringMessage>> {
        self.steer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FakeDriver {
    /// Creates a driver and the receiver of its starts.
    pub fn new() -> (Arc<Self>, FakeAgentStarts) {
        Self::with_transcript_store(None)
    }

    /// Creates a driver with a transcript store.
    pub fn with_transcript_store(archive: Option<Arc<dyn TranscriptStore>>) -> (Arc<Self>, FakeAgentStarts) {
        let (starts, queue) = mpsc::channel(64);
        let (opens, settings) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let behavior = Arc::new(FakeDriverBehavior { transcript_store: archive, ..FakeDriverBehavior::default() });
        let driver = Self {
            starts,
            open_count: Arc::clone(&opens),
            settings_version: Arc::clone(&settings),
            behavior: Arc::clone(&behavior),
        };
        (Arc::new(driver), FakeAgentStarts { queue, open_count: opens, settings_version: settings, behavior })
    }
}

impl FakeAgentStarts {
    /// Waits for the next start.
    pub async fn next_start(&mut self) -> FakeAgentStart {
        self.queue.recv().await.expect("the driver is alive")
    }

    /// Changes the configuration of later agents.
    pub fn change_settings(&self) {
        self.settings_version.fetch_add(1, Ordering::SeqCst);
    }

    /// Sets the configuration of every folder.
    pub fn set_workspace(&self, workspace: WorkspaceConfiguration) {
        *self.behavior.workspace.lock().unwrap_or_else(PoisonError::into_inner) = workspace;
    }

    /// Limits the size of later prompts.
    pub fn set_max_prompt_bytes(&self, longest: usize) {
        self.behavior.max_prompt_bytes.store(longest, Ordering::SeqCst);
    }

    /// Returns the conversations whose images were removed, and which images.
    pub fn removed_images(&self) -> Vec<(ResumeToken, ImageSelection)> {
        self.behavior.removed_images.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of starts.
    pub fn open_count(&self) -> usize {
        self.open_count.load(Ordering::SeqCst)
    }
}

impl Driver for FakeDriver {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo {
            id: "claude".to_owned(),
            display_name: "Fake".to_owned(),
            description: "An agent in the test's hands.".to_owned(),
            default_model: "fake-model".to_owned(),
            plans_directory: None,
        }
    }

    fn settings_fingerprint(&self, _working_directory: &Path) -> String {
        self.settings_version.load(Ordering::SeqCst).to_string()
    }

    fn workspace_configuration(&self, _working_directory: &Path) -> WorkspaceConfiguration {
        self.behavior.workspace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn max_prompt_bytes(&self) -> usize {
        match self.behavior.max_prompt_bytes.load(Ordering::SeqCst) {
            0 => usize::MAX,
            longest => longest,
        }
    }

    fn remove_images(
        &self,
        token: &ResumeToken,
        which: ImageSelection,
    ) -> BoxFuture<'static, Result<usize, RemoveImagesError>> {
        let mut dropped = self.behavior.removed_images.lock().unwrap_or_else(PoisonError::into_inner);
        dropped.push((token.clone(), which));
        std::future::ready(Ok(1)).boxed()
    }

    fn transcript_store(&self) -> Option<Arc<dyn TranscriptStore>> {
        self.behavior.transcript_store.clone()
    }

    fn open(&self, spec: OpenSpec) -> BoxFuture<'static, Result<OpenedConnection, OpenError>> {
        self.open_count.fetch_add(1, Ordering::SeqCst);
        let starts = self.starts.clone();
        async move {
            let (answer, result) = oneshot::channel();
            let failed = || OpenError {
                kind: OpenErrorKind::Other,
                message: "the test dropped the start".to_owned(),
                stderr: StderrTail::default(),
            };
            starts.send(FakeAgentStart { spec, result: answer }).await.map_err(|_| failed())?;
            result.await.map_err(|_| failed())?
        }
        .boxed()
    }
}

impl FakeAgentStart {
    /// Completes the handshake.
    pub fn succeed(self) -> FakeAgent {
        self.succeed_with_commands(Vec::new())
    }

    /// Completes the handshake with commands.
    pub fn succeed_with_commands(self, commands: Vec<SlashCommand>) -> FakeAgent {
        let applied = self.spec.folder_configuration != FolderConfiguration::Ignored;
        self.succeed_with_configuration(commands, applied)
    }

    /// Completes the handshake and reports whether the folder's configuration is applied.
    pub fn succeed_with_configuration(self, commands: Vec<SlashCommand>, applied: bool) -> FakeAgent {
        let (events, receiver) = mpsc::channel(4096);
        let (prompt_sender, prompts) = mpsc::channel(64);
        let (answer_sender, answers) = mpsc::channel(64);
        // Capacity 1: the second change is accepted when the test has read the first one.
        let (mode_sender, modes) = mpsc::channel(1);
        let (change_sender, changes) = mpsc::channel(64);
        let (stop_sender, stopped) = mpsc::channel(64);
        let state = Arc::new(FakeAgentState::default());
        let connection = FakeConnection {
            prompts: prompt_sender,
            answers: answer_sender,
            modes: mode_sender,
            changes: change_sender,
            stopped: stop_sender,
            state: Arc::clone(&state),
        };
        let facts = ConnectionInfo {
            pid: 4_000_000,
            version: Some("0.0.0-fake".to_owned()),
            commands,
            applied_configuration: applied,
        };
        let opened = OpenedConnection { connection: Box::new(connection), events: receiver, info: facts };
        // The requester may have given up.
        let _ = self.result.send(Ok(opened));
        FakeAgent {
            events,
            prompts,
            answers,
            permission_modes: modes,
            policy_changes: changes,
            stopped_tasks: stopped,
            state,
        }
    }

    /// Fails the start.
    pub fn fail(self, kind: OpenErrorKind, message: &str, stderr: &str) {
        let stderr = StderrTail::from_redacted(stderr);
        let _ = self.result.send(Err(OpenError { kind, message: message.to_owned(), stderr }));
    }

    /// Returns whether the requester has given up.
    pub fn is_abandoned(&self) -> bool {
        self.result.is_closed()
    }

    /// Waits until the requester has given up.
    pub async fn wait_abandoned(&mut self) {
        self.result.closed().await;
    }
}

impl FakeAgent {
    /// Emits an event.
    pub async fn emit(&self, event: DriverEvent) {
        // A closed channel means that the host has dropped the connection, which some tests provoke.
        let _ = self.events.send(event).await;
    }

    /// Emits a whole response: one text part in two deltas, usage, end.
    pub async fn emit_answer(&self, part: u64, first: &str, second: &str) {
        let id = PartId(part);
        self.emit(DriverEvent::PartStarted { part: id, kind: PartKind::Text }).await;
        self.emit(DriverEvent::PartDelta { part: id, text: first.to_owned() }).await;
        self.emit(DriverEvent::PartDelta { part: id, text: second.to_owned() }).await;
        self.emit(DriverEvent::Usage(TokenUsage { input: 10, output: 2, ..TokenUsage::default() })).await;
        self.emit(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })).await;
    }

    /// Waits for the next answer to one of its requests.
    pub async fn next_answer(&mut self) -> (AgentRequestId, Answer) {
        self.answers.recv().await.expect("an answer")
    }

    /// Sets the output file of background work.
    pub fn set_task_output(&self, id: &str, path: PathBuf) {
        self.state.outputs.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), path);
    }

    /// Waits for the next prompt.
    pub async fn next_prompt(&mut self) -> String {
        self.prompts.recv().await.expect("a prompt")
    }

    /// Waits for the next prompt, attachments included.
    pub async fn next_full_prompt(&mut self) -> Prompt {
        self.next_prompt().await;
        self.state.last_prompt.lock().unwrap_or_else(PoisonError::into_inner).clone().expect("a prompt")
    }

    /// Ends the process without a request.
    pub async fn exit(self, status: &str, stderr: &str) {
        let stderr = StderrTail::from_redacted(stderr);
        self.emit(DriverEvent::ProcessExited { status: status.to_owned(), stderr }).await;
    }

    /// Injects the pending steer and reports it. `None` if there is none.
    pub async fn inject_steer(&self) -> Option<SteeringMessage> {
        let steer = self.state.lock_steer().take()?;
        self.emit(DriverEvent::SteerInjected(steer.id.clone())).await;
        Some(steer)
    }

    /// Takes the pending steer without a report.
    pub fn take_steer(&self) -> Option<SteeringMessage> {
        self.state.lock_steer().take()
    }

    /// Ends the turn like a real driver: a pending steer is reported as undelivered first.
    pub async fn end_turn(&self, outcome: TurnOutcome) {
        let held = self.state.lock_steer().take();
        if let Some(steer) = held {
            self.emit(DriverEvent::SteerUndelivered(steer.id)).await;
        }
        self.emit(DriverEvent::TurnEnded(outcome)).await;
    }

    /// Waits for a pending steer.
    pub async fn wait_steered(&self) -> SteeringMessage {
        loop {
            let held = self.state.lock_steer().clone();
            if let Some(steer) = held {
                return steer;
            }
            self.state.steered_notify.notified().await;
        }
    }

    /// Waits for an interrupt.
    pub async fn wait_interrupted(&self) {
        while self.state.interrupts.load(Ordering::SeqCst) == 0 {
            self.state.interrupted_notify.notified().await;
        }
    }

    /// Waits until the connection is closed, and returns how.
    pub async fn wait_closed(&self) -> CloseMode {
        while !self.state.is_closed.load(Ordering::SeqCst) {
            self.state.closed_notify.notified().await;
        }
        self.state.close_mode.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or(CloseMode::Now)
    }

    /// Blocks closes until [`unblock_close`](Self::unblock_close).
    pub fn block_close(&self) {
        let lingers = watch::Sender::new(true);
        *self.state.close_blocked.lock().unwrap_or_else(PoisonError::into_inner) = Some(lingers);
    }

    /// Lets a running close, or the next one, complete.
    pub fn unblock_close(&self) {
        if let Some(lingers) = &*self.state.close_blocked.lock().unwrap_or_else(PoisonError::into_inner) {
            lingers.send_replace(false);
        }
    }

    /// Returns whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.state.is_closed.load(Ordering::SeqCst)
    }
}

struct FakeConnection {
    prompts: mpsc::Sender<String>,
    answers: mpsc::Sender<(AgentRequestId, Answer)>,
    modes: mpsc::Sender<String>,
    changes: mpsc::Sender<AgentSettingChange>,
    stopped: mpsc::Sender<String>,
    state: Arc<FakeAgentState>,
}

impl AgentConnection for FakeConnection {
    fn send(&self, prompt: Prompt) -> BoxFuture<'_, Result<Uuid, ConnectionError>> {
        async move {
            let text = prompt.expose().to_owned();
            let id = prompt.id().unwrap_or_else(Uuid::new_v4);
            *self.state.last_prompt.lock().unwrap_or_else(PoisonError::into_inner) = Some(prompt);
            self.state.prompted.store(true, Ordering::SeqCst);
            self.prompts.send(text).await.map_err(|_| ConnectionError::Exited(None))?;
            Ok(id)
        }
        .boxed()
    }

    fn interrupt(&self) -> BoxFuture<'_, Result<(), ConnectionError>> {
        self.state.interrupts.fetch_add(1, Ordering::SeqCst);
        self.state.interrupted_notify.notify_one();
        async { Ok(()) }.boxed()
    }

    fn answer(&self, request: &AgentRequestId, answer: Answer) -> BoxFuture<'_, Result<(), ConnectionError>> {
        let request = request.clone();
        async move { self.answers.send((request, answer)).await.map_err(|_| ConnectionError::Exited(None)) }.boxed()
    }

    fn steer(&self, steer: SteeringMessage) {
        // An idle agent accepts no steer.
        if !self.state.prompted.load(Ordering::SeqCst) {
            return;
        }
        *self.state.lock_steer() = Some(steer);
        self.state.steered_notify.notify_one();
    }

    fn cancel_steering(&self, id: &SteeringMessageId) -> bool {
        self.state.lock_steer().take_if(|held| held.id == *id).is_some()
    }

    fn apply_setting(&self, change: AgentSettingChange) -> BoxFuture<'_, Result<(), ConnectionError>> {
        async move {
            let gone = |_| ConnectionError::Exited(None);
            match change {
                AgentSettingChange::PermissionMode(mode) => self.modes.send(mode).await.map_err(gone),
                other => self.changes.send(other).await.map_err(|_| ConnectionError::Exited(None)),
            }
        }
        .boxed()
    }

    fn stop_task(&self, id: &str) -> BoxFuture<'_, Result<(), ConnectionError>> {
        let id = id.to_owned();
        async move { self.stopped.send(id).await.map_err(|_| ConnectionError::Exited(None)) }.boxed()
    }

    fn task_output_path(&self, id: &str) -> Option<PathBuf> {
        self.state.outputs.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    fn close(&self, mode: CloseMode) -> BoxFuture<'_, ()> {
        *self.state.close_mode.lock().unwrap_or_else(PoisonError::into_inner) = Some(mode);
        self.state.is_closed.store(true, Ordering::SeqCst);
        self.state.closed_notify.notify_one();
        let lingers = self.state.close_blocked.lock().unwrap_or_else(PoisonError::into_inner);
        let lingers = lingers.as_ref().map(watch::Sender::subscribe);
        async move {
            if let Some(mut lingers) = lingers {
                let _ = lingers.wait_for(|lingers| !lingers).await;
            }
        }
        .boxed()
    }
}
