//! GitHub's API for access to Copilot: exchanges a token for a key, and discovers the address where a token is accepted
//! as the key.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hostler_gateway::upstream_support::http_client::{self as over_http, HttpClient};
use hostler_gateway::upstream_support::redact_secret;
use hostler_gateway::{UpstreamError, UpstreamErrorResponse, UpstreamTimeouts};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use url::Url;

use crate::access::{CopilotAccess, CopilotAccessError};
use crate::access_lifetime::AccessLifetime;
use crate::error_message;
use crate::wall_clock::WallClock;
use crate::{CopilotConfig, CopilotMode};

/// Client for GitHub's API.
pub(super) struct GitHubApi {
    http: HttpClient,
    headers: HeaderMap,
    mode: CopilotMode,
    /// Whether Copilot's address may use plain HTTP; only if GitHub's own does.
    allow_http: bool,
    api_url: Option<Url>,
    timeouts: UpstreamTimeouts,
    /// The client of the latest address, reused with its connections while the address stays the same.
    last_client: Mutex<Option<(Url, Arc<HttpClient>)>>,
}

#[derive(Deserialize)]
struct TokenExchange {
    #[serde(deserialize_with = "deserialize_secret")]
    token: SecretString,
    expires_at: u64,
    refresh_in: Option<u64>,
    endpoints: Option<Endpoints>,
}

#[derive(Deserialize)]
struct CopilotUser {
    endpoints: Option<Endpoints>,
}

#[derive(Deserialize)]
struct Endpoints {
    api: Option<String>,
}

/// Deserializes directly into a type that does not print its value.
pub(super) fn deserialize_secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SecretString, D::Error> {
    String::deserialize(deserializer).map(SecretString::from)
}

impl GitHubApi {
    pub(super) fn new(config: &CopilotConfig, headers: HeaderMap) -> Self {
        let timeouts = config.timeouts;
        Self {
            http: HttpClient::new(config.github_api_url.clone(), timeouts),
            headers,
            mode: config.mode,
            allow_http: config.github_api_url.scheme() != "https",
            api_url: config.api_url.clone(),
            timeouts,
            last_client: Mutex::default(),
        }
    }

    /// Gets an access. If there is no exchange, the token is used as the key.
    pub(super) async fn acquire_access(
        &self,
        number: u64,
        github_token: &SecretString,
        clock: &dyn WallClock,
    ) -> Result<CopilotAccess, CopilotAccessError> {
        let exchange = match self.mode {
            CopilotMode::Token => None,
            CopilotMode::Exchange => self.exchange(github_token).await?,
        };
        let now = clock.now();
        let (key, reported_api, lifetime) = match exchange {
            None => (github_token.clone(), None, None),
            Some(TokenExchange { token, expires_at, refresh_in, endpoints }) => {
                let lifetime = AccessLifetime::from_expiry(now, expires_at, refresh_in);
                (token, endpoints.and_then(|endpoints| endpoints.api), Some(lifetime))
            }
        };
        let discovered = AccessLifetime::for_discovery(now);
        let (api, lifetime) = match (&self.api_url, reported_api) {
            (Some(api), _) => (api.clone(), lifetime.unwrap_or(discovered)),
            (None, Some(api)) => (self.parse_api_url(&api)?, lifetime.unwrap_or(discovered)),
            (None, None) => {
                let api = self.discover_api_url(github_token).await?;
                (self.parse_api_url(&api)?, lifetime.map_or(discovered, |key| key.shorter(discovered)))
            }
        };
        Ok(CopilotAccess { number, github_token: github_token.clone(), key, api: self.client_for(api), lifetime })
    }

    /// Exchanges the token for a key; `None` if this GitHub has no exchange, or none for this account.
    async fn exchange(&self, github_token: &SecretString) -> Result<Option<TokenExchange>, CopilotAccessError> {
        match self.get_json(&["copilot_internal", "v2", "token"], github_token).await {
            Ok(exchange) => Ok(Some(exchange)),
            Err(UpstreamError::ErrorResponse(refusal)) if refusal.status == StatusCode::NOT_FOUND => {
                tracing::debug!("no token exchange available; using the GitHub token");
                Ok(None)
            }
            Err(error) => Err(into_access_error(error)),
        }
    }

    /// Discovers Copilot's address for the account.
    async fn discover_api_url(&self, github_token: &SecretString) -> Result<String, CopilotAccessError> {
        let user: CopilotUser =
            self.get_json(&["copilot_internal", "user"], github_token).await.map_err(into_access_error)?;
        user.endpoints.and_then(|endpoints| endpoints.api).ok_or(CopilotAccessError::NoSubscription { message: None })
    }

    async fn get_json<T: DeserializeOwned>(
        &self,
        path: &[&str],
        github_token: &SecretString,
    ) -> Result<T, UpstreamError> {
        let mut headers = self.headers.clone();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let bearer = over_http::secret_header_value(&format!("Bearer {}", github_token.expose_secret()))?;
        headers.insert(header::AUTHORIZATION, bearer);
        let body = over_http::with_retries(|| async {
            let request = self.http.request(Method::GET, path, &[])?.headers(headers.clone());
            over_http::read_body(over_http::send(request, |body| redact_secret(body, github_token)).await?).await
        })
        .await?;
        // Without the parser's message, which may contain parts of the input.
        serde_json::from_slice(&body).map_err(|_| UpstreamError::InvalidResponse {
            reason: format!("the response of /{} has an unexpected format", path.join("/")),
        })
    }

