//! The ledger: usage totals of each session and each day, stored across restarts. Does not know limits or prices.
//!
//! Usage is counted in memory first and never waits for the disk. A thread appends changed totals to a file as absolute
//! values: a line replaces all earlier lines of the same session or day, so nothing counts twice, and writes merge when
//! the disk is slow. When the disk is full, counting continues and the file catches up later. A `kill -9` loses only
//! what was counted during the last write; a power failure may lose more, since lines are not synced one by one.
//!
//! Days are UTC days, so that they are the same on every machine and have 24 hours.

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

/// Number of past days that are retained.
const RETENTION_DAYS: i64 = 62;
/// Maximum number of sessions of unregistered callers; further ones share a row, because callers choose their names.
const MAX_UNREGISTERED_SESSIONS: usize = 10_000;
/// Maximum length of such a session's name; longer names share a row.
const MAX_UNREGISTERED_NAME_BYTES: usize = 256;
/// Name of the shared row.
const OVERFLOW_SESSION: &str = "other callers";

/// Why a ledger could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Another gateway uses the directory.
    #[error("another gateway uses the ledger in {}; stop it or choose another state directory", .0.display())]
    Locked(PathBuf),
    /// The file was written by a later version.
    #[error("{} was written by a later version of Hostler; use that version or move the file away", .0.display())]
    TooNew(PathBuf),
    /// A file cannot be read or written.
    #[error("failed to open the ledger file {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl LedgerError {
    /// The code for programs, which does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Locked(_) => "ledgerLocked",
            Self::TooNew(_) => "ledgerTooNew",
            Self::Io { .. } => "ledgerUnavailable",
        }
    }
}

/// Returns the current time; replaced in tests.
pub(crate) type TimestampSource = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Configuration of a ledger.
pub(crate) struct LedgerOptions {
    /// Directory of the file; if absent, the ledger is in memory only.
    pub(crate) state_dir: Option<PathBuf>,
    pub(crate) clock: TimestampSource,
    /// Growth in bytes after which the file is compacted.
    pub(crate) compaction_growth_bytes: u64,
    /// Delay after a failed write.
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

/// Totals of all sessions and days. Dropping it writes unwritten changes and releases the lock.
pub(crate) struct Ledger {
    shared: Arc<SharedLedger>,
    clock: TimestampSource,
    writer: Mutex<Option<LedgerWriter>>,
    is_durable: bool,
}

impl Ledger {
    /// Opens and compacts the ledger of a directory. Blocks on the disk.
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

    /// The current time, by the clock that determines the days.
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Time until the next UTC day.
    pub(crate) fn time_until_tomorrow(&self) -> Duration {
        let now = self.now();
        let midnight = utc_date(now).tomorrow().and_then(|date| date.to_zoned(TimeZone::UTC));
        let left = midnight.map(|midnight| midnight.timestamp().duration_since(now));
        // The last day of the calendar has no next day; the value is then never reached.
        left.ok().and_then(|left| Duration::try_from(left).ok()).unwrap_or(Duration::MAX)
    }

    /// The row for an unregistered caller.
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

    /// A session's usage over its lifetime.
    pub(crate) fn session_totals(&self, session: &str) -> UsageTotals {
        self.shared.lock().rows.sessions.get(session).map(|row| row.totals).unwrap_or_default()
    }

    /// Usage of all sessions today.
    pub(crate) fn totals_today(&self) -> UsageTotals {
        let today = utc_date(self.now());
        self.shared.lock().rows.days.get(&today).copied().unwrap_or_default()
    }

    /// Adds usage to a session and to today; returns the session's new totals.
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

    /// Adds usage to today only, for a deleted session.
    pub(crate) fn add_to_day(&self, change: &UsageTotals) {
        let today = utc_date(self.now());
        let mut books = self.shared.lock();
        books.add_to_day(today, change);
        self.mark_changed(books);
    }

    /// Deletes a session's totals; the totals of days are unchanged.
    pub(crate) fn delete_session(&self, session: &str) {
        let mut books = self.shared.lock();
        if let Some((name, _)) = books.rows.sessions.remove_entry(session) {
            books.unwritten.sessions.insert(name);
            self.mark_changed(books);
        }
    }

    /// Returns once everything counted so far is in the file, or the ledger is closed.
    pub(crate) async fn wait_until_written(&self) {
        let wanted = self.shared.lock().version;
        if self.is_durable {
            let reached = |written: &WriteProgress| written.closed || written.version >= wanted;
            // Fails only if the sender is dropped, and `self` holds it.
            let _ = self.shared.write_progress.subscribe().wait_for(reached).await;
        }
    }

    /// Whether a writer runs that [`close`](Self::close) would wait for.
    pub(crate) fn is_open(&self) -> bool {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Writes unwritten changes and ends the writer; later usage stays in memory. Blocks on the disk.
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
            // There is no writer for it.
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

/// Identifies the account that usage is added to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccountKey {
    pub(crate) session: Arc<str>,
    /// The caller chose its name itself instead of being registered; such rows expire.
    pub(crate) is_unregistered: bool,
}

/// Totals and unwritten changes, shared with the writer.
struct SharedLedger {
    state: Mutex<State>,
    /// Signalled when there are unwritten changes or the ledger closes.
    writer_wakeup: Condvar,
    write_progress: watch::Sender<WriteProgress>,
}

/// How much has been written.
#[derive(Debug, Clone, Copy, Default)]
struct WriteProgress {
    version: u64,
    /// Number of consecutive failed writes.
    failures: u64,
    closed: bool,
}

struct State {
    rows: Rows,
    unwritten: Unwritten,
    /// Incremented at every change.
    version: u64,
    is_closing: bool,
}

/// Content of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rows {
    sessions: HashMap<Arc<str>, SessionRow>,
    days: BTreeMap<Date, UsageTotals>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SessionRow {
    totals: UsageTotals,
    is_unregistered: bool,
    /// The last day with usage.
    last_used: Date,
}

/// Names of changed rows since the last write; a session without a row was deleted.
#[derive(Debug, Default)]
struct Unwritten {
    sessions: HashSet<Arc<str>>,
    days: BTreeSet<Date>,
}

impl Rows {
    /// Removes expired days, and unregistered sessions that have not been used for as long.
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

/// The UTC date of a time.
fn utc_date(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

/// Path of a directory's ledger file.
fn ledger_path(dir: &Path) -> PathBuf {
    dir.join("ledger.jsonl")
}

#[cfg(test)]
mod tests;
