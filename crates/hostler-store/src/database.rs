//! The SQLite file: opening and schema.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use rusqlite_migration::{M, Migrations};

use crate::StoreError;

/// The file's name within the state directory.
pub(crate) const FILE: &str = "hostler.db";

/// Append only: a migration that was released is never edited.
const MIGRATIONS: &[M<'static>] = &[M::up(
    "CREATE TABLE reserved (only INTEGER PRIMARY KEY CHECK (only = 1), until INTEGER NOT NULL);
     INSERT INTO reserved VALUES (1, 0);

     CREATE TABLE sessions (
         uri TEXT PRIMARY KEY,
         listed INTEGER NOT NULL,
         summary TEXT NOT NULL
     );

     CREATE TABLE channels (
         id INTEGER PRIMARY KEY,
         uri TEXT NOT NULL UNIQUE,
         session TEXT
     );
     CREATE INDEX channels_of_session ON channels (session);

     -- kind 0: an action, 1: a host record. Both are numbered in the one sequence.
     CREATE TABLE journal (
         seq INTEGER PRIMARY KEY,
         channel INTEGER NOT NULL,
         kind INTEGER NOT NULL,
         body TEXT NOT NULL,
         client TEXT,
         client_seq INTEGER
     );
     CREATE INDEX journal_of_channel ON journal (channel, seq);",
)];

/// Opens the file for the writer, creating or migrating it.
pub(crate) fn open_writer(dir: &Path) -> Result<Connection, StoreError> {
    let mut db = Connection::open(dir.join(FILE))?;
    restrict(&dir.join(FILE));
    db.busy_timeout(Duration::from_secs(5))?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    // What `kill -9` may not lose is in the operating system's hands after a commit; power loss is another matter.
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.set_prepared_statement_cache_capacity(32);
    Migrations::from_slice(MIGRATIONS).to_latest(&mut db)?;
    Ok(db)
}

/// Opens the file for reading beside the writer.
pub(crate) fn open_reader(dir: &Path) -> Result<Connection, StoreError> {
    let db = Connection::open_with_flags(
        dir.join(FILE),
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    db.busy_timeout(Duration::from_secs(5))?;
    Ok(db)
}

#[cfg(unix)]
fn restrict(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    if let Err(error) = fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o600)) {
        tracing::warn!(%error, "the journal's permissions could not be restricted");
    }
}

#[cfg(not(unix))]
fn restrict(_path: &Path) {}
