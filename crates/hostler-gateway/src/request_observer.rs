//! Observers of requests and their outcomes, for tests and diagnostics.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, header};
use tokio::sync::watch;

use crate::usage::TokenCounts;

/// Receives every authenticated request before it is routed. Called on the request's path, so it must be fast.
pub trait RequestObserver: Send + Sync {
    /// Receives one request.
    fn observe(&self, request: ObservedRequest);

    /// Called when a request has ended, also one that was not authenticated.
    fn observe_finished(&self, request: &FinishedRequest) {
        let _ = request;
    }
}

/// Outcome of a request. Contains none of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedRequest {
    /// The id of the lease that the bearer carried; absent if the request was not authenticated.
    pub lease: Option<String>,
    /// The method, such as `POST`.
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// The model that was requested from the upstream, if known.
    pub model: Option<String>,
    /// The selected upstream, if known.
    pub upstream: Option<String>,
    /// The response status; absent if the client disconnected before there was one.
    pub status: Option<u16>,
    /// From the request's arrival to its end.
    pub duration: Duration,
    /// From the request's arrival to the first event, for streams.
    pub time_to_first_event: Option<Duration>,
    /// The counted tokens.
    pub tokens: TokenCounts,
    /// How it ended.
    pub outcome: RequestOutcome,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestOutcome {
    /// With a complete response.
    Completed,
    /// With an error response.
    Failed,
    /// With an error in the middle of its stream.
    StreamInterrupted,
    /// The client disconnected before the end.
    ClientDisconnected,
}

impl RequestOutcome {
    /// Name of the outcome in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "answered",
            Self::Failed => "refused",
            Self::StreamInterrupted => "broken-off",
            Self::ClientDisconnected => "client-left",
        }
    }
}

/// A request as the gateway received it, with credentials replaced.
#[derive(Clone, PartialEq, Eq)]
pub struct ObservedRequest {
    /// The id of the lease that the bearer carried.
    pub lease: String,
    /// The method, such as `POST`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// All headers in the order of arrival; names in lower case, credentials as `[redacted]`.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Bytes,
}

impl ObservedRequest {
    /// The value of a header, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The body is shown by its length only, because it contains prompts.
impl fmt::Debug for ObservedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedRequest")
            .field("lease", &self.lease)
            .field("method", &self.method)
            .field("path", &self.path)
            .field("headers", &self.headers)
            .field("body", &format_args!("{} bytes", self.body.len()))
            .finish()
    }
}

const CREDENTIAL_HEADERS: [HeaderName; 4] =
    [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE, HeaderName::from_static("x-api-key")];

/// The headers with credentials redacted.
pub(crate) fn redact_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .map(|(name, value)| {
            let value = if CREDENTIAL_HEADERS.contains(name) {
                "[redacted]".to_owned()
            } else {
                String::from_utf8_lossy(value.as_bytes()).into_owned()
            };
            (name.as_str().to_owned(), value)
        })
        .collect()
}

/// An observer that stores the last requests.
#[derive(Debug)]
pub struct RequestLog {
    capacity: usize,
    requests: Mutex<VecDeque<ObservedRequest>>,
    seen_count: watch::Sender<u64>,
}

impl RequestLog {
    /// Stores at most this many requests.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { capacity, requests: Mutex::default(), seen_count: watch::Sender::new(0) }
    }

    /// The stored requests, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<ObservedRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Returns once this many requests have been observed in total.
    pub async fn wait_for(&self, count: u64) {
        // Fails only if the sender is dropped, and `self` holds it.
        let _ = self.seen_count.subscribe().wait_for(|seen| *seen >= count).await;
    }
}

impl RequestObserver for RequestLog {
    fn observe(&self, request: ObservedRequest) {
        {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            requests.push_back(request);
            while requests.len() > self.capacity {
                requests.pop_front();
            }
        }
        self.seen_count.send_modify(|seen| *seen += 1);
    }
}
