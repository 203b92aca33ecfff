//! Ended turns as rows, each at its position in its chat.

use std::fmt;
use std::ops::Range;

use hostler_redact::byte_length;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use crate::StoreError;
use crate::batch::{ChatRow, TurnRow};
use crate::pending_rows::as_sql;

/// A turn that has ended.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredTurn {
    /// Its chat.
    pub chat: String,
    /// Its id.
    pub id: String,
    /// The turn as JSON.
    pub body: String,
}

// Debug output is redacted: a turn contains a person's message and the answer.
impl fmt::Debug for StoredTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredTurn")
            .field("chat", &self.chat)
            .field("id", &self.id)
            .field("body", &byte_length(&self.body))
            .finish()
    }
}

/// Position and id of a turn.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredTurnRef {
    /// Its chat.
    pub chat: String,
    /// Its position in the chat.
    pub position: usize,
    /// Its id.
    pub id: String,
}

/// Limits of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnPageLimits {
    /// Maximum number of turns.
    pub max_turns: usize,
    /// No further turn is added once the page has this many bytes.
    pub max_bytes: usize,
    /// Whether the last turns are wanted rather than the first ones.
    pub from_end: bool,
}

/// Sets the number of a chat's turns; removes rows beyond it, whose turns no longer exist.
pub(crate) fn write_chat(tx: &Transaction<'_>, session: &str, chat: &ChatRow) -> Result<(), StoreError> {
    let turn_count = as_sql(chat.turn_count as u64);
    tx.prepare_cached("DELETE FROM turns WHERE chat = ?1 AND position >= ?2")?
        .execute(params![&*chat.uri, turn_count])?;
    tx.prepare_cached(
        "INSERT INTO chats (uri, session, first_needed_turn, turn_count) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (uri)
         DO UPDATE SET first_needed_turn = excluded.first_needed_turn, turn_count = excluded.turn_count",
    )?
    .execute(params![&*chat.uri, session, as_sql(chat.first_needed as u64), turn_count])?;
    Ok(())
}

