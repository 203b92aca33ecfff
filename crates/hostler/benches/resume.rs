//! What it costs that idle agents are closed: a message to a session whose agent is gone, beside a cold start of the same
//! executable without the host, and a message to an agent that is still there.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a benchmark reports to people")]

#[path = "support/direct.rs"]
mod direct;
#[path = "support/model.rs"]
#[expect(dead_code, reason = "when deltas were sent is another benchmark's question")]
mod model;
#[path = "support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use direct::{Direct, Launch};
use hostler_testkit::bench::{Row, Table, median, percentile};
use hostler_testkit::processes;
use hostler_testkit::raw::Raw;
use model::Model;
use support::{Home, ms};

const RUNS: usize = 15;

/// Short, so that agents are soon gone, and long enough to be seen alive once.
const IDLE: &str = "idle = 0.5";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let model = Model::start().await;
    let home = Home::new();
    let config = home.path("home").join(".config/hostler");
    std::fs::create_dir_all(&config).expect("a directory");
    std::fs::write(config.join("config.toml"), IDLE).expect("a file");
    let host = home.serve(&["--claude", "native", "--upstream", "anthropic", "--upstream-url", &model.url]);
    let mut client = Raw::initialized(&host.url).await;
    let (_, chat) = client.create(&home.path("work")).await;
    first_delta(&mut client, &chat).await;
    let agent = processes::agents(host.pid).pop().expect("an agent");
    let launch = Launch::like(agent.pid, &model.url);

    gone(host.pid).await;
    let (mut resumed, mut alone, mut closes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        resumed.push(first_delta(&mut client, &chat).await);
        let ended = Instant::now();
        gone(host.pid).await;
        closes.push(ms(ended, Instant::now()));

        let started = Instant::now();
        let mut agent = Direct::start(&launch, &home.path("work")).await;
        let (at, _) = agent.turn("@burst=1").await;
        alone.push(ms(started, at));
        agent.stop().await;
    }
    let beside = |value| Some(("cold start, direct".to_owned(), value));
    let row = |what: &str, hostler, beside| Row { what: what.to_owned(), unit: "ms", hostler, beside, target: None };
    let table = Table {
        rows: vec![
            row("evicted session, message to first delta, p50", median(&resumed), beside(median(&alone))),
            row("the same, p95", percentile(&resumed, 95), beside(percentile(&alone, 95))),
            row("turn's end to empty tree (idle window 500 ms)", median(&closes), None),
        ],
    };
    println!("{table}");
}

/// Waits until nothing is left of the host's agents.
async fn gone(host: u32) {
    while !processes::descendants(host).is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn first_delta(client: &mut Raw, chat: &str) -> f64 {
    let sent = Instant::now();
    client.say(chat, "@burst=1").await;
    let (at, _) = client.action("chat/delta").await;
    client.action("chat/turnComplete").await;
    ms(sent, at)
}
