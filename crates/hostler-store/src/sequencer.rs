//! The sequencer: one order over all changes on all channels.
//!
//! The caller numbers and publishes a stream batch inline, under one lock, without a thread hop between an agent's line
//! and its subscribers; it is committed within 100 ms. A durable batch goes through the writer thread, which numbers
//! it, commits it and only then publishes it; stream batches that arrive meanwhile wait and do not overtake it.
//! Publication happens inside the lock, so no subscriber sees number 8 before 7.
//!
//! Numbers are reserved on disk in blocks; a restart starts above the reserved block.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::{Semaphore, oneshot};

use crate::batch::{AfterPublish, Batch, BatchDurability, PublishedAction, Publisher, UnicastDelivery};
use crate::blob_cleanup::CleanupJob;
use crate::pending_rows::PendingRow;
use crate::store::{SequenceAtStart, StoreOptions};
use crate::{BlobOptions, StoreError, blob, blob_collector, database, writer};

/// Maximum number of unwritten batches. When the disk is that far behind, actors wait for it.
const MAX_UNWRITTEN_BATCHES: usize = 65_536;

/// Maximum number of callers that wait for the collector; further ones continue without it.
const MAX_COLLECTOR_WAITERS: usize = 64;

/// Numbers are reserved durably in blocks of this size; a restart starts above the reserved block.
pub(crate) const SEQ_BLOCK_SIZE: u64 = 65_536;

/// Entry point for every change of state. Cheap to clone.
#[derive(Clone)]
pub struct Sequencer {
    shared: Arc<SequencerShared>,
}

pub(crate) struct SequencerShared {
    pub(crate) state: Mutex<SequencerState>,
    pub(crate) writer_wake: Condvar,
    pub(crate) publisher: Arc<dyn Publisher>,
    /// One permit for each batch that is submitted and not yet written.
    pub(crate) write_permits: Semaphore,
    /// Total size of all blobs at the writer's last check.
    pub(crate) stored_blob_bytes: AtomicU64,
    pub(crate) blobs: BlobOptions,
    /// Sends requests to the collector, until the store stops.
    collector: Mutex<Option<SyncSender<oneshot::Sender<()>>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// State under the lock.
pub(crate) struct SequencerState {
    /// The last assigned number.
    pub(crate) last_seq: u64,
    /// Numbers up to and including this one may be assigned.
    pub(crate) reserved_through: u64,
    /// Batches that wait for the writer, in order.
    pub(crate) waiting: VecDeque<Batch>,
    /// Published stream rows that are not committed yet, in order.
    pub(crate) unsaved: Vec<PendingRow>,
    /// Permits that the unsaved rows hold.
    pub(crate) unsaved_batches: usize,
    /// When the oldest of them was published.
    pub(crate) unsaved_since: Option<Instant>,
    /// The next cleanup for the writer.
    pub(crate) cleanup_job: Option<CleanupJob>,
    /// Whether the writer is between numbering and publishing.
    pub(crate) is_committing: bool,
    /// Whether further batches are refused.
    pub(crate) is_stopping: bool,
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SequencerShared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, SequencerState> {
        lock_mutex(&self.state)
    }
}

impl Sequencer {
    pub(crate) fn start(
        options: &StoreOptions,
        publisher: Arc<dyn Publisher>,
    ) -> Result<(Self, SequenceAtStart), StoreError> {
        let mut db = database::open_writer(&options.dir, options.full_durability)?;
        let sequence_at_start = writer::reserve_first_block(&mut db)?;
        let first = sequence_at_start.base_seq;
        let reader = database::open_reader(&options.dir)?;
        let (retention, blobs) = (options.retention, options.blobs);
        let (collector_requests, received_requests) = sync_channel(MAX_COLLECTOR_WAITERS);
        let shared = Arc::new(SequencerShared {
            state: Mutex::new(SequencerState {
                last_seq: first,
                reserved_through: first + SEQ_BLOCK_SIZE,
                waiting: VecDeque::new(),
                unsaved: Vec::new(),
                unsaved_batches: 0,
                unsaved_since: None,
                cleanup_job: None,
                is_committing: false,
                is_stopping: false,
            }),
            writer_wake: Condvar::new(),
            publisher,
            write_permits: Semaphore::new(MAX_UNWRITTEN_BATCHES),
            stored_blob_bytes: AtomicU64::new(blob::total_bytes(&db)?),
            blobs,
            collector: Mutex::new(Some(collector_requests)),
            threads: Mutex::new(Vec::new()),
        });
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
            let failed = |error| StoreError::Database(format!("failed to start a thread: {error}"));
            lock_mutex(&shared.threads).push(thread.map_err(failed)?);
            Ok::<_, StoreError>(())
        };
        let (sequencer, writer, collector) =
            (Self { shared: Arc::clone(&shared) }, Arc::clone(&shared), Arc::clone(&shared));
        spawn("hostler-journal", Box::new(move || writer::run(&writer, db, retention)))?;
        spawn("hostler-blobs", Box::new(move || blob_collector::run(&collector, &reader, blobs, &received_requests)))
            .inspect_err(|_| sequencer.close())?;
        Ok((sequencer, sequence_at_start))
    }

