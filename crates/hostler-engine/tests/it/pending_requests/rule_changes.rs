//! Rules that change while calls are pending.

use hostler_driver::{AgentRequestId, Answer, DriverEvent};
use hostler_rules::{Effect, Rule, RuleScope, RuleStore};

use crate::pending_requests::helpers::{Bench, bash, chosen, permission};

const OTHER: &str = "claude:/7d1c3c5e-8f2b-4a36-9f61-0e8f2b4a3700";

fn rule(effect: Effect, text: &str) -> Rule {
    Rule::parse(effect, RuleScope::Global, text).unwrap()
}

#[tokio::test]
async fn external_rule_change_decides_pending_calls() {
    let mut bench = Bench::start().await;
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    bench.wait_for("c2", "Bash", &bash("touch a")).await;
    bench.wait_for("c3", "Bash", &bash("touch b")).await;
    // A separate rule store, as in another process.
    let book = RuleStore::open(&bench.rig.state).unwrap();
    let rules = [rule(Effect::Allow, "Bash(git push)"), rule(Effect::Deny, "Bash(touch a)")];
    book.add(None, &rules).unwrap();
    let (first, second) = (bench.agent.next_answer().await, bench.agent.next_answer().await);
    assert!(matches!(first.1, Answer::Allow { input: None }), "{first:?}");
    let Answer::Deny { message } = &second.1 else { panic!("{second:?}") };
    assert!(message.contains("Bash(touch a)"), "{message}");
    bench.settled().await;
    assert_eq!(bench.shown("c2")["status"], "cancelled");
    assert_eq!(bench.shown("c3")["status"], "pending-confirmation", "no rule is about it");
    book.add(Some(&bench.rig.work), &[rule(Effect::Allow, "Bash(touch:*)")]).unwrap();
    assert!(matches!(bench.agent.next_answer().await, (AgentRequestId(id), Answer::Allow { .. }) if id == "r-c3"));
    bench.rig.engine.shutdown().await;
    let audit = bench.audit().await;
    let by_rule: Vec<_> =
        audit.iter().filter(|row| row.entry.decided_by == "rule").map(|row| &*row.entry.tool_call_id).collect();
    assert_eq!(by_rule, ["c1", "c2", "c3"], "{audit:?}");
}

#[tokio::test]
async fn permanent_rule_of_one_session_decides_pending_calls_of_another() {
    let mut bench = Bench::start().await;
    bench.rig.create(OTHER);
    let mut listener = bench.rig.listen(OTHER).await;
    bench.rig.send_message(OTHER, "t1", "go").await;
    let mut other = bench.rig.starts.next_start().await.succeed();
    other.next_prompt().await;
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    other.emit(DriverEvent::PermissionRequested(permission("r-o", "o1", "Bash", &bash("git push")))).await;
    listener.until("session/inputNeededSet").await;
    bench.confirm("me", chosen("c1", true, "allow-always-1")).await;
    assert!(matches!(bench.agent.next_answer().await.1, Answer::Allow { .. }));
    assert!(matches!(other.next_answer().await, (AgentRequestId(id), Answer::Allow { .. }) if id == "r-o"));
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn broken_rules_file_allows_no_pending_call() {
    let mut bench = Bench::start().await;
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    std::fs::write(bench.rig.state.join("rules.toml"), "nonsense = [").unwrap();
    // This request is published after the gate has seen the change.
    bench.wait_for("c2", "Bash", &bash("git pull")).await;
    bench.settled().await;
    for call in ["c1", "c2"] {
        assert_eq!(bench.shown(call)["status"], "pending-confirmation");
    }
    let book =
        "[global]\nversion = 1\nrules = [{ effect = \"allow\", scope = \"global\", rule = \"Bash(git pull)\" }]\n";
    std::fs::write(bench.rig.state.join("rules.toml"), book).unwrap();
    assert!(matches!(bench.agent.next_answer().await, (AgentRequestId(id), Answer::Allow { .. }) if id == "r-c2"));
    bench.rig.engine.shutdown().await;
}
