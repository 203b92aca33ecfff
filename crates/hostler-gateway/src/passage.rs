//! One request from its arrival to its last byte: counted while it lasts, told about when it is over.
//!
//! A request ends in many ways, most of them by being dropped, so its end is the end of this value.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, StatusCode};

use crate::gateway::Shared;
use crate::observe::{Ending, FinishedRequest};
use crate::usage::TokenCounts;

/// A request that is being answered; empty once it was handed over to a stream.
pub(crate) struct Passage(Option<Box<Open>>);

struct Open {
    shared: Arc<Shared>,
    started: Instant,
    request: FinishedRequest,
    /// It counts as in flight.
    taken_on: bool,
}

impl Passage {
    /// A request has arrived; nothing is known about its sender yet.
    pub(crate) fn begin(shared: Arc<Shared>, method: &Method, path: &str) -> Self {
        let request = FinishedRequest {
            lease: None,
            method: method.to_string(),
            path: path.to_owned(),
            model: None,
            upstream: None,
            status: None,
            duration: Duration::ZERO,
            first_event: None,
            tokens: TokenCounts::default(),
            // What it is if nothing else is said until it is dropped.
            ending: Ending::ClientLeft,
        };
        Self(Some(Box::new(Open { shared, started: Instant::now(), request, taken_on: false })))
    }

    /// Leaves the rest of the way to somebody else.
    pub(crate) fn hand_over(&mut self) -> Self {
        Self(self.0.take())
    }

    pub(crate) fn authenticated(&mut self, lease: &str) {
        self.tell(|open| open.request.lease = Some(lease.to_owned()));
    }

    /// It goes to an upstream; from here on it counts as a request that is being answered.
    pub(crate) fn taken_on(&mut self) {
        self.tell(|open| {
            open.taken_on = true;
            open.shared.count_in();
        });
    }

    pub(crate) fn routed(&mut self, upstream: &str, model: &str) {
        self.tell(|open| {
            open.request.upstream = Some(upstream.to_owned());
            open.request.model = Some(model.to_owned());
        });
    }

    pub(crate) fn used(&mut self, tokens: TokenCounts) {
        self.tell(|open| open.request.tokens = tokens);
    }

    /// There is a whole answer.
    pub(crate) fn answered(&mut self, status: StatusCode) {
        self.tell(|open| {
            open.request.status = Some(status.as_u16());
            open.request.ending = if status.is_success() { Ending::Answered } else { Ending::Refused };
        });
    }

    /// The first event of a stream is there; how it ends is still open.
    pub(crate) fn streaming(&mut self) {
        self.tell(|open| {
            open.request.status = Some(StatusCode::OK.as_u16());
            open.request.first_event = Some(open.started.elapsed());
        });
    }

    /// The last event of a stream was handed out.
    pub(crate) fn streamed(&mut self, ending: Ending) {
        self.tell(|open| open.request.ending = ending);
    }

    fn tell(&mut self, change: impl FnOnce(&mut Open)) {
        if let Some(open) = &mut self.0 {
            change(open);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.request.duration = self.started.elapsed();
        if self.taken_on {
            self.shared.count_out();
        }
        self.shared.metrics.finished(&self.request);
        if let Some(observer) = &self.shared.observer {
            observer.finished(&self.request);
        }
    }
}
