//! Several clients of one session: all receive each action, only the requester receives an answer, and the first answer
//! wins.

use crate::common::{Raw, Rig, rig};
use hostler_driver::{AgentRequestId, DriverEvent, PermissionRequest, ToolDisplay};
use hostler_engine::default_chat_uri;
use serde_json::{Value, json};

const SESSION: &str = "claude:/0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a369f";

async fn client(rig: &Rig, name: &str, channels: &[&str]) -> Raw {
    let mut raw = Raw::connect(rig);
    raw.call("initialize", json!({"protocolVersions": ["1.0.0"], "clientId": name})).await.unwrap();
    for channel in channels {
        raw.call("subscribe", json!({"channel": channel})).await.unwrap();
    }
    raw
}

fn started(turn: &str, text: &str) -> Value {
    json!({"type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-11-15T08:00:00Z",
           "message": {"text": text, "origin": {"kind": "user"}}})
}

#[tokio::test]
async fn actions_reach_all_subscribers_and_no_other_session() {
    let mut rig = rig().await;
    let chat = default_chat_uri(SESSION);
    let mut maker = client(&rig, "maker", &[]).await;
    maker.call("createSession", json!({"channel": SESSION})).await.unwrap();
    maker.call("createSession", json!({"channel": "claude:/other"})).await.unwrap();
    let mut one = client(&rig, "one", &[SESSION, &chat]).await;
    let mut two = client(&rig, "two", &[SESSION, &chat]).await;
    let mut other = client(&rig, "other", &["claude:/other"]).await;
    for (raw, name) in [(&mut one, "one"), (&mut two, "two")] {
        let active = json!({"type": "session/activeClientSet", "activeClient": {"clientId": name, "tools": []}});
        raw.dispatch(SESSION, active).await;
    }
    one.dispatch(&chat, started("t1", "hi")).await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    agent.emit_answer(1, "a", "b").await;
    let mut received = Vec::new();
    for raw in [&mut one, &mut two] {
        raw.envelope("chat/turnComplete").await;
        let envelopes = raw.received.iter().filter(|message| message["method"] == "action");
        received.push(envelopes.map(|message| message["params"].clone()).collect::<Vec<_>>());
    }
    let of_chat = |all: &[Value]| all.iter().filter(|e| e["channel"] == chat).cloned().collect::<Vec<_>>();
    assert_eq!(of_chat(&received[0]), of_chat(&received[1]), "the same, in the same order, under the same numbers");
    let start = &of_chat(&received[1])[0];
    assert_eq!(start["origin"]["clientId"], "one", "all clients receive the origin");
    let state = two.call("subscribe", json!({"channel": SESSION})).await.unwrap();
    assert_eq!(state["snapshot"]["state"]["activeClients"].as_array().unwrap().len(), 2);
    other.call("ping", json!({})).await.unwrap();
    assert!(!other.received.iter().any(|message| message["method"] == "action"), "{:#?}", other.received);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn the_first_of_two_answers_wins_and_the_second_is_rejected_with_a_reason() {
    let mut rig = rig().await;
    let chat = default_chat_uri(SESSION);
    let mut one = client(&rig, "one", &[]).await;
    one.call("createSession", json!({"channel": SESSION})).await.unwrap();
    one.call("subscribe", json!({"channel": chat})).await.unwrap();
    let mut two = client(&rig, "two", &[&chat]).await;
    one.dispatch(&chat, started("t1", "hi")).await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    let input = serde_json::value::to_raw_value(&json!({"command": "make"})).unwrap();
    agent
        .emit(DriverEvent::PermissionRequested(PermissionRequest {
            request_id: AgentRequestId("r1".into()),
            call_id: "c1".into(),
            tool: "Bash".into(),
            input: input.into(),
            display: ToolDisplay::default(),
            reason: None,
            sub_agent: None,
        }))
        .await;
    one.envelope("chat/toolCallReady").await;
    two.envelope("chat/toolCallReady").await;
    let answer = |approved: bool| {
        let mut answer =
            json!({"type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": "c1", "approved": approved});
        answer[if approved { "confirmed" } else { "reason" }] = json!(if approved { "user-action" } else { "denied" });
        answer
    };
    two.dispatch(&chat, answer(false)).await;
    let first = two.envelope("chat/toolCallConfirmed").await;
    assert_eq!(first.get("rejectionReason"), None);
    one.dispatch(&chat, answer(true)).await;
    assert_eq!(one.envelope("chat/toolCallConfirmed").await["serverSeq"], first["serverSeq"], "both receive the first");
    let late = one.envelope("chat/toolCallConfirmed").await;
    assert!(!late["rejectionReason"].as_str().unwrap().is_empty());
    let (_, answer) = agent.next_answer().await;
    assert!(matches!(answer, hostler_driver::Answer::Deny { .. }), "{answer:?}");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_burst_of_configuration_changes_is_accepted_echoed_and_stored() {
    let rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    for number in 0..34 {
        // All of them have the same client sequence number.
        let config = json!({format!("setting{number}"): {"nested": [number]}});
        let params = json!({"channel": "ahp-root://", "clientSeq": 0,
                            "action": {"type": "root/configChanged", "config": config}});
        raw.send(&json!({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}).to_string()).await;
    }
    for number in 0..34 {
        let echo = raw.envelope("root/configChanged").await;
        assert_eq!(echo["action"]["config"], json!({format!("setting{number}"): {"nested": [number]}}));
        assert_eq!((echo.get("rejectionReason"), &echo["origin"]["clientSeq"]), (None, &json!(0)));
    }
    let rig = rig.restart().await;
    let mut raw = Raw::initialized(&rig).await;
    let root = raw.call("subscribe", json!({"channel": "ahp-root://"})).await.unwrap();
    let config = &root["snapshot"]["state"]["config"];
    assert_eq!(config["values"].as_object().unwrap().len(), 34);
    assert_eq!(config["values"]["setting33"], json!({"nested": [33]}));
    assert_eq!(config["schema"]["properties"]["permissionMode"]["default"], "default");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn completions_and_annotations_work_over_the_wire() {
    let rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    raw.call("createSession", json!({"channel": SESSION})).await.unwrap();
    let chat = default_chat_uri(SESSION);
    let ask = |text: &str, offset: i64| json!({"channel": chat, "kind": "userMessage", "text": text, "offset": offset});
    let items = raw.call("completions", ask("/ren", 4)).await.unwrap();
    assert_eq!(items["items"][0]["insertText"], "/rename");
    assert_eq!(items["items"][0]["attachment"]["type"], "simple");
    assert_eq!(raw.code("completions", ask("/ren", 9)).await, -32602);
    let newer = json!({"channel": chat, "kind": "commitMessage", "text": "@", "offset": 1});
    assert_eq!(raw.call("completions", newer).await.unwrap(), json!({"items": []}));
    let values = raw.call("sessionConfigCompletions", json!({"property": "effort", "query": "hi"})).await.unwrap();
    assert_eq!(values["items"][0]["value"], "high");

    let channel = format!("{SESSION}/annotations");
    let there = raw.call("subscribe", json!({"channel": channel})).await.unwrap();
    assert_eq!(there["snapshot"]["state"], json!({"annotations": []}));
    let annotation = json!({"id": "a", "origin": {"session": SESSION}, "resource": "file:///x", "resolved": false,
                            "entries": [{"id": "1", "text": "why?"}]});
    raw.dispatch(&channel, json!({"type": "annotations/set", "annotation": annotation})).await;
    assert_eq!(raw.envelope("annotations/set").await.get("rejectionReason"), None);
    raw.dispatch(&channel, json!({"type": "annotations/removed", "annotationId": "b"})).await;
    let refused = raw.envelope("annotations/removed").await;
    assert!(refused["rejectionReason"].as_str().unwrap().contains("no annotation"));
    raw.call("subscribe", json!({"channel": SESSION})).await.unwrap();
    raw.dispatch(SESSION, json!({"type": "annotations/removed", "annotationId": "a"})).await;
    let refused = raw.envelope("annotations/removed").await;
    assert!(refused["rejectionReason"].as_str().unwrap().contains("does not belong"), "{refused}");
    rig.engine.shutdown().await;
}
