//! Where sessions work: what their clients may reach without asking.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hostler_files::{Access, Root, path_of};

/// The directories of all sessions, each with where it led when it was first seen.
pub(crate) struct Places {
    /// For choosing a directory before there is a session.
    default: Root,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    sessions: HashMap<Arc<str>, Vec<String>>,
    roots: HashMap<String, Root>,
}

impl Places {
    pub(crate) fn new(default: &Path) -> Self {
        Self { default: Root::directory(default.to_owned(), Access::Browse), known: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session works in these directories now.
    pub(crate) fn put(&self, session: &Arc<str>, directories: &[String]) {
        self.lock().sessions.insert(Arc::clone(session), directories.to_vec());
    }

    /// A session is gone.
    pub(crate) fn remove(&self, session: &str) {
        self.lock().sessions.remove(session);
    }

    /// The directory that a session is at home in, as it names it.
    pub(crate) fn home(&self, session: &str) -> Option<String> {
        self.lock().sessions.get(session)?.first().cloned()
    }

    /// All that is allowed. Looks at directories that it does not know yet.
    pub(crate) fn roots(&self) -> Vec<Root> {
        let mut known = self.lock();
        let Known { sessions, roots } = &mut *known;
        let used: std::collections::HashSet<&String> = sessions.values().flatten().collect();
        roots.retain(|uri, root| root.is_there() && used.contains(uri));
        for uri in used {
            if !roots.contains_key(uri) {
                let path = path_of(uri).unwrap_or_else(|_| PathBuf::new());
                roots.insert(uri.clone(), Root::directory(path, Access::Write));
            }
        }
        roots.values().cloned().chain([self.default.clone()]).collect()
    }
}
