//! What all actors share, and the registry of sessions.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ahp_types::common::JsonObject;
use ahp_types::state::{SessionStatus, SessionSummary};
use hostler_attachments::Limits;
use hostler_driver::{Archive, Clock, Driver};
use hostler_redact::json_fault;
use hostler_rules::RuleBook;
use hostler_store::{Batch, Durability, Entry, Store};
use hostler_trust::TrustStore;
use tokio::sync::{OnceCell, Semaphore, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;
use uuid::Uuid;

use crate::actor::{Origin, SessionHandle};
use crate::attach::PictureBudget;
use crate::catalogue::Catalogue;
use crate::commands::Commands;
use crate::complete::Walks;
use crate::fleet::Fleet;
use crate::found::{Finder, FoundSession, Namer, Untold};
use crate::hub::{Delivery, Hub, SnapshotAt, Subscriber};
use crate::local::{self, Local};
use crate::paging::{OlderTurns, Shown};
use crate::permissions::PermissionConfig;
use crate::port::{AgentStatus, ModelGateway};
use crate::prompt_ids::PromptIds;
use crate::resources::Shelf;
use crate::root::Root;
use crate::search::Search;
use crate::session::Dispatch;
use crate::sign_in::Told;
use crate::state::ChannelState;
use crate::stopping::BackgroundOnStop;
use crate::terminals::Terminals;
use crate::{EngineError, attach, terminals};

/// How often the file of the rules is looked at while no call asks for it.
const RULES_POLL: Duration = Duration::from_secs(1);

/// How many directories a session can work in.
pub(crate) const MAX_DIRECTORIES: usize = 16;

/// What all actors share.
pub(crate) struct Host {
    pub(crate) store: Store,
    pub(crate) hub: Arc<Hub>,
    pub(crate) catalogue: Catalogue,
    pub(crate) gateway: Arc<dyn ModelGateway>,
    pub(crate) drivers: HashMap<String, Arc<dyn Driver>>,
    pub(crate) interrupt_grace: Duration,
    /// What becomes of background work when a turn is stopped, if a session does not say otherwise.
    pub(crate) background_on_stop: BackgroundOnStop,
    /// How many messages may wait in one chat.
    pub(crate) max_queue: usize,
    /// How many ended turns of an open chat memory holds.
    pub(crate) turns_in_memory: usize,
    pub(crate) permissions: PermissionConfig,
    pub(crate) rules: Arc<RuleBook>,
    /// The version of the rules that sessions have been told of; what waits there is decided anew.
    pub(crate) rules_version: watch::Sender<u64>,
    /// What people decided about folders.
    pub(crate) trust: Arc<TrustStore>,
    /// The version of the decisions that sessions were last notified of.
    pub(crate) trust_version: watch::Sender<u64>,
    /// Counts the chats of sub-agents that have begun, for whoever waits for one.
    pub(crate) workers_begun: watch::Sender<u64>,
    /// How long a client may be away before it is no longer part of its sessions.
    pub(crate) absence: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) fleet: Arc<Fleet>,
    /// The most that one message may carry.
    pub(crate) attachments: Limits,
    /// How many messages' attachments may be planned at a time: each can take much memory.
    pub(crate) planning: Semaphore,
    /// How many pixels they may have decoded at a time.
    pub(crate) pictures: Arc<PictureBudget>,
    pub(crate) tasks: TaskTracker,
    pub(crate) default_provider: String,
    pub(crate) default_directory: PathBuf,
    /// The files that clients may reach.
    pub(crate) shelf: Shelf,
    pub(crate) root: Root,
    pub(crate) signed_in: Told,
    pub(crate) search: Search,
    pub(crate) commands: Arc<dyn Commands>,
    pub(crate) walks: Walks,
    pub(crate) terminals: Terminals,
    /// Whether clients may run commands in the user's shell.
    pub(crate) shell: bool,
    /// What new sessions begin with by the host's own settings.
    pub(crate) session_defaults: JsonObject,
    pub(crate) sessions: Mutex<Sessions>,
    pub(crate) finder: Finder,
    pub(crate) namer: Namer,
    /// Turns that are still to be taken in.
    pub(crate) untold: Untold,
    /// How prompts are told from those of others in the agents' records.
    pub(crate) prompt_ids: PromptIds,
    pub(crate) agents: Mutex<HashMap<Arc<str>, AgentStatus>>,
    /// Fires when the host goes down: nothing new begins.
    pub(crate) stop: CancellationToken,
    pub(crate) stopped: OnceCell<()>,
}

