//! File watches: channels that report changes on the disk.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    watch_has_a_channel_and_a_state,
    child_change_is_reported,
    each_change_type_is_reported,
    recursive_watch_reports_deeper_changes,
    watch_patterns_filter_changes,
    single_file_is_watched,
    equal_watches_share_a_channel,
    all_subscribers_of_a_watch_receive_changes,
    watch_is_silent_after_unsubscribe,
    watch_of_a_missing_root_is_32008,
    malformed_watches_are_invalid,
    clients_cannot_dispatch_watch_changes,
    unknown_watch_is_not_found,
    client_writes_are_reported,
    watch_continues_after_a_reconnect,
}

async fn watch(client: &mut RecordingClient, params: Value) -> String {
    let answer = client.call_ok("createResourceWatch", params).await;
    let channel = answer["channel"].as_str().unwrap().to_owned();
    assert!(channel.starts_with("ahp-resource-watch:/"), "{channel}");
    channel
}

/// Returns a client that watches the case's directory.
async fn watching(case: &ProtocolCase, more: Value) -> (RecordingClient, String) {
    let (mut client, _) = case.connect_with_session().await;
    let mut params = json!({"uri": case.uri("").trim_end_matches('/')});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let channel = watch(&mut client, params).await;
    client.call_ok("subscribe", json!({"channel": channel})).await;
    (client, channel)
}

/// Receives until a change of a file is reported; returns all reported changes.
async fn wait_for_changes(client: &mut RecordingClient, channel: &str, last: &str) -> Vec<(String, String)> {
    let mut changes = Vec::new();
    loop {
        let envelope = client.wait_for_envelope(channel, "resourceWatch/changed").await;
        assert_eq!(envelope.get("origin"), None);
        let items = envelope["action"]["changes"]["items"].as_array().unwrap().clone();
        assert!(!items.is_empty(), "never empty");
        for item in items {
            changes.push((item["uri"].as_str().unwrap().to_owned(), item["type"].as_str().unwrap().to_owned()));
        }
        if changes.iter().any(|(uri, _)| uri == last) {
            return changes;
        }
    }
}

async fn watch_has_a_channel_and_a_state(case: ProtocolCase) {
    let (mut client, channel) = watching(&case, json!({})).await;
    let state = client.call_ok("subscribe", json!({"channel": channel})).await["snapshot"]["state"].take();
    assert_eq!(state, json!({"root": case.uri("").trim_end_matches('/'), "recursive": false}));
}

async fn child_change_is_reported(case: ProtocolCase) {
    let (mut client, channel) = watching(&case, json!({})).await;
    let file = case.write_file("file", "x");
    assert_eq!(wait_for_changes(&mut client, &channel, &file).await, [(file, "added".to_owned())]);
}

async fn each_change_type_is_reported(case: ProtocolCase) {
    let (old, gone) = (case.write_file("old", "x"), case.write_file("gone", "x"));
    let (mut client, channel) = watching(&case, json!({})).await;
    case.write_file("old", "yy");
    std::fs::remove_file(case.dir.join("gone")).unwrap();
    let new = case.write_file("new", "x");
    let changes = wait_for_changes(&mut client, &channel, &new).await;
    for (uri, kind) in [(old, "updated"), (gone, "deleted"), (new, "added")] {
        assert!(changes.contains(&(uri.clone(), kind.to_owned())), "{uri} {kind} in {changes:?}");
    }
}

async fn recursive_watch_reports_deeper_changes(case: ProtocolCase) {
    std::fs::create_dir(case.dir.join("sub")).unwrap();
    let (mut flat, shallow) = watching(&case, json!({})).await;
    let (mut deep, all) = watching(&case, json!({"recursive": true})).await;
    let (inner, last) = (case.write_file("sub/inner", "x"), case.write_file("last", "x"));
    assert!(wait_for_changes(&mut deep, &all, &inner).await.iter().any(|(uri, _)| *uri == inner));
    assert!(!wait_for_changes(&mut flat, &shallow, &last).await.iter().any(|(uri, _)| *uri == inner));
}

async fn watch_patterns_filter_changes(case: ProtocolCase) {
    let more = json!({"recursive": true, "includes": {"items": ["**/*.rs"]}, "excludes": {"items": ["**/out/**"]}});
    std::fs::create_dir(case.dir.join("out")).unwrap();
    let (mut client, channel) = watching(&case, more).await;
    case.write_file("a.md", "x");
    case.write_file("out/b.rs", "x");
    let last = case.write_file("c.rs", "x");
    let changes = wait_for_changes(&mut client, &channel, &last).await;
    assert!(changes.iter().all(|(uri, _)| *uri == last), "{changes:?}");
}

