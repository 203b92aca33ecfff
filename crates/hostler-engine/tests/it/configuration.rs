//! Configuration of sessions and of the host.

use crate::common;
use std::path::Path;
use std::process::Command;

use crate::common::{Options, Rig, SESSION, dispatch_json};
use hostler_engine::{CreateSession, EngineError, ROOT_CHANNEL_URI, SessionConfigRequest};
use serde_json::{Value, json};

fn git(directory: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
    let output = Command::new("git").current_dir(directory).args(identity).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Makes the test's working directory a repository with two branches, on `main`.
fn repository(rig: &Rig) {
    git(&rig.work, &["init", "--quiet", "--initial-branch=main"]);
    git(&rig.work, &["commit", "--quiet", "--allow-empty", "--message=first"]);
    git(&rig.work, &["branch", "feature/Login"]);
}

fn at(rig: &Rig, values: Value) -> SessionConfigRequest {
    let directory = Some(url::Url::from_file_path(&rig.work).unwrap().to_string());
    SessionConfigRequest { provider: Some("claude".into()), directory, values: values.as_object().cloned().unwrap() }
}

async fn values(rig: &Rig, chosen: Value) -> Value {
    Value::Object(rig.engine.resolve_config(&at(rig, chosen)).await.unwrap().values)
}

#[tokio::test]
async fn branch_comes_from_git_and_is_read_only() {
    let rig = Rig::start().await;
    let config = rig.engine.resolve_config(&at(&rig, json!({}))).await.unwrap();
    assert!(!config.schema.properties.contains_key("branch"), "no repository, no branch");
    repository(&rig);
    let config = rig.engine.resolve_config(&at(&rig, json!({"branch": "feature/Login"}))).await.unwrap();
    assert_eq!(config.values["branch"], "main");
    assert_eq!(config.values["isolation"], "folder");
    assert_eq!(config.schema.properties["branch"].read_only, Some(true));
    let refused = rig.engine.resolve_config(&at(&rig, json!({"isolation": "worktree"}))).await;
    assert!(matches!(refused, Err(EngineError::InvalidParams(reason)) if reason.to_string().contains("folder")));
    git(&rig.work, &["checkout", "--quiet", "--detach"]);
    assert_eq!(values(&rig, json!({})).await.get("branch"), None, "between branches");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn property_values_can_be_searched() {
    let rig = Rig::start().await;
    repository(&rig);
    let request = at(&rig, json!({}));
    let search = async |property: &str, query: &str| {
        let items = rig.engine.config_values(&request, property, query).await.unwrap();
        items.into_iter().map(|item| item.value).collect::<Vec<_>>()
    };
    assert_eq!(search("branch", "").await, ["main", "feature/Login"], "the current one first");
    assert_eq!(search("branch", "LOG").await, ["feature/Login"]);
    assert_eq!(search("branch", "nothing").await, [""; 0]);
    assert_eq!(search("model", "").await, ["m", "blind"]);
    assert_eq!(search("model", "bl").await, ["blind"]);
    assert_eq!(search("effort", "m").await, ["medium", "max"]);
    assert_eq!(search("permissionMode", "edits").await, ["acceptEdits"]);
    assert_eq!(search("limitTokens", "").await, [""; 0]);
    assert_eq!(search("nonsense", "").await, [""; 0]);
    let nowhere =
        SessionConfigRequest { directory: Some("file:///does/not/exist".into()), ..SessionConfigRequest::default() };
    assert_eq!(rig.engine.config_values(&nowhere, "branch", "").await.unwrap(), []);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn session_branch_is_updated_every_turn() {
    let mut rig = Rig::start().await;
    repository(&rig);
    rig.create(SESSION);
    let mut listener = rig.listen(SESSION).await;
    let branch = |listener: &common::Listener| {
        listener.session.as_ref().unwrap().config.as_ref().unwrap().values.get("branch").cloned()
    };
    while branch(&listener) != Some(json!("main")) {
        listener.next().await;
    }
    rig.send_message(SESSION, "t1", "hi").await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    git(&rig.work, &["checkout", "--quiet", "feature/Login"]);
    agent.emit_answer(1, "a", "b").await;
    listener.until("session/configChanged").await;
    assert_eq!(branch(&listener), Some(json!("feature/Login")));
    let rig = rig.restart().await;
    assert_eq!(branch(&rig.listen(SESSION).await), Some(json!("feature/Login")));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn vs_code_config_keys_change_the_permission_mode_and_all_three_are_published() {
    let mut rig = Rig::start().await;
    let (mut listener, mut agent) = rig.start_first_turn().await;
    let change = |config: Value, replace: bool| {
        dispatch_json(SESSION, 0, json!({"type": "session/configChanged", "config": config, "replace": replace}), None)
    };
    let now = |listener: &common::Listener| {
        let values = &listener.session.as_ref().unwrap().config.as_ref().unwrap().values;
        ["permissionMode", "mode", "autoApprove"].map(|key| values[key].as_str().unwrap().to_owned())
    };
    assert_eq!(now(&listener), ["default", "interactive", "default"]);
    for (wanted, replace, sent, expected) in [
        (json!({"autoApprove": "assisted"}), false, "acceptEdits", ["acceptEdits", "interactive", "assisted"]),
        (json!({"mode": "plan"}), false, "plan", ["plan", "plan", "assisted"]),
        (json!({"mode": "interactive"}), true, "acceptEdits", ["acceptEdits", "interactive", "assisted"]),
        (json!({"mode": "autopilot"}), false, "default", ["dontAsk", "autopilot", "assisted"]),
    ] {
        rig.engine.dispatch(change(wanted, replace)).await;
        assert_eq!(agent.permission_modes.recv().await.unwrap(), sent, "the agent receives it first");
        listener.until("session/configChanged").await;
        assert_eq!(now(&listener), expected);
    }
    assert_eq!(listener.session.as_ref().unwrap().config.as_ref().unwrap().values["isolation"], "folder");
    for (bad, reason) in [
        (json!({"autoApprove": "autoApprove"}), "autoApprove cannot be"),
        (json!({"isolation": "worktree"}), "cannot be changed"),
        (json!({"model": "unknown"}), "a model that this host offers"),
    ] {
        rig.engine.dispatch(change(bad, false)).await;
        listener.until("session/configChanged rejected").await;
        assert!(listener.events.last().unwrap().contains(reason), "{:?}", listener.events.last());
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn session_model_applies_to_messages_without_a_model() {
    let mut rig = Rig::start().await;
    let config = json!({"model": "m", "effort": "low"}).as_object().cloned();
    rig.engine.create_session(CreateSession { uri: SESSION.into(), config, ..CreateSession::default() }).unwrap();
    let mut listener = rig.listen(SESSION).await;
    rig.send_message(SESSION, "t1", "hi").await;
    let start = rig.starts.next_start().await;
    assert_eq!((start.spec.model.as_str(), start.spec.effort.as_deref()), ("m", Some("low")));
    let mut agent = start.succeed();
    agent.next_prompt().await;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    // Cleared: the agent continues with its present settings.
    let clear = json!({"type": "session/configChanged", "config": {"model": null, "effort": null}});
    rig.engine.dispatch(dispatch_json(SESSION, 0, clear, None)).await;
    listener.until("session/configChanged").await;
    rig.send_message(SESSION, "t2", "again").await;
    let change = agent.policy_changes.recv().await.unwrap();
    assert_eq!(change, hostler_driver::AgentSettingChange::Effort(None));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn client_defaults_are_stored_and_host_settings_override_them() {
    let mut rig = Rig::start().await;
    let write = |config: Value| {
        dispatch_json(ROOT_CHANNEL_URI, 0, json!({"type": "root/configChanged", "config": config}), None)
    };
    let written = json!({"permissionMode": "plan", "effort": "high", "telemetryLevel": "all"});
    rig.engine.dispatch(write(written)).await;
    rig.engine.dispatch(write(json!({"permissionMode": "bypassPermissions", "lost": 1}))).await;
    let root = rig.engine.root_state().await;
    let config = root.config.as_ref().unwrap();
    let expected = json!({"permissionMode": "plan", "effort": "high", "telemetryLevel": "all"});
    assert_eq!(Value::Object(config.values.clone()), expected, "a bad value refuses the whole change");
    assert!(config.schema.properties.contains_key("permissionMode"));
    let now = values(&rig, json!({})).await;
    assert_eq!((&now["permissionMode"], &now["effort"]), (&json!("plan"), &json!("high")));
    assert_eq!(values(&rig, json!({"permissionMode": "dontAsk"})).await["permissionMode"], "dontAsk");

    rig.options = Options {
        session_defaults: json!({"permissionMode": "acceptEdits"}).as_object().cloned().unwrap(),
        ..rig.options
    };
    let rig = rig.restart().await;
    let now = values(&rig, json!({})).await;
    assert_eq!((&now["permissionMode"], &now["effort"]), (&json!("acceptEdits"), &json!("high")));
    assert_eq!(rig.engine.root_state().await.config.as_ref().unwrap().values["telemetryLevel"], "all");
    rig.create(SESSION);
    let listener = rig.listen(SESSION).await;
    assert_eq!(listener.session.unwrap().config.unwrap().values["permissionMode"], "acceptEdits");
    rig.engine.shutdown().await;
}
