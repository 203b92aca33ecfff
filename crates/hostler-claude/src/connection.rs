use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use hostler_driver::{
    Answer, CloseMode, Connection, ConnectionError, DriverEvent, OpenSpec, PolicyChange, Prompt, RequestId, Steer,
    SteerId,
};
use hostler_process::{AgentProcess, AgentStdin, ProcessHandle};
use serde_json::value::RawValue;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::asks::{Asks, Consequence};
use crate::control::Requests;
use crate::mapping::Mapper;
use crate::options;
use crate::prompt;
use crate::pump::Pump;
use crate::stats::Counters;
use crate::transcript::Transcripts;
use crate::wire::{HostMessage, HostRequest, LiveSettings};
use crate::workspace::Stage;

/// Events that may wait for the engine. A full queue holds the agent back; it is never dropped while the connection
/// is wanted.
const EVENT_QUEUE: usize = 1024;

/// Lines that may wait for the agent to read. An agent that reads nothing any more is ended.
const LINE_QUEUE: usize = 256;

/// A live Claude Code process. Dropping it ends the process and everything it started.
pub(crate) struct ClaudeConnection {
    shared: Arc<Shared>,
    lines: mpsc::Sender<Outgoing>,
    handle: ProcessHandle,
    /// Whether the model that it was started with is one of its maker's.
    is_of_its_maker: bool,
    tasks: TaskTracker,
    hurry: CancellationToken,
    _hurry_on_drop: DropGuard,
}

/// What the connection and its pump both see.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) requests: Requests,
    asks: Mutex<Asks>,
    mapper: Mutex<Mapper>,
    /// Words came that no turn can take: the pump has to say so.
    pub(crate) too_late: Notify,
    /// How the process ended.
    pub(crate) ended: OnceLock<String>,
}

impl Shared {
    /// Never held across an await.
    pub(crate) fn asks(&self) -> std::sync::MutexGuard<'_, Asks> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never held across an await.
    pub(crate) fn mapper(&self) -> std::sync::MutexGuard<'_, Mapper> {
        self.mapper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something for the agent's standard input.
pub(crate) enum Outgoing {
    /// A line; whoever wants to know hears when it was written.
    Line { line: Vec<u8>, written: Option<oneshot::Sender<std::io::Result<()>>> },
    /// Nothing follows.
    End,
}

impl ClaudeConnection {
    /// Takes over a process: one task writes, one reads.
    pub(crate) fn start(
        process: AgentProcess,
        transcripts: Transcripts,
        spec: &OpenSpec,
        counters: Arc<Counters>,
        stage: Stage,
    ) -> (Self, mpsc::Receiver<DriverEvent>) {
        let AgentProcess { stdin, stdout, handle } = process;
        let mapper = Mutex::new(Mapper::in_directory(transcripts.working_directory()));
        let shared = Arc::new(Shared { mapper, ..Shared::default() });
        let hurry = CancellationToken::new();
        let gone = CancellationToken::new();
        let (lines, queued) = mpsc::channel(LINE_QUEUE);
        let (sender, events) = mpsc::channel(EVENT_QUEUE + 1);
        let pump = Pump {
            shared: shared.clone(),
            stdout,
            handle: handle.clone(),
            lines: lines.clone(),
            last_event: sender.clone().try_reserve_owned().ok(),
            events: sender,
            counters,
            transcripts,
            gatekeeper: Arc::clone(&spec.gatekeeper),
            bearer: spec.endpoint.bearer.clone(),
            stage: Some(stage),
        };
        let tasks = TaskTracker::new();
        tasks.spawn(write_lines(stdin, queued, gone.clone()));
        tasks.spawn(pump.run(hurry.clone(), gone.drop_guard()));
        tasks.close();
        let _hurry_on_drop = hurry.clone().drop_guard();
        let is_of_its_maker = options::is_of_its_maker(&spec.model);
        (Self { shared, lines, handle, is_of_its_maker, tasks, hurry, _hurry_on_drop }, events)
    }

    /// Asks the agent and waits for its answer, or for its end.
    pub(crate) async fn request(&self, request: HostRequest) -> Result<Option<Box<RawValue>>, ConnectionError> {
        let answer = self.ask(request).await?;
        match answer.await {
            Ok(answer) => answer.map_err(ConnectionError::Refused),
            Err(_) => Err(self.gone()),
        }
    }

    async fn ask(&self, request: HostRequest) -> Result<oneshot::Receiver<crate::control::Answer>, ConnectionError> {
        let (request_id, answer) = self.shared.requests.register();
        self.queue(&HostMessage::ControlRequest { request_id: &request_id, request }, None).await?;
        Ok(answer)
    }

    async fn queue(
        &self,
        message: &HostMessage<'_>,
        written: Option<oneshot::Sender<std::io::Result<()>>>,
    ) -> Result<(), ConnectionError> {
        let line = message.to_line().map_err(|error| ConnectionError::Refused(error.to_string()))?;
        self.lines.send(Outgoing::Line { line, written }).await.map_err(|_| self.gone())
    }

    fn gone(&self) -> ConnectionError {
        ConnectionError::Gone(self.shared.ended.get().cloned())
    }
}

impl Connection for ClaudeConnection {
    fn send(&self, prompt: Prompt) -> BoxFuture<'_, Result<Uuid, ConnectionError>> {
        async move {
            let id = prompt.id().unwrap_or_else(Uuid::new_v4);
            let message = prompt::message(&prompt, id);
            // Before it is written: the turn may begin before we hear that it was.
            self.shared.mapper().prompt_sent(id);
            let (written, outcome) = oneshot::channel();
            self.queue(&message, Some(written)).await?;
            match outcome.await {
                Ok(Ok(())) => Ok(id),
                Ok(Err(_)) | Err(_) => Err(self.gone()),
            }
        }
        .boxed()
    }

