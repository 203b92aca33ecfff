//! The sequencer: one order over everything.
//!
//! Streamed output is numbered and published inline, by the caller, under one lock: no thread hop between an agent's
//! line and its readers. Durable batches go through the writer thread, which numbers them, commits them and only then
//! publishes them; whatever arrives meanwhile waits behind them, so that publication never leaves the order of numbers.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::{Semaphore, oneshot};

use crate::batch::{Batch, Durability, Published, Publisher};
use crate::rows::Row;
use crate::store::{Life, StoreOptions};
use crate::{StoreError, database, writer};

/// How many batches may be unwritten at once. When the disk is that far behind, actors wait for it.
const MAX_UNWRITTEN: usize = 65_536;

/// Numbers are reserved durably in blocks of this size; a restart begins above the reserved block.
pub(crate) const BLOCK: u64 = 65_536;

/// The way in for everything that changes state. Cheap to clone.
#[derive(Clone)]
pub struct Sequencer {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) inner: Mutex<Inner>,
    pub(crate) wake: Condvar,
    pub(crate) publisher: Arc<dyn Publisher>,
    /// One permit for each batch that is submitted and not yet written.
    pub(crate) room: Semaphore,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the lock guards.
pub(crate) struct Inner {
    /// The last number given out.
    pub(crate) seq: u64,
    /// Numbers up to and including this one may be given out.
    pub(crate) reserved: u64,
    /// Batches that wait for the writer, in order.
    pub(crate) waiting: VecDeque<Batch>,
    /// Published stream rows that are not committed yet, in order.
    pub(crate) unsaved: Vec<Row>,
    /// Permits that the unsaved rows hold.
    pub(crate) unsaved_batches: usize,
    /// When the oldest of them was published.
    pub(crate) unsaved_since: Option<Instant>,
    /// Whether the writer is between numbering and publishing.
    pub(crate) committing: bool,
    /// Whether no further batch is taken.
    pub(crate) stopping: bool,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sequencer {
    pub(crate) fn start(options: &StoreOptions, publisher: Arc<dyn Publisher>) -> Result<(Self, Life), StoreError> {
        let mut db = database::open_writer(&options.dir, options.full_durability)?;
        let life = writer::begin_life(&mut db)?;
        let first = life.before;
        let retention = options.retention;
        let shared = Arc::new(Shared {
            inner: Mutex::new(Inner {
                seq: first,
                reserved: first + BLOCK,
                waiting: VecDeque::new(),
                unsaved: Vec::new(),
                unsaved_batches: 0,
                unsaved_since: None,
                committing: false,
                stopping: false,
            }),
            wake: Condvar::new(),
            publisher,
            room: Semaphore::new(MAX_UNWRITTEN),
            thread: Mutex::new(None),
        });
        let thread = std::thread::Builder::new()
            .name("hostler-journal".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                move || writer::run(&shared, db, retention)
            })
            .map_err(|error| StoreError::Database(format!("the journal's thread could not be started: {error}")))?;
        *shared.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok((Self { shared }, life))
    }

    /// Takes a batch. Returns once it has its place in the order, which for streamed output means: once it is
    /// published. Batches of one caller keep the order in which they were submitted.
    ///
    /// # Errors
    /// [`StoreError::Stopped`] after [`Sequencer::stop`].
    pub async fn submit(&self, batch: Batch) -> Result<(), StoreError> {
        let permit = self.shared.room.acquire().await.map_err(|_| StoreError::Stopped)?;
        // Given back by the writer, when the batch is written.
        permit.forget();
        self.enqueue(batch)
    }

    /// Takes a batch and waits until it is published (and committed, if it is durable); answers its last number.
    ///
    /// # Errors
    /// If it could not be committed; then nothing of it was published.
    pub async fn commit(&self, mut batch: Batch) -> Result<u64, StoreError> {
        let (sender, receiver) = oneshot::channel();
        batch.done = Some(sender);
        self.submit(batch).await?;
        receiver.await.map_err(|_| StoreError::Stopped)?
    }

    /// The last number that was given out.
    pub fn current(&self) -> u64 {
        self.shared.lock().seq
    }

