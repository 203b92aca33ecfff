//! Sub-agents, for a client that subscribes to the session and none of its chats.

use crate::common::{Raw, rig};
use hostler_driver::{
    AgentRequestId, Answer, DriverEvent, PermissionRequest, Prompt, SubAgentEvent, SubAgentId, SubAgentStart,
    ToolDisplay,
};
use hostler_engine::{default_chat_uri, sub_agent_chat_uri};
use serde_json::value::RawValue;
use serde_json::{Value, json};

const SESSION: &str = "claude:/0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a369f";

fn answer(needed: &Value) -> Value {
    json!({"type": "chat/toolCallConfirmed", "turnId": needed["turnId"], "approved": true, "confirmed": "user-action",
        "toolCallId": needed["toolCall"]["toolCallId"]})
}

#[tokio::test]
async fn a_client_subscribed_to_the_session_only_answers_and_receives_the_rejection() {
    let mut rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    raw.call("createSession", json!({"channel": SESSION})).await.unwrap();
    raw.call("subscribe", json!({"channel": SESSION})).await.unwrap();
    let message = json!({"text": "hi", "origin": {"kind": "user"}});
    let started = json!({"type": "chat/turnStarted", "turnId": "t1", "startedAt": "2026-11-15T08:00:00.000Z", "message": message});
    raw.dispatch(&default_chat_uri(SESSION), started).await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    let start = SubAgentStart {
        call_id: "c1".into(),
        parent_id: None,
        kind: None,
        description: "looks around".into(),
        prompt: Prompt::new("look"),
    };
    agent.emit(DriverEvent::SubAgent { agent: SubAgentId("a1".into()), event: SubAgentEvent::Started(start) }).await;
    agent
        .emit(DriverEvent::PermissionRequested(PermissionRequest {
            request_id: AgentRequestId("r1".into()),
            call_id: "c2".into(),
            tool: "Bash".into(),
            input: RawValue::from_string(json!({"command": "git push"}).to_string()).unwrap().into(),
            sub_agent: Some("a1".into()),
            reason: None,
            display: ToolDisplay { name: "Bash".into(), ..ToolDisplay::default() },
        }))
        .await;
    let needed = raw.envelope("session/inputNeededSet").await["action"]["request"].clone();
    let worker = sub_agent_chat_uri(SESSION, "c1");
    assert_eq!(needed["chat"], worker);
    raw.dispatch(&worker, answer(&needed)).await;
    let (request, said) = agent.next_answer().await;
    assert_eq!(request.0, "r1");
    assert!(matches!(said, Answer::Allow { .. }));
    raw.envelope("session/inputNeededRemoved").await;

    raw.dispatch(&worker, answer(&needed)).await;
    let refused = raw.envelope("chat/toolCallConfirmed").await;
    assert_eq!(refused["channel"], worker);
    let reason = refused["rejectionReason"].as_str().unwrap();
    assert!(reason.contains("the request is no longer pending"), "{reason}");
    // It arrives once: a subscriber of the channel receives it there.
    raw.call("subscribe", json!({"channel": worker})).await.unwrap();
    raw.dispatch(&worker, answer(&needed)).await;
    raw.envelope("chat/toolCallConfirmed").await;
    raw.dispatch(SESSION, json!({"type": "session/titleChanged", "title": "behind"})).await;
    loop {
        let next = raw.receive().await.unwrap();
        assert_ne!(next["params"]["action"]["type"], "chat/toolCallConfirmed", "it is delivered twice");
        if next["params"]["action"]["type"] == "session/titleChanged" {
            break;
        }
    }
    rig.engine.shutdown().await;
}
