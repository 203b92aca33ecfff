//! The [`AgentConnection`] to a live Claude Code process.
//!
//! Owns the queues to and from the agent and the writer task. Does not interpret output; `output_reader` does.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use hostler_driver::{
    AgentConnection, AgentRequestId, AgentSettingChange, Answer, CloseMode, ConnectionError, DriverEvent, OpenSpec,
    Prompt, SteeringMessage, SteeringMessageId,
};
use hostler_process::{AgentProcess, AgentStdin, ProcessHandle};
use serde_json::value::RawValue;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::agent_requests::{AgentRequests, RequestResolution};
use crate::control_requests::PendingControlRequests;
use crate::launch_options;
use crate::mapping::EventMapper;
use crate::output_reader::OutputReader;
use crate::prompt;
use crate::transcript_locator::TranscriptLocator;
use crate::wire::{HostControlRequest, HostMessage, LiveSettings};
use crate::wire_stats::WireCounters;
use crate::workspace::StagedConfiguration;

/// Capacity of the event queue. A full queue slows the agent down; no event is dropped while the connection is open.
const EVENT_QUEUE_CAPACITY: usize = 1024;

/// Capacity of the stdin queue. An agent that no longer reads is ended.
const LINE_QUEUE_CAPACITY: usize = 256;

/// A live Claude Code process. Dropping it ends the process and its whole tree.
pub(crate) struct ClaudeConnection {
    shared: Arc<ConnectionState>,
    lines: mpsc::Sender<StdinCommand>,
    handle: ProcessHandle,
    /// Whether the model that it was started with is an Anthropic model.
    uses_anthropic_model: bool,
    tasks: TaskTracker,
    kill: CancellationToken,
    _kill_on_drop: DropGuard,
}

/// State that the connection shares with its output reader.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    pub(crate) requests: PendingControlRequests,
    agent_requests: Mutex<AgentRequests>,
    mapper: Mutex<EventMapper>,
    /// Notified when a steer arrives that no turn can receive: the reader reports it as undelivered.
    pub(crate) late_steering: Notify,
    /// How the process ended.
    pub(crate) exit_status: OnceLock<String>,
}

impl ConnectionState {
    /// The guard is never held across an await.
    pub(crate) fn agent_requests(&self) -> std::sync::MutexGuard<'_, AgentRequests> {
        self.agent_requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The guard is never held across an await.
    pub(crate) fn mapper(&self) -> std::sync::MutexGuard<'_, EventMapper> {
        self.mapper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command for the stdin writer.
pub(crate) enum StdinCommand {
    /// A line; `written` receives the result of the write.
    Line { line: Vec<u8>, written: Option<oneshot::Sender<std::io::Result<()>>> },
    /// No line follows.
    Close,
}

impl ClaudeConnection {
    /// Takes over a process and starts one writer and one reader task.
    pub(crate) fn start(
        process: AgentProcess,
        transcripts: TranscriptLocator,
        spec: &OpenSpec,
        counters: Arc<WireCounters>,
        stage: StagedConfiguration,
    ) -> (Self, mpsc::Receiver<DriverEvent>) {
        let AgentProcess { stdin, stdout, handle } = process;
        let mapper = Mutex::new(EventMapper::for_directory(transcripts.working_directory()));
        let shared = Arc::new(ConnectionState { mapper, ..ConnectionState::default() });
        let hurry = CancellationToken::new();
        let gone = CancellationToken::new();
        let (lines, queued) = mpsc::channel(LINE_QUEUE_CAPACITY);
        let (sender, events) = mpsc::channel(EVENT_QUEUE_CAPACITY + 1);
        let pump = OutputReader {
            shared: shared.clone(),
            stdout,
            handle: handle.clone(),
            lines: lines.clone(),
            exit_event_permit: sender.clone().try_reserve_owned().ok(),
            events: sender,
            counters,
            transcripts,
            permission_gate: Arc::clone(&spec.permission_gate),
            bearer: spec.endpoint.bearer.clone(),
            stage: Some(stage),
        };
        let tasks = TaskTracker::new();
        tasks.spawn(write_lines(stdin, queued, gone.clone()));
        tasks.spawn(pump.run(hurry.clone(), gone.drop_guard()));
        tasks.close();
        let _hurry_on_drop = hurry.clone().drop_guard();
        let is_of_its_maker = launch_options::is_anthropic_model(&spec.model);
        (
            Self {
                shared,
                lines,
                handle,
                uses_anthropic_model: is_of_its_maker,
                tasks,
                kill: hurry,
                _kill_on_drop: _hurry_on_drop,
            },
            events,
        )
    }

