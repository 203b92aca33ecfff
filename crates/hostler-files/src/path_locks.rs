//! Striped locks that serialize changes of the same path.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::FileError;
use crate::path_target::PathTarget;

/// Number of locks. Paths that share a lock wait for each other.
const LOCK_STRIPES: usize = 64;

/// Serializes changes of a file.
#[derive(Debug)]
pub(crate) struct PathLocks {
    stripes: [Mutex<()>; LOCK_STRIPES],
    hasher: RandomState,
}

impl Default for PathLocks {
    fn default() -> Self {
        Self { stripes: [const { Mutex::new(()) }; LOCK_STRIPES], hasher: RandomState::new() }
    }
}

impl PathLocks {
    /// Waits until no other thread changes these paths.
    pub(crate) fn lock(&self, places: &[&PathTarget]) -> Result<Vec<MutexGuard<'_, ()>>, FileError> {
        let mut stripes = places.iter().map(|place| self.stripe_index(place)).collect::<Result<Vec<_>, _>>()?;
        // Locks are taken in ascending order, each once, to prevent deadlocks.
        stripes.sort_unstable();
        stripes.dedup();
        let locks = stripes.into_iter().filter_map(|stripe| self.stripes.get(stripe));
        Ok(locks.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner)).collect())
    }

    /// The key is the directory's device and inode, not its name.
    fn stripe_index(&self, place: &PathTarget) -> Result<usize, FileError> {
        let directory = rustix::fs::fstat(&place.directory.handle)?;
        let hash = self.hasher.hash_one((directory.st_dev, directory.st_ino, &place.name));
        Ok(usize::try_from(hash % LOCK_STRIPES as u64).unwrap_or_default())
    }
}
