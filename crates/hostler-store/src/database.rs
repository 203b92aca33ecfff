//! The SQLite file: opening and schema.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use rusqlite_migration::{M, Migrations};

use crate::StoreError;

/// The file's name within the state directory.
pub(crate) const DATABASE_FILE: &str = "hostler.db";

/// Append only: a released migration is never edited.
const MIGRATIONS: &[M<'static>] = &[
    M::up(
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
    ),
    M::up(
        "-- Rows up to this number may be missing: whoever saw less gets a snapshot.
         ALTER TABLE reserved ADD COLUMN replay_from INTEGER NOT NULL DEFAULT 0;

         -- A session without its ended turns, as it was at a number; the rows after it complete it.
         CREATE TABLE snapshots (
             session TEXT PRIMARY KEY,
             seq INTEGER NOT NULL,
             body TEXT NOT NULL
         );
         CREATE TABLE turns (
             chat TEXT NOT NULL,
             position INTEGER NOT NULL,
             session TEXT NOT NULL,
             body TEXT NOT NULL,
             PRIMARY KEY (chat, position)
         ) WITHOUT ROWID;

         -- What was written until when, for retention.
         CREATE TABLE marks (seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, bytes INTEGER NOT NULL);

         CREATE TABLE clients (id TEXT PRIMARY KEY, seen_ms INTEGER NOT NULL);
         CREATE INDEX journal_of_client ON journal (client, client_seq) WHERE client IS NOT NULL;",
    ),
    M::up(
        "-- What the client's surface wants to know when it comes back.
         ALTER TABLE clients ADD COLUMN memo TEXT NOT NULL DEFAULT '';
         CREATE INDEX clients_by_time ON clients (seen_ms);",
    ),
    M::up(
        "-- What is too large for a state, by its content's hash, as long as a session names it.
         CREATE TABLE blobs (hash TEXT PRIMARY KEY, content_type TEXT NOT NULL, body BLOB NOT NULL);
         CREATE TABLE blob_names (
             session TEXT NOT NULL,
             hash TEXT NOT NULL,
             PRIMARY KEY (session, hash)
         ) WITHOUT ROWID;
         CREATE INDEX blob_names_of_hash ON blob_names (hash);

         -- Who decided what about which tool call. Goes with its session.
         CREATE TABLE audit (
             id INTEGER PRIMARY KEY AUTOINCREMENT,
             session TEXT NOT NULL,
             at_ms INTEGER NOT NULL,
             body TEXT NOT NULL
         );
         CREATE INDEX audit_of_session ON audit (session, id);",
    ),
    M::up(
        "-- The number that a session last named contents by: what was looked at before it says nothing about them.
         ALTER TABLE blob_names ADD COLUMN named INTEGER NOT NULL DEFAULT 0;
         -- How much all contents are together.
         CREATE TABLE blob_bytes (only INTEGER PRIMARY KEY CHECK (only = 1), total INTEGER NOT NULL);
         INSERT INTO blob_bytes SELECT 1, COALESCE(SUM(length(body)), 0) FROM blobs;
         CREATE INDEX turns_of_session ON turns (session);",
    ),
    M::up(
        "-- The name by which clients know a turn: it is used once in a session.
         ALTER TABLE turns ADD COLUMN id TEXT NOT NULL DEFAULT '';
         UPDATE turns SET id = COALESCE(json_extract(body, '$.id'), '') WHERE json_valid(body);
         CREATE INDEX turns_by_id ON turns (session, id);

         -- How many turns of a chat there are, and which of them are needed to bring its session back.
         CREATE TABLE chats (
             uri TEXT PRIMARY KEY,
             session TEXT NOT NULL,
             first INTEGER NOT NULL,
             turns INTEGER NOT NULL
         ) WITHOUT ROWID;
         CREATE INDEX chats_of_session ON chats (session);
         INSERT INTO chats SELECT chat, session, 0, MAX(position) + 1 FROM turns GROUP BY chat;",
    ),
    M::up(
        "-- Which session each of the agent's conversations belongs to. None: a person has deleted it, and it is not
         -- shown again, whatever comes back.
         CREATE TABLE conversations (id TEXT PRIMARY KEY, session TEXT) WITHOUT ROWID;
         CREATE INDEX conversations_of_session ON conversations (session) WHERE session IS NOT NULL;

         -- Those of the sessions that are there: as they began, and as they went on, which the transcript's name says.
         WITH
             facts (session, body) AS (
                 SELECT session, body FROM snapshots
                 UNION ALL
                 SELECT c.session, j.body FROM journal j JOIN channels c ON c.id = j.channel
                 WHERE j.kind = 1 AND c.session IS NOT NULL
             ),
             read (session, id, token) AS (
                 SELECT session, json_extract(body, '$.conversation'), json_extract(body, '$.token')
                 FROM facts WHERE json_valid(body)
             )
         INSERT OR IGNORE INTO conversations
         SELECT id, session FROM read WHERE id IS NOT NULL
         UNION ALL
         SELECT substr(token, -42, 36), session FROM read
         WHERE token GLOB '*/????????-????-????-????-????????????.jsonl';",
    ),
    M::up(
        "-- Conversations that a person has deleted and whose records may still be there.
         CREATE TABLE removals (conversation TEXT PRIMARY KEY) WITHOUT ROWID;",
    ),
];

