//! The way in for surfaces.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ahp_types::common::JsonObject;
use ahp_types::state::{MessageAttachment, RootState, SessionActiveClient, SessionConfigState};
use hostler_attachments::Limits;
use hostler_driver::{Clock, Driver, Images};
use hostler_redact::length;
use hostler_rules::RuleBook;
use hostler_store::{AuditRow, Publisher, Store, StoreOptions};
use tokio::sync::{OnceCell, Semaphore, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;
use uuid::Uuid;

use crate::actor::{BackgroundOutput, Forgotten, Input, NotForgotten, Origin, SessionHandle, Subscribe};
use crate::attach::{Fetch, PlanSummary};
use crate::catalogue::{Catalogue, SessionPage};
use crate::clock::ClockExt as _;
use crate::commands::Commands;
use crate::complete::Walks;
use crate::fleet::{Fleet, FleetConfig, FleetStatus};
use crate::found::{Finder, Namer, ShowExternal, Untold};
use crate::host::Host;
use crate::hub::{Hub, Subscriber, SubscriberId};
use crate::local::COMMAND_PREFIX;
use crate::paging::Extent;
use crate::permissions::PermissionConfig;
use crate::port::{AgentStatus, ModelGateway};
use crate::progress::ProgressWish;
use crate::prompt_ids::PromptIds;
use crate::resources::{GrantPolicy, Shelf};
use crate::returning::{Presence, Reconnected};
use crate::root::Root;
use crate::search::{Found, Search, SearchWish};
use crate::session::{Dispatch, Session};
use crate::sign_in::Told;
use crate::stopping::BackgroundOnStop;
use crate::terminals::{Terminals, TerminalsConfig};
use crate::transcript::content_hash;
use crate::{EngineError, clients, paging, uri};

/// How long a client may be away before it is no longer part of its sessions, as in VS Code's own host.
pub const ABSENCE: Duration = Duration::from_secs(30);

/// How long a subscription waits for a sub-agent's chat.
const EARLY: Duration = Duration::from_secs(5);

/// How many messages may wait in one chat, if nobody says otherwise.
pub const MAX_QUEUE: usize = 100;

/// How many ended turns of an open chat memory holds, if nobody says otherwise.
pub const TURNS_IN_MEMORY: usize = 50;

/// How many messages' attachments are planned at a time.
const PLANNING: usize = 2;

/// How long a shutdown may take before it stops being polite.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(4);

/// What an engine is made of.
pub struct EngineConfig {
    /// Where the journal lives.
    pub store: StoreOptions,
    /// The agents on offer, the default first.
    pub drivers: Vec<Arc<dyn Driver>>,
    /// The gateway.
    pub gateway: Arc<dyn ModelGateway>,
    /// Where sessions work that name no directory.
    pub default_directory: PathBuf,
    /// What becomes of a client's request for files outside of the sessions' directories.
    pub grants: GrantPolicy,
    /// How long an agent may take to react to an interrupt.
    pub interrupt_grace: Duration,
    /// What becomes of background work when a turn is stopped, if a session does not say otherwise.
    pub background_on_stop: BackgroundOnStop,
    /// How many messages may wait in one chat.
    pub max_queue: usize,
    /// How many ended turns of an open chat memory holds; older ones are read when somebody wants them.
    pub turns_in_memory: usize,
    /// How permissions are treated.
    pub permissions: PermissionConfig,
    /// How long a client may be away before it is no longer part of its sessions. A restart takes all clients away; then
    /// it counts from the start.
    pub absence: Duration,
    /// What windows and deadlines are measured by: the machine's own time, or a test's.
    pub clock: Arc<dyn Clock>,
    /// How long and how many agents are kept.
    pub fleet: FleetConfig,
    /// The most that one message may carry.
    pub attachments: Limits,
    /// What runs the machine's programs.
    pub commands: Arc<dyn Commands>,
    /// Whether clients may run commands in the user's shell.
    pub shell: bool,
    /// What terminals are made of; nothing if they are switched off.
    pub terminals: Option<TerminalsConfig>,
    /// What new sessions begin with by the host's own settings, which beat what clients write into its configuration.
    pub session_defaults: JsonObject,
    /// Which conversations that were led elsewhere are listed, if the host's own settings say so.
    pub show_external: Option<ShowExternal>,
    /// Whether what is said in sessions can be searched.
    pub search: bool,
}

/// A wish for a session.
#[derive(Debug, Clone, Default)]
pub struct CreateSession {
    /// The session's URI, chosen by the client.
    pub uri: String,
    /// The provider; the URI's scheme decides if it is absent.
    pub provider: Option<String>,
    /// File URIs; the default directory if there is none.
    pub working_directories: Vec<String>,
    /// Values for the session's configuration.
    pub config: Option<JsonObject>,
    /// The client that takes part from the beginning.
    pub active_client: Option<SessionActiveClient>,
    /// Who wants to hear how far the preparations have come, if any are needed.
    pub progress: Option<ProgressWish>,
}

/// Contents that states and actions name instead of carrying them.
#[derive(Clone, PartialEq, Eq)]
pub struct Content {
    /// What kind of contents they are.
    pub content_type: String,
    /// The contents.
    pub body: Vec<u8>,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({}, {:?})", self.content_type, length(&self.body))
    }
}

