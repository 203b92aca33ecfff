//! The ledger's writer thread: appends changed totals to the file and retries after failures, so that requests never
//! wait for the disk.

use std::io;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::file::{LedgerFile, LedgerLines};
use super::{SharedLedger, State, Unwritten};

/// Handle of the thread.
pub(super) struct LedgerWriter(JoinHandle<()>);

impl LedgerWriter {
    pub(super) fn start(books: Arc<SharedLedger>, file: LedgerFile, retry: Duration) -> io::Result<Self> {
        thread::Builder::new().name("ledger".to_owned()).spawn(move || run_writer(&books, file, retry)).map(Self)
    }

    /// Waits for the thread to end; the ledger must be closing.
    pub(super) fn join(self) {
        if self.0.join().is_err() {
            tracing::error!("the ledger's writer thread panicked");
        }
    }
}

/// Changes for one write.
struct WriteBatch {
    lines: io::Result<LedgerLines>,
    changed: Unwritten,
    version: u64,
    /// The ledger is closing: the write is not retried.
    is_final: bool,
}

fn run_writer(books: &SharedLedger, mut file: LedgerFile, retry: Duration) {
    let mut failures = 0;
    loop {
        let WriteBatch { lines, changed, version, is_final: last } = next_batch(books, (failures > 0).then_some(retry));
        match lines.and_then(|lines| if changed.is_empty() { Ok(()) } else { file.append(&lines) }) {
            Ok(()) => {
                if std::mem::take(&mut failures) > 0 {
                    tracing::info!("writing the ledger succeeds again; no usage was lost");
                }
                books.write_progress.send_modify(|written| (written.version, written.failures) = (version, 0));
                if file.needs_compaction() {
                    compact(books, &mut file);
                }
            }
            Err(error) => {
                if failures == 0 || last {
                    let consequence = if last { "the last usage is lost" } else { "usage is counted in memory" };
                    tracing::warn!(%error, "failed to write the ledger; {consequence}");
                }
                failures += 1;
                books.lock().unwritten.restore(changed);
                books.write_progress.send_modify(|written| written.failures = failures);
            }
        }
        if last {
            books.write_progress.send_modify(|written| written.closed = true);
            return;
        }
    }
}

/// Waits for changes. After a failure it waits for the whole pause, unless the ledger closes.
fn next_batch(books: &SharedLedger, pause: Option<Duration>) -> WriteBatch {
    let state = books.lock();
    let waited = match pause {
        Some(pause) => books
            .writer_wakeup
            .wait_timeout_while(state, pause, |state| !state.is_closing)
            .map(|(state, _)| state)
            .unwrap_or_else(|poisoned| PoisonError::into_inner(poisoned).0),
        None => books
            .writer_wakeup
            .wait_while(state, |state| state.unwritten.is_empty() && !state.is_closing)
            .unwrap_or_else(PoisonError::into_inner),
    };
    let mut state = waited;
    let changed = std::mem::take(&mut state.unwritten);
    WriteBatch { lines: build_lines(&state, &changed), changed, version: state.version, is_final: state.is_closing }
}

/// Serializes the current totals of all changed rows.
fn build_lines(state: &State, changed: &Unwritten) -> io::Result<LedgerLines> {
    let mut lines = LedgerLines::default();
    for session in &changed.sessions {
        lines.push_session(session, state.rows.sessions.get(session))?;
    }
    for day in &changed.days {
        if let Some(totals) = state.rows.days.get(day) {
            lines.push_day(*day, totals)?;
        }
    }
    Ok(lines)
}

fn compact(books: &SharedLedger, file: &mut LedgerFile) {
    // A copy, so that counting continues during the write. Changes made meanwhile are unwritten and follow.
    let rows = books.lock().rows.clone();
    if let Err(error) = file.compact(&rows) {
        tracing::warn!(%error, "failed to compact the ledger");
    }
}

impl Unwritten {
    fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.days.is_empty()
    }

    fn restore(&mut self, other: Self) {
        self.sessions.extend(other.sessions);
        self.days.extend(other.days);
    }
}
