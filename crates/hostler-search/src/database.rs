//! The index file: opening, schema and deletion.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::SearchError;
use crate::document::TextKind;

/// The file's name within the state directory.
pub(crate) const DATABASE_FILE: &str = "search.db";

/// Version of the file's contents. A file of another version, older or newer, is not migrated but rebuilt.
const SCHEMA_VERSION: i64 = 2;

/// Maximum size of the write-ahead log after a checkpoint.
const WAL_SIZE_LIMIT_BYTES: i64 = 8 * 1024 * 1024;

/// A turn's rowid is its time and, among turns of the same time, a counter: the newest are found first, and a range of
/// times is a range of rowids.
const SCHEMA: &str = "
    CREATE TABLE sessions (
        id INTEGER PRIMARY KEY,
        uri TEXT NOT NULL UNIQUE,
        title TEXT NOT NULL,
        workspace TEXT,
        modified_ms INTEGER NOT NULL,
        -- Identifies the source that the index is complete for, as the caller defines it; NULL while it is incomplete.
        stamp TEXT
    );
    CREATE TABLE turns (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        -- The title of a session is at a place before all turns.
        chat TEXT NOT NULL,
        position INTEGER NOT NULL,
        turn TEXT NOT NULL
    );
    CREATE UNIQUE INDEX turns_by_place ON turns (session, chat, position);";

/// Opens the file for the writer. An unusable file is deleted; also returns whether the file was created.
pub(crate) fn open_writer(dir: &Path) -> Result<(Connection, bool), SearchError> {
    let existed = dir.join(DATABASE_FILE).exists();
    match try_open(dir) {
        Ok(Some(db)) => return Ok((db, !existed)),
        Ok(None) => tracing::info!("the search index has another version; rebuilding it"),
        Err(SearchError::Damaged) => tracing::warn!("the search index is damaged; rebuilding it"),
        Err(error) => return Err(error),
    }
    delete_files(dir)?;
    Ok((try_open(dir)?.ok_or(SearchError::Damaged)?, true))
}

fn try_open(dir: &Path) -> Result<Option<Connection>, SearchError> {
    let path = dir.join(DATABASE_FILE);
    let db = Connection::open(&path)?;
    restrict(&path);
    db.busy_timeout(Duration::from_secs(5))?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "journal_size_limit", WAL_SIZE_LIMIT_BYTES)?;
    db.set_prepared_statement_cache_capacity(32);
    let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (version, tables) {
        (0, 0) => create_schema(&db).map(|()| Some(db)),
        (SCHEMA_VERSION, _) => Ok(Some(db)),
        _ => Ok(None),
    }
}

fn create_schema(db: &Connection) -> Result<(), SearchError> {
    let columns: Vec<_> = TextKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let texts = format!(
        // A search starts with the first typed letter: too many terms start with it to be scanned without a prefix
        // index.
        "CREATE VIRTUAL TABLE texts USING fts5({}, prefix = '1 2', tokenize = 'unicode61 remove_diacritics 2')",
        columns.join(", ")
    );
    let tx = db.unchecked_transaction()?;
    tx.execute_batch(SCHEMA)?;
    tx.execute_batch(&texts)?;
    tx.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    tx.commit()?;
    Ok(())
}

/// Opens the file for one search, concurrently with the writer.
pub(crate) fn open_reader(dir: &Path) -> Result<Connection, SearchError> {
    let db = Connection::open_with_flags(
        dir.join(DATABASE_FILE),
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    db.busy_timeout(Duration::from_secs(5))?;
    Ok(db)
}

/// Deletes the file.
pub(crate) fn delete_files(dir: &Path) -> Result<(), SearchError> {
    for name in database_files(dir) {
        match fs_err::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(%error, "failed to delete the search index");
                return Err(SearchError::NoAccess);
            }
            _ => {}
        }
    }
    Ok(())
}

fn database_files(dir: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|end| dir.join(format!("{DATABASE_FILE}{end}")))
}

/// Size on disk.
pub(crate) fn disk_bytes(dir: &Path) -> u64 {
    database_files(dir).iter().filter_map(|file| fs_err::metadata(file).ok()).map(|facts| facts.len()).sum()
}

#[cfg(unix)]
fn restrict(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    if let Err(error) = fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o600)) {
        tracing::warn!(%error, "failed to restrict the permissions of the search index");
    }
}

#[cfg(not(unix))]
fn restrict(_path: &Path) {}