    /// Sends a request to the agent and waits for its answer or for its exit.
    pub(crate) async fn request(&self, request: HostControlRequest) -> Result<Option<Box<RawValue>>, ConnectionError> {
        let answer = self.send_request(request).await?;
        match answer.await {
            Ok(answer) => answer.map_err(ConnectionError::from),
            Err(_) => Err(self.exited_error()),
        }
    }

    async fn send_request(
        &self,
        request: HostControlRequest,
    ) -> Result<oneshot::Receiver<crate::control_requests::ControlResult>, ConnectionError> {
        let (request_id, answer) = self.shared.requests.register();
        self.queue_message(&HostMessage::ControlRequest { request_id: &request_id, request }, None).await?;
        Ok(answer)
    }

    async fn queue_message(
        &self,
        message: &HostMessage<'_>,
        written: Option<oneshot::Sender<std::io::Result<()>>>,
    ) -> Result<(), ConnectionError> {
        let line = message.to_line().map_err(|error| ConnectionError::Refused(error.to_string()))?;
        self.lines.send(StdinCommand::Line { line, written }).await.map_err(|_| self.exited_error())
    }

    fn exited_error(&self) -> ConnectionError {
        ConnectionError::Exited(self.shared.exit_status.get().cloned())
    }
}

impl AgentConnection for ClaudeConnection {
    fn send(&self, prompt: Prompt) -> BoxFuture<'_, Result<Uuid, ConnectionError>> {
        async move {
            let id = prompt.id().unwrap_or_else(Uuid::new_v4);
            let message = prompt::user_message(&prompt, id);
            // Before the write: the turn may start before the write is confirmed.
            self.shared.mapper().prompt_sent(id);
            let (written, outcome) = oneshot::channel();
            self.queue_message(&message, Some(written)).await?;
            match outcome.await {
                Ok(Ok(())) => Ok(id),
                Ok(Err(_)) | Err(_) => Err(self.exited_error()),
            }
        }
        .boxed()
    }

