//! The index: writes documents and reports what is indexed. Searches are in `search`.
//!
//! A turn is one row; its rowid is its time, so the newest matches rank first and times are ranges.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use crate::document::{SessionDocument, TextKind, TextsByKind, TurnDocument, TurnLocation};
use crate::query::SearchQuery;
use crate::search::{self, SearchHits, SearchPage};
use crate::{SearchError, database};

/// Maximum number of turns with the same time, as a power of two.
const ID_COUNTER_BITS: u32 = 20;

/// Position of a session's title.
const TITLE_POSITION: i64 = -1;

/// The index. Writers are serialized; searches read concurrently.
#[derive(Debug)]
pub struct SearchIndex {
    dir: PathBuf,
    writer: Mutex<Connection>,
    was_created: bool,
}

impl SearchIndex {
    /// Opens or creates the index in the state directory. A file that is damaged or of another version is rebuilt.
    ///
    /// # Errors
    /// If the directory cannot be written, or the disk is full.
    pub fn open(dir: &Path) -> Result<Self, SearchError> {
        let (writer, empty) = database::open_writer(dir)?;
        Ok(Self { dir: dir.to_owned(), writer: Mutex::new(writer), was_created: empty })
    }

    /// Whether opening created the index.
    pub fn was_created(&self) -> bool {
        self.was_created
    }

    /// Deletes all contents and starts with an empty index: after [`SearchError::Damaged`].
    ///
    /// # Errors
    /// If the directory cannot be written, or the disk is full.
    pub fn reset(&self) -> Result<(), SearchError> {
        let mut writer = self.lock_writer();
        *writer = Connection::open_in_memory()?;
        database::delete_files(&self.dir)?;
        (*writer, _) = database::open_writer(&self.dir)?;
        Ok(())
    }

    /// Adds or updates a session. Its title can be found afterwards.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn upsert_session(&self, line: &SessionDocument) -> Result<(), SearchError> {
        self.write(|tx| {
            let known: Option<(i64, String)> = tx
                .prepare_cached("SELECT id, title FROM sessions WHERE uri = ?1")?
                .query_row([&line.session], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            tx.prepare_cached(
                "INSERT INTO sessions (uri, title, workspace, modified_ms) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (uri)
                 DO UPDATE SET title = excluded.title, workspace = excluded.workspace, modified_ms = excluded.modified_ms",
            )?
            .execute(params![line.session, line.title, line.workspace, line.modified_ms])?;
            if known.as_ref().is_some_and(|(_, title)| *title == line.title) {
                return Ok(());
            }
            let session = known.map_or_else(|| tx.last_insert_rowid(), |(id, _)| id);
            let mut texts = TextsByKind::default();
            texts.add(TextKind::Title, &line.title);
            put(tx, session, "", TITLE_POSITION, "", line.modified_ms, &texts)
        })
    }

    /// Writes turns of a session that was added before; each replaces the turn at its location.
    ///
    /// # Errors
    /// If they cannot be written; then none of them is.
    pub fn put_turns(&self, session: &str, turns: &[TurnDocument]) -> Result<(), SearchError> {
        self.write(|tx| {
            let Some(id) = session_id(tx, session)? else { return Ok(()) };
            for TurnDocument { location: place, turn_id: turn, at_ms, texts } in turns {
                put(tx, id, &place.chat, sql_position(place), turn, *at_ms, texts)?;
            }
            Ok(())
        })
    }

