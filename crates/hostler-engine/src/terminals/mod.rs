//! Terminals: shells of people, and the output of turns' commands. Each has a channel without a journal, and ends with
//! the host at the latest.
//!
//! One actor per terminal (`actor`) changes its state. The host's terminal list is part of the root state and is
//! published only when it changes. Envelopes of terminals are in a separate replay buffer, so a flood does not evict
//! envelopes of sessions. [`TerminalService`] owns the terminals of the whole host and the port for other programs.

mod actor;
mod claim;
pub(crate) mod command_runner;
mod error;
mod screen;
mod shell;
mod tool_call_terminal;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::RootTerminalsChangedAction;
use ahp_types::state::{
    TerminalClaim, TerminalInfo, TerminalLifecycleState, TerminalRunningLifecycleState, TerminalState,
};
use hostler_files::{FileAccess, FileError, FileKind, file_uri_to_path, path_to_file_uri};
use hostler_store::{ActionEntry, Batch, BatchDurability};
use hostler_terminal::{ShellNonce, ShellOutputParser};
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use claim::ClaimError;
pub use error::{TerminalActionError, TerminalError};
pub use shell::{ShellLauncher, ShellSpec, ShellStartError, TerminalShell, TerminalSize};
pub(crate) use tool_call_terminal::ToolCallTerminal;

use self::command_runner::CommandRunner;
use crate::clients::broadcaster::Subscriber;
use crate::host::Host;
use crate::resources::{ResourceError, ResourceService, Resources};
use crate::sessions::session::Dispatch;
use crate::sessions::state::Reduce as _;
use crate::{Engine, EngineError, uri};
use actor::{TerminalActor, TerminalRequest, TerminalRequestSender};
use screen::TerminalScreen;

/// Default maximum number of terminals.
pub const DEFAULT_MAX_TERMINALS: usize = 32;

/// Default size of a terminal's scrollback.
pub const DEFAULT_SCROLLBACK_BYTES: usize = 512 * 1024;

/// Maximum number of rows or columns.
const MAX_TERMINAL_DIMENSION: i64 = 2000;

/// Minimum interval between publications of the terminal list for changes inside terminals, over all terminals. Each
/// publication contains the whole list and stays in the replay buffer. Created and removed terminals are published at
/// once.
const LIST_PUBLISH_INTERVAL: Duration = Duration::from_millis(500);

/// Configuration of terminals.
#[derive(Clone)]
pub struct TerminalsConfig {
    /// Starts shells.
    pub shell_launcher: Arc<dyn ShellLauncher>,
    /// Maximum number of terminals, including ended ones that were not disposed of.
    pub max_terminals: usize,
    /// Size of each terminal's scrollback.
    pub scrollback_bytes: usize,
}

/// A request to create a terminal.
#[derive(Debug, Clone)]
pub struct CreateTerminal {
    /// Its URI, chosen by the client.
    pub uri: String,
    /// Its first holder.
    pub claim: TerminalClaim,
    /// Its title.
    pub name: Option<String>,
    /// Working directory of its shell, as a file URI. Default: the directory of the session that holds it, or the
    /// default directory of sessions.
    pub directory: Option<String>,
    /// Number of columns.
    pub cols: Option<i64>,
    /// Number of rows.
    pub rows: Option<i64>,
}

/// All terminals, in the order of creation, and what runs the machine's programs.
pub(crate) struct TerminalService {
    /// `None` if terminals are off.
    config: Option<TerminalsConfig>,
    terminals: Mutex<Vec<TerminalEntry>>,
    /// Earliest time of the next list publication for changes inside terminals.
    next_list_publish: Mutex<Instant>,
    command_runner: Arc<dyn CommandRunner>,
}

struct TerminalEntry {
    uri: Arc<str>,
    /// `None` while its shell is being started.
    live: Option<LiveTerminal>,
    /// Whether it displays the output of a tool call.
    is_tool_call: bool,
}

impl TerminalEntry {
    fn is_running(&self) -> bool {
        self.live.as_ref().is_some_and(|live| matches!(live.info.lifecycle, TerminalLifecycleState::Running(_)))
    }
}

struct LiveTerminal {
    requests: TerminalRequestSender,
    info: TerminalInfo,
}

