//! Unknown fields, notifications and answers are tolerated.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    unknown_request_fields_are_ignored,
    unknown_action_fields_are_ignored,
    unknown_notifications_are_ignored,
    editor_specific_notification_is_ignored,
    missing_jsonrpc_version_is_tolerated,
    other_jsonrpc_version_is_tolerated,
    meta_is_allowed_on_every_request,
    notification_with_a_request_method_is_ignored,
    request_with_a_notification_method_is_answered,
    error_data_is_parsed_by_the_ahp_crate,
    microsoft_client_works_with_this_host,
    microsoft_client_reconnects,
    all_states_are_parsed_by_the_ahp_crate,
    all_actions_are_known_to_the_ahp_crate,
}

async fn unknown_request_fields_are_ignored(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for (method, mut params) in [
        ("ping", json!({})),
        ("listSessions", json!({})),
        ("subscribe", json!({"channel": uris.session})),
        ("resolveSessionConfig", json!({})),
        ("resourceList", json!({"uri": case.uri("")})),
    ] {
        params["fromTheFuture"] = json!({"deep": [1, 2, {"x": null}]});
        client.call_ok(method, params).await;
    }
}

async fn unknown_action_fields_are_ignored(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut action = json!({"type": "session/titleChanged", "title": "Known", "fromTheFuture": 1});
    client.dispatch_accepted(&uris.session, action.clone()).await;
    action = turn_started_action("hello");
    action["fromTheFuture"] = json!({"x": 1});
    action["message"]["fromTheFuture"] = json!([1]);
    client.dispatch_accepted(&uris.chat, action).await;
    client.wait_for_action(&uris.chat, "chat/turnComplete").await;
}

async fn unknown_notifications_are_ignored(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for method in ["fromTheFuture", "", "root/sessionAdded", "action", "$/cancelRequest", "otlp/exportLogs"] {
        for params in [json!({}), json!(null), json!([1]), json!({"channel": uris.session})] {
            client.notify(method, params).await;
        }
    }
    client.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "x"})).await;
    assert!(client.received.iter().all(|message| message.get("error").is_none()), "notifications are never answered");
}

async fn editor_specific_notification_is_ignored(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    client.notify("setClientManagedSettingsPermissions", json!({"permissions": {"allow": []}})).await;
    client.call_ok("ping", json!({})).await;
}

