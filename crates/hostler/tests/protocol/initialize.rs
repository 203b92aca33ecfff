//! `initialize`, the first request of a client.

use super::harness::*;

area! { HostFixture::with_shell_commands();
    the_answer_says_what_there_is_and_nothing_else,
    snapshots_are_those_that_were_asked_for,
    no_snapshots_are_sent_unasked,
    unknown_channels_give_neither_snapshot_nor_error,
    a_session_can_be_among_the_first_subscriptions,
    envelopes_follow_the_answer_and_have_larger_numbers,
    the_sequence_number_is_a_whole_number_that_grows,
    a_second_initialize_is_refused_and_harmless,
    nothing_else_is_answered_before_it,
    notifications_before_it_are_dropped,
    a_client_without_an_id_is_refused_and_may_try_again,
    an_overlong_id_is_refused,
    unknown_fields_and_meta_are_passed_over,
    the_default_directory_is_a_file_uri_that_can_be_listed,
    completions_and_commands_are_announced,
    what_is_not_offered_is_left_out_rather_than_null,
    two_connections_may_be_one_client,
    a_capability_of_the_client_changes_nothing,
}

async fn the_answer_says_what_there_is_and_nothing_else(case: ProtocolCase) {
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

async fn snapshots_are_those_that_were_asked_for(case: ProtocolCase) {
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

async fn no_snapshots_are_sent_unasked(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    assert_eq!(client.initialize(&[]).await["snapshots"], json!([]));
    let mut client = case.connect_uninitialized().await;
    let params = json!({"protocolVersions": [case.version], "clientId": client.id});
    assert_eq!(client.call_ok("initialize", params).await["snapshots"], json!([]));
}

async fn unknown_channels_give_neither_snapshot_nor_error(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    let strange = ["claude:/unknown", "nonsense", "", "ahp-chat:/x", "ahp-terminal:/x", "ahp-otlp://logs/info", ROOT];
    let answer = client.initialize(&strange).await;
    assert_eq!(answer["snapshots"].as_array().unwrap().len(), 1);
    assert_eq!(answer["snapshots"][0]["resource"], ROOT);
}

async fn a_session_can_be_among_the_first_subscriptions(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let mut two = case.connect_uninitialized().await;
    two.initialize(&[&uris.session]).await;
    one.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Heard"})).await;
    assert_eq!(two.wait_for_action(&uris.session, "session/titleChanged").await["title"], "Heard");
}

async fn envelopes_follow_the_answer_and_have_larger_numbers(case: ProtocolCase) {
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

async fn the_sequence_number_is_a_whole_number_that_grows(case: ProtocolCase) {
    let before = case.connect_uninitialized().await.initialize(&[]).await["serverSeq"].as_i64().unwrap();
    let (mut client, uris) = case.connect_with_session().await;
    client.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "x"})).await;
    let after = case.connect_uninitialized().await.initialize(&[]).await["serverSeq"].as_i64().unwrap();
    assert!(after > before, "{after} > {before}");
}

async fn a_second_initialize_is_refused_and_harmless(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let hello = client.initialize_params(&[ROOT]);
    assert_eq!(client.call_error_code("initialize", hello).await, -32601);
    client.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "x"})).await;
}

async fn nothing_else_is_answered_before_it(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    for method in ["subscribe", "listSessions", "createSession", "resourceRead", "authenticate", "no/such/method"] {
        let code = client.call_error_code(method, json!({"channel": ROOT})).await;
        assert!([-32601, -32600].contains(&code), "{method}: {code}");
    }
    client.initialize(&[]).await;
    client.call_ok("listSessions", json!({})).await;
}

async fn notifications_before_it_are_dropped(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut early = case.connect_uninitialized().await;
    early.dispatch(&uris.session, json!({"type": "session/titleChanged", "title": "too early"})).await;
    early.unsubscribe(&uris.session).await;
    early.initialize(&[]).await;
    early.call_ok("ping", json!({})).await;
    assert_ne!(client.subscribe(&uris.session).await["title"], "too early");
}

async fn a_client_without_an_id_is_refused_and_may_try_again(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    for id in [json!(null), json!(""), json!(7), json!({})] {
        let params = json!({"protocolVersions": [case.version], "clientId": id});
        assert_eq!(client.call_error_code("initialize", params).await, -32602, "{id}");
    }
    assert_eq!(client.call_error_code("initialize", json!({"protocolVersions": [case.version]})).await, -32602);
    client.initialize(&[]).await;
}

async fn an_overlong_id_is_refused(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    let params = json!({"protocolVersions": [case.version], "clientId": "x".repeat(10_000)});
    assert_eq!(client.call_error_code("initialize", params).await, -32602);
}

async fn unknown_fields_and_meta_are_passed_over(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    let mut hello = client.initialize_params(&[ROOT]);
    hello["_meta"] = json!({"anything": [1, {"x": null}]});
    hello["fromTheFuture"] = json!({"deep": {"er": []}});
    hello["locale"] = json!("de");
    hello["clientInfo"] = json!({"name": "suite", "version": "1", "title": "Suite", "more": 1});
    client.call_ok("initialize", hello).await;
}

async fn the_default_directory_is_a_file_uri_that_can_be_listed(case: ProtocolCase) {
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

async fn what_is_not_offered_is_left_out_rather_than_null(case: ProtocolCase) {
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

async fn two_connections_may_be_one_client(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let mut two = case.connect_uninitialized().await;
    two.id = one.id.clone();
    two.initialize(&[&uris.session]).await;
    two.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Two"})).await;
    drop(two);
    one.seq += 1;
    one.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "One"})).await;
}

async fn a_capability_of_the_client_changes_nothing(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    let mut hello = client.initialize_params(&[]);
    hello["capabilities"] = json!({"mcpApps": {}, "unheardOf": true});
    client.call_ok("initialize", hello).await;
}