/// Opens the file for the writer; creates or migrates it.
pub(crate) fn open_writer(dir: &Path, full: bool) -> Result<Connection, StoreError> {
    let mut db = Connection::open(dir.join(DATABASE_FILE))?;
    restrict(&dir.join(DATABASE_FILE));
    db.busy_timeout(Duration::from_secs(5))?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    // After a commit the operating system holds the data, which survives `kill -9`; surviving a power loss takes a sync
    // per commit.
    db.pragma_update(None, "synchronous", if full { "FULL" } else { "NORMAL" })?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.set_prepared_statement_cache_capacity(32);
    Migrations::from_slice(MIGRATIONS).to_latest(&mut db)?;
    Ok(db)
}

/// Opens the file for reading, concurrently with the writer.
pub(crate) fn open_reader(dir: &Path) -> Result<Connection, StoreError> {
    let db = Connection::open_with_flags(
        dir.join(DATABASE_FILE),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_valid() {
        assert_eq!(Migrations::from_slice(MIGRATIONS).validate(), Ok(()));
    }

    #[test]
    fn a_database_of_the_first_version_is_migrated_and_keeps_its_rows() {
        let dir = tempfile::tempdir().unwrap();
        let mut old = Connection::open(dir.path().join(DATABASE_FILE)).unwrap();
        Migrations::from_slice(MIGRATIONS).to_version(&mut old, 1).unwrap();
        old.execute("INSERT INTO sessions VALUES ('claude:/1', 1, '{}')", []).unwrap();
        drop(old);
        let db = open_writer(dir.path(), false).unwrap();
        let uri: String = db.query_row("SELECT uri FROM sessions", [], |row| row.get(0)).unwrap();
        assert_eq!(uri, "claude:/1");
        assert_eq!(db.query_row("SELECT replay_from FROM reserved", [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    }

    #[test]
    fn migration_counts_existing_blobs() {
        let dir = tempfile::tempdir().unwrap();
        let mut old = Connection::open(dir.path().join(DATABASE_FILE)).unwrap();
        Migrations::from_slice(MIGRATIONS).to_version(&mut old, 4).unwrap();
        old.execute("INSERT INTO blobs VALUES ('a', 'text/plain', x'010203'), ('b', 'text/plain', x'04')", []).unwrap();
        drop(old);
        let db = open_writer(dir.path(), false).unwrap();
        assert_eq!(crate::blob::total_bytes(&db).unwrap(), 4);
    }

    #[test]
    fn migration_indexes_existing_turns_by_id() {
        let dir = tempfile::tempdir().unwrap();
        let mut old = Connection::open(dir.path().join(DATABASE_FILE)).unwrap();
        Migrations::from_slice(MIGRATIONS).to_version(&mut old, 5).unwrap();
        let rows = r#"INSERT INTO turns VALUES
            ('c', 0, 's', '{"id":"t1"}'), ('c', 1, 's', 'not JSON'), ('d', 0, 's', '{"id":"t3"}')"#;
        old.execute(rows, []).unwrap();
        drop(old);
        let db = open_writer(dir.path(), false).unwrap();
        assert_eq!(crate::turns::find(&db, "s", "t1").unwrap(), Some(("c".to_owned(), 0)));
        assert_eq!(crate::turns::find(&db, "s", "t2").unwrap(), None);
        let stored = crate::queries::load_session(&db, "s").unwrap();
        let bodies: Vec<_> = stored.turns.iter().map(|turn| (&*turn.chat, &*turn.body)).collect();
        assert_eq!(bodies, [("c", r#"{"id":"t1"}"#), ("c", "not JSON"), ("d", r#"{"id":"t3"}"#)]);
    }

    #[test]
    fn migration_records_conversations_of_existing_sessions() {
        let dir = tempfile::tempdir().unwrap();
        let mut old = Connection::open(dir.path().join(DATABASE_FILE)).unwrap();
        Migrations::from_slice(MIGRATIONS).to_version(&mut old, 6).unwrap();
        let [first, cleared, second] = [1, 2, 3].map(|n| format!("00000000-0000-4000-8000-{n:012}"));
        let rows = format!(
            r#"INSERT INTO channels VALUES (1, 's', 's'), (2, 'c', 's'), (3, 't', 't'), (4, 'root', NULL);
               INSERT INTO snapshots VALUES ('t', 1, '{{"conversation":"{second}","token":null}}'), ('u', 1, 'not JSON');
               INSERT INTO journal (seq, channel, kind, body) VALUES
                   (1, 1, 1, '{{"record":"opened","conversation":"{first}"}}'),
                   (2, 2, 1, '{{"record":"resume","token":"/p/{cleared}.jsonl"}}'),
                   (3, 2, 1, '{{"record":"resume","token":"of another kind"}}'),
                   (4, 1, 0, '{{"conversation":"an action says nothing about it"}}'),
                   (5, 4, 1, '{{"conversation":"of no session"}}');"#
        );
        old.execute_batch(&rows).unwrap();
        drop(old);
        let db = open_writer(dir.path(), false).unwrap();
        let known = crate::queries::conversations(&db).unwrap();
        let mut known: Vec<_> = known.iter().map(|known| (&*known.id, known.session.as_deref())).collect();
        known.sort_unstable();
        assert_eq!(known, [(&*first, Some("s")), (&*cleared, Some("s")), (&*second, Some("t"))]);
    }

    #[test]
    fn a_database_of_a_newer_version_is_refused_and_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        drop(open_writer(dir.path(), false).unwrap());
        let db = Connection::open(dir.path().join(DATABASE_FILE)).unwrap();
        db.pragma_update(None, "user_version", 99).unwrap();
        drop(db);
        assert!(matches!(open_writer(dir.path(), false), Err(StoreError::TooNew)));
    }
}
