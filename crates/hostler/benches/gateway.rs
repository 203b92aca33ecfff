//! Cost of the gateway: each number beside the same upstream without it, in the same run, and beside other gateways
//! if they are given (`cargo xtask bench gateway --peers`).
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a benchmark prints its results")]

#[path = "support/gateway/load_client.rs"]
mod load_client;
#[path = "support/gateway/measured_systems.rs"]
mod measured_systems;
#[path = "support/gateway/mock_upstream.rs"]
mod mock_upstream;
#[path = "support/gateway/report.rs"]
mod report;

use std::net::SocketAddr;
use std::time::Duration;

use hostler_testkit::benchmark_table::{median, percentile};
use load_client::{LoadClient, count_deltas, load_prompt};
use measured_systems::{MeasuredProcess, MeasuredSystem};
use mock_upstream::BenchmarkUpstream;
use report::{GatewayMetric, GatewayReport};

/// Requests for the time to the first event.
const FIRST_EVENT_REQUESTS: usize = 2_000;
/// Events at full speed, over all streams of a run.
const FLOOD_EVENTS: usize = 640_000;
const STREAM_COUNT: usize = 64;
/// Fifty events a second.
const EVENT_INTERVAL: Duration = Duration::from_millis(20);
const PACED_EVENTS: usize = 100;
const PACED_ROUNDS: usize = 5;
/// Peers get a fraction of the load, because the run would take too long otherwise.
const PEER_LOAD_DIVISOR: usize = 20;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure(&arguments));
}

async fn measure(arguments: &[String]) {
    let mock = BenchmarkUpstream::start();
    let mut systems = vec![MeasuredSystem::direct(mock.address), MeasuredSystem::hostler(mock.address)];
    systems.extend(measured_systems::peers(arguments, mock.address).await);
    let mut report = GatewayReport::default();
    for system in &systems {
        let deltas = count_deltas(system, 100).await;
        assert_eq!(deltas, 100, "{} loses events", system.name);
        report.column(system.name, system.process.as_ref().map(MeasuredProcess::resident));
    }
    first_event(&systems, &mut report).await;
    paced(&systems, &mut report).await;
    for system in &systems {
        report.value(GatewayMetric::MemoryPaced, system.name, system.process.as_ref().map(MeasuredProcess::peak));
    }
    for streams in [1, STREAM_COUNT] {
        flood(&systems, streams, &mut report).await;
    }
    for system in &systems {
        report.value(GatewayMetric::MemoryPeak, system.name, system.process.as_ref().map(MeasuredProcess::peak));
    }
    println!("{report}");
}

/// Alternates requests between the systems, so that all run under the same conditions.
async fn first_event(systems: &[MeasuredSystem], report: &mut GatewayReport) {
    let mut clients = Vec::new();
    for system in systems {
        clients.push((system, LoadClient::connect(system).await, Vec::new()));
    }
    for round in 0..FIRST_EVENT_REQUESTS {
        for (system, client, times) in &mut clients {
            if system.is_ours() || round % PEER_LOAD_DIVISOR == 0 {
                times.push(client.run(&load_prompt(1, Duration::ZERO)).await.first.as_secs_f64() * 1000.0);
            }
        }
    }
    for (system, _, times) in clients {
        // The first tenth is warm-up.
        let times = times.get(times.len() / 10..).unwrap_or_default();
        report.value(GatewayMetric::First, system.name, Some(median(times)));
        report.value(GatewayMetric::FirstSlow, system.name, Some(percentile(times, 99)));
    }
}

/// Streams events at full speed.
async fn flood(systems: &[MeasuredSystem], streams: usize, report: &mut GatewayReport) {
    for system in systems {
        let share = if system.is_ours() { 1 } else { PEER_LOAD_DIVISOR };
        let events = FLOOD_EVENTS / share / streams;
        let before = system.process.as_ref().map(MeasuredProcess::cpu);
        let samples = together(system.address, &system.head, streams, &load_prompt(events, Duration::ZERO)).await;
        let total = samples.iter().map(|sample| sample.total.as_secs_f64()).fold(0.0, f64::max);
        let passed = (events * streams) as f64;
        report.value(
            if streams == 1 { GatewayMetric::FloodOne } else { GatewayMetric::FloodMany },
            system.name,
            Some(passed / total),
        );
        if let (Some(process), Some(before)) = (&system.process, before) {
            let row = if streams == 1 { GatewayMetric::CpuOne } else { GatewayMetric::CpuMany };
            report.value(row, system.name, Some((process.cpu() - before).as_secs_f64() * 1e6 / passed));
        }
    }
}

/// Streams at the pace of a model, alternating between systems.
async fn paced(systems: &[MeasuredSystem], report: &mut GatewayReport) {
    let mut seen: Vec<(&MeasuredSystem, Vec<f64>, Duration)> =
        systems.iter().map(|system| (system, Vec::new(), Duration::ZERO)).collect();
    for _ in 0..PACED_ROUNDS {
        for (system, first, spent) in &mut seen {
            let cpu = || system.process.as_ref().map(MeasuredProcess::cpu).unwrap_or_default();
            let before = cpu();
            let samples =
                together(system.address, &system.head, STREAM_COUNT, &load_prompt(PACED_EVENTS, EVENT_INTERVAL)).await;
            first.extend(samples.iter().map(|sample| sample.first.as_secs_f64() * 1000.0));
            *spent += cpu() - before;
        }
    }
    for (system, first, spent) in seen {
        report.value(GatewayMetric::PacedFirst, system.name, Some(median(&first)));
        report.value(GatewayMetric::PacedFirstSlow, system.name, Some(percentile(&first, 99)));
        let each = spent.as_secs_f64() * 1e6 / (PACED_EVENTS * STREAM_COUNT * PACED_ROUNDS) as f64;
        report.value(GatewayMetric::PacedCpu, system.name, system.process.as_ref().map(|_| each));
    }
}

/// Runs this many concurrent streams, each over its own existing connection.
async fn together(address: SocketAddr, head: &str, streams: usize, prompt: &str) -> Vec<load_client::RequestTiming> {
    let mut clients = Vec::new();
    for _ in 0..streams {
        clients.push(LoadClient::connect_to(address, head.to_owned()).await);
    }
    futures::future::join_all(clients.iter_mut().map(|client| client.run(prompt))).await
}
