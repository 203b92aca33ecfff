//! GitHub's device flow: GitHub issues a code, the person enters it on a web page, and meanwhile GitHub is polled for
//! the token.

use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hostler_gateway::upstream_support::http_client::{self as over_http, HttpClient};
use hostler_gateway::{UpstreamError, UpstreamTimeouts};
use hostler_redact::host_and_port;
use http::{HeaderValue, Method, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::{Url, form_urlencoded};

use crate::github_api::deserialize_secret;
use crate::wall_clock::{SystemWallClock, WallClock};

/// Requested scope: the person's identity. Copilot needs no more.
const SCOPE: &str = "read:user";
const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Poll interval if GitHub specifies none.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Increase of the poll interval when GitHub asks to slow down or does not answer.
const SLOW_DOWN_STEP: Duration = Duration::from_secs(5);
const MIN_POLL_INTERVAL: Duration = Duration::from_secs(1);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(60);
/// Lifetime of a code if GitHub specifies none; also the maximum.
const DEFAULT_CODE_LIFETIME: Duration = Duration::from_secs(15 * 60);
const MAX_CODE_LIFETIME: Duration = Duration::from_secs(60 * 60);
const MAX_CODE_CHARS: usize = 32;

/// Where to sign in, and as which application.
#[derive(Clone)]
pub struct DeviceLoginConfig {
    /// GitHub's web URL, usually [`GITHUB_URL`](crate::GITHUB_URL).
    pub github_url: Url,
    /// The client id of an OAuth application with the device flow enabled.
    pub client_id: Option<String>,
    /// Timeouts for GitHub.
    pub timeouts: UpstreamTimeouts,
}

impl DeviceLoginConfig {
    /// A configuration with default timeouts.
    #[must_use]
    pub fn new(github_url: Url, client_id: Option<String>) -> Self {
        let timeouts = UpstreamTimeouts { read: Duration::from_secs(30), ..UpstreamTimeouts::default() };
        Self { github_url, client_id, timeouts }
    }
}

/// The URL may contain a password, so only its host is shown.
impl fmt::Debug for DeviceLoginConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceLoginConfig")
            .field("host", &host_and_port(&self.github_url))
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// The code for the person. Safe to print: it contains no control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCode {
    /// The code to enter.
    pub user_code: String,
    /// The page to enter it on.
    pub verification_url: Url,
    /// How long the code is valid.
    pub expires_in: Duration,
}

/// Why the sign-in failed. Never contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceLoginError {
    /// No client id is configured.
    #[error(
        "no OAuth client ID is configured for signing in to GitHub; set client-id of the copilot upstream \
         to that of an OAuth app with device flow, or set GITHUB_TOKEN"
    )]
    NoClientId,
    /// GitHub does not know the client id.
    #[error("GitHub does not accept the client ID {client_id:?} for device flow; check client-id")]
    UnknownClient {
        /// The client id.
        client_id: String,
    },
    /// The person denied access.
    #[error("the sign-in was denied on GitHub; run the command again to retry")]
    Denied,
    /// The code expired.
    #[error("the code has expired; run the command again for a new one")]
    Expired,
    /// GitHub rejected the sign-in.
    #[error("GitHub rejected the sign-in ({code})")]
    Rejected {
        /// GitHub's error code.
        code: String,
    },
    /// The first request got no response.
    #[error("failed to request a code from GitHub: {reason}")]
    Unreachable {
        /// The cause.
        reason: String,
    },
    /// The response has an unexpected format.
    #[error("unexpected response from GitHub: {what} is missing or invalid; check the URL")]
    InvalidResponse {
        /// The invalid part.
        what: &'static str,
    },
}

impl DeviceLoginError {
    /// The code for programs, which does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoClientId => "clientIdMissing",
            Self::UnknownClient { .. } => "clientIdRejected",
            Self::Denied => "loginDenied",
            Self::Expired => "loginExpired",
            Self::Rejected { .. } => "loginRejected",
            Self::Unreachable { .. } => "githubUnreachable",
            Self::InvalidResponse { .. } => "githubInvalidResponse",
        }
    }
}

/// Signs in with a code that is passed to `show`, and waits until the person has entered it.
///
/// Returns the GitHub token. Dropping the future cancels the sign-in.
///
/// # Errors
/// If no client id is configured, or if the person or GitHub denies it.
pub async fn device_login(
    config: &DeviceLoginConfig,
    show: impl FnOnce(&DeviceCode),
) -> Result<SecretString, DeviceLoginError> {
    device_login_with_clock(&SystemWallClock, config, show).await
}

