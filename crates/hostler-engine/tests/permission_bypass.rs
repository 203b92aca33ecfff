//! No way around the permissions: a whole host under agents and clients that do anything in any order.
//!
//! After every step, whatever it was: the agent heard a yes only for a request that was shown as waiting and that one
//! accepted confirmation named, or that the rules and the mode of that moment allowed; it heard at most one answer to a
//! request; and what was denied has not run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;
#[path = "permission_bypass/expected_policy.rs"]
mod expected_policy;
#[path = "permission_bypass/model.rs"]
mod model;
#[path = "permission_bypass/observer.rs"]
mod observer;
#[path = "permission_bypass/steps.rs"]
mod steps;

use std::cell::RefCell;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

use self::common::Rig;
use self::model::{Tally, World};

/// How long a step may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn whatever_agents_and_clients_do_nothing_runs_that_nobody_allowed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // One host for all stories, each with a session of its own; a story that fails may leave it in any state.
    let rig = RefCell::new(None);
    let tally = RefCell::new(Vec::<Tally>::new());
    let config = ProptestConfig { cases: 256, max_shrink_iters: 400, failure_persistence: None, ..Default::default() };
    let story = prop::collection::vec(steps::any_step(), 1..24);
    let verdict = TestRunner::new(config).run(&story, |story| {
        runtime.block_on(async {
            let host = match rig.take() {
                Some(host) => host,
                None => Rig::start().await,
            };
            let mut world = World::begin(host).await;
            for step in &story {
                let taken = tokio::time::timeout(PATIENCE, world.take(step)).await;
                taken.map_err(|_| TestCaseError::fail(format!("{step:?} does not end")))??;
            }
            let (host, answered) = world.end().await?;
            rig.replace(Some(host));
            tally.borrow_mut().push(answered);
            Ok(())
        })
    });
    if let Some(host) = rig.take() {
        runtime.block_on(host.engine.shutdown());
    }
    if let Err(error) = verdict {
        panic!("{error}");
    }
    // The stories are about something.
    let sum = |count: fn(&Tally) -> usize| tally.borrow().iter().map(count).sum::<usize>();
    let sums = [sum(|t| t.allowed_by_people), sum(|t| t.allowed_by_policy), sum(|t| t.denied)];
    assert!(sums.iter().all(|sum| *sum >= 10), "too little was answered: {sums:?}");
}