    /// Submits a batch. Returns once its place in the order is fixed; streamed output is published by then. Batches of
    /// one caller are published in the order in which they were submitted.
    ///
    /// # Errors
    /// [`StoreError::Stopped`] after [`Sequencer::stop`].
    pub async fn submit(&self, batch: Batch) -> Result<(), StoreError> {
        let client_bytes = batch.client_blob_bytes();
        if client_bytes > 0
            && self.shared.stored_blob_bytes.load(Ordering::Relaxed).saturating_add(client_bytes)
                > self.shared.blobs.quota_bytes
        {
            self.request_collection().await;
        }
        let permit = self.shared.write_permits.acquire().await.map_err(|_| StoreError::Stopped)?;
        // The writer returns it when the batch is written.
        permit.forget();
        self.enqueue(batch)
    }

    /// Submits a batch and waits until it is published (and committed, if it is durable); returns its last number.
    ///
    /// # Errors
    /// If it could not be committed; nothing of it was published then.
    pub async fn commit(&self, mut batch: Batch) -> Result<u64, StoreError> {
        let (sender, receiver) = oneshot::channel();
        batch.done = Some(sender);
        self.submit(batch).await?;
        receiver.await.map_err(|_| StoreError::Stopped)?
    }

    /// The last assigned number.
    pub fn current_seq(&self) -> u64 {
        self.shared.lock().last_seq
    }

    /// Has the collector remove blobs without a reference. The writer decides whether the rest fits the quota.
    async fn request_collection(&self) {
        let (sender, finished) = oneshot::channel();
        let is_requested =
            lock_mutex(&self.shared.collector).as_ref().is_some_and(|collector| collector.try_send(sender).is_ok());
        if is_requested {
            // A collector that stops sends no answer.
            let _ = finished.await;
        }
    }

    /// Refuses further batches; waiting ones are still written.
    pub(crate) fn close(&self) {
        self.shared.write_permits.close();
        self.shared.lock().is_stopping = true;
        drop(lock_mutex(&self.shared.collector).take());
        self.shared.writer_wake.notify_all();
    }

    /// Writes all waiting batches, then ends the store's threads. Idempotent.
    pub async fn stop(&self) {
        self.close();
        let threads = std::mem::take(&mut *lock_mutex(&self.shared.threads));
        for thread in threads {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("a thread of the store panicked");
            }
        }
    }

    fn enqueue(&self, batch: Batch) -> Result<(), StoreError> {
        let mut inner = self.shared.lock();
        if inner.is_stopping {
            return Err(StoreError::Stopped);
        }
        let inline = batch.durability != BatchDurability::Durable
            && !inner.is_committing
            && inner.waiting.is_empty()
            && inner.last_seq + batch.seq_count() <= inner.reserved_through;
        if !inline {
            inner.waiting.push_back(batch);
            drop(inner);
            self.shared.writer_wake.notify_one();
            return Ok(());
        }

        let is_memory_only = batch.durability == BatchDurability::Memory;
        let wake = inner.unsaved_since.is_none() && !is_memory_only;
        let numbered = assign_seqs(&mut inner.last_seq, batch);
        publish_batch(&*self.shared.publisher, numbered.output, inner.last_seq);
        if is_memory_only {
            self.shared.write_permits.add_permits(1);
        } else {
            inner.unsaved.extend(numbered.rows);
            inner.unsaved_batches += 1;
            inner.unsaved_since.get_or_insert_with(Instant::now);
        }
        let due = inner.unsaved.len() >= writer::MAX_UNSAVED_ROWS;
        drop(inner);
        if wake || due {
            self.shared.writer_wake.notify_one();
        }
        Ok(())
    }
}

