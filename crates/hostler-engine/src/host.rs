//! `Host`: the state that all actors share, and the registry of sessions.
//!
//! The rules file is polled every second. When it changes, every session evaluates its pending calls again. The
//! registry knows for each session whether it has an actor, is only stored, or is external.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ahp_types::common::JsonObject;
use ahp_types::state::{SessionStatus, SessionSummary};
use hostler_driver::{Clock, Driver, TranscriptStore};
use hostler_redact::redact_json_error;
use hostler_store::{ActionEntry, Batch, BatchDurability, PublishedRejection, Store};
use tokio::sync::{OnceCell, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;
use uuid::Uuid;

use crate::agents::model_gateway::{AgentStatus, ModelGateway};
use crate::agents::pool::AgentPool;
use crate::agents::sign_in::AnnouncedSignIns;
use crate::attachments::AttachmentService;
use crate::catalog::SessionCatalog;
use crate::catalog::search::SearchIndexer;
use crate::clients::broadcaster::{Broadcaster, ChannelSnapshot, Delivery, Subscriber};
use crate::clients::completion::FileListCache;
use crate::clients::root_channel::RootChannel;
use crate::error::InvalidParams;
use crate::external_sessions::{ExternalSession, ExternalSessionScanner, UnimportedTurns};
use crate::permissions::PermissionService;
use crate::resources::ResourceContext;
use crate::sessions::actor::{SessionHandle, SessionSource};
use crate::sessions::background_on_stop::BackgroundOnStop;
use crate::sessions::local_command::{self, LocalCommand};
use crate::sessions::paging::{ChatSnapshot, OlderTurns};
use crate::sessions::prompt_ids::PromptIds;
use crate::sessions::session::Dispatch;
use crate::sessions::state::ChannelState;
use crate::terminals::TerminalRegistry;
use crate::terminals::command_runner::CommandRunner;
use crate::{EngineError, attachments, terminals};

/// Interval at which the rules file is checked while no call asks for it.
const RULES_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of working directories of a session.
pub(crate) const MAX_SESSION_DIRECTORIES: usize = 16;

/// The values of the host's configuration that its parts read.
pub(crate) struct HostSettings {
    /// How long an agent may take to react to an interrupt.
    pub(crate) interrupt_grace: Duration,
    /// What happens to background work when a turn is stopped, unless the session configures it.
    pub(crate) background_on_stop: BackgroundOnStop,
    /// Maximum number of queued messages per chat.
    pub(crate) max_queued_messages: usize,
    /// Maximum number of completed turns of an open chat in memory.
    pub(crate) turns_in_memory: usize,
    /// How long a client may be disconnected before it is no longer active in its sessions.
    pub(crate) client_absence_timeout: Duration,
    pub(crate) default_provider: String,
    pub(crate) default_directory: PathBuf,
    /// Whether clients may run commands in the user's shell.
    pub(crate) allow_shell_commands: bool,
    /// Values that new sessions start with.
    pub(crate) session_defaults: JsonObject,
}

/// The state that all actors share.
pub(crate) struct Host {
    pub(crate) settings: HostSettings,
    pub(crate) store: Store,
    pub(crate) broadcaster: Arc<Broadcaster>,
    pub(crate) catalog: SessionCatalog,
    pub(crate) gateway: Arc<dyn ModelGateway>,
    pub(crate) drivers: HashMap<String, Arc<dyn Driver>>,
    pub(crate) permissions: PermissionService,
    /// Counts the sub-agent chats that have started, for subscribers that wait for one.
    pub(crate) sub_agent_chats_started: watch::Sender<u64>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) agent_pool: Arc<AgentPool>,
    pub(crate) attachments: AttachmentService,
    pub(crate) tasks: TaskTracker,
    /// The files that clients may access.
    pub(crate) resources: ResourceContext,
    pub(crate) root_channel: RootChannel,
    pub(crate) sign_in_state: AnnouncedSignIns,
    pub(crate) search_indexer: SearchIndexer,
    pub(crate) command_runner: Arc<dyn CommandRunner>,
    pub(crate) file_lists: FileListCache,
    pub(crate) terminals: TerminalRegistry,
    pub(crate) sessions: Mutex<SessionRegistry>,
    pub(crate) external_scanner: ExternalSessionScanner,
    /// Turns that are not imported yet.
    pub(crate) unimported_turns: UnimportedTurns,
    /// Distinguishes prompts of this host from those of other processes in the agents' transcripts.
    pub(crate) prompt_ids: PromptIds,
    pub(crate) running_agents: Mutex<HashMap<Arc<str>, AgentStatus>>,
    /// Cancelled when the host shuts down: nothing new starts.
    pub(crate) stop: CancellationToken,
    pub(crate) shutdown_once: OnceCell<()>,
}

