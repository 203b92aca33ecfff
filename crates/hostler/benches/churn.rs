//! Clients that come, make a session, throw it away and leave: what each costs, and what is left of them.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark reports to people")]

#[path = "support/mod.rs"]
mod support;

use std::time::Instant;

use hostler_testkit::bench::{Row, Table, median, percentile};
use hostler_testkit::processes::descriptors;
use hostler_testkit::raw::Raw;
use serde_json::json;
use support::{Home, ms, resident};

const WARM_UP: usize = 200;
const VISITS: usize = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let home = Home::new();
    let host = home.serve(&["--upstream", "scripted"]);
    for _ in 0..WARM_UP {
        visit(&host.url, &home).await;
    }
    let (memory, files) = (resident(host.pid), descriptors(host.pid));
    let mut times = Vec::new();
    for _ in 0..VISITS {
        let started = Instant::now();
        visit(&host.url, &home).await;
        times.push(ms(started, Instant::now()));
    }
    let (grown, left) = (resident(host.pid) - memory, descriptors(host.pid).saturating_sub(files));
    let row = |what: &str, unit, hostler, target| Row { what: what.to_owned(), unit, hostler, beside: None, target };
    let rows = vec![
        row("connect, create, dispose, disconnect, p50", "ms", median(&times), Some(3.0)),
        row("the same, p99", "ms", percentile(&times, 99), None),
        row("memory kept after 1 000 of them", "MiB", grown, None),
        row("descriptors kept", "", left as f64, Some(0.0)),
    ];
    println!("{}", Table { rows });
}

async fn visit(url: &str, home: &Home) {
    let mut client = Raw::initialized(url).await;
    let (session, _) = client.create(&home.path("work")).await;
    client.call("disposeSession", json!({"channel": session})).await.expect("disposed");
}
