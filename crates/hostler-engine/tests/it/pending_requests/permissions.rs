//! Permission requests for tool calls.

use hostler_driver::{AgentRequestId, Answer, DriverEvent, GateDecision, GatedCall, ToolOutcome};
use hostler_engine::{PermissionConfig, UnattendedAnswer, UnattendedPolicy};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{SESSION, message};
use crate::pending_requests::helpers::{Bench, bash, chosen, finished, gated, no, permission, raw, yes};

#[tokio::test]
async fn call_is_pending_with_options_and_runs_after_approval() {
    let mut bench = Bench::start().await;
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    let call = bench.shown("c1");
    assert_eq!(call["status"], "pending-confirmation", "{call:#}");
    assert_eq!((&call["editable"], &call["toolInput"]), (&json!(true), &json!(r#"{"command":"git push"}"#)));
    let ids: Vec<_> = call["options"].as_array().unwrap().iter().map(|option| option["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["allow-once", "allow-session", "allow-always-1", "allow-always-2", "deny", "deny-with-feedback"]);
    let needed = &bench.session()["inputNeeded"][0];
    assert_eq!((&needed["kind"], &needed["toolCall"]["toolCallId"]), (&json!("toolConfirmation"), &json!("c1")));
    assert_eq!(bench.chat()["status"].as_u64().unwrap() & 24, 24, "input is needed");

    bench.confirm("me", yes("c1")).await;
    let (request, answer) = bench.agent.next_answer().await;
    assert_eq!(request, AgentRequestId("r-c1".into()));
    assert!(matches!(answer, Answer::Allow { input: None }), "{answer:?}");
    bench.listener.until("session/inputNeededRemoved").await;
    assert_eq!(
        (&bench.shown("c1")["status"], &bench.shown("c1")["confirmed"]),
        (&json!("running"), &json!("user-action"))
    );
    assert!(bench.session()["inputNeeded"].is_null());
    bench.agent.emit(finished("c1", ToolOutcome::Succeeded, "pushed")).await;
    bench.end().await;
    let call = bench.shown("c1");
    assert_eq!((&call["status"], &call["content"][0]["text"]), (&json!("completed"), &json!("pushed")), "{call:#}");
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn first_answer_wins_and_the_second_is_rejected_with_a_reason() {
    let mut bench = Bench::start().await;
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    tokio::join!(bench.confirm("one", no("c1")), bench.confirm("two", yes("c1")));
    bench.listener.until("chat/toolCallConfirmed rejected: the request is no longer pending").await;
    let (_, answer) = bench.agent.next_answer().await;
    let denied = matches!(answer, Answer::Deny { .. });
    let status = if denied { "cancelled" } else { "running" };
    assert_eq!(bench.shown("c1")["status"], status, "all clients see the answer that the agent received");
    bench.end().await;
    assert!(bench.agent.answers.try_recv().is_err(), "the agent receives one answer");
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn answers_that_do_not_fit_the_pending_call_are_rejected() {
    let mut bench = Bench::start().await;
    bench.confirm("me", yes("c1")).await;
    bench.listener.until("chat/toolCallConfirmed rejected").await;
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    for (wrong, reason) in [
        (yes("c2"), "the request is no longer pending"),
        (
            ahp_types::actions::ChatToolCallConfirmedAction { turn_id: "t0".into(), ..yes("c1") },
            "the request is no longer pending",
        ),
        (chosen("c1", true, "deny"), "the selected option contradicts the answer"),
        (chosen("c1", false, "allow-once"), "the selected option contradicts the answer"),
        (chosen("c1", true, "allow-everything"), "the request has no option"),
    ] {
        bench.confirm("me", wrong).await;
        bench.listener.until(&format!("chat/toolCallConfirmed rejected: {reason}")).await;
    }
    for wrong in ["[]", "7", "{", "\"x\""] {
        let edited = Some(wrong.to_owned());
        let confirmation = ahp_types::actions::ChatToolCallConfirmedAction { edited_tool_input: edited, ..yes("c1") };
        bench.confirm("me", confirmation).await;
        bench.listener.until("chat/toolCallConfirmed rejected: the edited input is not").await;
    }
    assert_eq!(bench.shown("c1")["status"], "pending-confirmation");
    assert!(bench.agent.answers.try_recv().is_err(), "the agent has received no answer");
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn answer_after_a_cancel_is_rejected_and_nothing_stays_pending() {
    let mut bench = Bench::start().await;
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    bench.rig.cancel(SESSION, "t1").await;
    bench.agent.wait_interrupted().await;
    bench.confirm("me", yes("c1")).await;
    bench.listener.until("chat/toolCallConfirmed rejected: the request is no longer pending").await;
    assert_eq!(bench.shown("c1")["status"], "cancelled");
    assert!(bench.session()["inputNeeded"].is_null());
    // A request of an interrupting agent is not left pending.
    bench.ask("late", "c2", "Bash", &bash("rm x")).await;
    let (request, answer) = bench.agent.next_answer().await;
    assert_eq!(request, AgentRequestId("late".into()));
    assert!(matches!(answer, Answer::Deny { .. }), "{answer:?}");
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn withdrawn_request_is_removed_for_all_clients() {
    let mut bench = Bench::start().await;
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    bench.agent.emit(DriverEvent::RequestWithdrawn(AgentRequestId("r-c1".into()))).await;
    bench.listener.until("session/inputNeededRemoved").await;
    let call = bench.shown("c1");
    assert_eq!((&call["status"], &call["reason"]), (&json!("cancelled"), &json!("skipped")), "{call:#}");
    bench.confirm("me", yes("c1")).await;
    bench.listener.until("chat/toolCallConfirmed rejected: the request is no longer pending").await;
    bench.end().await;
    bench.rig.engine.shutdown().await;
    assert!(bench.audit().await.iter().any(|row| row.entry.decision == "withdrawn"));
}

#[tokio::test]
async fn request_for_a_finished_call_is_removed() {
    for outcome in [ToolOutcome::Succeeded, ToolOutcome::Failed, ToolOutcome::Denied] {
        let mut bench = Bench::start().await;
        bench.wait_for("c1", "Bash", &bash("git push")).await;
        bench.agent.emit(finished("c1", outcome, "out")).await;
        bench.listener.until("session/inputNeededRemoved").await;
        let (request, answer) = bench.agent.next_answer().await;
        assert_eq!(request, AgentRequestId("r-c1".into()));
        assert!(matches!(answer, Answer::Deny { .. }), "{answer:?}");
        bench.confirm("me", yes("c1")).await;
        bench.listener.until("chat/toolCallConfirmed rejected: the request is no longer pending").await;
        assert!(bench.agent.answers.try_recv().is_err(), "the agent receives one answer");
        bench.rig.engine.shutdown().await;
    }
}

#[tokio::test]
async fn request_outlives_its_clients_and_is_answered_after_a_reconnect() {
    let mut bench = Bench::start().await;
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    bench.rig.engine.remove_subscriber(bench.listener.subscriber.id());
    bench.listener = bench.rig.listen(SESSION).await;
    assert_eq!(bench.session()["inputNeeded"][0]["toolCall"]["toolCallId"], "c1");
    assert_eq!(bench.shown("c1")["status"], "pending-confirmation");
    bench.confirm("another client", yes("c1")).await;
    assert!(matches!(bench.agent.next_answer().await.1, Answer::Allow { .. }));
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn no_request_is_pending_after_an_agent_or_host_crash() {
    let mut bench = Bench::start().await;
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    bench.agent.exit("signal 9", "").await;
    bench.listener.until("chat/error agentExited").await;
    bench.listener.until("session/inputNeededRemoved").await;

    let mut bench = Bench::again(bench.rig, "t2").await;
    bench.wait_for("c2", "Bash", &bash("git push")).await;
    let old = bench.rig.engine.clone();
    let rig = bench.rig.crash().await;
    let mut listener = rig.listen(SESSION).await;
    while listener.chat.as_ref().unwrap().active_turn.is_some()
        || listener.session.as_ref().unwrap().input_needed.is_some()
    {
        listener.next().await;
    }
    let chat = serde_json::to_value(listener.chat.as_ref().unwrap()).unwrap();
    assert_eq!(chat["turns"][1]["state"], "error", "{chat:#}");
    assert!(!chat.to_string().contains("pending-confirmation"), "{chat:#}");
    rig.engine.shutdown().await;
    old.shutdown().await;
}

#[tokio::test]
async fn edited_input_replaces_the_agent_input() {
    let mut bench = Bench::start().await;
    bench.wait_for("c1", "Bash", &bash("git push --force")).await;
    let edited = Some(r#"{"command":"git push"}"#.to_owned());
    bench
        .confirm("me", ahp_types::actions::ChatToolCallConfirmedAction { edited_tool_input: edited, ..yes("c1") })
        .await;
    let (_, answer) = bench.agent.next_answer().await;
    let Answer::Allow { input: Some(input) } = answer else { panic!("{answer:?}") };
    assert_eq!(input.get(), r#"{"command":"git push"}"#);
    bench.listener.until("session/inputNeededRemoved").await;
    assert_eq!(bench.shown("c1")["toolInput"], r#"{"command":"git push"}"#);
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn long_edited_input_is_stored_as_a_blob() {
    let mut bench = Bench::start().await;
    let long = "x".repeat(40_000);
    bench.wait_for("c1", "Write", &json!({ "file_path": "a.txt", "content": long })).await;
    let before = bench.shown("c1")["toolInput"]["uri"].as_str().unwrap().to_owned();
    let content = bench.rig.engine.content(&before).await.unwrap();
    assert!(content.body.len() > 40_000 && content.content_type == "application/json");
    let edited = json!({ "file_path": "a.txt", "content": "y".repeat(50_000) }).to_string();
    let confirmation =
        ahp_types::actions::ChatToolCallConfirmedAction { edited_tool_input: Some(edited.clone()), ..yes("c1") };
    bench.confirm("me", confirmation).await;
    let (_, answer) = bench.agent.next_answer().await;
    let Answer::Allow { input: Some(input) } = answer else { panic!("{answer:?}") };
    assert_eq!(input.get(), edited);
    bench.listener.until("session/inputNeededRemoved").await;
    let call = bench.shown("c1");
    assert_eq!(call["status"], "running");
    let after = call["toolInput"]["uri"].as_str().unwrap();
    assert_eq!(bench.rig.engine.content(after).await.unwrap().body, edited.into_bytes());
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn denial_carries_the_feedback() {
    let mut bench = Bench::start().await;
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    let suggestion = Some(message("commit first", None));
    let confirmation = ahp_types::actions::ChatToolCallConfirmedAction {
        reason_message: Some("not yet".into()),
        user_suggestion: suggestion,
        ..chosen("c1", false, "deny-with-feedback")
    };
    bench.confirm("me", confirmation).await;
    let (_, answer) = bench.agent.next_answer().await;
    let Answer::Deny { message } = answer else { panic!("{answer:?}") };
    assert_eq!(message, "not yet\ncommit first");
    bench.listener.until("session/inputNeededRemoved").await;
    assert_eq!(bench.shown("c1")["status"], "cancelled");
    // The agent's later report about the call changes nothing.
    bench.agent.emit(finished("c1", ToolOutcome::Denied, "not yet")).await;
    bench.end().await;
    assert_eq!(bench.listener.events.iter().filter(|event| event.starts_with("chat/toolCallConfirmed")).count(), 1);
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn session_rule_decides_pending_calls_and_survives_a_restart() {
    let mut bench = Bench::start().await;
    let push = bash("git push");
    assert_eq!(bench.gated("c0", "Bash", &push).await, GateDecision::Ask);
    bench.wait_for("c1", "Bash", &push).await;
    bench.wait_for("c2", "Bash", &push).await;
    bench.wait_for("c3", "Bash", &bash("git pull")).await;
    bench.confirm("me", chosen("c1", true, "allow-session")).await;
    for _ in 0..2 {
        assert!(matches!(bench.agent.next_answer().await.1, Answer::Allow { .. }));
    }
    bench.listener.until("session/inputNeededRemoved").await;
    bench.listener.until("session/inputNeededRemoved").await;
    assert_eq!(bench.shown("c2")["confirmed"], "setting");
    assert_eq!(bench.shown("c3")["status"], "pending-confirmation");
    assert_eq!(bench.gated("c4", "Bash", &push).await, GateDecision::Allow);
    assert_eq!(bench.gated("c5", "Bash", &bash("git push --force")).await, GateDecision::Ask);

    let mut rig = bench.rig.restart().await;
    rig.create("claude:/another");
    let bench = Bench::again(rig, "t2").await;
    assert_eq!(bench.gated("c6", "Bash", &push).await, GateDecision::Allow);
    rig = bench.rig;
    rig.send_message("claude:/another", "t1", "go").await;
    let start = rig.starts.next_start().await;
    let decision = gated(&start.spec.permission_gate, "x", "Bash", &push).await;
    assert_eq!(decision, GateDecision::Ask, "another session has its own rules");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn permanent_rule_applies_to_other_sessions_and_survives_a_restart() {
    let mut bench = Bench::start().await;
    bench.wait_for("c1", "Bash", &bash("npm run lint")).await;
    bench.confirm("me", chosen("c1", true, "allow-always-1")).await;
    assert!(matches!(bench.agent.next_answer().await.1, Answer::Allow { .. }));
    assert_eq!(bench.gated("c2", "Bash", &bash("npm run lint")).await, GateDecision::Allow);
    let mut rig = bench.rig.restart().await;
    rig.create("claude:/another");
    rig.send_message("claude:/another", "t1", "go").await;
    let start = rig.starts.next_start().await;
    let (input, sub_agent) = (raw(&bash("npm run lint")), Some("helper".to_owned()));
    let call = GatedCall { call_id: "x".into(), tool: "Bash".into(), input, sub_agent, cwd: None };
    assert_eq!(Arc::clone(&start.spec.permission_gate).decide(call).await, GateDecision::Allow);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn unstorable_rule_is_rejected_and_the_call_stays_pending() {
    let mut bench = Bench::start().await;
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    std::fs::write(bench.rig.state.join("rules.toml"), "nonsense = [").unwrap();
    bench.confirm("me", chosen("c1", true, "allow-always-1")).await;
    bench.listener.until("chat/toolCallConfirmed rejected: permission rules are unavailable").await;
    assert_eq!(bench.shown("c1")["status"], "pending-confirmation");
    assert_eq!(
        bench.gated("c2", "Read", &json!({ "file_path": "a.txt" })).await,
        GateDecision::Ask,
        "nothing is allowed meanwhile"
    );
    bench.confirm("me", yes("c1")).await;
    assert!(matches!(bench.agent.next_answer().await.1, Answer::Allow { .. }));
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn deny_rule_overrides_an_approval() {
    let mut bench = Bench::start().await;
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    let rules =
        "[global]\nversion = 1\nrules = [{ effect = \"deny\", scope = \"global\", rule = \"Bash(git push:*)\" }]\n";
    std::fs::write(bench.rig.state.join("rules.toml"), rules).unwrap();
    bench.confirm("me", yes("c1")).await;
    bench.listener.until("chat/toolCallConfirmed rejected: the call cannot be allowed").await;
    let edited = Some(r#"{"command":"git push --all"}"#.to_owned());
    bench.wait_for("c2", "Bash", &bash("git pull")).await;
    bench
        .confirm("me", ahp_types::actions::ChatToolCallConfirmedAction { edited_tool_input: edited, ..yes("c2") })
        .await;
    bench.listener.until("chat/toolCallConfirmed rejected: the call cannot be allowed").await;
    assert!(bench.agent.answers.try_recv().is_err());
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn second_request_for_a_pending_call_is_denied() {
    let mut bench = Bench::start().await;
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    bench.ask("again", "c1", "Bash", &bash("rm -rf /")).await;
    let (request, answer) = bench.agent.next_answer().await;
    assert_eq!(request, AgentRequestId("again".into()));
    assert!(matches!(answer, Answer::Deny { .. }), "{answer:?}");
    bench.ask("r-c1", "c2", "Bash", &bash("rm -rf /")).await;
    assert!(matches!(bench.agent.next_answer().await.1, Answer::Deny { .. }), "nor is one request two");
    assert_eq!(bench.shown("c1")["toolInput"], r#"{"command":"git push"}"#, "the call shows the requested input");
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn sub_agent_request_is_displayed_as_a_separate_call() {
    let mut bench = Bench::start().await;
    let mut request = permission("r1", "sub1", "Bash", &bash("touch made"));
    request.sub_agent = Some("helper".into());
    bench.agent.emit(DriverEvent::PermissionRequested(request)).await;
    bench.listener.until("session/inputNeededSet").await;
    let call = bench.shown("sub1");
    assert_eq!((&call["status"], &call["toolName"]), (&json!("pending-confirmation"), &json!("Bash")), "{call:#}");
    bench.confirm("me", yes("sub1")).await;
    assert!(matches!(bench.agent.next_answer().await.1, Answer::Allow { .. }));
    bench.end().await;
    assert_eq!(bench.shown("sub1")["status"], "completed", "its own result is the sub-agent's business");
    bench.rig.engine.shutdown().await;
    let audit = bench.audit().await;
    assert!(
        audit.iter().any(|row| row.entry.sub_agent.as_deref() == Some("helper") && row.entry.decided_by == "me"),
        "{audit:?}"
    );
}

#[tokio::test]
async fn every_decision_is_audited_with_source_and_reason() {
    let mut bench = Bench::start().await;
    assert_eq!(bench.gated("c1", "Read", &json!({ "file_path": "a.txt" })).await, GateDecision::Allow);
    assert_eq!(bench.gated("c2", "Bash", &bash("API_TOKEN=hush git push")).await, GateDecision::Ask);
    assert_eq!(bench.gated("c2", "Bash", &bash("API_TOKEN=hush git push")).await, GateDecision::Ask);
    bench.wait_for("c2", "Bash", &bash("API_TOKEN=hush git push")).await;
    bench.confirm("ada", yes("c2")).await;
    bench.agent.next_answer().await;
    bench.rig.engine.shutdown().await;
    let audit = bench.audit().await;
    let lines: Vec<_> =
        audit.iter().map(|row| &row.entry).map(|e| (&*e.tool_call_id, &*e.decision, &*e.decided_by)).collect();
    assert_eq!(lines, [("c1", "allow", "mode"), ("c2", "ask", "mode"), ("c2", "allow", "ada")]);
    let exported = serde_json::to_string(&audit).unwrap();
    assert!(!exported.contains("hush") && exported.contains("git push"), "{exported}");
}

#[tokio::test]
async fn unanswered_request_is_denied_after_the_timeout() {
    let unattended = UnattendedPolicy::DenyAfter(Duration::from_millis(10));
    let mut bench = Bench::with(PermissionConfig { unattended, ..PermissionConfig::default() }).await;
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    let (_, answer) = bench.agent.next_answer().await;
    let Answer::Deny { message } = answer else { panic!("{answer:?}") };
    assert!(message.starts_with("Denied: no answer in time"), "{message}");
    bench.listener.until("session/inputNeededRemoved").await;
    assert_eq!(bench.shown("c1")["status"], "cancelled");
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn automatic_answer_obeys_the_rules() {
    let unattended = UnattendedPolicy::Answer(UnattendedAnswer::Allow);
    let mut bench = Bench::with(PermissionConfig { unattended, ..PermissionConfig::default() }).await;
    bench.wait_for("c1", "Bash", &bash("git push")).await;
    assert!(matches!(bench.agent.next_answer().await.1, Answer::Allow { .. }));
    bench.end().await;
    bench.rig.engine.shutdown().await;
    let audit = bench.audit().await;
    assert!(audit.iter().any(|row| row.entry.decided_by == "unattended" && row.entry.decision == "allow"), "{audit:?}");
}
