//! Ordered dispatch queue of one connection: carries out a client's dispatches in their order, although some take long.
//!
//! A message with attachments is prepared first, in the queue's task; the client's next dispatches wait behind it. With
//! an empty queue a dispatch goes to the engine directly. Received dispatches are carried out even if the connection
//! ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use hostler_engine::{Dispatch, Engine};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::client_files::ClientFiles;
use crate::protocol::DispatchError;

/// Maximum number of queued dispatches of one client.
const MAX_QUEUED_DISPATCHES: usize = 64;

/// Maximum size of queued frames, beyond the first one.
const MAX_QUEUED_BYTES: usize = 128 * 1024 * 1024;

/// A dispatch, with this surface's rejection if it has one.
struct QueuedDispatch {
    dispatch: Dispatch,
    /// Why it is rejected.
    rejection: Option<DispatchError>,
    /// Size of its frame.
    frame_bytes: usize,
}

/// What is queued or running.
#[derive(Default)]
struct QueueLoad {
    dispatches: AtomicUsize,
    bytes: AtomicUsize,
}

/// The dispatch queue of one connection.
pub(crate) struct DispatchQueue {
    engine: Engine,
    tasks: TaskTracker,
    files: ClientFiles,
    load: Arc<QueueLoad>,
    /// To the task that prepares attachments, which starts with the first message that has some.
    sender: OnceLock<mpsc::Sender<QueuedDispatch>>,
}

impl DispatchQueue {
    pub(crate) fn new(engine: Engine, tasks: TaskTracker, files: ClientFiles) -> Self {
        Self { engine, tasks, files, load: Arc::default(), sender: OnceLock::new() }
    }

    /// Carries out a dispatch, or its rejection, after the earlier ones.
    pub(crate) async fn enqueue(&self, dispatch: Dispatch, refused: Option<DispatchError>, size: usize) {
        let waiting = self.load.dispatches.load(Ordering::Acquire);
        let needs = refused.is_none() && dispatch.has_attachments();
        let queued = QueuedDispatch { dispatch, rejection: refused, frame_bytes: size };
        if waiting == 0 && !needs {
            return dispatch_directly(&self.engine, queued).await;
        }
        let too_much = waiting > 0 && self.load.bytes.load(Ordering::Acquire).saturating_add(size) > MAX_QUEUED_BYTES;
        if waiting >= MAX_QUEUED_DISPATCHES || too_much {
            return self.engine.reject(queued.dispatch, DispatchError::QueueFull).await;
        }
        self.load.dispatches.fetch_add(1, Ordering::AcqRel);
        self.load.bytes.fetch_add(size, Ordering::AcqRel);
        let behind = self.sender.get_or_init(|| self.spawn_worker());
        // The channel has capacity for every admitted dispatch, and the task lives as long as `self`.
        if let Err(mpsc::error::TrySendError::Full(queued) | mpsc::error::TrySendError::Closed(queued)) =
            behind.try_send(queued)
        {
            self.load.release(queued.frame_bytes);
            self.engine.reject(queued.dispatch, DispatchError::QueueFull).await;
        }
    }

    fn spawn_worker(&self) -> mpsc::Sender<QueuedDispatch> {
        let (sender, mut queue) = mpsc::channel::<QueuedDispatch>(MAX_QUEUED_DISPATCHES);
        let (engine, files, load) = (self.engine.clone(), self.files.clone(), Arc::clone(&self.load));
        self.tasks.spawn(async move {
            while let Some(queued) = queue.recv().await {
                let size = queued.frame_bytes;
                if queued.rejection.is_none() && queued.dispatch.has_attachments() {
                    engine.dispatch_with_attachments(queued.dispatch, &files).await;
                } else {
                    dispatch_directly(&engine, queued).await;
                }
                load.release(size);
            }
        });
        sender
    }
}

impl QueueLoad {
    fn release(&self, size: usize) {
        self.bytes.fetch_sub(size, Ordering::AcqRel);
        self.dispatches.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn dispatch_directly(engine: &Engine, queued: QueuedDispatch) {
    match queued.rejection {
        None => engine.dispatch(queued.dispatch).await,
        Some(reason) => engine.reject(queued.dispatch, reason).await,
    }
}