    /// Removes turns that no longer exist.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn remove_turns(&self, session: &str, places: &[TurnLocation]) -> Result<(), SearchError> {
        self.write(|tx| {
            let Some(id) = session_id(tx, session)? else { return Ok(()) };
            places.iter().try_for_each(|place| delete_turn(tx, id, &place.chat, sql_position(place)))
        })
    }

    /// Records that a session is completely indexed, and the stamp of its source.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn mark_complete(&self, session: &str, stamp: &str) -> Result<(), SearchError> {
        self.write(|tx| {
            tx.prepare_cached("UPDATE sessions SET stamp = ?2 WHERE uri = ?1")?.execute([session, stamp])?;
            Ok(())
        })
    }

    /// Removes a session.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn remove_session(&self, session: &str) -> Result<(), SearchError> {
        self.write(|tx| {
            let Some(id) = session_id(tx, session)? else { return Ok(()) };
            tx.prepare_cached("DELETE FROM texts WHERE rowid IN (SELECT id FROM turns WHERE session = ?1)")?
                .execute([id])?;
            tx.prepare_cached("DELETE FROM turns WHERE session = ?1")?.execute([id])?;
            tx.prepare_cached("DELETE FROM sessions WHERE id = ?1")?.execute([id])?;
            Ok(())
        })
    }

    /// All sessions in the index, with the source's stamp of those that are completely indexed.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn session_stamps(&self) -> Result<HashMap<String, Option<String>>, SearchError> {
        let db = database::open_reader(&self.dir)?;
        let mut statement = db.prepare("SELECT uri, stamp FROM sessions")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The indexed turns of a session: their locations and ids.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn indexed_turns(&self, session: &str) -> Result<HashMap<TurnLocation, String>, SearchError> {
        let db = database::open_reader(&self.dir)?;
        let mut statement = db.prepare(
            "SELECT chat, position, turn FROM turns WHERE position >= 0
             AND session = (SELECT id FROM sessions WHERE uri = ?1)",
        )?;
        let rows = statement.query_map([session], |row| {
            let position = usize::try_from(row.get::<_, i64>(1)?).unwrap_or_default();
            Ok((TurnLocation { chat: row.get(0)?, position }, row.get(2)?))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Searches the index; the best match is first. `now_ms` is the reference for recency.
    ///
    /// # Errors
    /// If the index cannot be read. No query is an error.
    pub fn search(&self, query: &SearchQuery, page: SearchPage, now_ms: i64) -> Result<SearchHits, SearchError> {
        search::run_search(&database::open_reader(&self.dir)?, query, page, now_ms)
    }

    /// Size on disk.
    pub fn disk_bytes(&self) -> u64 {
        database::disk_bytes(&self.dir)
    }

    fn lock_writer(&self) -> MutexGuard<'_, Connection> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, change: impl FnOnce(&Transaction<'_>) -> Result<(), SearchError>) -> Result<(), SearchError> {
        let mut writer = self.lock_writer();
        let tx = writer.transaction()?;
        change(&tx)?;
        tx.commit()?;
        Ok(())
    }

    /// Prevents the file from growing: simulates a full disk in tests.
    #[cfg(test)]
    fn fill_the_disk(&self) {
        let db = self.lock_writer();
        let pages: i64 = db.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();
    }
}

fn sql_position(place: &TurnLocation) -> i64 {
    i64::try_from(place.position).unwrap_or(i64::MAX)
}

fn session_id(tx: &Transaction<'_>, session: &str) -> Result<Option<i64>, SearchError> {
    let mut statement = tx.prepare_cached("SELECT id FROM sessions WHERE uri = ?1")?;
    Ok(statement.query_row([session], |row| row.get(0)).optional()?)
}

fn delete_turn(tx: &Transaction<'_>, session: i64, chat: &str, position: i64) -> Result<(), SearchError> {
    let id: Option<i64> = tx
        .prepare_cached("DELETE FROM turns WHERE session = ?1 AND chat = ?2 AND position = ?3 RETURNING id")?
        .query_row(params![session, chat, position], |row| row.get(0))
        .optional()?;
    if let Some(id) = id {
        tx.prepare_cached("DELETE FROM texts WHERE rowid = ?1")?.execute([id])?;
    }
    Ok(())
}

