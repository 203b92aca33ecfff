//! One connection: its place among the others, and how long it may do nothing.
//!
//! A connection is *unauthenticated* until a request on it shows a bearer, *busy* while an authenticated request is answered,
//! and *idle* after that. Each of the three has bounds of its own. Where unauthenticated or idle connections are too many, the
//! oldest is closed; so connections of other users of the machine, which have no bearer, never keep an agent out.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hostler_net::{EvictingSet, EvictingSetMember};
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::relay::ResponseBody;

/// Bounds of a gateway's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayConnectionLimits {
    /// Connections on which no bearer was shown yet; the oldest is closed for the next one.
    pub max_unauthenticated: usize,
    /// Authenticated connections without a request; the one that has been idle for longest is closed for the next one.
    pub max_idle: usize,
    /// Authenticated requests at a time; the next one is answered with 503.
    pub max_busy: usize,
    /// How long a connection without a bearer may take to send the head of a request.
    pub head_timeout: Duration,
    /// How long an authenticated connection is kept without a request.
    pub idle_timeout: Duration,
    /// How long the next bytes of a request's body may take.
    pub body_timeout: Duration,
}

impl Default for GatewayConnectionLimits {
    fn default() -> Self {
        Self {
            max_unauthenticated: 256,
            max_idle: 256,
            max_busy: 1024,
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(5 * 60),
            body_timeout: Duration::from_secs(30),
        }
    }
}

/// The connections of one gateway.
pub(crate) struct ConnectionTracker {
    limits: GatewayConnectionLimits,
    unauthenticated: Arc<EvictingSet>,
    idle: Arc<EvictingSet>,
    busy: Arc<Semaphore>,
}

impl ConnectionTracker {
    pub(crate) fn new(limits: GatewayConnectionLimits) -> Self {
        Self {
            limits,
            unauthenticated: EvictingSet::new(limits.max_unauthenticated),
            idle: EvictingSet::new(limits.max_idle),
            busy: Arc::new(Semaphore::new(limits.max_busy.min(Semaphore::MAX_PERMITS))),
        }
    }

    pub(crate) fn limits(&self) -> &GatewayConnectionLimits {
        &self.limits
    }

    /// How many connections have shown no bearer.
    pub(crate) fn unauthenticated_count(&self) -> usize {
        self.unauthenticated.len()
    }

    /// Adds a connection that was just accepted.
    pub(crate) fn accept(self: &Arc<Self>) -> Arc<TrackedConnection> {
        let evicted = CancellationToken::new();
        let place = ConnectionSlot::Evictable { _member: self.unauthenticated.insert(evicted.clone()) };
        let until = Instant::now() + self.limits.head_timeout;
        let state = State { slot: place, authenticated: false, in_request: false, close_at: until };
        Arc::new(TrackedConnection { tracker: Arc::clone(self), evicted, state: Mutex::new(state) })
    }
}

/// One of them.
pub(crate) struct TrackedConnection {
    tracker: Arc<ConnectionTracker>,
    evicted: CancellationToken,
    state: Mutex<State>,
}

struct State {
    slot: ConnectionSlot,
    authenticated: bool,
    /// A request is being answered.
    in_request: bool,
    /// When a connection without a request is closed.
    close_at: Instant,
}

/// What a connection is counted as, for as long as it is.
enum ConnectionSlot {
    Evictable { _member: EvictingSetMember },
    Busy { _permit: OwnedSemaphorePermit },
    None,
}

/// As many requests are answered as may be.
#[derive(Debug)]
pub(crate) struct TooManyRequests;

impl TrackedConnection {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The head of a request has arrived; the request lasts as long as what is returned.
    pub(crate) fn begin_request(self: &Arc<Self>) -> RequestGuard {
        self.state().in_request = true;
        RequestGuard(Arc::clone(self))
    }

    /// The request has shown a bearer: nothing closes the connection before it is answered.
    pub(crate) fn mark_authenticated(&self) -> Result<(), TooManyRequests> {
        let permit = Arc::clone(&self.tracker.busy).try_acquire_owned().map_err(|_| TooManyRequests)?;
        let mut state = self.state();
        state.authenticated = true;
        state.slot = ConnectionSlot::Busy { _permit: permit };
        Ok(())
    }

    fn end_request(&self) {
        let ConnectionTracker { limits, idle, .. } = &*self.tracker;
        let mut state = self.state();
        state.in_request = false;
        let wait = if state.authenticated { limits.idle_timeout } else { limits.head_timeout };
        state.close_at = Instant::now() + wait;
        if state.authenticated {
            state.slot = ConnectionSlot::None;
            state.slot = ConnectionSlot::Evictable { _member: idle.insert(self.evicted.clone()) };
        }
    }

    /// Returns once the connection is to be closed, and says why: it made room for another one, or had no request for too long.
    pub(crate) async fn wait_until_overdue(&self) -> &'static str {
        loop {
            let until = {
                let state = self.state();
                if state.in_request { Instant::now() + self.tracker.limits.head_timeout } else { state.close_at }
            };
            tokio::select! {
                () = self.evicted.cancelled() => return "it made room for another connection",
                () = sleep_until(until) => {
                    let state = self.state();
                    if !state.in_request && state.close_at <= Instant::now() {
                        return "no request came in time";
                    }
                }
            }
        }
    }

    /// Whether a request with a bearer is being answered.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.state().slot, ConnectionSlot::Busy { .. })
    }
}

/// A request that is being answered.
pub(crate) struct RequestGuard(Arc<TrackedConnection>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.end_request();
    }
}

/// A response's body; the request is over when it is dropped.
pub(crate) struct TrackedBody {
    pub(crate) body: ResponseBody,
    pub(crate) _guard: RequestGuard,
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = <ResponseBody as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
