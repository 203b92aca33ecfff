//! The way in for surfaces: sessions by URI, and what belongs to the host as a whole.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ahp_types::common::JsonObject;
use ahp_types::state::{
    AgentInfo, RootConfigState, RootState, SessionActiveClient, SessionConfigSchema, SessionConfigState,
    SessionModelInfo, SessionStatus, SessionSummary,
};
use hostler_driver::Driver;
use hostler_store::{Batch, Durability, Entry, JournalRow, Published, Publisher, Store, StoreOptions};
use jiff::Timestamp;
use tokio::sync::{OnceCell, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::actor::{Input, Origin, SessionHandle, Subscribe};
use crate::catalogue::{Catalogue, SessionPage};
use crate::hub::{Delivery, Hub, Subscriber, SubscriberId};
use crate::port::{AgentStatus, ModelGateway};
use crate::root::Root;
use crate::session::{Dispatch, Session};
use crate::{EngineError, clients, config, uri};

/// How long a shutdown may take before it stops being polite.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(4);

/// How much a replay may hold, by the envelopes' size in memory: beyond that a snapshot is smaller, and fits into the
/// message limits that clients have.
const MAX_REPLAY: usize = 16 * 1024 * 1024;

/// How long a client may be away before it is no longer part of its sessions.
const ABSENCE: Duration = Duration::from_secs(30);

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
    /// How long an agent may take to react to an interrupt.
    pub interrupt_grace: Duration,
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
}

/// A configuration's schema and its values.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// What can be configured.
    pub schema: SessionConfigSchema,
    /// How it is.
    pub values: JsonObject,
}

/// How a client that came back is made whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reconnected {
    /// What it missed is in its queue. If that turns out to reach back too far, it is told so there.
    Replay {
        /// The channels that it hears again.
        channels: Vec<String>,
        /// The channels that are gone.
        missing: Vec<String>,
    },
    /// It has to subscribe to these channels anew.
    Snapshots {
        /// The channels that are there.
        channels: Vec<String>,
        /// The channels that are gone.
        missing: Vec<String>,
    },
}

/// The engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    host: Arc<Host>,
}

/// What all actors share.
pub(crate) struct Host {
    pub(crate) store: Store,
    pub(crate) hub: Arc<Hub>,
    pub(crate) catalogue: Catalogue,
    pub(crate) gateway: Arc<dyn ModelGateway>,
    pub(crate) drivers: HashMap<String, Arc<dyn Driver>>,
    pub(crate) interrupt_grace: Duration,
    pub(crate) tasks: TaskTracker,
    default_provider: String,
    default_directory: PathBuf,
    pub(crate) root: Root,
    sessions: Mutex<Sessions>,
    agents: Mutex<HashMap<Arc<str>, AgentStatus>>,
    stopping: AtomicBool,
    stop: CancellationToken,
    stopped: OnceCell<()>,
}

/// Every session that is known: with an actor, or only to the store.
#[derive(Default)]
struct Sessions {
    live: HashMap<Arc<str>, SessionHandle>,
    dormant: HashMap<Arc<str>, bool>,
    /// URIs whose dispose is under way.
    leaving: HashSet<Arc<str>>,
}

/// The time as the store counts it.
pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// The time as AHP writes it.
pub(crate) fn now() -> String {
    format!("{:.3}", Timestamp::now())
}

