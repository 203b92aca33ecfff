//! What every upstream that is called over HTTP shares: the client, the answer's mapping, the second try.

use std::fmt;
use std::future::Future;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt};
use hostler_redact::host_and_port;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use reqwest::{Client, RequestBuilder, Response, redirect};
use url::{Host, Url};

use super::{UpstreamError, UpstreamErrorResponse, UpstreamResponse, UpstreamResponseBody, retry};

/// More of an error body is not read.
const MAX_ERROR_BODY_BYTES: usize = 1024 * 1024;
/// More of a whole answer is not read; the longest message is far below it.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;
/// Headers of an answer that reach the client.
const FORWARDED_HEADERS: [HeaderName; 3] =
    [header::RETRY_AFTER, HeaderName::from_static("request-id"), HeaderName::from_static("x-should-retry")];
const USER_AGENT: &str = concat!("hostler-gateway/", env!("CARGO_PKG_VERSION"));

/// How long a server may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// How long a connection may take to come about.
    pub connect: Duration,
    /// How long the upstream may be silent, before its answer and within it.
    pub read: Duration,
}

/// 10 s to connect, 10 min of silence (a long answer without streaming is silent as long).
impl Default for UpstreamTimeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), read: Duration::from_secs(600) }
    }
}

/// A server and the way to call it.
pub(crate) struct HttpClient {
    base_url: Url,
    timeouts: UpstreamTimeouts,
    /// Made at the first call: reading the system's certificates is not for the start of the host.
    client: OnceLock<Client>,
}

impl HttpClient {
    /// A client that has not connected yet.
    pub(crate) fn new(base_url: Url, timeouts: UpstreamTimeouts) -> Self {
        Self { base_url, timeouts, client: OnceLock::new() }
    }

    /// A request to a path below the base URL.
    pub(crate) fn request(
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
            // A redirect would carry the key to wherever it points.
            .redirect(redirect::Policy::none());
        if is_loopback(&self.base_url) {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| UpstreamError::Internal { reason: innermost_cause(error) })?;
        Ok(self.client.get_or_init(|| client))
    }
}

/// The URL may hold a password: only its host is shown.
impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").field("host", &host_and_port(&self.base_url)).finish_non_exhaustive()
    }
}

/// A path below a base URL, whether or not that ends in a slash.
fn join_path(base: &Url, path: &[&str]) -> Result<Url, UpstreamError> {
    let mut url = base.clone();
    url.path_segments_mut()
        .map_err(|()| UpstreamError::Internal { reason: "the upstream's URL cannot have a path".to_owned() })?
        .pop_if_empty()
        .extend(path);
    Ok(url)
}

/// Makes a call, and makes it again where that helps and no byte of an answer has been seen.
pub(crate) async fn with_retries<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, UpstreamError>
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
        tracing::info!(%error, ?pause, "the upstream call is tried again");
        tokio::time::sleep(pause).await;
        retries += 1;
    }
}

/// Sends a request; an error status is a [`Refusal`] with as much of its body as is worth reading.
pub(crate) async fn send(request: RequestBuilder, redact: impl Fn(Bytes) -> Bytes) -> Result<Response, UpstreamError> {
    let response = request.send().await.map_err(transport_error)?;
    let status = response.status();
    if status.is_redirection() {
        let reason = format!("it redirects (status {status}), which is not followed");
        return Err(UpstreamError::InvalidResponse { reason });
    }
    if !status.is_success() {
        let headers = forwarded_headers(response.headers());
        let body = redact(read_error_body(response).await);
        return Err(UpstreamError::from(UpstreamErrorResponse { status, headers, body }));
    }
    Ok(response)
}

/// A successful response as the answer that was asked for.
pub(crate) async fn read_response(response: Response, stream: bool) -> Result<UpstreamResponse, UpstreamError> {
    let headers = forwarded_headers(response.headers());
    let body = if stream {
        if !is_event_stream(response.headers()) {
            let reason = "a stream was asked for and something else came".to_owned();
            return Err(UpstreamError::InvalidResponse { reason });
        }
        UpstreamResponseBody::Events(response.bytes_stream().map_err(transport_error).boxed())
    } else {
        UpstreamResponseBody::Whole(read_body(response).await?)
    };
    Ok(UpstreamResponse { headers, body })
}

/// The whole body of a successful response.
pub(crate) async fn read_body(mut response: Response) -> Result<Bytes, UpstreamError> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(transport_error)? {
        if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
            let reason = format!("it is longer than {MAX_RESPONSE_BYTES} bytes");
            return Err(UpstreamError::InvalidResponse { reason });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// A header that carries a credential.
pub(crate) fn secret_header_value(text: &str) -> Result<HeaderValue, UpstreamError> {
    let mut value = header_value(text, "the upstream's credential")?;
    value.set_sensitive(true);
    Ok(value)
}

/// Any other header whose text we do not control.
pub(crate) fn header_value(text: &str, what: &str) -> Result<HeaderValue, UpstreamError> {
    HeaderValue::from_str(text)
        .map_err(|_| UpstreamError::Internal { reason: format!("{what} holds characters that no header can carry") })
}

/// What could be read of an error's body; it is only told to people, so a part is better than nothing.
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

pub(crate) fn transport_error(error: reqwest::Error) -> UpstreamError {
    if error.is_timeout() {
        UpstreamError::TimedOut
    } else if error.is_connect() {
        UpstreamError::Unreachable { reason: innermost_cause(error) }
    } else {
        UpstreamError::Interrupted { reason: innermost_cause(error) }
    }
}

/// The error's innermost cause, which is the part that helps; the URL is left out, since it may hold a password.
fn innermost_cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
