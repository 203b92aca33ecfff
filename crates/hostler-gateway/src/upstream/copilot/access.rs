//! What lets us call Copilot for a while, and why we may not have it.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};

use super::super::http_client::HttpClient;
use super::super::{UpstreamError, UpstreamErrorResponse};
use super::access_lifetime::AccessLifetime;
use crate::credential::CredentialError;
use crate::error::{self, ApiErrorKind};

/// A key, where it is valid and for how long.
pub(super) struct CopilotAccess {
    /// Tells one access from the next, so that a late refusal of an old one is not held against its successor.
    pub(super) number: u64,
    /// The GitHub token that it was got with.
    pub(super) github_token: SecretString,
    /// What Copilot takes as bearer.
    pub(super) key: SecretString,
    /// Copilot's API.
    pub(super) api: Arc<HttpClient>,
    pub(super) lifetime: AccessLifetime,
}

impl CopilotAccess {
    /// Whether the GitHub token itself is the key.
    pub(super) fn uses_github_token(&self) -> bool {
        is_same_secret(&self.key, &self.github_token)
    }
}

impl fmt::Debug for CopilotAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("number", &self.number)
            .field("api", &self.api)
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}

/// Whether two secrets are the same one. Both are ours, so nobody can learn from the time that this takes.
pub(super) fn is_same_secret(one: &SecretString, other: &SecretString) -> bool {
    one.expose_secret() == other.expose_secret()
}

/// Why there is no access. It is told to all who waited for the same attempt, hence `Clone`.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum CopilotAccessError {
    /// Nobody has signed in.
    #[error("there is no GitHub token for Copilot: run `hostler agents login copilot`, or set GITHUB_TOKEN")]
    SignedOut,
    /// There should be a GitHub token, but it cannot be had.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// GitHub does not know the token.
    #[error(
        "GitHub does not accept the token for Copilot; it may have expired or been revoked: \
         run `hostler agents login copilot`, or set GITHUB_TOKEN to a valid one"
    )]
    TokenRejected,
    /// GitHub knows the account, but it may not use Copilot.
    #[error(
        "the GitHub account has no Copilot subscription that can be used here{}; \
         see https://github.com/settings/copilot",
        quote_message(.message)
    )]
    NoSubscription {
        /// GitHub's own words.
        message: Option<String>,
    },
    /// GitHub answered with an error that is not about the account.
    #[error("GitHub gave no access to Copilot (status {status}); try again later")]
    ErrorStatus {
        /// Its status.
        status: StatusCode,
        /// When to come again.
        retry_after: Option<HeaderValue>,
    },
    /// No connection to GitHub.
    #[error("GitHub's API: {reason}")]
    Unreachable {
        /// What went wrong.
        reason: String,
    },
    /// GitHub took too long.
    #[error("GitHub's API did not answer in time")]
    TimedOut,
    /// The connection ended before the answer did.
    #[error("GitHub's API: {reason}")]
    Interrupted {
        /// What went wrong.
        reason: String,
    },
    /// GitHub's answer is not the expected one.
    #[error("GitHub's API: {reason}")]
    InvalidResponse {
        /// What is wrong with it; never quotes it.
        reason: String,
    },
    /// Our own fault.
    #[error("{reason}")]
    Internal {
        /// What is wrong.
        reason: String,
    },
}

fn quote_message(said: &Option<String>) -> String {
    said.as_ref().map(|said| format!(" (GitHub says: {said})")).unwrap_or_default()
}

impl From<CopilotAccessError> for UpstreamError {
    fn from(error: CopilotAccessError) -> Self {
        let reason = error.to_string();
        match error {
            CopilotAccessError::SignedOut | CopilotAccessError::Credential(_) => Self::MissingCredential { reason },
            CopilotAccessError::TokenRejected => error_response(StatusCode::UNAUTHORIZED, None, &reason),
            CopilotAccessError::NoSubscription { .. } => error_response(StatusCode::FORBIDDEN, None, &reason),
            CopilotAccessError::ErrorStatus { status, retry_after } => error_response(status, retry_after, &reason),
            CopilotAccessError::Unreachable { .. } => Self::Unreachable { reason },
            CopilotAccessError::TimedOut => Self::TimedOut,
            CopilotAccessError::Interrupted { .. } => Self::Interrupted { reason },
            CopilotAccessError::InvalidResponse { .. } => Self::InvalidResponse { reason },
            CopilotAccessError::Internal { .. } => Self::Internal { reason },
        }
    }
}

fn error_response(status: StatusCode, retry_after: Option<HeaderValue>, reason: &str) -> UpstreamError {
    let message = format!("Upstream: {reason}.");
    let headers: HeaderMap = retry_after.into_iter().map(|value| (header::RETRY_AFTER, value)).collect();
    UpstreamErrorResponse { status, headers, body: error::error_body(ApiErrorKind::from_status(status), &message) }
        .into()
}
