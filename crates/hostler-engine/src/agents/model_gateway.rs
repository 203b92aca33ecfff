//! Port for the gateway; the binary implements it.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use hostler_driver::GatewayEndpoint;
use secrecy::SecretString;

use crate::sessions::budget::{SessionBudget, SessionBudgetLimits};

/// A model of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The id that clients and agents use.
    pub id: String,
    /// The name that clients display.
    pub name: String,
    /// Its context window in tokens, if known.
    pub context_window: Option<u64>,
    /// Maximum number of output tokens, if known.
    pub max_output_tokens: Option<u64>,
    /// Whether it accepts images, if known.
    pub supports_vision: Option<bool>,
}

/// A resource that clients can sign in to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInResource {
    /// Its identifier, a URL.
    pub resource: String,
    /// Its display name.
    pub name: String,
    /// The issuer of its tokens.
    pub authorization_server: String,
    /// The scopes that a token needs.
    pub scopes: Vec<String>,
    /// Why a sign-in is needed; `None` if none is.
    pub sign_in_need: Option<SignInNeed>,
    /// Whether no model can be used without it.
    pub is_required: bool,
}

/// Why a sign-in is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignInNeed {
    /// There is no sign-in.
    NotSignedIn,
    /// The sign-in has expired.
    Expired,
}

/// The gateway's sequence number of a request to sign in or out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UpstreamSignInSequence(pub u64);

/// Why a sign-in was rejected, as a message for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamSignInError {
    /// No upstream needs this resource.
    #[error("{0}")]
    UnknownResource(String),
    /// The token is malformed.
    #[error("{0}")]
    InvalidToken(String),
    /// The resource rejected the token.
    #[error("{0}")]
    TokenRejected(String),
}

impl UpstreamSignInError {
    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownResource(_) => "unknownResource",
            Self::InvalidToken(_) => "invalidToken",
            Self::TokenRejected(_) => "tokenRejected",
        }
    }
}

/// The gateway, as the engine needs it.
pub trait ModelGateway: Send + Sync + 'static {
    /// The offered models, never empty, the default first.
    fn models(&self) -> Vec<ModelInfo>;
    /// Creates a lease for one agent process and a model, by the id that clients use.
    fn lease(&self, session: &str, chat: &str, model: &str) -> ModelLease;

    /// Whether a process with a lease may switch to another model, and that model's id for the agent.
    fn switch_model(&self, _lease: &ModelLease, _model: &str) -> Option<String> {
        None
    }

    /// The resources that clients can sign in to, needed or not.
    fn protected_resources(&self) -> Vec<SignInResource> {
        Vec::new()
    }
    /// The resource that needs a sign-in before a model can be used, by the id that clients use.
    fn required_sign_in(&self, _model: &str) -> Option<SignInResource> {
        None
    }
    /// Assigns the sequence number of a request to sign in or out: the latest request wins, however long each takes.
    fn next_sign_in_sequence(&self) -> UpstreamSignInSequence {
        UpstreamSignInSequence::default()
    }
    /// Accepts a client's token for a resource, after testing it.
    fn sign_in<'a>(
        &'a self,
        _turn: UpstreamSignInSequence,
        resource: &'a str,
        _token: SecretString,
        _lasts: Option<Duration>,
    ) -> BoxFuture<'a, Result<(), UpstreamSignInError>> {
        async move {
            Err(UpstreamSignInError::UnknownResource(format!(
                "this host has no upstream that needs a sign-in to {resource:?}"
            )))
        }
        .boxed()
    }
    /// Deletes the clients' token for a resource.
    fn sign_out(&self, _turn: UpstreamSignInSequence, resource: &str) -> Result<(), UpstreamSignInError> {
        Err(UpstreamSignInError::UnknownResource(format!(
            "this host has no upstream that needs a sign-in to {resource:?}"
        )))
    }

    /// Whether a text is a script for the scripted model, although it looks like a command for the host's shell.
    fn is_model_script(&self, _text: &str) -> bool {
        false
    }

    /// A session's usage, limits and wait; `None`, here and below, if the gateway does not count.
    fn to_session_budget(&self, _session: &str) -> Option<SessionBudget> {
        None
    }
    /// Notifies of possible changes of the budget; changes that are faster than their reader are merged.
    fn budget_changes(&self, _session: &str) -> BoxStream<'static, ()> {
        stream::pending().boxed()
    }
    /// Sets a session's own limits. Waiting requests continue if they are allowed now.
    fn set_session_limits(&self, _session: &str, _limits: SessionBudgetLimits) {}
    /// Deletes the usage of a disposed session.
    fn forget_session(&self, _session: &str) {}
}

/// The right of one agent process to use the gateway. Ends when it is dropped.
pub struct ModelLease {
    /// The gateway's address and the bearer.
    pub endpoint: GatewayEndpoint,
    /// The model's id for the agent.
    pub model: String,
    /// Whether the model's provider serves web searches.
    pub web_search: bool,
    /// The conditions that another model must share to be used with this lease; opaque to the engine.
    pub terms: String,
    _guard: Box<dyn Any + Send + Sync>,
}

impl ModelLease {
    /// A lease that lasts as long as `guard`.
    pub fn new(endpoint: GatewayEndpoint, model: String, web_search: bool, guard: impl Any + Send + Sync) -> Self {
        Self { endpoint, model, web_search, terms: String::new(), _guard: Box::new(guard) }
    }

    /// The same lease with these terms.
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

/// A running agent, for tools that inspect the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentStatus {
    /// The session's URI.
    pub session: String,
    /// The process id.
    pub pid: u32,
    /// The agent's version, if it reported one.
    pub version: Option<String>,
}