    /// Takes no further batch; what waits is still written.
    pub(crate) fn close(&self) {
        self.shared.room.close();
        self.shared.lock().stopping = true;
        self.shared.wake.notify_all();
    }

    /// Writes everything that is waiting, then ends the writer thread. Twice is the same as once.
    pub async fn stop(&self) {
        self.close();
        let thread = self.shared.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("the journal's thread ended abnormally");
            }
        }
    }

    fn enqueue(&self, batch: Batch) -> Result<(), StoreError> {
        let mut inner = self.shared.lock();
        if inner.stopping {
            return Err(StoreError::Stopped);
        }
        let inline = batch.durability != Durability::Durable
            && !inner.committing
            && inner.waiting.is_empty()
            && inner.seq + batch.numbers() <= inner.reserved;
        if !inline {
            inner.waiting.push_back(batch);
            drop(inner);
            self.shared.wake.notify_one();
            return Ok(());
        }

        let written = batch.durability == Durability::Memory;
        let wake = inner.unsaved_since.is_none() && !written;
        let numbered = number(&mut inner.seq, batch);
        publish(&*self.shared.publisher, numbered.items, numbered.then, numbered.done, inner.seq);
        if written {
            self.shared.room.add_permits(1);
        } else {
            inner.unsaved.extend(numbered.rows);
            inner.unsaved_batches += 1;
            inner.unsaved_since.get_or_insert_with(Instant::now);
        }
        let due = inner.unsaved.len() >= writer::EAGER_ROWS;
        drop(inner);
        if wake || due {
            self.shared.wake.notify_one();
        }
        Ok(())
    }
}

/// A batch whose numbers are fixed.
pub(crate) struct Numbered {
    pub(crate) rows: Vec<Row>,
    pub(crate) items: Vec<Arc<Published>>,
    pub(crate) then: Option<crate::batch::Then>,
    pub(crate) done: Option<oneshot::Sender<Result<u64, StoreError>>>,
    pub(crate) durability: Durability,
}

/// Gives a batch its numbers: records first, then actions, so that a replay knows the facts before their effects.
pub(crate) fn number(seq: &mut u64, batch: Batch) -> Numbered {
    let keep = batch.durability != Durability::Memory;
    let mut rows = Vec::new();
    if keep {
        for record in batch.records {
            *seq += 1;
            rows.push(Row::record(*seq, batch.session.clone(), record));
        }
    }
    let mut items = Vec::with_capacity(batch.entries.len());
    for entry in batch.entries {
        *seq += 1;
        if keep && entry.rejection.is_none() {
            rows.push(Row::action(*seq, batch.session.clone(), &entry));
        }
        items.push(Arc::new(Published::new(*seq, entry)));
    }
    if keep {
        if let Some(session) = &batch.session {
            rows.extend(batch.blobs.into_iter().map(|blob| Row::Blob { session: Arc::clone(session), blob }));
            rows.extend(batch.audit.into_iter().map(|entry| Row::Audit { session: Arc::clone(session), entry }));
        }
        rows.extend(batch.catalogue.map(Row::Catalogue));
        rows.extend(batch.snapshot.zip(batch.session).map(|(row, session)| Row::Snapshot { session, seq: *seq, row }));
        rows.extend(batch.client.map(Row::Client));
    }
    Numbered { rows, items, then: batch.then, done: batch.done, durability: batch.durability }
}

pub(crate) fn publish(
    publisher: &dyn Publisher,
    items: Vec<Arc<Published>>,
    then: Option<crate::batch::Then>,
    done: Option<oneshot::Sender<Result<u64, StoreError>>>,
    seq: u64,
) {
    let last = items.last().map_or(seq, |item| item.seq);
    for item in &items {
        publisher.publish(item);
    }
    if let Some(then) = then {
        then(last);
    }
    if let Some(done) = done {
        // The caller may have given up waiting; the batch stands all the same.
        let _ = done.send(Ok(last));
    }
}

impl Batch {
    fn numbers(&self) -> u64 {
        (self.entries.len() + self.records.len()) as u64
    }
}
