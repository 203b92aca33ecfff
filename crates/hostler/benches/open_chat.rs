//! Chat with thousands of turns: its latest turns, its pages, and all of it at once. With `--mb`, a large external
//! session.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark prints its results")]

#[path = "open_chat/external_session.rs"]
mod external_session;
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
use rusqlite::{Connection, OpenFlags, params};
use serde_json::json;
use stored_history::{HistoryGenerator, number_option, peak_memory_mib};
use support::{BenchmarkHome, elapsed_ms, resident_memory_mib};

const SESSION: &str = "claude:/00000000-0000-4000-8000-000000000001";
const VIEW_TURNS: usize = 50;
const REPEAT_COUNT: usize = 30;
const ANSWER_BYTES: usize = 2_000;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let table = match number_option("--mb", 0) {
        0 => stored(number_option("--turns", 20_000)).await,
        megabytes => external_session::external_session_table(megabytes).await,
    };
    println!("{table}");
}

async fn stored(turns: usize) -> BenchmarkTable {
    let home = BenchmarkHome::new();
    let state = home.path("state").join("hostler");
    let mut past = HistoryGenerator::start(&state, &home.path("work")).await;
    past.add_session(SESSION, turns, ANSWER_BYTES).await;
    past.finish().await;

    let host = home.serve(&["--upstream", "scripted"]);
    let mut raw = RawClient::connect_and_initialize(&host.url).await;
    let idle = resident_memory_mib(host.pid);
    let chat = hostler_engine::default_chat_uri(SESSION);
    let view = json!({"channel": chat, "view": {"turns": VIEW_TURNS}});
    let mut bytes = 0;
    let begun = Instant::now();
    raw.call_streaming("subscribe", view.clone(), |text| bytes = text.len()).await;
    let (first, window) = (elapsed_ms(begun, Instant::now()), bytes);
    let grown = resident_memory_mib(host.pid) - idle;
    let mut again = Vec::new();
    for _ in 0..REPEAT_COUNT {
        let begun = Instant::now();
        raw.call_streaming("subscribe", view.clone(), |_| ()).await;
        again.push(elapsed_ms(begun, Instant::now()));
    }

    let (mut pages, mut more) = (Vec::new(), true);
    let begun = Instant::now();
    while std::mem::take(&mut more) {
        let begun = Instant::now();
        raw.call_streaming("fetchTurns", json!({"channel": chat}), |text| {
            more |= text.contains(r#""turnsNextCursor":"#)
        })
        .await;
        pages.push(elapsed_ms(begun, Instant::now()));
    }
    let fetched = elapsed_ms(begun, Instant::now());
    let paged = resident_memory_mib(host.pid) - idle;

    let begun = Instant::now();
    raw.call_streaming("subscribe", json!({"channel": chat}), |text| bytes = text.len()).await;
    let whole = elapsed_ms(begun, Instant::now());
    let (after, highest) = (resident_memory_mib(host.pid) - idle, peak_memory_mib(host.pid) - idle);
    let mut pings = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        raw.call_streaming("ping", json!({}), |_| ()).await;
        pings.push(elapsed_ms(begun, Instant::now()));
    }

    let sqlite = |count| Some(("SQLite alone".to_owned(), alone(&state, &chat, turns, count)));
    let row = |what: String, unit, hostler, beside, target| BenchmarkRow {
        metric: what,
        unit,
        hostler,
        baseline: beside,
        target,
    };
    let mb = |bytes: usize| bytes as f64 / 1e6;
    let rows = vec![
        row(
            format!("the last {VIEW_TURNS} of {turns} turns, first time ({:.2} MB)", mb(window)),
            "ms",
            first,
            sqlite(VIEW_TURNS),
            Some(100.0),
        ),
        row("the same again, p50".into(), "ms", median(&again), sqlite(VIEW_TURNS), None),
        row("memory after it".into(), "MiB", grown, None, Some(30.0)),
        row(format!("all older turns in {} pages", pages.len()), "ms", fetched, sqlite(turns), None),
        row("one page, p50".into(), "ms", median(&pages), Some(("ping".to_owned(), median(&pings))), None),
        row("memory after them".into(), "MiB", paged, None, None),
        row(format!("all turns at once ({:.1} MB)", mb(bytes)), "ms", whole, sqlite(turns), None),
        row("memory after that".into(), "MiB", after, None, None),
        row(
            "highest memory of all".into(),
            "MiB",
            highest,
            Some(("the message".to_owned(), mb(bytes) / 1.048_576)),
            None,
        ),
    ];
    BenchmarkTable { rows }
}

/// Reads and assembles the same turns without a host.
fn alone(state: &Path, chat: &str, turns: usize, count: usize) -> f64 {
    let begun = Instant::now();
    let db = Connection::open_with_flags(state.join("hostler.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).expect("a file");
    let mut statement =
        db.prepare("SELECT body FROM turns WHERE chat = ?1 AND position >= ?2 ORDER BY position").expect("a query");
    let mut rows = statement.query(params![chat, i64::try_from(turns - count).expect("a number")]).expect("rows");
    let (mut text, mut found) = (String::new(), 0);
    while let Some(row) = rows.next().expect("a row") {
        text.push_str(row.get_ref(0).expect("a column").as_str().expect("text"));
        text.push(',');
        found += 1;
    }
    let taken = elapsed_ms(begun, Instant::now());
    assert_eq!(found, count);
    taken
}