/// Signs in with another clock.
///
/// # Errors
/// If no client id is configured, or if the person or GitHub denies it.
pub async fn device_login_with_clock(
    clock: &dyn WallClock,
    config: &DeviceLoginConfig,
    show: impl FnOnce(&DeviceCode),
) -> Result<SecretString, DeviceLoginError> {
    let client_id = config.client_id.as_deref().filter(|id| !id.is_empty()).ok_or(DeviceLoginError::NoClientId)?;
    let http = HttpClient::new(config.github_url.clone(), config.timeouts);
    let (code, device_code, mut polling) = request_device_code(&http, client_id, clock.now()).await?;
    show(&code);
    let form = [("client_id", client_id), ("device_code", device_code.expose_secret()), ("grant_type", GRANT_TYPE)];
    loop {
        clock.sleep(polling.interval).await;
        if clock.now() >= polling.expires_at {
            return Err(DeviceLoginError::Expired);
        }
        let polled: Option<TokenPollResponse> = match post_form(&http, &["login", "oauth", "access_token"], &form).await
        {
            Ok(body) => parse_json(&body),
            Err(UpstreamError::ErrorResponse(refusal)) => match parse_json(&refusal.body) {
                Some(TokenPollResponse { error: None, .. }) | None if is_final(refusal.status) => {
                    return Err(DeviceLoginError::Rejected { code: refusal.status.to_string() });
                }
                response => response.filter(|response: &TokenPollResponse| response.error.is_some()),
            },
            Err(error) => {
                tracing::debug!(%error, "failed to poll GitHub for the token");
                None
            }
        };
        if let Some(token) = polling.handle_response(polled)? {
            return Ok(token);
        }
    }
}

/// Requests a code.
async fn request_device_code(
    http: &HttpClient,
    client_id: &str,
    now: SystemTime,
) -> Result<(DeviceCode, SecretString, Polling), DeviceLoginError> {
    let form = [("client_id", client_id), ("scope", SCOPE)];
    let response = over_http::with_retries(|| post_form(http, &["login", "device", "code"], &form)).await;
    let body = match response {
        Ok(body) => body,
        Err(UpstreamError::ErrorResponse(refusal)) => {
            return Err(match parse_json::<TokenPollResponse>(&refusal.body).and_then(|response| response.error) {
                Some(code) => to_login_error(&code),
                None if refusal.status == StatusCode::NOT_FOUND => {
                    DeviceLoginError::UnknownClient { client_id: client_id.to_owned() }
                }
                None => DeviceLoginError::Rejected { code: refusal.status.to_string() },
            });
        }
        Err(error) => return Err(DeviceLoginError::Unreachable { reason: error.to_string() }),
    };
    if let Some(code) = parse_json::<TokenPollResponse>(&body).and_then(|response| response.error) {
        return Err(to_login_error(&code));
    }
    let response: DeviceCodeResponse =
        parse_json(&body).ok_or(DeviceLoginError::InvalidResponse { what: "the code" })?;
    let plain = |code: &str| code.chars().count() <= MAX_CODE_CHARS && code.bytes().all(|byte| byte.is_ascii_graphic());
    if response.user_code.is_empty() || !plain(&response.user_code) {
        return Err(DeviceLoginError::InvalidResponse { what: "the code" });
    }
    let verification_url = Url::parse(&response.verification_uri)
        .ok()
        .filter(|url| ["http", "https"].contains(&url.scheme()))
        .ok_or(DeviceLoginError::InvalidResponse { what: "the verification URL" })?;
    let expires_in = response.expires_in.map_or(DEFAULT_CODE_LIFETIME, Duration::from_secs).min(MAX_CODE_LIFETIME);
    let polling = Polling { interval: poll_interval(response.interval), expires_at: now + expires_in };
    Ok((DeviceCode { user_code: response.user_code, verification_url, expires_in }, response.device_code, polling))
}

#[derive(Deserialize)]
struct DeviceCodeResponse {
    #[serde(deserialize_with = "deserialize_secret")]
    device_code: SecretString,
    user_code: String,
    verification_uri: String,
    expires_in: Option<u64>,
    interval: Option<u64>,
}

/// A response to a poll for the token.
#[derive(Deserialize)]
struct TokenPollResponse {
    #[serde(default, deserialize_with = "deserialize_optional_secret")]
    access_token: Option<SecretString>,
    error: Option<String>,
    interval: Option<u64>,
}

fn deserialize_optional_secret<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SecretString>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(SecretString::from))
}

/// State of the polling.
#[derive(Debug, PartialEq, Eq)]
struct Polling {
    interval: Duration,
    expires_at: SystemTime,
}

