//! Blobs without a reference are removed, others never; and the quota limits all of them together.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahp_types::ActionOrigin;
use ahp_types::actions::{SessionTitleChangedAction, StateAction};
use hostler_store::{
    ActionEntry, Batch, BatchDurability, Blob, BlobOptions, CatalogChange, HostRecord, JournalRetention,
    PublishedAction, Publisher, SnapshotRow, Store, StoreError, StoreOptions, TurnRow,
};

const ONE: &str = "claude:/1";
const TWO: &str = "claude:/2";

/// Collects continuously.
const EAGER: BlobOptions = BlobOptions {
    quota_bytes: u64::MAX,
    collection_interval: Duration::from_millis(1),
    min_collection_pause: Duration::ZERO,
};

/// Collects at start and when the quota is exceeded.
const WHEN_FULL: BlobOptions = BlobOptions {
    quota_bytes: 100,
    collection_interval: Duration::from_secs(3600),
    min_collection_pause: Duration::ZERO,
};

struct NoSubscribers;

impl Publisher for NoSubscribers {
    fn publish(&self, _: &Arc<PublishedAction>) {}
}

/// Rows that a snapshot covers are removed with the next batch.
fn open(dir: &Path, blobs: BlobOptions) -> Store {
    let retention = JournalRetention { max_age_ms: -1, sweep_interval: Duration::ZERO, ..JournalRetention::default() };
    Store::open(&StoreOptions { retention, blobs, ..StoreOptions::new(dir) }, Arc::new(NoSubscribers)).unwrap()
}

fn blob(text: &str) -> Blob {
    Blob::new("text/plain", text.as_bytes())
}

fn batch(session: &str) -> Batch {
    Batch::new(Some(session.into()), BatchDurability::Durable)
}

fn uri(blob: &Blob) -> String {
    format!("ahp-content:/{}", blob.hash())
}

fn title(session: &str, title: String) -> ActionEntry {
    ActionEntry::new(session.into(), StateAction::SessionTitleChanged(SessionTitleChangedAction { title })).unwrap()
}

/// A batch with an action that refers to a blob, and the blob.
fn referring_batch(session: &str, blob: &Blob) -> Batch {
    batch(session).entry(title(session, uri(blob))).blobs([blob.clone()])
}

/// The same as a client's action.
fn client_batch(session: &str, blob: &Blob) -> Batch {
    let origin = ActionOrigin { client_id: "c".to_owned(), client_seq: 1 };
    batch(session).entry(title(session, uri(blob)).with_origin(Some(origin))).blobs([blob.clone()])
}

async fn commit(store: &Store, batch: Batch) {
    store.sequencer().commit(batch).await.unwrap();
}

/// Stores a snapshot of a session that refers only to what `body` contains.
async fn snapshot(store: &Store, session: &str, body: String) {
    commit(store, batch(session).snapshot(SnapshotRow { body, turns: Vec::new(), chats: Vec::new() })).await;
}

async fn is_stored(store: &Store, blob: &Blob) -> bool {
    store.blob(blob.hash()).await.unwrap().is_some()
}

/// Waits until a blob is removed. Commits cause expired rows of the journal to be removed.
async fn wait_until_removed(store: &Store, blob: &Blob) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while is_stored(store, blob).await {
        assert!(Instant::now() < deadline, "{blob:?} was not removed");
        commit(store, batch("claude:/other").entry(title("claude:/other", "later".to_owned()))).await;
    }
}

