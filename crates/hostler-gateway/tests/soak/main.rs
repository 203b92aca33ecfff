#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests may panic")]
//! Soak test: many requests, most of which fail in some way. Each must end as planned, and nothing may leak: no request
//! in flight, no task, no descriptor, no memory. `cargo xtask soak` runs it at full size. Linux only, because it reads
//! the process's statistics from `/proc`.
#![cfg(target_os = "linux")]

mod client;
mod mock_upstream;
mod process_stats;
mod request_plan;
mod seeded_rng;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hostler_gateway::{AnthropicConfig, AnthropicUpstream, FixedCredential, Gateway, GatewayConfig, Lease, Upstreams};
use secrecy::ExposeSecret;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use client::Client;
use mock_upstream::MockUpstream;
use process_stats::{ProcessStats, settle};
use request_plan::RequestPlan;
use seeded_rng::SeededRng;

/// A few thousand are enough to detect a leak of some kilobytes per request.
const DEFAULT_REQUESTS: u64 = 4_000;
const DEFAULT_SEED: u64 = 4;
const ROUNDS: u64 = 8;
/// After these rounds all permanent allocations (buffers, pools, the allocator's own) exist.
const WARM_UP_ROUNDS: usize = 3;
const CONCURRENT_CLIENTS: usize = 64;
/// Memory that the allocator may hold at the end in addition to that after the warm-up.
const MAX_MEMORY_GROWTH_MIB: f64 = 8.0;

#[test]
fn many_failing_requests_leak_nothing() {
    let number = |name, usual| std::env::var(name).map_or(usual, |text: String| text.parse().expect(name));
    let (requests, seed) =
        (number("HOSTLER_SOAK_REQUESTS", DEFAULT_REQUESTS), number("HOSTLER_SOAK_SEED", DEFAULT_SEED));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let before = ProcessStats::take(&runtime);
    println!(
        "{requests} requests, seed {seed}, {CONCURRENT_CLIENTS} at a time\n{}\nbefore      {before}",
        ProcessStats::HEAD
    );

    let rounds = runtime.block_on(soak(&runtime, requests, seed, before));

    let after =
        runtime.block_on(settle(&runtime, |now| now.descriptors <= before.descriptors && now.tasks <= before.tasks));
    println!("afterwards  {after}");
    let warm = rounds.iter().take(WARM_UP_ROUNDS).map(|round| round.memory).fold(0.0, f64::max);
    let last = rounds.last().unwrap().memory;
    println!("memory grew by {:.1} MiB since the warm-up", last - warm);
    assert!(
        last - warm <= MAX_MEMORY_GROWTH_MIB,
        "memory is not flat: {warm:.1} MiB after the warm-up, {last:.1} at the end"
    );
}

/// All tasks started here have ended when this returns.
async fn soak(runtime: &Runtime, requests: u64, seed: u64, before: ProcessStats) -> Vec<ProcessStats> {
    let stand_in = MockUpstream::start().await;
    let upstream = AnthropicUpstream::new(AnthropicConfig {
        credential: Arc::new(FixedCredential(Some("sk-soak".into()))),
        ..AnthropicConfig::new(stand_in.url.clone())
    });
    let gateway = Gateway::start(GatewayConfig::new(Upstreams::single(Arc::new(upstream)))).await.unwrap();
    let lease = Lease { session: "soak".to_owned(), chat: "default".to_owned(), upstream: None };
    let registration = gateway.register(lease);
    let bearer: Arc<str> = registration.bearer().expose_secret().into();
    let tickets = Arc::new(AtomicU64::new(0));
    let mut rounds = Vec::new();

    for round in 1..=ROUNDS {
        let end = requests * round / ROUNDS;
        let mut workers = JoinSet::new();
        for _ in 0..CONCURRENT_CLIENTS {
            let mut client = Client::new(gateway.address(), bearer.clone());
            let tickets = tickets.clone();
            workers.spawn(async move {
                loop {
                    let ticket = tickets.fetch_add(1, Ordering::Relaxed);
                    if ticket >= end {
                        break;
                    }
                    let plan = RequestPlan::draw(&mut SeededRng::new(seed, ticket));
                    if let Err(error) = client.play(&plan).await {
                        panic!("request {ticket} ({plan:?}): {error}");
                    }
                }
            });
        }
        while let Some(ended) = workers.join_next().await {
            ended.unwrap();
        }
        // Each worker drew one ticket too many.
        tickets.store(end, Ordering::Relaxed);

        gateway.wait_until_idle().await;
        assert_eq!(gateway.requests_in_flight(), 0);
        // Only the pool may remain: a connection to the upstream with both ends in this process, and a task for each
        // end.
        let (descriptors, tasks) =
            (before.descriptors + 2 * CONCURRENT_CLIENTS + 16, before.tasks + 2 * CONCURRENT_CLIENTS + 16);
        let now = settle(runtime, |now| now.descriptors <= descriptors && now.tasks <= tasks).await;
        println!("{:>9}   {now}", end);
        rounds.push(now);
    }
    println!("usage of the lease: {:?}", registration.usage());
    gateway.stop().await;
    drop((registration, gateway));
    stand_in.stop().await;
    rounds
}
