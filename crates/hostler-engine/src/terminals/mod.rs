//! Terminals: shells of people, and what commands of turns print, each with a channel of its own that is in no journal. They
//! end with the host at the latest.

mod actor;
mod calls;
mod claim;
mod error;
mod port;
mod screen;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::RootTerminalsChangedAction;
use ahp_types::state::{
    TerminalClaim, TerminalInfo, TerminalLifecycleState, TerminalRunningLifecycleState, TerminalState,
};
use hostler_files::{Access, FileError, FileKind, path_of, uri_of};
use hostler_store::{Batch, Durability, Entry};
use hostler_terminal::{Nonce, Stream};
use tokio::sync::oneshot;
use tokio::time::Instant;

pub(crate) use calls::Printer;
pub use error::TerminalError;
pub use port::{Shell, ShellSpec, Shells, TerminalSize};

use crate::host::Host;
use crate::hub::Subscriber;
use crate::resources::{ResourceError, Resources, Shelf};
use crate::session::Dispatch;
use crate::state::Reduce as _;
use crate::{Engine, EngineError, uri};
use actor::{Actor, Input, Inputs};
use screen::Screen;

/// How many terminals there may be, if nobody says otherwise.
pub const MAX_TERMINALS: usize = 32;

/// How much of a terminal's contents is kept, if nobody says otherwise.
pub const SCROLLBACK: usize = 512 * 1024;

/// The largest terminal, in lines or characters of a line.
const LARGEST: i64 = 2000;

/// How often the list of terminals may change because of what happens in them, in all of them together. Each change is the
/// whole list, and is kept for clients that come back. Beginnings and ends are told at once.
const TURN: Duration = Duration::from_millis(500);

/// What terminals are made of.
#[derive(Clone)]
pub struct TerminalsConfig {
    /// Starts shells.
    pub shells: Arc<dyn Shells>,
    /// How many terminals there may be, those that have ended and were not disposed of included.
    pub max: usize,
    /// How many bytes of each one's contents are kept.
    pub scrollback: usize,
}

/// A wish for a terminal.
#[derive(Debug, Clone)]
pub struct CreateTerminal {
    /// Its URI, chosen by the client.
    pub uri: String,
    /// Who holds it at first.
    pub claim: TerminalClaim,
    /// What it is called.
    pub name: Option<String>,
    /// Where its shell begins, as a file URI. Otherwise where the session works that holds it, or where sessions work that
    /// name no directory.
    pub directory: Option<String>,
    /// Characters in a line.
    pub cols: Option<i64>,
    /// Lines.
    pub rows: Option<i64>,
}

/// All terminals, in the order of their beginning.
pub(crate) struct Terminals {
    /// Nothing if they are switched off.
    config: Option<TerminalsConfig>,
    all: Mutex<Vec<Terminal>>,
    /// When the list may be told again for what happens in them.
    turn: Mutex<Instant>,
}

struct Terminal {
    uri: Arc<str>,
    /// Nothing while its shell is being started.
    live: Option<Live>,
    /// Whether it shows what a call prints, and is nobody's shell.
    of_call: bool,
}

impl Terminal {
    fn runs(&self) -> bool {
        self.live.as_ref().is_some_and(|live| matches!(live.info.lifecycle, TerminalLifecycleState::Running(_)))
    }
}

struct Live {
    inputs: Inputs,
    info: TerminalInfo,
}

impl Terminals {
    pub(crate) fn new(config: Option<TerminalsConfig>) -> Self {
        Self { config, all: Mutex::default(), turn: Mutex::new(Instant::now()) }
    }

