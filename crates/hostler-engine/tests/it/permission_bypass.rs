//! Property test: permissions cannot be bypassed, with a whole host and arbitrary agents and clients.
//!
//! After every step: the agent received an approval only for a request that was displayed as pending and that one
//! accepted confirmation named, or that the rules and the mode of that moment allowed; it received at most one answer
//! per request; and denied calls have not run.

mod expected_policy;
mod model;
mod observer;
mod steps;

use std::cell::RefCell;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

use self::model::{Tally, World};
use crate::common::{Options, Rig, SHORT_INTERRUPT_GRACE};

/// Maximum duration of a step on a busy machine.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);

#[test]
fn unapproved_tool_calls_never_run() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // One host for all cases, each with a session of its own; a failed case may leave the host in any state.
    let rig = RefCell::new(None);
    let tally = RefCell::new(Vec::<Tally>::new());
    let config = ProptestConfig { cases: 256, max_shrink_iters: 400, failure_persistence: None, ..Default::default() };
    let steps = prop::collection::vec(steps::any_step(), 1..24);
    let result = TestRunner::new(config).run(&steps, |steps| {
        runtime.block_on(async {
            let host = match rig.take() {
                Some(host) => host,
                None => Rig::start_with(Options { interrupt_grace: SHORT_INTERRUPT_GRACE, ..Options::default() }).await,
            };
            let mut world = World::begin(host).await;
            for step in &steps {
                let taken = tokio::time::timeout(STEP_TIMEOUT, world.take(step)).await;
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
    if let Err(error) = result {
        panic!("{error}");
    }
    // The cases cover both approvals and denials.
    let sum = |count: fn(&Tally) -> usize| tally.borrow().iter().map(count).sum::<usize>();
    let sums = [sum(|t| t.allowed_by_people), sum(|t| t.allowed_by_policy), sum(|t| t.denied)];
    assert!(sums.iter().all(|sum| *sum >= 10), "too little was answered: {sums:?}");
}
