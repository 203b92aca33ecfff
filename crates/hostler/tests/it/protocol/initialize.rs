//! `initialize`, the first request of a client.

use super::harness::*;

area! { HostFixture::with_shell_commands();
    initialize_result_has_only_supported_features,
    initialize_returns_requested_snapshots,
    initialize_returns_no_unrequested_snapshots,
    unknown_initial_channels_give_neither_snapshot_nor_error,
    initial_subscriptions_may_include_a_session,
    envelopes_after_initialize_have_larger_numbers,
    server_sequence_number_is_an_integer_that_grows,
    second_initialize_is_rejected_without_effect,
    requests_before_initialize_are_rejected,
    notifications_before_initialize_are_dropped,
    missing_client_id_is_rejected_and_may_be_corrected,
    overlong_client_id_is_rejected,
    unknown_initialize_fields_and_meta_are_ignored,
    default_directory_is_a_listable_file_uri,
    completions_and_commands_are_announced,
    unsupported_fields_are_absent_rather_than_null,
    two_connections_may_share_a_client_id,
    client_capabilities_change_nothing,
}

async fn initialize_result_has_only_supported_features(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    let answer = client.initialize(&[ROOT]).await;
    assert_eq!(answer["serverInfo"]["name"], "hostler");
    let mut keys: Vec<_> = answer.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    let expected = [
        "completionTriggerCharacters",
        "defaultDirectory",
        "protocolVersion",
        "serverInfo",
        "serverSeq",
        "snapshots",
        "telemetry",
        "terminalCommandPrefix",
    ];
    assert_eq!(keys, expected);
}

async fn initialize_returns_requested_snapshots(case: ProtocolCase) {
    let (_, uris) = case.connect_with_session().await;
    let mut client = case.connect_uninitialized().await;
    let answer = client.initialize(&[&uris.chat, ROOT, &uris.session]).await;
    let names: Vec<_> = answer["snapshots"].as_array().unwrap().iter().map(|s| s["resource"].clone()).collect();
    assert_eq!(names.len(), 3);
    for name in [&uris.chat, ROOT, &uris.session] {
        assert!(names.contains(&json!(name)), "{name} in {names:?}");
    }
    assert!(answer["snapshots"].as_array().unwrap().iter().all(|s| s["fromSeq"].is_i64() && s["state"].is_object()));
}

async fn initialize_returns_no_unrequested_snapshots(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    assert_eq!(client.initialize(&[]).await["snapshots"], json!([]));
    let mut client = case.connect_uninitialized().await;
    let params = json!({"protocolVersions": [case.version], "clientId": client.id});
    assert_eq!(client.call_ok("initialize", params).await["snapshots"], json!([]));
}

async fn unknown_initial_channels_give_neither_snapshot_nor_error(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    let strange = ["claude:/unknown", "nonsense", "", "ahp-chat:/x", "ahp-terminal:/x", "ahp-otlp://logs/info", ROOT];
    let answer = client.initialize(&strange).await;
    assert_eq!(answer["snapshots"].as_array().unwrap().len(), 1);
    assert_eq!(answer["snapshots"][0]["resource"], ROOT);
}

async fn initial_subscriptions_may_include_a_session(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let mut two = case.connect_uninitialized().await;
    two.initialize(&[&uris.session]).await;
    one.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Renamed"})).await;
    assert_eq!(two.wait_for_action(&uris.session, "session/titleChanged").await["title"], "Renamed");
}

async fn envelopes_after_initialize_have_larger_numbers(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let turn = one.send_message(&uris.chat, "deltas 400").await;
    let mut two = case.connect_uninitialized().await;
    two.initialize(&[&uris.chat]).await;
    two.wait_for_turn_end(&uris.chat, &turn).await;
    let first = two.received.first().unwrap();
    assert!(first.get("result").is_some(), "the answer comes first: {first}");
    let from = first["result"]["snapshots"][0]["fromSeq"].as_i64().unwrap();
    assert!(two.received_envelopes(&uris.chat).iter().all(|envelope| envelope["serverSeq"].as_i64().unwrap() > from));
    two.assert_state_matches_host(&uris.chat).await;
}

