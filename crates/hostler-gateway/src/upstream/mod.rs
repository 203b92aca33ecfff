//! The contract of an upstream, a model API that answers requests. The gateway treats all upstreams alike.

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
pub mod http_client;
mod retry;

/// Server-sent events as bytes, chunked in any way.
pub type EventByteStream = BoxStream<'static, Result<Bytes, UpstreamError>>;

/// A model API that answers Messages requests.
///
/// Dropping the future or the event stream cancels the call; an implementation leaves nothing running.
pub trait Upstream: Send + Sync {
    /// The kind of upstream, by its name in the settings.
    fn kind(&self) -> &'static str;

    /// How requests for this upstream are adapted.
    fn capabilities(&self) -> UpstreamCapabilities;

    /// Answers one request. The client receives the error if nothing has been streamed yet.
    fn messages(&self, call: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamError>>;

    /// Counts the tokens of a request without sending it to a model. The response is not streamed.
    fn count_tokens(&self, call: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamError>> {
        let _unused = call;
        let kind = self.kind();
        async move { Err(count_tokens_unsupported(kind)) }.boxed()
    }

    /// Lists its models, by its own ids.
    fn models(&self) -> BoxFuture<'_, Result<Vec<UpstreamModel>, UpstreamError>>;

    /// Whether it runs web searches for the model.
    fn supports_web_search(&self) -> bool {
        false
    }

    /// Whether a user's text is a script that it plays.
    fn is_script(&self, _text: &str) -> bool {
        false
    }

    /// Whether it has a usable credential.
    fn credential_status(&self) -> CredentialStatus {
        CredentialStatus::Ready
    }

    /// What clients can sign in to in order to use it, if anything.
    fn protected_resource(&self) -> Option<ProtectedResource> {
        None
    }

    /// Verifies a token as the credential. An error other than a rejection leaves its validity open.
    fn verify_token(&self, token: SecretString) -> BoxFuture<'_, Result<(), UpstreamError>> {
        let _not_needed = token;
        async { Ok(()) }.boxed()
    }

    /// Removes the upstream's credential from an error text.
    fn redact(&self, text: Bytes) -> Bytes {
        text
    }
}

/// How requests for an upstream are adapted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamCapabilities {
    /// Which betas are sent.
    pub betas: BetaPolicy,
    /// What happens to a request for a model that it does not list.
    pub unknown_models: UnknownModelPolicy,
}

/// Which entries of `anthropic-beta` are sent to an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BetaPolicy {
    /// All entries.
    All,
    /// Those that the configuration allows.
    Allowed,
    /// No entries.
    None,
}

/// What happens to a request for a model that the upstream does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownModelPolicy {
    /// It is rejected, also if the list is unknown.
    Reject,
    /// It is rejected if the list is known, and forwarded otherwise.
    RejectIfListKnown,
    /// It is forwarded: the upstream accepts any model.
    Forward,
}

/// A model in an upstream's list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamModel {
    /// The upstream's own id.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Maximum input tokens, if the upstream reports them.
    pub context_window: Option<u64>,
    /// Maximum output tokens, if the upstream reports them.
    pub max_output: Option<u64>,
    /// Whether it accepts images, if the upstream reports it.
    #[serde(default)]
    pub vision: Option<bool>,
}

/// A validated request. No other headers of the client reach an upstream.
#[derive(Clone)]
pub struct UpstreamRequest {
    /// The request body.
    pub body: Bytes,
    /// The requested model.
    pub model: String,
    /// Whether a stream is requested.
    pub stream: bool,
    /// `anthropic-version`, if it was sent.
    pub version: Option<HeaderValue>,
    /// The entries of `anthropic-beta`.
    pub betas: Vec<String>,
    /// Whether the request had `?beta=true`.
    pub beta_endpoint: bool,
}

/// The body contains prompts, so only its length is shown.
impl fmt::Debug for UpstreamRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamRequest")
            .field("body", &format_args!("{} bytes", self.body.len()))
            .field("model", &self.model)
            .field("stream", &self.stream)
            .field("betas", &self.betas)
            .finish_non_exhaustive()
    }
}

/// A successful response.
pub struct UpstreamResponse {
    /// Headers for the client, filtered by the upstream.
    pub headers: HeaderMap,
    /// The body.
    pub body: UpstreamResponseBody,
}

/// The two forms of a response body.
pub enum UpstreamResponseBody {
    /// A message as JSON.
    Whole(Bytes),
    /// A message as a stream of events.
    Events(EventByteStream),
}

/// Why an upstream gave no response, or only a part of one.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// It answered with an error status.
    #[error("{0}")]
    ErrorResponse(Box<UpstreamErrorResponse>),
    /// No connection could be established.
    #[error("failed to connect to the upstream: {reason}; check its URL and the network")]
    Unreachable {
        /// The cause, without credentials.
        reason: String,
    },
    /// It did not answer in time.
    #[error("the upstream did not respond in time; try again")]
    TimedOut,
    /// The connection ended before the response.
    #[error("the response was interrupted: {reason}")]
    Interrupted {
        /// The cause, without credentials.
        reason: String,
    },
    /// The response is not one of the Messages API.
    #[error("invalid response: {reason}; check the upstream's URL")]
    InvalidResponse {
        /// What is wrong with it.
        reason: String,
    },
    /// There is no credential for the call.
    #[error("{reason}")]
    MissingCredential {
        /// What to do about it.
        reason: String,
    },
    /// An error of the gateway.
    #[error("internal error of the gateway: {reason}")]
    Internal {
        /// The cause; only logged.
        reason: String,
    },
}

impl UpstreamError {
    /// The code for programs, which does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::ErrorResponse(_) => "upstreamErrorResponse",
            Self::Unreachable { .. } => "upstreamUnreachable",
            Self::TimedOut => "upstreamTimeout",
            Self::Interrupted { .. } => "upstreamInterrupted",
            Self::InvalidResponse { .. } => "upstreamInvalidResponse",
            Self::MissingCredential { .. } => "credentialUnavailable",
            Self::Internal { .. } => "gatewayInternal",
        }
    }
}

/// An error status with its body.
pub struct UpstreamErrorResponse {
    /// The status.
    pub status: StatusCode,
    /// Headers for the client, filtered by the upstream.
    pub headers: HeaderMap,
    /// The body, which is forwarded if it is an error envelope.
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
        write!(f, "the upstream returned status {}", self.status)
    }
}

/// The body may contain a prompt, so only its length is shown.
impl fmt::Debug for UpstreamErrorResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamErrorResponse")
            .field("status", &self.status)
            .field("body", &format_args!("{} bytes", self.body.len()))
            .finish_non_exhaustive()
    }
}

/// The error of an upstream that cannot count tokens.
fn count_tokens_unsupported(kind: &str) -> UpstreamError {
    let message = format!("The {kind} upstream does not support counting tokens.");
    let body = error::error_body(ApiErrorKind::Api, &message);
    UpstreamErrorResponse { status: StatusCode::NOT_IMPLEMENTED, headers: HeaderMap::new(), body }.into()
}

/// Removes a secret from a text.
#[must_use]
pub fn redact_secret(text: Bytes, secret: &SecretString) -> Bytes {
    let secret = secret.expose_secret();
    match std::str::from_utf8(&text) {
        Ok(quoting) if !secret.is_empty() && quoting.contains(secret) => quoting.replace(secret, "[redacted]").into(),
        _ => text,
    }
}
