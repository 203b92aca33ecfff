//! Local turns: carried out by the host itself, without an agent.

use crate::common::{Listener, Rig, SESSION, dispatch_json};
use ahp_types::state::{SessionLifecycle, TurnState};
use hostler_driver::{DriverEvent, TurnCause, TurnOutcome};
use hostler_engine::default_chat_uri;
use serde_json::{Value, json};

/// The last completed turn, as JSON.
fn last(listener: &Listener) -> Value {
    serde_json::to_value(listener.chat.as_ref().unwrap().turns.last().unwrap()).unwrap()
}

fn queued(id: &str, text: &str, kind: &str) -> hostler_engine::Dispatch {
    let message = json!({"text": text, "origin": {"kind": "user"}});
    let set = json!({"type": "chat/pendingMessageSet", "kind": kind, "id": id, "message": message});
    dispatch_json(&default_chat_uri(SESSION), 0, set, None)
}

#[tokio::test]
async fn command_runs_in_the_session_directory_without_an_agent() {
    let (rig, mut listener) = Rig::with_session().await;
    std::fs::write(rig.work.join("here.txt"), "x").unwrap();
    rig.send_message(SESSION, "t1", "!ls; echo oops >&2; exit 3").await;
    listener.until("chat/turnComplete").await;
    let turn = last(&listener);
    let call = &turn["responseParts"][0]["toolCall"];
    assert_eq!(call["_meta"]["toolKind"], "terminal");
    assert_eq!(call["status"], "completed");
    assert_eq!(call["content"][0]["text"], "here.txt\noops\n");
    assert_eq!(call["structuredContent"], json!({"exitCode": 3}));
    assert_eq!((&call["success"], &call["error"]["message"]), (&json!(false), &json!("exit code 3")));
    assert!(call["toolInput"].as_str().unwrap().contains("exit 3"));
    assert_eq!(turn["state"], "complete");
    assert_eq!(turn.get("usage"), None, "no model was asked");
    assert_eq!(rig.starts.open_count(), 0, "no agent was started");
    assert!(listener.events.contains(&"added".to_owned()), "the session is announced");
    assert_eq!(listener.session.as_ref().unwrap().lifecycle, SessionLifecycle::Ready);
    let log = rig.engine.audit(SESSION, 0, 10).await.unwrap();
    assert_eq!(log.len(), 1);
    let entry = &log[0].entry;
    assert_eq!((entry.decided_by.as_str(), entry.decision.as_str(), entry.tool.as_str()), ("me", "allow", "Bash"));
    assert!(entry.input.contains("echo oops"));

    let rig = rig.restart().await;
    let again = rig.listen(SESSION).await;
    assert_eq!(last(&again), turn, "the turn is restored unchanged");
    assert_eq!(rig.listed(), [SESSION]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn command_output_is_streamed_and_a_cancel_ends_the_command() {
    let (rig, mut listener) = Rig::with_session().await;
    rig.send_message(SESSION, "t1", "!echo first; exec sleep 1000").await;
    listener.until("chat/toolCallContentChanged").await;
    let active = serde_json::to_value(listener.chat.as_ref().unwrap().active_turn.as_ref().unwrap()).unwrap();
    assert_eq!(active["responseParts"][0]["toolCall"]["content"][0]["text"], "first\n");
    rig.send_message(SESSION, "t2", "hello").await;
    listener.until("chat/turnStarted rejected").await;
    rig.cancel(SESSION, "t1").await;
    listener.until("chat/turnCancelled").await;
    let turn = listener.chat.as_ref().unwrap().turns.last().unwrap();
    assert_eq!(turn.state, TurnState::Cancelled);
    // The next command does not wait for it.
    rig.send_message(SESSION, "t2", "!echo second").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(last(&listener)["responseParts"][0]["toolCall"]["content"][0]["text"], "second\n");
    assert_eq!(rig.starts.open_count(), 0);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn deny_rules_apply_to_local_commands_and_modes_do_not() {
    let (rig, mut listener) = Rig::with_session().await;
    let rules =
        "[global]\nversion = 1\nrules = [{ effect = \"deny\", scope = \"global\", rule = \"Bash(touch:*)\" }]\n";
    std::fs::write(rig.state.join("rules.toml"), rules).unwrap();
    rig.send_message(SESSION, "t1", "!touch file").await;
    listener.until("chat/turnComplete").await;
    assert!(!rig.work.join("file").exists());
    let call = last(&listener)["responseParts"][0]["toolCall"].clone();
    assert_eq!((&call["status"], &call["success"]), (&json!("completed"), &json!(false)));
    let entry = rig.engine.audit(SESSION, 0, 10).await.unwrap().remove(0).entry;
    assert_eq!((entry.decided_by.as_str(), entry.decision.as_str()), ("rule", "deny"));
    // An unanalyzable command could be what the rule denies.
    rig.send_message(SESSION, "t1b", "!$(echo touch) sly").await;
    listener.until("chat/turnComplete").await;
    assert!(!rig.work.join("sly").exists());
    let mode = json!({"type": "session/configChanged", "config": {"permissionMode": "dontAsk"}});
    rig.engine.dispatch(dispatch_json(SESSION, 0, mode, None)).await;
    rig.send_message(SESSION, "t2", "!mkdir made").await;
    listener.until("chat/turnComplete").await;
    assert!(rig.work.join("made").exists(), "it is a person's own act");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn rename_is_a_local_turn_and_an_empty_title_changes_nothing() {
    let (rig, mut listener) = Rig::with_session().await;
    rig.send_message(SESSION, "t1", "/rename").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(listener.session.as_ref().unwrap().title, "");
    rig.send_message(SESSION, "t2", "/rename  My   chat ").await;
    listener.until("chat/turnComplete").await;
    let session = listener.session.as_ref().unwrap();
    assert_eq!((session.title.as_str(), session.chats[0].title.as_str()), ("My chat", "My chat"));
    assert!(last(&listener)["responseParts"][0]["content"].as_str().unwrap().contains("My chat"));
    assert_eq!(rig.starts.open_count(), 0);
    for (text, reason) in [("!", "the command is empty"), ("!  ", "the command is empty")] {
        rig.send_message(SESSION, "t3", text).await;
        listener.until("chat/turnStarted rejected").await;
        assert!(listener.events.last().unwrap().contains(reason));
    }
    let rig = rig.restart().await;
    assert_eq!(rig.listen(SESSION).await.session.unwrap().title, "My chat");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn commands_are_queued_like_messages_and_never_sent_to_the_agent() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    rig.engine.dispatch(queued("m1", "!echo queued", "steering")).await;
    listener.until("chat/pendingMessageSet").await;
    assert_eq!(
        listener.chat.as_ref().unwrap().queued_messages.as_ref().unwrap().len(),
        1,
        "a command is not a message for the agent"
    );
    rig.engine.dispatch(queued("m2", "for the agent", "queued")).await;
    listener.until("chat/pendingMessageSet").await;
    let mut agent = agent;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(last(&listener)["responseParts"][0]["toolCall"]["content"][0]["text"], "queued\n");
    assert_eq!(
        agent.next_prompt().await,
        "for the agent",
        "the queue continues, and the agent does not receive the command"
    );
    assert_eq!(rig.engine.audit(SESSION, 0, 10).await.unwrap()[0].entry.decided_by, "queue");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn agent_initiated_work_during_a_local_turn_is_displayed_in_it() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    rig.send_message(SESSION, "t2", "!echo ready; while [ ! -e go ]; do sleep 0.01; done").await;
    listener.until("chat/toolCallContentChanged").await;
    agent.emit(DriverEvent::TurnStarted(TurnCause::Agent("something is done".into()))).await;
    listener.until("chat/responsePart systemNotification").await;
    std::fs::write(rig.work.join("go"), "").unwrap();
    listener.until("chat/toolCallComplete").await;
    agent.emit_answer(2, "by ", "myself").await;
    listener.until("chat/turnComplete").await;
    let turn = last(&listener);
    assert_eq!(turn["id"], "t2");
    assert!(turn.to_string().contains("by myself"), "{turn}");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn command_is_interrupted_by_a_crash_and_not_resumed() {
    let (rig, mut listener) = Rig::with_session().await;
    rig.send_message(SESSION, "t1", "!echo begun; exec sleep 1000").await;
    listener.until("chat/toolCallContentChanged").await;
    let old = rig.engine.clone();
    let rig = rig.crash().await;
    let mut listener = rig.listen(SESSION).await;
    let turn = last(&listener);
    assert_eq!(
        (&turn["state"], &turn["responseParts"][1]["error"]["errorType"]),
        (&json!("error"), &json!("interrupted"))
    );
    let resume = json!({"type": "chat/turnResume", "turnId": "t1"});
    rig.engine.dispatch(dispatch_json(&default_chat_uri(SESSION), 0, resume, None)).await;
    listener.until("chat/turnResume rejected: a command of the host cannot be resumed").await;
    assert_eq!(rig.starts.open_count(), 0);
    rig.engine.shutdown().await;
    old.shutdown().await;
}

#[tokio::test]
async fn shutdown_and_dispose_end_commands() {
    let (rig, mut listener) = Rig::with_session().await;
    rig.send_message(SESSION, "t1", "!echo $$; exec sleep 1000").await;
    listener.until("chat/toolCallContentChanged").await;
    let active = serde_json::to_value(listener.chat.as_ref().unwrap().active_turn.as_ref().unwrap()).unwrap();
    let pid: u32 =
        active["responseParts"][0]["toolCall"]["content"][0]["text"].as_str().unwrap().trim().parse().unwrap();
    assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
    rig.engine.dispose_session(SESSION).await.unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn agent_failure_does_not_end_a_command() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    agent.end_turn(TurnOutcome::Completed { empty: true }).await;
    listener.until("chat/turnComplete").await;
    rig.send_message(SESSION, "t2", "!echo ready; while [ ! -e go ]; do sleep 0.01; done; echo done").await;
    listener.until("chat/toolCallContentChanged").await;
    agent.exit("exit code 1", "").await;
    std::fs::write(rig.work.join("go"), "").unwrap();
    listener.until("chat/turnComplete").await;
    assert_eq!(last(&listener)["responseParts"][0]["toolCall"]["content"][0]["text"], "ready\ndone\n");
    rig.engine.shutdown().await;
}
