//! One terminal: its shell, its state, and who wants something of it. All changes go through here.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::state::TerminalInfo;
use bytes::{Buf as _, BytesMut};
use hostler_store::{Batch, Durability, Entry};
use hostler_terminal::{Piece, Stream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::calls::READ_ONLY;
use super::port::{Shell, TerminalSize};
use super::screen::Screen;
use super::{claim, size, without_typed};
use crate::EngineError;
use crate::clock::ClockExt as _;
use crate::commands::CommandEnd;
use crate::host::Host;
use crate::hub::Subscriber;
use crate::session::Dispatch;
use crate::state::ChannelState;

/// How long output is gathered. What comes after a silence is told at once.
const GATHER: Duration = Duration::from_millis(16);

/// How much is read before it has to be told. Together with the time above, this is how fast a shell can write: one that
/// floods waits for its terminal, as it would for a slow one.
const READ: usize = 64 * 1024;

/// How much is read after a shell's end, at most, and how long that may take to come. The system holds far less than that.
const MAX_REST: usize = 1024 * 1024;
const SILENCE: Duration = Duration::from_millis(100);

/// How much may be typed that the shell has not read yet.
const MAX_TYPED: usize = 256 * 1024;

/// How many wishes may wait.
const MAX_INPUTS: usize = 256;

/// How long the end of a shell is waited for. What it has started may be beyond our reach: another user's process, say.
const END: Duration = Duration::from_secs(5);

/// The longest title.
pub(super) const MAX_TITLE: usize = 1000;

/// What is wanted of a terminal.
pub(super) enum Input {
    Dispatch(Box<Dispatch>),
    Subscribe(Subscriber, u64, oneshot::Sender<Result<(), EngineError>>),
    /// End it, and say so.
    Dispose(oneshot::Sender<()>),
}

pub(super) type Inputs = mpsc::Sender<Input>;

/// The way to a terminal, from both ends.
pub(super) fn inputs() -> (Inputs, mpsc::Receiver<Input>) {
    mpsc::channel(MAX_INPUTS)
}

/// One terminal.
pub(super) struct Actor {
    pub(super) host: Arc<Host>,
    pub(super) uri: Arc<str>,
    pub(super) screen: Screen,
    /// Gone when it has ended.
    pub(super) shell: Option<Arc<dyn Shell>>,
    pub(super) stream: Stream,
    /// Whether it shows what a call prints; then clients only look.
    pub(super) of_call: bool,
}

/// What is on its way to the shell and from it.
struct Flow {
    /// Whether there may be more to read.
    readable: bool,
    buffer: Vec<u8>,
    /// What was heard and not told yet, and how many bytes that was.
    waiting: Vec<StateAction>,
    heard: usize,
    /// Since when something may be told again.
    due: Instant,
    /// Whether the host's list may have to be told again.
    unlisted: bool,
    typed: BytesMut,
}

/// What happened.
enum Event {
    Input(Input),
    Read(usize),
    Written(usize),
    Due,
    ListDue,
    Ended(CommandEnd),
    Stop,
}

impl Actor {
    /// Lets it live.
    pub(super) fn spawn(self, inputs: mpsc::Receiver<Input>) {
        let tasks = self.host.tasks.clone();
        tasks.spawn(self.run(inputs));
    }

    async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        let mut flow = Flow {
            readable: true,
            buffer: vec![0; READ],
            waiting: Vec::new(),
            heard: 0,
            due: Instant::now(),
            unlisted: false,
            typed: BytesMut::new(),
        };
        loop {
            match self.next(&mut inputs, &mut flow).await {
                Event::Read(0) => flow.readable = false,
                Event::Read(length) => {
                    let pieces = self.stream.push(flow.buffer.get(..length).unwrap_or_default());
                    self.hear(pieces, &mut flow);
                    flow.heard += length;
                    if Instant::now() >= flow.due {
                        self.tell(&mut flow).await;
                    }
                }
                // Nobody reads it any more.
                Event::Written(0) => flow.typed.clear(),
                Event::Written(length) => flow.typed.advance(length.min(flow.typed.len())),
                Event::Due => self.tell(&mut flow).await,
                Event::ListDue => flow.unlisted = !self.host.tell_terminals_in_turn().await,
                Event::Input(Input::Dispatch(dispatch)) => {
                    self.dispatch(*dispatch, &mut flow).await;
                    // It may have been passed on to a session that has gone meanwhile.
                    if self.host.lost(&self.screen.state.claim).is_some() {
                        return self.leave(None).await;
                    }
                }
                Event::Input(Input::Subscribe(subscriber, token, reply)) => {
                    self.tell(&mut flow).await;
                    let state = ChannelState::Terminal(Arc::clone(&self.screen.state));
                    let result = self.host.deliver_snapshot(Arc::clone(&self.uri), state, subscriber, token).await;
                    let _ = reply.send(result);
                }
                Event::Ended(end) => self.ended(end, &mut flow).await,
                Event::Input(Input::Dispose(reply)) => return self.leave(Some(reply)).await,
                Event::Stop => return self.end_shell().await,
            }
        }
    }

    async fn next(&self, inputs: &mut mpsc::Receiver<Input>, flow: &mut Flow) -> Event {
        let Flow { readable, buffer, waiting, heard, due, unlisted, typed } = flow;
        let shell = self.shell.as_deref();
        let read = async {
            match shell.filter(|_| *readable && *heard < READ) {
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
                Some(shell) => shell.ended().await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = self.host.stop.cancelled() => Event::Stop,
            input = inputs.recv() => input.map_or(Event::Stop, Event::Input),
            length = write => Event::Written(length),
            // What was heard may be marks alone that say nothing; reading has to go on after them, too.
            () = tokio::time::sleep_until(*due), if !waiting.is_empty() || *heard >= READ => Event::Due,
            () = tokio::time::sleep_until(self.host.terminals.turn()), if *unlisted => Event::ListDue,
            length = read => Event::Read(length),
            end = ended => Event::Ended(end),
        }
    }

    fn hear(&mut self, pieces: Vec<Piece>, flow: &mut Flow) {
        let now = self.host.clock.now_ms();
        for piece in pieces {
            self.screen.hear(piece, now, &mut flow.waiting);
        }
    }

    /// Tells what was heard. A slow disk is waited for here, and by the shell then.
    async fn tell(&mut self, flow: &mut Flow) {
        flow.heard = 0;
        if flow.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut flow.waiting);
        waiting.iter().for_each(|action| self.screen.reduce(action));
        let entries = waiting.into_iter().map(|action| Entry::new(Arc::clone(&self.uri), action));
        let told = async {
            let entries = entries.collect::<Result<Vec<_>, _>>()?;
            self.host.store.sequencer().commit(Batch::new(None, Durability::Memory).entries(entries)).await
        };
        if let Err(error) = told.await {
            tracing::debug!(%error, "what a terminal showed came too late");
        }
        flow.due = Instant::now() + GATHER;
        self.list(flow).await;
    }

    /// The host's list says what the state says, now or soon: somebody may rename a terminal all the time.
    async fn list(&self, flow: &mut Flow) {
        let state = &self.screen.state;
        let info = TerminalInfo {
            resource: self.uri.to_string(),
            title: state.title.clone(),
            claim: state.claim.clone(),
            lifecycle: state.lifecycle.clone(),
        };
        if self.host.terminals.put(info) {
            flow.unlisted = !self.host.tell_terminals_in_turn().await;
        }
    }

    async fn dispatch(&mut self, dispatch: Dispatch, flow: &mut Flow) {
        if self.host.answer_repetition(&dispatch).await {
            return;
        }
        // In the order in which it happened.
        self.tell(flow).await;
        let accepted = self.accept(&dispatch, flow);
        match accepted {
            Ok(()) => self.echo(dispatch, flow).await,
            Err(reason) => self.host.reject(dispatch, reason).await,
        }
    }

    async fn echo(&mut self, mut dispatch: Dispatch, flow: &mut Flow) {
        without_typed(&mut dispatch.action);
        self.screen.reduce(&dispatch.action);
        let (origin, from, hub) = (dispatch.origin(), dispatch.from, Arc::clone(&self.host.hub));
        let told = async {
            let entry = Entry::new(Arc::clone(&self.uri), dispatch.action)?.with_origin(Some(origin));
            let batch = Batch::new(None, Durability::Memory).entry(entry).then(move |seq| {
                if let Some(from) = from {
                    hub.hand(seq, &from);
                }
            });
            self.host.store.sequencer().commit(batch).await
        };
        if let Err(error) = told.await {
            tracing::debug!(%error, "what a client did with a terminal came too late");
        }
        self.list(flow).await;
    }

    /// Whether it can be done, and does it. The error is the reason of the rejection.
    fn accept(&mut self, dispatch: &Dispatch, flow: &mut Flow) -> Result<(), String> {
        if self.of_call {
            return Err(READ_ONLY.to_owned());
        }
        match &dispatch.action {
            StateAction::TerminalInput(input) => {
                if self.shell.is_none() {
                    return Err("the shell has ended; nobody reads what is typed".to_owned());
                }
                if input.data.len() > MAX_TYPED {
                    return Err(format!("at most {MAX_TYPED} bytes can be typed at once"));
                }
                if flow.typed.len() + input.data.len() > MAX_TYPED {
                    return Err(format!(
                        "the shell does not read what is typed, and {} bytes wait for it; interrupt what runs there, or \
                         try again",
                        flow.typed.len()
                    ));
                }
                flow.typed.extend_from_slice(input.data.as_bytes());
            }
            StateAction::TerminalResized(resized) => {
                let size = size(Some(resized.cols), Some(resized.rows))?;
                self.resize(size);
            }
            StateAction::TerminalClaimed(claimed) => {
                claim::may_pass(&dispatch.client_id, &self.screen.state.claim, &claimed.claim, &*self.host)?;
            }
            StateAction::TerminalTitleChanged(renamed) => {
                if !(1..=MAX_TITLE).contains(&renamed.title.len()) {
                    return Err(format!("a terminal's title has 1 to {MAX_TITLE} bytes"));
                }
                self.screen.named = true;
            }
            StateAction::TerminalCleared(_) => {}
            _ => return Err("this host does not support that action on this channel".to_owned()),
        }
        Ok(())
    }

    fn resize(&self, size: TerminalSize) {
        if let Some(shell) = &self.shell {
            shell.resize(size);
        }
    }

    /// The shell has ended, and nothing of it is left that could write: the rest is read, and then the end is told.
    async fn ended(&mut self, end: CommandEnd, flow: &mut Flow) {
        if let Some(shell) = self.shell.take() {
            let mut rest = 0;
            while flow.readable && rest < MAX_REST {
                let length = tokio::select! {
                    biased;
                    () = self.host.stop.cancelled() => 0,
                    length = shell.read(&mut flow.buffer) => length,
                    // Somebody else may have the terminal open, and then it does not end.
                    () = tokio::time::sleep(SILENCE) => 0,
                };
                flow.readable = length > 0;
                rest += length;
                let pieces = self.stream.push(flow.buffer.get(..length).unwrap_or_default());
                self.hear(pieces, flow);
                self.tell(flow).await;
            }
            flow.readable = false;
        }
        flow.typed.clear();
        let pieces = self.stream.finish();
        self.hear(pieces, flow);
        self.screen.exit(end.code(), self.host.clock.now_ms(), &mut flow.waiting);
        self.tell(flow).await;
        self.host.tell_terminals().await;
        // It will not be needed again.
        flow.buffer = Vec::new();
    }

    /// Its name and its place are free at once. The shell is ended by a task of its own, and whoever asked is answered when
    /// nothing of it is left, or when that has been waited for long enough.
    async fn leave(mut self, reply: Option<oneshot::Sender<()>>) {
        self.host.forget_terminal(&self.uri).await;
        let tasks = self.host.tasks.clone();
        tasks.spawn(async move {
            self.end_shell().await;
            if let Some(reply) = reply {
                let _ = reply.send(());
            }
        });
    }

    async fn end_shell(&mut self) {
        if let Some(shell) = self.shell.take()
            && self.host.clock.timeout(END, shell.end()).await.is_none()
        {
            tracing::warn!(terminal = %self.uri, "something that a shell has started did not end in time");
        }
    }
}
