//! Writes titles and tags to the agents' transcripts, one after the other. Failed writes are retried.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hostler_driver::TranscriptStoreError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::host::Host;

/// Maximum number of queued updates.
const METADATA_QUEUE_CAPACITY: usize = 1024;

/// Delay before the first retry; it doubles with each further one.
const METADATA_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Maximum delay before a retry.
const METADATA_MAX_RETRY_DELAY: Duration = Duration::from_secs(600);

/// After this many attempts, the next opening of the session or change of its transcript tries again.
const METADATA_MAX_ATTEMPTS: u32 = 10;

/// Writes titles and tags.
pub(crate) struct MetadataWriter {
    sender: mpsc::Sender<MetadataWriteRequest>,
    receiver: Mutex<Option<mpsc::Receiver<MetadataWriteRequest>>>,
    pending_writes: Mutex<HashMap<Uuid, PendingWrites>>,
    /// The writing task, and the token that ends it after the last update.
    writer_task: TaskTracker,
    writes_closed: CancellationToken,
}

/// A title or tag that a person set on a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MetadataUpdate {
    Title(String),
    Tag(Option<String>),
}

/// The pending updates of a transcript.
#[derive(Default)]
struct PendingWrites {
    /// Number of queued updates: until they are written, the transcript's value is outdated.
    in_flight: usize,
    /// Number of updates that wait for a retry.
    retrying: usize,
    /// The latest revision of each kind; earlier ones are void.
    latest_title: u64,
    latest_tag: u64,
}

impl PendingWrites {
    fn latest_revision(&mut self, note: &MetadataUpdate) -> &mut u64 {
        match note {
            MetadataUpdate::Title(_) => &mut self.latest_title,
            MetadataUpdate::Tag(_) => &mut self.latest_tag,
        }
    }
}

#[derive(Clone)]
struct MetadataWriteRequest {
    provider: String,
    conversation: Uuid,
    update: MetadataUpdate,
    revision: u64,
    attempts: u32,
}

impl Default for MetadataWriter {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(METADATA_QUEUE_CAPACITY);
        let (writer, last) = (TaskTracker::new(), CancellationToken::new());
        Self {
            sender,
            receiver: Mutex::new(Some(receiver)),
            pending_writes: Mutex::default(),
            writer_task: writer,
            writes_closed: last,
        }
    }
}

impl MetadataWriter {
    fn lock_pending_writes(&self) -> MutexGuard<'_, HashMap<Uuid, PendingWrites>> {
        self.pending_writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues an update of a transcript.
    pub(crate) fn enqueue(&self, provider: &str, conversation: Uuid, note: MetadataUpdate) {
        let number = {
            let mut known = self.lock_pending_writes();
            let last = known.entry(conversation).or_default().latest_revision(&note);
            *last += 1;
            *last
        };
        self.try_enqueue(MetadataWriteRequest {
            provider: provider.to_owned(),
            conversation,
            update: note,
            revision: number,
            attempts: 0,
        });
    }

    fn try_enqueue(&self, request: MetadataWriteRequest) {
        let conversation = request.conversation;
        self.lock_pending_writes().entry(conversation).or_default().in_flight += 1;
        if self.sender.try_send(request).is_err() {
            tracing::warn!(%conversation, "transcript does not exist; title and tag of the session are not written to it");
            self.finish_write(conversation);
        }
    }

    /// Writes the remaining updates after all sessions have ended.
    pub(crate) async fn flush(&self) {
        self.writes_closed.cancel();
        self.writer_task.close();
        self.writer_task.wait().await;
    }

    /// Voids pending titles, because another program has set a newer one.
    pub(crate) fn supersede_title(&self, conversation: Uuid) {
        self.lock_pending_writes().entry(conversation).or_default().latest_title += 1;
    }

    fn finish_write(&self, conversation: Uuid) {
        let mut known = self.lock_pending_writes();
        let known = known.entry(conversation).or_default();
        known.in_flight = known.in_flight.saturating_sub(1);
    }

    /// Whether a request is the latest of its kind.
    fn is_latest(&self, request: &MetadataWriteRequest) -> bool {
        *self.lock_pending_writes().entry(request.conversation).or_default().latest_revision(&request.update)
            == request.revision
    }

    /// Whether a write is in progress that will replace the transcript's value.
    pub(crate) fn is_writing(&self, conversation: Uuid) -> bool {
        self.lock_pending_writes().get(&conversation).is_some_and(|known| known.in_flight > 0)
    }

    /// Whether a write is in progress or waits for a retry.
    pub(crate) fn has_pending_writes(&self, conversation: Uuid) -> bool {
        self.lock_pending_writes().get(&conversation).is_some_and(|known| known.in_flight + known.retrying > 0)
    }
}

impl Host {
    /// Runs the writer until all updates are written. It ends later than the host's stop signal, because sessions write
    /// until their own end.
    pub(crate) fn run_metadata_writer(self: &Arc<Self>) {
        let receiver = self.external.metadata_writer.receiver.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut requests) = receiver else { return };
        let (host, last) = (Arc::downgrade(self), self.external.metadata_writer.writes_closed.clone());
        self.external.metadata_writer.writer_task.spawn(async move {
            loop {
                let request = tokio::select! {
                    biased;
                    request = requests.recv() => request,
                    () = last.cancelled() => None,
                };
                let (Some(request), Some(host)) = (request, host.upgrade()) else { return };
                host.write_metadata(request).await;
            }
        });
    }

    async fn write_metadata(self: &Arc<Self>, request: MetadataWriteRequest) {
        let conversation = request.conversation;
        let written = match (self.agents.transcript_store(&request.provider), &request.update) {
            _ if !self.external.metadata_writer.is_latest(&request) => Ok(()),
            (Some(transcript_store), MetadataUpdate::Title(title)) => {
                transcript_store.rename(conversation, title).await
            }
            (Some(transcript_store), MetadataUpdate::Tag(tag)) => {
                transcript_store.set_tag(conversation, tag.as_deref()).await
            }
            (None, _) => Err(TranscriptStoreError::Missing),
        };
        if let Err(error) = written {
            tracing::warn!(%conversation, %error, "failed to write title or tag to transcript");
            self.retry_metadata_write(request);
        }
        self.external.metadata_writer.finish_write(conversation);
    }

    /// Retries after a delay: the disk may be unavailable for a while, or the transcript may not exist yet.
    fn retry_metadata_write(self: &Arc<Self>, request: MetadataWriteRequest) {
        let tries = request.attempts + 1;
        if tries >= METADATA_MAX_ATTEMPTS {
            return;
        }
        self.external.metadata_writer.lock_pending_writes().entry(request.conversation).or_default().retrying += 1;
        let pause = self.clock.sleep(METADATA_MAX_RETRY_DELAY.min(METADATA_RETRY_DELAY * (1 << request.attempts)));
        let (host, stop) = (Arc::downgrade(self), self.tasks.stop_token());
        self.tasks.spawn(async move {
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
            let Some(host) = host.upgrade() else { return };
            if let Some(known) = host.external.metadata_writer.lock_pending_writes().get_mut(&request.conversation) {
                known.retrying = known.retrying.saturating_sub(1);
            }
            if host.external.metadata_writer.is_latest(&request) {
                host.external.metadata_writer.try_enqueue(MetadataWriteRequest { attempts: tries, ..request });
            }
        });
    }
}
