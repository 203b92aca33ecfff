//! Time to the first `initialize` answer of a host, and its idle cost.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark prints its results")]

#[path = "support/mod.rs"]
mod support;

use std::process::{Command, Stdio};
use std::time::Instant;

use hostler_testkit::benchmark_table::{BenchmarkRow, BenchmarkTable, median};
use hostler_testkit::raw_client::RawClient;
use support::{BenchmarkHome, elapsed_ms, resident_memory_mib};

const RUNS: usize = 20;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (mut first, mut again, mut memory, mut floor) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let home = BenchmarkHome::new();
    for run in 0..2 * RUNS {
        // Every second run has an empty state directory.
        let empty = (run % 2 == 0).then(BenchmarkHome::new);
        let host = empty.as_ref().unwrap_or(&home).serve(&["--upstream", "scripted"]);
        let raw = RawClient::connect_and_initialize(&host.url).await;
        let answered = elapsed_ms(host.started, Instant::now());
        if empty.is_some() {
            first.push(answered)
        } else {
            again.push(answered)
        }
        drop(raw);
        memory.push(resident_memory_mib(host.pid));
        drop(host);

        // Baseline: the same executable prints its version.
        let started = Instant::now();
        let status = Command::new(env!("CARGO_BIN_EXE_hostler")).arg("--version").stdout(Stdio::null()).status();
        assert!(status.expect("the program starts").success());
        floor.push(elapsed_ms(started, Instant::now()));
    }
    let floor = median(&floor);
    let beside = |value| Some(("`hostler --version`".to_owned(), value));
    let row = |what: &str, unit, hostler, beside, target| BenchmarkRow {
        metric: what.to_owned(),
        unit,
        hostler,
        baseline: beside,
        target,
    };
    let table = BenchmarkTable {
        rows: vec![
            row("start to first initialize answer", "ms", median(&again), beside(floor), Some(20.0)),
            row("the same on an empty state directory", "ms", median(&first), beside(floor), None),
            row("idle memory (resident)", "MiB", median(&memory), None, Some(15.0)),
        ],
    };
    println!("{table}");
}
