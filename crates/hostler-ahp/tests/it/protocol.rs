//! The protocol's rules, with raw JSON over an in-memory connection.

use crate::common::{Raw, rig};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hostler_driver::{
    AgentRequestId, Answer, BackgroundTask, BackgroundTaskKind, DriverEvent, PermissionRequest, Prompt, SubAgentEvent,
    SubAgentId, SubAgentStart, ToolDisplay, ToolOutcome,
};
use hostler_engine::{default_chat_uri, sub_agent_chat_uri};
use serde_json::{Value, json};

const SESSION: &str = "claude:/0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a369f";

#[tokio::test]
async fn initialize_answers_with_the_version_and_the_root_snapshot() {
    let rig = rig().await;
    let mut raw = Raw::connect(&rig);
    let params = json!({"channel": "ahp-root://", "protocolVersions": ["0.9.0", "1.0.0"], "clientId": "c",
                        "initialSubscriptions": ["ahp-root://", "claude:/unknown", "nonsense"]});
    let result = raw.call("initialize", params).await.unwrap();
    assert_eq!(result["protocolVersion"], "1.0.0");
    assert_eq!(result["serverInfo"]["name"], "hostler");
    assert!(result["defaultDirectory"].as_str().unwrap().starts_with("file:///"));
    let snapshots = result["snapshots"].as_array().unwrap();
    assert_eq!(snapshots.len(), 1, "unknown channels give no snapshot and no error");
    assert_eq!(snapshots[0]["resource"], "ahp-root://");
    let agent = &snapshots[0]["state"]["agents"][0];
    assert_eq!(agent["provider"], "claude");
    assert_eq!(agent["models"][0]["id"], "m");
    assert_eq!(agent["models"][0]["maxContextWindow"], 7);
    assert!(agent.get("protectedResources").is_none());
    assert_eq!(raw.code("initialize", json!({"protocolVersions": ["1.0.0"], "clientId": "c"})).await, -32601);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn only_ping_initialize_and_reconnect_are_answered_before_initialize() {
    let rig = rig().await;
    let mut raw = Raw::connect(&rig);
    assert_eq!(raw.call("ping", json!({})).await, Ok(Value::Null));
    assert_eq!(raw.code("listSessions", json!({})).await, -32601);
    let reconnect = json!({"clientId": "x", "lastSeenServerSeq": 3, "subscriptions": []});
    assert_eq!(raw.code("reconnect", reconnect).await, -32008, "without a channel, as VS Code sends it");
    assert_eq!(raw.code("initialize", json!({"clientId": "c"})).await, -32602);
    assert_eq!(raw.code("initialize", json!({"protocolVersions": ["1.0.0"], "clientId": ""})).await, -32602);
    raw.send("{oops").await;
    assert_eq!(raw.receive().await.unwrap()["error"]["code"], -32700);
    let result = raw.call("initialize", json!({"protocolVersions": ["1.0.0"], "clientId": "c"})).await.unwrap();
    assert_eq!(result["snapshots"], json!([]));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_client_of_an_unsupported_version_gets_an_error_and_is_disconnected() {
    let rig = rig().await;
    let mut raw = Raw::connect(&rig);
    let error =
        raw.call("initialize", json!({"protocolVersions": ["0.8.0", "0.7.0"], "clientId": "c"})).await.unwrap_err();
    assert_eq!(error["code"], -32005);
    assert_eq!(error["data"]["supportedVersions"], json!(["^1.0.0", "^0.9.0"]));
    let sentence = error["message"].as_str().unwrap();
    assert!(sentence.contains("0.8.0") && sentence.contains("VS Code: 1.136"), "{sentence}");
    assert_eq!(raw.receive().await, None);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn unknown_requests_are_answered_with_method_not_found() {
    let rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    for method in ["shutdown", "_vscodeUpgrade", "getNetworkDiagnosticsInfo", "", "ピング"] {
        assert_eq!(raw.code(method, json!({"channel": "x"})).await, -32601, "{method}");
    }
    for params in [json!({}), json!({"resource": "https://api.github.com", "token": "x"}), json!({"resource": 7})] {
        assert_eq!(raw.code("authenticate", params).await, -32602, "no upstream that needs a sign-in");
    }
    assert_eq!(raw.code("subscribe", json!(7)).await, -32602);
    assert_eq!(raw.code("subscribe", json!({"channel": "claude:/unknown"})).await, -32001);
    assert_eq!(raw.code("disposeSession", json!({"channel": "claude:/unknown"})).await, -32001);
    raw.send(r#"{"jsonrpc":"2.0","id":"a string","method":"ping"}"#).await;
    assert_eq!(raw.receive().await.unwrap()["id"], "a string");
    raw.send(r#"{"jsonrpc":"2.0","method":"setClientManagedSettingsPermissions","params":{}}"#).await;
    assert_eq!(raw.call("ping", json!({})).await, Ok(Value::Null), "notifications are never answered");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn create_session_refuses_invalid_requests() {
    let rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    let fork = json!({"channel": SESSION, "fork": {"session": "claude:/x", "turnId": "t"}});
    assert_eq!(raw.code("createSession", fork).await, -32602);
    assert_eq!(raw.code("createSession", json!({"channel": "codex:/1"})).await, -32002);
    assert_eq!(raw.code("createSession", json!({"channel": SESSION, "provider": "codex"})).await, -32002);
    let gone = json!({"channel": SESSION, "workingDirectories": ["file:///does/not/exist"]});
    assert_eq!(raw.code("createSession", gone).await, -32602);
    assert_eq!(raw.call("createSession", json!({"channel": SESSION})).await, Ok(Value::Null));
    assert_eq!(raw.code("createSession", json!({"channel": SESSION})).await, -32003);
    let list = raw.call("listSessions", json!({})).await.unwrap();
    assert_eq!(list, json!({"items": []}), "provisional sessions are not listed");
    assert_eq!(raw.code("listSessions", json!({"cursor": "!"})).await, -32602);
    for limit in [0, -1] {
        assert_eq!(raw.code("listSessions", json!({"limit": limit})).await, -32602);
    }
    assert_eq!(raw.call("disposeSession", json!({"channel": SESSION})).await, Ok(Value::Null));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn the_session_configuration_is_resolved_without_side_effects() {
    let rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    let result = raw.call("resolveSessionConfig", json!({"provider": "claude"})).await.unwrap();
    assert_eq!(result["values"]["permissionMode"], "default");
    assert_eq!(result["schema"]["type"], "object");
    let plan = json!({"config": {"permissionMode": "plan"}});
    assert_eq!(raw.call("resolveSessionConfig", plan).await.unwrap()["values"]["permissionMode"], "plan");
    assert_eq!(raw.code("resolveSessionConfig", json!({"config": {"permissionMode": "bypass"}})).await, -32602);
    assert_eq!(raw.code("resolveSessionConfig", json!({"provider": "codex"})).await, -32002);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn subscribe_is_answered_before_newer_envelopes() {
    let mut rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    let chat = default_chat_uri(SESSION);
    // Pipelined: the client does not wait for answers.
    raw.send(&json!({"id": 100, "method": "createSession", "params": {"channel": SESSION}}).to_string()).await;
    raw.send(&json!({"id": 101, "method": "subscribe", "params": {"channel": SESSION}}).to_string()).await;
    raw.send(&json!({"id": 102, "method": "subscribe", "params": {"channel": chat}}).to_string()).await;
    let message = json!({"text": "hi", "origin": {"kind": "user"}});
    let action =
        json!({"type": "chat/turnStarted", "turnId": "t1", "startedAt": "2026-11-15T08:00:00Z", "message": message});
    raw.dispatch(&chat, action).await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "hi");
    agent.emit_answer(1, "a", "b").await;
    let end = raw.envelope("chat/turnComplete").await;
    assert_eq!(end["channel"], chat);

    let position = |what: &dyn Fn(&Value) -> bool| raw.received.iter().position(what).unwrap();
    let snapshot = position(&|message| message["id"] == 102);
    let started = position(&|message| message["params"]["action"]["type"] == "chat/turnStarted");
    assert!(snapshot < started);
    let from = raw.received[snapshot]["result"]["snapshot"]["fromSeq"].as_u64().unwrap();
    assert!(raw.received[started]["params"]["serverSeq"].as_u64().unwrap() > from);
    assert_eq!(raw.received[started]["params"]["origin"], json!({"clientId": "raw", "clientSeq": 1}));
    let added = position(&|message| message["method"] == "root/sessionAdded");
    assert_eq!(raw.received[added]["params"]["summary"]["resource"], SESSION);
    let numbers: Vec<_> = raw.received.iter().filter_map(|message| message["params"]["serverSeq"].as_u64()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn forbidden_unknown_and_malformed_actions_are_rejected_with_a_reason() {
    let rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    raw.call("createSession", json!({"channel": SESSION})).await.unwrap();
    let chat = default_chat_uri(SESSION);
    raw.call("subscribe", json!({"channel": SESSION})).await.unwrap();
    raw.call("subscribe", json!({"channel": chat})).await.unwrap();
    let cases = [
        (&*chat, json!({"type": "chat/delta", "turnId": "t", "partId": "p", "content": "x"}), "only hosts send it"),
        (SESSION, json!({"type": "session/ready"}), "only hosts send it"),
        (&*chat, json!({"type": "chat/fromTheFuture", "x": 1}), "does not know"),
        (&*chat, json!({"type": "chat/turnStarted", "turnId": "t"}), "malformed"),
        (SESSION, json!({"type": "chat/turnCancelled", "turnId": "t", "duration": 1}), "does not belong"),
        (&*chat, json!({"type": "chat/turnCancelled", "turnId": "t", "duration": 1.5}), "no turn is running"),
    ];
    for (channel, action, reason) in cases {
        raw.dispatch(channel, action.clone()).await;
        let envelope = raw.envelope(action["type"].as_str().unwrap()).await;
        assert!(envelope["rejectionReason"].as_str().unwrap().contains(reason), "{envelope:#}");
        assert_eq!(envelope["origin"]["clientSeq"], raw.seq);
    }
    // Unknown channels and undecodable dispatches are ignored; the connection stays open.
    raw.dispatch("claude:/unknown", json!({"type": "session/ready"})).await;
    raw.dispatch("", json!({"type": "x"})).await;
    raw.send(r#"{"method":"dispatchAction","params":[1]}"#).await;
    raw.send(r#"{"method":"dispatchAction"}"#).await;
    raw.send(r#"{"method":"unsubscribe","params":7}"#).await;
    assert_eq!(raw.call("ping", json!({})).await, Ok(Value::Null));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn an_unsubscribed_channel_is_silent() {
    let mut rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    raw.call("createSession", json!({"channel": SESSION})).await.unwrap();
    let chat = default_chat_uri(SESSION);
    raw.call("subscribe", json!({"channel": chat})).await.unwrap();
    raw.send(&json!({"method": "unsubscribe", "params": {"channel": chat}}).to_string()).await;
    let message = json!({"text": "hi", "origin": {"kind": "user"}});
    let action =
        json!({"type": "chat/turnStarted", "turnId": "t1", "startedAt": "2026-11-15T08:00:00Z", "message": message});
    raw.dispatch(&chat, action).await;
    let _agent = rig.starts.next_start().await.succeed();
    // The root channel still announces the new session; the chat's channel is silent.
    while raw.receive().await.unwrap()["method"] != "root/sessionAdded" {}
    assert!(raw.received.iter().all(|message| message["method"] != "action"));
    rig.engine.shutdown().await;
}

fn turn(id: &str) -> Value {
    let message = json!({"text": "hi", "origin": {"kind": "user"}});
    json!({"type": "chat/turnStarted", "turnId": id, "startedAt": "2026-11-15T08:00:00Z", "message": message})
}

#[tokio::test]
async fn a_client_of_version_0_9_is_served() {
    let rig = rig().await;
    let mut raw = Raw::connect(&rig);
    let offers = json!(["0.9.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"]);
    let result = raw.call("initialize", json!({"protocolVersions": offers, "clientId": "code"})).await.unwrap();
    assert_eq!(result["protocolVersion"], "0.9.0");
    raw.call("createSession", json!({"channel": SESSION})).await.unwrap();
    let state = raw.call("subscribe", json!({"channel": SESSION})).await.unwrap();
    assert_eq!(state["snapshot"]["state"]["defaultChat"], default_chat_uri(SESSION));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_client_of_version_0_9_keeps_its_version_after_a_restart() {
    let rig = rig().await;
    let mut raw = Raw::connect(&rig);
    let hello = json!({"protocolVersions": ["0.9.0", "0.7.0"], "clientId": "code"});
    let seen = raw.call("initialize", hello).await.unwrap()["serverSeq"].clone();
    drop(raw);
    let mut rig = rig.restart().await;
    for _ in 0..2 {
        let mut back = Raw::connect(&rig);
        let params = json!({"clientId": "code", "lastSeenServerSeq": seen, "subscriptions": ["ahp-root://"]});
        back.call("reconnect", params).await.unwrap();
        back.call("ping", json!({})).await.unwrap();
        assert_eq!(rig.engine.client_metadata("code").as_deref(), Some("0.9.0"), "stored again for the next reconnect");
        rig = rig.restart().await;
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_reconnecting_client_of_unknown_version_has_to_initialize() {
    let rig = rig().await;
    for (client, memo) in [("before-memos", ""), ("ancient", "0.8.0")] {
        drop(rig.engine.connect_client(client, memo).await);
        let mut raw = Raw::connect(&rig);
        let params = json!({"clientId": client, "lastSeenServerSeq": 0, "subscriptions": []});
        assert_eq!(raw.code("reconnect", params.clone()).await, -32008);
        raw.call("initialize", json!({"protocolVersions": ["1.0.0"], "clientId": client})).await.unwrap();
        drop(raw);
        Raw::connect(&rig).call("reconnect", params).await.unwrap();
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn reconnect_replays_missed_envelopes_before_new_ones() {
    let mut rig = rig().await;
    let chat = default_chat_uri(SESSION);
    let mut raw = Raw::initialized(&rig).await;
    raw.call("createSession", json!({"channel": SESSION})).await.unwrap();
    let snapshot = raw.call("subscribe", json!({"channel": chat})).await.unwrap();
    let seen = snapshot["snapshot"]["fromSeq"].clone();
    drop(raw);

    let mut other = Raw::connect(&rig);
    other.call("initialize", json!({"protocolVersions": ["1.0.0"], "clientId": "other"})).await.unwrap();
    other.call("subscribe", json!({"channel": chat})).await.unwrap();
    other.dispatch(&chat, turn("t1")).await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    agent.emit_answer(1, "a", "b").await;
    other.envelope("chat/turnComplete").await;

    // VS Code sends it without a channel.
    let mut back = Raw::connect(&rig);
    let params =
        json!({"clientId": "raw", "lastSeenServerSeq": seen, "subscriptions": [chat, SESSION, "claude:/gone"]});
    let result = back.call("reconnect", params).await.unwrap();
    assert_eq!(result["type"], "replay");
    assert_eq!(result["missing"], json!(["claude:/gone"]));
    let replayed: Vec<_> =
        result["actions"].as_array().unwrap().iter().filter(|e| e["channel"] == chat).cloned().collect();
    let received: Vec<_> =
        other.received.iter().filter(|m| m["method"] == "action").map(|m| m["params"].clone()).collect();
    assert_eq!(replayed, received, "the same envelopes, the same numbers");

    other.dispatch(&chat, turn("t2")).await;
    agent.next_prompt().await;
    agent.emit_answer(2, "c", "d").await;
    let end = back.envelope("chat/turnComplete").await;
    assert_eq!(end["action"]["turnId"], "t2");
    assert_eq!(
        back.code("reconnect", json!({"clientId": "raw", "lastSeenServerSeq": 0, "subscriptions": []})).await,
        -32601
    );
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn reconnect_with_impossible_numbers_returns_snapshots() {
    let rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    raw.call("createSession", json!({"channel": SESSION})).await.unwrap();
    drop(raw);
    let mut back = Raw::connect(&rig);
    let params = json!({"clientId": "raw", "lastSeenServerSeq": 1_099_511_627_776_u64, "subscriptions": [SESSION, "ahp-root://", "x:/y"]});
    let result = back.call("reconnect", params).await.unwrap();
    assert_eq!(result["type"], "snapshot");
    let resources: Vec<_> = result["snapshots"].as_array().unwrap().iter().map(|s| s["resource"].clone()).collect();
    assert_eq!(resources, [json!(SESSION), json!("ahp-root://")]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_failed_reconnect_leaves_the_socket_open_for_initialize() {
    let rig = rig().await;
    let mut raw = Raw::connect(&rig);
    let params = json!({"clientId": "stranger", "lastSeenServerSeq": 3, "subscriptions": []});
    assert_eq!(raw.code("reconnect", params).await, -32008);
    raw.call("initialize", json!({"protocolVersions": ["1.0.0"], "clientId": "stranger"})).await.unwrap();
    assert_eq!(raw.call("ping", json!({})).await, Ok(Value::Null));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_client_cannot_dispatch_for_another_client() {
    let rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    let foreign = json!({"clientId": "another-client", "tools": []});
    let params = json!({"channel": SESSION, "activeClient": foreign});
    assert_eq!(raw.code("createSession", params).await, -32602);
    let own = json!({"clientId": "raw", "tools": []});
    raw.call("createSession", json!({"channel": SESSION, "activeClient": own})).await.unwrap();
    let state = raw.call("subscribe", json!({"channel": SESSION})).await.unwrap();
    assert_eq!(state["snapshot"]["state"]["activeClients"][0]["clientId"], "raw");
    raw.dispatch(SESSION, json!({"type": "session/activeClientSet", "activeClient": foreign})).await;
    let envelope = raw.envelope("session/activeClientSet").await;
    assert!(envelope["rejectionReason"].as_str().unwrap().contains("for itself"), "{envelope:#}");
    raw.dispatch(SESSION, json!({"type": "session/activeClientRemoved", "clientId": "raw"})).await;
    assert!(raw.envelope("session/activeClientRemoved").await.get("rejectionReason").is_none());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn two_connections_of_one_client_are_independent() {
    let rig = rig().await;
    let (mut one, mut two) = (Raw::initialized(&rig).await, Raw::initialized(&rig).await);
    one.call("createSession", json!({"channel": SESSION})).await.unwrap();
    two.call("subscribe", json!({"channel": SESSION})).await.unwrap();
    drop(one);
    two.dispatch(SESSION, json!({"type": "session/titleChanged", "title": "Still here"})).await;
    assert_eq!(two.envelope("session/titleChanged").await["action"]["title"], "Still here");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_long_output_is_read_by_uri_as_text_or_bytes() {
    let mut rig = rig().await;
    let (mut raw, _, agent) = Raw::begun(&mut rig, SESSION).await;
    let long = "é".repeat(20_000);
    let (id, name) = ("c1".to_owned(), "Bash".to_owned());
    agent.emit(DriverEvent::ToolStarted { id: id.clone(), name, display: ToolDisplay::default() }).await;
    let (outcome, output) = (ToolOutcome::Succeeded, long.clone());
    agent.emit(DriverEvent::ToolFinished { id, outcome, output, edit: None }).await;
    let complete = raw.envelope("chat/toolCallComplete").await;
    let uri = complete["action"]["result"]["content"][1]["uri"].clone();
    let text = raw.call("resourceRead", json!({"uri": uri})).await.unwrap();
    assert_eq!((&text["data"], &text["encoding"]), (&json!(long), &json!("utf-8")));
    assert_eq!(text["contentType"], "text/plain");
    let bytes = raw.call("resourceRead", json!({"uri": uri, "encoding": "base64"})).await.unwrap();
    assert_eq!(bytes["encoding"], "base64");
    assert_eq!(STANDARD.decode(bytes["data"].as_str().unwrap()).unwrap(), long.as_bytes());
    for (nothing, code) in [("ahp-content:/0", -32008), ("file:///etc/passwd", -32009), ("", -32602), ("../x", -32602)]
    {
        assert_eq!(raw.code("resourceRead", json!({"uri": nothing})).await, code, "{nothing}");
    }
    assert_eq!(raw.code("resourceRead", json!({})).await, -32602);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_client_without_a_subscription_can_approve_a_tool_call() {
    let mut rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    raw.call("createSession", json!({"channel": SESSION})).await.unwrap();
    raw.call("subscribe", json!({"channel": SESSION})).await.unwrap();
    let chat = default_chat_uri(SESSION);
    let message = json!({"text": "hi", "origin": {"kind": "user"}});
    let started = json!({"type": "chat/turnStarted", "turnId": "t1", "startedAt": "2026-11-15T08:00:00.000Z", "message": message});
    raw.dispatch(&chat, started).await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    let input = serde_json::value::RawValue::from_string(r#"{"command":"git push"}"#.to_owned()).unwrap().into();
    let request = PermissionRequest {
        request_id: AgentRequestId("r1".into()),
        call_id: "c1".into(),
        tool: "Bash".into(),
        input,
        sub_agent: None,
        reason: None,
        display: ToolDisplay::default(),
    };
    agent.emit(DriverEvent::PermissionRequested(request)).await;
    let needed = raw.envelope("session/inputNeededSet").await["action"]["request"].take();
    assert_eq!(needed["toolCall"]["toolInput"], r#"{"command":"git push"}"#);
    // Only the host may dispatch these.
    for forbidden in ["chat/toolCallReady", "chat/toolCallComplete", "chat/inputRequested"] {
        raw.dispatch(&chat, json!({"type": forbidden, "turnId": "t1", "toolCallId": "c1"})).await;
    }
    // A malformed answer is no answer.
    raw.dispatch(
        &chat,
        json!({"type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": "c1", "approved": "yes"}),
    )
    .await;
    let answer_to = needed["chat"].as_str().unwrap().to_owned();
    let yes = json!({"type": "chat/toolCallConfirmed", "turnId": needed["turnId"], "toolCallId": needed["toolCall"]["toolCallId"],
        "approved": true, "confirmed": "user-action", "selectedOptionId": "allow-once"});
    raw.dispatch(&answer_to, yes).await;
    let (request, answer) = agent.next_answer().await;
    assert_eq!(request, AgentRequestId("r1".into()));
    assert!(matches!(answer, Answer::Allow { input: None }), "{answer:?}");
    raw.envelope("session/inputNeededRemoved").await;
    let page = raw.call("hostler/listAudit", json!({"channel": SESSION})).await.unwrap();
    let entry = &page["items"][0];
    assert_eq!((&entry["decidedBy"], &entry["decision"]), (&json!("raw"), &json!("allow")), "{page}");
    assert_eq!((page["items"].as_array().unwrap().len(), page.get("next")), (1, None));
    let page = raw.call("hostler/listAudit", json!({"channel": SESSION, "limit": 1})).await.unwrap();
    assert_eq!(page["next"], page["items"][0]["id"], "there may be more");
    let rest =
        raw.call("hostler/listAudit", json!({"channel": SESSION, "after": page["next"], "limit": 1})).await.unwrap();
    assert_eq!(rest, json!({"items": []}));
    assert_eq!(raw.code("hostler/listAudit", json!({"channel": "claude:/unknown"})).await, -32001);
    assert_eq!(raw.code("hostler/listAudit", json!({"channel": SESSION, "limit": -1})).await, -32602);
    raw.call("disposeSession", json!({"channel": SESSION})).await.unwrap();
    assert_eq!(
        raw.code("hostler/listAudit", json!({"channel": SESSION})).await,
        -32001,
        "the audit log is deleted with its session"
    );
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn background_work_is_stopped_by_its_id() {
    let mut rig = rig().await;
    let (mut raw, chat, mut agent) = Raw::begun(&mut rig, SESSION).await;
    let task = BackgroundTask {
        id: "b1".into(),
        kind: BackgroundTaskKind::Shell,
        description: "npm test".into(),
        call_id: Some("c1".into()),
    };
    agent.emit(DriverEvent::BackgroundTaskChanged(task)).await;
    let set = raw.envelope("chat/backgroundWorkSet").await;
    assert_eq!(set["action"]["work"]["label"], "npm test");
    let output = raw.call("hostler/readBackgroundOutput", json!({"channel": chat, "id": "b1"})).await;
    assert!(output.unwrap_err().to_string().contains("did not report an output file"));
    let file = rig.dir.path().join("b1.output");
    std::fs::write(&file, "so far").unwrap();
    agent.set_task_output("b1", file);
    let output = raw.call("hostler/readBackgroundOutput", json!({"channel": chat, "id": "b1"})).await;
    assert_eq!(output, Ok(json!({"output": "so far", "truncated": false})));
    let stop = "hostler/stopBackgroundWork";
    assert_eq!(raw.code(stop, json!({"channel": chat})).await, -32602);
    assert_eq!(raw.code(stop, json!({"channel": chat, "id": "b2"})).await, -32602);
    assert_eq!(raw.code(stop, json!({"channel": "claude:/unknown", "id": "b1"})).await, -32001);
    assert_eq!(raw.call(stop, json!({"channel": chat, "id": "b1"})).await, Ok(Value::Null));
    assert_eq!(agent.stopped_tasks.recv().await.as_deref(), Some("b1"));
    agent.emit(DriverEvent::BackgroundTaskEnded { id: "b1".into() }).await;
    assert_eq!(raw.envelope("chat/backgroundWorkRemoved").await["action"]["id"], "b1");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_subscription_to_a_future_sub_agent_chat_waits_without_blocking() {
    let mut rig = rig().await;
    let (mut raw, _, agent) = Raw::begun(&mut rig, SESSION).await;
    let worker = sub_agent_chat_uri(SESSION, "c1");
    let early = json!({"jsonrpc": "2.0", "id": "early", "method": "subscribe", "params": {"channel": worker}});
    raw.send(&early.to_string()).await;
    raw.call("ping", json!({"channel": "ahp-root://"})).await.unwrap();
    let start = SubAgentStart {
        call_id: "c1".into(),
        parent_id: None,
        kind: None,
        description: "looks around".into(),
        prompt: Prompt::new("look"),
    };
    let (agent_id, event) = (SubAgentId("a1".into()), SubAgentEvent::Started(start));
    agent.emit(DriverEvent::SubAgent { agent: agent_id, event }).await;
    let answer = loop {
        let message = raw.receive().await.unwrap();
        if message["id"] == "early" {
            break message;
        }
    };
    let state = &answer["result"]["snapshot"]["state"];
    assert_eq!((&state["resource"], &state["interactivity"]), (&json!(worker), &json!("read-only")), "{answer:#}");
    let unknown = sub_agent_chat_uri("claude:/unknown", "c1");
    assert_eq!(
        raw.code("subscribe", json!({"channel": unknown})).await,
        -32001,
        "answered at once, because there is no such session"
    );
    rig.engine.shutdown().await;
}