impl Engine {
    /// Opens the store, lists what it holds, and ends the turns that were running when the last host died.
    ///
    /// # Errors
    /// If the store cannot be opened, or no driver is given.
    pub async fn start(config: EngineConfig) -> Result<Self, EngineError> {
        let hub = Arc::new(Hub::new());
        let publisher: Arc<dyn Publisher> = Arc::<Hub>::clone(&hub);
        let store = Store::open(&config.store, publisher)?;
        let Some(first) = config.drivers.first() else {
            return Err(EngineError::Invalid("a host needs at least one agent".to_owned()));
        };
        let host = Arc::new(Host {
            default_provider: first.describe().id,
            root: Root::new(root_state(&config.drivers, &*config.gateway)),
            store,
            hub,
            catalogue: Catalogue::default(),
            gateway: config.gateway,
            drivers: config.drivers.iter().map(|driver| (driver.describe().id, Arc::clone(driver))).collect(),
            interrupt_grace: config.interrupt_grace,
            tasks: TaskTracker::new(),
            default_directory: config.default_directory,
            sessions: Mutex::default(),
            agents: Mutex::default(),
            stopping: AtomicBool::new(false),
            stop: CancellationToken::new(),
            stopped: OnceCell::new(),
        });
        host.hub.begin(host.store.life().before);
        host.hub.clients.restore(host.store.clients(now_ms() - clients::KEPT_MS).await?);
        host.load_root().await?;
        host.load_catalogue().await?;
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

    /// The last number that was given out.
    pub fn current_seq(&self) -> u64 {
        self.host.store.sequencer().current()
    }

    /// Makes a provisional session: memory only, nothing started, nothing announced.
    ///
    /// # Errors
    /// If the URI is taken or unusable, the provider unknown, the directory missing or the configuration wrong.
    pub fn create_session(&self, wish: CreateSession) -> Result<(), EngineError> {
        let host = &self.host;
        if !uri::is_session_uri(&wish.uri) {
            return Err(EngineError::Invalid(format!("{:?} cannot name a session; use claude:/<uuid>", wish.uri)));
        }
        let provider = wish.provider.clone().unwrap_or_else(|| self.provider_of(&wish.uri));
        if !host.drivers.contains_key(&provider) {
            return Err(EngineError::ProviderNotFound(provider));
        }
        let directory = host.directory(&wish.working_directories)?;
        let config = self.resolve_config(Some(&provider), wish.config.as_ref())?;
        let config = SessionConfigState { schema: config.schema, values: config.values };
        let session_uri: Arc<str> = wish.uri.into();
        let mut session = Session::provisional(Arc::clone(&session_uri), provider, &directory, Some(config), now());
        if let Some(client) = wish.active_client {
            host.hub.clients.take_part(&client.client_id);
            Arc::make_mut(&mut session.session).active_clients.push(client);
        }

        let mut sessions = host.sessions();
        if host.stopping.load(Ordering::Acquire) {
            return Err(EngineError::Stopping);
        }
        if sessions.knows(&session_uri) {
            return Err(EngineError::SessionExists(session_uri.to_string()));
        }
        let handle = SessionHandle::spawn(host, Origin::Provisional(Box::new(session)));
        sessions.live.insert(session_uri, handle);
        Ok(())
    }

    /// Ends a session: its turn, its agent and everything the agent started, and removes it.
    ///
    /// # Errors
    /// If there is no such session.
    pub async fn dispose_session(&self, session: &str) -> Result<(), EngineError> {
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
        let result = handle.send(Input::Dispose(reply)).await;
        // A dropped answer means that the session ended by itself in the meantime, which is what was wanted.
        let _ = done.await;
        self.host.sessions().leaving.remove(session);
        result
    }

    /// A page of the announced sessions, the most recently changed first.
    ///
    /// # Errors
    /// If the cursor is not one of ours.
    pub fn list_sessions(&self, limit: Option<usize>, cursor: Option<&str>) -> Result<SessionPage, EngineError> {
        self.host.catalogue.page(limit, cursor)
    }

    /// What can be configured for a session, with defaults filled in. Changes nothing.
    ///
    /// # Errors
    /// If the provider is unknown or a value is not one of the schema's.
    pub fn resolve_config(
        &self,
        provider: Option<&str>,
        config: Option<&JsonObject>,
    ) -> Result<SessionConfig, EngineError> {
        if let Some(provider) = provider.filter(|provider| !self.host.drivers.contains_key(*provider)) {
            return Err(EngineError::ProviderNotFound(provider.to_owned()));
        }
        let values = config::resolve(config).map_err(EngineError::Invalid)?;
        Ok(SessionConfig { schema: config::session_schema(), values })
    }

    /// Subscribes to a channel. The snapshot arrives in the subscriber's queue under `token`, before any later
    /// envelope of the channel.
    ///
    /// # Errors
    /// If there is no such channel.
    pub async fn subscribe(&self, channel: &str, subscriber: &Subscriber, token: u64) -> Result<(), EngineError> {
        if channel == uri::ROOT {
            return self.host.subscribe_root(subscriber.clone(), token).await;
        }
        let not_found = || EngineError::ChannelNotFound(channel.to_owned());
        let session = uri::session_of(channel).ok_or_else(not_found)?;
        let handle = self.host.sessions().wake(&self.host, &session).ok_or_else(not_found)?;
        let (reply, answer) = oneshot::channel();
        let subscribe = Subscribe { channel: channel.to_owned(), subscriber: subscriber.clone(), token, reply };
        handle.send(Input::Subscribe(subscribe)).await.map_err(|_| not_found())?;
        answer.await.map_err(|_| not_found())?
    }

    /// The subscriber no longer hears the channel.
    pub fn unsubscribe(&self, channel: &str, subscriber: SubscriberId) {
        self.host.hub.unsubscribe(channel, subscriber);
    }

    /// The subscriber is gone.
    pub fn forget_subscriber(&self, subscriber: SubscriberId) {
        self.host.hub.forget(subscriber);
    }

    /// A client connects under an identity that is kept.
    pub async fn client_arrived(&self, client: &str) {
        let now = now_ms();
        self.host.hub.clients.arrive(client, now);
        let batch = Batch::new(None, Durability::Stream).client(client.to_owned(), now);
        if let Err(error) = self.host.store.sequencer().submit(batch).await {
            tracing::debug!(%error, "a client came too late");
        }
    }

    /// A connection of a client ended. If it was the last one and none follows, the client leaves its sessions.
    pub fn client_left(&self, client: &str) {
        if !self.host.hub.clients.leave(client, now_ms()) || self.host.stopping.load(Ordering::Acquire) {
            return;
        }
        let (host, client) = (Arc::clone(&self.host), client.to_owned());
        self.host.tasks.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(ABSENCE) => {}
                () = host.stop.cancelled() => return,
            }
            if host.hub.clients.is_connected(&client) {
                return;
            }
            let handles: Vec<_> = host.sessions().live.values().cloned().collect();
            for handle in handles {
                let _ = handle.send(Input::ClientGone(client.clone())).await;
            }
        });
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
        if !self.host.hub.clients.knows(client) {
            return Err(EngineError::ClientUnknown);
        }
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for channel in channels {
            let list = if self.exists(channel).await { &mut there } else { &mut missing };
            if !list.contains(channel) {
                list.push(channel.clone());
            }
        }
        if let Some(earlier) = self.host.missed_before(last_seen, &there).await? {
            let live = last_seen.max(self.host.store.life().before);
            self.host.deliver_replay(&there, live, earlier, subscriber.clone(), token).await?;
            return Ok(Reconnected::Replay { channels: there, missing });
        }
        Ok(Reconnected::Snapshots { channels: there, missing })
    }

    async fn exists(&self, channel: &str) -> bool {
        if channel == uri::ROOT {
            return true;
        }
        let Some(session) = uri::session_of(channel) else { return false };
        let Some(handle) = self.host.sessions().wake(&self.host, &session) else { return false };
        let (reply, answer) = oneshot::channel();
        handle.send(Input::Exists(channel.to_owned(), reply)).await.is_ok() && answer.await.unwrap_or(false)
    }

    /// Hands a client's wish to the session's actor. The answer is an envelope. Unknown channels are ignored.
    pub async fn dispatch(&self, dispatch: Dispatch) {
        if dispatch.channel == uri::ROOT {
            return self.host.dispatch_root(dispatch).await;
        }
        let Some(session) = uri::session_of(&dispatch.channel) else { return };
        let Some(handle) = self.host.sessions().wake(&self.host, &session) else { return };
        if handle.send(Input::Dispatch(Box::new(dispatch))).await.is_err() {
            tracing::debug!("a dispatch came too late");
        }
    }

    /// Sends a client's wish back as refused, to whoever hears the channel. Unknown channels are ignored.
    pub async fn reject(&self, dispatch: Dispatch, reason: String) {
        let known = dispatch.channel == uri::ROOT
            || uri::session_of(&dispatch.channel).is_some_and(|session| self.host.sessions().knows(&session));
        if known {
            self.host.reject(dispatch, reason).await;
        }
    }

    /// The agents that are alive now.
    pub fn agents(&self) -> Vec<AgentStatus> {
        let agents = self.host.agents.lock().unwrap_or_else(PoisonError::into_inner);
        agents.values().cloned().collect()
    }

    /// Ends turns as cancelled, ends all agents, saves everything. Twice is the same as once.
    pub async fn shutdown(&self) {
        self.host.stopped.get_or_init(|| self.stop()).await;
    }

    async fn stop(&self) {
        let host = &self.host;
        host.stopping.store(true, Ordering::Release);
        host.stop.cancel();
        let handles: Vec<_> = host.sessions().live.drain().map(|(_, handle)| handle).collect();
        let all = handles.into_iter().map(|handle| async move {
            let (reply, done) = oneshot::channel();
            if handle.send(Input::Shutdown(reply)).await.is_ok() {
                let _ = done.await;
            }
        });
        if tokio::time::timeout(SHUTDOWN_DEADLINE, futures::future::join_all(all)).await.is_err() {
            tracing::warn!("some sessions did not end in time; their agents are ended by their supervisors");
        }
        host.tasks.close();
        host.store.sequencer().stop().await;
    }

    fn provider_of(&self, session: &str) -> String {
        let scheme = session.split_once(':').map_or("", |(scheme, _)| scheme);
        if scheme == "ahp-session" { self.host.default_provider.clone() } else { scheme.to_owned() }
    }
}