    pub(crate) fn are_offered(&self) -> bool {
        self.config.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Terminal>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self) -> Instant {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn knows(&self, channel: &str) -> bool {
        self.inputs(channel).is_some()
    }

    fn inputs(&self, channel: &str) -> Option<Inputs> {
        let all = self.lock();
        let found = all.iter().find(|terminal| *terminal.uri == *channel)?;
        found.live.as_ref().map(|live| live.inputs.clone())
    }

    /// What everybody is told of: those of calls only while they run, since nobody should have to dispose of them.
    fn list(&self) -> Vec<TerminalInfo> {
        let all = self.lock();
        let listed = all.iter().filter(|terminal| !terminal.of_call || terminal.runs());
        listed.filter_map(|terminal| Some(terminal.live.as_ref()?.info.clone())).collect()
    }

    /// Notes what is listed of a terminal; tells whether that is new.
    fn put(&self, info: TerminalInfo) -> bool {
        let mut all = self.lock();
        let found = all.iter_mut().find(|terminal| *terminal.uri == *info.resource);
        let Some(live) = found.and_then(|terminal| terminal.live.as_mut()) else { return false };
        let new = live.info != info;
        live.info = info;
        new
    }

    /// Takes a place for a terminal that is being started.
    fn reserve(&self, uri: &Arc<str>, most: usize) -> Result<(), TerminalError> {
        let mut all = self.lock();
        if all.iter().any(|terminal| terminal.uri == *uri) {
            return Err(TerminalError::Exists(uri.to_string()));
        }
        if all.iter().filter(|terminal| !terminal.of_call).count() >= most {
            return Err(TerminalError::TooMany(most));
        }
        all.push(Terminal { uri: Arc::clone(uri), live: None, of_call: false });
        Ok(())
    }

    fn begin(&self, uri: &Arc<str>, live: Live) {
        if let Some(terminal) = self.lock().iter_mut().find(|terminal| terminal.uri == *uri) {
            terminal.live = Some(live);
        }
    }

    fn remove(&self, uri: &str) {
        self.lock().retain(|terminal| *terminal.uri != *uri);
    }

    /// Those that a session holds.
    fn held_by(&self, session: &str) -> Vec<String> {
        let held =
            |info: &TerminalInfo| matches!(&info.claim, TerminalClaim::Session(claim) if claim.session == session);
        let all = self.lock();
        let infos = all.iter().filter_map(|terminal| terminal.live.as_ref()).map(|live| &live.info);
        infos.filter(|info| held(info)).map(|info| info.resource.clone()).collect()
    }
}

/// A place is given back unless its terminal has begun.
struct Place<'a> {
    terminals: &'a Terminals,
    uri: &'a Arc<str>,
    begun: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.begun {
            self.terminals.remove(self.uri);
        }
    }
}

impl Engine {
    /// Makes a terminal and starts a shell in it.
    ///
    /// # Errors
    /// If there may be none, if its URI is taken, or if its shell cannot be started there. Then nothing of it is left.
    pub async fn create_terminal(&self, client: &str, wish: CreateTerminal) -> Result<(), TerminalError> {
        let host = &self.host;
        let config = host.terminals.config.as_ref().ok_or(TerminalError::Off)?;
        if !uri::is_terminal_uri(&wish.uri) {
            return Err(TerminalError::Name(wish.uri));
        }
        claim::may_begin(client, &wish.claim, &**host).map_err(TerminalError::Invalid)?;
        let size = size(wish.cols, wish.rows).map_err(TerminalError::Invalid)?;
        let name = wish.name.filter(|name| !name.is_empty());
        if name.as_ref().is_some_and(|name| name.len() > actor::MAX_TITLE) {
            return Err(TerminalError::Invalid(format!("a terminal's name has at most {} bytes", actor::MAX_TITLE)));
        }
        let terminal: Arc<str> = wish.uri.into();
        host.terminals.reserve(&terminal, config.max)?;
        let mut place = Place { terminals: &host.terminals, uri: &terminal, begun: false };

        let directory = self.directory(wish.directory.as_deref(), &wish.claim).await?;
        let nonce = Nonce::new().map_err(|error| TerminalError::Shell(error.to_string()))?;
        let cwd = uri_of(&directory).ok();
        let spec = ShellSpec { directory, size, nonce: nonce.clone() };
        let shell = config.shells.open(spec).await.map_err(TerminalError::Shell)?;
        if host.stop.is_cancelled() {
            shell.end().await;
            return Err(EngineError::Stopping.into());
        }
        let claim = wish.claim;
        let state = TerminalState {
            title: name.clone().unwrap_or_else(|| config.shells.title()),
            cwd,
            cols: Some(size.cols.into()),
            rows: Some(size.rows.into()),
            content: Vec::new(),
            lifecycle: TerminalLifecycleState::Running(TerminalRunningLifecycleState {}),
            claim: claim.clone(),
            supports_command_detection: None,
            is_pty: Some(true),
        };
        let info = TerminalInfo {
            resource: terminal.to_string(),
            title: state.title.clone(),
            claim: state.claim.clone(),
            lifecycle: state.lifecycle.clone(),
        };
        let screen = Screen::new(state, config.scrollback, name.is_some());
        let (host, uri) = (Arc::clone(host), Arc::clone(&terminal));
        let actor = Actor { host, uri, screen, shell: Some(shell), stream: Stream::new(nonce), of_call: false };
        let (inputs, wanted) = actor::inputs();
        // Known before it lives, so that nothing of its life is missed.
        self.host.terminals.begin(&terminal, Live { inputs, info });
        actor.spawn(wanted);
        place.begun = true;
        // Its session may have gone while the shell was started, and then it did not take the terminal along.
        if let Some(session) = self.host.lost(&claim) {
            let reason = format!("there is no session {session} any more");
            let _ = self.dispose_terminal(&terminal).await;
            return Err(TerminalError::Invalid(reason));
        }
        self.host.tell_terminals().await;
        Ok(())
    }

