//! `Engine`: the API that surfaces call.
//!
//! Owns the start and the shutdown of the host. The calls themselves are in the submodules; they go to the session
//! actors, the broadcaster and the store.

mod config;
mod content;
mod dispatch;
mod sessions;
mod subscriptions;
mod trust;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ahp_types::state::RootState;
use hostler_rules::RuleStore;
use hostler_store::{AuditRow, Publisher, Store};
use hostler_trust::TrustStore;
use tokio::sync::oneshot;

pub use config::{DEFAULT_CLIENT_ABSENCE_TIMEOUT, DEFAULT_MAX_QUEUED_MESSAGES, DEFAULT_TURNS_IN_MEMORY, EngineConfig};
pub use content::StoredContent;
pub use sessions::CreateSession;
pub use trust::TrustedFolders;

use crate::EngineError;
use crate::agents::AgentService;
use crate::agents::model_gateway::AgentStatus;
use crate::agents::pool::AgentPoolStatus;
use crate::attachments::AttachmentService;
use crate::catalog::CatalogService;
use crate::catalog::search::{SearchRequest, SearchResults};
use crate::clients::broadcaster::Broadcaster;
use crate::clients::publication::PublicationService;
use crate::clients::registry;
use crate::clients::root_channel::RootChannel;
use crate::clock::ClockExt as _;
use crate::external_sessions::ExternalSessionService;
use crate::host::{Host, HostSettings};
use crate::host_tasks::HostTasks;
use crate::permissions::PermissionService;
use crate::resources::ResourceService;
use crate::sessions::actor::SessionInput;
use crate::sessions::local_command::COMMAND_PREFIX;
use crate::sessions::prompt_ids::PromptIds;
use crate::terminals::TerminalService;

/// Maximum duration of an orderly shutdown; after it, supervisors end the remaining agents.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(4);

/// The engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) host: Arc<Host>,
}

impl Engine {
    /// Opens the store, lists its sessions, and ends the turns that were running when the last host died.
    ///
    /// # Errors
    /// If the store cannot be opened, or no driver is given.
    pub async fn start(config: EngineConfig) -> Result<Self, EngineError> {
        let rules = Arc::new(RuleStore::open(&config.store.dir)?);
        let trust = Arc::new(TrustStore::open(&config.store.dir, &config.trust));
        let prompt_ids =
            PromptIds::open(&config.store.dir).map_err(|error| EngineError::PromptIdKey(error.to_string()))?;
        let broadcaster = Arc::new(Broadcaster::new(config.clock.monotonic()));
        let publisher: Arc<dyn Publisher> = Arc::<Broadcaster>::clone(&broadcaster);
        let store = Store::open(&config.store, publisher)?;
        broadcaster.set_replay_floor(store.sequence_at_start().base_seq);
        let Some(first) = config.drivers.first() else {
            return Err(EngineError::NoDriver);
        };
        let transcript_stores =
            config.drivers.iter().filter_map(|driver| Some((driver.describe().id, driver.transcript_store()?)));
        let external = ExternalSessionService::new(transcript_stores, config.external_session_filter, prompt_ids);
        let settings = HostSettings {
            interrupt_grace: config.interrupt_grace,
            background_on_stop: config.background_on_stop,
            max_queued_messages: config.max_queued_messages,
            turns_in_memory: config.turns_in_memory,
            client_absence_timeout: config.client_absence_timeout,
            default_provider: first.describe().id,
            default_directory: config.default_directory,
            allow_shell_commands: config.allow_shell_commands,
            session_defaults: config.session_defaults,
        };
        let root_channel = RootChannel::new(&config.drivers, &*config.gateway, config.terminals.is_some());
        let host = Arc::new(Host {
            terminals: TerminalService::new(config.terminals, config.command_runner),
            publication: PublicationService::new(store.sequencer().clone(), broadcaster, root_channel),
            store,
            catalog: CatalogService::new(&config.store.dir, config.enable_search),
            agents: AgentService::new(&config.drivers, config.gateway, config.agent_pool),
            permissions: PermissionService::new(config.permissions, rules, trust),
            clock: config.clock,
            attachments: AttachmentService::new(config.attachment_limits),
            tasks: HostTasks::default(),
            resources: ResourceService::new(
                &config.store.dir,
                &settings.default_directory,
                config.grant_policy,
                config.session_roots,
            ),
            settings,
            external,
        });
        let since = host.clock.now_ms() - config.store.retention.max_client_age_ms;
        host.publication.clients().restore(host.store.clients(since, registry::MAX_CLIENTS).await?);
        host.load_root().await?;
        host.clear_earlier_terminals().await;
        host.load_catalog().await?;
        host.watch_external_sessions();
        host.resume_pending_cleanup();
        host.poll_rules_and_trust();
        host.run_search_indexer();
        Ok(Self { host })
    }

    /// The root channel's state.
    pub async fn root_state(&self) -> Arc<RootState> {
        Arc::clone(&*self.host.publication.lock_root().await)
    }

    /// The working directory of sessions that name none.
    pub fn default_directory(&self) -> &Path {
        &self.host.settings.default_directory
    }

    /// The prefix of messages that are commands for the user's shell, if clients may run commands.
    pub fn command_prefix(&self) -> Option<&'static str> {
        self.host.settings.allow_shell_commands.then_some(COMMAND_PREFIX)
    }

    /// The last sequence number that was assigned.
    pub fn current_seq(&self) -> u64 {
        self.host.publication.current_seq()
    }

    /// Reads the gateway's models again and publishes them if they have changed.
    pub async fn refresh_models(&self) {
        self.host.refresh_models().await;
    }

    /// A page of a session's audit log: the decisions about its tool calls after an entry (0: from the beginning).
    /// Serialized, each entry is one line of the export.
    ///
    /// # Errors
    /// If there is no such session, or the store cannot be read.
    pub async fn audit(&self, session: &str, after: i64, limit: usize) -> Result<Vec<AuditRow>, EngineError> {
        let page = self.host.store.audit(session, after, limit).await?;
        if page.is_empty() && !self.host.catalog.sessions().contains(session) {
            return Err(EngineError::SessionNotFound(session.to_owned()));
        }
        Ok(page)
    }

    /// Searches all sessions.
    ///
    /// # Errors
    /// If the index cannot be used.
    pub async fn search(&self, request: SearchRequest) -> Result<SearchResults, EngineError> {
        self.host.search_sessions(request).await
    }

    /// The running agents.
    pub fn agents(&self) -> Vec<AgentStatus> {
        self.host.agents.running()
    }

    /// Number of agents, and number of turns that wait for an agent slot.
    pub fn agent_pool_status(&self) -> AgentPoolStatus {
        self.host.agents.pool().status()
    }

    /// Cancels running turns, ends all agents and stores everything. Idempotent.
    pub async fn shutdown(&self) {
        self.host.tasks.shut_down_once(|| self.stop()).await;
    }

    async fn stop(&self) {
        let host = &self.host;
        host.tasks.stop();
        let handles = host.catalog.sessions().take_live();
        let all = handles.into_iter().map(|handle| async move {
            let (reply, done) = oneshot::channel();
            if handle.send(SessionInput::Shutdown(reply)).await.is_ok() {
                let _ = done.await;
            }
        });
        // Sessions that are being disposed are no longer in the registry; their tasks are awaited here.
        let ended = async { tokio::join!(futures::future::join_all(all), host.tasks.wait()) };
        if host.clock.timeout(SHUTDOWN_DEADLINE, ended).await.is_none() {
            tracing::warn!("some sessions did not end in time; supervisors end their agents");
        }
        host.publication.stop().await;
    }
}
