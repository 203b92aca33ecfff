//! The writer thread: the only place that writes the database.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction, params};

use crate::batch::{CatalogueChange, Durability, Entry, HostRecord, SnapshotRow, StoredClient};
use crate::retention::{self, Retention};
use crate::sequencer::{BLOCK, Inner, Life, Numbered, Shared, number, publish};
use crate::{AuditEntry, Blob, StoreError, audit, blob};

/// Streamed output is committed at the latest after this time; 100 ms is the promise.
const STREAM_WINDOW: Duration = Duration::from_millis(50);

/// So many unsaved rows are written without waiting for the window's end.
pub(crate) const EAGER_ROWS: usize = 4_096;

/// How long to wait after a failed write of streamed output.
const RETRY: Duration = Duration::from_millis(250);

/// How often a stopping writer tries to save what is left.
const LAST_TRIES: u32 = 4;

/// One thing to write.
pub(crate) enum Row {
    Journal {
        seq: u64,
        session: Option<Arc<str>>,
        channel: Arc<str>,
        kind: i64,
        body: Arc<str>,
        client: Option<(String, i64)>,
    },
    Catalogue(CatalogueChange),
    Snapshot {
        session: Arc<str>,
        seq: u64,
        row: SnapshotRow,
    },
    Client(StoredClient),
    Blob {
        session: Arc<str>,
        blob: Blob,
    },
    Audit {
        session: Arc<str>,
        entry: AuditEntry,
    },
}

impl Row {
    pub(crate) fn record(seq: u64, session: Option<Arc<str>>, record: HostRecord) -> Self {
        Self::Journal { seq, session, channel: record.channel, kind: 1, body: record.json.into(), client: None }
    }

    pub(crate) fn action(seq: u64, session: Option<Arc<str>>, entry: &Entry) -> Self {
        Self::Journal {
            seq,
            session,
            channel: Arc::clone(&entry.channel),
            kind: 0,
            body: Arc::clone(&entry.json),
            client: entry.origin.as_ref().map(|origin| (origin.client_id.clone(), origin.client_seq)),
        }
    }
}

/// Reserves the first block above everything that was ever reserved, and tells what was there before.
pub(crate) fn begin_life(db: &mut Connection) -> Result<Life, StoreError> {
    let tx = db.transaction()?;
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
    while let Some(work) = next_work(shared, failures) {
        let result = write(&mut db, &mut channels, &mut keeper, &work);
        if let Err(error) = &result {
            failures += 1;
            channels.forget();
            if failures == 1 {
                tracing::error!(%error, "the journal could not be written; it is tried again");
            }
        } else if failures > 0 {
            tracing::info!(failures, "the journal can be written again");
            failures = 0;
        }
        let stopping = finish(shared, work, result);
        if stopping && failures >= LAST_TRIES {
            tracing::error!("the journal could not be written before the end; the last output is lost");
            break;
        }
        if failures == 0 && !stopping {
            keeper.sweep_if_due(&mut db);
        }
    }
    shared.room.close();
    if let Err((_, error)) = db.close() {
        tracing::warn!(%error, "the journal could not be closed cleanly");
    }
}

/// Keeps the journal within its bounds.
struct Keeper {
    retention: Retention,
    bytes: i64,
    marked: Option<Instant>,
    swept: Instant,
}

impl Keeper {
    fn new(db: &Connection, retention: Retention) -> Self {
        let bytes = retention::total_bytes(db).unwrap_or_default();
        Self { retention, bytes, marked: None, swept: Instant::now() }
    }

    /// Counts what a transaction writes, and notes it from time to time.
    fn count(&mut self, tx: &Connection, seq: u64, bytes: usize) -> Result<(), StoreError> {
        self.bytes = self.bytes.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
        if self.marked.is_none_or(|at| at.elapsed() >= self.retention.mark_interval()) {
            retention::mark(tx, as_sql(seq), now_ms(), self.bytes)?;
            self.marked = Some(Instant::now());
        }
        Ok(())
    }