/// A batch whose numbers are fixed.
pub(crate) struct NumberedBatch {
    pub(crate) rows: Vec<PendingRow>,
    pub(crate) output: BatchOutput,
    pub(crate) durability: BatchDurability,
    /// Whether it contains blobs of a client.
    pub(crate) has_client_blobs: bool,
}

/// What a batch publishes.
pub(crate) struct BatchOutput {
    pub(crate) items: Vec<Arc<PublishedAction>>,
    pub(crate) unicast: Option<(Arc<PublishedAction>, UnicastDelivery)>,
    pub(crate) after_publish: Option<AfterPublish>,
    pub(crate) done: Option<oneshot::Sender<Result<u64, StoreError>>>,
}

impl BatchOutput {
    /// The last number of the batch; the one before it, if the batch has none.
    pub(crate) fn last_seq(&self, before: u64) -> u64 {
        let unicast = self.unicast.as_ref().map(|(item, _)| item);
        unicast.or(self.items.last()).map_or(before, |item| item.seq)
    }
}

/// Assigns the numbers of a batch: records first, then actions, so that a replay reads facts before their effects.
pub(crate) fn assign_seqs(seq: &mut u64, batch: Batch) -> NumberedBatch {
    let is_written = batch.durability != BatchDurability::Memory;
    let has_client_blobs = batch.client_blob_bytes() > 0;
    let mut rows = Vec::new();
    if is_written {
        for record in batch.records {
            *seq += 1;
            rows.push(PendingRow::record(*seq, batch.session.clone(), record));
        }
    }
    let mut items = Vec::with_capacity(batch.entries.len());
    for entry in batch.entries {
        *seq += 1;
        if is_written && entry.rejection.is_none() {
            rows.push(PendingRow::action(*seq, batch.session.clone(), &entry));
        }
        items.push(Arc::new(PublishedAction::new(*seq, entry)));
    }
    let unicast = batch.unicast.map(|(entry, deliver)| {
        *seq += 1;
        (Arc::new(PublishedAction::new(*seq, entry)), deliver)
    });
    if is_written {
        if let Some(session) = &batch.session {
            let blob = |blob| PendingRow::Blob { session: Arc::clone(session), seq: *seq, blob };
            rows.extend(batch.blobs.into_iter().map(blob));
            rows.extend(batch.audit.into_iter().map(|entry| PendingRow::Audit { session: Arc::clone(session), entry }));
        }
        rows.extend(batch.catalog.map(PendingRow::Catalog));
        rows.extend(batch.conversations.into_iter().map(PendingRow::Conversation));
        rows.extend(
            batch
                .deletions
                .into_iter()
                .map(|(conversation, is_pending)| PendingRow::PendingDeletion { conversation, is_pending }),
        );
        rows.extend(batch.snapshot.zip(batch.session).map(|(row, session)| PendingRow::Snapshot {
            session,
            seq: *seq,
            row,
        }));
        rows.extend(batch.client.map(PendingRow::Client));
    }
    let output = BatchOutput { items, unicast, after_publish: batch.after_publish, done: batch.done };
    NumberedBatch { rows, output, durability: batch.durability, has_client_blobs }
}

pub(crate) fn publish_batch(publisher: &dyn Publisher, output: BatchOutput, seq: u64) {
    let last = output.last_seq(seq);
    for item in &output.items {
        publisher.publish(item);
    }
    if let Some((item, deliver)) = output.unicast {
        deliver(item);
    }
    if let Some(then) = output.after_publish {
        then(last);
    }
    if let Some(done) = output.done {
        // The caller may have stopped waiting; the batch is committed anyway.
        let _ = done.send(Ok(last));
    }
}

impl Batch {
    fn seq_count(&self) -> u64 {
        (self.entries.len() + self.records.len() + usize::from(self.unicast.is_some())) as u64
    }

    /// Size of the client's blobs in it. Outputs of agents do not count.
    fn client_blob_bytes(&self) -> u64 {
        let is_from_client = self.has_client_blobs || self.entries.iter().any(|entry| entry.origin.is_some());
        let counts = self.durability == BatchDurability::Durable && is_from_client;
        if counts { self.blobs.iter().map(|blob| blob.body().len() as u64).sum() } else { 0 }
    }
}