/// The engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) host: Arc<Host>,
}

impl Engine {
    /// Opens the store, lists what it holds, and ends the turns that were running when the last host died.
    ///
    /// # Errors
    /// If the store cannot be opened, or no driver is given.
    pub async fn start(config: EngineConfig) -> Result<Self, EngineError> {
        let rules = Arc::new(RuleBook::open(&config.store.dir)?);
        let prompt_ids = PromptIds::open(&config.store.dir).map_err(|error| {
            EngineError::Invalid(format!("the key of prompts' ids could not be read or made: {error}"))
        })?;
        let hub = Arc::new(Hub::new(config.clock.monotonic()));
        let publisher: Arc<dyn Publisher> = Arc::<Hub>::clone(&hub);
        let store = Store::open(&config.store, publisher)?;
        let Some(first) = config.drivers.first() else {
            return Err(EngineError::Invalid("a host needs at least one agent".to_owned()));
        };
        let archives = config.drivers.iter().filter_map(|driver| Some((driver.describe().id, driver.archive()?)));
        let finder = Finder::new(archives, config.show_external);
        let host = Arc::new(Host {
            default_provider: first.describe().id,
            root: Root::new(&config.drivers, &*config.gateway, config.terminals.is_some()),
            terminals: Terminals::new(config.terminals),
            signed_in: Told::default(),
            search: Search::new(&config.store.dir, config.search),
            commands: config.commands,
            walks: Walks::default(),
            shell: config.shell,
            session_defaults: config.session_defaults,
            store,
            hub,
            catalogue: Catalogue::default(),
            gateway: config.gateway,
            drivers: config.drivers.iter().map(|driver| (driver.describe().id, Arc::clone(driver))).collect(),
            interrupt_grace: config.interrupt_grace,
            background_on_stop: config.background_on_stop,
            max_queue: config.max_queue,
            turns_in_memory: config.turns_in_memory,
            permissions: config.permissions,
            rules_version: watch::Sender::new(rules.page().version),
            rules,
            workers_begun: watch::Sender::new(0),
            absence: config.absence,
            clock: config.clock,
            fleet: Fleet::new(config.fleet),
            attachments: config.attachments,
            planning: Semaphore::new(PLANNING),
            tasks: TaskTracker::new(),
            shelf: Shelf::new(&config.store.dir, &config.default_directory, config.grants),
            default_directory: config.default_directory,
            sessions: Mutex::default(),
            finder,
            namer: Namer::default(),
            untold: Untold::default(),
            prompt_ids,
            agents: Mutex::default(),
            stop: CancellationToken::new(),
            stopped: OnceCell::new(),
        });
        host.hub.begin(host.store.life().before);
        let since = host.clock.now_ms() - config.store.retention.clients_ms;
        host.hub.clients.restore(host.store.clients(since, clients::MAX_CLIENTS).await?);
        host.load_root().await?;
        host.forget_earlier_terminals().await;
        host.load_catalogue().await?;
        host.watch_archives();
        host.do_what_is_left();
        host.write_notes();
        host.watch_rules();
        host.keep_index();
        Ok(Self { host })
    }

    /// The root channel's state.
    pub async fn root(&self) -> Arc<RootState> {
        self.host.root.state().await
    }

    /// The directory that sessions work in if they name none.
    pub fn default_directory(&self) -> &Path {
        &self.host.default_directory
    }

