//! Answers whose permanent rule is stored slowly: the session continues meanwhile.

use hostler_driver::{AgentRequestId, Answer, GateDecision};
use hostler_testkit::stalled_disk::{StalledDisk, run_with_stallable_disk};
use serde_json::Value;

use crate::common::SESSION;
use crate::pending_requests::helpers::{Bench, bash, chosen, no, yes};

/// A call whose permanent approval waits for the disk.
async fn answered(bench: &mut Bench) -> StalledDisk {
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    let stall = StalledDisk::start().await;
    bench.confirm("me", chosen("c1", true, "allow-always-1")).await;
    stall
}

#[test]
fn another_answer_loses_and_other_calls_are_answered_while_a_rule_is_stored() {
    run_with_stallable_disk(async {
        let mut bench = Bench::start().await;
        let stall = answered(&mut bench).await;
        // A reconnected client repeats its answer.
        bench.confirm("me", chosen("c1", true, "allow-always-1")).await;
        bench.confirm("you", no("c1")).await;
        bench.listener.until("chat/toolCallConfirmed rejected: the request is no longer pending").await;
        assert_eq!(bench.shown("c1")["status"], "pending-confirmation", "its rule is not stored yet");
        bench.wait_for("c2", "Bash", &bash("make")).await;
        bench.confirm("you", yes("c2")).await;
        let answer = bench.agent.next_answer().await;
        assert!(matches!(&answer, (AgentRequestId(id), Answer::Allow { .. }) if id == "r-c2"), "{answer:?}");
        drop(stall);
        let answer = bench.agent.next_answer().await;
        assert!(matches!(&answer, (AgentRequestId(id), Answer::Allow { .. }) if id == "r-c1"), "{answer:?}");
        assert_eq!(bench.gated("c3", "Bash", &bash("git push")), GateDecision::Allow, "the rule is stored");
        bench.settled().await;
        let rejected =
            bench.listener.events.iter().filter(|event| event.starts_with("chat/toolCallConfirmed rejected"));
        assert_eq!(rejected.count(), 2, "the repetition is not rejected");
        bench.rig.engine.shutdown().await;
    });
}

#[test]
fn a_rule_that_is_stored_slowly_does_not_delay_a_cancel() {
    run_with_stallable_disk(async {
        let mut bench = Bench::start().await;
        let stall = answered(&mut bench).await;
        bench.rig.cancel(SESSION, "t1").await;
        bench.listener.until("chat/turnCancelled").await;
        bench.agent.wait_interrupted().await;
        drop(stall);
        bench.listener.until("chat/toolCallConfirmed rejected: the request is no longer pending").await;
        assert_eq!(bench.session()["inputNeeded"], Value::Null);
        bench.rig.engine.shutdown().await;
    });
}
