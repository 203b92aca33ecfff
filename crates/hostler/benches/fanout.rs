//! Fan-out of one action to many readers: latency, throughput, and cost per delivery.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark prints its results")]

#[path = "support/byte_relay.rs"]
mod byte_relay;
#[path = "support/counting_readers.rs"]
mod counting_readers;
#[path = "support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use byte_relay::ByteRelay;
use counting_readers::{CountingReaders, processor_time};
use hostler_testkit::benchmark_table::{BenchmarkRow, BenchmarkTable, median};
use hostler_testkit::raw_client::RawClient;
use serde_json::json;
use support::{BenchmarkHome, BenchmarkHost, elapsed_ms};

/// Number of readers, and the target latency.
const READER_COUNTS: [(usize, f64); 3] = [(1, 0.08), (200, 1.5), (1000, 8.0)];
const PACED_ACTIONS: usize = 200;
const BURST_ACTIONS: usize = 4_000;
const BURST_READERS: usize = 200;

/// The root channel.
const ROOT: &str = "ahp-root://";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, 8192, 8192);
    let home = BenchmarkHome::new();
    let host = home.serve(&["--upstream", "scripted"]);
    let mut writer = RawClient::connect_and_initialize(&host.url).await;
    let (session, _) = writer.create_session(&home.path("work")).await;
    let mut rows = Vec::new();
    for (readers, target) in READER_COUNTS {
        let mut relay = ByteRelay::start(readers);
        let mut crowd = CountingReaders::listen(relay.address, readers).await;
        let floor = latency(&mut crowd, async |_| relay.send_frame()).await;
        relay.stop();

        // A provisional session is in memory only: its actions are published at once, like streamed output.
        let mut crowd = CountingReaders::subscribe(&host.url, &session, readers).await;
        let at_once = latency(&mut crowd, async |n| writer.rename_session(&session, &format!("paced {n}")).await).await;
        // The host's configuration is durable: committed first, then published.
        let mut crowd = CountingReaders::subscribe(&host.url, ROOT, readers).await;
        let committed = latency(&mut crowd, async |n| configure(&mut writer, &format!("{readers}/{n}")).await).await;
        for (how, p50) in [("published at once", at_once), ("committed first", committed)] {
            let what = format!("action to subscriber, {how}, p50, {readers} subscribers");
            let beside = Some(("bare relay".to_owned(), floor));
            rows.push(BenchmarkRow { metric: what, unit: "ms", hostler: p50, baseline: beside, target: Some(target) });
        }
    }
    rows.extend(burst(&host, &mut writer, &session).await);
    println!("{}", BenchmarkTable { rows });
}

/// Returns the median latency of single actions over all readers, which wait before the action is sent.
async fn latency(crowd: &mut CountingReaders, mut send: impl AsyncFnMut(usize)) -> f64 {
    let mut waits = Vec::new();
    for n in 0..PACED_ACTIONS {
        crowd.expect(1).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        let sent = Instant::now();
        send(n).await;
        waits.extend(crowd.collect().await.into_iter().map(|at| elapsed_ms(sent, at)));
    }
    median(&waits)
}

/// Changes the host's configuration.
async fn configure(writer: &mut RawClient, value: &str) {
    let action = json!({"type": "root/configChanged", "config": {"bench": value}});
    let params = json!({"channel": ROOT, "clientSeq": 0, "action": action});
    writer.send(json!({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}).to_string()).await;
}

/// Sends many actions at once to many readers.
async fn burst(host: &BenchmarkHost, writer: &mut RawClient, session: &str) -> Vec<BenchmarkRow> {
    let mut crowd = CountingReaders::subscribe(&host.url, session, BURST_READERS).await;
    let (started, spent) = (Instant::now(), processor_time(host.pid));
    for n in 0..BURST_ACTIONS {
        writer.rename_session(session, &format!("burst {n}")).await;
    }
    crowd.arrivals(BURST_ACTIONS).await;
    let deliveries = (BURST_ACTIONS * BURST_READERS) as f64;
    let seconds = started.elapsed().as_secs_f64();
    let cost = (processor_time(host.pid) - spent).as_secs_f64() * 1e6 / deliveries;
    vec![
        BenchmarkRow {
            metric: format!("deliveries in a burst, {BURST_READERS} subscribers (at least 300 is the goal)"),
            unit: "k/s",
            hostler: deliveries / seconds / 1000.0,
            baseline: None,
            target: None,
        },
        BenchmarkRow {
            metric: "host CPU per delivery".to_owned(),
            unit: "µs",
            hostler: cost,
            baseline: None,
            target: Some(3.0),
        },
    ]
}
