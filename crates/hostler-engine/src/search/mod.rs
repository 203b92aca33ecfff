//! Finding words in all sessions: whoever changes something says only that it has changed; one task reads what is new
//! from the store and from the agents' records, and notes it in the index of `hostler-search`.
//!
//! Nothing here can hold up a turn: a change costs an entry in a set, and however many there are, each session is in it
//! once.

mod documents;
mod feed;
mod growing;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hostler_search::{Index, Page, Query, SearchError, SessionHits};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use tokio::sync::{Notify, watch};

use self::growing::Growing;
use crate::EngineError;
use crate::clock::ClockExt as _;
use crate::found::ShowExternal;
use crate::host::Host;

/// What somebody looks for.
#[derive(Debug, Clone, Default)]
pub struct SearchWish {
    /// The query, as a person types it.
    pub query: String,
    /// At most so many results.
    pub limit: usize,
    /// Without so many of the first ones.
    pub offset: usize,
    /// Whether each result is a turn, rather than a session with its best turns.
    pub flat: bool,
    /// Whether to wait until everything that there is now has been read.
    pub wait: bool,
    /// Whether conversations count that people do not want to see in the list at all.
    pub all: bool,
}

/// What was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// Sessions, the best first.
    pub sessions: Vec<SessionHits>,
    /// Whether there are more after these.
    pub more: bool,
    /// Those of them that the list does not have.
    pub unlisted: HashSet<String>,
    /// How many sessions are still to be read: what is in them may be missing.
    pub pending: usize,
    /// Why not everything could be read, in a sentence: what is new may be missing.
    pub trouble: Option<String>,
}

/// What is to be read, and how far that is.
pub(crate) struct Search {
    /// Where the index is; none if nothing can be searched.
    dir: Option<PathBuf>,
    index: Mutex<Option<Arc<Index>>>,
    work: Mutex<Work>,
    bell: Arc<Notify>,
    growing: Arc<Growing>,
    progress: watch::Sender<Progress>,
}

#[derive(Default)]
struct Work {
    /// How often somebody has asked for something.
    asked: u64,
    /// Sessions with something new in them.
    changed: HashSet<Arc<str>>,
    /// Sessions that are no more.
    gone: HashSet<Arc<str>>,
    /// Whether to look at everything.
    everything: bool,
}

impl Work {
    fn is_something(&self) -> bool {
        self.everything || !self.changed.is_empty() || !self.gone.is_empty()
    }
}

/// How far the reading is.
#[derive(Debug, Clone, Default)]
struct Progress {
    /// Everything that was asked for up to here is done.
    done: u64,
    /// Sessions that are still to be read.
    pending: usize,
    /// Why it does not go on, in a sentence.
    trouble: Option<String>,
}

impl Search {
    pub(crate) fn new(dir: &Path, on: bool) -> Self {
        Self {
            dir: on.then(|| dir.to_owned()),
            index: Mutex::default(),
            work: Mutex::default(),
            bell: Arc::default(),
            growing: Arc::default(),
            progress: watch::Sender::new(Progress::default()),
        }
    }

    /// A session has something new in it, or was found with something new in it. Costs next to nothing.
    pub(crate) fn changed(&self, session: &Arc<str>) {
        self.ask(|work| {
            work.changed.insert(Arc::clone(session));
        });
    }

    /// A session is no more.
    pub(crate) fn gone(&self, session: &Arc<str>) {
        self.ask(|work| {
            work.changed.remove(session);
            work.gone.insert(Arc::clone(session));
        });
    }

    /// Everything is to be looked at: what has not changed is not read again. Says when that is done.
    pub(crate) fn look(&self) -> u64 {
        self.ask(|work| work.everything = true)
    }

    fn ask(&self, change: impl FnOnce(&mut Work)) -> u64 {
        let mut work = self.work();
        if self.dir.is_none() {
            return work.asked;
        }
        change(&mut work);
        work.asked += 1;
        self.bell.notify_one();
        work.asked
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The index, opened if it is not. Blocks.
    fn open(&self) -> Result<Arc<Index>, SearchError> {
        let mut opened = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = &*opened {
            return Ok(Arc::clone(index));
        }
        let dir = self.dir.as_ref().ok_or(SearchError::Off)?;
        let index = Arc::new(Index::open(dir)?);
        *opened = Some(Arc::clone(&index));
        Ok(index)
    }
}

impl Host {
    /// Looks for something in all sessions.
    pub(crate) async fn search_for(self: &Arc<Self>, wish: SearchWish) -> Result<Found, EngineError> {
        if wish.wait {
            let asked = self.search.look();
            self.read_up_to(asked).await?;
            self.sessions_are_found().await;
        }
        let now_ms = self.clock.now_ms();
        let now = Timestamp::from_millisecond(now_ms).unwrap_or_default();
        let mut query = Query::parse(&wish.query, &Zoned::new(now, TimeZone::system()));
        let show = self.shown_external();
        if show == ShowExternal::None && !wish.all {
            query = query.among(&self.catalogue.names());
        }
        let page = Page { limit: wish.limit, offset: wish.offset, flat: wish.flat };
        let host = Arc::clone(self);
        let hits = blocking(move || host.search.open()?.search(&query, page, now_ms)).await;
        if hits.as_ref().is_err_and(|error| *error == SearchError::Damaged) {
            // Whoever keeps the index notices it, too, and makes it anew.
            self.search.look();
        }
        let hits = hits?;
        // What is only not in the list yet is not hidden.
        let hides = show != ShowExternal::All && self.finder.has_looked();
        let unlisted = hits.sessions.iter().filter(|found| hides && !self.catalogue.has(&found.session));
        let unlisted = unlisted.map(|found| found.session.clone()).collect();
        let Progress { pending, trouble, .. } = self.search.progress.borrow().clone();
        Ok(Found { sessions: hits.sessions, more: hits.more, unlisted, pending, trouble })
    }

    /// Waits until everything was read that was asked for, as far as it can be.
    async fn read_up_to(&self, asked: u64) -> Result<(), EngineError> {
        let mut progress = self.search.progress.subscribe();
        let read = progress.wait_for(|progress| progress.done >= asked);
        match self.stop.run_until_cancelled(read).await {
            Some(Ok(_)) => Ok(()),
            _ => Err(EngineError::Stopping),
        }
    }
}

/// Does something that blocks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SearchError> + Send + 'static,
) -> Result<T, SearchError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(SearchError::Database(error.to_string())))
}
