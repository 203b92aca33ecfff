//! Host-to-client requests: numbered per connection, limited in number and time.
//!
//! Does not know what the requests ask for. An answer without a pending request is ignored.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::encode::{self, Frame};
use crate::rpc::{JsonRpcId, RpcError};

/// Maximum number of pending requests to one client.
const MAX_PENDING_HOST_REQUESTS: usize = 16;

type ClientAnswer = Result<Value, RpcError>;

/// Why there is no answer.
#[derive(Debug, PartialEq)]
pub(crate) enum HostRequestError {
    /// The connection has ended.
    Disconnected,
    /// The client took too long.
    TimedOut,
    /// Too many requests to this client are pending.
    Busy,
    /// The client answered with an error.
    Rejected(RpcError),
}

/// Sends requests to one client. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HostRequests(Arc<Shared>);

struct Shared {
    frames: mpsc::Sender<Frame>,
    timeout: Duration,
    next_id: AtomicU64,
    pending: Mutex<HashMap<u64, oneshot::Sender<ClientAnswer>>>,
    disconnected: CancellationToken,
}

impl Shared {
    fn lock_pending(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<ClientAnswer>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pending request, removed when its caller stops waiting.
struct PendingHostRequest<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for PendingHostRequest<'_> {
    fn drop(&mut self) {
        self.shared.lock_pending().remove(&self.id);
    }
}

impl HostRequests {
    pub(crate) fn new(frames: mpsc::Sender<Frame>, timeout: Duration) -> Self {
        let (next_id, pending, disconnected) = (AtomicU64::new(1), Mutex::default(), CancellationToken::new());
        Self(Arc::new(Shared { frames, timeout, next_id, pending, disconnected }))
    }

    /// Fails all pending and all later requests when the guard is dropped.
    pub(crate) fn disconnect_on_drop(&self) -> DropGuard {
        self.0.disconnected.clone().drop_guard()
    }

    /// Sends a request to the client and waits for the answer.
    pub(crate) async fn call(&self, method: &'static str, params: &impl Serialize) -> Result<Value, HostRequestError> {
        let shared = &*self.0;
        let (sender, answer) = oneshot::channel();
        let open = {
            let mut waiting = shared.lock_pending();
            if waiting.len() >= MAX_PENDING_HOST_REQUESTS {
                return Err(HostRequestError::Busy);
            }
            let id = shared.next_id.fetch_add(1, Ordering::Relaxed);
            waiting.insert(id, sender);
            PendingHostRequest { shared, id }
        };
        let asked = async {
            let frame = encode::request(open.id, method, params);
            shared.frames.send(frame).await.map_err(|_| HostRequestError::Disconnected)?;
            answer.await.map_err(|_| HostRequestError::Disconnected)?.map_err(HostRequestError::Rejected)
        };
        tokio::select! {
            () = shared.disconnected.cancelled() => Err(HostRequestError::Disconnected),
            answer = tokio::time::timeout(shared.timeout, asked) => answer.unwrap_or(Err(HostRequestError::TimedOut)),
        }
    }

    /// Completes a request with the client's answer.
    pub(crate) fn complete(&self, id: &JsonRpcId, answer: ClientAnswer) {
        let pending = id.as_u64().and_then(|id| self.0.lock_pending().remove(&id));
        match pending {
            // The caller may have stopped waiting.
            Some(caller) => drop(caller.send(answer)),
            None => tracing::debug!("ignored an answer without a pending request"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn host_requests(timeout: Duration) -> (HostRequests, mpsc::Receiver<Frame>) {
        let (frames, asked) = mpsc::channel(64);
        (HostRequests::new(frames, timeout), asked)
    }

    const LONG: Duration = Duration::from_secs(600);

    async fn id(asked: &mut mpsc::Receiver<Frame>) -> Value {
        let request: Value = serde_json::from_slice(&asked.recv().await.unwrap()).unwrap();
        assert_eq!((&request["jsonrpc"], &request["method"]), (&json!("2.0"), &json!("ask")));
        request["id"].clone()
    }

    #[tokio::test]
    async fn answers_are_matched_to_requests_in_any_order() {
        let (requests, mut asked) = host_requests(LONG);
        let answering = async {
            let (first, second) = (id(&mut asked).await, id(&mut asked).await);
            assert_ne!(first, second);
            requests.complete(&json!("nonsense"), Ok(json!("unmatched")));
            requests.complete(&second, Ok(json!("second")));
            requests.complete(&second, Ok(json!("again")));
            requests.complete(&first, Err(RpcError::new(-32009, "no")));
        };
        let (a, b) = (requests.call("ask", &()), requests.call("ask", &()));
        let (a, b, ()) = tokio::join!(a, b, answering);
        assert_eq!(a, Err(HostRequestError::Rejected(RpcError::new(-32009, "no"))));
        assert_eq!(b, Ok(json!("second")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_times_out_and_a_late_answer_is_ignored() {
        let (requests, mut asked) = host_requests(Duration::from_secs(30));
        assert_eq!(requests.call("ask", &()).await, Err(HostRequestError::TimedOut));
        requests.complete(&id(&mut asked).await, Ok(Value::Null));
        assert!(requests.0.lock_pending().is_empty());
    }

    #[tokio::test]
    async fn disconnecting_fails_pending_and_later_requests() {
        let (requests, mut asked) = host_requests(LONG);
        let guard = requests.disconnect_on_drop();
        let ending = async {
            id(&mut asked).await;
            drop(guard);
        };
        let (answer, ()) = tokio::join!(requests.call("ask", &()), ending);
        assert_eq!(answer, Err(HostRequestError::Disconnected));
        assert_eq!(requests.call("ask", &()).await, Err(HostRequestError::Disconnected));
        assert!(requests.0.lock_pending().is_empty());
    }

    #[tokio::test]
    async fn pending_requests_are_limited() {
        let (requests, _asked) = host_requests(LONG);
        let mut waiting: Vec<_> = (0..MAX_PENDING_HOST_REQUESTS).map(|_| Box::pin(requests.call("ask", &()))).collect();
        for call in &mut waiting {
            assert!(futures::poll!(call).is_pending());
        }
        assert_eq!(requests.call("ask", &()).await, Err(HostRequestError::Busy));
        drop(waiting);
        assert!(futures::poll!(Box::pin(requests.call("ask", &()))).is_pending());
    }
}
