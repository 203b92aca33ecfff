//! The sequencer: one order over everything.
//!
//! Streamed output is numbered and published inline, by the caller, under one lock: no thread hop between an agent's
//! line and its readers. Durable batches go through the writer thread, which numbers them, commits them and only then
//! publishes them; whatever arrives meanwhile waits behind them, so that publication never leaves the order of numbers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::{Semaphore, oneshot};

use crate::batch::{Aside, Batch, Durability, Published, Publisher, Then};
use crate::rows::Row;
use crate::store::{Life, StoreOptions};
use crate::sweep::Order;
use crate::{BlobOptions, StoreError, blob, collect, database, writer};

/// How many batches may be unwritten at once. When the disk is that far behind, actors wait for it.
const MAX_UNWRITTEN: usize = 65_536;

/// How many callers may wait for the collector at once; the others do without it.
const MAX_ASKING: usize = 64;

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
    /// How many bytes all contents were together when the writer last looked.
    pub(crate) stored: AtomicU64,
    pub(crate) blobs: BlobOptions,
    /// The way to the collector, until the end.
    collector: Mutex<Option<SyncSender<oneshot::Sender<()>>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
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
    /// What the writer is to take away next.
    pub(crate) order: Option<Order>,
    /// Whether the writer is between numbering and publishing.
    pub(crate) committing: bool,
    /// Whether no further batch is taken.
    pub(crate) stopping: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        locked(&self.inner)
    }
}

