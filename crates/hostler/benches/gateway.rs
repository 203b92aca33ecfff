//! What the gateway costs: each number beside the same upstream without it, in the same run, and beside other
//! gateways if they are given (`cargo xtask bench gateway --peers`).
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a benchmark reports to people")]

#[path = "support/gateway/load.rs"]
mod load;
#[path = "support/gateway/mock.rs"]
mod mock;
#[path = "support/gateway/report.rs"]
mod report;
#[path = "support/gateway/systems.rs"]
mod systems;

use std::net::SocketAddr;
use std::time::Duration;

use hostler_testkit::bench::{median, percentile};
use load::{Client, ask, deltas_of};
use mock::Mock;
use report::{Report, Row};
use systems::{Process, System};

/// Requests to measure the first event by.
const FIRST: usize = 2_000;
/// Events that pass at full speed, over all streams of a run.
const FLOOD: usize = 640_000;
const STREAMS: usize = 64;
/// Fifty events a second.
const PACE: Duration = Duration::from_millis(20);
const PACED: usize = 100;
const PACED_ROUNDS: usize = 5;
/// A peer gets a part of the load, or the run would take all day.
const PEERS_SHARE: usize = 20;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure(&arguments));
}

async fn measure(arguments: &[String]) {
    let mock = Mock::start();
    let mut systems = vec![System::direct(mock.address), System::hostler(mock.address)];
    systems.extend(systems::peers(arguments, mock.address).await);
    let mut report = Report::default();
    for system in &systems {
        let deltas = deltas_of(system, 100).await;
        assert_eq!(deltas, 100, "{} loses events", system.name);
        report.column(system.name, system.process.as_ref().map(Process::resident));
    }
    first_event(&systems, &mut report).await;
    paced(&systems, &mut report).await;
    for system in &systems {
        report.value(Row::MemoryPaced, system.name, system.process.as_ref().map(Process::peak));
    }
    for streams in [1, STREAMS] {
        flood(&systems, streams, &mut report).await;
    }
    for system in &systems {
        report.value(Row::MemoryPeak, system.name, system.process.as_ref().map(Process::peak));
    }
    println!("{report}");
}

/// One request after the other, in turns, so that all see the same machine.
async fn first_event(systems: &[System], report: &mut Report) {
    let mut clients = Vec::new();
    for system in systems {
        clients.push((system, Client::connect(system).await, Vec::new()));
    }
    for round in 0..FIRST {
        for (system, client, times) in &mut clients {
            if system.is_ours() || round % PEERS_SHARE == 0 {
                times.push(client.run(&ask(1, Duration::ZERO)).await.first.as_secs_f64() * 1000.0);
            }
        }
    }
    for (system, _, times) in clients {
        // The first ones warm things up.
        let times = times.get(times.len() / 10..).unwrap_or_default();
        report.value(Row::First, system.name, Some(median(times)));
        report.value(Row::FirstSlow, system.name, Some(percentile(times, 99)));
    }
}

/// As many events as will go.
async fn flood(systems: &[System], streams: usize, report: &mut Report) {
    for system in systems {
        let share = if system.is_ours() { 1 } else { PEERS_SHARE };
        let events = FLOOD / share / streams;
        let before = system.process.as_ref().map(Process::cpu);
        let samples = together(system.address, &system.head, streams, &ask(events, Duration::ZERO)).await;
        let total = samples.iter().map(|sample| sample.total.as_secs_f64()).fold(0.0, f64::max);
        let passed = (events * streams) as f64;
        report.value(if streams == 1 { Row::FloodOne } else { Row::FloodMany }, system.name, Some(passed / total));
        if let (Some(process), Some(before)) = (&system.process, before) {
            let row = if streams == 1 { Row::CpuOne } else { Row::CpuMany };
            report.value(row, system.name, Some((process.cpu() - before).as_secs_f64() * 1e6 / passed));
        }
    }
}

/// Streams at the pace of a model, in turns.
async fn paced(systems: &[System], report: &mut Report) {
    let mut seen: Vec<(&System, Vec<f64>, Duration)> =
        systems.iter().map(|system| (system, Vec::new(), Duration::ZERO)).collect();
    for _ in 0..PACED_ROUNDS {
        for (system, first, spent) in &mut seen {
            let cpu = || system.process.as_ref().map(Process::cpu).unwrap_or_default();
            let before = cpu();
            let samples = together(system.address, &system.head, STREAMS, &ask(PACED, PACE)).await;
            first.extend(samples.iter().map(|sample| sample.first.as_secs_f64() * 1000.0));
            *spent += cpu() - before;
        }
    }
    for (system, first, spent) in seen {
        report.value(Row::PacedFirst, system.name, Some(median(&first)));
        report.value(Row::PacedFirstSlow, system.name, Some(percentile(&first, 99)));
        let each = spent.as_secs_f64() * 1e6 / (PACED * STREAMS * PACED_ROUNDS) as f64;
        report.value(Row::PacedCpu, system.name, system.process.as_ref().map(|_| each));
    }
}

/// So many streams at once, each over a connection of its own that is there already.
async fn together(address: SocketAddr, head: &str, streams: usize, prompt: &str) -> Vec<load::Sample> {
    let mut clients = Vec::new();
    for _ in 0..streams {
        clients.push(Client::to(address, head.to_owned()).await);
    }
    futures::future::join_all(clients.iter_mut().map(|client| client.run(prompt))).await
}
