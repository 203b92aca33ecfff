//! Upstreams: who really answers. Each is one implementation of [`Upstream`]; the gateway treats them all alike.

use std::fmt;

use ::http::{HeaderMap, HeaderValue, StatusCode};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::credential::{CredentialError, CredentialStatus};
use crate::error::{self, ApiErrorKind};
use crate::sign_in::ProtectedResource;

pub(crate) mod anthropic;
pub(crate) mod copilot;
pub(crate) mod http_client;
pub(crate) mod openai;
mod retry;
pub(crate) mod scripted;

/// Server-sent events as bytes, chunked in any way.
pub type EventByteStream = BoxStream<'static, Result<Bytes, UpstreamError>>;

/// Something that answers Messages requests.
///
/// Dropping the future or the event stream cancels the call; an implementation keeps nothing running behind it.
pub trait Upstream: Send + Sync {
    /// What kind of upstream this is, in the word that settings use.
    fn kind(&self) -> &'static str;

    /// How requests must look that it is sent.
    fn capabilities(&self) -> UpstreamCapabilities;

    /// Answers one request. The error is what the client is told if nothing has been streamed yet.
    fn messages(&self, call: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamError>>;

    /// Counts the tokens of a request that is not made. The answer is whole.
    fn count_tokens(&self, call: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamError>> {
        let _not_asked = call;
        let kind = self.kind();
        async move { Err(count_tokens_unsupported(kind)) }.boxed()
    }

    /// The models that it serves, under its own ids.
    fn models(&self) -> BoxFuture<'_, Result<Vec<UpstreamModel>, UpstreamError>>;

    /// Whether it runs the web searches that a request lets the model make.
    fn supports_web_search(&self) -> bool {
        false
    }

    /// Whether a user's text is a script that it plays.
    fn is_script(&self, _text: &str) -> bool {
        false
    }

    /// Whether it can be called, as far as its credential goes.
    fn credential_status(&self) -> CredentialStatus {
        CredentialStatus::Ready
    }

    /// What clients can sign in to in order to use it, if there is such a thing.
    fn protected_resource(&self) -> Option<ProtectedResource> {
        None
    }

    /// Whether a token would do as the credential. An error that is no refusal leaves the question open.
    fn verify_token(&self, token: SecretString) -> BoxFuture<'_, Result<(), UpstreamError>> {
        let _not_needed = token;
        async { Ok(()) }.boxed()
    }

    /// Takes the upstream's credential out of what it says about an error.
    fn redact(&self, text: Bytes) -> Bytes {
        text
    }
}

/// How requests must look that an upstream is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamCapabilities {
    /// Which betas it is told.
    pub betas: BetaPolicy,
    /// What becomes of a request for a model that it does not list.
    pub unknown_models: UnknownModelPolicy,
}

/// Which entries of `anthropic-beta` an upstream is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BetaPolicy {
    /// All of them.
    All,
    /// Those that the configuration allows.
    Allowed,
    /// None.
    None,
}

/// What becomes of a request for a model that the upstream does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownModelPolicy {
    /// It is refused; without a list no request is made.
    Reject,
    /// It is refused if the list is known, and made otherwise.
    RejectIfListKnown,
    /// It is made: the upstream takes any model.
    Forward,
}

/// A model as its upstream lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamModel {
    /// The upstream's own id.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// How many tokens it can read, if the upstream says so.
    pub context_window: Option<u64>,
    /// How many tokens it can write, if the upstream says so.
    pub max_output: Option<u64>,
    /// Whether it takes pictures, if the upstream says so.
    #[serde(default)]
    pub vision: Option<bool>,
}

