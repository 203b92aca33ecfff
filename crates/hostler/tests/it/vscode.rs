//! VS Code as a client: recorded frames of its workbench, and behavior that it relies on.

use std::collections::HashMap;

use crate::common::TestHome;
use hostler_testkit::raw_client::RawClient;
use serde_json::{Value, json};
use uuid::Uuid;

/// Versions that VS Code 1.139 offers.
const OFFERED_VERSIONS: [&str; 5] = ["0.9.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"];

/// Connects like VS Code; also returns the client id.
async fn editor(url: &str) -> (RawClient, String) {
    let mut raw = RawClient::connect(url).await;
    let id = Uuid::new_v4().to_string();
    let result = raw.call("initialize", hello(&id, &OFFERED_VERSIONS)).await.unwrap();
    assert_eq!(result["protocolVersion"], "0.9.0");
    (raw, id)
}

fn hello(client: &str, offered: &[&str]) -> Value {
    json!({
        "channel": "ahp-root://",
        "protocolVersions": offered,
        "clientId": client,
        "clientInfo": {"name": "vscode-editor-window", "title": "VS Code"},
        "initialSubscriptions": ["ahp-root://"],
    })
}

fn notification(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

fn dispatch(channel: &str, seq: u64, action: &Value) -> String {
    notification("dispatchAction", &json!({"channel": channel, "clientSeq": seq, "action": action}))
}

/// Waits for the next notification of a method.
async fn notice(raw: &mut RawClient, method: &str) -> Value {
    loop {
        let mut message = raw.receive().await.expect("the host does not hang up");
        if message["method"] == method {
            return message["params"].take();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_recorded_editor_frame_is_answered() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let work = format!("file://{}", home.work().display());
    let recording = include_str!("../data/vscode-client.jsonl").replace("%WORK%", &work);
    let mut raw = RawClient::connect(&host.url()).await;
    let (mut answers, mut actions) = (HashMap::new(), Vec::new());
    for line in recording.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let Some(frame) = line.get("send") {
            raw.send(frame.to_string()).await;
            continue;
        }
        // The editor continued when it had received this.
        let is_there = |answers: &HashMap<u64, Value>, actions: &[Value]| match line["answer"].as_u64() {
            Some(id) => answers.contains_key(&id),
            None => actions.iter().any(|envelope| envelope["action"]["type"] == line["action"]),
        };
        while !is_there(&answers, &actions) {
            let mut message = raw.receive().await.expect("the host does not hang up");
            match message["id"].as_u64() {
                Some(id) => assert!(answers.insert(id, message).is_none(), "{id} was answered twice"),
                None => actions.push(message["params"].take()),
            }
        }
    }
    assert_eq!(answers[&1]["result"]["protocolVersion"], "0.9.0");
    // Unknown channels are rejected as such; everything else succeeds.
    for (id, answer) in &answers {
        let is_changeset = [12, 16, 18, 19].contains(id);
        let code = answer["error"]["code"].as_i64();
        assert_eq!(code, is_changeset.then_some(-32001), "{answer}");
    }
    // The burst repeats its number: these are separate changes, and each one applies.
    let changed = |envelope: &&Value| envelope["action"]["type"] == "root/configChanged";
    let burst: Vec<_> = actions.iter().filter(changed).take(7).collect();
    assert!(burst.iter().all(|envelope| envelope["origin"]["clientSeq"] == 0), "{burst:#?}");
    assert!(burst.windows(2).all(|pair| pair[0]["serverSeq"].as_u64() < pair[1]["serverSeq"].as_u64()), "{burst:#?}");
    assert!(actions.iter().all(|envelope| envelope.get("rejectionReason").is_none()), "{actions:#?}");
    let streamed: String = actions.iter().filter_map(|envelope| envelope["action"]["content"].as_str()).collect();
    assert_eq!(streamed, "echo: hello deltas=20 gap=20");
    // One of its two sessions was disposed before its first message.
    assert_eq!(host.connect().await.list_sessions().await, ["claude:/e70f0b18-485e-4527-a746-11aa6133a524"]);
    host.stop().await;
}

#[tokio::test]
async fn draft_session_is_private_until_its_first_message() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let (mut watcher, _) = editor(&host.url()).await;
    let (mut raw, client) = editor(&host.url()).await;
    let work = format!("file://{}", home.work().display());
    let uris: Vec<_> = (0..3).map(|_| format!("claude:/{}", Uuid::new_v4())).collect();
    // Each draft session is created before the previous one is disposed, and is subscribed to at once.
    for (seq, (at, uri)) in (100..).zip(uris.iter().enumerate()) {
        let config = json!({"isolation": "folder", "autoApprove": "default", "mode": "interactive"});
        let create = json!({"channel": uri, "provider": "claude", "workingDirectories": [work], "config": config,
                            "progressToken": "p"});
        raw.call("createSession", create).await.unwrap();
        let member = json!({"clientId": client, "tools": [], "customizations": []});
        raw.send(dispatch(uri, seq, &json!({"type": "session/activeClientSet", "activeClient": member}))).await;
        let state = raw.call("subscribe", json!({"channel": uri})).await.unwrap()["snapshot"]["state"].take();
        assert_eq!(state["lifecycle"], "creating");
        assert!(state["defaultChat"].as_str().unwrap().starts_with("ahp-chat://default/"), "in the first snapshot");
        assert_eq!(state["activeClients"][0]["clientId"], client);
        if let Some(before) = at.checked_sub(1) {
            raw.call("disposeSession", json!({"channel": uris[before]})).await.unwrap();
        }
    }
    let listed = raw.call("listSessions", json!({"channel": "ahp-root://"})).await.unwrap();
    assert_eq!(listed["items"], json!([]));
    assert_eq!(host.agents().len(), 0, "nothing was started for them");
    // The first message is sent while the session is still being created, based on the snapshot.
    let state = raw.call("subscribe", json!({"channel": uris[2]})).await.unwrap()["snapshot"]["state"].take();
    let chat = state["defaultChat"].as_str().unwrap().to_owned();
    raw.call("subscribe", json!({"channel": chat})).await.unwrap();
    raw.send_message(&chat, "hello").await;
    let added = notice(&mut watcher, "root/sessionAdded").await;
    assert_eq!((&added["summary"]["resource"], &added["summary"]["title"]), (&json!(uris[2]), &json!("hello")));
    raw.wait_for_action("chat/turnComplete").await;
    assert_eq!(raw.wait_for_action("session/isReadChanged").await.1["isRead"], false);
    // Disposed drafts are gone: they were never announced or listed.
    let listed = watcher.call("listSessions", json!({"channel": "ahp-root://"})).await.unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed:#}");
    for gone in &uris[..2] {
        let error = raw.call("subscribe", json!({"channel": gone})).await.unwrap_err();
        assert_eq!(error["code"], -32001);
    }
    host.stop().await;
}

#[tokio::test]
async fn private_methods_are_refused_and_missing_channels_are_named() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let mut early = RawClient::connect(&host.url()).await;
    assert_eq!(early.call("_vscodeUpgrade", json!({})).await.unwrap_err()["code"], -32601);
    assert_eq!(early.call("ping", json!({"channel": "ahp-root://"})).await, Ok(Value::Null));
    let (mut raw, _) = editor(&host.url()).await;
    let private = [
        "shutdown",
        "getNetworkDiagnosticsInfo",
        "getManagedSettingsDiagnostics",
        "diagnosticsFetch",
        "_vscodeUpgrade",
    ];
    for method in private {
        for params in [json!({}), json!({"channel": "ahp-root://"})] {
            let error = raw.call(method, params).await.unwrap_err();
            assert_eq!(error["code"], -32601, "{method}: {error}");
            assert!(error["message"].as_str().unwrap().contains(method), "{error}");
        }
    }
    let (session, _) = raw.create_session(&home.work()).await;
    for rest in ["changeset/uncommitted", "changeset/session", "changeset/turn/request_1", "changeset/compare/a/b"] {
        let channel = format!("{session}/{rest}");
        let error = raw.call("subscribe", json!({"channel": channel})).await.unwrap_err();
        assert_eq!(error["code"], -32001, "{rest}: {error}");
        raw.send(notification("unsubscribe", &json!({"channel": channel}))).await;
    }
    assert_eq!(raw.call("ping", json!({"channel": "ahp-root://"})).await, Ok(Value::Null));
    host.stop().await;
}

