//! Lifetime of one request, from its arrival to its last byte: counts it as in flight and reports its outcome at the
//! end.
//!
//! A request can end in many ways, most often by being dropped, so its outcome is reported in `Drop`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, StatusCode};

use crate::gateway::GatewayState;
use crate::request_observer::{FinishedRequest, RequestOutcome};
use crate::usage::TokenCounts;

/// A request that is being answered; empty after [`take`](Self::take) has moved it into a stream.
pub(crate) struct ForwardedRequest(Option<Box<ForwardedRequestState>>);

struct ForwardedRequestState {
    shared: Arc<GatewayState>,
    started: Instant,
    request: FinishedRequest,
    /// Whether it counts as in flight.
    is_in_flight: bool,
}

impl ForwardedRequest {
    /// Starts tracking a request; its lease is not known yet.
    pub(crate) fn begin(shared: Arc<GatewayState>, method: &Method, path: &str) -> Self {
        let request = FinishedRequest {
            lease: None,
            method: method.to_string(),
            path: path.to_owned(),
            model: None,
            upstream: None,
            status: None,
            duration: Duration::ZERO,
            time_to_first_event: None,
            tokens: TokenCounts::default(),
            // The outcome if the request is dropped before another one is set.
            outcome: RequestOutcome::ClientDisconnected,
        };
        Self(Some(Box::new(ForwardedRequestState { shared, started: Instant::now(), request, is_in_flight: false })))
    }

    /// Moves the request out; this value then reports nothing.
    pub(crate) fn take(&mut self) -> Self {
        Self(self.0.take())
    }

    pub(crate) fn set_lease(&mut self, lease: &str) {
        self.update(|open| open.request.lease = Some(lease.to_owned()));
    }

    /// Marks the request as forwarded to an upstream; from here on it counts as in flight.
    pub(crate) fn mark_in_flight(&mut self) {
        self.update(|open| {
            open.is_in_flight = true;
            open.shared.begin_request();
        });
    }

    pub(crate) fn set_route(&mut self, upstream: &str, model: &str) {
        self.update(|open| {
            open.request.upstream = Some(upstream.to_owned());
            open.request.model = Some(model.to_owned());
        });
    }

    pub(crate) fn set_tokens(&mut self, tokens: TokenCounts) {
        self.update(|open| open.request.tokens = tokens);
    }

    /// Records the status of a complete response.
    pub(crate) fn set_status(&mut self, status: StatusCode) {
        self.update(|open| {
            open.request.status = Some(status.as_u16());
            open.request.outcome = if status.is_success() { RequestOutcome::Completed } else { RequestOutcome::Failed };
        });
    }

    /// Records the first event of a stream; its outcome is still open.
    pub(crate) fn mark_streaming(&mut self) {
        self.update(|open| {
            open.request.status = Some(StatusCode::OK.as_u16());
            open.request.time_to_first_event = Some(open.started.elapsed());
        });
    }

    /// Records how the stream ended.
    pub(crate) fn set_outcome(&mut self, ending: RequestOutcome) {
        self.update(|open| open.request.outcome = ending);
    }

    fn update(&mut self, change: impl FnOnce(&mut ForwardedRequestState)) {
        if let Some(open) = &mut self.0 {
            change(open);
        }
    }
}

impl Drop for ForwardedRequestState {
    fn drop(&mut self) {
        self.request.duration = self.started.elapsed();
        if self.is_in_flight {
            self.shared.end_request();
        }
        self.shared.metrics.record(&self.request);
        if let Some(observer) = &self.shared.observer {
            observer.observe_finished(&self.request);
        }
    }
}
