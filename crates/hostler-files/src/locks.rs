use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::FileError;
use crate::place::Place;

/// How many files can be changed at the same time. Files that share a lock wait for each other, and nothing else.
const STRIPES: usize = 64;

/// Whoever changes a file, one after the other.
#[derive(Debug)]
pub(crate) struct Locks {
    stripes: [Mutex<()>; STRIPES],
    hasher: RandomState,
}

impl Default for Locks {
    fn default() -> Self {
        Self { stripes: [const { Mutex::new(()) }; STRIPES], hasher: RandomState::new() }
    }
}

impl Locks {
    /// Waits until nobody else changes what is at these places.
    pub(crate) fn lock(&self, places: &[&Place]) -> Result<Vec<MutexGuard<'_, ()>>, FileError> {
        let mut stripes = places.iter().map(|place| self.stripe(place)).collect::<Result<Vec<_>, _>>()?;
        // In one order, each once, so that nobody waits for whoever waits for him.
        stripes.sort_unstable();
        stripes.dedup();
        let locks = stripes.into_iter().filter_map(|stripe| self.stripes.get(stripe));
        Ok(locks.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner)).collect())
    }

    /// By the directory itself, whatever it is called.
    fn stripe(&self, place: &Place) -> Result<usize, FileError> {
        let directory = rustix::fs::fstat(&place.directory.handle)?;
        let hash = self.hasher.hash_one((directory.st_dev, directory.st_ino, &place.name));
        Ok(usize::try_from(hash % STRIPES as u64).unwrap_or_default())
    }
}