    fn sweep_if_due(&mut self, db: &mut Connection) {
        if self.swept.elapsed() < self.retention.interval {
            return;
        }
        match retention::sweep(db, self.retention, now_ms()) {
            // The rest goes after the next batch, so that nobody waits for all of it.
            Ok(true) => {}
            Ok(false) => self.swept = Instant::now(),
            Err(error) => {
                tracing::warn!(%error, "old rows of the journal could not be removed");
                self.swept = Instant::now();
            }
        }
    }
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or_default()
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
        if !inner.waiting.is_empty() || inner.unsaved.len() >= EAGER_ROWS {
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
fn finish(shared: &Shared, work: Work, result: Result<(), StoreError>) -> bool {
    let mut inner = shared.lock();
    inner.committing = false;
    match result {
        Ok(()) => {
            if let Some(reserved) = work.reserve {
                inner.reserved = reserved;
            }
            let count = work.batches.len();
            let mut seq = work.before;
            for batch in work.batches {
                seq = batch.items.last().map_or(seq, |item| item.seq);
                publish(&*shared.publisher, batch.items, batch.then, batch.done, seq);
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
            match batch.done {
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
        publish(&*shared.publisher, renumbered.items, renumbered.then, renumbered.done, inner.seq);
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
            Row::Snapshot { seq: old, .. } => *old = *seq,
            Row::Catalogue(_) | Row::Client(_) | Row::Blob { .. } | Row::Audit { .. } => {}
        }
    }
    batch.items = batch
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
        match row {
            Row::Journal { seq, session, channel, kind, body, client } => {
                last = *seq;
                bytes += body.len();
                let channel = channels.id(&tx, channel, session.as_deref())?;
                tx.prepare_cached(
                    "INSERT INTO journal (seq, channel, kind, body, client, client_seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![
                    as_sql(*seq),
                    channel,
                    kind,
                    &**body,
                    client.as_ref().map(|(id, _)| id),
                    client.as_ref().map(|(_, seq)| seq)
                ])?;
            }
            Row::Catalogue(CatalogueChange::Put { session, listed, summary }) => {
                tx.prepare_cached(
                    "INSERT INTO sessions (uri, listed, summary) VALUES (?1, ?2, ?3)
                     ON CONFLICT (uri) DO UPDATE SET listed = excluded.listed, summary = excluded.summary",
                )?
                .execute(params![&**session, listed, summary])?;
            }
            Row::Catalogue(CatalogueChange::Remove { session }) => {
                channels.forget();
                tx.execute(
                    "DELETE FROM journal WHERE channel IN (SELECT id FROM channels WHERE session = ?1)",
                    params![&**session],
                )?;
                tx.execute("DELETE FROM channels WHERE session = ?1", params![&**session])?;
                for table in [
                    "DELETE FROM sessions WHERE uri = ?1",
                    "DELETE FROM snapshots WHERE session = ?1",
                    "DELETE FROM turns WHERE session = ?1",
                    "DELETE FROM audit WHERE session = ?1",
                ] {
                    tx.execute(table, params![&**session])?;
                }
                blob::forget(&tx, session)?;
            }
            Row::Blob { session, blob } => blob::write(&tx, session, blob)?,
            Row::Audit { session, entry } => audit::write(&tx, session, entry)?,
            Row::Snapshot { session, seq, row } => snapshot(&tx, session, *seq, row)?,
            Row::Client(StoredClient { id, memo, seen_ms }) => {
                tx.prepare_cached(
                    "INSERT INTO clients (id, memo, seen_ms) VALUES (?1, ?2, ?3)
                     ON CONFLICT (id) DO UPDATE SET memo = excluded.memo, seen_ms = excluded.seen_ms",
                )?
                .execute(params![id, memo, seen_ms])?;
            }
        }
    }
    if last > 0 {
        keeper.count(&tx, last, bytes)?;
    }
    tx.commit()?;
    Ok(())
}

fn snapshot(tx: &Transaction<'_>, session: &Arc<str>, seq: u64, row: &SnapshotRow) -> Result<(), StoreError> {
    for turn in &row.turns {
        tx.prepare_cached("INSERT OR REPLACE INTO turns (chat, position, session, body) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![&*turn.chat, as_sql(turn.position as u64), &**session, turn.body])?;
    }
    tx.prepare_cached(
        "INSERT INTO snapshots (session, seq, body) VALUES (?1, ?2, ?3)
         ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, body = excluded.body",
    )?
    .execute(params![&**session, as_sql(seq), row.body])?;
    Ok(())
}

/// The numbers of channels in the database, remembered.
#[derive(Default)]
struct Channels {
    ids: HashMap<Arc<str>, i64>,
}

impl Channels {
    fn id(&mut self, tx: &Transaction<'_>, uri: &Arc<str>, session: Option<&str>) -> Result<i64, StoreError> {
        if let Some(id) = self.ids.get(uri) {
            return Ok(*id);
        }
        tx.prepare_cached("INSERT INTO channels (uri, session) VALUES (?1, ?2) ON CONFLICT (uri) DO NOTHING")?
            .execute(params![&**uri, session])?;
        let id = tx
            .prepare_cached("SELECT id FROM channels WHERE uri = ?1")?
            .query_row(params![&**uri], |row| row.get(0))?;
        self.ids.insert(Arc::clone(uri), id);
        Ok(id)
    }

    /// After a roll-back or a removal, what is remembered may not be there.
    fn forget(&mut self) {
        self.ids.clear();
    }
}

fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn as_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