    fn interrupt(&self) -> BoxFuture<'_, Result<(), ConnectionError>> {
        async move {
            // An interrupted agent starts a turn about the messages in its queue, so the message in flight is
            // cancelled first.
            let message = self.shared.mapper().message_in_flight();
            if let Some(message_uuid) = message {
                let request_id = self.shared.requests.register_cancellation(message_uuid);
                let request = HostControlRequest::CancelAsyncMessage { message_uuid };
                self.queue_message(&HostMessage::ControlRequest { request_id: &request_id, request }, None).await?;
            }
            // The answer adds nothing to the turn's end, and a hanging agent sends none.
            self.send_request(HostControlRequest::Interrupt).await.map(drop)
        }
        .boxed()
    }

    fn answer(&self, request: &AgentRequestId, answer: Answer) -> BoxFuture<'_, Result<(), ConnectionError>> {
        // Removed before it is written, so that it cannot be answered twice.
        let consequence = self.shared.agent_requests().answer(&request.0, &answer);
        async move {
            let Some(RequestResolution { line, denied_call: denied, .. }) = consequence else {
                return Err(if self.shared.exit_status.get().is_some() {
                    self.exited_error()
                } else {
                    ConnectionError::RequestNotOpen
                });
            };
            if let Some(call) = denied {
                self.shared.mapper().mark_denied(&call);
            }
            let Some(line) = line else {
                return Err(ConnectionError::Refused("failed to serialize the answer".to_owned()));
            };
            let (written, outcome) = oneshot::channel();
            let line = StdinCommand::Line { line, written: Some(written) };
            self.lines.send(line).await.map_err(|_| self.exited_error())?;
            match outcome.await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) | Err(_) => Err(self.exited_error()),
            }
        }
        .boxed()
    }

    fn steer(&self, steer: SteeringMessage) {
        // Injected, cancelled and late are decided under one lock: the mapper's, under which turns end as well.
        self.shared.mapper().queue_steering(steer);
        self.shared.late_steering.notify_one();
    }

    fn cancel_steering(&self, id: &SteeringMessageId) -> bool {
        self.shared.mapper().cancel_steering(id)
    }

    fn apply_setting(&self, change: AgentSettingChange) -> BoxFuture<'_, Result<(), ConnectionError>> {
        async move {
            match change {
                AgentSettingChange::PermissionMode(mode) => {
                    self.request(HostControlRequest::SetPermissionMode { mode }).await.map(drop)
                }
                AgentSettingChange::Model(model)
                    if self.uses_anthropic_model && launch_options::is_anthropic_model(&model) =>
                {
                    self.shared.mapper().set_model_change_pending(true);
                    let answer = self.request(HostControlRequest::SetModel { model }).await;
                    // The agent echoes the change before it answers.
                    self.shared.mapper().set_model_change_pending(false);
                    answer.map(drop)
                }
                AgentSettingChange::ThinkingBudget(max_thinking_tokens) => {
                    self.request(HostControlRequest::SetMaxThinkingTokens { max_thinking_tokens }).await.map(drop)
                }
                AgentSettingChange::Effort(Some(effort_level)) => {
                    let settings = LiveSettings { effort_level };
                    self.request(HostControlRequest::ApplyFlagSettings { settings }).await.map(drop)
                }
                // The environment of the agent names models of other makers for its small tasks, so the model cannot
                // change at runtime. The older build retains its last effort level if it receives none.
                AgentSettingChange::Model(_) | AgentSettingChange::Effort(None) => {
                    Err(ConnectionError::Refused("this setting can be changed only when the agent starts".to_owned()))
                }
            }
        }
        .boxed()
    }

    fn stop_task(&self, id: &str) -> BoxFuture<'_, Result<(), ConnectionError>> {
        // Some builds accept any id.
        let runs = self.shared.mapper().is_running_in_background(id);
        let task_id = id.to_owned();
        async move {
            match runs {
                true => self.request(HostControlRequest::StopTask { task_id }).await.map(drop),
                false => Err(ConnectionError::RequestNotOpen),
            }
        }
        .boxed()
    }

    fn task_output_path(&self, id: &str) -> Option<PathBuf> {
        self.shared.mapper().task_output_path(id)
    }

    fn close(&self, mode: CloseMode) -> BoxFuture<'_, ()> {
        async move {
            match mode {
                CloseMode::Graceful => {
                    // A full queue means that the agent does not read, and a graceful close cannot work.
                    let _ = self.lines.try_send(StdinCommand::Close);
                    self.handle.close(hostler_process::TerminationMode::Graceful).await;
                }
                CloseMode::Now => {
                    self.kill.cancel();
                    self.handle.close(hostler_process::TerminationMode::Now).await;
                }
            }
            // From here on the reader no longer waits for room in the event queue.
            self.kill.cancel();
            self.tasks.wait().await;
        }
        .boxed()
    }
}

/// Writes lines in order until stdin is closed or the process has exited.
async fn write_lines(stdin: AgentStdin, mut queued: mpsc::Receiver<StdinCommand>, gone: CancellationToken) {
    let write = async {
        let mut stdin = stdin;
        while let Some(StdinCommand::Line { line, written }) = queued.recv().await {
            let outcome = stdin.write_line(line).await;
            if let Some(written) = written {
                // The receiver may have been dropped.
                let _ = written.send(outcome);
            }
        }
        stdin.close();
    };
    // An agent that does not read would block a write forever.
    gone.run_until_cancelled(write).await;
}