pub(crate) fn write(tx: &Transaction<'_>, session: &str, turn: &TurnRow) -> Result<(), StoreError> {
    tx.prepare_cached("INSERT OR REPLACE INTO turns (chat, position, session, id, body) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![&*turn.chat, as_sql(turn.position as u64), session, turn.id, turn.body])?;
    Ok(())
}

/// The turns of a session that are needed to restore it.
pub(crate) fn load_needed(db: &Connection, session: &str) -> Result<Vec<StoredTurn>, StoreError> {
    let chats: Vec<(String, i64)> = db
        .prepare_cached("SELECT uri, first_needed_turn FROM chats WHERE session = ?1 ORDER BY uri")?
        .query_map(params![session], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut statement =
        db.prepare_cached("SELECT id, body FROM turns WHERE chat = ?1 AND position >= ?2 ORDER BY position")?;
    let mut turns = Vec::new();
    for (chat, first) in chats {
        for turn in statement.query_map(params![chat, first], |row| Ok((row.get(0)?, row.get(1)?)))? {
            let (id, body) = turn?;
            turns.push(StoredTurn { chat: chat.clone(), id, body });
        }
    }
    Ok(turns)
}

/// Turns of a chat between two positions, in their order: as many as the page allows, and at least one.
pub(crate) fn load_page(
    db: &Connection,
    chat: &str,
    between: Range<usize>,
    page: TurnPageLimits,
) -> Result<Vec<StoredTurn>, StoreError> {
    let order = if page.from_end { "DESC" } else { "ASC" };
    let mut statement = db.prepare_cached(&format!(
        "SELECT id, body FROM turns WHERE chat = ?1 AND position >= ?2 AND position < ?3
         ORDER BY position {order} LIMIT ?4"
    ))?;
    let (from, until) = (as_sql(between.start as u64), as_sql(between.end as u64));
    let mut rows = statement.query(params![chat, from, until, as_sql(page.max_turns as u64)])?;
    let (mut turns, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let (id, body): (String, String) = (row.get(0)?, row.get(1)?);
        bytes += body.len();
        if bytes > page.max_bytes && !turns.is_empty() {
            break;
        }
        turns.push(StoredTurn { chat: chat.to_owned(), id, body });
    }
    if page.from_end {
        turns.reverse();
    }
    Ok(turns)
}

/// The ids and positions of all turns of a session. Reads an index and no turn.
pub(crate) fn load_index(db: &Connection, session: &str) -> Result<Vec<StoredTurnRef>, StoreError> {
    let mut statement = db.prepare_cached("SELECT chat, position, id FROM turns WHERE session = ?1")?;
    let rows = statement.query_map(params![session], |row| {
        let position = usize::try_from(row.get::<_, i64>(1)?).unwrap_or_default();
        Ok(StoredTurnRef { chat: row.get(0)?, position, id: row.get(2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The chats whose first turn is missing although later ones exist.
pub(crate) fn chats_missing_start(db: &Connection) -> Result<Vec<String>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT uri FROM chats
         WHERE turn_count > 0 AND NOT EXISTS (SELECT 1 FROM turns WHERE chat = chats.uri AND position = 0)",
    )?;
    let rows = statement.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The id of the turn at a position.
pub(crate) fn turn_id_at(db: &Connection, chat: &str, position: usize) -> Result<Option<String>, StoreError> {
    let mut statement = db.prepare_cached("SELECT id FROM turns WHERE chat = ?1 AND position = ?2")?;
    Ok(statement.query_row(params![chat, as_sql(position as u64)], |row| row.get(0)).optional()?)
}

/// The position of a turn of a session.
pub(crate) fn find(db: &Connection, session: &str, id: &str) -> Result<Option<(String, usize)>, StoreError> {
    let to_position = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?));
    let found: Option<(String, i64)> = db
        .prepare_cached("SELECT chat, position FROM turns WHERE session = ?1 AND id = ?2 LIMIT 1")?
        .query_row(params![session, id], to_position)
        .optional()?;
    Ok(found.map(|(chat, position)| (chat, usize::try_from(position).unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database;

    fn row(position: usize, body: &str) -> TurnRow {
        TurnRow { chat: "c".into(), position, id: format!("t{position}"), body: body.to_owned() }
    }

    /// A chat with turns of ten bytes each.
    fn stored(turns: usize, first: usize) -> (tempfile::TempDir, Connection) {
        let dir = tempfile::tempdir().unwrap();
        let mut db = database::open_writer(dir.path(), false).unwrap();
        let tx = db.transaction().unwrap();
        write_chat(&tx, "s", &ChatRow { uri: "c".into(), first_needed: first, turn_count: turns }).unwrap();
        for position in 0..turns {
            write(&tx, "s", &row(position, &format!("{position:010}"))).unwrap();
        }
        tx.commit().unwrap();
        (dir, db)
    }

    fn numbers(turns: &[StoredTurn]) -> Vec<usize> {
        turns.iter().map(|turn| turn.body.parse().unwrap()).collect()
    }

    #[test]
    fn a_page_is_limited_by_count_and_bytes_but_has_at_least_one_turn() {
        let (_dir, db) = stored(10, 0);
        let read = |between, turns, bytes, newest| {
            numbers(
                &load_page(&db, "c", between, TurnPageLimits { max_turns: turns, max_bytes: bytes, from_end: newest })
                    .unwrap(),
            )
        };
        assert_eq!(read(2..9, 3, 1_000, false), [2, 3, 4]);
        assert_eq!(read(2..9, 3, 1_000, true), [6, 7, 8]);
        assert_eq!(read(2..9, 100, 25, false), [2, 3]);
        assert_eq!(read(2..9, 100, 25, true), [7, 8]);
        assert_eq!(read(2..9, 100, 1, true), [8], "at least one turn");
        assert_eq!(read(0..0, 100, 100, true), [0; 0]);
        assert!(
            load_page(&db, "d", 0..9, TurnPageLimits { max_turns: 9, max_bytes: 9, from_end: true })
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn only_needed_turns_are_loaded() {
        let (_dir, mut db) = stored(10, 7);
        assert_eq!(numbers(&load_needed(&db, "s").unwrap()), [7, 8, 9]);
        assert!(load_needed(&db, "another").unwrap().is_empty());
        // The last turn continues: its row is no ended turn any more.
        let tx = db.transaction().unwrap();
        write_chat(&tx, "s", &ChatRow { uri: "c".into(), first_needed: 8, turn_count: 9 }).unwrap();
        tx.commit().unwrap();
        assert_eq!(numbers(&load_needed(&db, "s").unwrap()), [8]);
        assert_eq!(find(&db, "s", "t9").unwrap(), None);
    }

    #[test]
    fn a_chat_without_its_first_turns_is_reported() {
        let (_dir, mut db) = stored(10, 7);
        assert_eq!(chats_missing_start(&db).unwrap(), [""; 0]);
        let tx = db.transaction().unwrap();
        write_chat(&tx, "t", &ChatRow { uri: "d".into(), first_needed: 5, turn_count: 6 }).unwrap();
        write(&tx, "t", &TurnRow { chat: "d".into(), ..row(5, "x") }).unwrap();
        write_chat(&tx, "u", &ChatRow { uri: "e".into(), first_needed: 0, turn_count: 0 }).unwrap();
        tx.commit().unwrap();
        assert_eq!(chats_missing_start(&db).unwrap(), ["d"]);
    }

    #[test]
    fn a_turn_is_found_by_its_id_in_its_session() {
        let (_dir, db) = stored(10, 7);
        assert_eq!(find(&db, "s", "t3").unwrap(), Some(("c".to_owned(), 3)));
        assert_eq!(find(&db, "s", "t10").unwrap(), None);
        assert_eq!(find(&db, "another", "t3").unwrap(), None);
        assert_eq!(turn_id_at(&db, "c", 3).unwrap().as_deref(), Some("t3"));
        assert_eq!(turn_id_at(&db, "c", 10).unwrap(), None);
        let mut index = load_index(&db, "s").unwrap();
        index.sort();
        assert_eq!(index.len(), 10);
        assert_eq!(index[3], StoredTurnRef { chat: "c".to_owned(), position: 3, id: "t3".to_owned() });
        let plan: Vec<String> = db
            .prepare("EXPLAIN QUERY PLAN SELECT chat, position, id FROM turns WHERE session = 's'")
            .unwrap()
            .query_map([], |row| row.get(3))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        assert!(plan.iter().all(|step| step.contains("COVERING INDEX")), "the query reads the index only: {plan:?}");
    }
}