    /// Ends a terminal, with everything that its shell has started, and removes it.
    ///
    /// # Errors
    /// If there is no such terminal.
    pub async fn dispose_terminal(&self, terminal: &str) -> Result<(), TerminalError> {
        let not_found = || TerminalError::NotFound(terminal.to_owned());
        let inputs = self.host.terminals.inputs(terminal).ok_or_else(not_found)?;
        let (reply, disposed) = oneshot::channel();
        inputs.send(Input::Dispose(reply)).await.map_err(|_| not_found())?;
        disposed.await.map_err(|_| not_found())
    }

    /// Ends the terminals that a session holds, with the session.
    pub(crate) async fn dispose_terminals_of(&self, session: &str) {
        let held = self.host.terminals.held_by(session);
        // Somebody else may be faster.
        futures::future::join_all(held.iter().map(|terminal| self.dispose_terminal(terminal))).await;
    }

    /// Where a shell begins: where clients may read, like everything that they name.
    async fn directory(&self, wanted: Option<&str>, claim: &TerminalClaim) -> Result<PathBuf, TerminalError> {
        let host = &self.host;
        let Some(wanted) = wanted else {
            let home = match claim {
                TerminalClaim::Session(claim) => host.shelf.places.home(&claim.session),
                TerminalClaim::Client(_) => None,
            };
            let home = home.and_then(|uri| path_of(&uri).ok());
            return Ok(home.unwrap_or_else(|| host.default_directory.clone()));
        };
        let default = host.default_directory.clone();
        let resources = Resources { host: Arc::clone(host) };
        let look = move |shelf: &Shelf, path: &std::path::Path| {
            if path == default {
                return Ok(default);
            }
            let found = shelf.roots().open(path)?.found().clone();
            match found.kind {
                FileKind::Directory => Ok(found.path),
                FileKind::File => Err(FileError::WrongKind),
            }
        };
        let found: Result<PathBuf, ResourceError> = resources.act(wanted, Access::Read, look).await;
        Ok(found?)
    }
}

/// What was typed may be a password: whoever typed it knows it, and nobody else needs to.
pub(crate) fn without_typed(action: &mut StateAction) {
    if let StateAction::TerminalInput(input) = action {
        input.data.clear();
    }
}

/// A size that makes sense. The error is a sentence.
fn size(cols: Option<i64>, rows: Option<i64>) -> Result<TerminalSize, String> {
    let within = |length: i64| u16::try_from(length).ok().filter(|_| (1..=LARGEST).contains(&length));
    let sentence = || format!("a terminal has 1 to {LARGEST} columns and rows");
    let cols = within(cols.unwrap_or(80)).ok_or_else(sentence)?;
    let rows = within(rows.unwrap_or(24)).ok_or_else(sentence)?;
    Ok(TerminalSize { cols, rows })
}

