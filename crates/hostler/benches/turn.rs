//! The cost of the host between an agent and a client: the same executable, with the same arguments, driven through the
//! host and driven directly, in turns, against the same kind of model.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a benchmark reports to people")]

#[path = "support/direct.rs"]
mod direct;
#[path = "support/model.rs"]
mod model;
#[path = "support/mod.rs"]
mod support;

use std::time::Instant;

use direct::{Direct, Launch};
use hostler_testkit::bench::{Row, Table, median, percentile};
use hostler_testkit::processes;
use hostler_testkit::raw::Raw;
use model::Model;
use support::{Home, ms};

const COLD: usize = 9;
const WARM: usize = 40;
const BURSTS: usize = 9;
const BURST: usize = 2_000;
const PACED: usize = 400;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let model = Model::start().await;
    let home = Home::new();
    let host = home.serve(&["--claude", "native", "--upstream", "anthropic", "--upstream-url", &model.url]);
    let mut client = Raw::initialized(&host.url).await;
    let (_, chat) = client.create(&home.path("work")).await;
    hosted_first(&mut client, &chat).await;
    let agent = processes::agents(host.pid).pop().expect("an agent");
    let launch = Launch::like(agent.pid, &model.url);
    let mut direct = Direct::start(&launch, &home.path("work")).await;
    direct.turn("@burst=1").await;

    let mut rows = Vec::new();
    rows.extend(cold(&mut client, &home, &launch).await);
    rows.extend(warm(&mut client, &chat, &mut direct).await);
    rows.extend(latency(&mut client, &chat, &mut direct, &model).await);
    rows.extend(burst(&mut client, &chat, &mut direct).await);
    direct.stop().await;
    println!("{}", Table { rows });
}

async fn hosted_first(client: &mut Raw, chat: &str) -> f64 {
    let sent = Instant::now();
    client.say(chat, "@burst=1").await;
    let (at, _) = client.action("chat/delta").await;
    client.action("chat/turnComplete").await;
    ms(sent, at)
}

fn row(what: &str, unit: &'static str, hostler: f64, direct: f64, target: Option<f64>) -> Row {
    Row { what: what.to_owned(), unit, hostler, beside: Some(("direct".to_owned(), direct)), target }
}

/// From the first message to the first delta, process start included.
async fn cold(client: &mut Raw, home: &Home, launch: &Launch) -> Vec<Row> {
    let (mut hosted, mut direct) = (Vec::new(), Vec::new());
    for _ in 0..COLD {
        let (session, chat) = client.create(&home.path("work")).await;
        hosted.push(hosted_first(client, &chat).await);
        client.call("disposeSession", serde_json::json!({"channel": session})).await.expect("disposed");

        let started = Instant::now();
        let mut agent = Direct::start(launch, &home.path("work")).await;
        let (at, _) = agent.turn("@burst=1").await;
        direct.push(ms(started, at));
        agent.stop().await;
    }
    vec![row("turn start to first delta, cold", "ms", median(&hosted), median(&direct), Some(390.0))]
}

/// From a later message to its first delta.
async fn warm(client: &mut Raw, chat: &str, direct: &mut Direct) -> Vec<Row> {
    let (mut hosted, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..WARM {
        hosted.push(hosted_first(client, chat).await);
        let sent = Instant::now();
        let (at, _) = direct.turn("@burst=1").await;
        alone.push(ms(sent, at));
    }
    vec![row("turn start to first delta, warm", "ms", median(&hosted), median(&alone), Some(33.0))]
}

/// From the model's writing of a delta to its arrival.
async fn latency(client: &mut Raw, chat: &str, direct: &mut Direct, model: &Model) -> Vec<Row> {
    model.forget();
    client.say(chat, &format!("@paced={PACED}")).await;
    let mut hosted = Vec::new();
    while hosted.len() < PACED {
        let (at, action) = client.action("chat/delta").await;
        // Deltas that were merged are judged by the last of them.
        let words: Vec<_> = action["content"].as_str().expect("text").split_whitespace().collect();
        let before = hosted.len();
        for word in &words {
            hosted.push(ms(model.sent(word.parse().expect("a number")), at));
        }
        assert!(hosted.len() > before);
    }
    client.action("chat/turnComplete").await;
    model.forget();
    let arrivals = direct.arrivals(&format!("@paced={PACED}")).await;
    let alone: Vec<_> = arrivals.iter().enumerate().map(|(n, at)| ms(model.sent(n), *at)).collect();
    vec![
        row("model delta to subscriber, p50", "ms", median(&hosted), median(&alone), Some(0.45)),
        row("model delta to subscriber, p99", "ms", percentile(&hosted, 99), percentile(&alone, 99), None),
    ]
}

/// A whole answer of many deltas, as fast as it goes.
async fn burst(client: &mut Raw, chat: &str, direct: &mut Direct) -> Vec<Row> {
    let (mut hosted, mut alone) = (Vec::new(), Vec::new());
    let prompt = format!("@burst={BURST}");
    for _ in 0..BURSTS {
        let sent = Instant::now();
        client.say(chat, &prompt).await;
        let (at, _) = client.action("chat/turnComplete").await;
        hosted.push(ms(sent, at));

        let sent = Instant::now();
        let (_, end) = direct.turn(&prompt).await;
        alone.push(ms(sent, end));
    }
    vec![row("2 000 deltas, whole turn", "ms", median(&hosted), median(&alone), None)]
}
