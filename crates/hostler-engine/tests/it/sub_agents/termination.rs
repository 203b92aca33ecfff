//! How sub-agents end.

use super::*;

async fn state_after_restart(rig: Rig) -> (Rig, Listener) {
    let rig = rig.crash().await;
    let mut listener = rig.listen(SESSION).await;
    watch(&rig, &mut listener, CALL).await;
    (rig, listener)
}

fn end_of(listener: &Listener, call: &str) -> (Value, Value) {
    let chat = serde_json::to_value(sub_agent_chat(listener, call)).unwrap();
    assert!(chat["activeTurn"].is_null(), "{chat:#}");
    let turn = &chat["turns"][0];
    let error = turn["responseParts"].as_array().unwrap().iter().find(|part| part["kind"] == "error").cloned();
    (turn["state"].clone(), error.unwrap_or_default())
}

#[tokio::test]
async fn cancel_ends_foreground_sub_agents_only() {
    let (rig, mut listener, agent) = start_with_sub_agent().await;
    start_sub_agent(&agent, "a2", "U").await;
    listener.until("session/chatAdded").await;
    watch(&rig, &mut listener, "U").await;
    agent.emit(in_background("a2", "U")).await;
    listener.until("chat/backgroundWorkSet").await;
    rig.cancel(SESSION, "t1").await;
    listener.until("chat/turnCancelled").await;
    listener.until("chat/turnCancelled").await;
    assert_eq!(end_of(&listener, CALL).0, "cancelled");
    assert!(sub_agent_chat(&listener, "U").active_turn.is_some());
    // Later output of the first one is ignored, output of the other one is published.
    for event in text(7, "late") {
        agent.emit(event_of(AGENT, event)).await;
    }
    for event in text(8, "beside") {
        agent.emit(event_of("a2", event)).await;
    }
    agent.end_turn(TurnOutcome::Interrupted).await;
    agent.emit(finished("a2", SubAgentOutcome::Failed("It could not.".into()))).await;
    listener.until("chat/error subAgent").await;
    assert!(!listener.events.iter().any(|event| event.contains("late")));
    let (state, error) = end_of(&listener, "U");
    assert_eq!(
        (state, &error["error"]["message"], &error["resumable"]),
        (json!("error"), &json!("It could not."), &json!(false))
    );
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn background_work_refers_to_its_chat_and_can_be_stopped() {
    let (rig, mut listener, mut agent) = start_with_sub_agent().await;
    agent.emit(in_background(AGENT, CALL)).await;
    listener.until("chat/backgroundWorkSet").await;
    let work = serde_json::to_value(&listener.chat.as_ref().unwrap().background_work).unwrap();
    assert_eq!(
        (&work[0]["kind"], &work[0]["id"], &work[0]["chat"]),
        (&json!("subagent"), &json!(AGENT), &json!(chat_of(CALL)))
    );
    let engine = rig.engine.clone();
    let stop = tokio::spawn(async move { engine.stop_background_work(&default_chat_uri(SESSION), AGENT).await });
    assert_eq!(agent.stopped_tasks.recv().await.unwrap(), AGENT);
    stop.await.unwrap().unwrap();
    agent.emit(DriverEvent::BackgroundTaskEnded { id: AGENT.into() }).await;
    agent.emit(finished(AGENT, SubAgentOutcome::Stopped)).await;
    listener.until("chat/turnCancelled").await;
    assert_eq!(end_of(&listener, CALL).0, "cancelled");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn agent_crash_ends_its_sub_agents() {
    let (rig, mut listener, agent) = start_with_sub_agent().await;
    agent.emit(in_background(AGENT, CALL)).await;
    agent.exit("signal 9", "").await;
    listener.until("chat/error interrupted").await;
    let (state, error) = end_of(&listener, CALL);
    assert_eq!((state, &error["error"]["errorType"]), (json!("error"), &json!("interrupted")));
    listener.until("chat/error agentExited").await;
    assert!(listener.chat.as_ref().unwrap().background_work.as_ref().is_none_or(Vec::is_empty));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn sub_agent_chats_are_readable_after_a_restart() {
    let (rig, mut listener, agent) = start_with_sub_agent().await;
    for event in text(7, "I look") {
        agent.emit(event_of(AGENT, event)).await;
    }
    agent.emit(finished(AGENT, SubAgentOutcome::Completed)).await;
    listener.until("chat/turnComplete").await;
    agent.emit(returned(CALL)).await;
    agent.emit_answer(8, "do", "ne").await;
    listener.until("chat/turnComplete").await;
    let before = sub_agent_chat(&listener, CALL).clone();
    rig.engine.shutdown().await;
    let (rig, listener) = state_after_restart(rig).await;
    assert_eq!(*sub_agent_chat(&listener, CALL), before);
    assert_eq!(listener.session.as_ref().unwrap().chats.len(), 2);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn host_crash_leaves_no_sub_agent_running() {
    let (rig, mut listener, agent) = start_with_sub_agent().await;
    for event in text(7, "I look") {
        agent.emit(event_of(AGENT, event)).await;
    }
    agent.emit(in_background(AGENT, CALL)).await;
    // After the end of a turn there is a snapshot, in which the sub-agent is still running.
    agent.emit(returned(CALL)).await;
    agent.emit_answer(8, "do", "ne").await;
    listener.until("chat/turnComplete").await;
    for event in text(9, "and look") {
        agent.emit(event_of(AGENT, event)).await;
    }
    listener.until("chat/delta p2 \"and look\"").await;
    rig.engine.stop_background_work(&default_chat_uri(SESSION), "none").await.unwrap_err();
    let (rig, listener) = state_after_restart(rig).await;
    let (state, error) = end_of(&listener, CALL);
    assert_eq!((state, &error["error"]["errorType"]), (json!("error"), &json!("interrupted")));
    let turn = serde_json::to_value(&sub_agent_chat(&listener, CALL).turns[0]).unwrap();
    assert_eq!(turn["responseParts"][0]["content"], "I look");
    assert!(listener.chat.as_ref().unwrap().background_work.as_ref().is_none_or(Vec::is_empty));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn disposing_a_session_removes_its_sub_agent_chats() {
    let (rig, _listener, _agent) = start_with_sub_agent().await;
    rig.engine.dispose_session(SESSION).await.unwrap();
    let (subscriber, _deliveries) = Subscriber::new(8);
    let gone = rig.engine.subscribe_or_wait(&chat_of(CALL), hostler_engine::SnapshotTurns::All, &subscriber, 1).await;
    assert!(matches!(gone, Err(EngineError::ChannelNotFound(_))), "at once: its session is not there");
    rig.engine.shutdown().await;
}
