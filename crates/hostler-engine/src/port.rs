//! The port that the engine needs towards the gateway; the binary joins the two.

use std::any::Any;
use std::fmt;

use futures::stream::{self, BoxStream, StreamExt as _};
use hostler_driver::Endpoint;

use crate::budget::{SessionBudget, SessionLimits};

/// A model that some upstream serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The id that clients and agents use.
    pub id: String,
    /// The name that clients show.
    pub name: String,
    /// Its context window in tokens, if known.
    pub context_window: Option<u64>,
    /// How much it can write at most, if known.
    pub max_output: Option<u64>,
    /// Whether it takes pictures, if known.
    pub vision: Option<bool>,
}

/// What the engine needs of the gateway.
pub trait ModelGateway: Send + Sync + 'static {
    /// The models on offer, never empty, the default first.
    fn models(&self) -> Vec<ModelInfo>;
    /// Mints the way to the gateway for one agent process that is to work with a model, by the id that clients use.
    fn lease(&self, session: &str, chat: &str, model: &str) -> Lease;

    /// Whether a process that works with a lease may change to another model, and that model's id as the agent must
    /// know it.
    fn relet(&self, _lease: &Lease, _model: &str) -> Option<String> {
        None
    }

    /// Whether a text is meant for a model that takes scripts, although it looks like a command for the host's shell.
    fn is_script(&self, _text: &str) -> bool {
        false
    }

    /// What a session has used, may use and waits for; nothing, here and below, if the gateway does not count.
    fn budget(&self, _session: &str) -> Option<SessionBudget> {
        None
    }
    /// Says whenever that may have changed; changes that come faster than they are taken are one.
    fn budget_changes(&self, _session: &str) -> BoxStream<'static, ()> {
        stream::pending().boxed()
    }
    /// Gives a session limits of its own. Requests that wait go on if they may now.
    fn set_session_limits(&self, _session: &str, _limits: SessionLimits) {}
    /// The session is no more: what it has used can be forgotten.
    fn forget_session(&self, _session: &str) {}
}

/// The right of one agent process to use the gateway. Ends when it is dropped.
pub struct Lease {
    /// Where and with which bearer.
    pub endpoint: Endpoint,
    /// The model's id as the agent must know it.
    pub model: String,
    /// Whether the model's provider serves web searches.
    pub web_search: bool,
    /// What else must be the same for another model to be used with it; the gateway's own affair.
    pub terms: String,
    _guard: Box<dyn Any + Send + Sync>,
}

impl Lease {
    /// A lease that lasts as long as `guard`.
    pub fn new(endpoint: Endpoint, model: String, web_search: bool, guard: impl Any + Send + Sync) -> Self {
        Self { endpoint, model, web_search, terms: String::new(), _guard: Box::new(guard) }
    }

    /// The same, on these terms.
    #[must_use]
    pub fn on(mut self, terms: String) -> Self {
        self.terms = terms;
        self
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("base_url", &self.endpoint.base_url).finish_non_exhaustive()
    }
}

/// A live agent, for people who look at the host from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentStatus {
    /// The session's URI.
    pub session: String,
    /// The process id.
    pub pid: u32,
    /// The agent's version, if it told.
    pub version: Option<String>,
}
