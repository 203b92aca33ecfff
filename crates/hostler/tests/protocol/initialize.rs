//! The first word of a client.

use super::kit::*;

area! { Stage::with_commands();
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

async fn the_answer_says_what_there_is_and_nothing_else(case: Case) {
    let mut client = case.stranger().await;
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

async fn snapshots_are_those_that_were_asked_for(case: Case) {
    let (_, uris) = case.session().await;
    let mut client = case.stranger().await;
    let answer = client.initialize(&[&uris.chat, ROOT, &uris.session]).await;
    let names: Vec<_> = answer["snapshots"].as_array().unwrap().iter().map(|s| s["resource"].clone()).collect();
    assert_eq!(names.len(), 3);
    for name in [&uris.chat, ROOT, &uris.session] {
        assert!(names.contains(&json!(name)), "{name} in {names:?}");
    }
    assert!(answer["snapshots"].as_array().unwrap().iter().all(|s| s["fromSeq"].is_i64() && s["state"].is_object()));
}

async fn no_snapshots_are_sent_unasked(case: Case) {
    let mut client = case.stranger().await;
    assert_eq!(client.initialize(&[]).await["snapshots"], json!([]));
    let mut client = case.stranger().await;
    let params = json!({"protocolVersions": [case.version], "clientId": client.id});
    assert_eq!(client.ok("initialize", params).await["snapshots"], json!([]));
}

async fn unknown_channels_give_neither_snapshot_nor_error(case: Case) {
    let mut client = case.stranger().await;
    let strange = ["claude:/unknown", "nonsense", "", "ahp-chat:/x", "ahp-terminal:/x", "ahp-otlp://logs/info", ROOT];
    let answer = client.initialize(&strange).await;
    assert_eq!(answer["snapshots"].as_array().unwrap().len(), 1);
    assert_eq!(answer["snapshots"][0]["resource"], ROOT);
}

async fn a_session_can_be_among_the_first_subscriptions(case: Case) {
    let (mut one, uris) = case.session().await;
    let mut two = case.stranger().await;
    two.initialize(&[&uris.session]).await;
    one.accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Heard"})).await;
    assert_eq!(two.action(&uris.session, "session/titleChanged").await["title"], "Heard");
}

async fn envelopes_follow_the_answer_and_have_larger_numbers(case: Case) {
    let (mut one, uris) = case.session().await;
    let turn = one.say(&uris.chat, "deltas 400").await;
    let mut two = case.stranger().await;
    two.initialize(&[&uris.chat]).await;
    two.end(&uris.chat, &turn).await;
    let first = two.heard.first().unwrap();
    assert!(first.get("result").is_some(), "the answer comes first: {first}");
    let from = first["result"]["snapshots"][0]["fromSeq"].as_i64().unwrap();
    assert!(two.envelopes(&uris.chat).iter().all(|envelope| envelope["serverSeq"].as_i64().unwrap() > from));
    two.agrees(&uris.chat).await;
}

async fn the_sequence_number_is_a_whole_number_that_grows(case: Case) {
    let before = case.stranger().await.initialize(&[]).await["serverSeq"].as_i64().unwrap();
    let (mut client, uris) = case.session().await;
    client.accepted(&uris.session, json!({"type": "session/titleChanged", "title": "x"})).await;
    let after = case.stranger().await.initialize(&[]).await["serverSeq"].as_i64().unwrap();
    assert!(after > before, "{after} > {before}");
}

async fn a_second_initialize_is_refused_and_harmless(case: Case) {
    let (mut client, uris) = case.session().await;
    let hello = client.hello(&[ROOT]);
    assert_eq!(client.code("initialize", hello).await, -32601);
    client.accepted(&uris.session, json!({"type": "session/titleChanged", "title": "x"})).await;
}

async fn nothing_else_is_answered_before_it(case: Case) {
    let mut client = case.stranger().await;
    for method in ["subscribe", "listSessions", "createSession", "resourceRead", "authenticate", "no/such/method"] {
        let code = client.code(method, json!({"channel": ROOT})).await;
        assert!([-32601, -32600].contains(&code), "{method}: {code}");
    }
    client.initialize(&[]).await;
    client.ok("listSessions", json!({})).await;
}

async fn notifications_before_it_are_dropped(case: Case) {
    let (mut client, uris) = case.session().await;
    let mut early = case.stranger().await;
    early.dispatch(&uris.session, json!({"type": "session/titleChanged", "title": "too early"})).await;
    early.unsubscribe(&uris.session).await;
    early.initialize(&[]).await;
    early.ok("ping", json!({})).await;
    assert_ne!(client.subscribe(&uris.session).await["title"], "too early");
}

async fn a_client_without_an_id_is_refused_and_may_try_again(case: Case) {
    let mut client = case.stranger().await;
    for id in [json!(null), json!(""), json!(7), json!({})] {
        let params = json!({"protocolVersions": [case.version], "clientId": id});
        assert_eq!(client.code("initialize", params).await, -32602, "{id}");
    }
    assert_eq!(client.code("initialize", json!({"protocolVersions": [case.version]})).await, -32602);
    client.initialize(&[]).await;
}

async fn an_overlong_id_is_refused(case: Case) {
    let mut client = case.stranger().await;
    let params = json!({"protocolVersions": [case.version], "clientId": "x".repeat(10_000)});
    assert_eq!(client.code("initialize", params).await, -32602);
}

async fn unknown_fields_and_meta_are_passed_over(case: Case) {
    let mut client = case.stranger().await;
    let mut hello = client.hello(&[ROOT]);
    hello["_meta"] = json!({"anything": [1, {"x": null}]});
    hello["fromTheFuture"] = json!({"deep": {"er": []}});
    hello["locale"] = json!("de");
    hello["clientInfo"] = json!({"name": "suite", "version": "1", "title": "Suite", "more": 1});
    client.ok("initialize", hello).await;
}

async fn the_default_directory_is_a_file_uri_that_can_be_listed(case: Case) {
    let mut client = case.stranger().await;
    let answer = client.initialize(&[]).await;
    let directory = answer["defaultDirectory"].as_str().unwrap();
    assert!(directory.starts_with("file:///"), "{directory}");
    assert!(client.ok("resourceList", json!({"uri": directory})).await["entries"].is_array());
}

async fn completions_and_commands_are_announced(case: Case) {
    let answer = case.stranger().await.initialize(&[]).await;
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

async fn what_is_not_offered_is_left_out_rather_than_null(case: Case) {
    let (_, uris) = case.begun().await;
    let mut client = case.stranger().await;
    let answer = client.initialize(&[ROOT, &uris.session, &uris.chat]).await;
    for key in ["automations", "_meta"] {
        assert_eq!(answer.get(key), None, "{key}");
    }
    for snapshot in answer["snapshots"].as_array().unwrap() {
        assert!(!nulls(snapshot), "{snapshot:#}");
    }
}

async fn two_connections_may_be_one_client(case: Case) {
    let (mut one, uris) = case.session().await;
    let mut two = case.stranger().await;
    two.id = one.id.clone();
    two.initialize(&[&uris.session]).await;
    two.accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Two"})).await;
    drop(two);
    one.seq += 1;
    one.accepted(&uris.session, json!({"type": "session/titleChanged", "title": "One"})).await;
}

async fn a_capability_of_the_client_changes_nothing(case: Case) {
    let mut client = case.stranger().await;
    let mut hello = client.hello(&[]);
    hello["capabilities"] = json!({"mcpApps": {}, "unheardOf": true});
    client.ok("initialize", hello).await;
}
