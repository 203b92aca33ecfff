//! The actor of one terminal: reads the shell, writes input and is the only writer of the terminal's state.
//!
//! Output is published before a client's request is carried out, so all clients see one order. The actor reads no more
//! than it has published, so a shell that floods is slowed by its own terminal.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::state::TerminalInfo;
use bytes::{Buf as _, BytesMut};
use hostler_store::{ActionEntry, Batch, BatchDurability};
use hostler_terminal::{ShellOutput, ShellOutputParser};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::screen::TerminalScreen;
use super::shell::{TerminalShell, TerminalSize};
use super::{TerminalActionError, claim, parse_size, strip_terminal_input};
use crate::EngineError;
use crate::clients::broadcaster::Subscriber;
use crate::clock::ClockExt as _;
use crate::host::Host;
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::Dispatch;
use crate::sessions::state::ChannelState;
use crate::terminals::command_runner::CommandExit;

/// How long output is collected. Output after a pause is published at once.
const OUTPUT_COALESCE_INTERVAL: Duration = Duration::from_millis(16);

/// How much is read before it is published. Together with the interval above it limits the throughput of a shell, which
/// then waits as it would for a slow terminal.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// How much is read after a shell's end, and how long that may take. The operating system buffers far less.
const MAX_FINAL_OUTPUT_BYTES: usize = 1024 * 1024;
const FINAL_OUTPUT_TIMEOUT: Duration = Duration::from_millis(100);

/// Maximum amount of input that the shell has not read yet.
const MAX_PENDING_INPUT_BYTES: usize = 256 * 1024;

/// Maximum number of queued requests.
const MAX_QUEUED_REQUESTS: usize = 256;

/// How long the end of a shell is awaited. A process that it started may not be killable, such as another user's.
const SHELL_EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum length of a title.
pub(super) const MAX_TITLE_BYTES: usize = 1000;

/// A request to a terminal.
pub(super) enum TerminalRequest {
    Dispatch(Box<Dispatch>),
    Subscribe(Subscriber, u64, oneshot::Sender<Result<(), EngineError>>),
    /// Ends the terminal and replies.
    Dispose(oneshot::Sender<()>),
}

pub(super) type TerminalRequestSender = mpsc::Sender<TerminalRequest>;

/// Creates the request channel of a terminal.
pub(super) fn request_channel() -> (TerminalRequestSender, mpsc::Receiver<TerminalRequest>) {
    mpsc::channel(MAX_QUEUED_REQUESTS)
}

/// One terminal.
pub(super) struct TerminalActor {
    pub(super) host: Arc<Host>,
    pub(super) uri: Arc<str>,
    pub(super) screen: TerminalScreen,
    /// `None` after the shell has ended.
    pub(super) shell: Option<Arc<dyn TerminalShell>>,
    pub(super) stream: ShellOutputParser,
    /// Whether it displays the output of a tool call; clients can only read it then.
    pub(super) is_tool_call: bool,
}

/// Input and output in progress.
struct TerminalIo {
    /// Whether there may be more to read.
    is_readable: bool,
    buffer: Vec<u8>,
    /// Actions that are not published yet, and how many bytes of output they stand for.
    pending_actions: Vec<StateAction>,
    unpublished_bytes: usize,
    /// Earliest time of the next publication.
    next_publish_at: Instant,
    /// Whether the host's terminal list may be outdated.
    is_list_stale: bool,
    pending_input: BytesMut,
}

/// An event for the actor.
enum TerminalEvent {
    Request(TerminalRequest),
    Read(usize),
    Written(usize),
    PublishDue,
    ListDue,
    ShellExited(CommandExit),
    Stop,
}

impl TerminalActor {
    /// Runs the actor.
    pub(super) fn spawn(self, inputs: mpsc::Receiver<TerminalRequest>) {
        let host = Arc::clone(&self.host);
        host.tasks.spawn(self.run(inputs));
    }