/// A checked request. Of the client's headers only what stands here reaches an upstream.
#[derive(Clone)]
pub struct UpstreamRequest {
    /// The request body as it came.
    pub body: Bytes,
    /// The model that it names.
    pub model: String,
    /// Whether it asks for a stream.
    pub stream: bool,
    /// `anthropic-version`, if it was sent.
    pub version: Option<HeaderValue>,
    /// The entries of `anthropic-beta`.
    pub betas: Vec<String>,
    /// Whether the request had `?beta=true`.
    pub beta_endpoint: bool,
}

/// The body is a prompt: shown by its length only.
impl fmt::Debug for UpstreamRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamCall")
            .field("body", &format_args!("{} bytes", self.body.len()))
            .field("model", &self.model)
            .field("stream", &self.stream)
            .field("betas", &self.betas)
            .finish_non_exhaustive()
    }
}

/// A successful answer.
pub struct UpstreamResponse {
    /// Headers for the client, already chosen by the upstream.
    pub headers: HeaderMap,
    /// The answer itself.
    pub body: UpstreamResponseBody,
}

/// The two forms of an answer.
pub enum UpstreamResponseBody {
    /// A message as JSON.
    Whole(Bytes),
    /// A message as a stream of events.
    Events(EventByteStream),
}

/// Why an upstream gave no answer, or no whole one.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// It answered with an error status.
    #[error("{0}")]
    ErrorResponse(Box<UpstreamErrorResponse>),
    /// No connection came about.
    #[error("no connection to the upstream: {reason}; check its URL and the network")]
    Unreachable {
        /// What went wrong, without credentials.
        reason: String,
    },
    /// It took too long.
    #[error("the upstream did not answer in time")]
    TimedOut,
    /// The connection ended before the answer did.
    #[error("the answer broke off: {reason}")]
    Interrupted {
        /// What went wrong, without credentials.
        reason: String,
    },
    /// The answer is none of the Messages API.
    #[error("the answer is not one of the Messages API: {reason}; check the upstream's URL")]
    InvalidResponse {
        /// What is wrong with it.
        reason: String,
    },
    /// There is no credential to call it with.
    #[error("{reason}")]
    MissingCredential {
        /// What to do about it.
        reason: String,
    },
    /// Our own fault.
    #[error("the gateway could not make the call: {reason}")]
    Internal {
        /// What is wrong; goes to the log only.
        reason: String,
    },
}

/// An error status with its body.
pub struct UpstreamErrorResponse {
    /// The status.
    pub status: StatusCode,
    /// Headers for the client, already chosen by the upstream.
    pub headers: HeaderMap,
    /// The body, passed on if it is an error envelope.
    pub body: Bytes,
}

impl From<CredentialError> for UpstreamError {
    fn from(error: CredentialError) -> Self {
        Self::MissingCredential { reason: error.to_string() }
    }
}

impl From<UpstreamErrorResponse> for UpstreamError {
    fn from(refusal: UpstreamErrorResponse) -> Self {
        Self::ErrorResponse(Box::new(refusal))
    }
}

impl fmt::Display for UpstreamErrorResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the request was refused with status {}", self.status)
    }
}

/// The body may quote a prompt: shown by its length only.
impl fmt::Debug for UpstreamErrorResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("status", &self.status)
            .field("body", &format_args!("{} bytes", self.body.len()))
            .finish_non_exhaustive()
    }
}

/// What an upstream says that has no way to count tokens.
fn count_tokens_unsupported(kind: &str) -> UpstreamError {
    let message = format!("The {kind} upstream cannot count tokens.");
    let body = error::error_body(ApiErrorKind::Api, &message);
    UpstreamErrorResponse { status: StatusCode::NOT_IMPLEMENTED, headers: HeaderMap::new(), body }.into()
}

/// Takes a secret out of a text.
pub(crate) fn redact(text: Bytes, secret: &SecretString) -> Bytes {
    let secret = secret.expose_secret();
    match std::str::from_utf8(&text) {
        Ok(quoting) if !secret.is_empty() && quoting.contains(secret) => quoting.replace(secret, "[redacted]").into(),
        _ => text,
    }
}
