//! How much of one client is done at a time: its files are not in the way of what else it says.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Request;
use crate::rpc::RpcError;

/// How many requests are carried out side by side.
const AT_ONCE: usize = 4;

/// How much may be under way, in units of 64 KiB: 128 MiB, or as many requests as there are units.
const ROOM: usize = 2048;

const UNIT: usize = 64 * 1024;

/// One connection's turns.
pub(crate) struct Turns {
    room: Arc<Semaphore>,
    running: Arc<Semaphore>,
    /// For what a client does: it may need the host's files for that, and take its time.
    relayed: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Self {
        let room = |most| Arc::new(Semaphore::new(most));
        Self { room: room(ROOM), running: room(AT_ONCE), relayed: room(AT_ONCE) }
    }
}

/// A place among them.
pub(crate) struct Turn {
    _room: OwnedSemaphorePermit,
    running: Arc<Semaphore>,
}

impl Turns {
    /// Takes a request in, if there is room for it.
    pub(crate) fn take(&self, request: &Request) -> Result<Turn, RpcError> {
        self.take_among(&self.running, request)
    }

    /// The same for one that a client carries out.
    pub(crate) fn take_relayed(&self, request: &Request) -> Result<Turn, RpcError> {
        self.take_among(&self.relayed, request)
    }

    fn take_among(&self, running: &Arc<Semaphore>, request: &Request) -> Result<Turn, RpcError> {
        let units = u32::try_from(request.size() / UNIT + 1).unwrap_or(u32::MAX);
        match Arc::clone(&self.room).try_acquire_many_owned(units) {
            Ok(room) => Ok(Turn { _room: room, running: Arc::clone(running) }),
            Err(_) => Err(RpcError::new(-32603, "too much is under way with files; wait for some answers first")),
        }
    }
}

impl Turn {
    /// Does it when it is its turn. The next one begins when the answer is on its way: a client that does not read holds up
    /// its own files, and few of them.
    pub(crate) async fn run(
        self,
        act: impl Future<Output = Result<Value, RpcError>>,
        answer: impl AsyncFnOnce(Result<Value, RpcError>),
    ) {
        // Nobody closes it.
        let _running = self.running.acquire().await;
        let result = act.await;
        answer(result).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn write(bytes: usize) -> Request {
        let params = json!({"uri": "file:///x", "data": "x".repeat(bytes), "encoding": "utf-8"});
        Request::read("resourceWrite", params).unwrap()
    }

    #[test]
    fn room_is_by_bytes_and_comes_back() {
        let turns = Turns::default();
        let first = turns.take(&write(100 << 20)).unwrap();
        assert_eq!(turns.take(&write(64 << 20)).err().unwrap().code, -32603);
        drop(first);
        let many: Vec<_> = (0..ROOM).map(|_| turns.take(&write(1)).unwrap()).collect();
        assert!(turns.take(&write(1)).is_err());
        drop(many);
        assert!(turns.take(&write(1)).is_ok());
    }

    #[tokio::test]
    async fn only_a_few_run_side_by_side() {
        let turns = Turns::default();
        // The answer has nowhere to go.
        let stuck = async |_| std::future::pending().await;
        let done = || async { Ok(Value::Null) };
        let mut running: Vec<_> =
            (0..AT_ONCE).map(|_| Box::pin(turns.take(&write(1)).unwrap().run(done(), stuck))).collect();
        for turn in &mut running {
            assert!(futures::poll!(turn).is_pending());
        }
        let mut answered = None;
        let mut next = Box::pin(turns.take(&write(1)).unwrap().run(done(), async |answer| answered = Some(answer)));
        assert!(futures::poll!(&mut next).is_pending());
        let mut passed_on = None;
        turns.take_relayed(&write(1)).unwrap().run(done(), async |answer| passed_on = Some(answer)).await;
        assert_eq!(passed_on, Some(Ok(Value::Null)), "what clients do has turns of its own");
        running.pop();
        next.await;
        assert_eq!(answered, Some(Ok(Value::Null)));
    }
}
