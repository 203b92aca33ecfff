//! Cost of the host between an agent and a client: the same executable, with the same arguments, driven through the
//! host and directly, alternating, against the same kind of model.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a benchmark prints its results")]

#[path = "support/direct_agent.rs"]
mod direct_agent;
#[path = "support/mod.rs"]
mod support;
#[path = "support/timed_model.rs"]
mod timed_model;

use std::time::Instant;

use direct_agent::{AgentLaunch, DirectAgent};
use hostler_testkit::benchmark_table::{BenchmarkRow, BenchmarkTable, median, percentile};
use hostler_testkit::processes;
use hostler_testkit::raw_client::RawClient;
use support::{BenchmarkHome, elapsed_ms};
use timed_model::TimedModel;

const COLD_RUNS: usize = 9;
const WARM_RUNS: usize = 40;
const BURST_RUNS: usize = 9;
const BURST_DELTAS: usize = 2_000;
const PACED_DELTAS: usize = 400;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let model = TimedModel::start().await;
    let home = BenchmarkHome::new();
    let host = home.serve(&["--claude", "native", "--upstream", "anthropic", "--upstream-url", &model.url]);
    let mut client = RawClient::connect_and_initialize(&host.url).await;
    let (_, chat) = client.create_session(&home.path("work")).await;
    hosted_first(&mut client, &chat).await;
    let agent = processes::agent_processes(host.pid).pop().expect("an agent");
    let launch = AgentLaunch::from_running_agent(agent.pid, &model.url);
    let mut direct = DirectAgent::start(&launch, &home.path("work")).await;
    direct.run_turn("@burst=1").await;

    let mut rows = Vec::new();
    rows.extend(cold(&mut client, &home, &launch).await);
    rows.extend(warm(&mut client, &chat, &mut direct).await);
    rows.extend(latency(&mut client, &chat, &mut direct, &model).await);
    rows.extend(burst(&mut client, &chat, &mut direct).await);
    direct.stop().await;
    println!("{}", BenchmarkTable { rows });
}

async fn hosted_first(client: &mut RawClient, chat: &str) -> f64 {
    let sent = Instant::now();
    client.send_message(chat, "@burst=1").await;
    let (at, _) = client.wait_for_action("chat/delta").await;
    client.wait_for_action("chat/turnComplete").await;
    elapsed_ms(sent, at)
}

fn row(what: &str, unit: &'static str, hostler: f64, direct: f64, target: Option<f64>) -> BenchmarkRow {
    BenchmarkRow { metric: what.to_owned(), unit, hostler, baseline: Some(("direct".to_owned(), direct)), target }
}

/// Measures from the first message to the first delta, process start included.
async fn cold(client: &mut RawClient, home: &BenchmarkHome, launch: &AgentLaunch) -> Vec<BenchmarkRow> {
    let (mut hosted, mut direct) = (Vec::new(), Vec::new());
    for _ in 0..COLD_RUNS {
        let (session, chat) = client.create_session(&home.path("work")).await;
        hosted.push(hosted_first(client, &chat).await);
        client.call("disposeSession", serde_json::json!({"channel": session})).await.expect("disposed");

        let started = Instant::now();
        let mut agent = DirectAgent::start(launch, &home.path("work")).await;
        let (at, _) = agent.run_turn("@burst=1").await;
        direct.push(elapsed_ms(started, at));
        agent.stop().await;
    }
    vec![row("turn start to first delta, cold", "ms", median(&hosted), median(&direct), Some(390.0))]
}

/// Measures from a later message to its first delta.
async fn warm(client: &mut RawClient, chat: &str, direct: &mut DirectAgent) -> Vec<BenchmarkRow> {
    let (mut hosted, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..WARM_RUNS {
        hosted.push(hosted_first(client, chat).await);
        let sent = Instant::now();
        let (at, _) = direct.run_turn("@burst=1").await;
        alone.push(elapsed_ms(sent, at));
    }
    vec![row("turn start to first delta, warm", "ms", median(&hosted), median(&alone), Some(33.0))]
}

/// Measures from the model's write of a delta to its arrival.
async fn latency(
    client: &mut RawClient,
    chat: &str,
    direct: &mut DirectAgent,
    model: &TimedModel,
) -> Vec<BenchmarkRow> {
    model.clear();
    client.send_message(chat, &format!("@paced={PACED_DELTAS}")).await;
    let mut hosted = Vec::new();
    while hosted.len() < PACED_DELTAS {
        let (at, action) = client.wait_for_action("chat/delta").await;
        // Merged deltas count by their last one.
        let numbers: Vec<_> = action["content"].as_str().expect("text").split_whitespace().collect();
        let before = hosted.len();
        for number in &numbers {
            hosted.push(elapsed_ms(model.sent(number.parse().expect("a number")), at));
        }
        assert!(hosted.len() > before);
    }
    client.wait_for_action("chat/turnComplete").await;
    model.clear();
    let arrivals = direct.delta_arrivals(&format!("@paced={PACED_DELTAS}")).await;
    let alone: Vec<_> = arrivals.iter().enumerate().map(|(n, at)| elapsed_ms(model.sent(n), *at)).collect();
    vec![
        row("model delta to subscriber, p50", "ms", median(&hosted), median(&alone), Some(0.45)),
        row("model delta to subscriber, p99", "ms", percentile(&hosted, 99), percentile(&alone, 99), None),
    ]
}

/// Measures a whole response of many deltas at full speed.
async fn burst(client: &mut RawClient, chat: &str, direct: &mut DirectAgent) -> Vec<BenchmarkRow> {
    let (mut hosted, mut alone) = (Vec::new(), Vec::new());
    let prompt = format!("@burst={BURST_DELTAS}");
    for _ in 0..BURST_RUNS {
        let sent = Instant::now();
        client.send_message(chat, &prompt).await;
        let (at, _) = client.wait_for_action("chat/turnComplete").await;
        hosted.push(elapsed_ms(sent, at));

        let sent = Instant::now();
        let (_, end) = direct.run_turn(&prompt).await;
        alone.push(elapsed_ms(sent, end));
    }
    vec![row("2 000 deltas, whole turn", "ms", median(&hosted), median(&alone), None)]
}
