//! Faults at random times during random work. In every run: no acknowledged message is lost or duplicated, the
//! transcript is in order, at most 100 ms of streamed output is missing, no process remains, and the next message
//! works. `cargo xtask chaos` runs very many of them; a few with known seeds run among the tests.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests may panic")]

mod chaos_client;
mod chaos_environment;
mod delivery_checker;
mod faults;
mod run;
mod run_plan;
mod slow_disk;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::reconnect::scheduling_watchdog::SchedulingWatchdog;
use run::RunCounts;
use run_plan::{Agent, Fault, RunPlan};
use tokio::task::JoinSet;

/// Timeout of a run, on a busy machine.
const RUN_TIMEOUT: Duration = Duration::from_secs(240);

/// Duration after which a run is reported as slow.
const SLOW_RUN_WARNING: Duration = Duration::from_secs(60);

/// Runs these seeds, some concurrently; prints the counts and fails with the seeds of failed runs.
async fn chaos(seeds: impl Iterator<Item = (u64, Agent)>, at_a_time: usize) {
    let watchdog = Arc::new(SchedulingWatchdog::start());
    let mut counts: BTreeMap<Fault, RunCounts> = BTreeMap::new();
    let mut failed = Vec::new();
    let mut seeds = seeds.peekable();
    let mut running = JoinSet::new();
    while seeds.peek().is_some() || !running.is_empty() {
        if running.len() < at_a_time
            && let Some((seed, agent)) = seeds.next()
        {
            let plan = RunPlan::from_seed(seed, agent);
            let fault = plan.fault;
            let shown = format!("{plan:?}");
            let run = tokio::spawn(tokio::time::timeout(RUN_TIMEOUT, run::run(plan, Arc::clone(&watchdog))));
            let began = Instant::now();
            running.spawn(async move { (seed, agent, fault, shown, run.await, began.elapsed()) });
            continue;
        }
        let Some(ended) = running.join_next().await else { break };
        let (seed, agent, fault, shown, result, took) = ended.unwrap();
        if took > SLOW_RUN_WARNING {
            println!("seed {seed}, {agent:?}, {fault:?} took {} s\n{shown}", took.as_secs());
        }
        let count = counts.entry(fault).or_default();
        match result {
            Ok(Ok(done)) => {
                count.runs += done.runs;
                count.faults_injected += done.faults_injected;
                count.accepted += done.accepted;
                count.retained += done.retained;
                count.interrupted += done.interrupted;
            }
            other => {
                let why = if other.is_err() { "a check failed, see above" } else { "it did not end" };
                println!("FAILED: seed {seed}, {agent:?}: {why}\n{shown}");
                count.runs += 1;
                failed.push((seed, agent));
            }
        }
    }
    println!(
        "{:<18} {:>5} {:>8} {:>8} {:>8} {:>11}",
        "fault", "runs", "injected", "accepted", "retained", "interrupted"
    );
    for (fault, RunCounts { runs, faults_injected: injected, accepted, retained, interrupted }) in &counts {
        println!("{:<18} {runs:>5} {injected:>8} {accepted:>8} {retained:>8} {interrupted:>11}", format!("{fault:?}"));
    }
    assert!(failed.is_empty(), "runs failed; repeat them with `cargo xtask chaos --runs 1 --seed …`: {failed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_faults_lose_nothing_acknowledged() {
    let number = |name| std::env::var(name).ok().map(|text: String| text.parse::<u64>().expect(name));
    let runs = number("HOSTLER_CHAOS_RUNS");
    let first = number("HOSTLER_CHAOS_SEED").unwrap_or(1);
    let agent = std::env::var("HOSTLER_CHAOS_AGENT").unwrap_or_else(|_| "fake".to_owned());
    let of = |seed: u64| match agent.as_str() {
        "native" => Agent::Real("native"),
        "js" => Agent::Real("js"),
        // Most runs use the fast fake agent.
        "mixed" if seed % 10 == 3 => Agent::Real("native"),
        "mixed" if seed % 10 == 7 => Agent::Real("js"),
        _ => Agent::Fake,
    };
    let seeds = (first..).take(usize::try_from(runs.unwrap_or(12)).unwrap());
    chaos(seeds.map(|seed| (seed, of(seed))), 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_faults_lose_nothing_acknowledged_with_the_real_agent() {
    if std::env::var_os("HOSTLER_CHAOS_RUNS").is_none() {
        chaos([(1, Agent::Real("native")), (2, Agent::Real("js"))].into_iter(), 2).await;
    }
}
