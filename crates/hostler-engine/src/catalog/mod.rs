//! The catalog: which sessions exist. [`CatalogService`] owns the registry of sessions and their actors, the list that
//! clients see, and the search index; it knows no session's state.

pub(crate) mod search;
mod session_list;
mod session_registry;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use self::search::SearchIndexer;
use self::session_list::CatalogEntries;
pub use self::session_list::SessionPage;
pub(crate) use self::session_list::summary_changes;
pub(crate) use self::session_registry::SessionRegistry;

/// All sessions of the host.
pub(crate) struct CatalogService {
    registry: Mutex<SessionRegistry>,
    /// The session list.
    entries: Mutex<CatalogEntries>,
    search: SearchIndexer,
    /// Counts the sub-agent chats that have started, for subscribers that wait for one.
    sub_agent_chats_started: watch::Sender<u64>,
}

impl CatalogService {
    /// A catalog whose search index is in a directory, if search is enabled.
    pub(crate) fn new(search_directory: &Path, enable_search: bool) -> Self {
        Self {
            registry: Mutex::default(),
            entries: Mutex::default(),
            search: SearchIndexer::new(search_directory, enable_search),
            sub_agent_chats_started: watch::Sender::new(0),
        }
    }

    /// Locks the registry of sessions.
    pub(crate) fn sessions(&self) -> MutexGuard<'_, SessionRegistry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the search index read a changed session again. Costs one entry in a set.
    pub(crate) fn mark_changed(&self, session: &Arc<str>) {
        self.search.mark_changed(session);
    }

    /// Removes a deleted session from the search index.
    pub(crate) fn mark_removed(&self, session: &Arc<str>) {
        self.search.mark_removed(session);
    }

    /// Notifies subscribers that wait for a sub-agent chat.
    pub(crate) fn notify_sub_agent_chat_started(&self) {
        self.sub_agent_chats_started.send_modify(|started| *started += 1);
    }

    /// Changes with each sub-agent chat that starts.
    pub(crate) fn sub_agent_chats_started(&self) -> watch::Receiver<u64> {
        self.sub_agent_chats_started.subscribe()
    }

    #[cfg(test)]
    fn without_search() -> Self {
        Self::new(Path::new(""), false)
    }
}
