//! A window on what agents send and what becomes of it, for tests and diagnostics.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, header};
use tokio::sync::watch;

use crate::usage::TokenCounts;

/// Is shown every authenticated request, before it is routed. Called on the request's path: be quick.
pub trait RequestObserver: Send + Sync {
    /// Takes one request.
    fn observe(&self, request: ObservedRequest);

    /// Is told when a request is over, also one that was not authenticated.
    fn observe_finished(&self, request: &FinishedRequest) {
        let _ = request;
    }
}

/// What became of a request. Holds nothing of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedRequest {
    /// The id of the lease that the bearer carried; absent if the request was not authenticated.
    pub lease: Option<String>,
    /// The method, such as `POST`.
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// The model that the upstream was asked for, once that was known.
    pub model: Option<String>,
    /// The upstream that was chosen, once that was known.
    pub upstream: Option<String>,
    /// The status of the answer; absent if the client left before there was one.
    pub status: Option<u16>,
    /// From the request to its end.
    pub duration: Duration,
    /// From the request to the first event, for streams.
    pub time_to_first_event: Option<Duration>,
    /// The tokens that were counted.
    pub tokens: TokenCounts,
    /// How it ended.
    pub outcome: RequestOutcome,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestOutcome {
    /// With a whole answer.
    Completed,
    /// With an error in its place.
    Failed,
    /// With an error in the middle of its stream.
    StreamInterrupted,
    /// The client did not wait for the end.
    ClientDisconnected,
}

impl RequestOutcome {
    /// In a word.
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

/// Prompts do not belong into logs: the body is shown by its length only.
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

/// The headers with their credentials replaced.
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

/// An observer that keeps the last requests; older ones are forgotten.
#[derive(Debug)]
pub struct RequestLog {
    capacity: usize,
    requests: Mutex<VecDeque<ObservedRequest>>,
    seen_count: watch::Sender<u64>,
}

impl RequestLog {
    /// A log that keeps this many requests.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { capacity, requests: Mutex::default(), seen_count: watch::Sender::new(0) }
    }

    /// The requests kept, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<ObservedRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Returns once this many requests have been seen in all.
    pub async fn wait_for(&self, count: u64) {
        // Fails only when the sender is gone, and `self` holds it.
        let _ = self.seen_count.subscribe().wait_for(|seen| *seen >= count).await;
    }
}

impl RequestObserver for RequestLog {
    fn observe(&self, request: ObservedRequest) {
        {
            let mut kept = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push_back(request);
            while kept.len() > self.capacity {
                kept.pop_front();
            }
        }
        self.seen_count.send_modify(|seen| *seen += 1);
    }
}
