use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use hostler_driver::{
    ApiErrorCategory, DriverEvent, Gatekeeper, RequestId, StderrTail, Steer, SubAgentEvent, SubAgentOutcome,
    TurnOutcome,
};
use hostler_process::{CloseMode, LineError, LineReader, ProcessHandle};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use crate::asks::Consequence;
use crate::connection::{Outgoing, Shared};
use crate::control::Withdrawal;
use crate::display;
use crate::prompt;
use crate::stats::Counters;
use crate::transcript::{self, Stored, Transcripts};
use crate::wire::{ControlAsk, ControlBody, SystemMessage, WireMessage};
use crate::workspace::Stage;

/// Reads what the agent prints: answers its requests at once, hands its work on as events, and sees its end.
pub(crate) struct Pump {
    pub(crate) shared: Arc<Shared>,
    pub(crate) stdout: LineReader,
    pub(crate) handle: ProcessHandle,
    pub(crate) lines: mpsc::Sender<Outgoing>,
    pub(crate) events: mpsc::Sender<DriverEvent>,
    /// A place in the queue that only the last event may take, however slow its reader is.
    pub(crate) last_event: Option<mpsc::OwnedPermit<DriverEvent>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) transcripts: Transcripts,
    pub(crate) gatekeeper: Arc<dyn Gatekeeper>,
    /// So that nothing we pass on quotes it.
    pub(crate) bearer: SecretString,
    /// What the agent was started on: it goes when the agent is gone.
    pub(crate) stage: Option<Stage>,
}

impl Pump {
    /// Runs until the process is gone. `hurry` ends it; `gone` tells the writer that there is nobody to write to.
    pub(crate) async fn run(mut self, hurry: CancellationToken, gone: DropGuard) {
        let handle = self.handle.clone();
        let mut end = pin!(async {
            hurry.cancelled().await;
            handle.close(CloseMode::Now).await;
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
                () = self.shared.too_late.notified() => {
                    let events = self.shared.mapper().too_late();
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
                    self.counters.malformed();
                    tracing::warn!(%error, "a message of the agent was skipped");
                }
                Err(error @ LineError::Io(_)) => {
                    tracing::warn!(%error, "the agent's output ended");
                    break;
                }
            }
        }
        // It has said all that it will say. If it does not end by itself now, it is ended.
        self.handle.close(CloseMode::Graceful).await;
        self.finish(gone).await;
    }

    async fn on_line(&mut self, line: &[u8], hurry: &CancellationToken) {
        let message = match WireMessage::parse(line) {
            Ok(message) => message,
            Err(error) => {
                self.counters.malformed();
                tracing::warn!(%error, "a line of the agent was skipped");
                return;
            }
        };
        self.counters.message();
        let mut events = Vec::new();
        match &message {
            WireMessage::ControlRequest(ask) => events = self.on_request(ask, hurry),
            WireMessage::ControlCancel { request_id } if self.shared.asks().withdraw(request_id) => {
                events.push(DriverEvent::RequestWithdrawn(RequestId(request_id.to_string())));
            }
            WireMessage::ControlResponse(answer) => match self.shared.requests.withdrawal(answer) {
                Some(Withdrawal { message, is_back }) => {
                    events.extend(self.shared.mapper().message_withdrawn(message, is_back));
                }
                None => self.shared.requests.resolve(answer),
            },
            WireMessage::Unknown { kind, subtype } => {
                tracing::debug!(kind, subtype, "the agent sent a message that is not known");
            }
            _ => {}
        }
        self.look_for_transcript(&message).await;
        events.extend(self.map(&message));
        self.name_missing_directory(&mut events).await;
        for event in events {
            self.deliver(event, hurry).await;
        }
    }