    async fn run(mut self, mut inputs: mpsc::Receiver<TerminalRequest>) {
        let mut flow = TerminalIo {
            is_readable: true,
            buffer: vec![0; READ_BUFFER_BYTES],
            pending_actions: Vec::new(),
            unpublished_bytes: 0,
            next_publish_at: Instant::now(),
            is_list_stale: false,
            pending_input: BytesMut::new(),
        };
        loop {
            match self.next_event(&mut inputs, &mut flow).await {
                TerminalEvent::Read(0) => flow.is_readable = false,
                TerminalEvent::Read(length) => {
                    let pieces = self.stream.push(flow.buffer.get(..length).unwrap_or_default());
                    self.apply_output(pieces, &mut flow);
                    flow.unpublished_bytes += length;
                    if Instant::now() >= flow.next_publish_at {
                        self.publish_pending(&mut flow).await;
                    }
                }
                // The shell no longer reads.
                TerminalEvent::Written(0) => flow.pending_input.clear(),
                TerminalEvent::Written(length) => flow.pending_input.advance(length.min(flow.pending_input.len())),
                TerminalEvent::PublishDue => self.publish_pending(&mut flow).await,
                TerminalEvent::ListDue => flow.is_list_stale = !self.host.publish_terminals_throttled().await,
                TerminalEvent::Request(TerminalRequest::Dispatch(dispatch)) => {
                    self.dispatch(*dispatch, &mut flow).await;
                    // The session that holds the claim may have been deleted meanwhile.
                    if self.host.missing_claim_session(&self.screen.state.claim).is_some() {
                        return self.dispose(None).await;
                    }
                }
                TerminalEvent::Request(TerminalRequest::Subscribe(subscriber, token, reply)) => {
                    self.publish_pending(&mut flow).await;
                    let state = ChannelState::Terminal(Arc::clone(&self.screen.state));
                    let result =
                        self.host.publication.deliver_snapshot(Arc::clone(&self.uri), state, subscriber, token).await;
                    let _ = reply.send(result);
                }
                TerminalEvent::ShellExited(end) => self.finish(end, &mut flow).await,
                TerminalEvent::Request(TerminalRequest::Dispose(reply)) => return self.dispose(Some(reply)).await,
                TerminalEvent::Stop => return self.terminate_shell().await,
            }
        }
    }

    async fn next_event(&self, inputs: &mut mpsc::Receiver<TerminalRequest>, flow: &mut TerminalIo) -> TerminalEvent {
        let TerminalIo {
            is_readable: readable,
            buffer,
            pending_actions: waiting,
            unpublished_bytes: unpublished,
            next_publish_at: due,
            is_list_stale: unlisted,
            pending_input: typed,
        } = flow;
        let shell = self.shell.as_deref();
        let read = async {
            match shell.filter(|_| *readable && *unpublished < READ_BUFFER_BYTES) {
                Some(shell) => shell.read(buffer).await,
                None => pending().await,
            }
        };
        let write = async {
            match shell.filter(|_| !typed.is_empty()) {
                Some(shell) => shell.write(typed).await,
                None => pending().await,
            }
        };
        let ended = async {
            match shell {
                Some(shell) => shell.wait().await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = self.host.tasks.stopped() => TerminalEvent::Stop,
            input = inputs.recv() => input.map_or(TerminalEvent::Stop, TerminalEvent::Request),
            length = write => TerminalEvent::Written(length),
            // Output may consist of marks that cause no action; reading has to continue after them, too.
            () = tokio::time::sleep_until(*due), if !waiting.is_empty() || *unpublished >= READ_BUFFER_BYTES => TerminalEvent::PublishDue,
            () = tokio::time::sleep_until(self.host.terminals.next_list_publish()), if *unlisted => TerminalEvent::ListDue,
            length = read => TerminalEvent::Read(length),
            end = ended => TerminalEvent::ShellExited(end),
        }
    }

    fn apply_output(&mut self, pieces: Vec<ShellOutput>, flow: &mut TerminalIo) {
        let now = self.host.clock.now_ms();
        for piece in pieces {
            self.screen.apply_output(piece, now, &mut flow.pending_actions);
        }
    }

    /// Publishes pending output. A slow disk delays the actor here, and thereby the shell.
    async fn publish_pending(&mut self, flow: &mut TerminalIo) {
        flow.unpublished_bytes = 0;
        if flow.pending_actions.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut flow.pending_actions);
        waiting.iter().for_each(|action| self.screen.reduce(action));
        let entries = waiting.into_iter().map(|action| ActionEntry::new(Arc::clone(&self.uri), action));
        let published = async {
            let entries = entries.collect::<Result<Vec<_>, _>>()?;
            self.host.publication.commit(Batch::new(None, BatchDurability::Memory).entries(entries)).await
        };
        if let Err(error) = published.await {
            tracing::debug!(%error, "failed to publish terminal output: the store has stopped");
        }
        flow.next_publish_at = Instant::now() + OUTPUT_COALESCE_INTERVAL;
        self.update_list_entry(flow).await;
    }

    /// Updates the entry in the host's terminal list, now or soon: a program may change the title continuously.
    async fn update_list_entry(&self, flow: &mut TerminalIo) {
        let state = &self.screen.state;
        let info = TerminalInfo {
            resource: self.uri.to_string(),
            title: state.title.clone(),
            claim: state.claim.clone(),
            lifecycle: state.lifecycle.clone(),
        };
        if self.host.terminals.update_info(info) {
            flow.is_list_stale = !self.host.publish_terminals_throttled().await;
        }
    }

    async fn dispatch(&mut self, dispatch: Dispatch, flow: &mut TerminalIo) {
        if self.host.answer_repeated_dispatch(&dispatch) {
            return;
        }
        // Keeps the order of events.
        self.publish_pending(flow).await;
        let accepted = self.accept(&dispatch, flow);
        match accepted {
            Ok(()) => self.echo(dispatch, flow).await,
            Err(rejection) => self.host.publication.reject(dispatch, rejection).await,
        }
    }

