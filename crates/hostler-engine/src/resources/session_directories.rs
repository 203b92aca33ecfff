//! The working directories of all sessions, which their clients may access without a grant.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hostler_files::{FileAccess, Root, file_uri_to_path};

/// The directories of all sessions, each with the real path that it had when it was first seen.
pub(crate) struct SessionDirectories {
    /// Where a client may choose a directory before a session exists.
    default_root: Root,
    state: Mutex<SessionDirectoriesState>,
}

#[derive(Default)]
struct SessionDirectoriesState {
    sessions: HashMap<Arc<str>, Vec<String>>,
    roots: HashMap<String, Root>,
}

impl SessionDirectories {
    pub(crate) fn new(default: &Path) -> Self {
        Self { default_root: Root::directory(default.to_owned(), FileAccess::Browse), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, SessionDirectoriesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the directories of a session.
    pub(crate) fn set(&self, session: &Arc<str>, directories: &[String]) {
        self.lock().sessions.insert(Arc::clone(session), directories.to_vec());
    }

    /// Removes a deleted session.
    pub(crate) fn remove(&self, session: &str) {
        self.lock().sessions.remove(session);
    }

    /// The session's first directory, as the session names it.
    pub(crate) fn primary_directory(&self, session: &str) -> Option<String> {
        self.lock().sessions.get(session)?.first().cloned()
    }

    /// All accessible directories. Resolves those that are new.
    pub(crate) fn roots(&self) -> Vec<Root> {
        let mut known = self.lock();
        let SessionDirectoriesState { sessions, roots } = &mut *known;
        let used: std::collections::HashSet<&String> = sessions.values().flatten().collect();
        roots.retain(|uri, root| root.existed() && used.contains(uri));
        for uri in used {
            if !roots.contains_key(uri) {
                let path = file_uri_to_path(uri).unwrap_or_else(|_| PathBuf::new());
                roots.insert(uri.clone(), Root::directory(path, FileAccess::Write));
            }
        }
        roots.values().cloned().chain([self.default_root.clone()]).collect()
    }
}