    /// What stands before commands for the user's shell, if clients may run any.
    pub fn command_prefix(&self) -> Option<&'static str> {
        self.host.shell.then_some(COMMAND_PREFIX)
    }

    /// The last number that was given out.
    pub fn current_seq(&self) -> u64 {
        self.host.store.sequencer().current()
    }

    /// Makes a provisional session: memory only, nothing started, nothing announced.
    ///
    /// # Errors
    /// If the URI is taken or unusable, the provider unknown, the directory missing or the configuration wrong, or if
    /// somebody has to sign in first.
    pub fn create_session(&self, wish: CreateSession) -> Result<(), EngineError> {
        let host = &self.host;
        if !uri::is_session_uri(&wish.uri) {
            return Err(EngineError::Invalid(format!("{:?} cannot name a session; use claude:/<uuid>", wish.uri)));
        }
        let provider = wish.provider.clone().unwrap_or_else(|| self.provider_of(&wish.uri));
        let Some(driver) = host.drivers.get(&provider) else {
            return Err(EngineError::ProviderNotFound(provider));
        };
        host.check_signed_in()?;
        let directories = host.directories(&wish.working_directories)?;
        let home = directories.first().and_then(|uri| Url::parse(uri).ok()?.to_file_path().ok());
        let config = host.session_config(home.as_deref(), &wish.config.unwrap_or_default())?;
        let config = SessionConfigState { schema: config.schema, values: config.values };
        let session_uri: Arc<str> = wish.uri.into();
        let mut session =
            Session::provisional(Arc::clone(&session_uri), provider, directories, Some(config), host.clock.now_text());
        if let Some(client) = wish.active_client {
            host.hub.clients.take_part(&client.client_id);
            Arc::make_mut(&mut session.session).active_clients.push(client);
        }

        let mut sessions = host.sessions();
        if host.stop.is_cancelled() {
            return Err(EngineError::Stopping);
        }
        if sessions.knows(&session_uri) {
            return Err(EngineError::SessionExists(session_uri.to_string()));
        }
        // However it is spelled: what somebody else has said is not this session's to go on with, or to delete.
        if sessions.has_conversation(session.conversation) {
            session.conversation = Uuid::new_v4();
        }
        host.shelf.places.put(&session_uri, session.session.working_directories.as_deref().unwrap_or_default());
        let handle = SessionHandle::spawn(host, Origin::Provisional(Box::new(session)));
        sessions.live.insert(session_uri, handle);
        drop(sessions);
        if let Some(wish) = wish.progress {
            host.prepare_agent(driver, wish);
        }
        Ok(())
    }

    /// Ends a session: its turn, its agent and everything the agent started, and removes it.
    ///
    /// # Errors
    /// If there is no such session, somebody else is in the middle of a turn of it, or the store cannot forget it.
    pub async fn dispose_session(&self, session: &str) -> Result<(), EngineError> {
        self.host.is_known_soon(session).await;
        self.host.check_not_led(session).await?;
        if let Some(forgotten) = self.host.forget_found(session).await {
            return forgotten;
        }
        let handle = {
            let mut sessions = self.host.sessions();
            let Some(handle) = sessions.wake(&self.host, session) else {
                return Err(EngineError::SessionNotFound(session.to_owned()));
            };
            sessions.leaving.insert(session.into());
            sessions.live.remove(session);
            handle
        };
        let (reply, done) = oneshot::channel();
        let sent = handle.send(Input::Dispose(reply)).await;
        let disposed = done.await;
        if let Ok(Ok(Forgotten { led })) = &disposed {
            self.host.forget_conversations(session, *led).await;
        }
        let result = {
            let mut sessions = self.host.sessions();
            sessions.leaving.remove(session);
            match disposed {
                // Its agent is gone, but it will be there again after a restart: then it is there now as well.
                Ok(Err(NotForgotten { origin, error })) => {
                    sessions.put_back(origin);
                    Err(error)
                }
                Ok(Ok(_)) => Ok(()),
                // The session ended by itself in the meantime, with the host.
                Err(_) => sent,
            }
        };
        if result.is_ok() {
            self.dispose_terminals_of(session).await;
        }
        result
    }

    /// Whether there is such a session, announced or not.
    pub fn has_session(&self, session: &str) -> bool {
        self.host.sessions().knows(session)
    }

    /// A page of the announced sessions, the most recently changed first.
    ///
    /// # Errors
    /// If the cursor is not one of ours.
    pub fn list_sessions(&self, limit: Option<usize>, cursor: Option<&str>) -> Result<SessionPage, EngineError> {
        self.host.catalogue.page(limit, cursor)
    }

    /// Subscribes to a channel. The snapshot arrives in the subscriber's queue under `token`, before any later
    /// envelope of the channel.
    ///
    /// # Errors
    /// If there is no such channel.
    pub async fn subscribe(&self, channel: &str, subscriber: &Subscriber, token: u64) -> Result<(), EngineError> {
        self.subscribe_to(channel, Extent::All, subscriber, token).await
    }

    /// Subscribes to a channel as [`subscribe`](Self::subscribe) does. If it is a chat, the snapshot has turns to the given
    /// extent, and the cursor of those before them.
    ///
    /// # Errors
    /// If there is no such channel.
    pub async fn subscribe_to(
        &self,
        channel: &str,
        extent: Extent,
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        if channel == uri::ROOT {
            return self.host.subscribe_root(subscriber.clone(), token).await;
        }
        let not_found = || EngineError::ChannelNotFound(channel.to_owned());
        if uri::is_terminal(channel) {
            return self.host.subscribe_terminal(channel, subscriber.clone(), token).await;
        }
        if channel.starts_with(uri::WATCH) {
            return self.host.subscribe_watch(channel, subscriber.clone(), token).await;
        }
        let session = uri::session_of(channel).ok_or_else(not_found)?;
        let handle = self.host.waken(&session).await.ok_or_else(not_found)?;
        let (reply, answer) = oneshot::channel();
        let subscribe = Subscribe { channel: channel.to_owned(), extent, subscriber: subscriber.clone(), token, reply };
        handle.send(Input::Subscribe(subscribe)).await.map_err(|_| not_found())?;
        answer.await.map_err(|_| not_found())?
    }

    /// Loads turns of a chat before those that the subscriber was sent: `chat/turnsLoaded` arrives in its queue under
    /// `token`, and nobody else hears it.
    ///
    /// # Errors
    /// If there is no such chat, the subscriber does not hear it, or the cursor is not the one that it was sent last.
    pub async fn fetch_turns(
        &self,
        chat: &str,
        cursor: Option<&str>,
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        self.host.fetch_turns(chat, cursor, subscriber, token).await
    }

    /// Why older turns were not loaded after all: the connection has another view of the chat by now.
    pub fn stale_view() -> EngineError {
        paging::stale()
    }

    /// A connection is the client's from now on: when the client comes back, it is known how far its chats reach back.
    pub fn shows(&self, client: &str, subscriber: &Subscriber) {
        self.host.hub.clients.shows(client, subscriber.views());
    }

    /// Subscribes to a channel as [`subscribe_to`](Self::subscribe_to) does. Where a sub-agent's chat is not there yet, it is
    /// waited for: whoever sees its call may be faster than it is.
    ///
    /// # Errors
    /// If there is no such channel, and none within a few seconds.
    pub async fn subscribe_soon(
        &self,
        channel: &str,
        extent: Extent,
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        let mut begun = self.host.workers_begun.subscribe();
        let mut over = self.host.clock.sleep(EARLY);
        loop {
            let result = self.subscribe_to(channel, extent, subscriber, token).await;
            if !matches!(result, Err(EngineError::ChannelNotFound(_))) || !self.may_begin(channel) {
                return result;
            }
            tokio::select! {
                Ok(()) = begun.changed() => {}
                () = &mut over => return result,
                () = subscriber.gone() => return result,
                () = self.host.stop.cancelled() => return result,
            }
        }
    }

    /// Whether a channel may be there in a moment: the chat of a sub-agent, in a session that is there.
    pub fn may_begin(&self, channel: &str) -> bool {
        uri::is_worker(channel) && uri::session_of(channel).is_some_and(|session| self.host.sessions().knows(&session))
    }

    /// The subscriber no longer hears the channel.
    pub fn unsubscribe(&self, channel: &str, subscriber: SubscriberId) {
        self.host.hub.unsubscribe(channel, subscriber);
        self.host.end_watches();
    }

    /// A client says that it no longer hears the channel. If that is a session, the client is no longer part of it.
    pub async fn client_unsubscribed(&self, client: &str, channel: &str, subscriber: SubscriberId) {
        self.unsubscribe(channel, subscriber);
        self.host.leave_session(client, channel).await;
    }

    /// The subscriber is gone.
    pub fn forget_subscriber(&self, subscriber: SubscriberId) {
        self.host.hub.forget(subscriber);
        self.host.end_watches();
    }

    /// A client connects under an identity that is kept, together with a memo for its surface. It is there until the
    /// presence is dropped.
    pub async fn client_arrived(&self, client: &str, memo: &str) -> Presence {
        self.host.client_arrived(client, memo).await
    }

    /// The memo of a client that was here lately, in this life of the host or an earlier one.
    pub fn client_memo(&self, client: &str) -> Option<String> {
        self.host.hub.clients.memo(client)
    }

    /// The gateway's models may have changed: clients are told if they have.
    pub async fn models_changed(&self) {
        self.host.models_changed().await;
    }

    /// Takes a client up again where it left: what it missed, or snapshots, arrives in the subscriber's queue.
    ///
    /// # Errors
    /// [`EngineError::ClientUnknown`] if nobody of that name was here lately.
    pub async fn reconnect(
        &self,
        client: &str,
        last_seen: u64,
        channels: &[String],
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<Reconnected, EngineError> {
        self.host.reconnect(client, last_seen, channels, subscriber, token).await
    }

    /// Ends one piece of a session's background work.
    ///
    /// # Errors
    /// If there is no such session or no such work, or the agent refuses.
    pub async fn stop_background_work(&self, channel: &str, id: &str) -> Result<(), EngineError> {
        let not_found = || EngineError::ChannelNotFound(channel.to_owned());
        let session = uri::session_of(channel).ok_or_else(not_found)?;
        let handle = self.host.waken(&session).await.ok_or_else(not_found)?;
        let (reply, stopped) = oneshot::channel();
        handle.send(Input::StopWork(id.to_owned(), reply)).await?;
        stopped.await.map_err(|_| EngineError::Stopping)?
    }

    /// The end of what a piece of a session's background work has written so far.
    ///
    /// # Errors
    /// If there is no such session or no such work, or its output cannot be had.
    pub async fn background_output(&self, channel: &str, id: &str) -> Result<BackgroundOutput, EngineError> {
        let not_found = || EngineError::ChannelNotFound(channel.to_owned());
        let session = uri::session_of(channel).ok_or_else(not_found)?;
        let handle = self.host.waken(&session).await.ok_or_else(not_found)?;
        let (reply, output) = oneshot::channel();
        handle.send(Input::WorkOutput(id.to_owned(), reply)).await?;
        output.await.map_err(|_| EngineError::Stopping)?
    }

    /// Takes pictures out of a conversation, so that it can go on without them. Says how many there were.
    ///
    /// # Errors
    /// If there is no such session, if its agent works, or if the agent's record cannot be changed.
    pub async fn drop_images(&self, channel: &str, which: Images) -> Result<usize, EngineError> {
        let not_found = || EngineError::ChannelNotFound(channel.to_owned());
        let session = uri::session_of(channel).ok_or_else(not_found)?;
        let handle = self.host.waken(&session).await.ok_or_else(not_found)?;
        let (reply, dropped) = oneshot::channel();
        handle.send(Input::DropImages(which, reply)).await?;
        dropped.await.map_err(|_| EngineError::Stopping)?
    }

    /// Hands a client's wish to the session's actor. The answer is an envelope. Unknown channels are ignored.
    pub async fn dispatch(&self, dispatch: Dispatch) {
        if dispatch.channel == uri::ROOT {
            return self.host.dispatch_root(dispatch).await;
        }
        if uri::is_terminal(&dispatch.channel) {
            return self.host.dispatch_terminal(dispatch).await;
        }
        let Some(session) = uri::session_of(&dispatch.channel) else { return };
        let Some(handle) = self.host.waken(&session).await else { return };
        if handle.send(Input::Dispatch(Box::new(dispatch))).await.is_err() {
            tracing::debug!("a dispatch came too late");
        }
    }

    /// Hands a client's wish with attachments to the session's actor, after they were looked at and are kept by reference.
    /// The answer is an envelope. This may take long; what the client wants next has to wait for it.
    pub async fn dispatch_attached(&self, dispatch: Dispatch, fetch: &dyn Fetch) {
        let host = &self.host;
        // What was accepted once is not looked at again.
        if host.answer_repetition(&dispatch).await {
            return;
        }
        match host.prepare(dispatch, fetch).await {
            Some(Ok(prepared)) => self.dispatch(prepared).await,
            // Its first sending may have been accepted meanwhile.
            Some(Err((dispatch, _))) if host.answer_repetition(&dispatch).await => {}
            Some(Err((dispatch, reason))) => host.reject(dispatch, reason).await,
            None => {}
        }
    }

    /// What would become of attachments if a message brought them to a chat now. Nothing is kept.
    ///
    /// # Errors
    /// If there is no such chat.
    pub async fn plan_attachments(
        &self,
        channel: &str,
        attachments: Vec<MessageAttachment>,
        fetch: &dyn Fetch,
    ) -> Result<PlanSummary, EngineError> {
        let planned = self.host.plan_summary(channel, attachments, fetch).await;
        planned.ok_or_else(|| EngineError::ChannelNotFound(channel.to_owned()))
    }

    /// Sends a client's wish back as refused, to whoever hears the channel. Unknown channels are ignored.
    pub async fn reject(&self, dispatch: Dispatch, reason: String) {
        let known = dispatch.channel == uri::ROOT
            || self.host.shelf.watches.knows(&dispatch.channel)
            || self.host.terminals.knows(&dispatch.channel)
            || uri::session_of(&dispatch.channel).is_some_and(|session| self.host.sessions().knows(&session));
        if known {
            self.host.reject(dispatch, reason).await;
        }
    }

    /// The contents behind a URI that a state or an action names.
    ///
    /// # Errors
    /// [`EngineError::ContentNotFound`] if no session of this host names it.
    pub async fn content(&self, uri: &str) -> Result<Content, EngineError> {
        let not_found = || EngineError::ContentNotFound(uri.to_owned());
        let hash = content_hash(uri).ok_or_else(not_found)?;
        let blob = self.host.store.blob(hash).await?.ok_or_else(not_found)?;
        Ok(Content { content_type: blob.content_type().to_owned(), body: blob.body().to_vec() })
    }

    /// A page of a session's audit log: what was decided about its tool calls after an entry (0: from the beginning).
    /// Serialized, each entry is one line of the export.
    ///
    /// # Errors
    /// If there is no such session, or the store cannot be read.
    pub async fn audit(&self, session: &str, after: i64, limit: usize) -> Result<Vec<AuditRow>, EngineError> {
        let page = self.host.store.audit(session, after, limit).await?;
        if page.is_empty() && !self.host.sessions().knows(session) {
            return Err(EngineError::SessionNotFound(session.to_owned()));
        }
        Ok(page)
    }

    /// Looks for something in all sessions.
    ///
    /// # Errors
    /// If the index cannot be used.
    pub async fn search(&self, wish: SearchWish) -> Result<Found, EngineError> {
        self.host.search_for(wish).await
    }

    /// The agents that are alive now.
    pub fn agents(&self) -> Vec<AgentStatus> {
        self.host.agents().values().cloned().collect()
    }

    /// How many agents there are, and how many turns wait for one.
    pub fn fleet(&self) -> FleetStatus {
        self.host.fleet.status()
    }

    /// Ends turns as cancelled, ends all agents, saves everything. Twice is the same as once.
    pub async fn shutdown(&self) {
        self.host.stopped.get_or_init(|| self.stop()).await;
    }

    async fn stop(&self) {
        let host = &self.host;
        host.stop.cancel();
        let handles: Vec<_> = host.sessions().live.drain().map(|(_, handle)| handle).collect();
        let all = handles.into_iter().map(|handle| async move {
            let (reply, done) = oneshot::channel();
            if handle.send(Input::Shutdown(reply)).await.is_ok() {
                let _ = done.await;
            }
        });
        // Sessions whose dispose is under way are not among them; they are waited for as well.
        host.tasks.close();
        let ended = async { tokio::join!(futures::future::join_all(all), host.tasks.wait()) };
        if host.clock.timeout(SHUTDOWN_DEADLINE, ended).await.is_none() {
            tracing::warn!("some sessions did not end in time; their agents are ended by their supervisors");
        }
        host.store.sequencer().stop().await;
    }

    fn provider_of(&self, session: &str) -> String {
        let scheme = session.split_once(':').map_or("", |(scheme, _)| scheme);
        if scheme == "ahp-session" { self.host.default_provider.clone() } else { scheme.to_owned() }
    }
}