impl TerminalService {
    pub(crate) fn new(config: Option<TerminalsConfig>, command_runner: Arc<dyn CommandRunner>) -> Self {
        let next_list_publish = Mutex::new(Instant::now());
        Self { config, terminals: Mutex::default(), next_list_publish, command_runner }
    }

    /// Runs programs that are not agents.
    pub(crate) fn command_runner(&self) -> &Arc<dyn CommandRunner> {
        &self.command_runner
    }

    pub(crate) fn are_enabled(&self) -> bool {
        self.config.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<TerminalEntry>> {
        self.terminals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_list_publish(&self) -> Instant {
        *self.next_list_publish.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn contains(&self, channel: &str) -> bool {
        self.request_sender(channel).is_some()
    }

    fn request_sender(&self, channel: &str) -> Option<TerminalRequestSender> {
        let all = self.lock();
        let found = all.iter().find(|terminal| *terminal.uri == *channel)?;
        found.live.as_ref().map(|live| live.requests.clone())
    }

    /// The published list. Terminals of tool calls are listed only while they run, because clients do not dispose of
    /// them.
    fn list(&self) -> Vec<TerminalInfo> {
        let all = self.lock();
        let listed = all.iter().filter(|terminal| !terminal.is_tool_call || terminal.is_running());
        listed.filter_map(|terminal| Some(terminal.live.as_ref()?.info.clone())).collect()
    }

    /// Updates a terminal's list entry; `true` if it has changed.
    fn update_info(&self, info: TerminalInfo) -> bool {
        let mut all = self.lock();
        let found = all.iter_mut().find(|terminal| *terminal.uri == *info.resource);
        let Some(live) = found.and_then(|terminal| terminal.live.as_mut()) else { return false };
        let new = live.info != info;
        live.info = info;
        new
    }

    /// Reserves a place for a terminal that is being started.
    fn reserve(&self, uri: &Arc<str>, most: usize) -> Result<(), TerminalError> {
        let mut all = self.lock();
        if all.iter().any(|terminal| terminal.uri == *uri) {
            return Err(TerminalError::AlreadyExists(uri.to_string()));
        }
        if all.iter().filter(|terminal| !terminal.is_tool_call).count() >= most {
            return Err(TerminalError::TooMany(most));
        }
        all.push(TerminalEntry { uri: Arc::clone(uri), live: None, is_tool_call: false });
        Ok(())
    }

    fn activate(&self, uri: &Arc<str>, live: LiveTerminal) {
        if let Some(terminal) = self.lock().iter_mut().find(|terminal| terminal.uri == *uri) {
            terminal.live = Some(live);
        }
    }

    fn remove(&self, uri: &str) {
        self.lock().retain(|terminal| *terminal.uri != *uri);
    }

    /// The terminals that a session holds.
    fn held_by(&self, session: &str) -> Vec<String> {
        let held =
            |info: &TerminalInfo| matches!(&info.claim, TerminalClaim::Session(claim) if claim.session == session);
        let all = self.lock();
        let infos = all.iter().filter_map(|terminal| terminal.live.as_ref()).map(|live| &live.info);
        infos.filter(|info| held(info)).map(|info| info.resource.clone()).collect()
    }
}

/// Frees the reserved place when it is dropped, unless the terminal was activated.
struct TerminalReservation<'a> {
    terminals: &'a TerminalService,
    uri: &'a Arc<str>,
    is_activated: bool,
}

impl Drop for TerminalReservation<'_> {
    fn drop(&mut self) {
        if !self.is_activated {
            self.terminals.remove(self.uri);
        }
    }
}

impl Engine {
    /// Creates a terminal and starts a shell in it.
    ///
    /// # Errors
    /// If terminals are off, the URI is in use, or the shell cannot be started. Nothing remains of the terminal then.
    pub async fn create_terminal(&self, client: &str, params: CreateTerminal) -> Result<(), TerminalError> {
        let host = &self.host;
        let config = host.terminals.config.as_ref().ok_or(TerminalError::Disabled)?;
        if !uri::is_terminal_uri(&params.uri) {
            return Err(TerminalError::InvalidUri(params.uri));
        }
        claim::check_new_claim(client, &params.claim, &**host)?;
        let size = parse_size(params.cols, params.rows)?;
        let name = params.name.filter(|name| !name.is_empty());
        if name.as_ref().is_some_and(|name| name.len() > actor::MAX_TITLE_BYTES) {
            return Err(TerminalActionError::InvalidTitle { max_bytes: actor::MAX_TITLE_BYTES }.into());
        }
        let terminal: Arc<str> = params.uri.into();
        host.terminals.reserve(&terminal, config.max_terminals)?;
        let mut place = TerminalReservation { terminals: &host.terminals, uri: &terminal, is_activated: false };

        let directory = self.terminal_directory(params.directory.as_deref(), &params.claim).await?;
        let nonce = ShellNonce::new().map_err(|error| ShellStartError::Failed(error.to_string()))?;
        let cwd = path_to_file_uri(&directory).ok();
        let spec = ShellSpec { directory, size, nonce: nonce.clone() };
        let shell = config.shell_launcher.open(spec).await?;
        if host.tasks.is_stopping() {
            shell.terminate().await;
            return Err(EngineError::Stopping.into());
        }
        let claim = params.claim;
        let state = TerminalState {
            title: name.clone().unwrap_or_else(|| config.shell_launcher.default_title()),
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
        let screen = TerminalScreen::new(state, config.scrollback_bytes, name.is_some());
        let (host, uri) = (Arc::clone(host), Arc::clone(&terminal));
        let actor = TerminalActor {
            host,
            uri,
            screen,
            shell: Some(shell),
            stream: ShellOutputParser::new(nonce),
            is_tool_call: false,
        };
        let (inputs, wanted) = actor::request_channel();
        // Registered before it runs, so that no request is lost.
        self.host.terminals.activate(&terminal, LiveTerminal { requests: inputs, info });
        actor.spawn(wanted);
        place.is_activated = true;
        // Its session may have been deleted while the shell was started; the deletion did not include this terminal
        // then.
        if let Some(session) = self.host.missing_claim_session(&claim) {
            let error = ClaimError::SessionNotFound { session: session.to_owned() };
            let _ = self.dispose_terminal(&terminal).await;
            return Err(error.into());
        }
        self.host.publish_terminals().await;
        Ok(())
    }

    /// Ends a terminal, with all processes of its shell, and removes it.
    ///
    /// # Errors
    /// If the terminal does not exist.
    pub async fn dispose_terminal(&self, terminal: &str) -> Result<(), TerminalError> {
        let not_found = || TerminalError::NotFound(terminal.to_owned());
        let inputs = self.host.terminals.request_sender(terminal).ok_or_else(not_found)?;
        let (reply, disposed) = oneshot::channel();
        inputs.send(TerminalRequest::Dispose(reply)).await.map_err(|_| not_found())?;
        disposed.await.map_err(|_| not_found())
    }

    /// Ends the terminals that a session holds, with the session.
    pub(crate) async fn dispose_terminals_of(&self, session: &str) {
        let held = self.host.terminals.held_by(session);
        // A client may have disposed of one meanwhile.
        futures::future::join_all(held.iter().map(|terminal| self.dispose_terminal(terminal))).await;
    }

    /// Working directory of a shell: must be readable for clients, like every path that they name.
    async fn terminal_directory(&self, wanted: Option<&str>, claim: &TerminalClaim) -> Result<PathBuf, TerminalError> {
        let host = &self.host;
        let Some(wanted) = wanted else {
            let home = match claim {
                TerminalClaim::Session(claim) => host.resources.primary_directory(&claim.session),
                TerminalClaim::Client(_) => None,
            };
            let home = home.and_then(|uri| file_uri_to_path(&uri).ok());
            return Ok(home.unwrap_or_else(|| host.settings.default_directory.clone()));
        };
        let default = host.settings.default_directory.clone();
        let resources = Resources { host: Arc::clone(host) };
        let look = move |context: &ResourceService, path: &std::path::Path| {
            if path == default {
                return Ok(default);
            }
            let found = context.roots().open(path)?.resolved().clone();
            match found.kind {
                FileKind::Directory => Ok(found.path),
                FileKind::File => Err(FileError::WrongKind),
            }
        };
        let found: Result<PathBuf, ResourceError> = resources.run_file_operation(wanted, FileAccess::Read, look).await;
        Ok(found?)
    }
}

/// Removes typed input from an echoed action, because it may be a password.
pub(crate) fn strip_terminal_input(action: &mut StateAction) {
    if let StateAction::TerminalInput(input) = action {
        input.data.clear();
    }
}

/// Checks a size.
fn parse_size(cols: Option<i64>, rows: Option<i64>) -> Result<TerminalSize, TerminalActionError> {
    let within = |length: i64| u16::try_from(length).ok().filter(|_| (1..=MAX_TERMINAL_DIMENSION).contains(&length));
    let invalid = TerminalActionError::InvalidSize { max: MAX_TERMINAL_DIMENSION };
    let cols = within(cols.unwrap_or(80)).ok_or_else(|| invalid.clone())?;
    let rows = within(rows.unwrap_or(24)).ok_or(invalid)?;
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
        let inputs = self.terminals.request_sender(channel).ok_or_else(not_found)?;
        let (reply, subscribed) = oneshot::channel();
        inputs.send(TerminalRequest::Subscribe(subscriber, token, reply)).await.map_err(|_| not_found())?;
        subscribed.await.map_err(|_| not_found())?
    }

