//! Agents: the drivers, the pool of processes, the gateway that the processes use, sign-ins and installations.
//! [`AgentService`] owns them for the whole host; it knows no session's state.

pub(crate) mod install_progress;
pub(crate) mod model_gateway;
pub(crate) mod pool;
pub(crate) mod sign_in;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hostler_driver::{Driver, TranscriptStore};

use self::model_gateway::{AgentStatus, ModelGateway};
use self::pool::{AgentPool, AgentPoolConfig};
use self::sign_in::AnnouncedSignIns;

/// The offered agents and what runs them.
pub(crate) struct AgentService {
    drivers: HashMap<String, Arc<dyn Driver>>,
    gateway: Arc<dyn ModelGateway>,
    pool: Arc<AgentPool>,
    announced_sign_ins: AnnouncedSignIns,
    /// The running agents, by session.
    running: Mutex<HashMap<Arc<str>, AgentStatus>>,
}

impl AgentService {
    pub(crate) fn new(drivers: &[Arc<dyn Driver>], gateway: Arc<dyn ModelGateway>, pool: AgentPoolConfig) -> Self {
        Self {
            drivers: drivers.iter().map(|driver| (driver.describe().id, Arc::clone(driver))).collect(),
            gateway,
            pool: AgentPool::new(pool),
            announced_sign_ins: AnnouncedSignIns::default(),
            running: Mutex::default(),
        }
    }

    /// The driver of a provider.
    pub(crate) fn driver(&self, provider: &str) -> Option<&Arc<dyn Driver>> {
        self.drivers.get(provider)
    }

    pub(crate) fn has_provider(&self, provider: &str) -> bool {
        self.drivers.contains_key(provider)
    }

    /// The transcripts of a provider's agent.
    pub(crate) fn transcript_store(&self, provider: &str) -> Option<Arc<dyn TranscriptStore>> {
        self.drivers.get(provider)?.transcript_store()
    }

    /// The transcripts of all agents, by provider.
    pub(crate) fn transcript_stores(&self) -> impl Iterator<Item = (&str, Arc<dyn TranscriptStore>)> {
        self.drivers.iter().filter_map(|(provider, driver)| Some((provider.as_str(), driver.transcript_store()?)))
    }

    pub(crate) fn gateway(&self) -> &dyn ModelGateway {
        &*self.gateway
    }

    pub(crate) fn pool(&self) -> &Arc<AgentPool> {
        &self.pool
    }

    /// The running agents.
    pub(crate) fn running(&self) -> Vec<AgentStatus> {
        self.lock_running().values().cloned().collect()
    }

    pub(crate) fn register_running(&self, session: &Arc<str>, status: AgentStatus) {
        self.lock_running().insert(Arc::clone(session), status);
    }

    pub(crate) fn unregister_running(&self, session: &str) {
        self.lock_running().remove(session);
    }

    fn lock_running(&self) -> MutexGuard<'_, HashMap<Arc<str>, AgentStatus>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
