//! Rows that the store removes by itself, and rows that it never removes.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahp_types::actions::{SessionTitleChangedAction, StateAction};
use hostler_store::{
    ActionEntry, Batch, BatchDurability, ChatRow, JournalRetention, JournalRow, PublishedAction, Publisher,
    SnapshotRow, Store, StoreOptions, StoredClient, StoredSessionState, TurnRow,
};

const COVERED: &str = "claude:/covered";
const BARE: &str = "claude:/bare";

/// Sweeps after each commit.
const EAGER: JournalRetention = JournalRetention {
    max_age_ms: i64::MAX / 2,
    max_bytes: i64::MAX / 2,
    max_client_age_ms: i64::MAX / 2,
    sweep_interval: Duration::ZERO,
};

struct NoSubscribers;

impl Publisher for NoSubscribers {
    fn publish(&self, _item: &Arc<PublishedAction>) {}
}

fn open(dir: &Path, retention: JournalRetention) -> Store {
    Store::open(&StoreOptions { retention, ..StoreOptions::new(dir) }, Arc::new(NoSubscribers)).unwrap()
}

/// Commits a title; returns its sequence number.
async fn commit_title(store: &Store, session: &str, text: &str) -> u64 {
    let action = StateAction::SessionTitleChanged(SessionTitleChangedAction { title: text.to_owned() });
    let batch = Batch::new(Some(session.into()), BatchDurability::Durable);
    store.sequencer().commit(batch.entry(ActionEntry::new(session.into(), action).unwrap())).await.unwrap()
}

/// Stores a snapshot of a session.
async fn snapshot(store: &Store, session: &str, body: &str) {
    let turns = vec![TurnRow { chat: session.into(), position: 0, id: "t".to_owned(), body: "a turn".to_owned() }];
    let chats = vec![ChatRow { uri: session.into(), first_needed: 0, turn_count: 1 }];
    let row = SnapshotRow { body: body.to_owned(), turns, chats };
    store.sequencer().commit(Batch::new(Some(session.into()), BatchDurability::Durable).snapshot(row)).await.unwrap();
}

/// The sequence numbers of all rows of both sessions.
async fn remaining_rows(store: &Store) -> Vec<u64> {
    let rows = store.actions(0, u64::MAX, vec![COVERED.to_owned(), BARE.to_owned()]).await.unwrap();
    rows.iter().map(JournalRow::seq).collect()
}

/// Two sessions with five rows each; a snapshot covers all rows of the first one.
async fn fill(store: &Store) -> (Vec<u64>, Vec<u64>) {
    let (mut covered, mut bare) = (Vec::new(), Vec::new());
    for n in 0..5 {
        covered.push(commit_title(store, COVERED, &format!("covered {n}")).await);
        bare.push(commit_title(store, BARE, &format!("bare {n}")).await);
    }
    snapshot(store, COVERED, "covered").await;
    (covered, bare)
}

/// Commits until all of the rows are removed. A commit ends only after the sweep that follows the one before it.
async fn wait_until_removed(store: &Store, rows: &[u64]) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while remaining_rows(store).await.iter().any(|seq| rows.contains(seq)) {
        assert!(Instant::now() < deadline, "the expired rows were not removed");
        commit_title(store, BARE, "later").await;
    }
}

async fn states(store: &Store) -> [StoredSessionState; 2] {
    [store.load_session(COVERED).await.unwrap(), store.load_session(BARE).await.unwrap()]
}

#[tokio::test]
async fn covered_old_rows_are_removed_and_sessions_stay_complete() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), JournalRetention { max_age_ms: 0, ..EAGER });
    let (covered, bare) = fill(&store).await;
    wait_until_removed(&store, &covered).await;
    assert!(remaining_rows(&store).await.starts_with(&bare), "without a snapshot no row is removed");
    let after = commit_title(&store, COVERED, "after the snapshot").await;
    commit_title(&store, BARE, "one more sweep").await;
    let [restored, _] = states(&store).await;
    assert_eq!(restored.snapshot.as_deref(), Some("covered"));
    assert_eq!(restored.turns.iter().map(|turn| turn.body.as_str()).collect::<Vec<_>>(), ["a turn"]);
    assert_eq!(restored.journal.iter().map(JournalRow::seq).collect::<Vec<_>>(), [after], "rows after the snapshot");
    let before = states(&store).await;
    store.sequencer().stop().await;
    drop(store);
    let store = open(dir.path(), EAGER);
    assert_eq!(states(&store).await, before, "the same after reopening");
    store.sequencer().stop().await;
}

#[tokio::test]
async fn covered_rows_over_the_size_limit_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), JournalRetention { max_bytes: 10_000, ..EAGER });
    let (covered, bare) = fill(&store).await;
    commit_title(&store, BARE, "one more sweep").await;
    assert_eq!(remaining_rows(&store).await.len(), 11, "the rows are within the limit");
    commit_title(&store, BARE, &"x".repeat(20_000)).await;
    wait_until_removed(&store, &covered).await;
    assert!(remaining_rows(&store).await.starts_with(&bare), "without a snapshot no row is removed");
    store.sequencer().stop().await;
}

#[tokio::test]
async fn missed_actions_is_none_if_rows_were_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), EAGER);
    let (covered, bare) = fill(&store).await;
    let channels = || vec![COVERED.to_owned()];
    let missed = store.missed_actions(covered[1], u64::MAX, channels()).await.unwrap().unwrap();
    assert_eq!(missed.iter().map(JournalRow::seq).collect::<Vec<_>>(), covered[2..]);
    store.sequencer().stop().await;
    drop(store);

    let store = open(dir.path(), JournalRetention { max_age_ms: 0, ..EAGER });
    assert_eq!(store.sequence_at_start().last_durable_seq, bare[4]);
    assert!(store.missed_actions(covered[1], u64::MAX, channels()).await.unwrap().is_some(), "nothing was removed yet");
    wait_until_removed(&store, &covered).await;
    for channels in [channels(), vec![BARE.to_owned()]] {
        let missed = store.missed_actions(covered[1], u64::MAX, channels).await.unwrap();
        assert_eq!(missed, None, "in the run that removed the rows");
    }
    let newest = store.sequencer().current_seq();
    assert_eq!(store.missed_actions(newest, u64::MAX, channels()).await.unwrap(), Some(Vec::new()));
    store.sequencer().stop().await;
    drop(store);

    let store = open(dir.path(), EAGER);
    assert_eq!(store.missed_actions(covered[1], u64::MAX, channels()).await.unwrap(), None, "in the next run");
    assert!(store.sequence_at_start().last_durable_seq >= newest);
    store.sequencer().stop().await;
}

#[tokio::test]
async fn clients_are_stored_with_metadata_and_listed_latest_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), JournalRetention::default());
    let client = |id: &str, metadata: &str, last_seen_ms| StoredClient {
        id: id.into(),
        client_metadata: metadata.into(),
        last_seen_ms,
    };
    for row in [client("a", "old", 1), client("b", "B", 2), client("c", "C", 3), client("a", "new", 4)] {
        store.sequencer().submit(Batch::new(None, BatchDurability::Stream).client(row)).await.unwrap();
    }
    store.sequencer().stop().await;
    drop(store);
    let store = open(dir.path(), JournalRetention::default());
    assert_eq!(store.clients(2, 10).await.unwrap(), [client("a", "new", 4), client("c", "C", 3), client("b", "B", 2)]);
    assert_eq!(store.clients(3, 10).await.unwrap().len(), 2);
    assert_eq!(store.clients(0, 1).await.unwrap(), [client("a", "new", 4)]);
    store.sequencer().stop().await;
}