/// Every known session: with an actor, only in the store, or external.
#[derive(Default)]
pub(crate) struct SessionRegistry {
    pub(crate) live: HashMap<Arc<str>, SessionHandle>,
    /// Stored sessions without an actor, and whether each of them is listed.
    pub(crate) unloaded: HashMap<Arc<str>, bool>,
    /// External sessions that are not imported yet.
    pub(crate) external: HashMap<Arc<str>, ExternalSession>,
    /// The session that each of the agents' conversations belongs to; `None` if it was deleted.
    pub(crate) conversation_owners: HashMap<Uuid, Option<Arc<str>>>,
    /// URIs that are being disposed.
    pub(crate) disposing: HashSet<Arc<str>>,
}

impl Host {
    pub(crate) fn sessions(&self) -> MutexGuard<'_, SessionRegistry> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The transcripts of a provider's agent.
    pub(crate) fn transcript_store(&self, provider: &str) -> Option<Arc<dyn TranscriptStore>> {
        self.drivers.get(provider)?.transcript_store()
    }

    /// The running agents, by session.
    pub(crate) fn running_agents(&self) -> MutexGuard<'_, HashMap<Arc<str>, AgentStatus>> {
        self.running_agents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The command that a message contains for the host itself, if it is not for the agent.
    pub(crate) fn local_command(&self, text: &str) -> Option<LocalCommand> {
        local_command::parse(text).filter(|local| match local {
            LocalCommand::Shell(_) => self.settings.allow_shell_commands && !self.gateway.is_model_script(text),
            LocalCommand::Rename(_) => true,
        })
    }

    /// Registers the subscriber and puts the snapshot into its queue, in sequence order: envelopes that follow it are
    /// newer.
    pub(crate) async fn deliver_snapshot(
        self: &Arc<Self>,
        resource: Arc<str>,
        state: ChannelState,
        subscriber: Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        let subscribed = self.subscribe_callback(resource, state, None, subscriber, token);
        let marker = Batch::new(None, BatchDurability::Memory).after_publish(subscribed);
        self.store.sequencer().submit(marker).await?;
        Ok(())
    }

    /// Does the same for a chat, with the turns that the subscriber asked for.
    pub(crate) async fn deliver_chat_snapshot(
        self: &Arc<Self>,
        resource: Arc<str>,
        shown: ChatSnapshot,
        subscriber: Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        let ChatSnapshot { state, first_turn: first, older_turns: older } = shown;
        let (chat, viewer) = (Arc::clone(&resource), subscriber.clone());
        let subscribed = self.subscribe_callback(resource, ChannelState::Chat(state), older, subscriber, token);
        let marker = Batch::new(None, BatchDurability::Memory).after_publish(move |from_seq| {
            viewer.set_turn_window(&chat, first);
            subscribed(from_seq);
        });
        self.store.sequencer().submit(marker).await?;
        Ok(())
    }

