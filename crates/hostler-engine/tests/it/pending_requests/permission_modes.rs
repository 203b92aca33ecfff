//! Permission modes in a live session.

use hostler_driver::{Answer, CloseMode, DriverEvent, GateDecision};
use hostler_engine::{EngineError, PermissionConfig, SessionConfigRequest};
use serde_json::json;

use crate::common::SESSION;
use crate::pending_requests::helpers::{Bench, bash};

#[tokio::test]
async fn default_mode_allows_reads_in_the_working_directory_and_asks_otherwise() {
    let bench = Bench::start().await;
    let read = async |path: &str| bench.gated("r", "Read", &json!({ "file_path": path })).await;
    assert_eq!(read("src/main.rs").await, GateDecision::Allow);
    assert_eq!(read("/etc/passwd").await, GateDecision::Ask);
    assert_eq!(bench.gated("b", "Bash", &bash("ls")).await, GateDecision::Allow);
    assert_eq!(bench.gated("b", "Bash", &bash("ls && touch x")).await, GateDecision::Ask);
    assert_eq!(bench.gated("w", "Write", &json!({ "file_path": "a.txt", "content": "" })).await, GateDecision::Ask);
    assert_eq!(bench.gated("n", "UnknownTool", &json!({})).await, GateDecision::Ask);
    assert_eq!(bench.gated("m", "mcp__server__tool", &json!({})).await, GateDecision::Ask);
    assert!(matches!(bench.gated("x", "Bash", &json!("no object")).await, GateDecision::Deny(_)));
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn mode_change_applies_during_a_turn_and_reaches_the_agent() {
    let mut bench = Bench::start().await;
    let write = json!({ "file_path": "a.txt", "content": "x" });
    bench.change_mode("acceptEdits").await;
    assert_eq!(bench.agent.permission_modes.recv().await.unwrap(), "acceptEdits");
    bench.listener.until("session/configChanged").await;
    bench.settled().await;
    assert_eq!(bench.gated("w1", "Write", &write).await, GateDecision::Allow);
    assert_eq!(
        bench.gated("w2", "Write", &json!({ "file_path": "../a.txt", "content": "x" })).await,
        GateDecision::Ask
    );
    bench.change_mode("plan").await;
    assert_eq!(bench.agent.permission_modes.recv().await.unwrap(), "plan");
    bench.listener.until("session/configChanged").await;
    bench.settled().await;
    assert!(matches!(bench.gated("w3", "Write", &write).await, GateDecision::Deny(_)));
    assert!(matches!(bench.gated("b1", "Bash", &bash("touch x")).await, GateDecision::Deny(_)));
    assert_eq!(bench.gated("b2", "Bash", &bash("ls")).await, GateDecision::Allow);
    bench.change_mode("dontAsk").await;
    assert_eq!(bench.agent.permission_modes.recv().await.unwrap(), "default", "the gate alone knows this mode");
    bench.listener.until("session/configChanged").await;
    bench.settled().await;
    assert!(matches!(bench.gated("b3", "Bash", &bash("touch x")).await, GateDecision::Deny(_)));
    assert_eq!(bench.rig.starts.open_count(), 1, "nothing was opened again");
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn stricter_mode_decides_pending_calls() {
    let mut bench = Bench::start().await;
    bench.wait_for("c1", "Write", &json!({ "file_path": "a.txt", "content": "x" })).await;
    bench.wait_for("c2", "Bash", &bash("touch x")).await;
    bench.change_mode("plan").await;
    for _ in 0..2 {
        let (_, answer) = bench.agent.next_answer().await;
        assert!(matches!(answer, Answer::Deny { .. }), "{answer:?}");
    }
    bench.listener.until("session/inputNeededRemoved").await;
    bench.listener.until("session/inputNeededRemoved").await;
    assert_eq!(bench.shown("c1")["status"], "cancelled");
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn agent_that_rejects_a_mode_is_closed_and_the_change_rejected() {
    let mut bench = Bench::start().await;
    bench.agent.permission_modes.close();
    bench.change_mode("plan").await;
    bench.listener.until("session/configChanged rejected: the agent did not apply the permission mode").await;
    bench.listener.until("chat/error permissionMode").await;
    assert_eq!(bench.agent.wait_closed().await, CloseMode::Now);
    assert_eq!(bench.session()["config"]["values"]["permissionMode"], "default");
    let bench = Bench::again(bench.rig, "t2").await;
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn bypass_requires_host_permission_and_is_not_sent_to_the_agent() {
    let mut bench = Bench::start().await;
    bench.change_mode("bypassPermissions").await;
    bench.listener.until("session/configChanged rejected: permissionMode cannot be").await;
    let values = [("permissionMode".to_owned(), json!("bypassPermissions"))].into_iter().collect();
    let refused =
        bench.rig.engine.resolve_config(&SessionConfigRequest { values, ..SessionConfigRequest::default() }).await;
    assert!(matches!(refused, Err(EngineError::InvalidParams(_))));
    bench.rig.engine.shutdown().await;

    let mut bench = Bench::with(PermissionConfig { allow_bypass: true, ..PermissionConfig::default() }).await;
    bench.change_mode("bypassPermissions").await;
    bench.listener.until("session/configChanged").await;
    bench.settled().await;
    assert_eq!(bench.gated("b", "Bash", &bash("rm -rf x")).await, GateDecision::Allow);
    assert!(bench.agent.permission_modes.try_recv().is_err(), "it stays in its default mode");
    let rules = "[global]\nversion = 1\nrules = [{ effect = \"deny\", scope = \"global\", rule = \"Bash(rm:*)\" }]\n";
    std::fs::write(bench.rig.state.join("rules.toml"), rules).unwrap();
    assert!(
        matches!(bench.gated("b", "Bash", &bash("rm -rf x")).await, GateDecision::Deny(_)),
        "rules apply nevertheless"
    );

    // A host that no longer allows bypass asks.
    let bench = Bench::again(bench.rig.restart().await, "t2").await;
    assert_eq!(bench.gated("b", "Bash", &bash("touch x")).await, GateDecision::Ask);
    assert_eq!(bench.rig.listed(), [SESSION]);
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn consecutive_mode_changes_are_all_answered_and_the_last_wins() {
    let mut bench = Bench::start().await;
    let write = json!({ "file_path": "a.txt", "content": "x" });
    for mode in ["acceptEdits", "plan", "dontAsk", "default", "acceptEdits"] {
        bench.change_mode(mode).await;
    }
    bench.settled().await;
    assert!(
        matches!(bench.gated("w1", "Write", &write).await, GateDecision::Deny(_)),
        "the strictest requested mode applies at once"
    );
    for expected in ["acceptEdits", "plan", "default", "acceptEdits"] {
        assert_eq!(bench.agent.permission_modes.recv().await.unwrap(), expected);
    }
    for _ in 0..5 {
        bench.listener.until("session/configChanged").await;
    }
    bench.settled().await;
    assert_eq!(bench.session()["config"]["values"]["permissionMode"], "acceptEdits");
    assert_eq!(bench.gated("w2", "Write", &write).await, GateDecision::Allow);
    assert!(bench.agent.permission_modes.try_recv().is_err());
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn rejected_mode_rejects_all_waiting_changes() {
    let mut bench = Bench::start().await;
    bench.agent.permission_modes.close();
    bench.change_mode("plan").await;
    bench.change_mode("acceptEdits").await;
    for _ in 0..2 {
        bench.listener.until("session/configChanged rejected: the agent did not apply the permission mode").await;
    }
    assert_eq!(bench.session()["config"]["values"]["permissionMode"], "default");
    bench.rig.engine.shutdown().await;
}

/// The agent reports a mode: its own change, or a confirmation.
async fn report(bench: &Bench, mode: &str) {
    bench.agent.emit(DriverEvent::PermissionModeChanged(mode.to_owned())).await;
}

async fn choose(bench: &mut Bench, mode: &str) {
    bench.change_mode(mode).await;
    bench.listener.until("session/configChanged").await;
    bench.settled().await;
}

fn mode(bench: &Bench) -> String {
    let values = &bench.session()["config"]["values"];
    assert_eq!(values["permissionMode"] == "plan", values["mode"] == "plan", "{values}");
    values["permissionMode"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn session_follows_the_agent_into_plan_mode_and_back() {
    let mut bench = Bench::start().await;
    let write = json!({ "file_path": "a.txt", "content": "x" });
    bench.wait_for("c1", "Write", &write).await;
    report(&bench, "plan").await;
    bench.listener.until("session/configChanged").await;
    let (_, answer) = bench.agent.next_answer().await;
    assert!(matches!(answer, Answer::Deny { .. }), "what waits is decided by the stricter mode: {answer:?}");
    assert_eq!(mode(&bench), "plan");
    assert!(matches!(bench.gated("w1", "Write", &write).await, GateDecision::Deny(_)));
    assert!(bench.agent.permission_modes.try_recv().is_err(), "the agent is already in this mode");

    bench.change_mode("default").await;
    assert_eq!(bench.agent.permission_modes.recv().await.unwrap(), "default");
    bench.listener.until("session/configChanged").await;
    bench.settled().await;
    report(&bench, "default").await;
    bench.settled().await;
    assert_eq!(mode(&bench), "default");
    assert_eq!(bench.gated("w2", "Write", &write).await, GateDecision::Ask);
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn mode_that_the_agent_chose_is_stored() {
    let mut bench = Bench::start().await;
    report(&bench, "plan").await;
    bench.listener.until("session/configChanged").await;
    let bench = Bench::again(bench.rig.restart().await, "t2").await;
    assert_eq!(mode(&bench), "plan");
    let write = json!({ "file_path": "a.txt", "content": "x" });
    assert!(matches!(bench.gated("w", "Write", &write).await, GateDecision::Deny(_)));
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn looser_mode_of_the_agent_is_reset() {
    let mut bench = Bench::start().await;
    let write = json!({ "file_path": "a.txt", "content": "x" });
    for looser in ["acceptEdits", "bypassPermissions", "auto", "", "unknown"] {
        report(&bench, looser).await;
        assert_eq!(bench.agent.permission_modes.recv().await.unwrap(), "default", "{looser}");
        bench.settled().await;
        assert_eq!(mode(&bench), "default", "{looser}");
        assert_eq!(bench.gated(looser, "Write", &write).await, GateDecision::Ask, "{looser}");
    }
    choose(&mut bench, "plan").await;
    assert_eq!(bench.agent.permission_modes.recv().await.unwrap(), "plan");
    for looser in ["default", "acceptEdits", "dontAsk"] {
        report(&bench, looser).await;
        assert_eq!(bench.agent.permission_modes.recv().await.unwrap(), "plan", "{looser}");
        bench.settled().await;
        assert_eq!(mode(&bench), "plan", "{looser}");
        assert!(matches!(bench.gated(looser, "Write", &write).await, GateDecision::Deny(_)), "{looser}");
    }
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn agent_returns_to_the_chosen_mode_and_is_never_looser_meanwhile() {
    let mut bench = Bench::start().await;
    let write = json!({ "file_path": "a.txt", "content": "x" });
    for (chosen, reported, after) in [
        ("acceptEdits", "acceptEdits", GateDecision::Allow),
        ("acceptEdits", "default", GateDecision::Ask),
        ("default", "default", GateDecision::Ask),
    ] {
        choose(&mut bench, chosen).await;
        report(&bench, "plan").await;
        bench.listener.until("session/configChanged").await;
        bench.settled().await;
        assert!(matches!(bench.gated("w", "Write", &write).await, GateDecision::Deny(_)), "{chosen}");
        report(&bench, reported).await;
        bench.listener.until("session/configChanged").await;
        bench.settled().await;
        assert_eq!(mode(&bench), reported);
        assert_eq!(bench.gated("w", "Write", &write).await, after, "{chosen} {reported}");
    }
    // A mode that the agent does not know applies while it plans, and afterwards.
    choose(&mut bench, "dontAsk").await;
    for _ in 0..2 {
        for reported in ["plan", "default"] {
            report(&bench, reported).await;
            bench.listener.until("session/configChanged").await;
            bench.settled().await;
            assert!(
                matches!(bench.gated("m", "mcp__server__tool", &json!({})).await, GateDecision::Deny(_)),
                "{reported}"
            );
        }
        assert_eq!(mode(&bench), "dontAsk");
    }
    bench.rig.engine.shutdown().await;
}
