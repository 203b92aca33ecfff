//! The writer thread: the only place that writes the database.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use crate::batch::BatchDurability;
use crate::blob_cleanup::CleanupJob;
use crate::pending_rows::{ChannelIds, PendingRow, as_sql, from_sql};
use crate::retention::JournalRetention;
use crate::retention_sweeper::RetentionSweeper;
use crate::sequencer::{NumberedBatch, SEQ_BLOCK_SIZE, SequencerShared, SequencerState, assign_seqs, publish_batch};
use crate::store::SequenceAtStart;
use crate::{StoreError, blob, blob_quota};

/// Maximum delay before streamed output is committed; clients are promised 100 ms.
const STREAM_COMMIT_WINDOW: Duration = Duration::from_millis(50);

/// Number of unsaved rows that are written without waiting for the end of the window.
pub(crate) const MAX_UNSAVED_ROWS: usize = 4_096;

/// Delay after a failed write of streamed output.
const WRITE_RETRY_DELAY: Duration = Duration::from_millis(250);

/// Maximum number of attempts of a stopping writer to save the remaining rows.
const MAX_STOP_RETRIES: u32 = 4;

/// Reserves the first block above everything that was ever reserved; returns the numbers of the earlier runs.
pub(crate) fn reserve_first_block(db: &mut Connection) -> Result<SequenceAtStart, StoreError> {
    // A transaction that reads first and then writes fails at once if another writer intervenes; an immediate one
    // waits.
    let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let (reserved_through, replayable_after): (i64, i64) =
        tx.query_row("SELECT reserved_through, replayable_after FROM sequence", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let last: i64 = tx.query_row("SELECT COALESCE(MAX(seq), 0) FROM journal", [], |row| row.get(0))?;
    tx.execute("UPDATE sequence SET reserved_through = ?1", params![reserved_through + as_sql(SEQ_BLOCK_SIZE)])?;
    tx.commit()?;
    // Removed rows had been durable as well.
    Ok(SequenceAtStart { base_seq: from_sql(reserved_through), last_durable_seq: from_sql(last.max(replayable_after)) })
}

/// The thread's main loop.
pub(crate) fn run(shared: &SequencerShared, mut db: Connection, retention: JournalRetention) {
    let mut channels = ChannelIds::default();
    let mut sweeper = RetentionSweeper::new(&db, retention);
    let mut failures = 0;
    while let Some(mut work) = wait_for_work(shared, failures) {
        let (cleanup_job, idle) = (work.cleanup_job.take(), work.is_empty());
        let (refused, result) = match blob_quota::extract_over_quota(&db, shared.blobs.quota_bytes, &mut work.batches) {
            Ok(refused) => (refused, write_work(&mut db, &mut channels, &mut sweeper, &work)),
            Err(error) => (Vec::new(), Err(error)),
        };
        if let Err(error) = &result {
            failures += 1;
            channels.clear();
            if failures == 1 {
                tracing::error!(%error, "failed to write the journal; retrying");
            }
        } else if failures > 0 && !idle {
            tracing::info!(failures, "the journal is writable again");
            failures = 0;
        }
        update_stored_blob_bytes(shared, &db);
        let stopping = complete_work(shared, work, refused, result);
        if stopping && failures >= MAX_STOP_RETRIES {
            tracing::error!("failed to write the journal while stopping; the last output is lost");
            break;
        }
        if failures == 0 && !stopping {
            sweeper.sweep_if_due(&mut db);
        }
        if let Some(job) = cleanup_job.filter(|_| !stopping) {
            job.execute(&mut db);
            update_stored_blob_bytes(shared, &db);
        }
    }
    shared.write_permits.close();
    shared.lock().cleanup_job = None;
    if let Err((_, error)) = db.close() {
        tracing::warn!(%error, "failed to close the journal");
    }
}

/// Updates the total size of blobs, for admission of further ones.
fn update_stored_blob_bytes(shared: &SequencerShared, db: &Connection) {
    if let Ok(total) = blob::total_bytes(db) {
        shared.stored_blob_bytes.store(total, Ordering::Relaxed);
    }
}

/// What one transaction writes.
struct WriteWork {
    /// Stream rows that are published already.
    published_rows: Vec<PendingRow>,
    published_batches: usize,
    /// Numbered, not yet published.
    batches: Vec<NumberedBatch>,
    /// The last number before `batches`, restored if they fail.
    base_seq: u64,
    /// The new end of the reserved numbers, if a block is needed.
    reserve_through: Option<u64>,
    /// The cleanup to carry out afterwards.
    cleanup_job: Option<CleanupJob>,
}

impl WriteWork {
    /// Whether nothing has to be written.
    fn is_empty(&self) -> bool {
        self.published_rows.is_empty() && self.batches.is_empty() && self.reserve_through.is_none()
    }
}

/// Waits for work and numbers it. `None` when the sequencer stops and no work remains.
fn wait_for_work(shared: &SequencerShared, failures: u32) -> Option<WriteWork> {
    let mut inner = shared.lock();
    if failures > 0 && !inner.is_stopping {
        // Durable batches still get their answer at once; only rows that were published already can wait.
        let deadline = Instant::now() + WRITE_RETRY_DELAY;
        while inner.waiting.is_empty() && !inner.is_stopping {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                break;
            }
            inner = wait(shared, inner, remaining);
        }
    }
    loop {
        if !inner.waiting.is_empty() || inner.unsaved.len() >= MAX_UNSAVED_ROWS || inner.cleanup_job.is_some() {
            break;
        }
        if inner.is_stopping {
            if inner.unsaved.is_empty() {
                return None;
            }
            break;
        }
        let Some(since) = inner.unsaved_since else {
            inner = wait(shared, inner, Duration::from_secs(3600));
            continue;
        };
        let remaining = STREAM_COMMIT_WINDOW.saturating_sub(since.elapsed());
        if remaining.is_zero() {
            break;
        }
        inner = wait(shared, inner, remaining);
    }

    let base_seq = inner.last_seq;
    let mut seq = base_seq;
    let batches: Vec<_> =
        std::mem::take(&mut inner.waiting).into_iter().map(|batch| assign_seqs(&mut seq, batch)).collect();
    inner.last_seq = seq;
    inner.is_committing = !batches.is_empty();
    let reserve_through = (seq + SEQ_BLOCK_SIZE / 2 > inner.reserved_through).then_some(seq + SEQ_BLOCK_SIZE);
    inner.unsaved_since = None;
    Some(WriteWork {
        published_rows: std::mem::take(&mut inner.unsaved),
        published_batches: std::mem::take(&mut inner.unsaved_batches),
        batches,
        base_seq,
        reserve_through,
        cleanup_job: inner.cleanup_job.take(),
    })
}

