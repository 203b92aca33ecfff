//! The ledger: what each session and each day has used, kept across restarts.
//!
//! Counting happens in memory and never waits for a disk. A thread of the ledger's own writes what has changed to an
//! append-only file, as whole totals: a line replaces all earlier ones of the same session or day. So writes merge by
//! themselves when the disk is slow, a line that is written twice counts once, and when the disk is full the counting
//! goes on and the file catches up later. A `kill -9` costs what was counted during the last write, not more; loss of
//! power may cost more, since lines are not synced one by one.
//!
//! Days are those of UTC, so that they are the same on every machine and have 24 hours.

mod file;
mod writer;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use tokio::sync::watch;

use self::file::LedgerFile;
use self::writer::LedgerWriter;
use crate::usage::UsageTotals;

/// How many days are kept beside today.
const RETENTION_DAYS: i64 = 62;
/// How many sessions are kept that nobody registered; further ones share a row. Their names come from outside.
const MAX_UNREGISTERED_SESSIONS: usize = 10_000;
/// The longest name of such a session; longer ones share a row.
const MAX_UNREGISTERED_NAME_BYTES: usize = 256;
/// The row that they share.
const OVERFLOW_SESSION: &str = "other callers";

/// Why a ledger could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Another gateway counts there.
    #[error("another gateway keeps its ledger in {}; stop it or choose another state directory", .0.display())]
    Locked(PathBuf),
    /// The file was written by a later version.
    #[error("{} was written by a later version of the gateway; use that one, or move the file away", .0.display())]
    TooNew(PathBuf),
    /// A file cannot be used at all.
    #[error("the ledger's file {} cannot be used: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What time it is; replaced in tests.
pub(crate) type TimestampSource = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How a ledger is kept.
pub(crate) struct LedgerOptions {
    /// Where; nowhere if absent, and then it lasts as long as the process.
    pub(crate) state_dir: Option<PathBuf>,
    pub(crate) clock: TimestampSource,
    /// By how many bytes the file may grow before it is written anew.
    pub(crate) compaction_growth_bytes: u64,
    /// How long to wait after a failed write.
    pub(crate) retry_delay: Duration,
}

impl LedgerOptions {
    pub(crate) fn new(state_dir: Option<PathBuf>) -> Self {
        Self {
            state_dir,
            clock: Arc::new(Timestamp::now),
            compaction_growth_bytes: 4 * 1024 * 1024,
            retry_delay: Duration::from_secs(1),
        }
    }
}

/// The totals of all sessions and days. Dropping it writes what is left and lets others have the file.
pub(crate) struct Ledger {
    shared: Arc<SharedLedger>,
    clock: TimestampSource,
    writer: Mutex<Option<LedgerWriter>>,
    is_durable: bool,
}

impl Ledger {
    /// Reads the directory's ledger, shortens it, and goes on with it. Blocks on the disk.
    pub(crate) fn open(options: LedgerOptions) -> Result<Self, LedgerError> {
        let LedgerOptions { state_dir: dir, clock, compaction_growth_bytes: growth, retry_delay: retry } = options;
        let Some(dir) = dir else {
            let books = Arc::new(SharedLedger::new(Rows::default()));
            return Ok(Self { shared: books, clock, writer: Mutex::new(None), is_durable: false });
        };
        let (file, mut rows) = LedgerFile::open(&dir, growth)?;
        rows.remove_expired(utc_date(clock()));
        let books = Arc::new(SharedLedger::new(rows));
        let io = |source| LedgerError::Io { path: dir, source };
        let writer = LedgerWriter::start(Arc::clone(&books), file, retry).map_err(io)?;
        Ok(Self { shared: books, clock, writer: Mutex::new(Some(writer)), is_durable: true })
    }

    /// What time it is, by the clock that the days are told by.
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// How long today lasts.
    pub(crate) fn time_until_tomorrow(&self) -> Duration {
        let now = self.now();
        let midnight = utc_date(now).tomorrow().and_then(|date| date.to_zoned(TimeZone::UTC));
        let left = midnight.map(|midnight| midnight.timestamp().duration_since(now));
        // The last day that the calendar knows has no tomorrow; nobody will wait for it.
        left.ok().and_then(|left| Duration::try_from(left).ok()).unwrap_or(Duration::MAX)
    }

    /// The row that the caller of an unregistered bearer is counted in.
    pub(crate) fn unregistered_session_name(&self, id: &str) -> Arc<str> {
        let books = self.shared.lock();
        if let Some((name, _)) = books.rows.sessions.get_key_value(id) {
            return Arc::clone(name);
        }
        let guests = books.rows.sessions.values().filter(|row| row.is_unregistered).count();
        if guests < MAX_UNREGISTERED_SESSIONS && id.len() <= MAX_UNREGISTERED_NAME_BYTES {
            id.into()
        } else {
            OVERFLOW_SESSION.into()
        }
    }

    /// What a session has used in all.
    pub(crate) fn session_totals(&self, session: &str) -> UsageTotals {
        self.shared.lock().rows.sessions.get(session).map(|row| row.totals).unwrap_or_default()
    }

