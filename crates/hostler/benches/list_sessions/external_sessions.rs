//! Listing external sessions, beside the official SDK on the same directory; and how soon a title that another
//! process writes is published.
//!
//! The host's times start with its process, which has no index yet; the SDK's are those of its call alone. Cold
//! files have been evicted from the page cache (`posix_fadvise`), warm files were just read.

use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use hostler_testkit::benchmark_table::{BenchmarkRow, BenchmarkTable, median, percentile};
use hostler_testkit::raw_client::RawClient;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::generated_transcripts::{BUILDS, nothing, written};
use crate::page_cache::evict_page_cache;
use crate::sdk::{Sdk, Theirs};
use crate::stored_history::peak_memory_mib;
use crate::support::{BenchmarkHome, BenchmarkHost, elapsed_ms, resident_memory_mib};

const ROUNDS: usize = 5;
const LATER_REQUESTS: usize = 30;
const RENAME_COUNT: usize = 20;
const PROJECT_COUNT: usize = 50;

/// `idle` is the memory of an empty host.
pub(crate) async fn external_sessions_table(sessions: usize, idle: f64) -> BenchmarkTable {
    let home = BenchmarkHome::new();
    let records = home.path("claude");
    let files: Vec<_> = (0..sessions)
        .map(|number| written(&records, BUILDS[number % 2], 40 * 1024, number % PROJECT_COUNT, &mut nothing))
        .collect();
    let sdk = Sdk::given();
    let theirs = |rounds| sdk.as_ref().map(|sdk| sdk.list(&records, rounds));
    evict_page_cache(&records);
    let cold_theirs = theirs(1);
    let warm_theirs = theirs(ROUNDS);

    evict_page_cache(&records);
    let (host, _, cold) = listed(&home, sessions).await;
    drop(host);
    let mut warm = Vec::new();
    for _ in 1..ROUNDS {
        let (host, _, taken) = listed(&home, sessions).await;
        drop(host);
        warm.push(taken);
    }
    let (host, mut raw, taken) = listed(&home, sessions).await;
    warm.push(taken);
    let memory = resident_memory_mib(host.pid) - idle;
    // The host also indexes for search, which another benchmark measures.
    raw.call("hostler/search", json!({"query": "question", "waitForIndex": true})).await.expect("an answer");
    let mut later = Vec::new();
    for _ in 0..LATER_REQUESTS {
        let begun = Instant::now();
        raw.call_streaming("listSessions", json!({}), |_| ()).await;
        later.push(elapsed_ms(begun, Instant::now()));
    }
    let (id, path) = files.last().expect("a session");
    let names = named(&mut raw, *id, path).await;

    let call = |theirs: Option<Theirs>| theirs.map(|theirs| ("listSessions".to_owned(), theirs.ms));
    let space = |theirs: Option<Theirs>| theirs.map(|theirs| ("listSessions".to_owned(), theirs.peak));
    let row = |what: &str, unit, hostler, beside, target| BenchmarkRow {
        metric: what.to_owned(),
        unit,
        hostler,
        baseline: beside,
        target,
    };
    let start = format!("{sessions} found sessions, from the start of the host to all of them, cold files");
    BenchmarkTable {
        rows: vec![
            row(&start, "ms", cold, call(cold_theirs), None),
            row("the same, warm files, p50", "ms", median(&warm), call(warm_theirs), Some(300.0)),
            row("all of them, later calls, p50", "ms", median(&later), call(warm_theirs), Some(10.0)),
            row("memory beyond an empty host after the first call", "MiB", memory, space(cold_theirs), Some(60.0)),
            row("peak memory, all transcripts read", "MiB", peak_memory_mib(host.pid), space(warm_theirs), None),
            row(
                "title set by another process, until a client receives it, p50",
                "ms",
                median(&names),
                None,
                Some(1000.0),
            ),
            row("the same, the slowest", "ms", percentile(&names, 100), None, Some(1000.0)),
        ],
    }
}

/// Returns a host without an index, a client that has received the whole list, and the time that this took.
async fn listed(home: &BenchmarkHome, sessions: usize) -> (BenchmarkHost, RawClient, f64) {
    let _there_may_be_none = std::fs::remove_dir_all(home.path("state"));
    let host = home.serve(&["--upstream", "scripted"]);
    let mut raw = RawClient::connect_and_initialize(&host.url).await;
    let mut list = String::new();
    raw.call_streaming("listSessions", json!({}), |text| list = text.to_owned()).await;
    let taken = elapsed_ms(host.started, Instant::now());
    let list: Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list["result"]["items"].as_array().map(Vec::len), Some(sessions));
    (host, raw, taken)
}

/// Measures how long a title that is written to the transcript takes to reach a client.
async fn named(raw: &mut RawClient, id: Uuid, path: &Path) -> Vec<f64> {
    raw.call("subscribe", json!({"channel": "ahp-root://"})).await.expect("a snapshot");
    let mut times = Vec::new();
    for number in 0..RENAME_COUNT {
        let title = format!("name {number}");
        // Same field order as the agent: the type comes first.
        let record = format!("{{\"type\":\"custom-title\",\"customTitle\":\"{title}\",\"sessionId\":\"{id}\"}}\n");
        let mut file = std::fs::File::options().append(true).open(path).expect("a transcript");
        let begun = Instant::now();
        file.write_all(record.as_bytes()).expect("room on the disk");
        loop {
            let message = raw.receive().await.expect("the host is alive");
            if message["method"] == "root/sessionSummaryChanged"
                && message["params"]["changes"]["title"] == title.as_str()
            {
                break;
            }
        }
        times.push(elapsed_ms(begun, Instant::now()));
    }
    times
}