fn wait<'a>(
    shared: &'a SequencerShared,
    inner: std::sync::MutexGuard<'a, SequencerState>,
    timeout: Duration,
) -> std::sync::MutexGuard<'a, SequencerState> {
    shared.writer_wake.wait_timeout(inner, timeout).unwrap_or_else(std::sync::PoisonError::into_inner).0
}

/// Publishes committed batches, or rejects failed ones. Returns whether the sequencer is stopping.
fn complete_work(
    shared: &SequencerShared,
    work: WriteWork,
    refused: Vec<NumberedBatch>,
    result: Result<(), StoreError>,
) -> bool {
    let mut inner = shared.lock();
    inner.is_committing = false;
    // Their numbers stay unused.
    reject_batches(shared, &mut inner, refused, &StoreError::Quota(shared.blobs.quota_bytes));
    match result {
        Ok(()) => {
            if let Some(reserved) = work.reserve_through {
                inner.reserved_through = reserved;
            }
            let count = work.batches.len();
            let mut seq = work.base_seq;
            for batch in work.batches {
                seq = batch.output.last_seq(seq);
                publish_batch(&*shared.publisher, batch.output, seq);
            }
            shared.write_permits.add_permits(count + work.published_batches);
        }
        Err(error) => {
            // Nothing after `base_seq` was published: its numbers are free again. Without durable batches, stream
            // batches were published meanwhile under their numbers.
            if !work.batches.is_empty() {
                inner.last_seq = work.base_seq;
            }
            let later = std::mem::replace(&mut inner.unsaved, work.published_rows);
            inner.unsaved.extend(later);
            inner.unsaved_batches += work.published_batches;
            inner.unsaved_since = (!inner.unsaved.is_empty()).then(Instant::now);
            reject_batches(shared, &mut inner, work.batches, &error);
        }
    }
    inner.is_stopping
}

/// Durable batches fail; batches that need no disk continue, under new numbers.
fn reject_batches(
    shared: &SequencerShared,
    inner: &mut SequencerState,
    batches: Vec<NumberedBatch>,
    error: &StoreError,
) {
    for batch in batches {
        if batch.durability == BatchDurability::Durable {
            shared.write_permits.add_permits(1);
            match batch.output.done {
                Some(done) => drop(done.send(Err(error.clone()))),
                None => tracing::error!(%error, "failed to commit durable batch"),
            }
            continue;
        }
        let renumbered = reassign_seqs(&mut inner.last_seq, batch);
        inner.unsaved.extend(renumbered.rows);
        if renumbered.durability == BatchDurability::Stream {
            inner.unsaved_batches += 1;
            inner.unsaved_since.get_or_insert_with(Instant::now);
        } else {
            shared.write_permits.add_permits(1);
        }
        publish_batch(&*shared.publisher, renumbered.output, inner.last_seq);
    }
}

fn reassign_seqs(seq: &mut u64, mut batch: NumberedBatch) -> NumberedBatch {
    let mut numbers = HashMap::new();
    for row in &mut batch.rows {
        match row {
            PendingRow::Journal { seq: old, .. } => {
                *seq += 1;
                numbers.insert(*old, *seq);
                *old = *seq;
            }
            PendingRow::Snapshot { seq: old, .. } | PendingRow::Blob { seq: old, .. } => *old = *seq,
            PendingRow::Catalog(_)
            | PendingRow::Client(_)
            | PendingRow::Conversation(_)
            | PendingRow::PendingDeletion { .. }
            | PendingRow::Audit { .. } => {}
        }
    }
    batch.output.items = batch
        .output
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
    batch.output.unicast = batch.output.unicast.map(|(item, deliver)| {
        *seq += 1;
        (Arc::new(item.with_seq(*seq)), deliver)
    });
    batch
}

fn write_work(
    db: &mut Connection,
    channels: &mut ChannelIds,
    sweeper: &mut RetentionSweeper,
    work: &WriteWork,
) -> Result<(), StoreError> {
    let rows = work.batches.iter().flat_map(|batch| &batch.rows);
    let mut rows = work.published_rows.iter().chain(rows).peekable();
    if rows.peek().is_none() && work.reserve_through.is_none() {
        return Ok(());
    }
    let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    if let Some(through) = work.reserve_through {
        tx.prepare_cached("UPDATE sequence SET reserved_through = ?1")?.execute(params![as_sql(through)])?;
    }
    let (mut last, mut bytes) = (0, 0);
    for row in rows {
        if let PendingRow::Journal { seq, body, .. } = row {
            last = *seq;
            bytes += body.len();
        }
        row.write(&tx, channels)?;
    }
    if last > 0 {
        sweeper.record_written(&tx, last, bytes)?;
    }
    tx.commit()?;
    Ok(())
}