    /// What all sessions have used today.
    pub(crate) fn totals_today(&self) -> UsageTotals {
        let today = utc_date(self.now());
        self.shared.lock().rows.days.get(&today).copied().unwrap_or_default()
    }

    /// Counts for a session and for today; gives back the session's new totals.
    pub(crate) fn add(&self, account: &AccountKey, change: &UsageTotals) -> UsageTotals {
        let today = utc_date(self.now());
        let mut books = self.shared.lock();
        let row = books.rows.sessions.entry(Arc::clone(&account.session)).or_default();
        row.totals.add(change);
        row.is_unregistered = account.is_unregistered;
        row.last_used = row.last_used.max(today);
        let totals = row.totals;
        books.unwritten.sessions.insert(Arc::clone(&account.session));
        books.add_to_day(today, change);
        self.mark_changed(books);
        totals
    }

    /// Counts for today alone: the session has been forgotten.
    pub(crate) fn add_to_day(&self, change: &UsageTotals) {
        let today = utc_date(self.now());
        let mut books = self.shared.lock();
        books.add_to_day(today, change);
        self.mark_changed(books);
    }

    /// Forgets a session's totals; the days keep what it has used.
    pub(crate) fn delete_session(&self, session: &str) {
        let mut books = self.shared.lock();
        if let Some((name, _)) = books.rows.sessions.remove_entry(session) {
            books.unwritten.sessions.insert(name);
            self.mark_changed(books);
        }
    }

    /// Returns once all that has been counted so far is in the file, or the ledger is closed.
    pub(crate) async fn wait_until_written(&self) {
        let wanted = self.shared.lock().version;
        if self.is_durable {
            let reached = |written: &WriteProgress| written.closed || written.version >= wanted;
            // Fails only when the sender is gone, and `self` holds it.
            let _ = self.shared.write_progress.subscribe().wait_for(reached).await;
        }
    }

    /// Whether there is a writer that [`close`](Self::close) would wait for.
    pub(crate) fn is_open(&self) -> bool {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Writes what is left and ends the writer; what is counted later stays in memory. Blocks on the disk.
    pub(crate) fn close(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            self.shared.lock().is_closing = true;
            self.shared.writer_wakeup.notify_all();
            writer.join();
        }
    }

    fn mark_changed(&self, mut books: MutexGuard<'_, State>) {
        books.version += 1;
        if self.is_durable {
            drop(books);
            self.shared.writer_wakeup.notify_one();
        } else {
            // Nobody will write it.
            books.unwritten = Unwritten::default();
        }
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("durable", &self.is_durable).finish_non_exhaustive()
    }
}

/// Who is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccountKey {
    pub(crate) session: Arc<str>,
    /// The caller came with a name of its own instead of a registration; such rows are not kept for ever.
    pub(crate) is_unregistered: bool,
}

/// The totals, and what of them is not in the file. Shared with the writer.
struct SharedLedger {
    state: Mutex<State>,
    /// Something is unwritten, or the ledger closes.
    writer_wakeup: Condvar,
    write_progress: watch::Sender<WriteProgress>,
}

/// How far the file has come.
#[derive(Debug, Clone, Copy, Default)]
struct WriteProgress {
    version: u64,
    /// How many writes in a row have failed.
    failures: u64,
    closed: bool,
}

struct State {
    rows: Rows,
    unwritten: Unwritten,
    /// Counts changes.
    version: u64,
    is_closing: bool,
}

/// What the file stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rows {
    sessions: HashMap<Arc<str>, SessionRow>,
    days: BTreeMap<Date, UsageTotals>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SessionRow {
    totals: UsageTotals,
    is_unregistered: bool,
    /// The last day on which it used something.
    last_used: Date,
}

/// The names of what has changed since the last write; a session that is named and has no row was forgotten.
#[derive(Debug, Default)]
struct Unwritten {
    sessions: HashSet<Arc<str>>,
    days: BTreeSet<Date>,
}

impl Rows {
    /// Drops what is too old to matter: days, and guests that have not come for as long.
    fn remove_expired(&mut self, today: Date) {
        let oldest = today.checked_sub(Span::new().days(RETENTION_DAYS)).unwrap_or(Date::MIN);
        self.days.retain(|day, _| *day >= oldest);
        self.sessions.retain(|_, row| !row.is_unregistered || row.last_used >= oldest);
    }
}

impl State {
    fn add_to_day(&mut self, today: Date, change: &UsageTotals) {
        if !self.rows.days.contains_key(&today) {
            self.rows.remove_expired(today);
        }
        self.rows.days.entry(today).or_default().add(change);
        self.unwritten.days.insert(today);
    }
}

impl SharedLedger {
    fn new(rows: Rows) -> Self {
        let state = State { rows, unwritten: Unwritten::default(), version: 0, is_closing: false };
        Self { state: Mutex::new(state), writer_wakeup: Condvar::new(), write_progress: watch::Sender::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The day of UTC.
fn utc_date(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

/// The file that a directory's ledger is in.
fn ledger_path(dir: &Path) -> PathBuf {
    dir.join("ledger.jsonl")
}

#[cfg(test)]
mod tests;
