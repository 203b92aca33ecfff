//! Any server that speaks the Messages API: requests and events pass as bytes, the credential is added here.

mod retry;

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use reqwest::{Client, RequestBuilder, Response, redirect};
use secrecy::{ExposeSecret, SecretString};
use url::{Host, Url};

use super::{AnswerBody, Refusal, Upstream, UpstreamAnswer, UpstreamCall, UpstreamError};

/// More of an error body is not read.
const MAX_ERROR_BYTES: usize = 1024 * 1024;
/// Headers of an answer that reach the client.
const PASSED_HEADERS: [HeaderName; 3] =
    [header::RETRY_AFTER, HeaderName::from_static("request-id"), HeaderName::from_static("x-should-retry")];
const USER_AGENT: &str = concat!("hostler-gateway/", env!("CARGO_PKG_VERSION"));

/// How the upstream knows us.
#[derive(Debug, Clone)]
pub enum Credential {
    /// Sent as `x-api-key`.
    ApiKey(SecretString),
    /// Sent as `authorization: Bearer …`.
    Bearer(SecretString),
}

/// How to reach a Messages API server.
#[derive(Clone)]
pub struct AnthropicConfig {
    /// What stands before `/v1/messages`.
    pub base_url: Url,
    /// Absent for servers that need none.
    pub credential: Option<Credential>,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// How long the upstream may be silent, before its answer and within it.
    pub silence_timeout: Duration,
}

impl AnthropicConfig {
    /// The usual limits: 10 s to connect, 10 min of silence (a long answer without streaming is silent as long).
    #[must_use]
    pub fn new(base_url: Url, credential: Option<Credential>) -> Self {
        Self {
            base_url,
            credential,
            connect_timeout: Duration::from_secs(10),
            silence_timeout: Duration::from_secs(600),
        }
    }
}

/// The URL may hold a password: only its host is shown.
impl fmt::Debug for AnthropicConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnthropicConfig").field("host", &self.base_url.host_str()).finish_non_exhaustive()
    }
}

/// The upstream for any Messages API server.
pub struct AnthropicUpstream {
    config: AnthropicConfig,
    /// Made at the first call: reading the system's certificates is not for the start of the host.
    client: OnceLock<Client>,
}

impl AnthropicUpstream {
    /// An upstream that has not connected yet.
    #[must_use]
    pub fn new(config: AnthropicConfig) -> Self {
        Self { config, client: OnceLock::new() }
    }

    fn client(&self) -> Result<&Client, UpstreamError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let mut builder = Client::builder()
            .user_agent(USER_AGENT)
            .tcp_nodelay(true)
            .connect_timeout(self.config.connect_timeout)
            .read_timeout(self.config.silence_timeout)
            // A redirect would carry the key to wherever it points.
            .redirect(redirect::Policy::none());
        if is_loopback(&self.config.base_url) {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| UpstreamError::Internal { reason: reason(error) })?;
        Ok(self.client.get_or_init(|| client))
    }

    fn request(&self, call: &UpstreamCall) -> Result<RequestBuilder, UpstreamError> {
        let mut url = self.config.base_url.clone();
        url.path_segments_mut()
            .map_err(|()| UpstreamError::Internal { reason: "the upstream's URL cannot have a path".to_owned() })?
            .pop_if_empty()
            .extend(["v1", "messages"]);
        url.set_query(call.beta_endpoint.then_some("beta=true"));

        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(version) = &call.version {
            headers.insert("anthropic-version", version.clone());
        }
        if !call.betas.is_empty() {
            headers.insert("anthropic-beta", header_value(&call.betas.join(","), "anthropic-beta")?);
        }
        match &self.config.credential {
            None => {}
            Some(Credential::ApiKey(key)) => {
                headers.insert("x-api-key", secret_value(key.expose_secret())?);
            }
            Some(Credential::Bearer(token)) => {
                headers.insert(header::AUTHORIZATION, secret_value(&format!("Bearer {}", token.expose_secret()))?);
            }
        }
        Ok(self.client()?.post(url).headers(headers).body(call.body.clone()))
    }

    /// One try.
    async fn attempt(&self, call: &UpstreamCall) -> Result<UpstreamAnswer, UpstreamError> {
        let response = self.request(call)?.send().await.map_err(failure)?;
        let status = response.status();
        if status.is_redirection() {
            let reason = format!("it redirects (status {status}), which is not followed");
            return Err(UpstreamError::Unintelligible { reason });
        }
        let headers = passed_headers(response.headers());
        if !status.is_success() {
            let body = self.redact(error_body(response).await);
            return Err(UpstreamError::from(Refusal { status, headers, body }));
        }
        let body = if call.stream {
            if !is_event_stream(response.headers()) {
                let reason = "a stream was asked for and something else came".to_owned();
                return Err(UpstreamError::Unintelligible { reason });
            }
            AnswerBody::Events(response.bytes_stream().map_err(failure).boxed())
        } else {
            AnswerBody::Whole(response.bytes().await.map_err(failure)?)
        };
        Ok(UpstreamAnswer { headers, body })
    }
}

impl Upstream for AnthropicUpstream {
    fn name(&self) -> &str {
        "anthropic"
    }

    fn messages(&self, call: UpstreamCall) -> BoxFuture<'_, Result<UpstreamAnswer, UpstreamError>> {
        async move {
            let start = Instant::now();
            let mut retries = 0;
            loop {
                let error = match self.attempt(&call).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => error,
                };
                let Some(pause) = retry::pause(&error, retries, start.elapsed()) else {
                    return Err(error);
                };
                tracing::info!(%error, ?pause, "the upstream call is tried again");
                tokio::time::sleep(pause).await;
                retries += 1;
            }
        }
        .boxed()
    }

    fn redact(&self, text: Bytes) -> Bytes {
        let secret = match &self.config.credential {
            Some(Credential::ApiKey(secret) | Credential::Bearer(secret)) => secret.expose_secret(),
            None => return text,
        };
        match std::str::from_utf8(&text) {
            Ok(quoting) if !secret.is_empty() && quoting.contains(secret) => {
                quoting.replace(secret, "[redacted]").into()
            }
            _ => text,
        }
    }
}

impl fmt::Debug for AnthropicUpstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnthropicUpstream").field(&self.config).finish()
    }
}

fn header_value(text: &str, what: &str) -> Result<HeaderValue, UpstreamError> {
    HeaderValue::from_str(text)
        .map_err(|_| UpstreamError::Internal { reason: format!("{what} holds characters that no header can carry") })
}

fn secret_value(text: &str) -> Result<HeaderValue, UpstreamError> {
    let mut value = header_value(text, "the upstream's credential")?;
    value.set_sensitive(true);
    Ok(value)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

fn passed_headers(headers: &HeaderMap) -> HeaderMap {
    PASSED_HEADERS.iter().filter_map(|name| Some((name.clone(), headers.get(name)?.clone()))).collect()
}

/// What could be read of an error's body; it is only told to people, so a part is better than nothing.
async fn error_body(mut response: Response) -> Bytes {
    let mut body = BytesMut::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        if body.len() + chunk.len() > MAX_ERROR_BYTES {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    body.freeze()
}

fn failure(error: reqwest::Error) -> UpstreamError {
    if error.is_timeout() {
        UpstreamError::TimedOut
    } else if error.is_connect() {
        UpstreamError::Unreachable { reason: reason(error) }
    } else {
        UpstreamError::BrokenOff { reason: reason(error) }
    }
}

/// The error's innermost cause, which is the part that helps; the URL is left out, since it may hold a password.
fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
