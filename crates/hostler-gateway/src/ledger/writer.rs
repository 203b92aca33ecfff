//! The ledger's own thread: takes what has changed and appends it. Disks may block; requests may not.

use std::io;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::file::{LedgerFile, Lines};
use super::{Books, State, Unwritten};

/// The running thread.
pub(super) struct Writer(JoinHandle<()>);

impl Writer {
    pub(super) fn start(books: Arc<Books>, file: LedgerFile, retry: Duration) -> io::Result<Self> {
        thread::Builder::new().name("ledger".to_owned()).spawn(move || run(&books, file, retry)).map(Self)
    }

    /// Waits for its end; the ledger must be closing.
    pub(super) fn join(self) {
        if self.0.join().is_err() {
            tracing::error!("the ledger's thread ended abnormally");
        }
    }
}

/// What one write is about.
struct Job {
    lines: io::Result<Lines>,
    changed: Unwritten,
    version: u64,
    /// The ledger closes: this is the last try.
    last: bool,
}

fn run(books: &Books, mut file: LedgerFile, retry: Duration) {
    let mut failures = 0;
    loop {
        let Job { lines, changed, version, last } = next(books, (failures > 0).then_some(retry));
        match lines.and_then(|lines| if changed.is_empty() { Ok(()) } else { file.append(&lines) }) {
            Ok(()) => {
                if std::mem::take(&mut failures) > 0 {
                    tracing::info!("the ledger is written again; nothing was lost");
                }
                books.written.send_modify(|written| (written.version, written.failures) = (version, 0));
                if file.is_long() {
                    shorten(books, &mut file);
                }
            }
            Err(error) => {
                if failures == 0 || last {
                    let note = if last { "what was counted last is lost" } else { "counting goes on in memory" };
                    tracing::warn!(%error, "the ledger cannot be written; {note}");
                }
                failures += 1;
                books.lock().unwritten.put_back(changed);
                books.written.send_modify(|written| written.failures = failures);
            }
        }
        if last {
            books.written.send_modify(|written| written.closed = true);
            return;
        }
    }
}

/// Waits until there is something to write. After a failure it is tried again only when the pause is over.
fn next(books: &Books, pause: Option<Duration>) -> Job {
    let state = books.lock();
    let waited = match pause {
        Some(pause) => books
            .work
            .wait_timeout_while(state, pause, |state| !state.closing)
            .map(|(state, _)| state)
            .unwrap_or_else(|poisoned| PoisonError::into_inner(poisoned).0),
        None => books
            .work
            .wait_while(state, |state| state.unwritten.is_empty() && !state.closing)
            .unwrap_or_else(PoisonError::into_inner),
    };
    let mut state = waited;
    let changed = std::mem::take(&mut state.unwritten);
    Job { lines: lines(&state, &changed), changed, version: state.version, last: state.closing }
}

/// The present totals of everything that has changed.
fn lines(state: &State, changed: &Unwritten) -> io::Result<Lines> {
    let mut lines = Lines::default();
    for session in &changed.sessions {
        lines.session(session, state.rows.sessions.get(session))?;
    }
    for day in &changed.days {
        if let Some(totals) = state.rows.days.get(day) {
            lines.day(*day, totals)?;
        }
    }
    Ok(lines)
}

fn shorten(books: &Books, file: &mut LedgerFile) {
    // A copy, so that counting goes on meanwhile. What changes while it is written is unwritten and follows.
    let rows = books.lock().rows.clone();
    if let Err(error) = file.compact(&rows) {
        tracing::warn!(%error, "the ledger could not be shortened");
    }
}

impl Unwritten {
    fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.days.is_empty()
    }

    fn put_back(&mut self, other: Self) {
        self.sessions.extend(other.sessions);
        self.days.extend(other.days);
    }
}
