//! Where sessions work: what their clients may reach without asking.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hostler_files::{FileAccess, Root, file_uri_to_path};

/// The directories of all sessions, each with where it led when it was first seen.
pub(crate) struct SessionDirectories {
    /// For choosing a directory before there is a session.
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

    /// A session works in these directories now.
    pub(crate) fn set(&self, session: &Arc<str>, directories: &[String]) {
        self.lock().sessions.insert(Arc::clone(session), directories.to_vec());
    }

    /// A session is gone.
    pub(crate) fn remove(&self, session: &str) {
        self.lock().sessions.remove(session);
    }

    /// The directory that a session is at home in, as it names it.
    pub(crate) fn primary_directory(&self, session: &str) -> Option<String> {
        self.lock().sessions.get(session)?.first().cloned()
    }

    /// All that is allowed. Looks at directories that it does not know yet.
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
