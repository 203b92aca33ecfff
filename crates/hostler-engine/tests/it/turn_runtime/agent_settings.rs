//! Settings of live agents, and background work.

use hostler_driver::{AgentSettingChange, BackgroundTask, BackgroundTaskKind, CloseMode, DriverEvent, TurnOutcome};
use hostler_engine::default_chat_uri;
use serde_json::json;

use crate::common::{Rig, SESSION, dispatch_json};

async fn configure(rig: &Rig, config: serde_json::Value) {
    let action = json!({"type": "session/configChanged", "config": config});
    rig.engine.dispatch(dispatch_json(SESSION, 0, action, None)).await;
}

#[tokio::test]
async fn effort_and_thinking_are_applied_before_the_next_message() {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    configure(&rig, json!({"effort": "high", "thinkingBudget": 4000})).await;
    listener.until("session/configChanged").await;
    agent.emit_answer(1, "x", "y").await;
    listener.until("chat/turnComplete").await;
    rig.send_message(SESSION, "t2", "next").await;
    assert_eq!(agent.policy_changes.recv().await, Some(AgentSettingChange::Effort(Some("high".into()))));
    assert_eq!(agent.policy_changes.recv().await, Some(AgentSettingChange::ThinkingBudget(Some(4000))));
    assert_eq!(agent.next_prompt().await, "next");
    assert_eq!(rig.starts.open_count(), 1);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn agent_that_refuses_settings_is_reopened_before_the_next_message() {
    let (mut rig, mut listener, mut agent) = Rig::with_running_turn().await;
    configure(&rig, json!({"effort": "low"})).await;
    agent.emit_answer(1, "x", "y").await;
    listener.until("chat/turnComplete").await;
    agent.policy_changes.close();
    rig.send_message(SESSION, "t2", "next").await;
    assert_eq!(agent.wait_closed().await, CloseMode::Graceful);
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.effort.as_deref(), Some("low"));
    assert_eq!(start.succeed().next_prompt().await, "next");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn invalid_settings_are_refused() {
    let (rig, mut listener) = Rig::with_session().await;
    for (config, reason) in [
        (json!({"effort": "heroic"}), "effort cannot be \"heroic\"; use one of default, low"),
        (json!({"thinkingBudget": -1}), "thinkingBudget cannot be -1; use a whole number"),
        (json!({"thinkingBudget": "much"}), "thinkingBudget cannot be \"much\"; use a whole number"),
    ] {
        configure(&rig, config).await;
        listener.until(&format!("session/configChanged rejected: {reason}")).await;
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn background_work_is_listed_stoppable_and_ends_with_its_agent() {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    for id in ["b1", "b2"] {
        agent
            .emit(DriverEvent::BackgroundTaskChanged(BackgroundTask {
                id: id.into(),
                kind: BackgroundTaskKind::Shell,
                description: "npm test".into(),
                call_id: Some("c1".into()),
            }))
            .await;
        listener.until("chat/backgroundWorkSet").await;
    }
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })).await;
    listener.until("chat/turnComplete").await;
    let chat = default_chat_uri(SESSION);
    rig.engine.stop_background_work(&chat, "b1").await.unwrap();
    assert_eq!(agent.stopped_tasks.recv().await.as_deref(), Some("b1"));
    agent.emit(DriverEvent::BackgroundTaskEnded { id: "b1".into() }).await;
    listener.until("chat/backgroundWorkRemoved").await;
    let refused = rig.engine.stop_background_work(&chat, "b1").await.unwrap_err().to_string();
    assert!(refused.contains("b1"), "{refused}");
    agent.exit("signal 9", "").await;
    listener.until("chat/backgroundWorkRemoved").await;
    assert_eq!(listener.chat.as_ref().unwrap().background_work.iter().flatten().count(), 0);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn additional_directories_are_passed_to_the_next_agent() {
    let (mut rig, mut listener, agent) = Rig::with_running_turn().await;
    let more = tempfile::tempdir().unwrap();
    let uri = url::Url::from_file_path(more.path()).unwrap().to_string();
    let first = listener.session.as_ref().unwrap().working_directories.clone().unwrap()[0].clone();
    for (action, directory, refusal) in [
        ("Set", "file:///does/not/exist", "the directory /does/not/exist does not exist"),
        ("Set", "https://example.com/", "\"https://example.com/\" is not a file URI"),
        ("Removed", first.as_str(), "the first working directory of a session cannot be removed"),
        ("Removed", uri.as_str(), "the directory is not a working directory of this session"),
    ] {
        let action = json!({"type": format!("session/workingDirectory{action}"), "directory": directory});
        rig.engine.dispatch(dispatch_json(SESSION, 0, action.clone(), None)).await;
        listener.until(&format!("{} rejected: {refusal}", action["type"].as_str().unwrap())).await;
    }
    let action = json!({"type": "session/workingDirectorySet", "directory": uri});
    rig.engine.dispatch(dispatch_json(SESSION, 0, action, None)).await;
    listener.until("session/workingDirectorySet").await;
    agent.emit_answer(1, "x", "y").await;
    listener.until("chat/turnComplete").await;
    rig.send_message(SESSION, "t2", "next").await;
    assert_eq!(agent.wait_closed().await, CloseMode::Graceful, "never under a running turn");
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.additional_directories, [more.path()]);
    assert_eq!(start.succeed().next_prompt().await, "next");
    rig.engine.shutdown().await;
}