#[tokio::test]
async fn unknown_messages_without_a_channel_are_ignored() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let (mut raw, client) = editor(&host.url()).await;
    raw.send(notification("setClientManagedSettingsPermissions", &json!({"permissions": {}}))).await;
    raw.send(r#"{"jsonrpc":"2.0","method":"setClientManagedSettingsPermissions"}"#.to_owned()).await;
    // The same number repeatedly, as after each start: these are separate changes, and each one applies.
    let settings = [json!({"telemetryLevel": "off"}), json!({"terminalAutoApproveEnabled": true}), json!({"a": 1})];
    for config in &settings {
        raw.send(dispatch("ahp-root://", 0, &json!({"type": "root/configChanged", "config": config}))).await;
    }
    let mut last = 0;
    for config in &settings {
        let envelope = notice(&mut raw, "action").await;
        assert_eq!(&envelope["action"]["config"], config);
        assert_eq!(envelope["origin"], json!({"clientId": client, "clientSeq": 0}));
        let seq = envelope["serverSeq"].as_u64().unwrap();
        assert!(seq > last, "{envelope}");
        last = seq;
    }
    let root = raw.call("subscribe", json!({"channel": "ahp-root://"})).await.unwrap();
    let values = &root["snapshot"]["state"]["config"]["values"];
    assert_eq!((&values["telemetryLevel"], &values["a"]), (&json!("off"), &json!(1)));
    host.stop().await;
}

