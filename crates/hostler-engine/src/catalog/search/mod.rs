//! Full-text search over all sessions.
//!
//! A change costs one entry in a set, so it never delays a turn, and each session is in the set once. One task
//! (`indexer`) then reads what the index of `hostler-search` lacks: turn rows from the store, and turns of external
//! conversations from the transcript store. `hostler/search` reports how many sessions are not indexed yet, and what
//! cannot be read.

mod documents;
mod indexer;
mod running_turns;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hostler_search::{SearchError, SearchIndex, SearchPage, SearchQuery, SessionHits};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use tokio::sync::{Notify, watch};

use self::running_turns::RunningTurns;
use crate::EngineError;
use crate::clock::ClockExt as _;
use crate::external_sessions::ExternalSessionFilter;
use crate::host::Host;

/// A search request.
#[derive(Debug, Clone, Default)]
pub struct SearchRequest {
    /// The query, as a person types it.
    pub query: String,
    /// Maximum number of results.
    pub limit: usize,
    /// Number of results to skip.
    pub offset: usize,
    /// Whether each result is a turn, rather than a session with its best turns.
    pub flat: bool,
    /// Whether to wait until all present changes are indexed.
    pub wait_for_index: bool,
    /// Whether to include external conversations although the filter lists none of them.
    pub include_unlisted: bool,
}

/// The results of a search.
#[derive(Debug, Clone)]
pub struct SearchResults {
    /// Matching sessions, the best first.
    pub sessions: Vec<SessionHits>,
    /// Whether more results follow.
    pub has_more: bool,
    /// Result sessions that are not in the session list.
    pub unlisted: HashSet<String>,
    /// Number of sessions that are not indexed yet: their matches may be missing.
    pub pending_sessions: usize,
    /// Why some sessions could not be indexed: recent matches may be missing.
    pub index_error: Option<String>,
}

/// Pending index work, and its progress.
pub(crate) struct SearchIndexer {
    /// Directory of the index; `None` if search is off.
    dir: Option<PathBuf>,
    index: Mutex<Option<Arc<SearchIndex>>>,
    pending_work: Mutex<IndexWork>,
    wake_up: Arc<Notify>,
    running_turns: Arc<RunningTurns>,
    progress: watch::Sender<IndexProgress>,
}

#[derive(Default)]
struct IndexWork {
    /// Number of requests so far.
    request_count: u64,
    /// Changed sessions.
    changed: HashSet<Arc<str>>,
    /// Deleted sessions.
    removed: HashSet<Arc<str>>,
    /// Whether to compare all sessions with the index.
    full_scan: bool,
}

impl IndexWork {
    fn has_work(&self) -> bool {
        self.full_scan || !self.changed.is_empty() || !self.removed.is_empty()
    }
}

/// Progress of the indexer.
#[derive(Debug, Clone, Default)]
struct IndexProgress {
    /// All requests up to this one are done.
    completed_requests: u64,
    /// Number of sessions that are not indexed yet.
    pending_sessions: usize,
    /// Why indexing does not continue.
    error: Option<String>,
}

impl SearchIndexer {
    pub(crate) fn new(dir: &Path, on: bool) -> Self {
        Self {
            dir: on.then(|| dir.to_owned()),
            index: Mutex::default(),
            pending_work: Mutex::default(),
            wake_up: Arc::default(),
            running_turns: Arc::default(),
            progress: watch::Sender::new(IndexProgress::default()),
        }
    }

    /// Notes that a session has changed. Costs one entry in a set.
    pub(crate) fn mark_changed(&self, session: &Arc<str>) {
        self.enqueue(|work| {
            work.changed.insert(Arc::clone(session));
        });
    }

    /// Notes that a session was deleted.
    pub(crate) fn mark_removed(&self, session: &Arc<str>) {
        self.enqueue(|work| {
            work.changed.remove(session);
            work.removed.insert(Arc::clone(session));
        });
    }

    /// Requests a comparison of all sessions with the index; unchanged sessions are not read again. Returns the
    /// request's number.
    pub(crate) fn request_full_scan(&self) -> u64 {
        self.enqueue(|work| work.full_scan = true)
    }

    fn enqueue(&self, change: impl FnOnce(&mut IndexWork)) -> u64 {
        let mut work = self.lock_work();
        if self.dir.is_none() {
            return work.request_count;
        }
        change(&mut work);
        work.request_count += 1;
        self.wake_up.notify_one();
        work.request_count
    }

    fn lock_work(&self) -> MutexGuard<'_, IndexWork> {
        self.pending_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index, opening it if necessary. Blocks.
    fn open_index(&self) -> Result<Arc<SearchIndex>, SearchError> {
        let mut opened = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = &*opened {
            return Ok(Arc::clone(index));
        }
        let dir = self.dir.as_ref().ok_or(SearchError::Disabled)?;
        let index = Arc::new(SearchIndex::open(dir)?);
        *opened = Some(Arc::clone(&index));
        Ok(index)
    }
}

impl Host {
    /// Searches all sessions.
    pub(crate) async fn search_sessions(
        self: &Arc<Self>,
        request: SearchRequest,
    ) -> Result<SearchResults, EngineError> {
        if request.wait_for_index {
            let asked = self.catalog.search.request_full_scan();
            self.wait_until_indexed(asked).await?;
            self.wait_for_initial_scan().await;
        }
        let now_ms = self.clock.now_ms();
        let now = Timestamp::from_millisecond(now_ms).unwrap_or_default();
        let mut query = SearchQuery::parse(&request.query, &Zoned::new(now, TimeZone::system()));
        let show = self.external_session_filter();
        if show == ExternalSessionFilter::None && !request.include_unlisted {
            query = query.only_sessions(&self.catalog.session_uris());
        }
        let page = SearchPage { limit: request.limit, offset: request.offset, by_turn: request.flat };
        let host = Arc::clone(self);
        let hits = run_blocking(move || host.catalog.search.open_index()?.search(&query, page, now_ms)).await;
        if hits.as_ref().is_err_and(|error| *error == SearchError::Damaged) {
            // The indexer detects the damage in its next round and rebuilds the index.
            self.catalog.search.request_full_scan();
        }
        let hits = hits?;
        // Conversations that are only not listed yet are not hidden.
        let hides = show != ExternalSessionFilter::All && self.external.is_initial_scan_complete();
        let unlisted = hits.sessions.iter().filter(|found| hides && !self.catalog.contains(&found.session));
        let unlisted = unlisted.map(|found| found.session.clone()).collect();
        let IndexProgress { pending_sessions: pending, error: trouble, .. } =
            self.catalog.search.progress.borrow().clone();
        Ok(SearchResults {
            sessions: hits.sessions,
            has_more: hits.has_more,
            unlisted,
            pending_sessions: pending,
            index_error: trouble,
        })
    }

    /// Waits until all requests up to `asked` are done, as far as possible.
    async fn wait_until_indexed(&self, asked: u64) -> Result<(), EngineError> {
        let mut progress = self.catalog.search.progress.subscribe();
        let read = progress.wait_for(|progress| progress.completed_requests >= asked);
        match self.tasks.run_until_stopped(read).await {
            Some(Ok(_)) => Ok(()),
            _ => Err(EngineError::Stopping),
        }
    }
}

/// Runs a blocking function.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SearchError> + Send + 'static,
) -> Result<T, SearchError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(SearchError::Database(error.to_string())))
}