    /// Decides on what the agent asks; what only a person can decide is handed on.
    fn on_request(&mut self, ask: &ControlAsk<'_>, hurry: &CancellationToken) -> Vec<DriverEvent> {
        let mut steer = None;
        let mut words = || {
            steer = if ask.reaches_agent() { self.tell() } else { None };
            steer.as_ref().map(|steer| prompt::said_meanwhile(steer.text.expose()))
        };
        let consequence = self.shared.asks().consider(ask, &*self.gatekeeper, &mut words);
        let Consequence { line, denied, mut event, gated } = consequence;
        if let Some(DriverEvent::PermissionRequested(request)) = &mut event {
            let directory = self.transcripts.working_directory();
            request.display = display::display(&request.tool, Some(&request.input), directory);
        }
        let mut mapper = self.shared.mapper();
        let mut events = mapper.hooked(&ask.body);
        if let Some(call) = denied {
            mapper.denied(&call);
        }
        events.extend(mapper.gated(gated));
        drop(mapper);
        let waits = event.is_some();
        events.extend(event);
        let answered = line.is_some_and(|line| self.lines.try_send(Outgoing::Line { line, written: None }).is_ok());
        if !answered && !waits && !self.lines.is_closed() {
            tracing::error!("the agent does not read what it is told; it is ended");
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

    /// The words that the answer to a hook carries. What has attachments is written before that answer instead, so that
    /// the agent has it in its queue when the call is over.
    fn tell(&self) -> Option<Steer> {
        let steer = self.shared.mapper().next_steer()?;
        if steer.text.blocks().is_empty() {
            return self.shared.mapper().inject(&steer.id).then_some(steer);
        }
        let id = steer.text.id().unwrap_or_else(Uuid::new_v4);
        // Made before the lock is taken: it may be large.
        let line = prompt::folded(&steer.text, id).to_line().ok()?;
        let mut mapper = self.shared.mapper();
        if mapper.write_steer(&steer.id, id) {
            // Under the lock: whoever takes it back speaks behind it. An agent whose queue is full is ended, and then it is
            // given back.
            let _ = self.lines.try_send(Outgoing::Line { line, written: None });
        }
        None
    }

    /// Turns begin and end, and hooks fire, with the conversation's name: occasions to learn where it is stored.
    async fn look_for_transcript(&self, message: &WireMessage<'_>) {
        let session = match message {
            WireMessage::System(SystemMessage::Init(init)) => init.session_id.as_deref(),
            WireMessage::Result(result) => result.session_id.as_deref(),
            WireMessage::ControlRequest(ask) => {
                if let ControlBody::PreToolUse { transcript_path: Some(path), .. } = &ask.body {
                    self.transcript_named(PathBuf::from(&**path)).await;
                }
                None
            }
            _ => None,
        };
        let Some(session) = session else { return };
        if let Stored::Transcript(path) = self.transcripts.find(session).await {
            self.shared.mapper().transcript_found(session, path);
        }
    }

    async fn transcript_named(&self, path: PathBuf) {
        let session = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
        if let Some(session) = session
            && let Stored::Transcript(path) = transcript::at(path).await
        {
            self.shared.mapper().transcript_found(&session, path);
        }
    }

    fn map(&self, message: &WireMessage<'_>) -> Vec<DriverEvent> {
        let mut events = self.shared.mapper().on_message(message);
        for event in &mut events {
            // What the agent says about a failed request may quote the request.
            let told = match event {
                DriverEvent::TurnEnded(TurnOutcome::Failed(failure)) => &mut failure.message,
                DriverEvent::CompactionFailed(reason) => reason,
                DriverEvent::SubAgent { event: SubAgentEvent::Finished(SubAgentOutcome::Failed(why)), .. } => why,
                _ => continue,
            };
            *told = told.replace(self.bearer.expose_secret(), "[redacted]");
        }
        events
    }

    /// Some builds take no prompt once their directory is gone. That has a name, which they do not say.
    async fn name_missing_directory(&self, events: &mut [DriverEvent]) {
        for event in events {
            if let DriverEvent::TurnEnded(TurnOutcome::Failed(failure)) = event
                && failure.category == ApiErrorCategory::Agent
                && !tokio::fs::try_exists(self.transcripts.working_directory()).await.unwrap_or(true)
            {
                failure.category = ApiErrorCategory::WorkingDirectory;
            }
        }
    }

    /// Waits for room, unless the connection is being ended.
    async fn deliver(&self, event: DriverEvent, hurry: &CancellationToken) {
        tokio::select! {
            biased;
            room = self.events.reserve() => if let Ok(room) = room { room.send(event) },
            () = hurry.cancelled() => {}
        }
    }

    async fn finish(mut self, gone: DropGuard) {
        let status = self.handle.exited().await.to_string();
        drop(self.stage.take());
        let stderr = StderrTail::from_redacted(self.handle.stderr_tail());
        let skipped = self.shared.mapper().skipped();
        self.counters.skipped(skipped.unknown, skipped.sub_agent);
        // In this order: whoever is told that the agent is gone can also be told how.
        let _ = self.shared.ended.set(status.clone());
        drop(gone);
        self.shared.requests.close();
        for event in self.shared.mapper().give_up() {
            // Whoever does not read is told of the end alone.
            let _ = self.events.try_send(event);
        }
        if let Some(place) = self.last_event.take() {
            place.send(DriverEvent::Gone { status, stderr });
        }
    }
}