fn put(
    tx: &Transaction<'_>,
    session: i64,
    chat: &str,
    position: i64,
    turn: &str,
    at_ms: i64,
    texts: &TextsByKind,
) -> Result<(), SearchError> {
    delete_turn(tx, session, chat, position)?;
    let id = next_id_at(tx, at_ms)?;
    tx.prepare_cached("INSERT INTO turns (id, session, chat, position, turn) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![id, session, chat, position, turn])?;
    if !texts.is_empty() {
        let names: Vec<_> = TextKind::ALL.iter().map(|kind| kind.as_str()).collect();
        let sql =
            format!("INSERT INTO texts (rowid, {}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)", names.join(", "));
        let [a, b, c, d, e, f, g, h] = texts.segmented();
        tx.prepare_cached(&sql)?.execute(params![id, a, b, c, d, e, f, g, h])?;
    }
    Ok(())
}

/// The first rowid of a time.
pub(crate) fn first_id_at(at_ms: i64) -> i64 {
    at_ms.clamp(0, i64::MAX >> ID_COUNTER_BITS) << ID_COUNTER_BITS
}

/// The time of a rowid.
pub(crate) fn time_of_id(id: i64) -> i64 {
    id >> ID_COUNTER_BITS
}

fn next_id_at(tx: &Transaction<'_>, at_ms: i64) -> Result<i64, SearchError> {
    let first = first_id_at(at_ms);
    let last: Option<i64> = tx
        .prepare_cached("SELECT MAX(id) FROM turns WHERE id >= ?1 AND id < ?1 + (1 << 20)")?
        .query_row([first], |row| row.get(0))?;
    Ok(last.map_or(first, |last| last.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(title: &str) -> SessionDocument {
        SessionDocument { session: "claude:/1".to_owned(), title: title.to_owned(), workspace: None, modified_ms: 5 }
    }

    fn turn(position: usize, text: &str) -> TurnDocument {
        let mut texts = TextsByKind::default();
        texts.add(TextKind::User, text);
        let place = TurnLocation { chat: "c".to_owned(), position };
        TurnDocument { location: place, turn_id: format!("t{position}"), at_ms: 7, texts }
    }

    fn count(index: &SearchIndex, text: &str) -> usize {
        let query = SearchQuery::parse(text, &"2026-11-16T00:00:00[UTC]".parse().unwrap());
        let page = SearchPage { limit: 100, offset: 0, by_turn: true };
        index.search(&query, page, 0).unwrap().sessions.iter().map(|session| session.hits.len()).sum()
    }

    #[test]
    fn turns_are_added_replaced_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let index = SearchIndex::open(dir.path()).unwrap();
        assert!(index.was_created());
        index.upsert_session(&line("apples")).unwrap();
        index.put_turns("claude:/1", &[turn(0, "plums"), turn(1, "pears"), turn(2, "pears")]).unwrap();
        assert_eq!((count(&index, "apples"), count(&index, "plums"), count(&index, "pears")), (1, 1, 2));
        index.put_turns("claude:/1", &[turn(1, "cherries")]).unwrap();
        index.remove_turns("claude:/1", &[TurnLocation { chat: "c".to_owned(), position: 0 }]).unwrap();
        assert_eq!((count(&index, "plums"), count(&index, "pears"), count(&index, "cherries")), (0, 1, 1));
        assert_eq!(index.indexed_turns("claude:/1").unwrap().len(), 2);
        index.upsert_session(&line("oranges")).unwrap();
        assert_eq!((count(&index, "apples"), count(&index, "oranges")), (0, 1));
        index.remove_session("claude:/1").unwrap();
        index.remove_session("claude:/1").unwrap();
        assert!(index.session_stamps().unwrap().is_empty() && index.indexed_turns("claude:/1").unwrap().is_empty());
        assert_eq!((count(&index, "oranges"), count(&index, "cherries")), (0, 0));
        index.put_turns("claude:/1", &[turn(0, "plums")]).unwrap();
        assert_eq!(count(&index, "plums"), 0, "the session has no document");
    }

    #[test]
    fn the_index_survives_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let index = SearchIndex::open(dir.path()).unwrap();
        index.upsert_session(&line("apples")).unwrap();
        assert_eq!(index.session_stamps().unwrap().get("claude:/1"), Some(&None));
        index.mark_complete("claude:/1", "12").unwrap();
        drop(index);
        let index = SearchIndex::open(dir.path()).unwrap();
        assert!(!index.was_created());
        assert_eq!(index.session_stamps().unwrap().get("claude:/1"), Some(&Some("12".to_owned())));
        assert_eq!(count(&index, "apples"), 1);
    }

    #[test]
    fn a_file_that_is_no_database_is_rebuilt() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::write(dir.path().join(database::DATABASE_FILE), "no database at all".repeat(500)).unwrap();
        let index = SearchIndex::open(dir.path()).unwrap();
        assert!(index.was_created());
        index.upsert_session(&line("apples")).unwrap();
        assert_eq!(count(&index, "apples"), 1);
    }

    #[test]
    fn an_index_of_another_version_is_rebuilt() {
        let dir = tempfile::tempdir().unwrap();
        let index = SearchIndex::open(dir.path()).unwrap();
        index.upsert_session(&line("apples")).unwrap();
        index.lock_writer().pragma_update(None, "user_version", 99).unwrap();
        drop(index);
        let index = SearchIndex::open(dir.path()).unwrap();
        assert!(index.was_created() && index.session_stamps().unwrap().is_empty());
    }

    #[test]
    fn later_damage_is_reported_and_repaired_by_reset() {
        let dir = tempfile::tempdir().unwrap();
        let index = SearchIndex::open(dir.path()).unwrap();
        index.upsert_session(&line("apples")).unwrap();
        index.put_turns("claude:/1", &(0..200).map(|at| turn(at, &"pears ".repeat(500))).collect::<Vec<_>>()).unwrap();
        drop(index);
        // Everything after the first pages is corrupted; the file still looks valid.
        let path = dir.path().join(database::DATABASE_FILE);
        let mut bytes = fs_err::read(&path).unwrap();
        bytes.iter_mut().skip(4096 * 2).for_each(|byte| *byte = 0x5a);
        fs_err::write(&path, bytes).unwrap();
        let index = SearchIndex::open(dir.path()).unwrap();
        let query = SearchQuery::parse("pears", &"2026-11-16T00:00:00[UTC]".parse().unwrap());
        let page = SearchPage { limit: 10, offset: 0, by_turn: false };
        assert_eq!(index.search(&query, page, 0), Err(SearchError::Damaged));
        index.reset().unwrap();
        index.upsert_session(&line("apples")).unwrap();
        assert_eq!((count(&index, "apples"), count(&index, "pears")), (1, 0));
    }

    #[test]
    fn on_a_full_disk_writes_fail_and_searches_work() {
        let dir = tempfile::tempdir().unwrap();
        let index = SearchIndex::open(dir.path()).unwrap();
        index.upsert_session(&line("apples")).unwrap();
        index.fill_the_disk();
        let many: Vec<_> = (0..100).map(|at| turn(at, &format!("pears {at} ").repeat(500))).collect();
        assert_eq!(index.put_turns("claude:/1", &many), Err(SearchError::DiskFull));
        assert_eq!((count(&index, "apples"), count(&index, "pears")), (1, 0));
        assert!(index.indexed_turns("claude:/1").unwrap().is_empty(), "all or nothing");
    }

    #[test]
    fn a_missing_directory_is_an_error_and_is_not_created() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        assert_eq!(SearchIndex::open(&missing).unwrap_err(), SearchError::NoAccess);
        assert!(!missing.exists());
    }

    #[cfg(unix)]
    #[test]
    fn the_index_file_is_private_to_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let _index = SearchIndex::open(dir.path()).unwrap();
        let mode = fs_err::metadata(dir.path().join(database::DATABASE_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
