//! Sub-agents while the store rejects their actions, and sub-agents that clients stop.

use super::*;

/// Makes the store reject actions of a type until the test ends it.
struct Refusing(rusqlite::Connection);

impl Refusing {
    fn begin(rig: &Rig, kind: &str) -> Self {
        let store = rusqlite::Connection::open(rig.state.join("hostler.db")).unwrap();
        let refuse = format!(
            "CREATE TRIGGER refuse BEFORE INSERT ON journal WHEN NEW.body LIKE '%\"{kind}\"%'
             BEGIN SELECT RAISE(ABORT, 'refused'); END"
        );
        store.execute_batch(&refuse).unwrap();
        Self(store)
    }

    fn end(self) {
        self.0.execute_batch("DROP TRIGGER refuse").unwrap();
    }
}

/// Waits until all earlier events of the agent are processed.
async fn seen(listener: &mut Listener, agent: &FakeAgent, part: u64) {
    for event in text(part, "meanwhile") {
        agent.emit(event).await;
    }
    while !listener.next().await.contains("meanwhile") {}
}

async fn stop(rig: &Rig, call: &str, seq: i64, turn: &str) {
    let action = json!({ "type": "chat/turnCancelled", "turnId": turn, "duration": 5 });
    rig.engine.dispatch(dispatch_json(&chat_of(call), seq, action, None)).await;
}

#[tokio::test]
async fn rejected_end_is_stored_later() {
    let (rig, mut listener, agent) = start_with_sub_agent().await;
    let refusing = Refusing::begin(&rig, "chat/turnComplete");
    agent.emit(finished(AGENT, SubAgentOutcome::Completed)).await;
    seen(&mut listener, &agent, 7).await;
    assert!(sub_agent_chat(&listener, CALL).active_turn.is_some(), "nothing is published before it is stored");
    refusing.end();
    listener.until("chat/turnComplete").await;
    assert_eq!(serde_json::to_value(sub_agent_chat(&listener, CALL).turns[0].state).unwrap(), "complete");
    assert!(listener.chat.as_ref().unwrap().active_turn.is_some(), "the parent continues");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn rejected_start_is_published_later() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    let refusing = Refusing::begin(&rig, "session/chatAdded");
    start_sub_agent(&agent, AGENT, CALL).await;
    seen(&mut listener, &agent, 7).await;
    assert_eq!(listener.session.as_ref().unwrap().chats.len(), 1);
    refusing.end();
    for event in text(8, "I look") {
        agent.emit(event_of(AGENT, event)).await;
    }
    listener.until("session/chatAdded").await;
    watch(&rig, &mut listener, CALL).await;
    agent.emit(finished(AGENT, SubAgentOutcome::Completed)).await;
    listener.until("chat/turnComplete").await;
    let turn = serde_json::to_value(&sub_agent_chat(&listener, CALL).turns[0]).unwrap();
    assert_eq!(turn["responseParts"][0]["content"], "I look");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn sub_agent_without_a_chat_is_mentioned_in_the_parent_chat() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    let refusing = Refusing::begin(&rig, "session/chatAdded");
    start_sub_agent(&agent, AGENT, CALL).await;
    agent.emit(finished(AGENT, SubAgentOutcome::Completed)).await;
    seen(&mut listener, &agent, 7).await;
    refusing.end();
    let chat = serde_json::to_value(listener.chat.as_ref().unwrap()).unwrap();
    assert!(chat["activeTurn"].to_string().contains("The work of a sub-agent is not displayed"), "{chat:#}");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn background_sub_agent_is_stopped_in_its_own_chat() {
    let (rig, mut listener, mut agent) = start_with_sub_agent().await;
    for event in call("N", "Agent") {
        agent.emit(event_of(AGENT, event)).await;
    }
    agent.emit(started("a3", "N", Some(AGENT))).await;
    listener.until("session/chatAdded").await;
    watch(&rig, &mut listener, "N").await;
    agent.emit(in_background(AGENT, CALL)).await;
    listener.until("chat/backgroundWorkSet").await;
    let turn = sub_agent_chat(&listener, CALL).active_turn.as_ref().unwrap().id.clone();
    stop(&rig, CALL, 1, "another").await;
    listener.until("chat/turnCancelled rejected: another turn is running").await;
    // A nested sub-agent cannot be stopped by a client.
    let inner = sub_agent_chat(&listener, "N").active_turn.as_ref().unwrap().id.clone();
    stop(&rig, "N", 2, &inner).await;
    listener.until(&format!("chat/turnCancelled rejected: the turn {turn:?} of {} waits", chat_of(CALL))).await;
    stop(&rig, CALL, 3, &turn).await;
    listener.until("chat/turnCancelled").await;
    listener.until("chat/turnCancelled").await;
    let state = |call| serde_json::to_value(sub_agent_chat(&listener, call).turns[0].state).unwrap();
    assert_eq!([state(CALL), state("N")], ["cancelled", "cancelled"]);
    assert_eq!(agent.stopped_tasks.recv().await.as_deref(), Some(AGENT));
    // Its later output is ignored, and its end is not published twice.
    for event in text(7, "late") {
        agent.emit(event_of(AGENT, event)).await;
    }
    agent.emit(DriverEvent::BackgroundTaskEnded { id: AGENT.into() }).await;
    agent.emit(finished(AGENT, SubAgentOutcome::Stopped)).await;
    listener.until("chat/backgroundWorkRemoved").await;
    seen(&mut listener, &agent, 8).await;
    assert!(!listener.events.iter().any(|event| event.contains("late")));
    assert!(listener.chat.as_ref().unwrap().active_turn.is_some(), "the parent continues");
    stop(&rig, CALL, 4, &turn).await;
    listener.until("chat/turnCancelled rejected: no turn is running").await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn foreground_sub_agent_cannot_be_stopped_in_its_own_chat() {
    let (rig, mut listener, _agent) = start_with_sub_agent().await;
    let turn = sub_agent_chat(&listener, CALL).active_turn.as_ref().unwrap().id.clone();
    stop(&rig, CALL, 1, &turn).await;
    let parent = default_chat_uri(SESSION);
    listener.until(&format!("chat/turnCancelled rejected: the turn \"t1\" of {parent} waits")).await;
    assert!(sub_agent_chat(&listener, CALL).active_turn.is_some());
    rig.engine.shutdown().await;
}
