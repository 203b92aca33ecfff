//! Large external session, opened through the host, beside the official SDK on the same file.
//!
//! The host has finished indexing before the measurement. A cold file has been evicted from the page cache
//! (`posix_fadvise`), a warm file was just read. The SDK returns all messages at once; the host returns the latest
//! turns, and older ones by pages.

use std::time::Instant;

use hostler_testkit::benchmark_table::{BenchmarkRow, BenchmarkTable, median};
use hostler_testkit::raw_client::RawClient;
use serde_json::json;
use uuid::Uuid;

use crate::generated_transcripts::{BUILDS, nothing, written};
use crate::page_cache::evict_page_cache;
use crate::sdk::{Sdk, Theirs};
use crate::stored_history::peak_memory_mib;
use crate::support::{BenchmarkHome, elapsed_ms, resident_memory_mib};

const ROUNDS: usize = 5;
const VIEW_TURNS: usize = 50;

/// Measurement of one host.
struct OpenMeasurement {
    /// Time to the snapshot with the latest turns.
    first_snapshot_ms: f64,
    /// Size of the snapshot.
    snapshot_bytes: usize,
    /// Growth of the host's memory until then, in MiB.
    memory_growth_mib: f64,
    /// Time to all older turns, in this many pages.
    all_turns_ms: f64,
    page_count: usize,
    /// Peak growth of its memory.
    peak_memory_growth_mib: f64,
}

pub(crate) async fn external_session_table(megabytes: usize) -> BenchmarkTable {
    let mut rows = Vec::new();
    for build in BUILDS {
        rows.extend(of_build(build, megabytes).await);
    }
    BenchmarkTable { rows }
}

async fn of_build(build: &str, megabytes: usize) -> Vec<BenchmarkRow> {
    let home = BenchmarkHome::new();
    let records = home.path("claude");
    let (id, _) = written(&records, build, megabytes * 1024 * 1024, 0, &mut nothing);
    let sdk = Sdk::given();
    let theirs = |rounds| sdk.as_ref().map(|sdk| sdk.open(&records, id, rounds));
    evict_page_cache(&records);
    let cold_theirs = theirs(1);
    let warm_theirs = theirs(ROUNDS);

    let cold = opened(&home, id, true).await;
    let mut warm = Vec::new();
    for _ in 0..ROUNDS {
        warm.push(opened(&home, id, false).await);
    }
    let middle = |of: fn(&OpenMeasurement) -> f64| median(&warm.iter().map(of).collect::<Vec<_>>());

    let call = |theirs: Option<Theirs>| theirs.map(|theirs| ("getSessionMessages".to_owned(), theirs.ms));
    let space = |theirs: Option<Theirs>| theirs.map(|theirs| ("getSessionMessages".to_owned(), theirs.peak));
    let row = |what: String, unit, hostler, beside, target| BenchmarkRow {
        metric: what,
        unit,
        hostler,
        baseline: beside,
        target,
    };
    let size = cold.snapshot_bytes as f64 / 1e6;
    let first = format!("{build}, {megabytes} MB: its last {VIEW_TURNS} turns ({size:.2} MB), cold file");
    vec![
        row(first, "ms", cold.first_snapshot_ms, call(cold_theirs), None),
        row(
            "the same, warm file, p50".into(),
            "ms",
            middle(|one| one.first_snapshot_ms),
            call(warm_theirs),
            Some(100.0),
        ),
        row("memory after it, p50".into(), "MiB", middle(|one| one.memory_growth_mib), space(cold_theirs), Some(30.0)),
        row(
            format!("and all older turns in {} pages, p50", cold.page_count),
            "ms",
            middle(|one| one.all_turns_ms),
            call(warm_theirs),
            None,
        ),
        row(
            "highest memory of it, p50".into(),
            "MiB",
            middle(|one| one.peak_memory_growth_mib),
            space(warm_theirs),
            None,
        ),
    ]
}

/// Opens the session in a host that has only listed it.
async fn opened(home: &BenchmarkHome, id: Uuid, cold: bool) -> OpenMeasurement {
    let _there_may_be_none = std::fs::remove_dir_all(home.path("state"));
    let host = home.serve(&["--upstream", "scripted"]);
    let mut raw = RawClient::connect_and_initialize(&host.url).await;
    raw.call("hostler/search", json!({"query": "question", "waitForIndex": true})).await.expect("an answer");
    if cold {
        evict_page_cache(&home.path("claude"));
    }
    let session = format!("claude:/{id}");
    let chat = hostler_engine::default_chat_uri(&session);
    let idle = resident_memory_mib(host.pid);
    // Resets the peak memory of the process.
    std::fs::write(format!("/proc/{}/clear_refs", host.pid), "5").expect("the host is ours");
    let mut bytes = 0;
    let begun = Instant::now();
    raw.call_streaming("subscribe", json!({"channel": session}), |_| ()).await;
    raw.call_streaming("subscribe", json!({"channel": chat, "view": {"turns": VIEW_TURNS}}), |text| bytes = text.len())
        .await;
    let first = elapsed_ms(begun, Instant::now());
    let memory = resident_memory_mib(host.pid) - idle;
    let (mut pages, mut more) = (0, true);
    while std::mem::take(&mut more) {
        raw.call_streaming("fetchTurns", json!({"channel": chat}), |text| {
            more |= text.contains(r#""turnsNextCursor":"#)
        })
        .await;
        pages += 1;
    }
    let highest = peak_memory_mib(host.pid) - idle;
    OpenMeasurement {
        first_snapshot_ms: first,
        snapshot_bytes: bytes,
        memory_growth_mib: memory,
        all_turns_ms: elapsed_ms(begun, Instant::now()),
        page_count: pages,
        peak_memory_growth_mib: highest,
    }
}