#[tokio::test]
async fn blobs_are_retained_until_the_last_row_that_refers_to_them_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), EAGER);
    let [turn, state, row, record, dropped] = ["turn", "state", "row", "record", "dropped"].map(blob);
    let turns = vec![TurnRow { chat: "chat".into(), position: 0, id: "t".to_owned(), body: uri(&turn) }];
    commit(&store, referring_batch(ONE, &turn)).await;
    commit(&store, referring_batch(ONE, &state)).await;
    commit(&store, referring_batch(ONE, &dropped)).await;
    commit(&store, batch(ONE).snapshot(SnapshotRow { body: uri(&state), turns, chats: Vec::new() })).await;
    commit(&store, referring_batch(ONE, &row)).await;
    let json = format!("{:?}", uri(&record));
    commit(&store, batch(ONE).record(HostRecord { channel: ONE.into(), json }).blobs([record.clone()])).await;
    wait_until_removed(&store, &dropped).await;
    // A blob that was referenced after these has been collected, so these were checked as well.
    let later = blob("later");
    commit(&store, batch(TWO).blobs([later.clone()])).await;
    wait_until_removed(&store, &later).await;
    for referenced in [&turn, &state, &row, &record] {
        assert!(is_stored(&store, referenced).await, "{referenced:?}");
    }
    snapshot(&store, ONE, "nothing".to_owned()).await;
    for unreferenced in [&state, &row, &record] {
        wait_until_removed(&store, unreferenced).await;
    }
    assert!(is_stored(&store, &turn).await);
    store.sequencer().stop().await;
}

#[tokio::test]
async fn blobs_of_replayable_rows_are_retained() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions { blobs: EAGER, ..StoreOptions::new(dir.path()) };
    let store = Store::open(&options, Arc::new(NoSubscribers)).unwrap();
    let [replayed, never] = ["replayed", "never"].map(blob);
    commit(&store, referring_batch(ONE, &replayed)).await;
    snapshot(&store, ONE, "nothing".to_owned()).await;
    commit(&store, batch(ONE).blobs([never.clone()])).await;
    wait_until_removed(&store, &never).await;
    assert!(is_stored(&store, &replayed).await, "a reconnecting client receives the row");
    store.sequencer().stop().await;
}

#[tokio::test]
async fn a_blob_of_two_sessions_is_retained_until_neither_refers_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), EAGER);
    let [shared, own] = ["shared", "own"].map(blob);
    for session in [ONE, TWO] {
        commit(&store, referring_batch(session, &shared)).await;
    }
    commit(&store, referring_batch(ONE, &own)).await;
    snapshot(&store, ONE, "nothing".to_owned()).await;
    wait_until_removed(&store, &own).await;
    assert!(is_stored(&store, &shared).await);
    commit(&store, batch(TWO).catalog(CatalogChange::Remove { session: TWO.into() })).await;
    wait_until_removed(&store, &shared).await;
    store.sequencer().stop().await;
}

#[tokio::test]
async fn a_row_with_invalid_text_still_holds_references() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), WHEN_FULL);
    let [referenced, other] = ["referenced", "other"].map(blob);
    for blob in [&referenced, &other] {
        commit(&store, referring_batch(ONE, blob)).await;
    }
    snapshot(&store, ONE, uri(&referenced)).await;
    store.sequencer().stop().await;
    let db = rusqlite::Connection::open(dir.path().join("hostler.db")).unwrap();
    let body = [&[0xff, 0xfe][..], referenced.hash().as_bytes(), &[0xff]].concat();
    db.execute("UPDATE snapshots SET body = CAST(?1 AS TEXT)", [body]).unwrap();
    drop(db);
    let store = open(dir.path(), EAGER);
    wait_until_removed(&store, &other).await;
    assert!(is_stored(&store, &referenced).await);
    store.sequencer().stop().await;
}

#[tokio::test]
async fn orphans_of_a_crash_are_removed_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), WHEN_FULL);
    let [orphan, referenced] = ["orphan", "referenced"].map(blob);
    for blob in [&orphan, &referenced] {
        commit(&store, referring_batch(ONE, blob)).await;
    }
    store.sequencer().stop().await;
    // References are removed before blobs; the host may crash in between.
    let db = rusqlite::Connection::open(dir.path().join("hostler.db")).unwrap();
    db.execute("DELETE FROM blob_references WHERE hash = ?1", [orphan.hash()]).unwrap();
    drop(db);
    let store = open(dir.path(), WHEN_FULL);
    wait_until_removed(&store, &orphan).await;
    assert!(is_stored(&store, &referenced).await);
    store.sequencer().stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_referenced_again_during_collection_are_retained() {
    const ROUNDS: usize = 300;
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(open(dir.path(), EAGER));
    let work = |session: &'static str| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let blobs = ["a", "b", "c"].map(blob);
            for round in 0..ROUNDS {
                // Referenced, dropped, and referenced again: a client that receives a reference can read the blob.
                let blob = &blobs[round % blobs.len()];
                commit(&store, referring_batch(session, blob)).await;
                assert!(is_stored(&store, blob).await, "{blob:?} in round {round}");
                snapshot(&store, session, "nothing".to_owned()).await;
            }
            let last = blob("the last one");
            commit(&store, referring_batch(session, &last)).await;
            last
        })
    };
    let (one, two) = tokio::join!(work(ONE), work(TWO));
    let _both = (one.unwrap(), two.unwrap());
    for dropped in ["a", "b", "c"].map(blob) {
        wait_until_removed(&store, &dropped).await;
    }
    assert!(is_stored(&store, &blob("the last one")).await);
    store.sequencer().stop().await;
}

