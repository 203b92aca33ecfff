//! The writer thread: the only place that writes the database.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use crate::batch::Durability;
use crate::keeper::Keeper;
use crate::retention::Retention;
use crate::rows::{Channels, Row, as_sql, from_sql};
use crate::sequencer::{BLOCK, Inner, Numbered, Shared, number, publish};
use crate::store::Life;
use crate::sweep::Order;
use crate::{StoreError, blob, quota};

/// Streamed output is committed at the latest after this time; 100 ms is the promise.
const STREAM_WINDOW: Duration = Duration::from_millis(50);

/// So many unsaved rows are written without waiting for the window's end.
pub(crate) const EAGER_ROWS: usize = 4_096;

/// How long to wait after a failed write of streamed output.
const RETRY: Duration = Duration::from_millis(250);

/// How often a stopping writer tries to save what is left.
const LAST_TRIES: u32 = 4;

/// Reserves the first block above everything that was ever reserved, and tells what was there before.
pub(crate) fn begin_life(db: &mut Connection) -> Result<Life, StoreError> {
    // A transaction that reads first and writes then fails at once where another writer comes in between; this one waits.
    let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let (until, replay_from): (i64, i64) =
        tx.query_row("SELECT until, replay_from FROM reserved", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let last: i64 = tx.query_row("SELECT COALESCE(MAX(seq), 0) FROM journal", [], |row| row.get(0))?;
    tx.execute("UPDATE reserved SET until = ?1", params![until + as_sql(BLOCK)])?;
    tx.commit()?;
    // What was removed had been durable as well.
    Ok(Life { before: from_sql(until), last_durable: from_sql(last.max(replay_from)) })
}

/// The thread's whole life.
pub(crate) fn run(shared: &Shared, mut db: Connection, retention: Retention) {
    let mut channels = Channels::default();
    let mut keeper = Keeper::new(&db, retention);
    let mut failures = 0;
    while let Some(mut work) = next_work(shared, failures) {
        let (order, idle) = (work.order.take(), work.is_empty());
        let (refused, result) = match quota::refuse(&db, shared.blobs.quota, &mut work.batches) {
            Ok(refused) => (refused, write(&mut db, &mut channels, &mut keeper, &work)),
            Err(error) => (Vec::new(), Err(error)),
        };
        if let Err(error) = &result {
            failures += 1;
            channels.forget();
            if failures == 1 {
                tracing::error!(%error, "the journal could not be written; it is tried again");
            }
        } else if failures > 0 && !idle {
            tracing::info!(failures, "the journal can be written again");
            failures = 0;
        }
        look(shared, &db);
        let stopping = finish(shared, work, refused, result);
        if stopping && failures >= LAST_TRIES {
            tracing::error!("the journal could not be written before the end; the last output is lost");
            break;
        }
        if failures == 0 && !stopping {
            keeper.sweep_if_due(&mut db);
        }
        if let Some(order) = order.filter(|_| !stopping) {
            order.carry_out(&mut db);
            look(shared, &db);
        }
    }
    shared.room.close();
    shared.lock().order = None;
    if let Err((_, error)) = db.close() {
        tracing::warn!(%error, "the journal could not be closed cleanly");
    }
}

/// Notes how much there is of contents, for those who would bring more.
fn look(shared: &Shared, db: &Connection) {
    if let Ok(total) = blob::total(db) {
        shared.stored.store(total, Ordering::Relaxed);
    }
}

/// What one transaction writes.
struct Work {
    /// Stream rows that are published already.
    saved: Vec<Row>,
    saved_batches: usize,
    /// Numbered, not yet published.
    batches: Vec<Numbered>,
    /// The last number before `batches`, to fall back to.
    before: u64,
    /// The new end of the reserved numbers, if a block is needed.
    reserve: Option<u64>,
    /// What is to be taken away after it.
    order: Option<Order>,
}

impl Work {
    /// Whether nothing has to be written.
    fn is_empty(&self) -> bool {
        self.saved.is_empty() && self.batches.is_empty() && self.reserve.is_none()
    }
}

/// Waits for work and numbers it. `None` when the sequencer stops and nothing is left.
fn next_work(shared: &Shared, failures: u32) -> Option<Work> {
    let mut inner = shared.lock();
    if failures > 0 && !inner.stopping {
        // Durable batches still get their answer at once; only rows that were published already can wait.
        let deadline = Instant::now() + RETRY;
        while inner.waiting.is_empty() && !inner.stopping {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            inner = wait(shared, inner, left);
        }
    }
    loop {
        if !inner.waiting.is_empty() || inner.unsaved.len() >= EAGER_ROWS || inner.order.is_some() {
            break;
        }
        if inner.stopping {
            if inner.unsaved.is_empty() {
                return None;
            }
            break;
        }
        let Some(since) = inner.unsaved_since else {
            inner = wait(shared, inner, Duration::from_secs(3600));
            continue;
        };
        let left = STREAM_WINDOW.saturating_sub(since.elapsed());
        if left.is_zero() {
            break;
        }
        inner = wait(shared, inner, left);
    }

    let before = inner.seq;
    let mut seq = before;
    let batches: Vec<_> = std::mem::take(&mut inner.waiting).into_iter().map(|batch| number(&mut seq, batch)).collect();
    inner.seq = seq;
    inner.committing = !batches.is_empty();
    let reserve = (seq + BLOCK / 2 > inner.reserved).then_some(seq + BLOCK);
    inner.unsaved_since = None;
    Some(Work {
        saved: std::mem::take(&mut inner.unsaved),
        saved_batches: std::mem::take(&mut inner.unsaved_batches),
        batches,
        before,
        reserve,
        order: inner.order.take(),
    })
}

fn wait<'a>(
    shared: &'a Shared,
    inner: std::sync::MutexGuard<'a, Inner>,
    timeout: Duration,
) -> std::sync::MutexGuard<'a, Inner> {
    shared.wake.wait_timeout(inner, timeout).unwrap_or_else(std::sync::PoisonError::into_inner).0
}

