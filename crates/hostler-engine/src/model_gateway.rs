//! The port that the engine needs towards the gateway; the binary joins the two.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use hostler_driver::GatewayEndpoint;
use secrecy::SecretString;

use crate::budget::{SessionBudget, SessionBudgetLimits};

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
    pub max_output_tokens: Option<u64>,
    /// Whether it takes pictures, if known.
    pub supports_vision: Option<bool>,
}

/// Something that clients can sign in to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInResource {
    /// Its identifier, a URL.
    pub resource: String,
    /// What people call it.
    pub name: String,
    /// Who issues tokens for it.
    pub authorization_server: String,
    /// What a token has to be good for.
    pub scopes: Vec<String>,
    /// Whether somebody has to, and why; nothing while the host has what it needs.
    pub sign_in_need: Option<SignInNeed>,
    /// Whether no model at all can be used without it.
    pub is_required: bool,
}

/// Why somebody has to sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignInNeed {
    /// Nobody has.
    NotSignedIn,
    /// What there was is not good any more.
    Expired,
}

/// When a sign-in or a sign-out was asked for; the gateway's number for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UpstreamSignInSequence(pub u64);

/// Why a sign-in was not taken, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamSignInError {
    /// Nothing here needs it.
    #[error("{0}")]
    UnknownResource(String),
    /// That is no token.
    #[error("{0}")]
    InvalidToken(String),
    /// The token is not good.
    #[error("{0}")]
    TokenRejected(String),
}

/// What the engine needs of the gateway.
pub trait ModelGateway: Send + Sync + 'static {
    /// The models on offer, never empty, the default first.
    fn models(&self) -> Vec<ModelInfo>;
    /// Mints the way to the gateway for one agent process that is to work with a model, by the id that clients use.
    fn lease(&self, session: &str, chat: &str, model: &str) -> ModelLease;

    /// Whether a process that works with a lease may change to another model, and that model's id as the agent must
    /// know it.
    fn switch_model(&self, _lease: &ModelLease, _model: &str) -> Option<String> {
        None
    }

    /// What clients can sign in to so that upstreams can be used, needed or not.
    fn protected_resources(&self) -> Vec<SignInResource> {
        Vec::new()
    }
    /// What somebody has to sign in to before a model can be used, by the id that clients use.
    fn required_sign_in(&self, _model: &str) -> Option<SignInResource> {
        None
    }
    /// Somebody asks to be signed in or out now: however long each takes, what was asked for last is what counts.
    fn next_sign_in_sequence(&self) -> UpstreamSignInSequence {
        UpstreamSignInSequence::default()
    }
    /// Takes a client's token for a resource, after trying it.
    fn sign_in<'a>(
        &'a self,
        _turn: UpstreamSignInSequence,
        resource: &'a str,
        _token: SecretString,
        _lasts: Option<Duration>,
    ) -> BoxFuture<'a, Result<(), UpstreamSignInError>> {
        async move { Err(UpstreamSignInError::UnknownResource(format!("nothing here takes a sign-in to {resource:?}"))) }.boxed()
    }
    /// Forgets the token that clients have brought for a resource.
    fn sign_out(&self, _turn: UpstreamSignInSequence, resource: &str) -> Result<(), UpstreamSignInError> {
        Err(UpstreamSignInError::UnknownResource(format!("nothing here takes a sign-in to {resource:?}")))
    }

    /// Whether a text is meant for a model that takes scripts, although it looks like a command for the host's shell.
    fn is_model_script(&self, _text: &str) -> bool {
        false
    }

    /// What a session has used, may use and waits for; nothing, here and below, if the gateway does not count.
    fn to_session_budget(&self, _session: &str) -> Option<SessionBudget> {
        None
    }
    /// Says whenever that may have changed; changes that come faster than they are taken are one.
    fn budget_changes(&self, _session: &str) -> BoxStream<'static, ()> {
        stream::pending().boxed()
    }
    /// Gives a session limits of its own. Requests that wait go on if they may now.
    fn set_session_limits(&self, _session: &str, _limits: SessionBudgetLimits) {}
    /// The session is no more: what it has used can be forgotten.
    fn forget_session(&self, _session: &str) {}
}

/// The right of one agent process to use the gateway. Ends when it is dropped.
pub struct ModelLease {
    /// Where and with which bearer.
    pub endpoint: GatewayEndpoint,
    /// The model's id as the agent must know it.
    pub model: String,
    /// Whether the model's provider serves web searches.
    pub web_search: bool,
    /// What else must be the same for another model to be used with it; the gateway's own affair.
    pub terms: String,
    _guard: Box<dyn Any + Send + Sync>,
}

impl ModelLease {
    /// A lease that lasts as long as `guard`.
    pub fn new(endpoint: GatewayEndpoint, model: String, web_search: bool, guard: impl Any + Send + Sync) -> Self {
        Self { endpoint, model, web_search, terms: String::new(), _guard: Box::new(guard) }
    }

    /// The same, on these terms.
    #[must_use]
    pub fn with_terms(mut self, terms: String) -> Self {
        self.terms = terms;
        self
    }
}

impl fmt::Debug for ModelLease {
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
