//! Requests of the host to a client: numbered per connection, bounded, and never waited for in vain.
//!
//! It knows nothing of what is asked for. An answer that nobody waits for (any more) is ignored.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::encode::{self, Frame};
use crate::rpc::{RequestId, RpcError};

/// How many requests may wait for one client.
const MAX_OPEN: usize = 16;

type Answer = Result<Value, RpcError>;

/// Why there is no answer.
#[derive(Debug, PartialEq)]
pub(crate) enum CallError {
    /// The connection has ended.
    Gone,
    /// The client took too long.
    TimedOut,
    /// The client has as many requests as it may have.
    Busy,
    /// The client answered with an error.
    Refused(RpcError),
}

/// The way to ask one client. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Reverse(Arc<Shared>);

struct Shared {
    frames: mpsc::Sender<Frame>,
    patience: Duration,
    next: AtomicU64,
    open: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
    gone: CancellationToken,
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Answer>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is forgotten when nobody waits for it any more.
struct Open<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.shared.open().remove(&self.id);
    }
}

impl Reverse {
    pub(crate) fn new(frames: mpsc::Sender<Frame>, patience: Duration) -> Self {
        let (next, open, gone) = (AtomicU64::new(1), Mutex::default(), CancellationToken::new());
        Self(Arc::new(Shared { frames, patience, next, open, gone }))
    }

    /// Fails everything that waits, and everything that is asked later, when the guard is dropped.
    pub(crate) fn hang_up_on_drop(&self) -> DropGuard {
        self.0.gone.clone().drop_guard()
    }

    /// Asks the client and waits for its answer.
    pub(crate) async fn call(&self, method: &'static str, params: &impl Serialize) -> Result<Value, CallError> {
        let shared = &*self.0;
        let (sender, answer) = oneshot::channel();
        let open = {
            let mut waiting = shared.open();
            if waiting.len() >= MAX_OPEN {
                return Err(CallError::Busy);
            }
            let id = shared.next.fetch_add(1, Ordering::Relaxed);
            waiting.insert(id, sender);
            Open { shared, id }
        };
        let asked = async {
            let frame = encode::request(open.id, method, params);
            shared.frames.send(frame).await.map_err(|_| CallError::Gone)?;
            answer.await.map_err(|_| CallError::Gone)?.map_err(CallError::Refused)
        };
        tokio::select! {
            () = shared.gone.cancelled() => Err(CallError::Gone),
            answer = tokio::time::timeout(shared.patience, asked) => answer.unwrap_or(Err(CallError::TimedOut)),
        }
    }

    /// The client has answered something.
    pub(crate) fn answered(&self, id: &RequestId, answer: Answer) {
        let waiting = id.as_u64().and_then(|id| self.0.open().remove(&id));
        match waiting {
            // Nobody may wait any more.
            Some(waiting) => drop(waiting.send(answer)),
            None => tracing::debug!("an answer that nobody waits for was ignored"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reverse(patience: Duration) -> (Reverse, mpsc::Receiver<Frame>) {
        let (frames, asked) = mpsc::channel(64);
        (Reverse::new(frames, patience), asked)
    }

    const LONG: Duration = Duration::from_secs(600);

    async fn id(asked: &mut mpsc::Receiver<Frame>) -> Value {
        let request: Value = serde_json::from_slice(&asked.recv().await.unwrap()).unwrap();
        assert_eq!((&request["jsonrpc"], &request["method"]), (&json!("2.0"), &json!("ask")));
        request["id"].clone()
    }

    #[tokio::test]
    async fn answers_find_their_requests_in_any_order() {
        let (reverse, mut asked) = reverse(LONG);
        let answering = async {
            let (first, second) = (id(&mut asked).await, id(&mut asked).await);
            assert_ne!(first, second);
            reverse.answered(&json!("nonsense"), Ok(json!("nobody")));
            reverse.answered(&second, Ok(json!("second")));
            reverse.answered(&second, Ok(json!("again")));
            reverse.answered(&first, Err(RpcError::new(-32009, "no")));
        };
        let (a, b) = (reverse.call("ask", &()), reverse.call("ask", &()));
        let (a, b, ()) = tokio::join!(a, b, answering);
        assert_eq!(a, Err(CallError::Refused(RpcError::new(-32009, "no"))));
        assert_eq!(b, Ok(json!("second")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_answers_is_not_waited_for_and_may_be_late() {
        let (reverse, mut asked) = reverse(Duration::from_secs(30));
        assert_eq!(reverse.call("ask", &()).await, Err(CallError::TimedOut));
        reverse.answered(&id(&mut asked).await, Ok(Value::Null));
        assert!(reverse.0.open().is_empty());
    }

    #[tokio::test]
    async fn the_end_of_the_connection_fails_what_waits_and_what_follows() {
        let (reverse, mut asked) = reverse(LONG);
        let guard = reverse.hang_up_on_drop();
        let ending = async {
            id(&mut asked).await;
            drop(guard);
        };
        let (answer, ()) = tokio::join!(reverse.call("ask", &()), ending);
        assert_eq!(answer, Err(CallError::Gone));
        assert_eq!(reverse.call("ask", &()).await, Err(CallError::Gone));
        assert!(reverse.0.open().is_empty());
    }

    #[tokio::test]
    async fn no_more_than_a_few_wait_at_a_time() {
        let (reverse, _asked) = reverse(LONG);
        let mut waiting: Vec<_> = (0..MAX_OPEN).map(|_| Box::pin(reverse.call("ask", &()))).collect();
        for call in &mut waiting {
            assert!(futures::poll!(call).is_pending());
        }
        assert_eq!(reverse.call("ask", &()).await, Err(CallError::Busy));
        drop(waiting);
        assert!(futures::poll!(Box::pin(reverse.call("ask", &()))).is_pending());
    }
}
