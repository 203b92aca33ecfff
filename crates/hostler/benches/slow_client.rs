//! Reader that does not read, beside others that do: 60 000 actions in rounds, with it and without it.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark prints its results")]

#[path = "support/counting_readers.rs"]
mod counting_readers;
#[path = "support/mod.rs"]
mod support;

use std::time::Instant;

use counting_readers::CountingReaders;
use hostler_testkit::benchmark_table::{BenchmarkRow, BenchmarkTable, percentile};
use hostler_testkit::raw_client::RawClient;
use support::{BenchmarkHome, BenchmarkHost, elapsed_ms, resident_memory_mib};

const READER_COUNT: usize = 20;
const ROUND_ACTIONS: usize = 100;
const ROUND_COUNT: usize = 600;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let home = BenchmarkHome::new();
    let host = home.serve(&["--upstream", "scripted"]);
    let mut writer = RawClient::connect_and_initialize(&host.url).await;
    let (session, _) = writer.create_session(&home.path("work")).await;
    let alone = rounds(&host, &mut writer, &session).await;
    let before = resident_memory_mib(host.pid);
    let stalled = counting_readers::connect_stalled_subscriber(&host.url, &session).await;
    let beside = rounds(&host, &mut writer, &session).await;
    let grown = resident_memory_mib(host.pid) - before;
    drop(stalled);
    let peer = |value| Some(("without it".to_owned(), value));
    let rows = vec![
        BenchmarkRow {
            metric: format!("{ROUND_ACTIONS} actions to {READER_COUNT} readers beside a stalled one, p99"),
            unit: "ms",
            hostler: percentile(&beside, 99),
            baseline: peer(percentile(&alone, 99)),
            target: Some(2.0 * percentile(&alone, 99)),
        },
        BenchmarkRow {
            metric: "memory grown meanwhile".to_owned(),
            unit: "MiB",
            hostler: grown,
            baseline: None,
            target: None,
        },
    ];
    println!("{}", BenchmarkTable { rows });
}

/// Measures how long each reader waits for each round.
async fn rounds(host: &BenchmarkHost, writer: &mut RawClient, session: &str) -> Vec<f64> {
    let mut crowd = CountingReaders::subscribe(&host.url, session, READER_COUNT).await;
    let mut waits = Vec::new();
    for round in 0..ROUND_COUNT {
        let sent = Instant::now();
        for n in 0..ROUND_ACTIONS {
            writer.rename_session(session, &format!("round {round}, action {n}")).await;
        }
        waits.extend(crowd.arrivals(ROUND_ACTIONS).await.into_iter().map(|at| elapsed_ms(sent, at)));
        writer.drain(ROUND_ACTIONS).await;
    }
    waits
}