    fn interrupt(&self) -> BoxFuture<'_, Result<(), ConnectionError>> {
        async move {
            // An agent that is interrupted begins a turn about what waits in its queue. So that is taken back first.
            let message = self.shared.mapper().message_on_its_way();
            if let Some(message_uuid) = message {
                let request_id = self.shared.requests.withdraw(message_uuid);
                let request = HostRequest::CancelAsyncMessage { message_uuid };
                self.queue(&HostMessage::ControlRequest { request_id: &request_id, request }, None).await?;
            }
            // The answer says nothing that the turn's end does not, and an agent that hangs gives none.
            self.ask(HostRequest::Interrupt).await.map(drop)
        }
        .boxed()
    }

    fn answer(&self, request: &RequestId, answer: Answer) -> BoxFuture<'_, Result<(), ConnectionError>> {
        // Taken off the list before it is written: nobody can answer it a second time.
        let consequence = self.shared.asks().answer(&request.0, &answer);
        async move {
            let Some(Consequence { line, denied, .. }) = consequence else {
                return Err(if self.shared.ended.get().is_some() { self.gone() } else { ConnectionError::NotOpen });
            };
            if let Some(call) = denied {
                self.shared.mapper().denied(&call);
            }
            let Some(line) = line else {
                return Err(ConnectionError::Refused("the answer could not be written".to_owned()));
            };
            let (written, outcome) = oneshot::channel();
            let line = Outgoing::Line { line, written: Some(written) };
            self.lines.send(line).await.map_err(|_| self.gone())?;
            match outcome.await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) | Err(_) => Err(self.gone()),
            }
        }
        .boxed()
    }

    fn steer(&self, steer: Steer) {
        // One lock decides between told, given up and too late: the mapper's, which also sees turns end.
        self.shared.mapper().hold(steer);
        self.shared.too_late.notify_one();
    }

    fn unsteer(&self, id: &SteerId) -> bool {
        self.shared.mapper().take_back(id)
    }

    fn apply(&self, change: PolicyChange) -> BoxFuture<'_, Result<(), ConnectionError>> {
        async move {
            match change {
                PolicyChange::PermissionMode(mode) => {
                    self.request(HostRequest::SetPermissionMode { mode }).await.map(drop)
                }
                PolicyChange::Model(model) if self.is_of_its_maker && options::is_of_its_maker(&model) => {
                    self.shared.mapper().model_changes(true);
                    let answer = self.request(HostRequest::SetModel { model }).await;
                    // The agent repeats the change before it answers.
                    self.shared.mapper().model_changes(false);
                    answer.map(drop)
                }
                PolicyChange::ThinkingBudget(max_thinking_tokens) => {
                    self.request(HostRequest::SetMaxThinkingTokens { max_thinking_tokens }).await.map(drop)
                }
                PolicyChange::Effort(Some(effort_level)) => {
                    let settings = LiveSettings { effort_level };
                    self.request(HostRequest::ApplyFlagSettings { settings }).await.map(drop)
                }
                // Models of other makers are part of the agent's environment, for its small jobs. And the older build
                // keeps the effort that it was told last, when it is told none.
                PolicyChange::Model(_) | PolicyChange::Effort(None) => {
                    Err(ConnectionError::Refused("it takes this at its start only".to_owned()))
                }
            }
        }
        .boxed()
    }

    fn stop_task(&self, id: &str) -> BoxFuture<'_, Result<(), ConnectionError>> {
        // Some builds accept any id.
        let runs = self.shared.mapper().runs_in_background(id);
        let task_id = id.to_owned();
        async move {
            match runs {
                true => self.request(HostRequest::StopTask { task_id }).await.map(drop),
                false => Err(ConnectionError::NotOpen),
            }
        }
        .boxed()
    }

    fn task_output(&self, id: &str) -> Option<PathBuf> {
        self.shared.mapper().writes_to(id)
    }

    fn close(&self, mode: CloseMode) -> BoxFuture<'_, ()> {
        async move {
            match mode {
                CloseMode::Graceful => {
                    // If the queue is full the agent does not read, and politeness is lost on it.
                    let _ = self.lines.try_send(Outgoing::End);
                    self.handle.close(hostler_process::CloseMode::Graceful).await;
                }
                CloseMode::Now => {
                    self.hurry.cancel();
                    self.handle.close(hostler_process::CloseMode::Now).await;
                }
            }
            // From here on nobody waits for a slow reader of the events.
            self.hurry.cancel();
            self.tasks.wait().await;
        }
        .boxed()
    }
}

/// Writes lines in their order until the input is ended or the process is gone.
async fn write_lines(stdin: AgentStdin, mut queued: mpsc::Receiver<Outgoing>, gone: CancellationToken) {
    let write = async {
        let mut stdin = stdin;
        while let Some(Outgoing::Line { line, written }) = queued.recv().await {
            let outcome = stdin.write_line(line).await;
            if let Some(written) = written {
                // Whoever asked may have stopped to care.
                let _ = written.send(outcome);
            }
        }
        stdin.close();
    };
    // An agent that does not read would hold a write for ever.
    gone.run_until_cancelled(write).await;
}