#[tokio::test]
async fn reconnect_without_the_root_channel_misses_nothing() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let (mut raw, client) = editor(&host.url()).await;
    let (session, chat) = raw.create_session(&home.work()).await;
    let seen = raw.call("subscribe", json!({"channel": session})).await.unwrap()["snapshot"]["fromSeq"].take();
    drop(raw);
    let (mut other, _) = editor(&host.url()).await;
    other.call("subscribe", json!({"channel": chat})).await.unwrap();
    other.send_message(&chat, "hello").await;
    other.wait_for_action("chat/turnComplete").await;

    let mut back = RawClient::connect(&host.url()).await;
    let missing = format!("{session}/changeset/session");
    let params = json!({"clientId": client, "lastSeenServerSeq": seen, "subscriptions": ["ahp-root://", session, chat, missing]});
    let result = back.call("reconnect", params.clone()).await.unwrap();
    assert_eq!(result["type"], "replay", "{result:#}");
    assert_eq!(result["missing"], json!([missing]));
    let missed: Vec<_> =
        result["actions"].as_array().unwrap().iter().map(|envelope| &envelope["action"]["type"]).collect();
    assert!(
        missed.contains(&&json!("chat/turnStarted")) && missed.contains(&&json!("chat/turnComplete")),
        "{missed:?}"
    );
    // An unknown client initializes anew on the same connection.
    let mut stranger = RawClient::connect(&host.url()).await;
    let unknown = json!({"clientId": "unknown", "lastSeenServerSeq": seen, "subscriptions": ["ahp-root://"]});
    assert_eq!(stranger.call("reconnect", unknown).await.unwrap_err()["code"], -32008);
    stranger.call("initialize", hello("unknown", &OFFERED_VERSIONS)).await.unwrap();
    host.stop().await;
}

