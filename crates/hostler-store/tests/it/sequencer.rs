//! Order, durability and sequence numbers of the sequencer, on a real database file.

use std::path::Path;
use std::sync::{Arc, Mutex};

use ahp_types::ActionOrigin;
use ahp_types::actions::{SessionTitleChangedAction, StateAction};
use hostler_store::{
    ActionEntry, Batch, BatchDurability, CatalogChange, HostRecord, JournalRow, PublishedAction, PublishedRejection,
    Publisher, Store, StoreOptions,
};

#[derive(Default)]
struct RecordingPublisher(Mutex<Vec<(u64, String)>>);

impl Publisher for RecordingPublisher {
    fn publish(&self, item: &Arc<PublishedAction>) {
        self.0.lock().unwrap().push((item.seq, title(&item.action)));
    }
}

impl RecordingPublisher {
    fn titles(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(_, title)| title.clone()).collect()
    }
    fn numbers(&self) -> Vec<u64> {
        self.0.lock().unwrap().iter().map(|(seq, _)| *seq).collect()
    }
}

fn title(action: &StateAction) -> String {
    match action {
        StateAction::SessionTitleChanged(action) => action.title.clone(),
        other => format!("{other:?}"),
    }
}

fn entry(text: &str) -> ActionEntry {
    let action = StateAction::SessionTitleChanged(SessionTitleChangedAction { title: text.to_owned() });
    ActionEntry::new("claude:/1".into(), action).unwrap()
}

fn batch(durability: BatchDurability, text: &str) -> Batch {
    Batch::new(Some("claude:/1".into()), durability).entry(entry(text))
}

fn open(dir: &Path) -> (Store, Arc<RecordingPublisher>) {
    let seen = Arc::new(RecordingPublisher::default());
    let publisher: Arc<dyn Publisher> = Arc::<RecordingPublisher>::clone(&seen);
    (Store::open(&StoreOptions::new(dir), publisher).unwrap(), seen)
}

#[tokio::test]
async fn publication_follows_the_order_of_submission_for_every_durability() {
    let dir = tempfile::tempdir().unwrap();
    let (store, seen) = open(dir.path());
    let kinds = [BatchDurability::Durable, BatchDurability::Stream, BatchDurability::Memory];
    let mut expected = Vec::new();
    for n in 0..300 {
        let text = n.to_string();
        store.sequencer().submit(batch(kinds[n % 3], &text)).await.unwrap();
        expected.push(text);
    }
    store.sequencer().stop().await;
    assert_eq!(seen.titles(), expected);
    assert!(seen.numbers().windows(2).all(|pair| pair[0] < pair[1]), "numbers only grow");
}

#[tokio::test]
async fn a_durable_batch_is_readable_when_it_is_published() {
    let dir = tempfile::tempdir().unwrap();
    let (store, seen) = open(dir.path());
    store.sequencer().commit(batch(BatchDurability::Durable, "title")).await.unwrap();
    assert_eq!(seen.titles(), ["title"]);
    let rows = store.load_session("claude:/1").await.unwrap().journal;
    assert_eq!(rows.len(), 1, "committed before it was published");
    store.sequencer().stop().await;
}

#[tokio::test]
async fn stream_batches_are_published_by_submit_and_saved_by_stop() {
    let dir = tempfile::tempdir().unwrap();
    let (store, seen) = open(dir.path());
    store.sequencer().submit(batch(BatchDurability::Stream, "delta")).await.unwrap();
    assert_eq!(seen.titles(), ["delta"]);
    store.sequencer().stop().await;
    drop(store);
    let (store, _) = open(dir.path());
    assert_eq!(store.load_session("claude:/1").await.unwrap().journal.len(), 1);
    store.sequencer().stop().await;
}

#[tokio::test]
async fn memory_batches_and_rejections_are_numbered_but_never_written() {
    let dir = tempfile::tempdir().unwrap();
    let (store, seen) = open(dir.path());
    store.sequencer().submit(batch(BatchDurability::Memory, "provisional")).await.unwrap();
    let rejection = PublishedRejection { code: "queueFull", message: "because".to_owned() };
    let rejected = Batch::new(None, BatchDurability::Memory).entry(entry("no").with_rejection(rejection));
    store.sequencer().submit(rejected).await.unwrap();
    store.sequencer().stop().await;
    assert_eq!(seen.numbers().len(), 2);
    let (store, _) = open(dir.path());
    assert_eq!(store.load_session("claude:/1").await.unwrap().journal, []);
    store.sequencer().stop().await;
}

