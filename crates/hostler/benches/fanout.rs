//! One action to many readers: how soon it is there, how many a second, and what each delivery costs the host.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark reports to people")]

#[path = "support/lean.rs"]
mod lean;
#[path = "support/relay.rs"]
mod relay;
#[path = "support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use hostler_testkit::bench::{Row, Table, median};
use hostler_testkit::raw::Raw;
use lean::{Crowd, processor_time};
use relay::Relay;
use serde_json::json;
use support::{Home, Host, ms};

/// Readers, and the latency that was designed for.
const CROWDS: [(usize, f64); 3] = [(1, 0.08), (200, 1.5), (1000, 8.0)];
const PACED: usize = 200;
const BURST: usize = 4_000;
const BURST_READERS: usize = 200;

/// The root channel.
const ROOT: &str = "ahp-root://";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, 8192, 8192);
    let home = Home::new();
    let host = home.serve(&["--upstream", "scripted"]);
    let mut writer = Raw::initialized(&host.url).await;
    let (session, _) = writer.create(&home.path("work")).await;
    let mut rows = Vec::new();
    for (readers, target) in CROWDS {
        let mut relay = Relay::start(readers);
        let mut crowd = Crowd::listen(relay.address, readers).await;
        let floor = latency(&mut crowd, async |_| relay.say()).await;
        relay.stop();

        // A provisional session is in memory only: its actions are published at once, as streamed output is.
        let mut crowd = Crowd::gather(&host.url, &session, readers).await;
        let at_once = latency(&mut crowd, async |n| writer.rename(&session, &format!("paced {n}")).await).await;
        // The host's configuration is durable: committed, and then published.
        let mut crowd = Crowd::gather(&host.url, ROOT, readers).await;
        let committed = latency(&mut crowd, async |n| configure(&mut writer, &format!("{readers}/{n}")).await).await;
        for (how, p50) in [("published at once", at_once), ("committed first", committed)] {
            let what = format!("action to subscriber, {how}, p50, {readers} subscribers");
            let beside = Some(("bare relay".to_owned(), floor));
            rows.push(Row { what, unit: "ms", hostler: p50, beside, target: Some(target) });
        }
    }
    rows.extend(burst(&host, &mut writer, &session).await);
    println!("{}", Table { rows });
}

/// The middle of all readers' waits for single actions. They wait already when the action is said.
async fn latency(crowd: &mut Crowd, mut say: impl AsyncFnMut(usize)) -> f64 {
    let mut waits = Vec::new();
    for n in 0..PACED {
        crowd.expect(1).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        let sent = Instant::now();
        say(n).await;
        waits.extend(crowd.collect().await.into_iter().map(|at| ms(sent, at)));
    }
    median(&waits)
}

/// Changes the host's configuration.
async fn configure(writer: &mut Raw, value: &str) {
    let action = json!({"type": "root/configChanged", "config": {"bench": value}});
    let params = json!({"channel": ROOT, "clientSeq": 0, "action": action});
    writer.send(json!({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}).to_string()).await;
}

/// Many actions at once to many readers.
async fn burst(host: &Host, writer: &mut Raw, session: &str) -> Vec<Row> {
    let mut crowd = Crowd::gather(&host.url, session, BURST_READERS).await;
    let (started, spent) = (Instant::now(), processor_time(host.pid));
    for n in 0..BURST {
        writer.rename(session, &format!("burst {n}")).await;
    }
    crowd.arrivals(BURST).await;
    let deliveries = (BURST * BURST_READERS) as f64;
    let seconds = started.elapsed().as_secs_f64();
    let cost = (processor_time(host.pid) - spent).as_secs_f64() * 1e6 / deliveries;
    vec![
        Row {
            what: format!("deliveries in a burst, {BURST_READERS} subscribers (at least 300 is the goal)"),
            unit: "k/s",
            hostler: deliveries / seconds / 1000.0,
            beside: None,
            target: None,
        },
        Row { what: "host CPU per delivery".to_owned(), unit: "µs", hostler: cost, beside: None, target: Some(3.0) },
    ]
}
