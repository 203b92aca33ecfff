//! The session that each of the agent's conversations belongs to, and transcripts that are to be deleted.

use std::path::Path;
use std::sync::Arc;

use hostler_store::{Batch, BatchDurability, CatalogChange, PublishedAction, Publisher, Store, StoreOptions};

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

async fn owners(store: &Store) -> Vec<(String, Option<String>)> {
    let conversations = store.conversations().await.unwrap();
    let mut owners: Vec<_> = conversations.into_iter().map(|row| (row.id, row.session)).collect();
    owners.sort();
    owners
}

#[tokio::test]
async fn conversations_of_a_removed_session_remain_as_deleted_and_transcript_deletions_stay_pending() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let owner = |id: &str, session: Option<&str>| (id.to_owned(), session.map(str::to_owned));
    store.sequencer().commit(batch("s").conversation("a", Some("s")).conversation("b", Some("s"))).await.unwrap();
    store.sequencer().commit(batch("t").conversation("c", Some("t"))).await.unwrap();
    let remove = batch("s").catalog(CatalogChange::Remove { session: "s".into() });
    store.sequencer().commit(remove).await.unwrap();
    assert_eq!(owners(&store).await, [owner("a", None), owner("b", None), owner("c", Some("t"))]);

    // One that no session had, and one that is created again under its old id.
    let deleted = Batch::new(None, BatchDurability::Durable).conversation("d", None);
    store.sequencer().commit(deleted).await.unwrap();
    store.sequencer().commit(batch("s").conversation("a", Some("s"))).await.unwrap();
    // Transcripts that are to be deleted, until they are deleted or in use again.
    let deletions =
        Batch::new(None, BatchDurability::Durable).deletion("a", true).deletion("b", true).deletion("d", true);
    store.sequencer().commit(deletions).await.unwrap();
    assert_eq!(store.pending_deletions().await.unwrap(), ["a", "b", "d"]);
    store.sequencer().commit(Batch::new(None, BatchDurability::Durable).deletion("d", false)).await.unwrap();
    store.sequencer().commit(batch("s").conversation("a", Some("s"))).await.unwrap();
    store.sequencer().stop().await;
    drop(store);
    assert_eq!(open(dir.path()).pending_deletions().await.unwrap(), ["b"]);
    let expected = [owner("a", Some("s")), owner("b", None), owner("c", Some("t")), owner("d", None)];
    assert_eq!(owners(&open(dir.path())).await, expected);
}