#[tokio::test]
async fn numbers_grow_across_restarts_even_when_nothing_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = 0;
    for _ in 0..3 {
        let (store, seen) = open(dir.path());
        store.sequencer().submit(batch(BatchDurability::Memory, "x")).await.unwrap();
        let number = seen.numbers()[0];
        assert!(number > last);
        last = number;
        store.sequencer().stop().await;
    }
}

#[tokio::test]
async fn records_of_a_batch_are_stored_before_its_actions_with_their_origin() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    let origin = ActionOrigin { client_id: "me".to_owned(), client_seq: 7 };
    let batch = Batch::new(Some("claude:/1".into()), BatchDurability::Durable)
        .entry(entry("turn").with_origin(Some(origin.clone())))
        .record(HostRecord { channel: "claude:/1".into(), json: "{\"fact\":1}".to_owned() });
    store.sequencer().commit(batch).await.unwrap();
    let rows = store.load_session("claude:/1").await.unwrap().journal;
    assert!(matches!(&rows[0], JournalRow::Record { json, .. } if json == "{\"fact\":1}"));
    assert!(matches!(&rows[1], JournalRow::Action { origin: Some(o), .. } if *o == origin));
    store.sequencer().stop().await;
}

#[tokio::test]
async fn after_publish_runs_before_later_batches() {
    let dir = tempfile::tempdir().unwrap();
    let (store, seen) = open(dir.path());
    let at = Arc::new(Mutex::new(Vec::new()));
    for n in 0..20 {
        let (at, seen) = (Arc::clone(&at), Arc::clone(&seen));
        let batch = batch(if n % 2 == 0 { BatchDurability::Durable } else { BatchDurability::Stream }, &n.to_string())
            .after_publish(move |seq| at.lock().unwrap().push((seq, seen.numbers().len())));
        store.sequencer().submit(batch).await.unwrap();
    }
    store.sequencer().stop().await;
    let numbers = seen.numbers();
    for (index, (seq, published)) in at.lock().unwrap().iter().enumerate() {
        assert_eq!((*seq, *published), (numbers[index], index + 1));
    }
}

#[tokio::test]
async fn a_removed_session_leaves_no_row() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    let session: Arc<str> = "claude:/1".into();
    let put = CatalogChange::Put { session: Arc::clone(&session), listed: true, summary: "{}".to_owned() };
    store.sequencer().commit(batch(BatchDurability::Durable, "a").catalog(put)).await.unwrap();
    assert_eq!(store.sessions().await.unwrap().len(), 1);
    let remove = Batch::new(Some(Arc::clone(&session)), BatchDurability::Durable)
        .catalog(CatalogChange::Remove { session: Arc::clone(&session) });
    store.sequencer().commit(remove).await.unwrap();
    assert_eq!(store.sessions().await.unwrap(), []);
    assert_eq!(store.load_session("claude:/1").await.unwrap().journal, []);
    // The channel's id was removed from the cache: a session with the same URI starts empty.
    store.sequencer().commit(batch(BatchDurability::Durable, "again")).await.unwrap();
    assert_eq!(store.load_session("claude:/1").await.unwrap().journal.len(), 1);
    store.sequencer().stop().await;
}

#[tokio::test]
async fn batches_are_refused_after_stop() {
    let dir = tempfile::tempdir().unwrap();
    let (store, seen) = open(dir.path());
    store.sequencer().stop().await;
    store.sequencer().stop().await;
    assert!(store.sequencer().commit(batch(BatchDurability::Durable, "late")).await.is_err());
    assert_eq!(seen.titles(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_batches_are_all_written_in_order_and_reuse_no_number() {
    let dir = tempfile::tempdir().unwrap();
    let (store, seen) = open(dir.path());
    let mut tasks = Vec::new();
    for task in 0..8 {
        let sequencer = store.sequencer().clone();
        tasks.push(tokio::spawn(async move {
            for n in 0..500 {
                let durability = if n % 50 == 0 { BatchDurability::Durable } else { BatchDurability::Stream };
                sequencer.submit(batch(durability, &format!("{task}/{n}"))).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    store.sequencer().stop().await;
    let titles = seen.titles();
    for task in 0..8 {
        let mine: Vec<_> = titles.iter().filter(|t| t.starts_with(&format!("{task}/"))).cloned().collect();
        let expected: Vec<_> = (0..500).map(|n| format!("{task}/{n}")).collect();
        assert_eq!(mine, expected);
    }
    assert!(seen.numbers().windows(2).all(|pair| pair[0] < pair[1]));
    drop(store);
    let (store, _) = open(dir.path());
    assert_eq!(store.load_session("claude:/1").await.unwrap().journal.len(), 4000);
    store.sequencer().stop().await;
}
