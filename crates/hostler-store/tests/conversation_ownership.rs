//! Which session an agent's conversation belongs to.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::Path;
use std::sync::Arc;

use hostler_store::{Batch, BatchDurability, CatalogChange, PublishedAction, Publisher, Store, StoreOptions};

struct Nobody;

impl Publisher for Nobody {
    fn publish(&self, _: &Arc<PublishedAction>) {}
}

fn open(dir: &Path) -> Store {
    Store::open(&StoreOptions::new(dir), Arc::new(Nobody)).unwrap()
}

fn batch(session: &str) -> Batch {
    Batch::new(Some(session.into()), BatchDurability::Durable)
}

async fn known(store: &Store) -> Vec<(String, Option<String>)> {
    let known = store.conversations().await.unwrap();
    let mut known: Vec<_> = known.into_iter().map(|known| (known.id, known.session)).collect();
    known.sort();
    known
}

#[tokio::test]
async fn a_removed_session_leaves_the_ids_of_its_conversations() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let of = |id: &str, session: Option<&str>| (id.to_owned(), session.map(str::to_owned));
    store.sequencer().commit(batch("s").conversation("a", Some("s")).conversation("b", Some("s"))).await.unwrap();
    store.sequencer().commit(batch("t").conversation("c", Some("t"))).await.unwrap();
    let remove = batch("s").catalog(CatalogChange::Remove { session: "s".into() });
    store.sequencer().commit(remove).await.unwrap();
    assert_eq!(known(&store).await, [of("a", None), of("b", None), of("c", Some("t"))]);

    // One that no session had, and one that is created again under its old id.
    let deleted = Batch::new(None, BatchDurability::Durable).conversation("d", None);
    store.sequencer().commit(deleted).await.unwrap();
    store.sequencer().commit(batch("s").conversation("a", Some("s"))).await.unwrap();
    // Transcripts that are to be deleted, until they are deleted or in use again.
    let removals =
        Batch::new(None, BatchDurability::Durable).deletion("a", true).deletion("b", true).deletion("d", true);
    store.sequencer().commit(removals).await.unwrap();
    assert_eq!(store.pending_deletions().await.unwrap(), ["a", "b", "d"]);
    store.sequencer().commit(Batch::new(None, BatchDurability::Durable).deletion("d", false)).await.unwrap();
    store.sequencer().commit(batch("s").conversation("a", Some("s"))).await.unwrap();
    store.sequencer().stop().await;
    drop(store);
    assert_eq!(open(dir.path()).pending_deletions().await.unwrap(), ["b"]);
    let expected = [of("a", Some("s")), of("b", None), of("c", Some("t")), of("d", None)];
    assert_eq!(known(&open(dir.path())).await, expected);
}