/// Every session that is known: with an actor, or only to the store.
#[derive(Default)]
pub(crate) struct Sessions {
    pub(crate) live: HashMap<Arc<str>, SessionHandle>,
    /// Whether each of them is listed.
    pub(crate) dormant: HashMap<Arc<str>, bool>,
    /// Those that only the agent knows, until somebody opens them.
    pub(crate) found: HashMap<Arc<str>, FoundSession>,
    /// Whose the agents' conversations are; nobody's, if they were deleted.
    pub(crate) conversations: HashMap<Uuid, Option<Arc<str>>>,
    /// URIs whose dispose is under way.
    pub(crate) leaving: HashSet<Arc<str>>,
}

impl Host {
    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a provider's agent keeps by itself.
    pub(crate) fn archive(&self, provider: &str) -> Option<Arc<dyn Archive>> {
        self.drivers.get(provider)?.archive()
    }

    /// The agents that are alive, by session.
    pub(crate) fn agents(&self) -> MutexGuard<'_, HashMap<Arc<str>, AgentStatus>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a message wants of the host itself, if it is not for the agent.
    pub(crate) fn local(&self, text: &str) -> Option<Local> {
        local::of(text).filter(|local| match local {
            Local::Command(_) => self.shell && !self.gateway.is_script(text),
            Local::Rename(_) => true,
        })
    }

    /// Registers the subscriber and puts the snapshot into its queue, in sequence order: what it hears later is newer.
    pub(crate) async fn deliver_snapshot(
        self: &Arc<Self>,
        resource: Arc<str>,
        state: ChannelState,
        subscriber: Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        let subscribed = self.subscribed(resource, state, None, subscriber, token);
        let marker = Batch::new(None, Durability::Memory).then(subscribed);
        self.store.sequencer().submit(marker).await?;
        Ok(())
    }

    /// The same for a chat, of which the subscriber may want to see a part.
    pub(crate) async fn deliver_chat(
        self: &Arc<Self>,
        resource: Arc<str>,
        shown: Shown,
        subscriber: Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        let Shown { state, first, older } = shown;
        let (chat, viewer) = (Arc::clone(&resource), subscriber.clone());
        let subscribed = self.subscribed(resource, ChannelState::Chat(state), older, subscriber, token);
        let marker = Batch::new(None, Durability::Memory).then(move |from_seq| {
            viewer.turns_begin(&chat, first);
            subscribed(from_seq);
        });
        self.store.sequencer().submit(marker).await?;
        Ok(())
    }

