//! The sequencer over many runs that end by SIGKILL: one order, nothing acknowledged is lost, no number is used twice.
//!
//! Each run is a child process (this test binary again) that submits random batches from several tasks and prints what
//! was published. The parent kills it at a random point and checks the remaining database.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ahp_types::actions::{SessionTitleChangedAction, StateAction};
use hostler_store::{
    ActionEntry, Batch, BatchDurability, Blob, BlobOptions, HostRecord, JournalRow, PublishedAction, Publisher, Store,
    StoreOptions,
};

/// Number of runs, each of which ends with a kill.
const RUNS: u64 = 12;

/// Number of tasks that write concurrently.
const TASKS: u64 = 4;

/// Maximum number of envelopes that a run publishes before it is killed.
const MAX_ENVELOPES: u64 = 3_000;

/// Environment variables of a child: the store's directory and the number of the run.
const DIR: &str = "HOSTLER_TEST_CRASH_DIR";
const RUN: &str = "HOSTLER_TEST_CRASH_RUN";

const SESSION: &str = "claude:/1";

/// Pseudorandom numbers, the same in each run of the test.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Contents of a batch, derived from its name alone (`run.task.n`) so that the parent knows them too.
struct Plan {
    durability: BatchDurability,
    records: u64,
    entries: u64,
}

impl Plan {
    fn of(run: u64, task: u64, n: u64) -> Self {
        let mut random = Random(run << 40 | task << 32 | n);
        random.below(2);
        let durability = match random.below(10) {
            0 | 1 => BatchDurability::Durable,
            2 => BatchDurability::Memory,
            _ => BatchDurability::Stream,
        };
        Self { durability, records: random.below(3), entries: 1 + random.below(4) }
    }

    fn batch(&self, name: &str) -> Batch {
        let mut batch = Batch::new(Some(SESSION.into()), self.durability);
        if self.durability == BatchDurability::Durable {
            batch = batch.blobs([contents(name)]);
        }
        for index in 0..self.entries {
            let title = self.title(name, index);
            let action = StateAction::SessionTitleChanged(SessionTitleChangedAction { title });
            batch = batch.entry(ActionEntry::new(SESSION.into(), action).unwrap());
        }
        for index in 0..self.records {
            let json = serde_json::to_string(&format!("{name}/r{index}")).unwrap();
            batch = batch.record(HostRecord { channel: SESSION.into(), json });
        }
        batch
    }

    /// The rows that the journal must contain of it, in order.
    fn rows(&self, name: &str) -> Vec<String> {
        let records = (0..self.records).map(|index| format!("{name}/r{index}"));
        records.chain((0..self.entries).map(|index| self.title(name, index))).collect()
    }

    /// Titles of durable batches refer to a blob.
    fn title(&self, name: &str, index: u64) -> String {
        match self.durability {
            BatchDurability::Durable => format!("{name}/a{index}/{}", contents(name).hash()),
            _ => format!("{name}/a{index}"),
        }
    }
}

/// The blob of a durable batch.
fn contents(name: &str) -> Blob {
    Blob::new("text/plain", name.as_bytes())
}

/// A store that collects unreferenced blobs continuously.
fn open(dir: impl Into<PathBuf>) -> Store {
    let blobs = BlobOptions {
        collection_interval: Duration::from_millis(1),
        min_collection_pause: Duration::ZERO,
        ..BlobOptions::default()
    };
    Store::open(&StoreOptions { blobs, ..StoreOptions::new(dir) }, Arc::new(PrintingPublisher)).unwrap()
}

/// Prints a line that survives the process: it is in the pipe when this returns.
fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    // The parent may have closed the pipe and is about to kill this process.
    let _ = writeln!(out, "\n{line}").and_then(|()| out.flush());
}

struct PrintingPublisher;

impl Publisher for PrintingPublisher {
    fn publish(&self, item: &Arc<PublishedAction>) {
        let StateAction::SessionTitleChanged(action) = &*item.action else { panic!("another action") };
        print_line(&format!("published {} {}", item.seq, action.title));
    }
}

