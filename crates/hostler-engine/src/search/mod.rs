//! Finding words in all sessions: whoever changes something says only that it has changed; one task reads what is new
//! from the store and from the agents' records, and notes it in the index of `hostler-search`.
//!
//! Nothing here can hold up a turn: a change costs an entry in a set, and however many there are, each session is in it
//! once.

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

/// What somebody looks for.
#[derive(Debug, Clone, Default)]
pub struct SearchRequest {
    /// The query, as a person types it.
    pub query: String,
    /// At most so many results.
    pub limit: usize,
    /// Without so many of the first ones.
    pub offset: usize,
    /// Whether each result is a turn, rather than a session with its best turns.
    pub flat: bool,
    /// Whether to wait until everything that there is now has been read.
    pub wait_for_index: bool,
    /// Whether conversations count that people do not want to see in the list at all.
    pub include_unlisted: bool,
}

/// What was found.
#[derive(Debug, Clone)]
pub struct SearchResults {
    /// Sessions, the best first.
    pub sessions: Vec<SessionHits>,
    /// Whether there are more after these.
    pub has_more: bool,
    /// Those of them that the list does not have.
    pub unlisted: HashSet<String>,
    /// How many sessions are still to be read: what is in them may be missing.
    pub pending_sessions: usize,
    /// Why not everything could be read, in a sentence: what is new may be missing.
    pub index_error: Option<String>,
}

/// What is to be read, and how far that is.
pub(crate) struct SearchIndexer {
    /// Where the index is; none if nothing can be searched.
    dir: Option<PathBuf>,
    index: Mutex<Option<Arc<SearchIndex>>>,
    pending_work: Mutex<IndexWork>,
    wake_up: Arc<Notify>,
    running_turns: Arc<RunningTurns>,
    progress: watch::Sender<IndexProgress>,
}

#[derive(Default)]
struct IndexWork {
    /// How often somebody has asked for something.
    request_count: u64,
    /// Sessions with something new in them.
    changed: HashSet<Arc<str>>,
    /// Sessions that are no more.
    removed: HashSet<Arc<str>>,
    /// Whether to look at everything.
    full_scan: bool,
}

impl IndexWork {
    fn has_work(&self) -> bool {
        self.full_scan || !self.changed.is_empty() || !self.removed.is_empty()
    }
}

/// How far the reading is.
#[derive(Debug, Clone, Default)]
struct IndexProgress {
    /// Everything that was asked for up to here is done.
    completed_requests: u64,
    /// Sessions that are still to be read.
    pending_sessions: usize,
    /// Why it does not go on, in a sentence.
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

    /// A session has something new in it, or was found with something new in it. Costs next to nothing.
    pub(crate) fn mark_changed(&self, session: &Arc<str>) {
        self.enqueue(|work| {
            work.changed.insert(Arc::clone(session));
        });
    }

    /// A session is no more.
    pub(crate) fn mark_removed(&self, session: &Arc<str>) {
        self.enqueue(|work| {
            work.changed.remove(session);
            work.removed.insert(Arc::clone(session));
        });
    }

    /// Everything is to be looked at: what has not changed is not read again. Says when that is done.
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

    /// The index, opened if it is not. Blocks.
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
    /// Looks for something in all sessions.
    pub(crate) async fn search_sessions(self: &Arc<Self>, wish: SearchRequest) -> Result<SearchResults, EngineError> {
        if wish.wait_for_index {
            let asked = self.search_indexer.request_full_scan();
            self.wait_until_indexed(asked).await?;
            self.wait_for_initial_scan().await;
        }
        let now_ms = self.clock.now_ms();
        let now = Timestamp::from_millisecond(now_ms).unwrap_or_default();
        let mut query = SearchQuery::parse(&wish.query, &Zoned::new(now, TimeZone::system()));
        let show = self.external_session_filter();
        if show == ExternalSessionFilter::None && !wish.include_unlisted {
            query = query.only_sessions(&self.catalog.session_uris());
        }
        let page = SearchPage { limit: wish.limit, offset: wish.offset, by_turn: wish.flat };
        let host = Arc::clone(self);
        let hits = run_blocking(move || host.search_indexer.open_index()?.search(&query, page, now_ms)).await;
        if hits.as_ref().is_err_and(|error| *error == SearchError::Damaged) {
            // Whoever keeps the index notices it, too, and makes it anew.
            self.search_indexer.request_full_scan();
        }
        let hits = hits?;
        // What is only not in the list yet is not hidden.
        let hides = show != ExternalSessionFilter::All && self.external_scanner.is_initial_scan_complete();
        let unlisted = hits.sessions.iter().filter(|found| hides && !self.catalog.contains(&found.session));
        let unlisted = unlisted.map(|found| found.session.clone()).collect();
        let IndexProgress { pending_sessions: pending, error: trouble, .. } =
            self.search_indexer.progress.borrow().clone();
        Ok(SearchResults {
            sessions: hits.sessions,
            has_more: hits.has_more,
            unlisted,
            pending_sessions: pending,
            index_error: trouble,
        })
    }

    /// Waits until everything was read that was asked for, as far as it can be.
    async fn wait_until_indexed(&self, asked: u64) -> Result<(), EngineError> {
        let mut progress = self.search_indexer.progress.subscribe();
        let read = progress.wait_for(|progress| progress.completed_requests >= asked);
        match self.stop.run_until_cancelled(read).await {
            Some(Ok(_)) => Ok(()),
            _ => Err(EngineError::Stopping),
        }
    }
}

/// Does something that blocks.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SearchError> + Send + 'static,
) -> Result<T, SearchError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(SearchError::Database(error.to_string())))
}