    fn subscribed(
        self: &Arc<Self>,
        resource: Arc<str>,
        state: ChannelState,
        older: Option<OlderTurns>,
        subscriber: Subscriber,
        token: u64,
    ) -> impl FnOnce(u64) + Send + 'static {
        let host = Arc::clone(self);
        move |from_seq| {
            let snapshot = SnapshotAt { resource: Arc::clone(&resource), state, older, from_seq };
            if subscriber.deliver(Delivery::Snapshot { token, snapshot }) {
                host.hub.subscribe(&resource, &subscriber);
            }
        }
    }

    /// Numbers and publishes a refusal; it is never written. Whoever is refused hears it, also on a channel that it does
    /// not hear otherwise.
    pub(crate) async fn reject(&self, mut dispatch: Dispatch, reason: String) {
        attach::without_contents(&mut dispatch.action);
        terminals::without_typed(&mut dispatch.action);
        let (origin, from, hub) = (dispatch.origin(), dispatch.from, Arc::clone(&self.hub));
        let entry = match Entry::new(dispatch.channel.into(), dispatch.action) {
            Ok(entry) => entry.with_origin(Some(origin)).rejected(reason),
            Err(error) => {
                tracing::warn!(%error, "a refusal could not be encoded");
                return;
            }
        };
        let batch = Batch::new(None, Durability::Memory).entry(entry).then(move |seq| {
            if let Some(from) = from {
                hub.hand(seq, &from);
            }
        });
        if let Err(error) = self.store.sequencer().submit(batch).await {
            tracing::debug!(%error, "a refusal came too late");
        }
    }

    /// Tells all sessions if the rules have changed since they were told last.
    pub(crate) fn look_at_rules(&self) {
        let version = self.rules.page().version;
        self.rules_version.send_if_modified(|told| std::mem::replace(told, version) != version);
    }

    /// Looks at the rules again and again: whoever edits them tells nobody. Ends with the host.
    pub(crate) fn watch_rules(self: &Arc<Self>) {
        let (host, stop) = (Arc::downgrade(self), self.stop.clone());
        let watch = async move {
            let mut ticks = tokio::time::interval(RULES_POLL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(host) = host.upgrade() else { return };
                host.look_at_rules();
                host.look_at_trust();
            }
        };
        self.tasks.spawn(async move { stop.run_until_cancelled(watch).await });
    }

    pub(crate) fn agent_is_there(&self, session: &Arc<str>, status: AgentStatus) {
        self.agents().insert(Arc::clone(session), status);
    }

    pub(crate) fn agent_gone(&self, session: &str) {
        self.agents().remove(session);
    }

    /// Lists what the store holds, and wakes the sessions that were running when the last host died.
    pub(crate) async fn load_catalogue(self: &Arc<Self>) -> Result<(), EngineError> {
        for stored in self.store.conversations().await? {
            if let Ok(id) = Uuid::try_parse(&stored.id) {
                self.sessions().conversations.insert(id, stored.session.map(Arc::from));
            }
        }
        for stored in self.store.sessions().await? {
            let session: Arc<str> = stored.uri.into();
            let summary: SessionSummary = match serde_json::from_str(&stored.summary) {
                Ok(summary) => summary,
                Err(error) => {
                    let error = json_fault(&error);
                    tracing::warn!(session = &*session, error, "a stored session's line could not be read");
                    continue;
                }
            };
            self.shelf.places.put(&session, summary.working_directories.as_deref().unwrap_or_default());
            let interrupted = summary.status & SessionStatus::InProgress.bits() != 0;
            if stored.listed {
                self.catalogue.put_line(&session, &summary.modified_at, stored.summary.into());
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

    /// The file URIs of the directories that a session works in: the one it is at home in, then others that it may use.
    pub(crate) fn directories(&self, wanted: &[String]) -> Result<Vec<String>, EngineError> {
        if wanted.len() > MAX_DIRECTORIES {
            return Err(EngineError::Invalid(format!("a session can have {MAX_DIRECTORIES} working directories")));
        }
        let mut directories: Vec<String> = Vec::new();
        for uri in wanted {
            let uri = self.directory(uri)?;
            if !directories.contains(&uri) {
                directories.push(uri);
            }
        }
        if directories.is_empty() {
            directories.push(uri_of(&self.default_directory)?);
            self.shelf.session_roots.check(&self.default_directory)?;
        }
        Ok(directories)
    }

    /// The URI of a directory that a session may work in, in the form that is kept.
    pub(crate) fn directory(&self, uri: &str) -> Result<String, EngineError> {
        let path = Url::parse(uri).ok().filter(|url| url.scheme() == "file").and_then(|url| url.to_file_path().ok());
        let path = path.ok_or_else(|| EngineError::Invalid(format!("{uri:?} is not a file URI")))?;
        let uri = uri_of(&path)?;
        self.shelf.session_roots.check(&path)?;
        Ok(uri)
    }
}

fn uri_of(path: &Path) -> Result<String, EngineError> {
    if !path.is_dir() {
        return Err(EngineError::Invalid(format!("there is no directory {}", path.display())));
    }
    Url::from_file_path(path)
        .map(String::from)
        .map_err(|()| EngineError::Invalid(format!("{} is not an absolute path", path.display())))
}

impl Sessions {
    pub(crate) fn knows(&self, session: &str) -> bool {
        self.live.contains_key(session)
            || self.dormant.contains_key(session)
            || self.found.contains_key(session)
            || self.leaving.contains(session)
    }

    /// Whether it is more than something that an agent keeps.
    pub(crate) fn is_stored(&self, session: &str) -> bool {
        self.knows(session) && !self.found.contains_key(session)
    }

    /// The actor of a session, started if the session is only known to the store, or to its agent.
    pub(crate) fn wake(&mut self, host: &Arc<Host>, session: &str) -> Option<SessionHandle> {
        if let Some(handle) = self.live.get(session) {
            return Some(handle.clone());
        }
        if host.stop.is_cancelled() {
            return None;
        }
        let (session_uri, origin) = match self.dormant.remove_entry(session) {
            Some((uri, listed)) => (Arc::clone(&uri), Origin::Stored { uri, listed }),
            None => {
                let (uri, found) = self.found.remove_entry(session)?;
                (Arc::clone(&uri), Origin::Found { uri, found: Box::new(found) })
            }
        };
        let handle = SessionHandle::spawn(host, origin);
        self.live.insert(session_uri, handle.clone());
        Some(handle)
    }

    /// A session without an actor is where it was before.
    pub(crate) fn put_back(&mut self, origin: Origin) {
        match origin {
            Origin::Provisional(_) => {}
            Origin::Stored { uri, listed } => drop(self.dormant.insert(uri, listed)),
            Origin::Found { uri, found } => drop(self.found.insert(uri, *found)),
        }
    }
}
