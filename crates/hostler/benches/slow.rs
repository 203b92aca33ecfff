//! A reader that does not read, beside others that do: 60 000 actions in rounds, with it and without it.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark reports to people")]

#[path = "support/lean.rs"]
mod lean;
#[path = "support/mod.rs"]
mod support;

use std::time::Instant;

use hostler_testkit::bench::{Row, Table, percentile};
use hostler_testkit::raw::Raw;
use lean::Crowd;
use support::{Home, Host, ms, resident};

const READERS: usize = 20;
const ROUND: usize = 100;
const ROUNDS: usize = 600;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let home = Home::new();
    let host = home.serve(&["--upstream", "scripted"]);
    let mut writer = Raw::initialized(&host.url).await;
    let (session, _) = writer.create(&home.path("work")).await;
    let alone = rounds(&host, &mut writer, &session).await;
    let before = resident(host.pid);
    let stalled = lean::stalled(&host.url, &session).await;
    let beside = rounds(&host, &mut writer, &session).await;
    let grown = resident(host.pid) - before;
    drop(stalled);
    let peer = |value| Some(("without it".to_owned(), value));
    let rows = vec![
        Row {
            what: format!("{ROUND} actions to {READERS} readers beside a stalled one, p99"),
            unit: "ms",
            hostler: percentile(&beside, 99),
            beside: peer(percentile(&alone, 99)),
            target: Some(2.0 * percentile(&alone, 99)),
        },
        Row { what: "memory grown meanwhile".to_owned(), unit: "MiB", hostler: grown, beside: None, target: None },
    ];
    println!("{}", Table { rows });
}

/// How long each reader waits for each round.
async fn rounds(host: &Host, writer: &mut Raw, session: &str) -> Vec<f64> {
    let mut crowd = Crowd::gather(&host.url, session, READERS).await;
    let mut waits = Vec::new();
    for round in 0..ROUNDS {
        let sent = Instant::now();
        for n in 0..ROUND {
            writer.rename(session, &format!("round {round}, action {n}")).await;
        }
        waits.extend(crowd.arrivals(ROUND).await.into_iter().map(|at| ms(sent, at)));
        writer.drain(ROUND).await;
    }
    waits
}
