//! Blobs and the audit log, on a real database file.

use std::path::Path;
use std::sync::Arc;

use ahp_types::actions::{SessionTitleChangedAction, StateAction};
use hostler_store::{
    ActionEntry, AuditEntry, Batch, BatchDurability, Blob, CatalogChange, HostRecord, JournalRow, PublishedAction,
    Publisher, SnapshotRow, Store, StoreOptions, StoredSession, StoredSessionState, StoredTurn, TurnRow,
};

struct NoSubscribers;

impl Publisher for NoSubscribers {
    fn publish(&self, _: &Arc<PublishedAction>) {}
}

fn open(dir: &Path) -> Store {
    Store::open(&StoreOptions::new(dir), Arc::new(NoSubscribers)).unwrap()
}

fn batch(session: &str) -> Batch {
    Batch::new(Some(session.into()), BatchDurability::Durable)
}

/// A batch with blobs that its actions refer to.
fn referring_batch(session: &str, blobs: &[&Blob]) -> Batch {
    let entry = |blob: &&Blob| {
        let action = SessionTitleChangedAction { title: format!("ahp-content:/{}", blob.hash()) };
        ActionEntry::new(session.into(), StateAction::SessionTitleChanged(action)).unwrap()
    };
    batch(session).entries(blobs.iter().map(entry)).blobs(blobs.iter().map(|blob| (*blob).clone()))
}

fn audit_entry(call: &str) -> AuditEntry {
    AuditEntry {
        at_ms: 7,
        decided_by: "rule".into(),
        tool_call_id: call.into(),
        tool: "Bash".into(),
        input: "git status".into(),
        sub_agent: None,
        decision: "allow".into(),
        reason: Some("Bash(git status)".into()),
    }
}

async fn remove_session(store: &Store, session: &str) {
    let change = CatalogChange::Remove { session: session.into() };
    store.sequencer().commit(batch(session).catalog(change)).await.unwrap();
}

#[tokio::test]
async fn blobs_are_readable_after_commit_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let blob = Blob::new("text/plain", "long output".as_bytes());
    assert_eq!(store.blob(blob.hash()).await.unwrap(), None);
    store.sequencer().commit(referring_batch("claude:/1", &[&blob])).await.unwrap();
    assert_eq!(store.blob(blob.hash()).await.unwrap(), Some(blob.clone()));
    store.sequencer().stop().await;
    assert_eq!(open(dir.path()).blob(blob.hash()).await.unwrap(), Some(blob));
}

#[tokio::test]
async fn blobs_are_removed_with_the_last_session_that_refers_to_them() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let (shared, own) = (Blob::new("text/plain", "shared".as_bytes()), Blob::new("text/plain", "own".as_bytes()));
    store.sequencer().commit(referring_batch("claude:/1", &[&shared, &own])).await.unwrap();
    store.sequencer().commit(referring_batch("claude:/2", &[&shared])).await.unwrap();
    remove_session(&store, "claude:/1").await;
    assert_eq!(store.blob(own.hash()).await.unwrap(), None);
    assert!(store.blob(shared.hash()).await.unwrap().is_some());
    remove_session(&store, "claude:/2").await;
    assert_eq!(store.blob(shared.hash()).await.unwrap(), None);
}

#[tokio::test]
async fn a_blob_that_does_not_match_its_hash_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let (damaged, sound) = (Blob::new("text/plain", "damaged".as_bytes()), Blob::new("text/plain", "sound".as_bytes()));
    store.sequencer().commit(referring_batch("claude:/1", &[&damaged, &sound])).await.unwrap();
    let db = rusqlite::Connection::open(dir.path().join("hostler.db")).unwrap();
    db.execute("UPDATE blobs SET body = x'00' WHERE hash = ?1", [damaged.hash()]).unwrap();
    assert_eq!(store.blob(damaged.hash()).await.unwrap(), None);
    assert_eq!(store.blob(sound.hash()).await.unwrap(), Some(sound));
}

