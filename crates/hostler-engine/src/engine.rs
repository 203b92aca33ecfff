//! The way in for surfaces.

mod config;
mod contents;
mod hearing;
mod sessions;
mod trust;
mod wishes;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ahp_types::state::RootState;
use hostler_rules::RuleBook;
use hostler_store::{AuditRow, Publisher, Store};
use hostler_trust::TrustStore;
use tokio::sync::{OnceCell, Semaphore, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use config::{ABSENCE, EngineConfig, MAX_QUEUE, TURNS_IN_MEMORY};
pub use contents::Content;
pub use sessions::CreateSession;
pub use trust::TrustedFolders;

use crate::actor::Input;
use crate::attach::PictureBudget;
use crate::catalogue::Catalogue;
use crate::clock::ClockExt as _;
use crate::complete::Walks;
use crate::fleet::{Fleet, FleetStatus};
use crate::found::{Finder, Namer, Untold};
use crate::host::Host;
use crate::hub::Hub;
use crate::local::COMMAND_PREFIX;
use crate::port::AgentStatus;
use crate::prompt_ids::PromptIds;
use crate::resources::Shelf;
use crate::root::Root;
use crate::search::{Found, Search, SearchWish};
use crate::sign_in::Told;
use crate::terminals::Terminals;
use crate::{EngineError, clients};

/// How many messages' attachments are planned at a time.
const PLANNING: usize = 2;

/// How long a shutdown may take before it stops being polite.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(4);

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
        let trust = Arc::new(TrustStore::open(&config.store.dir, &config.trust));
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
            trust_version: watch::Sender::new(trust.version()),
            trust,
            workers_begun: watch::Sender::new(0),
            absence: config.absence,
            clock: config.clock,
            fleet: Fleet::new(config.fleet),
            pictures: PictureBudget::new(config.attachments.pixels),
            attachments: config.attachments,
            planning: Semaphore::new(PLANNING),
            tasks: TaskTracker::new(),
            shelf: Shelf::new(&config.store.dir, &config.default_directory, config.grants, config.session_roots),
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

    /// The gateway's models may have changed: clients are told if they have.
    pub async fn models_changed(&self) {
        self.host.models_changed().await;
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
        let ended = async {
            tokio::join!(futures::future::join_all(all), host.tasks.wait());
            host.namer.finish().await;
        };
        if host.clock.timeout(SHUTDOWN_DEADLINE, ended).await.is_none() {
            tracing::warn!("some sessions did not end in time; their agents are ended by their supervisors");
        }
        host.store.sequencer().stop().await;
    }
}