impl Polling {
    /// Applies a response, or a missing one; returns the token once there is one.
    fn handle_response(
        &mut self,
        response: Option<TokenPollResponse>,
    ) -> Result<Option<SecretString>, DeviceLoginError> {
        let Some(response) = response else {
            self.slow_down(None);
            return Ok(None);
        };
        match response.error.as_deref() {
            None => match response.access_token.filter(|token| !token.expose_secret().is_empty()) {
                Some(token) => Ok(Some(token)),
                None => Err(DeviceLoginError::InvalidResponse { what: "the token" }),
            },
            Some("authorization_pending") => Ok(None),
            Some("slow_down") => {
                self.slow_down(response.interval);
                Ok(None)
            }
            Some(code) => Err(to_login_error(code)),
        }
    }

    fn slow_down(&mut self, requested: Option<u64>) {
        let requested = requested.map_or(Duration::ZERO, Duration::from_secs);
        self.interval = requested.max(self.interval + SLOW_DOWN_STEP).min(MAX_POLL_INTERVAL);
    }
}

fn poll_interval(requested: Option<u64>) -> Duration {
    requested.map_or(DEFAULT_POLL_INTERVAL, Duration::from_secs).clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
}

fn to_login_error(code: &str) -> DeviceLoginError {
    match code {
        "access_denied" => DeviceLoginError::Denied,
        "expired_token" | "token_expired" => DeviceLoginError::Expired,
        other => DeviceLoginError::Rejected {
            code: other.chars().filter(|c| c.is_ascii_graphic()).take(MAX_CODE_CHARS).collect(),
        },
    }
}

/// Whether polling again cannot succeed.
fn is_final(status: StatusCode) -> bool {
    status.is_client_error() && !matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
}

async fn post_form(http: &HttpClient, path: &[&str], form: &[(&str, &str)]) -> Result<Bytes, UpstreamError> {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let request = http
        .request(Method::POST, path, &[])?
        .header(header::ACCEPT, HeaderValue::from_static("application/json"))
        .header(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"))
        .body(body);
    over_http::read_body(over_http::send(request, |body| body).await?).await
}

fn parse_json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poll_responses_continue_finish_or_fail_the_sign_in() {
        let denied = || Err(DeviceLoginError::Denied);
        let unintelligible = || Err(DeviceLoginError::InvalidResponse { what: "the token" });
        for (body, expected, interval) in [
            (r#"{"access_token":"gho_1","token_type":"bearer","scope":""}"#, Ok(Some("gho_1")), 5),
            (r#"{"error":"authorization_pending"}"#, Ok(None), 5),
            (r#"{"error":"slow_down"}"#, Ok(None), 10),
            (r#"{"error":"slow_down","interval":12}"#, Ok(None), 12),
            (r#"{"error":"slow_down","interval":1}"#, Ok(None), 10),
            (r#"{"error":"slow_down","interval":18446744073709551615}"#, Ok(None), 60),
            (r#"{"error":"expired_token"}"#, Err(DeviceLoginError::Expired), 5),
            (r#"{"error":"access_denied"}"#, denied(), 5),
            (r#"{"error":"access_denied","access_token":"gho_1"}"#, denied(), 5),
            (r#"{"error":"device_\u001b[1mx"}"#, Err(DeviceLoginError::Rejected { code: "device_[1mx".to_owned() }), 5),
            (r#"{}"#, unintelligible(), 5),
            (r#"{"access_token":""}"#, unintelligible(), 5),
            ("<html>", Ok(None), 10),
        ] {
            let ends_at = SystemTime::UNIX_EPOCH;
            let mut polling = Polling { interval: Duration::from_secs(5), expires_at: ends_at };
            let outcome = polling.handle_response(parse_json(body.as_bytes()));
            let outcome = outcome.map(|token| token.map(|token| token.expose_secret().to_owned()));
            assert_eq!(outcome, expected.map(|token: Option<&str>| token.map(str::to_owned)), "{body}");
            assert_eq!(polling, Polling { interval: Duration::from_secs(interval), expires_at: ends_at }, "{body}");
        }
    }

    #[test]
    fn the_poll_interval_is_bounded() {
        for (requested, seconds) in [(None, 5), (Some(0), 1), (Some(5), 5), (Some(7), 7), (Some(u64::MAX), 60)] {
            assert_eq!(poll_interval(requested), Duration::from_secs(seconds), "{requested:?}");
        }
        let mut polling = Polling { interval: DEFAULT_POLL_INTERVAL, expires_at: SystemTime::UNIX_EPOCH };
        for _ in 0..100 {
            polling.slow_down(None);
        }
        assert_eq!(polling.interval, MAX_POLL_INTERVAL);
    }
}