#[tokio::test]
async fn reading_blobs_does_not_block_the_writer() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let blob = Blob::new("text/plain", "long output".as_bytes());
    store.sequencer().commit(referring_batch("claude:/1", &[&blob])).await.unwrap();
    let reader = rusqlite::Connection::open(dir.path().join("hostler.db")).unwrap();
    let mut statement = reader.prepare("SELECT body FROM blobs").unwrap();
    let mut rows = statement.query([]).unwrap();
    let _being_read = rows.next().unwrap().unwrap();
    let other = Blob::new("text/plain", "other".as_bytes());
    store.sequencer().commit(referring_batch("claude:/1", &[&other])).await.unwrap();
    assert_eq!(store.blob(other.hash()).await.unwrap(), Some(other));
}

#[tokio::test]
async fn the_audit_log_is_read_in_pages_and_removed_with_its_session() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for call in ["a", "b", "c"] {
        store.sequencer().commit(batch("claude:/1").audit([audit_entry(call)])).await.unwrap();
    }
    store.sequencer().commit(batch("claude:/2").audit([audit_entry("other")])).await.unwrap();
    let first = store.audit("claude:/1", 0, 2).await.unwrap();
    assert_eq!(first.iter().map(|row| row.entry.tool_call_id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let second = store.audit("claude:/1", first[1].id, 100).await.unwrap();
    assert_eq!(second.iter().map(|row| row.entry.tool_call_id.as_str()).collect::<Vec<_>>(), ["c"]);
    remove_session(&store, "claude:/1").await;
    assert!(store.audit("claude:/1", 0, 100).await.unwrap().is_empty());
    assert_eq!(store.audit("claude:/2", 0, 100).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_unreadable_audit_entry_is_an_error_without_its_text() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.sequencer().commit(batch("claude:/1").audit([audit_entry("a")])).await.unwrap();
    let damaged = rusqlite::Connection::open(dir.path().join("hostler.db")).unwrap();
    damaged.execute("UPDATE audit SET body = '\"a password\"'", []).unwrap();
    let error = store.audit("claude:/1", 0, 100).await.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(
        shown.contains("failed to read an audit entry: invalid type: string") && !shown.contains("password"),
        "{shown}"
    );
}

#[test]
fn debug_output_contains_no_contents_or_messages() {
    let action = StateAction::SessionTitleChanged(SessionTitleChangedAction { title: "a password".into() });
    let json: Arc<str> = serde_json::to_string(&action).unwrap().into();
    let (channel, text): (Arc<str>, String) = ("claude:/1".into(), "a password".into());
    let entry = ActionEntry::new(Arc::clone(&channel), action.clone()).unwrap();
    let turn = TurnRow { chat: Arc::clone(&channel), position: 0, id: "t".into(), body: text.clone() };
    let stored = StoredTurn { chat: "claude:/1".into(), id: "t".into(), body: text.clone() };
    let row = JournalRow::Record { seq: 1, channel: "claude:/1".into(), json: text.clone() };
    for shown in [
        format!("{:?}", Blob::new("text/plain", text.as_bytes())),
        format!("{entry:?}"),
        format!("{:?}", PublishedAction::from_journal(1, Arc::clone(&channel), action, json, None)),
        format!("{:?}", HostRecord { channel: Arc::clone(&channel), json: text.clone() }),
        format!("{:?}", CatalogChange::Put { session: channel, listed: true, summary: text.clone() }),
        format!("{:?}", SnapshotRow { body: text.clone(), turns: vec![turn], chats: Vec::new() }),
        format!("{:?}", StoredSessionState { snapshot: Some(text.clone()), turns: vec![stored], journal: vec![row] }),
        format!("{:?}", StoredSession { uri: "claude:/1".into(), listed: true, summary: text }),
    ] {
        assert!(shown.contains(" bytes") && !shown.contains("password"), "{shown}");
    }
}
