//! Shared by all HTTP upstreams: the client, conversion of responses and errors, and retries. Does not know the
//! upstreams' protocols.

use std::fmt;
use std::future::Future;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt};
use hostler_redact::host_and_port;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use reqwest::{Client, redirect};
use url::{Host, Url};

pub use reqwest::{RequestBuilder, Response};

use super::{UpstreamError, UpstreamErrorResponse, UpstreamResponse, UpstreamResponseBody, retry};

/// Maximum bytes that are read of an error body.
const MAX_ERROR_BODY_BYTES: usize = 1024 * 1024;
/// Maximum bytes of a complete response; the longest message is far below it.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;
/// Response headers that are forwarded to the client.
const FORWARDED_HEADERS: [HeaderName; 3] =
    [header::RETRY_AFTER, HeaderName::from_static("request-id"), HeaderName::from_static("x-should-retry")];
const USER_AGENT: &str = concat!("hostler-gateway/", env!("CARGO_PKG_VERSION"));

/// Timeouts for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// Maximum time for connecting.
    pub connect: Duration,
    /// Maximum time without data, before and during a response.
    pub read: Duration,
}

/// 10 s to connect and 10 min without data, because a long response without streaming sends nothing until it is
///    complete.
impl Default for UpstreamTimeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), read: Duration::from_secs(600) }
    }
}

/// A server and the client for it.
pub struct HttpClient {
    base_url: Url,
    timeouts: UpstreamTimeouts,
    /// Created at the first call, because reading the system's certificates would delay the host's start.
    client: OnceLock<Client>,
}

impl HttpClient {
    /// Creates a client without connecting.
    #[must_use]
    pub fn new(base_url: Url, timeouts: UpstreamTimeouts) -> Self {
        Self { base_url, timeouts, client: OnceLock::new() }
    }

    /// Creates a request to a path below the base URL.
    ///
    /// # Errors
    /// If the base URL cannot have a path, or the client cannot be created.
    pub fn request(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<RequestBuilder, UpstreamError> {
        let mut url = join_path(&self.base_url, path)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(self.client()?.request(method, url))
    }

    fn client(&self) -> Result<&Client, UpstreamError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let mut builder = Client::builder()
            .user_agent(USER_AGENT)
            .tcp_nodelay(true)
            .connect_timeout(self.timeouts.connect)
            .read_timeout(self.timeouts.read)
            // A redirect could send the key to another host.
            .redirect(redirect::Policy::none());
        if is_loopback(&self.base_url) {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| UpstreamError::Internal { reason: innermost_cause(error) })?;
        Ok(self.client.get_or_init(|| client))
    }
}

/// The URL may contain a password, so only its host is shown.
impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").field("host", &host_and_port(&self.base_url)).finish_non_exhaustive()
    }
}

/// Appends a path to a base URL, with or without a trailing slash.
fn join_path(base: &Url, path: &[&str]) -> Result<Url, UpstreamError> {
    let mut url = base.clone();
    url.path_segments_mut()
        .map_err(|()| UpstreamError::Internal {
            reason: "the upstream's URL cannot be extended with a path".to_owned(),
        })?
        .pop_if_empty()
        .extend(path);
    Ok(url)
}

/// Makes a call and retries it where that helps and no byte of a response has arrived.
///
/// # Errors
/// The error of the last attempt.
pub async fn with_retries<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, UpstreamError>
where
    F: Future<Output = Result<T, UpstreamError>>,
{
    let start = Instant::now();
    let mut retries = 0;
    loop {
        let error = match attempt().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let Some(pause) = retry::next_delay(&error, retries, start.elapsed()) else {
            return Err(error);
        };
        tracing::info!(%error, ?pause, "retrying the upstream request");
        tokio::time::sleep(pause).await;
        retries += 1;
    }
}

/// Sends a request; an error status becomes an [`UpstreamErrorResponse`] with a limited part of its body.
///
/// # Errors
/// If there is no response, or one with a redirect or an error status.
pub async fn send(request: RequestBuilder, redact: impl Fn(Bytes) -> Bytes) -> Result<Response, UpstreamError> {
    let response = request.send().await.map_err(transport_error)?;
    let status = response.status();
    if status.is_redirection() {
        let reason = format!("redirect (status {status}) is not followed");
        return Err(UpstreamError::InvalidResponse { reason });
    }
    if !status.is_success() {
        let headers = forwarded_headers(response.headers());
        let body = redact(read_error_body(response).await);
        return Err(UpstreamError::from(UpstreamErrorResponse { status, headers, body }));
    }
    Ok(response)
}

/// Converts a successful response into the requested form.
///
/// # Errors
/// If the body cannot be read or is no event stream although one was requested.
pub async fn read_response(response: Response, stream: bool) -> Result<UpstreamResponse, UpstreamError> {
    let headers = forwarded_headers(response.headers());
    let body = if stream {
        if !is_event_stream(response.headers()) {
            let reason = "expected an event stream".to_owned();
            return Err(UpstreamError::InvalidResponse { reason });
        }
        UpstreamResponseBody::Events(response.bytes_stream().map_err(transport_error).boxed())
    } else {
        UpstreamResponseBody::Whole(read_body(response).await?)
    };
    Ok(UpstreamResponse { headers, body })
}

/// Reads the complete body of a successful response.
///
/// # Errors
/// If the connection ends before the body, or the body is too large.
pub async fn read_body(mut response: Response) -> Result<Bytes, UpstreamError> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(transport_error)? {
        if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
            let reason = format!("the body is larger than {MAX_RESPONSE_BYTES} bytes");
            return Err(UpstreamError::InvalidResponse { reason });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// A header value with a credential.
///
/// # Errors
/// If the text is not allowed in a header.
pub fn secret_header_value(text: &str) -> Result<HeaderValue, UpstreamError> {
    let mut value = header_value(text, "the upstream's credential")?;
    value.set_sensitive(true);
    Ok(value)
}

/// A header value with text from outside.
///
/// # Errors
/// If the text is not allowed in a header.
pub fn header_value(text: &str, what: &str) -> Result<HeaderValue, UpstreamError> {
    HeaderValue::from_str(text).map_err(|_| UpstreamError::Internal {
        reason: format!("{what} contains characters that are not allowed in a header"),
    })
}

/// Reads an error's body as far as possible; a part is better than nothing, because only people read it.
async fn read_error_body(mut response: Response) -> Bytes {
    let mut body = BytesMut::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        if body.len() + chunk.len() > MAX_ERROR_BODY_BYTES {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    body.freeze()
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

fn forwarded_headers(headers: &HeaderMap) -> HeaderMap {
    FORWARDED_HEADERS.iter().filter_map(|name| Some((name.clone(), headers.get(name)?.clone()))).collect()
}

fn transport_error(error: reqwest::Error) -> UpstreamError {
    if error.is_timeout() {
        UpstreamError::TimedOut
    } else if error.is_connect() {
        UpstreamError::Unreachable { reason: innermost_cause(error) }
    } else {
        UpstreamError::Interrupted { reason: innermost_cause(error) }
    }
}

/// The innermost cause of an error, which is the useful part; without the URL, which may contain a password.
fn innermost_cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
