//! Actions per second through the sequencer and its journal, compared with SQLite alone.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark prints its results")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ahp_types::StateAction;
use ahp_types::actions::ChatDeltaAction;
use hostler_store::{ActionEntry, Batch, BatchDurability, PublishedAction, Publisher, Store, StoreOptions};
use hostler_testkit::benchmark_table::{BenchmarkRow, BenchmarkTable, median, percentile};
use rusqlite::{Connection, params};

const STREAMED: usize = 400_000;
const ACCEPTED: usize = 2_000;

struct NoSubscribers;

impl Publisher for NoSubscribers {
    fn publish(&self, _item: &Arc<PublishedAction>) {}
}

fn entry() -> ActionEntry {
    let (turn_id, part_id, content) = ("t".to_owned(), "p1".to_owned(), "some text of an answer ".to_owned());
    let action = StateAction::ChatDelta(ChatDeltaAction { turn_id, part_id, content, meta: None });
    ActionEntry::new("ahp-chat://default/Y2xhdWRlOi8x".into(), action).expect("JSON")
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(&StoreOptions::new(dir.path()), Arc::new(NoSubscribers)).expect("a store");
    let sequencer = store.sequencer();

    let started = Instant::now();
    for _ in 0..STREAMED {
        let batch = Batch::new(Some("claude:/1".into()), BatchDurability::Stream).entry(entry());
        sequencer.submit(batch).await.expect("the batch is accepted");
    }
    let last = Batch::new(Some("claude:/1".into()), BatchDurability::Durable).entry(entry());
    sequencer.commit(last).await.expect("committed");
    let streamed = rate(STREAMED, started.elapsed());

    let mut waits = Vec::new();
    for _ in 0..ACCEPTED {
        let started = Instant::now();
        let batch = Batch::new(Some("claude:/1".into()), BatchDurability::Durable).entry(entry());
        sequencer.commit(batch).await.expect("committed");
        waits.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    sequencer.stop().await;

    let (alone, floor) = sqlite();
    let beside = |value| Some(("SQLite alone, batched".to_owned(), value));
    let single = Some(("SQLite alone, one by one".to_owned(), floor));
    let rows = vec![
        BenchmarkRow {
            metric: "streamed actions (at least 200 is the goal)".into(),
            unit: "k/s",
            hostler: streamed,
            baseline: beside(alone),
            target: None,
        },
        BenchmarkRow {
            metric: "acceptance durable, p50".into(),
            unit: "ms",
            hostler: median(&waits),
            baseline: single,
            target: Some(10.0),
        },
        BenchmarkRow {
            metric: "acceptance durable, p99".into(),
            unit: "ms",
            hostler: percentile(&waits, 99),
            baseline: None,
            target: None,
        },
    ];
    println!("{}", BenchmarkTable { rows });
}

fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64() / 1000.0
}

/// The baseline: the same rows into the same kind of table, 4096 per transaction; and one per transaction, in ms.
fn sqlite() -> (f64, f64) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut db = Connection::open(dir.path().join("floor.db")).expect("a database");
    db.pragma_update(None, "journal_mode", "WAL").expect("WAL");
    db.pragma_update(None, "synchronous", "NORMAL").expect("NORMAL");
    let table = "CREATE TABLE journal (seq INTEGER PRIMARY KEY, channel INTEGER NOT NULL, kind INTEGER NOT NULL, body TEXT NOT NULL, client TEXT, client_seq INTEGER);
                 CREATE INDEX journal_of_channel ON journal (channel, seq);";
    db.execute_batch(table).expect("a table");
    let body = serde_json::to_string(entry().action()).expect("JSON");
    let mut insert = |count: usize| {
        let tx = db.transaction().expect("a transaction");
        {
            let mut statement =
                tx.prepare_cached("INSERT INTO journal (channel, kind, body) VALUES (1, 0, ?1)").expect("a statement");
            for _ in 0..count {
                statement.execute(params![body]).expect("a row");
            }
        }
        tx.commit().expect("committed");
    };
    let started = Instant::now();
    for _ in 0..STREAMED / 4096 {
        insert(4096);
    }
    let batched = rate(STREAMED / 4096 * 4096, started.elapsed());
    let mut waits = Vec::new();
    for _ in 0..ACCEPTED {
        let started = Instant::now();
        insert(1);
        waits.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    (batched, median(&waits))
}