impl Sequencer {
    pub(crate) fn start(options: &StoreOptions, publisher: Arc<dyn Publisher>) -> Result<(Self, Life), StoreError> {
        let mut db = database::open_writer(&options.dir, options.full_durability)?;
        let life = writer::begin_life(&mut db)?;
        let first = life.before;
        let reader = database::open_reader(&options.dir)?;
        let (retention, blobs) = (options.retention, options.blobs);
        let (ask, asked) = sync_channel(MAX_ASKING);
        let shared = Arc::new(Shared {
            inner: Mutex::new(Inner {
                seq: first,
                reserved: first + BLOCK,
                waiting: VecDeque::new(),
                unsaved: Vec::new(),
                unsaved_batches: 0,
                unsaved_since: None,
                order: None,
                committing: false,
                stopping: false,
            }),
            wake: Condvar::new(),
            publisher,
            room: Semaphore::new(MAX_UNWRITTEN),
            stored: AtomicU64::new(blob::total(&db)?),
            blobs,
            collector: Mutex::new(Some(ask)),
            threads: Mutex::new(Vec::new()),
        });
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
            let failed = |error| StoreError::Database(format!("a thread could not be started: {error}"));
            locked(&shared.threads).push(thread.map_err(failed)?);
            Ok::<_, StoreError>(())
        };
        let (sequencer, writer, collector) =
            (Self { shared: Arc::clone(&shared) }, Arc::clone(&shared), Arc::clone(&shared));
        spawn("hostler-journal", Box::new(move || writer::run(&writer, db, retention)))?;
        spawn("hostler-blobs", Box::new(move || collect::run(&collector, &reader, blobs, &asked)))
            .inspect_err(|_| sequencer.close())?;
        Ok((sequencer, life))
    }

    /// Takes a batch. Returns once it has its place in the order, which for streamed output means: once it is
    /// published. Batches of one caller keep the order in which they were submitted.
    ///
    /// # Errors
    /// [`StoreError::Stopped`] after [`Sequencer::stop`].
    pub async fn submit(&self, batch: Batch) -> Result<(), StoreError> {
        let brought = batch.brings();
        if brought > 0 && self.shared.stored.load(Ordering::Relaxed).saturating_add(brought) > self.shared.blobs.quota {
            self.collect().await;
        }
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

    /// Makes room, as far as there are contents that nothing names. The writer decides whether that was enough.
    async fn collect(&self) {
        let (sender, over) = oneshot::channel();
        let asked = locked(&self.shared.collector).as_ref().is_some_and(|collector| collector.try_send(sender).is_ok());
        if asked {
            // A collector that ends has nothing to say.
            let _ = over.await;
        }
    }

    /// Takes no further batch; what waits is still written.
    pub(crate) fn close(&self) {
        self.shared.room.close();
        self.shared.lock().stopping = true;
        drop(locked(&self.shared.collector).take());
        self.shared.wake.notify_all();
    }

    /// Writes everything that is waiting, then ends the store's threads. Twice is the same as once.
    pub async fn stop(&self) {
        self.close();
        let threads = std::mem::take(&mut *locked(&self.shared.threads));
        for thread in threads {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("a thread of the store ended abnormally");
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
        publish(&*self.shared.publisher, numbered.said, inner.seq);
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
    pub(crate) said: Said,
    pub(crate) durability: Durability,
    /// Whether a client brings contents with it.
    pub(crate) brought: bool,
}

/// What is heard of a batch.
pub(crate) struct Said {
    pub(crate) items: Vec<Arc<Published>>,
    pub(crate) aside: Option<(Arc<Published>, Aside)>,
    pub(crate) then: Option<Then>,
    pub(crate) done: Option<oneshot::Sender<Result<u64, StoreError>>>,
}

impl Said {
    /// The last number of the batch; the one before it, if it has none.
    pub(crate) fn last(&self, before: u64) -> u64 {
        let aside = self.aside.as_ref().map(|(item, _)| item);
        aside.or(self.items.last()).map_or(before, |item| item.seq)
    }
}

/// Gives a batch its numbers: records first, then actions, so that a replay knows the facts before their effects.
pub(crate) fn number(seq: &mut u64, batch: Batch) -> Numbered {
    let keep = batch.durability != Durability::Memory;
    let brought = batch.brings() > 0;
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
    let aside = batch.aside.map(|(entry, hear)| {
        *seq += 1;
        (Arc::new(Published::new(*seq, entry)), hear)
    });
    if keep {
        if let Some(session) = &batch.session {
            let blob = |blob| Row::Blob { session: Arc::clone(session), seq: *seq, blob };
            rows.extend(batch.blobs.into_iter().map(blob));
            rows.extend(batch.audit.into_iter().map(|entry| Row::Audit { session: Arc::clone(session), entry }));
        }
        rows.extend(batch.catalogue.map(Row::Catalogue));
        rows.extend(batch.conversations.into_iter().map(Row::Conversation));
        rows.extend(batch.removals.into_iter().map(|(conversation, wanted)| Row::Removal { conversation, wanted }));
        rows.extend(batch.snapshot.zip(batch.session).map(|(row, session)| Row::Snapshot { session, seq: *seq, row }));
        rows.extend(batch.client.map(Row::Client));
    }
    let said = Said { items, aside, then: batch.then, done: batch.done };
    Numbered { rows, said, durability: batch.durability, brought }
}

pub(crate) fn publish(publisher: &dyn Publisher, said: Said, seq: u64) {
    let last = said.last(seq);
    for item in &said.items {
        publisher.publish(item);
    }
    if let Some((item, hear)) = said.aside {
        hear(item);
    }
    if let Some(then) = said.then {
        then(last);
    }
    if let Some(done) = said.done {
        // The caller may have given up waiting; the batch stands all the same.
        let _ = done.send(Ok(last));
    }
}

impl Batch {
    fn numbers(&self) -> u64 {
        (self.entries.len() + self.records.len() + usize::from(self.aside.is_some())) as u64
    }

    /// How many bytes of contents a client brings with it. What agents put out does not count.
    fn brings(&self) -> u64 {
        let of_a_client = self.brought || self.entries.iter().any(|entry| entry.origin.is_some());
        let client = self.durability == Durability::Durable && of_a_client;
        if client { self.blobs.iter().map(|blob| blob.body().len() as u64).sum() } else { 0 }
    }
}