async fn single_file_is_watched(case: ProtocolCase) {
    let (mut client, _) = case.connect_with_session().await;
    let file = case.write_file("file", "x");
    let channel = watch(&mut client, json!({"uri": file})).await;
    client.call_ok("subscribe", json!({"channel": channel})).await;
    case.write_file("other", "x");
    case.write_file("file", "yy");
    let changes = wait_for_changes(&mut client, &channel, &file).await;
    assert_eq!(changes, [(file, "updated".to_owned())]);
}

async fn equal_watches_share_a_channel(case: ProtocolCase) {
    let (mut client, channel) = watching(&case, json!({})).await;
    let uri = case.uri("").trim_end_matches('/').to_owned();
    assert_eq!(watch(&mut client, json!({"uri": uri, "recursive": false})).await, channel);
    assert_ne!(watch(&mut client, json!({"uri": uri, "recursive": true})).await, channel);
    assert_eq!(watch(&mut case.connect_client().await, json!({"uri": uri})).await, channel);
}

async fn all_subscribers_of_a_watch_receive_changes(case: ProtocolCase) {
    let (mut one, channel) = watching(&case, json!({})).await;
    let mut two = case.connect_client().await;
    two.call_ok("subscribe", json!({"channel": channel})).await;
    let file = case.write_file("file", "x");
    wait_for_changes(&mut one, &channel, &file).await;
    wait_for_changes(&mut two, &channel, &file).await;
}

async fn watch_is_silent_after_unsubscribe(case: ProtocolCase) {
    let (mut one, channel) = watching(&case, json!({})).await;
    let mut two = case.connect_client().await;
    two.call_ok("subscribe", json!({"channel": channel})).await;
    two.unsubscribe(&channel).await;
    two.call_ok("ping", json!({})).await;
    let file = case.write_file("file", "x");
    wait_for_changes(&mut one, &channel, &file).await;
    two.call_ok("ping", json!({})).await;
    assert_eq!(two.received_envelopes(&channel), [] as [Value; 0]);
}

async fn watch_of_a_missing_root_is_32008(case: ProtocolCase) {
    let (mut client, _) = case.connect_with_session().await;
    assert_eq!(client.call_error_code("createResourceWatch", json!({"uri": case.uri("missing")})).await, -32008);
}

async fn malformed_watches_are_invalid(case: ProtocolCase) {
    let (mut client, _) = case.connect_with_session().await;
    for params in [
        json!({}),
        json!({"uri": 7}),
        json!({"uri": "nonsense"}),
        json!({"uri": case.uri(""), "recursive": "yes"}),
        json!({"uri": case.uri(""), "includes": ["*"]}),
    ] {
        assert_eq!(client.call_error_code("createResourceWatch", params.clone()).await, -32602, "{params}");
    }
}

async fn clients_cannot_dispatch_watch_changes(case: ProtocolCase) {
    let (mut client, channel) = watching(&case, json!({})).await;
    let forged =
        json!({"type": "resourceWatch/changed", "changes": {"items": [{"uri": "file:///x", "type": "added"}]}});
    let seq = client.dispatch(&channel, forged).await;
    let file = case.write_file("file", "x");
    assert_eq!(wait_for_changes(&mut client, &channel, &file).await.len(), 1);
    let origin = json!({"clientId": client.id, "clientSeq": seq});
    let echo = client.received.iter().find(|message| message["params"]["origin"] == origin);
    assert!(echo.is_none_or(|echo| echo["params"].get("rejectionReason").is_some()), "{echo:?}");
}

async fn unknown_watch_is_not_found(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let code = client.call_error_code("subscribe", json!({"channel": "ahp-resource-watch:/unknown"})).await;
    assert!([-32001, -32008].contains(&code), "{code}");
}

async fn client_writes_are_reported(case: ProtocolCase) {
    let (mut client, channel) = watching(&case, json!({})).await;
    let params = json!({"uri": case.uri("file"), "data": "x", "encoding": "utf-8"});
    client.call_ok("resourceWrite", params).await;
    let changes = wait_for_changes(&mut client, &channel, &case.uri("file")).await;
    assert_eq!(changes, [(case.uri("file"), "added".to_owned())], "once, and under its own name");
}

async fn watch_continues_after_a_reconnect(case: ProtocolCase) {
    let (one, channel) = watching(&case, json!({})).await;
    let mut keeper = case.connect_client().await;
    keeper.call_ok("subscribe", json!({"channel": channel})).await;
    let mut back = case.connect_uninitialized().await;
    back.id = one.id.clone();
    drop(one);
    let params = json!({"clientId": back.id, "lastSeenServerSeq": 0, "subscriptions": [channel]});
    let answer = back.call_ok("reconnect", params).await;
    assert!(answer["missing"].as_array().is_none_or(Vec::is_empty), "{answer:#}");
    let file = case.write_file("file", "x");
    wait_for_changes(&mut back, &channel, &file).await;
}