impl Host {
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happened on some channels between a client's last number and this life; `None` if that is not known exactly
    /// and the client needs snapshots.
    async fn missed_before(
        &self,
        last_seen: u64,
        channels: &[String],
    ) -> Result<Option<Vec<Arc<Published>>>, EngineError> {
        let life = self.store.life();
        if last_seen > self.store.sequencer().current() {
            return Ok(None);
        }
        if last_seen >= life.before {
            return Ok((last_seen >= self.hub.past_from()).then(Vec::new));
        }
        // The client saw numbers that never became durable, or fewer than what is still there.
        if last_seen > life.last_durable || last_seen < life.replay_from || self.hub.past_from() > life.before {
            return Ok(None);
        }
        let rows = self.store.actions(last_seen, life.before, channels.to_vec()).await?;
        let mut missed = Vec::with_capacity(rows.len());
        for row in rows {
            let JournalRow::Action { seq, channel, json, origin } = row else { continue };
            let Ok(action) = serde_json::from_str(&json) else { return Ok(None) };
            missed.push(Arc::new(Published::stored(seq, channel.into(), action, json.into(), origin)));
        }
        Ok(Some(missed))
    }

    /// Subscribes to all channels and puts what was missed into the queue, at one number.
    async fn deliver_replay(
        self: &Arc<Self>,
        channels: &[String],
        after: u64,
        mut missed: Vec<Arc<Published>>,
        subscriber: Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        let channels: HashSet<Arc<str>> = channels.iter().map(|channel| channel.as_str().into()).collect();
        let host = Arc::clone(self);
        let marker = Batch::new(None, Durability::Memory).then(move |_| {
            let missed = host.hub.replay(after, &channels).map(|recent| {
                missed.extend(recent);
                missed
            });
            let missed = missed.filter(|missed| missed.iter().map(|item| item.size()).sum::<usize>() <= MAX_REPLAY);
            let whole = missed.is_some();
            if subscriber.deliver(Delivery::Replay { token, missed }) && whole {
                for channel in &channels {
                    host.hub.subscribe(channel, &subscriber);
                }
            }
        });
        self.store.sequencer().submit(marker).await?;
        Ok(())
    }