/// Publishes what was committed, or answers what was not. Tells whether the sequencer is stopping.
fn finish(shared: &Shared, work: Work, refused: Vec<Numbered>, result: Result<(), StoreError>) -> bool {
    let mut inner = shared.lock();
    inner.committing = false;
    // Their numbers stay unused.
    refuse(shared, &mut inner, refused, &StoreError::Quota(shared.blobs.quota));
    match result {
        Ok(()) => {
            if let Some(reserved) = work.reserve {
                inner.reserved = reserved;
            }
            let count = work.batches.len();
            let mut seq = work.before;
            for batch in work.batches {
                seq = batch.said.last(seq);
                publish(&*shared.publisher, batch.said, seq);
            }
            shared.room.add_permits(count + work.saved_batches);
        }
        Err(error) => {
            // Nothing after `before` was published: its numbers are free again. Without batches nobody had to wait, and
            // what was published meanwhile keeps its numbers.
            if !work.batches.is_empty() {
                inner.seq = work.before;
            }
            let later = std::mem::replace(&mut inner.unsaved, work.saved);
            inner.unsaved.extend(later);
            inner.unsaved_batches += work.saved_batches;
            inner.unsaved_since = (!inner.unsaved.is_empty()).then(Instant::now);
            refuse(shared, &mut inner, work.batches, &error);
        }
    }
    inner.stopping
}

/// Durable batches fail; whatever does not need the disk goes on, under new numbers.
fn refuse(shared: &Shared, inner: &mut Inner, batches: Vec<Numbered>, error: &StoreError) {
    for batch in batches {
        if batch.durability == Durability::Durable {
            shared.room.add_permits(1);
            match batch.said.done {
                Some(done) => drop(done.send(Err(error.clone()))),
                None => tracing::error!(%error, "a durable batch that nobody waits for is lost"),
            }
            continue;
        }
        let renumbered = renumber(&mut inner.seq, batch);
        inner.unsaved.extend(renumbered.rows);
        if renumbered.durability == Durability::Stream {
            inner.unsaved_batches += 1;
            inner.unsaved_since.get_or_insert_with(Instant::now);
        } else {
            shared.room.add_permits(1);
        }
        publish(&*shared.publisher, renumbered.said, inner.seq);
    }
}

fn renumber(seq: &mut u64, mut batch: Numbered) -> Numbered {
    let mut numbers = HashMap::new();
    for row in &mut batch.rows {
        match row {
            Row::Journal { seq: old, .. } => {
                *seq += 1;
                numbers.insert(*old, *seq);
                *old = *seq;
            }
            Row::Snapshot { seq: old, .. } | Row::Blob { seq: old, .. } => *old = *seq,
            Row::Catalogue(_) | Row::Client(_) | Row::Conversation(_) | Row::Removal { .. } | Row::Audit { .. } => {}
        }
    }
    batch.said.items = batch
        .said
        .items
        .into_iter()
        .map(|item| {
            let fresh = numbers.get(&item.seq).copied().unwrap_or_else(|| {
                *seq += 1;
                *seq
            });
            Arc::new(item.with_seq(fresh))
        })
        .collect();
    batch.said.aside = batch.said.aside.map(|(item, hear)| {
        *seq += 1;
        (Arc::new(item.with_seq(*seq)), hear)
    });
    batch
}

fn write(db: &mut Connection, channels: &mut Channels, keeper: &mut Keeper, work: &Work) -> Result<(), StoreError> {
    let rows = work.batches.iter().flat_map(|batch| &batch.rows);
    let mut rows = work.saved.iter().chain(rows).peekable();
    if rows.peek().is_none() && work.reserve.is_none() {
        return Ok(());
    }
    let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    if let Some(until) = work.reserve {
        tx.prepare_cached("UPDATE reserved SET until = ?1")?.execute(params![as_sql(until)])?;
    }
    let (mut last, mut bytes) = (0, 0);
    for row in rows {
        if let Row::Journal { seq, body, .. } = row {
            last = *seq;
            bytes += body.len();
        }
        row.write(&tx, channels)?;
    }
    if last > 0 {
        keeper.count(&tx, last, bytes)?;
    }
    tx.commit()?;
    Ok(())
}