async fn server_sequence_number_is_an_integer_that_grows(case: ProtocolCase) {
    let before = case.connect_uninitialized().await.initialize(&[]).await["serverSeq"].as_i64().unwrap();
    let (mut client, uris) = case.connect_with_session().await;
    client.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "x"})).await;
    let after = case.connect_uninitialized().await.initialize(&[]).await["serverSeq"].as_i64().unwrap();
    assert!(after > before, "{after} > {before}");
}

async fn second_initialize_is_rejected_without_effect(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let hello = client.initialize_params(&[ROOT]);
    assert_eq!(client.call_error_code("initialize", hello).await, -32601);
    client.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "x"})).await;
}

async fn requests_before_initialize_are_rejected(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    for method in ["subscribe", "listSessions", "createSession", "resourceRead", "authenticate", "no/such/method"] {
        let code = client.call_error_code(method, json!({"channel": ROOT})).await;
        assert!([-32601, -32600].contains(&code), "{method}: {code}");
    }
    client.initialize(&[]).await;
    client.call_ok("listSessions", json!({})).await;
}

async fn notifications_before_initialize_are_dropped(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut early = case.connect_uninitialized().await;
    early.dispatch(&uris.session, json!({"type": "session/titleChanged", "title": "too early"})).await;
    early.unsubscribe(&uris.session).await;
    early.initialize(&[]).await;
    early.call_ok("ping", json!({})).await;
    assert_ne!(client.subscribe(&uris.session).await["title"], "too early");
}

async fn missing_client_id_is_rejected_and_may_be_corrected(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    for id in [json!(null), json!(""), json!(7), json!({})] {
        let params = json!({"protocolVersions": [case.version], "clientId": id});
        assert_eq!(client.call_error_code("initialize", params).await, -32602, "{id}");
    }
    assert_eq!(client.call_error_code("initialize", json!({"protocolVersions": [case.version]})).await, -32602);
    client.initialize(&[]).await;
}

async fn overlong_client_id_is_rejected(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    let params = json!({"protocolVersions": [case.version], "clientId": "x".repeat(10_000)});
    assert_eq!(client.call_error_code("initialize", params).await, -32602);
}

async fn unknown_initialize_fields_and_meta_are_ignored(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    let mut hello = client.initialize_params(&[ROOT]);
    hello["_meta"] = json!({"anything": [1, {"x": null}]});
    hello["fromTheFuture"] = json!({"deep": {"er": []}});
    hello["locale"] = json!("de");
    hello["clientInfo"] = json!({"name": "suite", "version": "1", "title": "Suite", "more": 1});
    client.call_ok("initialize", hello).await;
}

async fn default_directory_is_a_listable_file_uri(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    let answer = client.initialize(&[]).await;
    let directory = answer["defaultDirectory"].as_str().unwrap();
    assert!(directory.starts_with("file:///"), "{directory}");
    assert!(client.call_ok("resourceList", json!({"uri": directory})).await["entries"].is_array());
}

async fn completions_and_commands_are_announced(case: ProtocolCase) {
    let answer = case.connect_uninitialized().await.initialize(&[]).await;
    assert_eq!(answer["completionTriggerCharacters"], json!(["@", "#", "/"]));
    assert_eq!(answer["terminalCommandPrefix"], "!");
}

fn nulls(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(nulls),
        Value::Object(fields) => fields.values().any(nulls),
        _ => false,
    }
}

async fn unsupported_fields_are_absent_rather_than_null(case: ProtocolCase) {
    let (_, uris) = case.connect_with_started_session().await;
    let mut client = case.connect_uninitialized().await;
    let answer = client.initialize(&[ROOT, &uris.session, &uris.chat]).await;
    for key in ["automations", "_meta"] {
        assert_eq!(answer.get(key), None, "{key}");
    }
    for snapshot in answer["snapshots"].as_array().unwrap() {
        assert!(!nulls(snapshot), "{snapshot:#}");
    }
}

async fn two_connections_may_share_a_client_id(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let mut two = case.connect_uninitialized().await;
    two.id = one.id.clone();
    two.initialize(&[&uris.session]).await;
    two.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Two"})).await;
    drop(two);
    one.seq += 1;
    one.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "One"})).await;
}

async fn client_capabilities_change_nothing(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    let mut hello = client.initialize_params(&[]);
    hello["capabilities"] = json!({"mcpApps": {}, "unknownCapability": true});
    client.call_ok("initialize", hello).await;
}