    async fn echo(&mut self, mut dispatch: Dispatch, flow: &mut TerminalIo) {
        strip_terminal_input(&mut dispatch.action);
        self.screen.reduce(&dispatch.action);
        let (origin, from) = (dispatch.origin(), dispatch.subscriber);
        let published = async {
            let entry = ActionEntry::new(Arc::clone(&self.uri), dispatch.action)?.with_origin(Some(origin));
            let batch = Batch::new(None, BatchDurability::Memory).entry(entry);
            self.host.publication.commit(self.host.publication.with_echo(batch, from)).await
        };
        if let Err(error) = published.await {
            tracing::debug!(%error, "failed to publish a terminal action: the store has stopped");
        }
        self.update_list_entry(flow).await;
    }

    /// Checks a request and carries it out.
    fn accept(&mut self, dispatch: &Dispatch, flow: &mut TerminalIo) -> Result<(), ActionRejection> {
        if self.is_tool_call {
            return Err(TerminalActionError::ReadOnly.into());
        }
        match &dispatch.action {
            StateAction::TerminalInput(input) => {
                if self.shell.is_none() {
                    return Err(TerminalActionError::ShellEnded.into());
                }
                if input.data.len() > MAX_PENDING_INPUT_BYTES {
                    return Err(TerminalActionError::InputTooLarge { max_bytes: MAX_PENDING_INPUT_BYTES }.into());
                }
                if flow.pending_input.len() + input.data.len() > MAX_PENDING_INPUT_BYTES {
                    let pending_bytes = flow.pending_input.len();
                    return Err(TerminalActionError::InputNotRead { pending_bytes }.into());
                }
                flow.pending_input.extend_from_slice(input.data.as_bytes());
            }
            StateAction::TerminalResized(resized) => {
                let size = parse_size(Some(resized.cols), Some(resized.rows))?;
                self.resize(size);
            }
            StateAction::TerminalClaimed(claimed) => {
                claim::check_claim_transfer(&dispatch.client_id, &self.screen.state.claim, &claimed.claim, &*self.host)
                    .map_err(TerminalActionError::from)?;
            }
            StateAction::TerminalTitleChanged(renamed) => {
                if !(1..=MAX_TITLE_BYTES).contains(&renamed.title.len()) {
                    return Err(TerminalActionError::InvalidTitle { max_bytes: MAX_TITLE_BYTES }.into());
                }
                self.screen.has_user_title = true;
            }
            StateAction::TerminalCleared(_) => {}
            _ => return Err(ActionRejection::Unsupported),
        }
        Ok(())
    }

    fn resize(&self, size: TerminalSize) {
        if let Some(shell) = &self.shell {
            shell.resize(size);
        }
    }

    /// Handles the end of the shell and of everything that it started: reads the remaining output, then publishes the
    /// exit.
    async fn finish(&mut self, end: CommandExit, flow: &mut TerminalIo) {
        if let Some(shell) = self.shell.take() {
            let mut rest = 0;
            while flow.is_readable && rest < MAX_FINAL_OUTPUT_BYTES {
                let length = tokio::select! {
                    biased;
                    () = self.host.tasks.stopped() => 0,
                    length = shell.read(&mut flow.buffer) => length,
                    // Another process may have the terminal open, and then there is no end of file.
                    () = tokio::time::sleep(FINAL_OUTPUT_TIMEOUT) => 0,
                };
                flow.is_readable = length > 0;
                rest += length;
                let pieces = self.stream.push(flow.buffer.get(..length).unwrap_or_default());
                self.apply_output(pieces, flow);
                self.publish_pending(flow).await;
            }
            flow.is_readable = false;
        }
        flow.pending_input.clear();
        let pieces = self.stream.finish();
        self.apply_output(pieces, flow);
        self.screen.exit(end.exit_code(), self.host.clock.now_ms(), &mut flow.pending_actions);
        self.publish_pending(flow).await;
        self.host.publish_terminals().await;
        // The buffer is not needed any more.
        flow.buffer = Vec::new();
    }

    /// Removes the terminal, which frees its URI at once. A separate task ends the shell, and the reply is sent when
    /// its processes are gone or the timeout has passed.
    async fn dispose(mut self, reply: Option<oneshot::Sender<()>>) {
        self.host.remove_terminal(&self.uri).await;
        let host = Arc::clone(&self.host);
        host.tasks.spawn(async move {
            self.terminate_shell().await;
            if let Some(reply) = reply {
                let _ = reply.send(());
            }
        });
    }

    async fn terminate_shell(&mut self) {
        if let Some(shell) = self.shell.take()
            && self.host.clock.timeout(SHELL_EXIT_TIMEOUT, shell.terminate()).await.is_none()
        {
            tracing::warn!(terminal = %self.uri, "a process of the shell did not end in time");
        }
    }
}
