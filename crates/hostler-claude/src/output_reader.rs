//! Reads the agent's output: answers requests, emits events and reports the exit.
//!
//! Owns the process handle and the staged configuration for the agent's lifetime. Does not decide on tool calls; the
//! gate and `agent_requests` do.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use hostler_driver::{
    AgentRequestId, ApiErrorCategory, DriverEvent, PermissionGate, StderrTail, SteeringMessage, SubAgentEvent,
    SubAgentOutcome, TurnOutcome,
};
use hostler_process::{LineError, LineReader, ProcessHandle, TerminationMode};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use crate::agent_requests::{RequestResolution, decide_on_call};
use crate::connection::{ConnectionState, StdinCommand};
use crate::control_requests::MessageCancellation;
use crate::prompt;
use crate::tool_display;
use crate::transcript_locator::{self, TranscriptLocator, TranscriptPresence};
use crate::wire::{AgentControlRequest, ControlRequestBody, SystemMessage, WireMessage};
use crate::wire_stats::WireCounters;
use crate::workspace::StagedConfiguration;

/// Reads the agent's output until the process has exited.
pub(crate) struct OutputReader {
    pub(crate) shared: Arc<ConnectionState>,
    pub(crate) stdout: LineReader,
    pub(crate) handle: ProcessHandle,
    pub(crate) lines: mpsc::Sender<StdinCommand>,
    pub(crate) events: mpsc::Sender<DriverEvent>,
    /// A reserved slot in the queue for the exit event, however slow the receiver is.
    pub(crate) exit_event_permit: Option<mpsc::OwnedPermit<DriverEvent>>,
    pub(crate) counters: Arc<WireCounters>,
    pub(crate) transcripts: TranscriptLocator,
    pub(crate) permission_gate: Arc<dyn PermissionGate>,
    /// Redacted in every text that is passed on.
    pub(crate) bearer: SecretString,
    /// The configuration that the agent was started with; removed after its exit.
    pub(crate) stage: Option<StagedConfiguration>,
}

impl OutputReader {
    /// Runs until the process has exited. `hurry` ends the process; dropping `gone` stops the writer.
    pub(crate) async fn run(mut self, hurry: CancellationToken, gone: DropGuard) {
        let handle = self.handle.clone();
        let mut end = pin!(async {
            hurry.cancelled().await;
            handle.close(TerminationMode::Now).await;
        });
        let mut ended = false;
        loop {
            let line = tokio::select! {
                biased;
                () = &mut end, if !ended => {
                    ended = true;
                    continue;
                }
                line = self.stdout.next_line() => line,
                () = self.shared.late_steering.notified() => {
                    let events = self.shared.mapper().take_late_steering();
                    for event in events {
                        self.deliver(event, &hurry).await;
                    }
                    continue;
                }
            };
            match line {
                Ok(Some(line)) => self.on_line(&line, &hurry).await,
                Ok(None) => break,
                Err(error @ LineError::TooLong { .. }) => {
                    self.counters.count_malformed();
                    tracing::warn!(%error, "skipped a message of the agent");
                }
                Err(error @ LineError::Io(_)) => {
                    tracing::warn!(%error, "agent output ended");
                    break;
                }
            }
        }
        // The output has ended. An agent that does not exit by itself now is ended.
        self.handle.close(TerminationMode::Graceful).await;
        self.finish(gone).await;
    }

    async fn on_line(&mut self, line: &[u8], hurry: &CancellationToken) {
        let message = match WireMessage::parse(line) {
            Ok(message) => message,
            Err(error) => {
                self.counters.count_malformed();
                tracing::warn!(%error, "skipped a line of agent output");
                return;
            }
        };
        self.counters.count_message();
        let mut events = Vec::new();
        match &message {
            WireMessage::ControlRequest(ask) => events = self.on_request(ask, hurry).await,
            WireMessage::ControlCancel { request_id } if self.shared.agent_requests().withdraw(request_id) => {
                events.push(DriverEvent::RequestWithdrawn(AgentRequestId(request_id.to_string())));
            }
            WireMessage::ControlResponse(answer) => match self.shared.requests.take_cancellation(answer) {
                Some(MessageCancellation { message_id: message, was_cancelled: is_back }) => {
                    events.extend(self.shared.mapper().on_message_cancelled(message, is_back));
                }
                None => self.shared.requests.resolve(answer),
            },
            WireMessage::Unknown { kind, subtype } => {
                tracing::debug!(kind, subtype, "unknown agent message");
            }
            _ => {}
        }
        self.locate_transcript(&message).await;
        events.extend(self.map(&message));
        self.classify_missing_directory(&mut events).await;
        for event in events {
            self.deliver(event, hurry).await;
        }
    }