    fn subscribe_callback(
        self: &Arc<Self>,
        resource: Arc<str>,
        state: ChannelState,
        older: Option<OlderTurns>,
        subscriber: Subscriber,
        token: u64,
    ) -> impl FnOnce(u64) + Send + 'static {
        let host = Arc::clone(self);
        move |from_seq| {
            let snapshot = ChannelSnapshot { resource: Arc::clone(&resource), state, older_turns: older, from_seq };
            if subscriber.deliver(Delivery::Snapshot { token, snapshot }) {
                host.broadcaster.subscribe(&resource, &subscriber);
            }
        }
    }

    /// Numbers and publishes a rejection; it is never stored. The rejected client receives it even on a channel that it
    /// is not subscribed to.
    pub(crate) async fn reject(&self, mut dispatch: Dispatch, rejection: impl Into<PublishedRejection>) {
        attachments::strip_contents(&mut dispatch.action);
        terminals::strip_terminal_input(&mut dispatch.action);
        let (origin, from, broadcaster) = (dispatch.origin(), dispatch.subscriber, Arc::clone(&self.broadcaster));
        let entry = match ActionEntry::new(dispatch.channel.into(), dispatch.action) {
            Ok(entry) => entry.with_origin(Some(origin)).with_rejection(rejection.into()),
            Err(error) => {
                tracing::warn!(%error, "failed to encode a rejected action");
                return;
            }
        };
        let batch = Batch::new(None, BatchDurability::Memory).entry(entry).after_publish(move |seq| {
            if let Some(from) = from {
                broadcaster.deliver_latest(seq, &from);
            }
        });
        if let Err(error) = self.store.sequencer().submit(batch).await {
            tracing::debug!(%error, "failed to publish a rejection: the store has stopped");
        }
    }

    /// Polls the rules and trust files, because editors of these files do not notify the host. Ends with the host.
    pub(crate) fn poll_rules_and_trust(self: &Arc<Self>) {
        let (host, stop) = (Arc::downgrade(self), self.stop.clone());
        let watch = async move {
            let mut ticks = tokio::time::interval(RULES_POLL_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(host) = host.upgrade() else { return };
                let polled = tokio::task::spawn_blocking(move || {
                    host.permissions.notify_rule_changes();
                    host.permissions.notify_trust_changes();
                });
                if let Err(error) = polled.await {
                    tracing::error!(%error, "failed to poll the rules and trust files");
                }
            }
        };
        self.tasks.spawn(async move { stop.run_until_cancelled(watch).await });
    }

    pub(crate) fn register_agent(&self, session: &Arc<str>, status: AgentStatus) {
        self.running_agents().insert(Arc::clone(session), status);
    }

    pub(crate) fn unregister_agent(&self, session: &str) {
        self.running_agents().remove(session);
    }

    /// Lists the stored sessions, and loads those that had a running turn when the last host died.
    pub(crate) async fn load_catalog(self: &Arc<Self>) -> Result<(), EngineError> {
        for stored in self.store.conversations().await? {
            if let Ok(id) = Uuid::try_parse(&stored.id) {
                self.sessions().conversation_owners.insert(id, stored.session.map(Arc::from));
            }
        }
        for stored in self.store.sessions().await? {
            let session: Arc<str> = stored.uri.into();
            let summary: SessionSummary = match serde_json::from_str(&stored.summary) {
                Ok(summary) => summary,
                Err(error) => {
                    let error = redact_json_error(&error);
                    tracing::warn!(session = &*session, error, "failed to read a stored session summary");
                    continue;
                }
            };
            self.resources
                .session_directories
                .set(&session, summary.working_directories.as_deref().unwrap_or_default());
            let interrupted = summary.status & SessionStatus::InProgress.bits() != 0;
            if stored.listed {
                self.catalog.upsert_encoded(&session, &summary.modified_at, stored.summary.into());
            }
            let mut sessions = self.sessions();
            sessions.unloaded.insert(Arc::clone(&session), stored.listed);
            if interrupted {
                // Loading the session ends its interrupted turn.
                sessions.get_or_load(self, &session);
            }
        }
        Ok(())
    }

    /// The file URIs of a session's working directories: the primary one, then the additional ones.
    pub(crate) fn resolve_directories(&self, wanted: &[String]) -> Result<Vec<String>, EngineError> {
        if wanted.len() > MAX_SESSION_DIRECTORIES {
            return Err(InvalidParams::TooManyDirectories.into());
        }
        let mut directories: Vec<String> = Vec::new();
        for uri in wanted {
            let uri = self.resolve_directory(uri)?;
            if !directories.contains(&uri) {
                directories.push(uri);
            }
        }
        if directories.is_empty() {
            directories.push(directory_uri(&self.settings.default_directory)?);
            self.resources.session_roots.check(&self.settings.default_directory)?;
        }
        Ok(directories)
    }

    /// The normalized URI of a directory that a session may work in.
    pub(crate) fn resolve_directory(&self, uri: &str) -> Result<String, EngineError> {
        let path = Url::parse(uri).ok().filter(|url| url.scheme() == "file").and_then(|url| url.to_file_path().ok());
        let path = path.ok_or_else(|| InvalidParams::FileUri(uri.to_owned()))?;
        let uri = directory_uri(&path)?;
        self.resources.session_roots.check(&path)?;
        Ok(uri)
    }
}

fn directory_uri(path: &Path) -> Result<String, EngineError> {
    if !path.is_dir() {
        return Err(InvalidParams::DirectoryNotFound(path.to_owned()).into());
    }
    Url::from_file_path(path).map(String::from).map_err(|()| InvalidParams::RelativePath(path.to_owned()).into())
}

impl SessionRegistry {
    pub(crate) fn contains(&self, session: &str) -> bool {
        self.live.contains_key(session)
            || self.unloaded.contains_key(session)
            || self.external.contains_key(session)
            || self.disposing.contains(session)
    }

    /// Whether the session is known and not external.
    pub(crate) fn is_stored(&self, session: &str) -> bool {
        self.contains(session) && !self.external.contains_key(session)
    }

    /// The actor of a session, started if the session is only in the store or external.
    pub(crate) fn get_or_load(&mut self, host: &Arc<Host>, session: &str) -> Option<SessionHandle> {
        if let Some(handle) = self.live.get(session) {
            return Some(handle.clone());
        }
        if host.stop.is_cancelled() {
            return None;
        }
        let (session_uri, origin) = match self.unloaded.remove_entry(session) {
            Some((uri, listed)) => (Arc::clone(&uri), SessionSource::Stored { uri, listed }),
            None => {
                let (uri, found) = self.external.remove_entry(session)?;
                (Arc::clone(&uri), SessionSource::External { uri, external: Box::new(found) })
            }
        };
        let handle = SessionHandle::spawn(host, origin);
        self.live.insert(session_uri, handle.clone());
        Some(handle)
    }

    /// Puts a session without an actor back where it came from.
    pub(crate) fn restore_entry(&mut self, origin: SessionSource) {
        match origin {
            SessionSource::Provisional(_) => {}
            SessionSource::Stored { uri, listed } => drop(self.unloaded.insert(uri, listed)),
            SessionSource::External { uri, external: found } => drop(self.external.insert(uri, *found)),
        }
    }
}
