//! Clients that connect, create a session, dispose of it and disconnect: cost of each, and what remains in memory.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark prints its results")]

#[path = "support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use hostler_testkit::benchmark_table::{BenchmarkRow, BenchmarkTable, median, percentile};
use hostler_testkit::processes::count_descriptors;
use hostler_testkit::raw_client::RawClient;
use serde_json::json;
use support::{BenchmarkHome, elapsed_ms, resident_memory_mib};

const WARM_UP: usize = 200;
const VISIT_COUNT: usize = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let home = BenchmarkHome::new();
    let host = home.serve(&["--upstream", "scripted"]);
    for _ in 0..WARM_UP {
        visit(&host.url, &home).await;
    }
    let (memory, files) = (resident_memory_mib(host.pid), count_descriptors(host.pid));
    let mut times = Vec::new();
    for _ in 0..VISIT_COUNT {
        let started = Instant::now();
        visit(&host.url, &home).await;
        times.push(elapsed_ms(started, Instant::now()));
    }
    let grown = resident_memory_mib(host.pid) - memory;
    // The host notices the last disconnect a little later.
    let mut left = count_descriptors(host.pid).saturating_sub(files);
    for _ in 0..100 {
        if left == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        left = count_descriptors(host.pid).saturating_sub(files);
    }
    let row = |what: &str, unit, hostler, target| BenchmarkRow {
        metric: what.to_owned(),
        unit,
        hostler,
        baseline: None,
        target,
    };
    let rows = vec![
        row("connect, create, dispose, disconnect, p50", "ms", median(&times), Some(3.0)),
        row("the same, p99", "ms", percentile(&times, 99), None),
        row("memory retained after 1 000 of them", "MiB", grown, None),
        row("descriptors retained", "", left as f64, Some(0.0)),
    ];
    println!("{}", BenchmarkTable { rows });
}

async fn visit(url: &str, home: &BenchmarkHome) {
    let mut client = RawClient::connect_and_initialize(url).await;
    let (session, _) = client.create_session(&home.path("work")).await;
    client.call("disposeSession", json!({"channel": session})).await.expect("disposed");
}