impl Host {
    pub(crate) async fn subscribe_terminal(
        &self,
        channel: &str,
        subscriber: Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        let not_found = || EngineError::ChannelNotFound(channel.to_owned());
        let inputs = self.terminals.inputs(channel).ok_or_else(not_found)?;
        let (reply, subscribed) = oneshot::channel();
        inputs.send(Input::Subscribe(subscriber, token, reply)).await.map_err(|_| not_found())?;
        subscribed.await.map_err(|_| not_found())?
    }

    pub(crate) async fn dispatch_terminal(&self, dispatch: Dispatch) {
        let Some(inputs) = self.terminals.inputs(&dispatch.channel) else { return };
        if inputs.send(Input::Dispatch(Box::new(dispatch))).await.is_err() {
            tracing::debug!("a dispatch came too late");
        }
    }

    /// The session that a terminal is held by, if there is none of that name. One that is being disposed of takes along what
    /// was listed as its own before it is gone, so this is asked after that.
    fn lost<'a>(&self, claim: &'a TerminalClaim) -> Option<&'a str> {
        match claim {
            TerminalClaim::Session(claim) if !self.sessions().knows(&claim.session) => Some(&claim.session),
            TerminalClaim::Session(_) | TerminalClaim::Client(_) => None,
        }
    }

    /// A terminal is over and gone.
    async fn forget_terminal(&self, terminal: &str) {
        self.terminals.remove(terminal);
        self.hub.close(terminal);
        self.tell_terminals().await;
        // Another one may be called the same; nobody is to take the one for a continuation of the other.
        self.hub.forget_terminals(self.store.sequencer().current());
    }

    /// Clients that saw terminals of an earlier life hear that they are gone: what is replayed to them does not say so.
    pub(crate) async fn forget_earlier_terminals(&self) {
        if self.terminals.are_offered() && self.store.life().before > 0 {
            let terminals = Vec::new();
            self.tell_root(StateAction::RootTerminalsChanged(RootTerminalsChangedAction { terminals })).await;
        }
    }

    /// Tells which terminals there are, if that has changed. A restart takes them all, and no journal holds them.
    pub(crate) async fn tell_terminals(&self) {
        self.tell_terminals_from(None).await;
    }

    /// Does the same for what happens in terminals, if it is time to; tells whether everybody has the list now.
    async fn tell_terminals_in_turn(&self) -> bool {
        self.tell_terminals_from(Some(Instant::now())).await
    }

    async fn tell_terminals_from(&self, now: Option<Instant>) -> bool {
        let mut state = self.root.lock().await;
        let terminals = self.terminals.list();
        if state.terminals.as_ref() == Some(&terminals) {
            return true;
        }
        // Read under the lock of the state: of those who wait for their turn, one tells what all of them have to say.
        if now.is_some_and(|now| now < self.terminals.turn()) {
            return false;
        }
        *self.terminals.turn.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + TURN;
        let action = StateAction::RootTerminalsChanged(RootTerminalsChangedAction { terminals });
        Arc::make_mut(&mut state).reduce(&action);
        self.tell_root(action).await;
        true
    }

    async fn tell_root(&self, action: StateAction) {
        let told = async {
            let batch = Batch::new(None, Durability::Memory).entry(Entry::new(uri::ROOT.into(), action)?);
            self.store.sequencer().commit(batch).await
        };
        if let Err(error) = told.await {
            tracing::debug!(%error, "the list of terminals came too late");
        }
    }
}

impl claim::Others for Host {
    fn knows_client(&self, client: &str) -> bool {
        self.hub.clients.knows(client)
    }

    fn is_away(&self, client: &str) -> bool {
        self.hub.clients.away_since(client).is_some()
    }

    fn knows_session(&self, session: &str) -> bool {
        self.sessions().knows(session)
    }
}
