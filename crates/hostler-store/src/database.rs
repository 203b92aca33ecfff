//! The SQLite file: opening and schema.
//!
//! `MIGRATIONS` is the history of the schema. Migration 9 renamed tables and columns: code outside of this module uses the
//! names after it.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use rusqlite_migration::{M, Migrations};

use crate::StoreError;

/// The file's name within the state directory.
pub(crate) const DATABASE_FILE: &str = "hostler.db";

/// Append only: the statements of a released migration are never edited.
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
        "-- Rows up to this number may have been removed: a client that has received less gets a snapshot.
         ALTER TABLE reserved ADD COLUMN replay_from INTEGER NOT NULL DEFAULT 0;

         -- A session without its ended turns, as of a sequence number; later journal rows complete it.
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

         -- When the journal reached a sequence number and a total size, for retention.
         CREATE TABLE marks (seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, bytes INTEGER NOT NULL);

         CREATE TABLE clients (id TEXT PRIMARY KEY, seen_ms INTEGER NOT NULL);
         CREATE INDEX journal_of_client ON journal (client, client_seq) WHERE client IS NOT NULL;",
    ),
    M::up(
        "-- What the client's surface stores for the client's next connection.
         ALTER TABLE clients ADD COLUMN memo TEXT NOT NULL DEFAULT '';
         CREATE INDEX clients_by_time ON clients (seen_ms);",
    ),
    M::up(
        "-- Contents that are too large for a state, by their hash, as long as a session refers to them.
         CREATE TABLE blobs (hash TEXT PRIMARY KEY, content_type TEXT NOT NULL, body BLOB NOT NULL);
         CREATE TABLE blob_names (
             session TEXT NOT NULL,
             hash TEXT NOT NULL,
             PRIMARY KEY (session, hash)
         ) WITHOUT ROWID;
         CREATE INDEX blob_names_of_hash ON blob_names (hash);

         -- Who decided what about which tool call. Removed with its session.
         CREATE TABLE audit (
             id INTEGER PRIMARY KEY AUTOINCREMENT,
             session TEXT NOT NULL,
             at_ms INTEGER NOT NULL,
             body TEXT NOT NULL
         );
         CREATE INDEX audit_of_session ON audit (session, id);",
    ),
    M::up(
        "-- The sequence number of a session's last reference: a search for unreferenced blobs ignores later ones.
         ALTER TABLE blob_names ADD COLUMN named INTEGER NOT NULL DEFAULT 0;
         -- Total size of all blobs.
         CREATE TABLE blob_bytes (only INTEGER PRIMARY KEY CHECK (only = 1), total INTEGER NOT NULL);
         INSERT INTO blob_bytes SELECT 1, COALESCE(SUM(length(body)), 0) FROM blobs;
         CREATE INDEX turns_of_session ON turns (session);",
    ),
    M::up(
        "-- The turn's id, known to clients and unique in a session.
         ALTER TABLE turns ADD COLUMN id TEXT NOT NULL DEFAULT '';
         UPDATE turns SET id = COALESCE(json_extract(body, '$.id'), '') WHERE json_valid(body);
         CREATE INDEX turns_by_id ON turns (session, id);

         -- The number of a chat's turns, and the first one that is needed to restore its session.
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
        "-- The session that each of the agent's conversations belongs to. NULL: a person has deleted it, and it is
         -- never listed again.
         CREATE TABLE conversations (id TEXT PRIMARY KEY, session TEXT) WITHOUT ROWID;
         CREATE INDEX conversations_of_session ON conversations (session) WHERE session IS NOT NULL;

         -- The conversations of existing sessions: the first ones, and later ones by the names of their transcripts.
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
        "-- Conversations that a person has deleted and whose transcripts may still exist.
         CREATE TABLE removals (conversation TEXT PRIMARY KEY) WITHOUT ROWID;",
    ),
    M::up(
        "-- Names only. The tables are copied: SQLite parses the whole schema for each rename, which took 20 ms for a new
         -- database.
         CREATE TABLE sequence (
             id INTEGER PRIMARY KEY CHECK (id = 1),
             reserved_through INTEGER NOT NULL,
             replayable_after INTEGER NOT NULL DEFAULT 0
         );
         INSERT INTO sequence SELECT only, until, replay_from FROM reserved;
         DROP TABLE reserved;

         CREATE TABLE journal_marks (
             seq INTEGER PRIMARY KEY,
             written_at_ms INTEGER NOT NULL,
             total_bytes INTEGER NOT NULL
         );
         INSERT INTO journal_marks SELECT seq, at_ms, bytes FROM marks;
         DROP TABLE marks;

         CREATE TABLE blob_references (
             session TEXT NOT NULL,
             hash TEXT NOT NULL,
             referenced_at_seq INTEGER NOT NULL DEFAULT 0,
             PRIMARY KEY (session, hash)
         ) WITHOUT ROWID;
         INSERT INTO blob_references SELECT session, hash, named FROM blob_names;
         DROP TABLE blob_names;
         CREATE INDEX blob_references_of_hash ON blob_references (hash);

         CREATE TABLE blob_totals (id INTEGER PRIMARY KEY CHECK (id = 1), bytes INTEGER NOT NULL);
         INSERT INTO blob_totals SELECT only, total FROM blob_bytes;
         DROP TABLE blob_bytes;

         CREATE TABLE pending_transcript_deletions (conversation TEXT PRIMARY KEY) WITHOUT ROWID;
         INSERT INTO pending_transcript_deletions SELECT conversation FROM removals;
         DROP TABLE removals;

         -- Only columns of these two have new names, so they are copied twice.
         CREATE TEMP TABLE former_clients AS SELECT id, seen_ms, memo FROM clients;
         DROP TABLE clients;
         CREATE TABLE clients (id TEXT PRIMARY KEY, last_seen_ms INTEGER NOT NULL, metadata TEXT NOT NULL DEFAULT '');
         INSERT INTO clients SELECT id, seen_ms, memo FROM former_clients;
         DROP TABLE former_clients;
         CREATE INDEX clients_by_time ON clients (last_seen_ms);

         CREATE TEMP TABLE former_chats AS SELECT uri, session, first, turns FROM chats;
         DROP TABLE chats;
         CREATE TABLE chats (
             uri TEXT PRIMARY KEY,
             session TEXT NOT NULL,
             first_needed_turn INTEGER NOT NULL,
             turn_count INTEGER NOT NULL
         ) WITHOUT ROWID;
         INSERT INTO chats SELECT uri, session, first, turns FROM former_chats;
         DROP TABLE former_chats;
         CREATE INDEX chats_of_session ON chats (session);",
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
        tracing::warn!(%error, "failed to restrict the permissions of the database file");
    }
}

