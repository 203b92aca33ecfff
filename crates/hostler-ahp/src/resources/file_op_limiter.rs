//! Limits one client's concurrent file operations, so that they do not delay its other requests.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Request;
use crate::rpc::RpcError;

/// Maximum number of operations that run concurrently.
const MAX_CONCURRENT_FILE_OPS: usize = 4;

/// Budget of admitted operations, in units of 64 KiB: 128 MiB, or as many requests as there are units.
const FILE_OP_BUDGET_UNITS: usize = 2048;

const FILE_OP_UNIT_BYTES: usize = 64 * 1024;

/// File operation limits of one connection.
pub(crate) struct FileOpLimiter {
    budget: Arc<Semaphore>,
    running: Arc<Semaphore>,
    /// For relayed operations: the owning client may take long, and may need files of the host for them.
    relayed: Arc<Semaphore>,
}

impl Default for FileOpLimiter {
    fn default() -> Self {
        let room = |most| Arc::new(Semaphore::new(most));
        Self {
            budget: room(FILE_OP_BUDGET_UNITS),
            running: room(MAX_CONCURRENT_FILE_OPS),
            relayed: room(MAX_CONCURRENT_FILE_OPS),
        }
    }
}

/// An admitted operation's share of the budget.
pub(crate) struct FileOpPermit {
    _budget: OwnedSemaphorePermit,
    running: Arc<Semaphore>,
}

impl FileOpLimiter {
    /// Admits an operation, if the budget allows it.
    pub(crate) fn acquire(&self, request: &Request) -> Result<FileOpPermit, RpcError> {
        self.acquire_from(&self.running, request)
    }

    /// The same for an operation that is relayed to a client.
    pub(crate) fn acquire_relayed(&self, request: &Request) -> Result<FileOpPermit, RpcError> {
        self.acquire_from(&self.relayed, request)
    }

    fn acquire_from(&self, running: &Arc<Semaphore>, request: &Request) -> Result<FileOpPermit, RpcError> {
        let units = u32::try_from(request.size() / FILE_OP_UNIT_BYTES + 1).unwrap_or(u32::MAX);
        match Arc::clone(&self.budget).try_acquire_many_owned(units) {
            Ok(room) => Ok(FileOpPermit { _budget: room, running: Arc::clone(running) }),
            Err(_) => Err(RpcError::new(-32603, "too many concurrent file operations; wait for some answers first")),
        }
    }
}

impl FileOpPermit {
    /// Runs the operation when a slot is free. The slot is released when the answer is sent: a client that does not
    /// read delays only its own file operations.
    pub(crate) async fn run(
        self,
        act: impl Future<Output = Result<Value, RpcError>>,
        answer: impl AsyncFnOnce(Result<Value, RpcError>),
    ) {
        // The semaphore is never closed.
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
    fn the_budget_counts_bytes_and_is_returned() {
        let turns = FileOpLimiter::default();
        let first = turns.acquire(&write(100 << 20)).unwrap();
        assert_eq!(turns.acquire(&write(64 << 20)).err().unwrap().code, -32603);
        drop(first);
        let many: Vec<_> = (0..FILE_OP_BUDGET_UNITS).map(|_| turns.acquire(&write(1)).unwrap()).collect();
        assert!(turns.acquire(&write(1)).is_err());
        drop(many);
        assert!(turns.acquire(&write(1)).is_ok());
    }

    #[tokio::test]
    async fn concurrent_operations_are_limited() {
        let turns = FileOpLimiter::default();
        // The answer is never sent.
        let stuck = async |_| std::future::pending().await;
        let done = || async { Ok(Value::Null) };
        let mut running: Vec<_> = (0..MAX_CONCURRENT_FILE_OPS)
            .map(|_| Box::pin(turns.acquire(&write(1)).unwrap().run(done(), stuck)))
            .collect();
        for turn in &mut running {
            assert!(futures::poll!(turn).is_pending());
        }
        let mut answered = None;
        let mut next = Box::pin(turns.acquire(&write(1)).unwrap().run(done(), async |answer| answered = Some(answer)));
        assert!(futures::poll!(&mut next).is_pending());
        let mut passed_on = None;
        turns.acquire_relayed(&write(1)).unwrap().run(done(), async |answer| passed_on = Some(answer)).await;
        assert_eq!(passed_on, Some(Ok(Value::Null)), "what clients do has turns of its own");
        running.pop();
        next.await;
        assert_eq!(answered, Some(Ok(Value::Null)));
    }
}
