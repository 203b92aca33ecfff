//! Listing thousands of sessions, stored and external: right after the start, later, and by pages.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark prints its results")]

#[path = "list_sessions/external_sessions.rs"]
mod external_sessions;
#[path = "../../hostler-claude/benches/support/generated_transcripts.rs"]
mod generated_transcripts;
#[path = "support/page_cache.rs"]
mod page_cache;
#[path = "../../hostler-claude/benches/support/sdk.rs"]
mod sdk;
#[path = "support/stored_history.rs"]
mod stored_history;
#[path = "support/mod.rs"]
mod support;

use std::path::Path;
use std::time::Instant;

use hostler_testkit::benchmark_table::{BenchmarkRow, BenchmarkTable, median};
use hostler_testkit::raw_client::RawClient;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use stored_history::{HistoryGenerator, number_option, peak_memory_mib};
use support::{BenchmarkHome, elapsed_ms, resident_memory_mib};

const LATER_REQUESTS: usize = 30;
const LIST_PAGE_SIZE: usize = 200;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let sessions = number_option("--sessions", 10_000);
    let home = BenchmarkHome::new();
    let empty = home.serve(&["--upstream", "scripted"]);
    drop(RawClient::connect_and_initialize(&empty.url).await);
    let idle = resident_memory_mib(empty.pid);
    drop(empty);
    println!("{}", stored(&home, sessions, idle).await);
    println!("{}", external_sessions::external_sessions_table(sessions, idle).await);
}

/// `idle` is the memory of an empty host.
async fn stored(home: &BenchmarkHome, sessions: usize, idle: f64) -> BenchmarkTable {
    let state = home.path("state").join("hostler");
    let mut past = HistoryGenerator::start(&state, &home.path("work")).await;
    for number in 0..sessions {
        past.add_session(&format!("claude:/00000000-0000-4000-8000-{number:012}"), 1, 500).await;
    }
    past.finish().await;

    let host = home.serve(&["--upstream", "scripted"]);
    let mut raw = RawClient::connect_and_initialize(&host.url).await;
    let started = elapsed_ms(host.started, Instant::now());
    let mut bytes = 0;
    let mut whole = async |raw: &mut RawClient| {
        let begun = Instant::now();
        raw.call_streaming("listSessions", json!({}), |text| bytes = text.len()).await;
        elapsed_ms(begun, Instant::now())
    };
    let first = whole(&mut raw).await;
    let memory = resident_memory_mib(host.pid) - idle;
    let mut later = Vec::new();
    for _ in 0..LATER_REQUESTS {
        later.push(whole(&mut raw).await);
    }

    let (mut pages, mut listed, mut params) = (Vec::new(), 0, json!({"limit": LIST_PAGE_SIZE}));
    loop {
        let mut page = String::new();
        let begun = Instant::now();
        raw.call_streaming("listSessions", params.clone(), |text| page = text.to_owned()).await;
        pages.push(elapsed_ms(begun, Instant::now()));
        let page: Value = serde_json::from_str(&page).expect("JSON");
        listed += page["result"]["items"].as_array().expect("items").len();
        match page["result"].get("nextCursor") {
            Some(cursor) => params["cursor"] = cursor.clone(),
            None => break,
        }
    }
    assert_eq!(listed, sessions);
    let mut pings = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        raw.call_streaming("ping", json!({}), |_| ()).await;
        pings.push(elapsed_ms(begun, Instant::now()));
    }

    let floor = alone(&state, bytes);
    let sqlite = |value| Some(("SQLite alone".to_owned(), value));
    let row = |what: String, unit, hostler, beside, target| BenchmarkRow {
        metric: what,
        unit,
        hostler,
        baseline: beside,
        target,
    };
    let rows = vec![
        row(format!("start with {sessions} sessions to first initialize answer"), "ms", started, sqlite(floor), None),
        row(format!("all of them, first call ({:.1} MB)", bytes as f64 / 1e6), "ms", first, sqlite(floor), Some(300.0)),
        row("all of them, later calls, p50".into(), "ms", median(&later), sqlite(floor), Some(10.0)),
        row(
            format!("a page of {LIST_PAGE_SIZE}, p50"),
            "ms",
            median(&pages),
            Some(("ping".to_owned(), median(&pings))),
            None,
        ),
        row("memory beyond an empty host after the first call".into(), "MiB", memory, None, Some(60.0)),
        row(
            "highest memory of all".into(),
            "MiB",
            peak_memory_mib(host.pid),
            Some(("empty host".to_owned(), idle)),
            None,
        ),
    ];
    BenchmarkTable { rows }
}

/// Reads and assembles the same rows without a host.
fn alone(state: &Path, expected: usize) -> f64 {
    let begun = Instant::now();
    let db = Connection::open_with_flags(state.join("hostler.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).expect("a file");
    let query = "SELECT summary FROM sessions WHERE listed ORDER BY json_extract(summary, '$.modifiedAt') DESC";
    let mut statement = db.prepare(query).expect("a query");
    let mut rows = statement.query([]).expect("rows");
    let mut text = String::new();
    while let Some(row) = rows.next().expect("a row") {
        text.push_str(row.get_ref(0).expect("a column").as_str().expect("text"));
        text.push(',');
    }
    let taken = elapsed_ms(begun, Instant::now());
    assert!(text.len() + 1_000 > expected, "{} of {expected}", text.len());
    taken
}