    pub(crate) async fn dispatch_terminal(&self, dispatch: Dispatch) {
        let Some(inputs) = self.terminals.request_sender(&dispatch.channel) else { return };
        if inputs.send(TerminalRequest::Dispatch(Box::new(dispatch))).await.is_err() {
            tracing::debug!("dropped a dispatch: the channel has ended");
        }
    }

    /// The session that holds a terminal, if it does not exist. A session's deletion ends the terminals that are listed
    /// as its own before the session is gone, so this check comes after listing.
    fn missing_claim_session<'a>(&self, claim: &'a TerminalClaim) -> Option<&'a str> {
        match claim {
            TerminalClaim::Session(claim) if !self.catalog.sessions().contains(&claim.session) => Some(&claim.session),
            TerminalClaim::Session(_) | TerminalClaim::Client(_) => None,
        }
    }

    /// Removes an ended terminal.
    async fn remove_terminal(&self, terminal: &str) {
        self.terminals.remove(terminal);
        self.publication.close_channel(terminal);
        self.publish_terminals().await;
        // Another terminal may reuse the URI; no client must take it for a continuation of this one.
        self.publication.discard_terminal_replay();
    }

    /// Publishes an empty list for clients that saw terminals before a restart, because the replay does not contain
    /// their end.
    pub(crate) async fn clear_earlier_terminals(&self) {
        if self.terminals.are_enabled() && self.store.sequence_at_start().base_seq > 0 {
            let terminals = Vec::new();
            self.publish_root_action(StateAction::RootTerminalsChanged(RootTerminalsChangedAction { terminals })).await;
        }
    }

    /// Publishes the terminal list if it has changed. It is not journaled, because a restart ends all terminals.
    pub(crate) async fn publish_terminals(&self) {
        self.publish_terminals_at(None).await;
    }

    /// Publishes the list for changes inside terminals, if the interval has passed; `true` if the published list is up
    /// to date.
    async fn publish_terminals_throttled(&self) -> bool {
        self.publish_terminals_at(Some(Instant::now())).await
    }

    async fn publish_terminals_at(&self, now: Option<Instant>) -> bool {
        let mut state = self.publication.lock_root().await;
        let terminals = self.terminals.list();
        if state.terminals.as_ref() == Some(&terminals) {
            return true;
        }
        // Checked under the lock of the state: of several waiting callers, one publishes for all.
        if now.is_some_and(|now| now < self.terminals.next_list_publish()) {
            return false;
        }
        *self.terminals.next_list_publish.lock().unwrap_or_else(PoisonError::into_inner) =
            Instant::now() + LIST_PUBLISH_INTERVAL;
        let action = StateAction::RootTerminalsChanged(RootTerminalsChangedAction { terminals });
        Arc::make_mut(&mut state).reduce(&action);
        self.publish_root_action(action).await;
        true
    }

    async fn publish_root_action(&self, action: StateAction) {
        let published = async {
            let batch = Batch::new(None, BatchDurability::Memory)
                .entry(ActionEntry::new(uri::ROOT_CHANNEL_URI.into(), action)?);
            self.publication.commit(batch).await
        };
        if let Err(error) = published.await {
            tracing::debug!(%error, "failed to publish the terminal list: the store has stopped");
        }
    }
}

impl claim::ClaimContext for Host {
    fn is_known_client(&self, client: &str) -> bool {
        self.publication.clients().contains(client)
    }

    fn is_client_away(&self, client: &str) -> bool {
        self.publication.clients().away_since(client).is_some()
    }

    fn has_session(&self, session: &str) -> bool {
        self.catalog.sessions().contains(session)
    }
}
