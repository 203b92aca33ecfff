//! Pool of read connections beside the writer, so that a long page does not block other readers.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use rusqlite::Connection;

use crate::{StoreError, database};

/// Number of readers beyond the first one.
const EXTRA_READERS: usize = 2;

pub(crate) struct ReaderPool {
    first: Mutex<Connection>,
    extra: [Mutex<Connection>; EXTRA_READERS],
    next: AtomicUsize,
}

impl ReaderPool {
    pub(crate) fn open(dir: &Path) -> Result<Self, StoreError> {
        let open = || {
            let reader = database::open_reader(dir)?;
            // Opens all of its files now, so that their number does not depend on concurrent reads.
            reader.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
            Ok::<_, StoreError>(Mutex::new(reader))
        };
        Ok(Self { first: open()?, extra: [open()?, open()?], next: AtomicUsize::new(0) })
    }

    /// A free connection, or the next one to become free. Blocks.
    pub(crate) fn acquire(&self) -> MutexGuard<'_, Connection> {
        for reader in std::iter::once(&self.first).chain(&self.extra) {
            match reader.try_lock() {
                Ok(free) => return free,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        let next = self.next.fetch_add(1, Ordering::Relaxed) % (EXTRA_READERS + 1);
        self.extra.get(next).unwrap_or(&self.first).lock().unwrap_or_else(PoisonError::into_inner)
    }
}
