//! Cost of closing idle agents: a message to a session without an agent, beside a cold start of the same executable
//! without the host, and a message to a running agent.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a benchmark prints its results")]

#[path = "support/direct_agent.rs"]
mod direct_agent;
#[path = "support/mod.rs"]
mod support;
#[path = "support/timed_model.rs"]
#[expect(dead_code, reason = "another benchmark measures when deltas were sent")]
mod timed_model;

use std::time::{Duration, Instant};

use direct_agent::{AgentLaunch, DirectAgent};
use hostler_testkit::benchmark_table::{BenchmarkRow, BenchmarkTable, median, percentile};
use hostler_testkit::processes;
use hostler_testkit::raw_client::RawClient;
use support::{BenchmarkHome, elapsed_ms};
use timed_model::TimedModel;

const RUNS: usize = 15;

/// Short, so that agents close soon, and long enough to observe them once.
const SHORT_IDLE_CONFIG: &str = "idle-timeout = 0.5";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let model = TimedModel::start().await;
    let home = BenchmarkHome::new();
    let config = home.path("home").join(".config/hostler");
    std::fs::create_dir_all(&config).expect("a directory");
    std::fs::write(config.join("config.toml"), SHORT_IDLE_CONFIG).expect("a file");
    let host = home.serve(&["--claude", "native", "--upstream", "anthropic", "--upstream-url", &model.url]);
    let mut client = RawClient::connect_and_initialize(&host.url).await;
    let (_, chat) = client.create_session(&home.path("work")).await;
    first_delta(&mut client, &chat).await;
    let agent = processes::agent_processes(host.pid).pop().expect("an agent");
    let launch = AgentLaunch::from_running_agent(agent.pid, &model.url);

    gone(host.pid).await;
    let (mut resumed, mut alone, mut closes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        resumed.push(first_delta(&mut client, &chat).await);
        let ended = Instant::now();
        gone(host.pid).await;
        closes.push(elapsed_ms(ended, Instant::now()));

        let started = Instant::now();
        let mut agent = DirectAgent::start(&launch, &home.path("work")).await;
        let (at, _) = agent.run_turn("@burst=1").await;
        alone.push(elapsed_ms(started, at));
        agent.stop().await;
    }
    let beside = |value| Some(("cold start, direct".to_owned(), value));
    let row = |what: &str, hostler, beside| BenchmarkRow {
        metric: what.to_owned(),
        unit: "ms",
        hostler,
        baseline: beside,
        target: None,
    };
    let table = BenchmarkTable {
        rows: vec![
            row("evicted session, message to first delta, p50", median(&resumed), beside(median(&alone))),
            row("the same, p95", percentile(&resumed, 95), beside(percentile(&alone, 95))),
            row("turn's end to empty tree (idle window 500 ms)", median(&closes), None),
        ],
    };
    println!("{table}");
}

/// Waits until all agents of the host have ended.
async fn gone(host: u32) {
    while !processes::descendants(host).is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn first_delta(client: &mut RawClient, chat: &str) -> f64 {
    let sent = Instant::now();
    client.send_message(chat, "@burst=1").await;
    let (at, _) = client.wait_for_action("chat/delta").await;
    client.wait_for_action("chat/turnComplete").await;
    elapsed_ms(sent, at)
}
