//! An access: a key for Copilot with its address and lifetime, and the errors of getting one.

use std::fmt;
use std::sync::Arc;

use hostler_gateway::upstream_support::http_client::HttpClient;
use hostler_gateway::upstream_support::{ApiErrorKind, error_body, upstream_failure_message};
use hostler_gateway::{CredentialError, UpstreamError, UpstreamErrorResponse};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};

use crate::access_lifetime::AccessLifetime;

/// A key, the address where it is valid, and its lifetime.
pub(super) struct CopilotAccess {
    /// Distinguishes accesses, so that a late rejection of an old one does not affect its successor.
    pub(super) number: u64,
    /// The GitHub token that it was obtained with.
    pub(super) github_token: SecretString,
    /// Copilot's bearer.
    pub(super) key: SecretString,
    /// Copilot's API.
    pub(super) api: Arc<HttpClient>,
    pub(super) lifetime: AccessLifetime,
}

impl CopilotAccess {
    /// Whether the GitHub token is the key.
    pub(super) fn uses_github_token(&self) -> bool {
        is_same_secret(&self.key, &self.github_token)
    }
}

impl fmt::Debug for CopilotAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopilotAccess")
            .field("number", &self.number)
            .field("api", &self.api)
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}

/// Whether two secrets are equal. Both belong to the host, so the comparison's duration reveals nothing to a caller.
pub(super) fn is_same_secret(one: &SecretString, other: &SecretString) -> bool {
    one.expose_secret() == other.expose_secret()
}

/// Why there is no access. All callers that waited for the same attempt receive it, hence `Clone`.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum CopilotAccessError {
    /// There is no GitHub token.
    #[error("no GitHub token for Copilot. Run `hostler agents login copilot` or set GITHUB_TOKEN")]
    SignedOut,
    /// A GitHub token is configured but unavailable.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// GitHub rejected the token.
    #[error(
        "GitHub rejected the token for Copilot, which may have expired or been revoked. \
         Run `hostler agents login copilot` or set GITHUB_TOKEN"
    )]
    TokenRejected,
    /// The GitHub account may not use Copilot.
    #[error(
        "the GitHub account has no usable Copilot subscription{}. See https://github.com/settings/copilot",
        quote_message(.message)
    )]
    NoSubscription {
        /// GitHub's message.
        message: Option<String>,
    },
    /// GitHub answered with an error that does not concern the account.
    #[error("GitHub returned status {status} to the request for Copilot access; try again later")]
    ErrorStatus {
        /// Its status.
        status: StatusCode,
        /// GitHub's `retry-after`.
        retry_after: Option<HeaderValue>,
    },
    /// GitHub cannot be reached.
    #[error("GitHub's API: {reason}")]
    Unreachable {
        /// The cause.
        reason: String,
    },
    /// GitHub did not answer in time.
    #[error("GitHub's API did not respond in time; try again")]
    TimedOut,
    /// The connection ended before the response.
    #[error("GitHub's API: {reason}")]
    Interrupted {
        /// The cause.
        reason: String,
    },
    /// GitHub's response has an unexpected format.
    #[error("GitHub's API: {reason}")]
    InvalidResponse {
        /// What is wrong with it; never contains parts of it.
        reason: String,
    },
    /// An error of the gateway.
    #[error("{reason}")]
    Internal {
        /// The cause.
        reason: String,
    },
}

fn quote_message(message: &Option<String>) -> String {
    message.as_ref().map(|message| format!(" (GitHub: {message})")).unwrap_or_default()
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
    let kind = ApiErrorKind::from_status(status);
    let headers: HeaderMap = retry_after.into_iter().map(|value| (header::RETRY_AFTER, value)).collect();
    let body = error_body(kind, &upstream_failure_message(kind, reason));
    UpstreamErrorResponse { status, headers, body }.into()
}