#[cfg(not(unix))]
fn restrict(_path: &Path) {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        Batch, BatchDurability, Blob, BlobOptions, CatalogChange, JournalRetention, JournalRow, PublishedAction,
        Publisher, Store, StoreOptions, StoredClient, StoredConversation, StoredSession, TurnPageLimits,
    };

    struct NoSubscribers;

    impl Publisher for NoSubscribers {
        fn publish(&self, _: &Arc<PublishedAction>) {}
    }

    fn read_schema(db: &Connection) -> Vec<String> {
        let mut statement = db.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    fn read_tables(db: &Connection) -> Vec<String> {
        let query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
        db.prepare(query).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn migrations_are_valid() {
        assert_eq!(Migrations::from_slice(MIGRATIONS).validate(), Ok(()));
    }

    #[test]
    fn a_database_of_the_first_version_is_migrated_and_retains_its_rows() {
        let dir = tempfile::tempdir().unwrap();
        let mut old = Connection::open(dir.path().join(DATABASE_FILE)).unwrap();
        Migrations::from_slice(MIGRATIONS).to_version(&mut old, 1).unwrap();
        old.execute("INSERT INTO sessions VALUES ('claude:/1', 1, '{}')", []).unwrap();
        drop(old);
        let db = open_writer(dir.path(), false).unwrap();
        let uri: String = db.query_row("SELECT uri FROM sessions", [], |row| row.get(0)).unwrap();
        assert_eq!(uri, "claude:/1");
        assert_eq!(db.query_row("SELECT replayable_after FROM sequence", [], |row| row.get::<_, i64>(0)).unwrap(), 0);
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
                   (4, 1, 0, '{{"conversation":"actions are not read"}}'),
                   (5, 4, 1, '{{"conversation":"of no session"}}');"#
        );
        old.execute_batch(&rows).unwrap();
        drop(old);
        let db = open_writer(dir.path(), false).unwrap();
        let stored = crate::queries::conversations(&db).unwrap();
        let mut owners: Vec<_> = stored.iter().map(|row| (&*row.id, row.session.as_deref())).collect();
        owners.sort_unstable();
        assert_eq!(owners, [(&*first, Some("s")), (&*cleared, Some("s")), (&*second, Some("t"))]);
    }

    /// A database of version 8 with rows in every table.
    fn write_version_8(dir: &Path, blob: &Blob) {
        let mut old = Connection::open(dir.join(DATABASE_FILE)).unwrap();
        Migrations::from_slice(MIGRATIONS).to_version(&mut old, 8).unwrap();
        let (hash, bytes) = (blob.hash(), blob.body().len());
        let rows = format!(
            r#"UPDATE reserved SET until = 100, replay_from = 2;
               INSERT INTO sessions VALUES ('s', 1, '{{"title":"t"}}');
               INSERT INTO channels VALUES (1, 's', 's');
               INSERT INTO journal VALUES
                   (3, 1, 0, '{{"type":"a"}}', 'client', 7), (4, 1, 1, '{{"record":"r"}}', NULL, NULL),
                   (5, 1, 0, '{{"type":"b"}}', NULL, NULL);
               INSERT INTO snapshots VALUES ('s', 3, 'refers to {hash}');
               INSERT INTO turns (chat, position, session, id, body) VALUES
                   ('c', 0, 's', 'c0', 'first'), ('c', 1, 's', 'c1', 'second'), ('d', 1, 's', 'd1', 'third');
               INSERT INTO chats (uri, session, first, turns) VALUES ('c', 's', 1, 2), ('d', 's', 1, 2);
               INSERT INTO marks (seq, at_ms, bytes) VALUES (4, 1, 50);
               INSERT INTO clients (id, seen_ms, memo) VALUES ('client', 9000000000000, '1.0.0'), ('early', 5, '');
               INSERT INTO blobs VALUES ('{hash}', 'text/plain', CAST('{text}' AS BLOB));
               INSERT INTO blob_names (session, hash, named) VALUES ('s', '{hash}', 3);
               UPDATE blob_bytes SET total = {bytes};
               INSERT INTO audit (session, at_ms, body) VALUES
                   ('s', 7, '{{"atMs":7,"who":"rule","call":"k","tool":"Bash","input":"ls","decision":"allow"}}');
               INSERT INTO conversations VALUES ('owned', 's'), ('deleted', NULL);
               INSERT INTO removals VALUES ('deleted');"#,
            text = std::str::from_utf8(blob.body()).unwrap(),
        );
        old.execute_batch(&rows).unwrap();
        for table in read_tables(&old) {
            let count: i64 = old.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
            assert!(count > 0, "{table} has no row");
        }
    }

    #[tokio::test]
    async fn all_rows_of_a_database_of_version_8_are_read_after_its_migration() {
        let dir = tempfile::tempdir().unwrap();
        let blob = Blob::new("text/plain", "stored".as_bytes());
        write_version_8(dir.path(), &blob);
        let options = StoreOptions {
            retention: JournalRetention { sweep_interval: Duration::ZERO, ..JournalRetention::default() },
            blobs: BlobOptions { quota_bytes: 10, ..BlobOptions::default() },
            ..StoreOptions::new(dir.path())
        };
        let store = Store::open(&options, Arc::new(NoSubscribers)).unwrap();
        let db = open_reader(dir.path()).unwrap();
        let expected = [
            "audit",
            "blob_references",
            "blob_totals",
            "blobs",
            "channels",
            "chats",
            "clients",
            "conversations",
            "journal",
            "journal_marks",
            "pending_transcript_deletions",
            "sequence",
            "sessions",
            "snapshots",
            "turns",
        ];
        assert_eq!(read_tables(&db), expected);

        let at_start = store.sequence_at_start();
        assert_eq!((at_start.base_seq, at_start.last_durable_seq), (100, 5));
        let session = StoredSession { uri: "s".into(), listed: true, summary: r#"{"title":"t"}"#.into() };
        assert_eq!(store.sessions().await.unwrap(), [session]);
        let owner = |id: &str, session: Option<&str>| StoredConversation {
            id: id.to_owned(),
            session: session.map(str::to_owned),
        };
        assert_eq!(store.conversations().await.unwrap(), [owner("deleted", None), owner("owned", Some("s"))]);
        assert_eq!(store.pending_deletions().await.unwrap(), ["deleted"]);
        let client = |id: &str, metadata: &str, last_seen_ms| StoredClient {
            id: id.to_owned(),
            client_metadata: metadata.to_owned(),
            last_seen_ms,
        };
        let recent = client("client", "1.0.0", 9_000_000_000_000);
        assert_eq!(store.clients(0, 10).await.unwrap(), [recent.clone(), client("early", "", 5)]);

        let state = store.load_session("s").await.unwrap();
        assert_eq!(state.snapshot, Some(format!("refers to {}", blob.hash())));
        let needed: Vec<_> = state.turns.iter().map(|turn| (&*turn.chat, &*turn.id, &*turn.body)).collect();
        assert_eq!(needed, [("c", "c1", "second"), ("d", "d1", "third")]);
        assert_eq!(state.journal.iter().map(JournalRow::seq).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(store.chats_missing_start().await.unwrap(), ["d"]);
        let page = TurnPageLimits { max_turns: 10, max_bytes: 100, from_end: false };
        assert_eq!(store.load_turns("c", 0..9, page).await.unwrap().len(), 2);
        assert_eq!(store.find_turn("s", "c0").await.unwrap(), Some(("c".to_owned(), 0)));
        assert_eq!(store.turn_index("s").await.unwrap().len(), 3);
        assert_eq!(store.turn_id_at("d", 1).await.unwrap().as_deref(), Some("d1"));
        assert_eq!(store.snapshot_seqs().await.unwrap(), [("s".to_owned(), 3)]);
        assert_eq!(store.snapshot_seq("s").await.unwrap(), Some(3));

        let channels = || vec!["s".to_owned()];
        let dispatched = store.dispatched_action("client", 7).await.unwrap().unwrap();
        assert_eq!(store.last_dispatch_seq("client").await.unwrap(), Some(7));
        let actions = store.actions(0, 100, channels()).await.unwrap();
        assert_eq!(actions.iter().map(JournalRow::seq).collect::<Vec<_>>(), [3, 5]);
        assert_eq!(actions[0], dispatched);
        assert_eq!(store.missed_actions(1, 100, channels()).await.unwrap(), None);
        assert_eq!(store.missed_actions(2, 100, channels()).await.unwrap(), Some(actions));
        assert_eq!(store.blob(blob.hash()).await.unwrap(), Some(blob.clone()));
        assert_eq!(store.audit("s", 0, 10).await.unwrap()[0].entry.tool_call_id, "k");

        // The total size of the stored blobs counts against the quota.
        let batch = || Batch::new(Some("s".into()), BatchDurability::Durable);
        let large = Blob::new("text/plain", "large".as_bytes());
        let refused = store.sequencer().commit(batch().client_blobs([large])).await.unwrap_err();
        assert!(matches!(refused, StoreError::Quota(10)), "{refused:?}");
        // The mark is old enough: a sweep removes what it covers. The commit ends after the sweep that precedes it.
        store.sequencer().commit(batch().conversation("new", Some("s"))).await.unwrap();
        store.sequencer().commit(batch().deletion("new", true)).await.unwrap();
        assert_eq!(store.missed_actions(3, 100, channels()).await.unwrap(), None);
        assert!(store.missed_actions(4, 100, channels()).await.unwrap().is_some());
        assert_eq!(store.clients(0, 10).await.unwrap(), [recent]);
        // The session's references are removed with it, and the blob with its last reference.
        store.sequencer().commit(batch().catalog(CatalogChange::Remove { session: "s".into() })).await.unwrap();
        assert_eq!(store.blob(blob.hash()).await.unwrap(), None);
        assert_eq!(store.turn_index("s").await.unwrap(), []);
        store.sequencer().stop().await;
    }

    #[test]
    fn a_database_of_a_newer_version_is_refused_and_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        drop(open_writer(dir.path(), false).unwrap());
        let db = Connection::open(dir.path().join(DATABASE_FILE)).unwrap();
        // One version ahead, as an older host sees the directory of a newer one.
        let newer = i64::try_from(MIGRATIONS.len()).unwrap() + 1;
        db.pragma_update(None, "user_version", newer).unwrap();
        let schema = read_schema(&db);
        drop(db);
        let refused = open_writer(dir.path(), false).unwrap_err();
        assert!(matches!(refused, StoreError::TooNew), "{refused:?}");
        assert_eq!(
            refused.to_string(),
            "the state directory was written by a newer version of Hostler: update Hostler, or use another --state-dir"
        );
        assert_eq!(refused.code(), "stateTooNew");
        let db = Connection::open(dir.path().join(DATABASE_FILE)).unwrap();
        let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!((version, read_schema(&db)), (newer, schema));
    }
}
