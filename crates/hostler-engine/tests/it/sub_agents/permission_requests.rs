//! Requests of sub-agents are displayed in their own chats.

use hostler_driver::{AgentRequestId, Answer, PermissionRequest};

use super::*;

fn asks(agent: &str, call: &str) -> DriverEvent {
    DriverEvent::PermissionRequested(PermissionRequest {
        request_id: AgentRequestId(format!("r-{call}")),
        call_id: call.into(),
        tool: "Bash".into(),
        input: raw(&json!({ "command": "git push" })),
        sub_agent: Some(agent.into()),
        reason: None,
        display: ToolDisplay { name: "Bash".into(), ..ToolDisplay::default() },
    })
}

/// The inputs that the session needs.
pub(super) fn needed(listener: &Listener) -> Vec<Value> {
    let needed = listener.session.as_ref().unwrap().input_needed.iter().flatten();
    needed.map(|request| serde_json::to_value(request).unwrap()).collect()
}

fn answer(listener: &Listener, approved: bool) -> Value {
    let request = &needed(listener)[0];
    json!({ "type": "chat/toolCallConfirmed", "turnId": request["turnId"], "approved": approved,
        "toolCallId": request["toolCall"]["toolCallId"], "confirmed": approved.then_some("user-action"),
        "reason": (!approved).then_some("denied") })
}

fn without_nulls(mut value: Value) -> Value {
    value.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    value
}

#[tokio::test]
async fn request_in_a_sub_agent_chat_is_answered_by_a_session_subscriber() {
    let (rig, mut listener, mut agent) = start_with_sub_agent().await;
    agent.emit(asks(AGENT, "B")).await;
    listener.until("session/inputNeededSet").await;
    let asked = needed(&listener);
    assert_eq!((asked.len(), &asked[0]["chat"]), (1, &json!(chat_of(CALL))));
    assert_eq!(asked[0]["toolCall"]["confirmationTitle"], "A sub-agent wants to use Bash");
    assert_eq!(asked[0]["turnId"], sub_agent_chat(&listener, CALL).active_turn.as_ref().unwrap().id);
    // The request does not exist in the parent's chat.
    rig.engine
        .dispatch(dispatch_json(&default_chat_uri(SESSION), 1, without_nulls(answer(&listener, true)), None))
        .await;
    listener.until("chat/toolCallConfirmed rejected").await;
    rig.engine.dispatch(dispatch_json(&chat_of(CALL), 2, without_nulls(answer(&listener, true)), None)).await;
    let (request, received) = agent.next_answer().await;
    assert_eq!(request.0, "r-B");
    assert!(matches!(received, Answer::Allow { .. }));
    listener.until("session/inputNeededRemoved").await;
    agent.emit(event_of(AGENT, returned("B"))).await;
    listener.until("chat/toolCallComplete").await;
    let turn = serde_json::to_value(sub_agent_chat(&listener, CALL).active_turn.as_ref().unwrap()).unwrap();
    assert_eq!(turn["responseParts"][0]["toolCall"]["status"], "completed");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn background_sub_agent_request_outlives_the_turn() {
    let (rig, mut listener, mut agent) = start_with_sub_agent().await;
    agent.emit(in_background(AGENT, CALL)).await;
    agent.emit(asks(AGENT, "B")).await;
    listener.until("session/inputNeededSet").await;
    agent.emit(returned(CALL)).await;
    agent.emit_answer(8, "do", "ne").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(needed(&listener).len(), 1, "the end of the turn answers no request");
    agent.emit(asks(AGENT, "C")).await;
    listener.until("session/inputNeededSet").await;
    assert_eq!(needed(&listener).len(), 2);
    rig.engine.dispatch(dispatch_json(&chat_of(CALL), 1, without_nulls(answer(&listener, false)), None)).await;
    let (request, received) = agent.next_answer().await;
    assert_eq!(request.0, "r-B");
    assert!(matches!(received, Answer::Deny { .. }));
    // The end of a sub-agent removes its requests.
    agent.emit(finished(AGENT, SubAgentOutcome::Stopped)).await;
    let (request, received) = agent.next_answer().await;
    assert_eq!(request.0, "r-C");
    assert!(matches!(received, Answer::Deny { .. }));
    listener.until("session/inputNeededRemoved").await;
    listener.until("session/inputNeededRemoved").await;
    assert_eq!(needed(&listener), [Value::Null; 0]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn foreground_sub_agent_request_ends_with_the_turn() {
    let (rig, mut listener, agent) = start_with_sub_agent().await;
    agent.emit(asks(AGENT, "B")).await;
    listener.until("session/inputNeededSet").await;
    let late = without_nulls(answer(&listener, true));
    rig.cancel(SESSION, "t1").await;
    listener.until("session/inputNeededRemoved").await;
    assert_eq!(needed(&listener), [Value::Null; 0]);
    rig.engine.dispatch(dispatch_json(&chat_of(CALL), 1, late, None)).await;
    listener.until("chat/toolCallConfirmed rejected").await;
    rig.engine.shutdown().await;
}