async fn missing_jsonrpc_version_is_tolerated(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    client.send_text(r#"{"id":800,"method":"ping"}"#).await;
    assert_eq!(client.wait_for_response(800).await, Ok(Value::Null));
}

async fn other_jsonrpc_version_is_tolerated(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for version in [json!("1.0"), json!(2), json!(null), json!("3.0")] {
        client.send_text(json!({"jsonrpc": version, "id": 801, "method": "ping"}).to_string()).await;
    }
    client.call_ok("ping", json!({})).await;
    let answers = client.received.iter().filter(|message| message["id"] == 801).count();
    assert_eq!(answers, 4, "each of them is answered");
}

async fn meta_is_allowed_on_every_request(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let meta = json!({"traceparent": "00-x", "n": [1]});
    client.call_ok("ping", json!({"_meta": meta})).await;
    client.call_ok("subscribe", json!({"channel": uris.chat, "_meta": meta})).await;
    client.call_ok("listSessions", json!({"_meta": meta})).await;
}

async fn notification_with_a_request_method_is_ignored(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.notify("disposeSession", json!({"channel": uris.session})).await;
    client.notify("createSession", json!({"channel": CaseUris::random().session})).await;
    client.call_ok("ping", json!({})).await;
    client.subscribe(&uris.session).await;
}

async fn request_with_a_notification_method_is_answered(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let action = json!({"type": "session/titleChanged", "title": "by request"});
    let params = json!({"channel": uris.session, "clientSeq": 1, "action": action});
    let answer = client.call("dispatchAction", params).await;
    assert!(answer.is_ok() || answer.unwrap_err()["code"] == -32601);
    let answer = client.call("unsubscribe", json!({"channel": uris.session})).await;
    assert!(answer.is_ok() || answer.unwrap_err()["code"] == -32601);
}

async fn error_data_is_parsed_by_the_ahp_crate(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    let params = json!({"protocolVersions": ["0.1.0"], "clientId": client.id});
    let error = client.call("initialize", params).await.unwrap_err();
    let data: ahp_types::errors::UnsupportedProtocolVersionErrorData =
        serde_json::from_value(error["data"].clone()).unwrap();
    assert!(!data.supported_versions.is_empty());
}

/// Microsoft's client, at the case's version.
async fn theirs(case: &ProtocolCase, id: &str) -> ahp::Client {
    let transport = ahp_ws::WebSocketTransport::connect(&case.url()).await.unwrap();
    let config = ahp::client::ClientConfig { subscription_buffer: 4096, ..Default::default() };
    let client = ahp::Client::connect(transport, config).await.unwrap();
    let hello = client.initialize(id.to_owned(), vec![case.version.to_owned()], vec![ROOT.to_owned()]).await.unwrap();
    assert_eq!(hello.protocol_version, case.version);
    client
}

async fn microsoft_client_works_with_this_host(case: ProtocolCase) {
    let (mut ours, uris) = case.connect_with_session().await;
    let client = theirs(&case, &format!("theirs-{}", Uuid::new_v4())).await;
    let (result, mut events) = client.subscribe(uris.chat.clone()).await.unwrap();
    assert_eq!(result.snapshot.unwrap().resource, uris.chat);
    let action = turn_started_action("from them");
    client.dispatch(uris.chat.clone(), serde_json::from_value(action.clone()).unwrap()).await.unwrap();
    let id = action["turnId"].as_str().unwrap();
    assert_eq!(ours.wait_for_turn_end(&uris.chat, id).await["type"], "chat/turnComplete");
    loop {
        let event = events.recv().await.expect("an event");
        if let ahp::client::SubscriptionEvent::Action(envelope) = event
            && matches!(envelope.action, ahp_types::StateAction::ChatTurnComplete(_))
        {
            break;
        }
    }
    client.shutdown().await;
}

async fn microsoft_client_reconnects(case: ProtocolCase) {
    let (mut ours, uris) = case.connect_with_started_session().await;
    let id = format!("theirs-{}", Uuid::new_v4());
    let client = theirs(&case, &id).await;
    client.subscribe(uris.session.clone()).await.unwrap();
    client.shutdown().await;
    let envelope =
        ours.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Meanwhile"})).await;
    let transport = ahp_ws::WebSocketTransport::connect(&case.url()).await.unwrap();
    let client = ahp::Client::connect(transport, ahp::client::ClientConfig::default()).await.unwrap();
    let seen = envelope["serverSeq"].as_i64().unwrap() - 1;
    let params = json!({"channel": ROOT, "clientId": id, "lastSeenServerSeq": seen, "subscriptions": [uris.session]});
    let result: ahp_types::commands::ReconnectResult = client.request("reconnect", params).await.unwrap();
    let ahp_types::commands::ReconnectResult::Replay(replay) = result else { panic!("{result:?}") };
    assert_eq!(replay.actions.len(), 1);
    client.shutdown().await;
}

async fn all_states_are_parsed_by_the_ahp_crate(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.send_and_wait(&uris.chat, "background 3600000").await;
    client.dispatch_accepted(&uris.chat, json!({"type": "chat/draftChanged", "draft": user_message("x")})).await;
    for channel in [ROOT, &uris.session, &uris.chat, &uris.annotations()] {
        let state = client.subscribe(channel).await;
        let typed: ahp_types::state::SnapshotState = serde_json::from_value(state.clone()).unwrap();
        assert_eq!(serde_json::to_value(&typed).unwrap(), state, "{channel}: nothing is lost on the crate");
    }
    let list = client.call_ok("listSessions", json!({})).await;
    let typed: ahp_types::commands::ListSessionsResult = serde_json::from_value(list.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), list);
}

async fn all_actions_are_known_to_the_ahp_crate(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    for text in ["deltas 3", "error 500", "compact", "retry 529", "background 0"] {
        client.send_and_wait(&uris.chat, text).await;
    }
    for message in client.received.iter().filter(|message| message["method"] == "action") {
        let action: ahp_types::StateAction = serde_json::from_value(message["params"]["action"].clone()).unwrap();
        assert!(!matches!(action, ahp_types::StateAction::Unknown(_)), "{message:#}");
        assert_eq!(serde_json::to_value(&action).unwrap(), message["params"]["action"]);
    }
}