#[tokio::test]
async fn highest_common_version_is_negotiated() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    for (offered, spoken) in [
        (&OFFERED_VERSIONS[..], "0.9.0"),
        (&["0.9.0", "0.8.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"][..], "0.9.0"),
        (&["1.0.0", "0.9.0"][..], "1.0.0"),
    ] {
        let result = RawClient::connect(&host.url()).await.call("initialize", hello("a", offered)).await.unwrap();
        assert_eq!(result["protocolVersion"], spoken);
    }
    // VS Code 1.134 and 1.130.
    for offered in [&["0.8.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"][..], &["0.6.0"][..]] {
        let error = RawClient::connect(&host.url()).await.call("initialize", hello("b", offered)).await.unwrap_err();
        assert_eq!(error["code"], -32005);
        assert_eq!(error["data"]["supportedVersions"], json!(["^1.0.0", "^0.9.0"]));
        assert!(error["message"].as_str().unwrap().contains("VS Code: 1.136 or later"), "{error}");
    }
    host.stop().await;
}

#[tokio::test]
async fn session_list_shows_and_clears_activity() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let (mut watcher, _) = editor(&host.url()).await;
    let (mut raw, _) = editor(&host.url()).await;
    let (session, chat) = raw.create_session(&home.work()).await;
    raw.send_message(&chat, "hello").await;
    let added = notice(&mut watcher, "root/sessionAdded").await;
    assert_eq!(added["summary"]["activity"], "Starting Claude Code");
    // An absent text means no change, so an empty text is sent.
    let activity = loop {
        let mut changed = notice(&mut watcher, "root/sessionSummaryChanged").await;
        assert_eq!(changed["session"], session);
        if changed["changes"].get("activity").is_some() {
            break changed["changes"]["activity"].take();
        }
    };
    assert_eq!(activity, "");
    host.stop().await;
}

#[tokio::test]
async fn shell_command_runs_with_the_editors_attached_file() {
    let home = TestHome::new();
    std::fs::write(home.work().join("open.txt"), "x").unwrap();
    let host = home.serve_fake(&[("HOSTLER_NO_SHELL_COMMANDS", "false")]).await;
    let (mut raw, _) = editor(&host.url()).await;
    let (_, chat) = raw.create_session(&home.work()).await;
    let open = format!("file://{}", home.work().join("open.txt").display());
    let attached = json!({"type": "resource", "uri": open, "label": "file:open.txt", "displayKind": "document"});
    let message = json!({"text": "!ls", "origin": {"kind": "user"}, "attachments": [attached]});
    let action = json!({"type": "chat/turnStarted", "turnId": "request_1", "startedAt": "2026-11-15T08:00:00.000Z",
                        "message": message});
    raw.send(dispatch(&chat, 1, &action)).await;
    let done = raw.wait_for_action("chat/toolCallComplete").await.1;
    assert_eq!(done["result"]["content"][0]["text"], "open.txt\n", "{done:#}");
    raw.wait_for_action("chat/turnComplete").await;
    host.stop().await;
}

#[tokio::test]
async fn every_enum_value_has_a_label() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let (mut raw, _) = editor(&host.url()).await;
    let work = format!("file://{}", home.work().display());
    let params = json!({"channel": "ahp-root://", "provider": "claude", "workingDirectory": work});
    let resolved = raw.call("resolveSessionConfig", params).await.unwrap();
    let mut picked = 0;
    for (name, property) in resolved["schema"]["properties"].as_object().unwrap() {
        let Some(values) = property["enum"].as_array() else { continue };
        let labels = property["enumLabels"].as_array().unwrap_or_else(|| panic!("{name} has no labels"));
        assert_eq!(values.len(), labels.len(), "{name}");
        let capital = |label: &Value| label.as_str().unwrap().starts_with(char::is_uppercase);
        assert!(labels.iter().all(capital), "{name}: {labels:?}");
        picked += 1;
    }
    assert!(picked >= 5, "{resolved:#}");
    host.stop().await;
}