    /// Answers a dispatch that was answered before with its first envelope, to the asking connection only.
    pub(crate) async fn answer_repetition(&self, dispatch: &Dispatch) -> bool {
        let Some(original) = self.first_answer(dispatch).await else { return false };
        if let Some(from) = &dispatch.from {
            from.deliver(Delivery::Envelope(original));
        }
        true
    }

    async fn first_answer(&self, dispatch: &Dispatch) -> Option<Arc<Published>> {
        let (client, seq) = (&dispatch.client_id, dispatch.client_seq);
        let found = match self.hub.clients.answered(client, seq) {
            Some(found) => found,
            None if self.hub.clients.is_returning(client) => {
                let row = self.store.dispatched(client, seq).await.ok()??;
                let JournalRow::Action { seq, channel, json, origin } = row else { return None };
                let action = serde_json::from_str(&json).ok()?;
                Arc::new(Published::stored(seq, channel.into(), action, json.into(), origin))
            }
            None => return None,
        };
        // Some clients use one number for many dispatches: then only the same wish is a repetition.
        let same = *found.channel == *dispatch.channel && (seq > 0 || *found.action == dispatch.action);
        let same_kind = std::mem::discriminant(&*found.action) == std::mem::discriminant(&dispatch.action);
        (same && same_kind).then_some(found)
    }

