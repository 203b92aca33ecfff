//! Upstreams: who really answers. Each is one implementation of [`Upstream`]; the gateway treats them all alike.

use std::fmt;

use ::http::{HeaderMap, HeaderValue, StatusCode};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::credential::{CredentialError, Standing};
use crate::error::{self, ErrorKind};
use crate::sign_in::Resource;

pub(crate) mod anthropic;
pub(crate) mod copilot;
pub(crate) mod http;
pub(crate) mod openai;
mod retry;
pub(crate) mod scripted;

/// Server-sent events as bytes, chunked in any way.
pub type EventBytes = BoxStream<'static, Result<Bytes, UpstreamError>>;

/// Something that answers Messages requests.
///
/// Dropping the future or the event stream cancels the call; an implementation keeps nothing running behind it.
pub trait Upstream: Send + Sync {
    /// What kind of upstream this is, in the word that settings use.
    fn kind(&self) -> &'static str;

    /// How requests must look that it is sent.
    fn manners(&self) -> Manners;

    /// Answers one request. The error is what the client is told if nothing has been streamed yet.
    fn messages(&self, call: UpstreamCall) -> BoxFuture<'_, Result<UpstreamAnswer, UpstreamError>>;

    /// Counts the tokens of a request that is not made. The answer is whole.
    fn count_tokens(&self, call: UpstreamCall) -> BoxFuture<'_, Result<UpstreamAnswer, UpstreamError>> {
        let _not_asked = call;
        let kind = self.kind();
        async move { Err(cannot_count(kind)) }.boxed()
    }

    /// The models that it serves, under its own ids.
    fn models(&self) -> BoxFuture<'_, Result<Vec<UpstreamModel>, UpstreamError>>;

    /// Whether it runs the web searches that a request lets the model make.
    fn searches_the_web(&self) -> bool {
        false
    }

    /// Whether a user's text is a script that it plays.
    fn is_script(&self, _text: &str) -> bool {
        false
    }

    /// Whether it can be called, as far as its credential goes.
    fn standing(&self) -> Standing {
        Standing::Ready
    }

    /// What clients can sign in to in order to use it, if there is such a thing.
    fn resource(&self) -> Option<Resource> {
        None
    }

    /// Whether a token would do as the credential. An error that is no refusal leaves the question open.
    fn check(&self, token: SecretString) -> BoxFuture<'_, Result<(), UpstreamError>> {
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
pub struct Manners {
    /// Which betas it is told.
    pub betas: Betas,
    /// What becomes of a request for a model that it does not list.
    pub unknown_models: UnknownModels,
}

/// Which entries of `anthropic-beta` an upstream is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Betas {
    /// All of them.
    All,
    /// Those that the configuration allows.
    Allowed,
    /// None.
    None,
}

/// What becomes of a request for a model that the upstream does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownModels {
    /// It is refused; without a list no request is made.
    Refuse,
    /// It is refused if the list is known, and made otherwise.
    RefuseIfListed,
    /// It is made: the upstream takes any model.
    Take,
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
pub struct UpstreamCall {
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
impl fmt::Debug for UpstreamCall {
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
pub struct UpstreamAnswer {
    /// Headers for the client, already chosen by the upstream.
    pub headers: HeaderMap,
    /// The answer itself.
    pub body: AnswerBody,
}

/// The two forms of an answer.
pub enum AnswerBody {
    /// A message as JSON.
    Whole(Bytes),
    /// A message as a stream of events.
    Events(EventBytes),
}

/// Why an upstream gave no answer, or no whole one.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// It answered with an error status.
    #[error("{0}")]
    Refused(Box<Refusal>),
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
    BrokenOff {
        /// What went wrong, without credentials.
        reason: String,
    },
    /// The answer is none of the Messages API.
    #[error("the answer is not one of the Messages API: {reason}; check the upstream's URL")]
    Unintelligible {
        /// What is wrong with it.
        reason: String,
    },
    /// There is no credential to call it with.
    #[error("{reason}")]
    NoCredential {
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
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// Headers for the client, already chosen by the upstream.
    pub headers: HeaderMap,
    /// The body, passed on if it is an error envelope.
    pub body: Bytes,
}

impl From<CredentialError> for UpstreamError {
    fn from(error: CredentialError) -> Self {
        Self::NoCredential { reason: error.to_string() }
    }
}

impl From<Refusal> for UpstreamError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the request was refused with status {}", self.status)
    }
}

/// The body may quote a prompt: shown by its length only.
impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("status", &self.status)
            .field("body", &format_args!("{} bytes", self.body.len()))
            .finish_non_exhaustive()
    }
}

/// What an upstream says that has no way to count tokens.
fn cannot_count(kind: &str) -> UpstreamError {
    let message = format!("The {kind} upstream cannot count tokens.");
    let body = error::envelope(ErrorKind::Api, &message);
    Refusal { status: StatusCode::NOT_IMPLEMENTED, headers: HeaderMap::new(), body }.into()
}

/// Takes a secret out of a text.
pub(crate) fn redact(text: Bytes, secret: &SecretString) -> Bytes {
    let secret = secret.expose_secret();
    match std::str::from_utf8(&text) {
        Ok(quoting) if !secret.is_empty() && quoting.contains(secret) => quoting.replace(secret, "[redacted]").into(),
        _ => text,
    }
}
