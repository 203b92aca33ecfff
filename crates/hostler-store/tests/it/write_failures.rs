//! A database that refuses writes for a while: batches streamed meanwhile are published in order and written afterwards.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ahp_types::actions::{SessionTitleChangedAction, StateAction};
use hostler_store::{ActionEntry, Batch, BatchDurability, PublishedAction, Publisher, Store, StoreOptions};

const SESSION: &str = "claude:/1";

/// Enough that the writer fails several times while they are submitted.
const STREAMED: usize = 10_000;

#[derive(Default)]
struct RecordingPublisher(Mutex<Vec<u64>>);

impl Publisher for RecordingPublisher {
    fn publish(&self, item: &Arc<PublishedAction>) {
        self.0.lock().unwrap().push(item.seq);
    }
}

fn batch(durability: BatchDurability) -> Batch {
    let action = StateAction::SessionTitleChanged(SessionTitleChangedAction { title: "x".to_owned() });
    Batch::new(Some(SESSION.into()), durability).entry(ActionEntry::new(SESSION.into(), action).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_published_during_a_failed_write_are_not_reused() {
    let dir = tempfile::tempdir().unwrap();
    let seen = Arc::new(RecordingPublisher::default());
    let publisher: Arc<dyn Publisher> = Arc::<RecordingPublisher>::clone(&seen);
    let store = Store::open(&StoreOptions::new(dir.path()), publisher).unwrap();
    store.sequencer().commit(batch(BatchDurability::Durable)).await.unwrap();

    let other = rusqlite::Connection::open(dir.path().join("hostler.db")).unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON journal BEGIN SELECT RAISE(ABORT, 'refused'); END";
    other.execute_batch(refuse).unwrap();
    for _ in 0..STREAMED {
        store.sequencer().submit(batch(BatchDurability::Stream)).await.unwrap();
        // With pauses, so that some are submitted exactly during a failing write.
        std::thread::sleep(Duration::from_micros(20));
    }
    assert!(store.sequencer().commit(batch(BatchDurability::Durable)).await.is_err(), "nothing can be written");
    other.execute_batch("DROP TRIGGER refuse").unwrap();

    store.sequencer().commit(batch(BatchDurability::Durable)).await.unwrap();
    let numbers = seen.0.lock().unwrap().clone();
    assert_eq!(numbers.len(), STREAMED + 2);
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "a number was published twice");
    store.sequencer().stop().await;
    assert_eq!(store.load_session(SESSION).await.unwrap().journal.len(), STREAMED + 2, "streamed batches are written");
}