    /// Numbers and publishes a refusal; it is never written.
    pub(crate) async fn reject(&self, dispatch: Dispatch, reason: String) {
        let origin = dispatch.origin();
        let entry = match Entry::new(dispatch.channel.into(), dispatch.action) {
            Ok(entry) => entry.with_origin(Some(origin)).rejected(reason),
            Err(error) => {
                tracing::warn!(%error, "a refusal could not be encoded");
                return;
            }
        };
        let batch = Batch::new(None, Durability::Memory).entry(entry);
        if let Err(error) = self.store.sequencer().submit(batch).await {
            tracing::debug!(%error, "a refusal came too late");
        }
    }

    pub(crate) fn agent_is_there(&self, session: &Arc<str>, status: AgentStatus) {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(session), status);
    }

    pub(crate) fn agent_gone(&self, session: &str) {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
    }

    async fn load_catalogue(self: &Arc<Self>) -> Result<(), EngineError> {
        for stored in self.store.sessions().await? {
            let session: Arc<str> = stored.uri.into();
            let summary: SessionSummary = match serde_json::from_str(&stored.summary) {
                Ok(summary) => summary,
                Err(error) => {
                    tracing::warn!(session = &*session, %error, "a stored session's line could not be read");
                    continue;
                }
            };
            let interrupted = summary.status & SessionStatus::InProgress.bits() != 0;
            if stored.listed {
                self.catalogue.put(&session, summary);
            }
            let mut sessions = self.sessions();
            sessions.dormant.insert(Arc::clone(&session), stored.listed);
            if interrupted {
                // Waking it ends the turn that nobody runs any more.
                sessions.wake(self, &session);
            }
        }
        Ok(())
    }

    /// The file URI of the directory that a session works in.
    fn directory(&self, wanted: &[String]) -> Result<String, EngineError> {
        let path = match wanted {
            [] => self.default_directory.clone(),
            [only] => Url::parse(only)
                .ok()
                .filter(|url| url.scheme() == "file")
                .and_then(|url| url.to_file_path().ok())
                .ok_or_else(|| EngineError::Invalid(format!("{only:?} is not a file URI")))?,
            _ => return Err(EngineError::Invalid("a session can have one working directory only".to_owned())),
        };
        if !path.is_dir() {
            return Err(EngineError::Invalid(format!("there is no directory {}", path.display())));
        }
        Url::from_file_path(&path)
            .map(String::from)
            .map_err(|()| EngineError::Invalid(format!("{} is not an absolute path", path.display())))
    }
}

impl Sessions {
    fn knows(&self, session: &str) -> bool {
        self.live.contains_key(session) || self.dormant.contains_key(session) || self.leaving.contains(session)
    }

    /// The actor of a session, started if the session is only known to the store.
    fn wake(&mut self, host: &Arc<Host>, session: &str) -> Option<SessionHandle> {
        if let Some(handle) = self.live.get(session) {
            return Some(handle.clone());
        }
        if host.stopping.load(Ordering::Acquire) {
            return None;
        }
        let (session_uri, listed) = self.dormant.remove_entry(session)?;
        let handle = SessionHandle::spawn(host, Origin::Stored { uri: Arc::clone(&session_uri), listed });
        self.live.insert(session_uri, handle.clone());
        Some(handle)
    }
}

fn root_state(drivers: &[Arc<dyn Driver>], gateway: &dyn ModelGateway) -> RootState {
    let number = |value: Option<u64>| value.and_then(|value| i64::try_from(value).ok());
    let agents = drivers.iter().map(|driver| {
        let info = driver.describe();
        let models = gateway.models().into_iter().map(|model| SessionModelInfo {
            id: model.id,
            provider: info.id.clone(),
            name: model.name,
            max_context_window: number(model.context_window),
            max_output_tokens: number(model.max_output),
            max_prompt_tokens: None,
            supports_vision: None,
            policy_state: None,
            config_schema: None,
            meta: None,
        });
        AgentInfo {
            provider: info.id.clone(),
            display_name: info.display_name.clone(),
            description: info.description.clone(),
            models: models.collect(),
            protected_resources: None,
            customizations: None,
            capabilities: None,
        }
    });
    let config = RootConfigState { schema: config::root_schema(), values: JsonObject::new() };
    RootState { agents: agents.collect(), active_sessions: None, terminals: None, config: Some(config), meta: None }
}
