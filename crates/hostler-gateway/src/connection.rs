//! Limits on connections: how many there are in each state and how long they may be inactive.
//!
//! A connection is *unauthenticated* until a request on it carries a valid bearer, *busy* while an authenticated
//! request is answered, and *idle* after that. Each state has its own limits. When there are too many unauthenticated
//! or idle connections, the oldest one is closed, so connections of other local users, which have no bearer, never lock
//! out an agent.

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

/// Limits on a gateway's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayConnectionLimits {
    /// Connections without an authenticated request so far; when exceeded, the oldest one is closed.
    pub max_unauthenticated: usize,
    /// Authenticated connections without a running request; when exceeded, the one that has been idle longest is
    /// closed.
    pub max_idle: usize,
    /// Concurrent authenticated requests; further requests are answered with 503.
    pub max_busy: usize,
    /// Maximum time for an unauthenticated connection to send a request head.
    pub head_timeout: Duration,
    /// Maximum time an authenticated connection stays open without a request.
    pub idle_timeout: Duration,
    /// Maximum time between two chunks of a request body.
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

/// Tracks the connections of one gateway.
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

    /// Number of connections that have not authenticated.
    pub(crate) fn unauthenticated_count(&self) -> usize {
        self.unauthenticated.len()
    }

    /// Tracks a newly accepted connection.
    pub(crate) fn accept(self: &Arc<Self>) -> Arc<TrackedConnection> {
        let evicted = CancellationToken::new();
        let place = ConnectionSlot::Evictable { _member: self.unauthenticated.insert(evicted.clone()) };
        let until = Instant::now() + self.limits.head_timeout;
        let state = State { slot: place, authenticated: false, in_request: false, close_at: until };
        Arc::new(TrackedConnection { tracker: Arc::clone(self), evicted, state: Mutex::new(state) })
    }
}

/// One tracked connection.
pub(crate) struct TrackedConnection {
    tracker: Arc<ConnectionTracker>,
    evicted: CancellationToken,
    state: Mutex<State>,
}

struct State {
    slot: ConnectionSlot,
    authenticated: bool,
    /// Whether a request is being answered.
    in_request: bool,
    /// When the connection is closed if no request runs.
    close_at: Instant,
}

/// The state that the connection is counted under; dropping it ends the count.
enum ConnectionSlot {
    Evictable { _member: EvictingSetMember },
    Busy { _permit: OwnedSemaphorePermit },
    None,
}

/// The limit of concurrent requests is reached.
#[derive(Debug)]
pub(crate) struct TooManyRequests;

impl TrackedConnection {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the start of a request, after its head has arrived. The request lasts until the guard is dropped.
    pub(crate) fn begin_request(self: &Arc<Self>) -> RequestGuard {
        self.state().in_request = true;
        RequestGuard(Arc::clone(self))
    }

    /// Marks the connection as busy after its request has authenticated: it is not closed before the request is
    /// answered.
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

    /// Returns the reason once the connection should be closed: evicted for another connection, or inactive for too
    /// long.
    pub(crate) async fn wait_until_overdue(&self) -> &'static str {
        loop {
            let until = {
                let state = self.state();
                if state.in_request { Instant::now() + self.tracker.limits.head_timeout } else { state.close_at }
            };
            tokio::select! {
                () = self.evicted.cancelled() => return "evicted for another connection",
                () = sleep_until(until) => {
                    let state = self.state();
                    if !state.in_request && state.close_at <= Instant::now() {
                        return "no request arrived in time";
                    }
                }
            }
        }
    }

    /// Whether an authenticated request is being answered.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.state().slot, ConnectionSlot::Busy { .. })
    }
}

/// Marks a connection as busy with a request; dropping it ends the request.
pub(crate) struct RequestGuard(Arc<TrackedConnection>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.end_request();
    }
}

/// A response body that ends its request when it is dropped.
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