    /// Validates an address from GitHub. The key is not sent over an unencrypted connection.
    fn parse_api_url(&self, api: &str) -> Result<Url, CopilotAccessError> {
        let safe = |api: &Url| api.scheme() == "https" || (self.allow_http && api.scheme() == "http");
        Url::parse(api).ok().filter(safe).ok_or_else(|| CopilotAccessError::InvalidResponse {
            reason: "the reported address of Copilot is not an https URL".to_owned(),
        })
    }

    fn client_for(&self, api: Url) -> Arc<HttpClient> {
        let mut latest = self.last_client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((url, client)) = &*latest
            && *url == api
        {
            return Arc::clone(client);
        }
        let client = Arc::new(HttpClient::new(api.clone(), self.timeouts));
        *latest = Some((api, Arc::clone(&client)));
        client
    }
}

impl fmt::Debug for GitHubApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitHubApi").field("http", &self.http).field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// Maps GitHub's error to its meaning for access to Copilot.
fn into_access_error(error: UpstreamError) -> CopilotAccessError {
    match error {
        UpstreamError::ErrorResponse(refusal) => {
            let UpstreamErrorResponse { status, headers, body } = *refusal;
            let retry_after = headers.get(header::RETRY_AFTER).cloned();
            let message = error_message::sentence(&body);
            let limited = message.as_ref().is_some_and(|text| text.to_ascii_lowercase().contains("rate limit"));
            match status {
                StatusCode::UNAUTHORIZED => CopilotAccessError::TokenRejected,
                StatusCode::FORBIDDEN if limited => {
                    CopilotAccessError::ErrorStatus { status: StatusCode::TOO_MANY_REQUESTS, retry_after }
                }
                StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => CopilotAccessError::NoSubscription { message },
                status => CopilotAccessError::ErrorStatus { status, retry_after },
            }
        }
        UpstreamError::Unreachable { reason } => CopilotAccessError::Unreachable { reason },
        UpstreamError::TimedOut => CopilotAccessError::TimedOut,
        UpstreamError::Interrupted { reason } => CopilotAccessError::Interrupted { reason },
        UpstreamError::InvalidResponse { reason } => CopilotAccessError::InvalidResponse { reason },
        UpstreamError::MissingCredential { reason } | UpstreamError::Internal { reason } => {
            CopilotAccessError::Internal { reason }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use hostler_gateway::FixedCredential;

    fn refusal(status: u16, body: &str) -> UpstreamError {
        let status = StatusCode::from_u16(status).unwrap();
        UpstreamErrorResponse { status, headers: HeaderMap::new(), body: Bytes::copy_from_slice(body.as_bytes()) }
            .into()
    }

    #[test]
    fn github_errors_map_to_access_errors() {
        let details = r#"{"message":"no","error_details":{"message":"No access\n to  Copilot.","title":"x"}}"#;
        let limited = r#"{"message":"API rate limit exceeded for user ID 1."}"#;
        for (status, body, expected_status, expected_text) in [
            (401, "{}", 401, "hostler agents login copilot"),
            (403, details, 403, "(GitHub: No access to Copilot)"),
            (403, "<html>", 403, "no usable Copilot subscription. See"),
            (404, r#"{"message":"Not Found"}"#, 403, "(GitHub: Not Found)"),
            (403, limited, 429, "status 429"),
            (429, limited, 429, "status 429"),
            (500, "", 500, "status 500"),
            (422, "", 422, "status 422"),
        ] {
            let UpstreamError::ErrorResponse(refusal) = UpstreamError::from(into_access_error(refusal(status, body)))
            else {
                panic!("{status} {body} is a refusal");
            };
            assert_eq!(refusal.status.as_u16(), expected_status, "{status} {body}");
            let envelope = String::from_utf8(refusal.body.to_vec()).unwrap();
            assert!(envelope.contains(expected_text), "{status} {body}: {envelope}");
        }
    }

    #[test]
    fn plain_http_is_allowed_only_if_github_itself_uses_it() {
        let github_api = |github: &str| {
            let config = CopilotConfig::new(github.parse().unwrap(), Arc::new(FixedCredential::default()));
            GitHubApi::new(&config, HeaderMap::new())
        };
        let (secure, plain) = (github_api("https://api.github.com"), github_api("http://127.0.0.1:1"));
        for (api, by_secure, by_plain) in [
            ("https://api.example.com/x", true, true),
            ("http://api.example.com", false, true),
            ("ftp://api.example.com", false, false),
            ("file:///etc", false, false),
            ("api.example.com", false, false),
            ("", false, false),
        ] {
            assert_eq!(
                (secure.parse_api_url(api).is_ok(), plain.parse_api_url(api).is_ok()),
                (by_secure, by_plain),
                "{api}"
            );
        }
    }
}