    /// Decides on a request of the agent; requests for a person become events.
    async fn on_request(&mut self, ask: &AgentControlRequest<'_>, hurry: &CancellationToken) -> Vec<DriverEvent> {
        // A connection that is being closed does not wait for the gate.
        let decision = tokio::select! {
            biased;
            decision = decide_on_call(ask, &self.permission_gate) => decision,
            () = hurry.cancelled() => None,
        };
        let mut steer = None;
        let mut take_steering = || {
            steer = if ask.is_from_main_agent() { self.next_steering_text() } else { None };
            steer.as_ref().map(|steer| prompt::wrap_steering_text(steer.prompt.expose()))
        };
        let consequence = self.shared.agent_requests().handle_request(ask, decision, &mut take_steering);
        let RequestResolution { line, denied_call: denied, mut event, gate_decision: gated } = consequence;
        if let Some(DriverEvent::PermissionRequested(request)) = &mut event {
            let directory = self.transcripts.working_directory();
            request.display = tool_display::display_tool_call(&request.tool, Some(&request.input), directory);
        }
        let mut mapper = self.shared.mapper();
        let mut events = mapper.on_hook(&ask.body);
        if let Some(call) = denied {
            mapper.mark_denied(&call);
        }
        events.extend(mapper.on_gate_decision(gated));
        drop(mapper);
        let waits = event.is_some();
        events.extend(event);
        let answered = line.is_some_and(|line| self.lines.try_send(StdinCommand::Line { line, written: None }).is_ok());
        if !answered && !waits && !self.lines.is_closed() {
            tracing::error!("agent does not read its input: terminating it");
            hurry.cancel();
        }
        if let Some(steer) = steer {
            events.push(match answered {
                true => DriverEvent::SteerInjected(steer.id),
                false => DriverEvent::SteerUndelivered(steer.id),
            });
        }
        events
    }

    /// The steering text for the answer to a hook. A steer with attachments is written as a message before that
    /// answer instead, so that it is in the agent's queue when the call is over.
    fn next_steering_text(&self) -> Option<SteeringMessage> {
        let steer = self.shared.mapper().next_steering()?;
        if steer.prompt.blocks().is_empty() {
            return self.shared.mapper().inject_steering(&steer.id).then_some(steer);
        }
        let id = steer.prompt.id().unwrap_or_else(Uuid::new_v4);
        // Serialized before the lock is taken, because it may be large.
        let line = prompt::queued_message(&steer.prompt, id).to_line().ok()?;
        let mut mapper = self.shared.mapper();
        if mapper.send_steering_as_message(&steer.id, id) {
            // Under the lock, so that a cancellation is written after it. An agent with a full queue is ended, and
            // the steer is then undelivered.
            let _ = self.lines.try_send(StdinCommand::Line { line, written: None });
        }
        None
    }

    /// Starts and ends of turns and hooks carry the conversation's id; the transcript is located then.
    async fn locate_transcript(&self, message: &WireMessage<'_>) {
        let session = match message {
            WireMessage::System(SystemMessage::Init(init)) => init.session_id.as_deref(),
            WireMessage::Result(result) => result.session_id.as_deref(),
            WireMessage::ControlRequest(ask) => {
                if let ControlRequestBody::PreToolUse { transcript_path: Some(path), .. } = &ask.body {
                    self.record_transcript_path(PathBuf::from(&**path)).await;
                }
                None
            }
            _ => None,
        };
        let Some(session) = session else { return };
        if let TranscriptPresence::Resumable(path) = self.transcripts.find(session).await {
            self.shared.mapper().transcript_found(session, path);
        }
    }

    async fn record_transcript_path(&self, path: PathBuf) {
        let session = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
        if let Some(session) = session
            && let TranscriptPresence::Resumable(path) = transcript_locator::inspect_transcript(path).await
        {
            self.shared.mapper().transcript_found(&session, path);
        }
    }

    fn map(&self, message: &WireMessage<'_>) -> Vec<DriverEvent> {
        let mut events = self.shared.mapper().on_message(message);
        for event in &mut events {
            // The agent's text about a failed request may quote the request.
            let text = match event {
                DriverEvent::TurnEnded(TurnOutcome::Failed(failure)) => &mut failure.message,
                DriverEvent::CompactionFailed(reason) => reason,
                DriverEvent::SubAgent { event: SubAgentEvent::Finished(SubAgentOutcome::Failed(why)), .. } => why,
                _ => continue,
            };
            *text = text.replace(self.bearer.expose_secret(), "[redacted]");
        }
        events
    }

    /// Some builds accept no prompt after their directory was deleted and do not report that reason; this does.
    async fn classify_missing_directory(&self, events: &mut [DriverEvent]) {
        for event in events {
            if let DriverEvent::TurnEnded(TurnOutcome::Failed(failure)) = event
                && failure.category == ApiErrorCategory::Agent
                && !tokio::fs::try_exists(self.transcripts.working_directory()).await.unwrap_or(true)
            {
                failure.category = ApiErrorCategory::WorkingDirectory;
            }
        }
    }

    /// Waits for room in the queue, unless the connection is being closed.
    async fn deliver(&self, event: DriverEvent, hurry: &CancellationToken) {
        tokio::select! {
            biased;
            room = self.events.reserve() => if let Ok(room) = room { room.send(event) },
            () = hurry.cancelled() => {}
        }
    }

    async fn finish(mut self, gone: DropGuard) {
        let status = self.handle.wait_for_exit().await.to_string();
        drop(self.stage.take());
        let stderr = StderrTail::from_redacted(self.handle.stderr_tail());
        let skipped = self.shared.mapper().skipped();
        self.counters.count_skipped(skipped.unknown, skipped.sub_agent);
        // The status is set first, so that code that sees the exit can read it.
        let _ = self.shared.exit_status.set(status.clone());
        drop(gone);
        self.shared.requests.close();
        for event in self.shared.mapper().abandon_steering() {
            // A receiver that does not read gets only the exit event.
            let _ = self.events.try_send(event);
        }
        if let Some(place) = self.exit_event_permit.take() {
            place.send(DriverEvent::ProcessExited { status, stderr });
        }
    }
}