#[test]
#[ignore = "a run of the store that the test below starts and kills"]
fn run_until_killed() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let run: u64 = std::env::var(RUN).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(open(PathBuf::from(dir)));
        let tasks: Vec<_> = (0..TASKS).map(|task| tokio::spawn(write(Arc::clone(&store), run, task))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Submits batches in an endless loop; awaits durable ones only.
async fn write(store: Arc<Store>, run: u64, task: u64) {
    for n in 0_u64.. {
        let (plan, name) = (Plan::of(run, task, n), format!("{run}.{task}.{n}"));
        let batch = plan.batch(&name);
        if plan.durability == BatchDurability::Durable {
            store.sequencer().commit(batch).await.unwrap();
            print_line(&format!("committed {name}"));
        } else {
            store.sequencer().submit(batch).await.unwrap();
        }
    }
}

/// What the parent received from all runs.
#[derive(Default)]
struct Received {
    /// In the order of arrival: run, sequence number, title.
    published: Vec<(u64, u64, String)>,
    /// The durable batches whose commit was acknowledged.
    committed: Vec<String>,
}

impl Received {
    /// Starts a run, kills it after `envelopes` envelopes, and reads its remaining output.
    fn run(&mut self, dir: &Path, run: u64, envelopes: u64) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "crash_recovery::run_until_killed", "--nocapture"])
            .env(DIR, dir)
            .env(RUN, run.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let (mut line, mut count) = (Vec::new(), 0);
        while lines.read_until(b'\n', &mut line).unwrap() > 0 {
            let text = String::from_utf8(std::mem::take(&mut line)).unwrap();
            // The kill may have truncated the last line.
            let Some(text) = text.strip_suffix('\n') else { break };
            count += u64::from(self.receive(run, text));
            if count == envelopes {
                child.kill().unwrap();
            }
        }
        let status = child.wait().unwrap();
        assert!(count >= envelopes && status.code().is_none(), "the run ended by itself after {count}: {status}");
    }

    /// Whether the line was an envelope.
    fn receive(&mut self, run: u64, line: &str) -> bool {
        let mut parts = line.split(' ');
        match (parts.next(), parts.next(), parts.next()) {
            (Some("published"), Some(seq), Some(title)) => {
                self.published.push((run, seq.parse().unwrap(), title.to_owned()));
                true
            }
            (Some("committed"), Some(name), None) => {
                self.committed.push(name.to_owned());
                false
            }
            // The test harness prints lines too.
            _ => false,
        }
    }
}

/// The journal as numbers and names, in its order. Also checks the blobs of the acknowledged batches.
fn read_journal(dir: &Path, committed: &[String]) -> Vec<(u64, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rows = runtime.block_on(async {
        let store = open(dir);
        for name in committed {
            let blob = contents(name);
            assert_eq!(store.blob(blob.hash()).await.unwrap(), Some(blob), "{name} was acknowledged");
        }
        let rows = store.load_session(SESSION).await.unwrap().journal;
        store.sequencer().stop().await;
        rows
    });
    let name = |row: JournalRow| match row {
        JournalRow::Record { seq, json, .. } => (seq, serde_json::from_str(&json).unwrap()),
        JournalRow::Action { seq, json, .. } => match serde_json::from_str(&json).unwrap() {
            StateAction::SessionTitleChanged(action) => (seq, action.title),
            other => panic!("another action: {other:?}"),
        },
    };
    rows.into_iter().map(name).collect()
}

fn plan(batch: &str) -> Plan {
    let mut parts = batch.split('.').map(|part| part.parse().unwrap());
    Plan::of(parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap())
}

#[test]
fn numbers_grow_over_crashes_and_acknowledged_batches_survive() {
    let dir = tempfile::tempdir().unwrap();
    let (mut received, mut random) = (Received::default(), Random(20_261_115));
    for run in 0..RUNS {
        received.run(dir.path(), run, 1 + random.below(MAX_ENVELOPES));
    }
    let journal = read_journal(dir.path(), &received.committed);

    // Publication follows the numbers, and no number is ever assigned twice, to an envelope or to a host record.
    let numbers = |pair: &[(u64, u64, String)]| pair[0].1 < pair[1].1;
    assert!(received.published.windows(2).all(numbers), "published in the order of numbers, over all runs");
    let names: HashMap<u64, &str> = received.published.iter().map(|(_, seq, title)| (*seq, title.as_str())).collect();
    for (seq, name) in &journal {
        assert!(names.get(seq).is_none_or(|published| published == name), "{seq} is {name} and {:?}", names[seq]);
    }

    // Every batch is stored completely, records before actions, under consecutive numbers; or not at all.
    assert!(journal.windows(2).all(|pair| pair[0].0 < pair[1].0), "the journal is in the order of numbers");
    let mut batches: BTreeMap<&str, Vec<&(u64, String)>> = BTreeMap::new();
    for row in &journal {
        batches.entry(row.1.split_once('/').unwrap().0).or_default().push(row);
    }
    for (batch, rows) in &batches {
        let plan = plan(batch);
        assert!(plan.durability != BatchDurability::Memory, "{batch} was written");
        assert_eq!(rows.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>(), plan.rows(batch));
        assert!(rows.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0), "{batch} has gaps: {rows:?}");
    }

    // Acknowledged batches survived; and stored ones have no gap: only the end of a run's stream may be missing.
    assert!(!received.committed.is_empty());
    for batch in &received.committed {
        assert!(batches.contains_key(batch.as_str()), "{batch} was acknowledged and is lost");
    }
    let written: BTreeSet<u64> = journal.iter().map(|(seq, _)| *seq).collect();
    for run in 0..RUNS {
        let of_run = |name: &str| name.split('.').next().unwrap() == run.to_string();
        let Some((last, _)) = journal.iter().rfind(|(_, name)| of_run(name)) else { continue };
        for (_, seq, title) in received.published.iter().filter(|(of, seq, _)| *of == run && seq <= last) {
            let is_written = plan(title.split_once('/').unwrap().0).durability != BatchDurability::Memory;
            assert_eq!(written.contains(seq), is_written, "{title} with number {seq}, before the last written {last}");
        }
    }
}
