//! A client's dispatches: carried out in order per session, although some take long.
//!
//! A message with attachments is prepared first; the client's next dispatches to the same session wait behind it.
//! Received dispatches are carried out even if the connection ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hostler_engine::{Dispatch, Engine};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::client_files::ClientFiles;
use crate::ordered_tasks::MessageOrder;
use crate::protocol::DispatchError;

/// Maximum number of one client's dispatches that are not carried out yet.
const MAX_QUEUED_DISPATCHES: usize = 64;

/// Maximum size of their frames in KiB. A larger frame is carried out alone.
const MAX_QUEUED_KIB: u32 = 128 * 1024;

/// The dispatches of one connection.
pub(crate) struct DispatchQueue {
    engine: Engine,
    order: MessageOrder,
    files: ClientFiles,
    /// Limits the dispatches that are not carried out.
    slots: Arc<Semaphore>,
    /// Limits the size of their frames.
    queued_kib: Arc<Semaphore>,
    /// Number of dispatches whose attachments are not prepared yet.
    unprepared: Arc<AtomicUsize>,
}

/// The share of a dispatch in the limits.
type DispatchPermit = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl DispatchQueue {
    pub(crate) fn new(engine: Engine, order: MessageOrder, files: ClientFiles) -> Self {
        let slots = Arc::new(Semaphore::new(MAX_QUEUED_DISPATCHES));
        let queued_kib = Arc::new(Semaphore::new(MAX_QUEUED_KIB as usize));
        Self { engine, order, files, slots, queued_kib, unprepared: Arc::default() }
    }

    /// Carries out a dispatch, or its rejection, after the earlier ones of the same session. Waits only if the client has
    /// too many dispatches that are not carried out.
    pub(crate) async fn enqueue(&self, dispatch: Dispatch, rejection: Option<DispatchError>, frame_bytes: usize) {
        let permit = match self.try_admit(frame_bytes) {
            Some(permit) => permit,
            // Preparing attachments can take long.
            None if self.unprepared.load(Ordering::Acquire) > 0 => {
                return self.engine.reject(dispatch, DispatchError::QueueFull).await;
            }
            None => match self.admit(frame_bytes).await {
                Some(permit) => permit,
                None => return,
            },
        };
        let (engine, channel) = (self.engine.clone(), dispatch.channel.clone());
        if rejection.is_some() || !dispatch.has_attachments() {
            return self.order.enqueue_dispatch(&channel, async move {
                match rejection {
                    None => engine.dispatch(dispatch).await,
                    Some(reason) => engine.reject(dispatch, reason).await,
                }
                drop(permit);
            });
        }
        self.unprepared.fetch_add(1, Ordering::AcqRel);
        let (files, unprepared) = (self.files.clone(), Arc::clone(&self.unprepared));
        self.order.enqueue_dispatch(&channel, async move {
            engine.dispatch_with_attachments(dispatch, &files).await;
            unprepared.fetch_sub(1, Ordering::AcqRel);
            drop(permit);
        });
    }

    fn try_admit(&self, frame_bytes: usize) -> Option<DispatchPermit> {
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        let size = Arc::clone(&self.queued_kib).try_acquire_many_owned(frame_kib(frame_bytes)).ok()?;
        Some((slot, size))
    }

    async fn admit(&self, frame_bytes: usize) -> Option<DispatchPermit> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        let size = Arc::clone(&self.queued_kib).acquire_many_owned(frame_kib(frame_bytes)).await.ok()?;
        Some((slot, size))
    }
}

fn frame_kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(MAX_QUEUED_KIB).min(MAX_QUEUED_KIB)
}