#[tokio::test]
async fn blobs_over_the_quota_are_refused_and_other_batches_committed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), WHEN_FULL);
    let (large, small) = (blob(&"x".repeat(90)), blob(&"y".repeat(11)));
    commit(&store, client_batch(ONE, &large)).await;
    let before = store.load_session(TWO).await.unwrap();
    let refused = store.sequencer().commit(client_batch(TWO, &small)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Quota(100)), "{refused:?}");
    assert!(refused.to_string().contains("[attachments]"), "{refused}");
    assert_eq!(store.load_session(TWO).await.unwrap(), before, "nothing of the batch is stored");
    assert!(!is_stored(&store, &small).await);
    commit(&store, batch(TWO).entry(title(TWO, "no blob".to_owned()))).await;
    commit(&store, client_batch(TWO, &large)).await;
    commit(&store, client_batch(TWO, &blob("0123456789"))).await;
    // Outputs of agents are not refused.
    commit(&store, referring_batch(TWO, &small)).await;
    commit(&store, client_batch(ONE, &small)).await;
    store.sequencer().stop().await;
    drop(store);
    let store = open(dir.path(), WHEN_FULL);
    assert!(store.sequencer().commit(client_batch(ONE, &blob("one more"))).await.is_err(), "also after a restart");
    store.sequencer().stop().await;
}

#[tokio::test]
async fn unreferenced_blobs_are_collected_before_a_refusal() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), WHEN_FULL);
    let (old, new) = (blob(&"x".repeat(90)), blob(&"y".repeat(90)));
    commit(&store, client_batch(ONE, &old)).await;
    assert!(store.sequencer().commit(client_batch(TWO, &new)).await.is_err());
    snapshot(&store, ONE, "nothing".to_owned()).await;
    // The row that referred to it is removed with the batch after the snapshot.
    commit(&store, batch(TWO).entry(title(TWO, "no blob".to_owned()))).await;
    commit(&store, batch(TWO).entry(title(TWO, "still no blob".to_owned()))).await;
    commit(&store, client_batch(TWO, &new)).await;
    assert!(!is_stored(&store, &old).await && is_stored(&store, &new).await);
    commit(&store, batch(TWO).catalog(CatalogChange::Remove { session: TWO.into() })).await;
    commit(&store, client_batch(ONE, &old)).await;
    store.sequencer().stop().await;
}

#[tokio::test]
async fn of_concurrent_batches_only_those_over_the_quota_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), WHEN_FULL);
    let blobs: Vec<_> = (0..8).map(|n| blob(&format!("{n}").repeat(40))).collect();
    let commit = |blob: &Blob| {
        let (sequencer, batch) = (store.sequencer().clone(), client_batch(ONE, blob));
        tokio::spawn(async move { sequencer.commit(batch).await.is_ok() })
    };
    let outcomes: Vec<_> = blobs.iter().map(commit).collect();
    let mut accepted = 0;
    for (outcome, blob) in outcomes.into_iter().zip(&blobs) {
        let outcome = outcome.await.unwrap();
        assert_eq!(outcome, is_stored(&store, blob).await);
        accepted += usize::from(outcome);
    }
    assert_eq!(accepted, 2);
    let rows = store.load_session(ONE).await.unwrap().journal;
    assert!(rows.len() == 2 && rows[0].seq() < rows[1].seq(), "{rows:?}");
    store.sequencer().stop().await;
}
