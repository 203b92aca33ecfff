//! Subscribe and unsubscribe: snapshots, later envelopes, and none after unsubscribe.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    root_is_subscribed_by_its_exact_uri,
    session_snapshot_names_its_default_chat,
    chat_snapshot_is_complete,
    snapshot_names_the_requested_channel,
    subscribe_may_follow_creation_at_once,
    envelopes_after_the_snapshot_have_larger_numbers,
    second_subscribe_returns_a_fresh_snapshot_without_duplicates,
    subscribe_to_an_unknown_session_is_32001,
    subscribe_to_an_unknown_chat_is_32001,
    channel_that_is_no_uri_is_rejected,
    subscribe_without_a_channel_is_the_root,
    channel_of_the_wrong_type_is_invalid,
    channel_is_silent_after_unsubscribe,
    unsubscribe_without_a_subscription_is_harmless,
    malformed_unsubscribe_is_harmless,
    subscribe_works_again_after_unsubscribe,
    only_root_subscribers_receive_new_sessions,
    delivery_hints_are_accepted,
    disposed_session_cannot_be_subscribed,
    changesets_and_canvases_are_not_found,
    annotations_channel_always_exists,
    default_chat_uri_is_derived_from_the_session_uri,
}

async fn root_is_subscribed_by_its_exact_uri(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    client.initialize(&[]).await;
    let state = client.subscribe(ROOT).await;
    assert!(!state["agents"].as_array().unwrap().is_empty(), "{state:#}");
}

async fn session_snapshot_names_its_default_chat(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let state = client.subscribe(&uris.session).await;
    assert_eq!(state["defaultChat"], uris.chat);
    assert_eq!(state["chats"][0]["resource"], uris.chat);
    assert_eq!((&state["provider"], &state["lifecycle"]), (&json!("claude"), &json!("creating")));
    assert_eq!(state["workingDirectories"], json!([case.uri("").trim_end_matches('/')]));
    assert_eq!(state["activeClients"], json!([]));
}

async fn chat_snapshot_is_complete(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let state = client.subscribe(&uris.chat).await;
    assert_eq!((&state["resource"], &state["turns"]), (&json!(uris.chat), &json!([])));
    assert_eq!(state["status"].as_u64().unwrap() & 31, 1, "idle");
    assert!(state["modifiedAt"].as_str().unwrap().ends_with('Z'));
    assert_eq!(state.get("activeTurn"), None);
}

async fn snapshot_names_the_requested_channel(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for channel in [&uris.session, &uris.chat, &uris.annotations()] {
        let answer = client.call_ok("subscribe", json!({"channel": channel})).await;
        assert_eq!(&answer["snapshot"]["resource"], channel);
    }
}

async fn subscribe_may_follow_creation_at_once(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let uris = CaseUris::random();
    let params = json!({"channel": uris.session, "workingDirectories": [case.uri("")]});
    let created = client.request("createSession", params).await;
    let session = client.request("subscribe", json!({"channel": uris.session})).await;
    let chat = client.request("subscribe", json!({"channel": uris.chat})).await;
    let seq = client.dispatch(&uris.chat, turn_started_action("deltas 3")).await;
    assert_eq!(client.wait_for_response(created).await, Ok(Value::Null));
    assert!(client.wait_for_response(session).await.is_ok() && client.wait_for_response(chat).await.is_ok());
    let envelope = client.wait_for_echo(seq).await;
    assert_eq!(envelope.get("rejectionReason"), None);
    client.wait_for_action(&uris.chat, "chat/turnComplete").await;
}

async fn envelopes_after_the_snapshot_have_larger_numbers(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let turn = one.send_message(&uris.chat, "deltas 300").await;
    let mut two = case.connect_client().await;
    let id = two.request("subscribe", json!({"channel": uris.chat})).await;
    let from = two.wait_for_response(id).await.unwrap()["snapshot"]["fromSeq"].as_i64().unwrap();
    two.wait_for_turn_end(&uris.chat, &turn).await;
    let place = two.received.iter().position(|message| message["id"] == id).unwrap();
    let early = two.received[..place].iter().filter(|message| message["params"]["channel"] == uris.chat).count();
    assert_eq!(early, 0, "the answer comes first");
    assert!(two.received_envelopes(&uris.chat).iter().all(|envelope| envelope["serverSeq"].as_i64().unwrap() > from));
}

async fn second_subscribe_returns_a_fresh_snapshot_without_duplicates(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Second"})).await;
    assert_eq!(client.subscribe(&uris.session).await["title"], "Second");
    let envelope =
        client.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Third"})).await;
    client.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Last"})).await;
    let times =
        client.received_envelopes(&uris.session).iter().filter(|e| e["serverSeq"] == envelope["serverSeq"]).count();
    assert_eq!(times, 1);
}

async fn subscribe_to_an_unknown_session_is_32001(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for channel in [&*CaseUris::random().session, "claude:/unknown", "ahp-session:/x", "codex:/1"] {
        assert_eq!(client.call_error_code("subscribe", json!({"channel": channel})).await, -32001, "{channel}");
    }
}

async fn subscribe_to_an_unknown_chat_is_32001(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let peer = uris.chat.replace("default", "peer");
    for channel in [&*CaseUris::random().chat, "ahp-chat:/x", "ahp-chat://default/!!!", &peer] {
        assert_eq!(client.call_error_code("subscribe", json!({"channel": channel})).await, -32001, "{channel}");
    }
}

async fn channel_that_is_no_uri_is_rejected(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for channel in ["", " ", "nonsense", "://", "\u{0}", "ahp-root:", "ahp-root://x"] {
        let code = client.call_error_code("subscribe", json!({"channel": channel})).await;
        assert!([-32001, -32008, -32602].contains(&code), "{channel:?}: {code}");
    }
}

async fn subscribe_without_a_channel_is_the_root(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    assert_eq!(client.call_ok("subscribe", json!({})).await["snapshot"]["resource"], ROOT);
}

async fn channel_of_the_wrong_type_is_invalid(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for channel in [json!(7), json!(null), json!([ROOT]), json!({"uri": ROOT})] {
        assert_eq!(client.call_error_code("subscribe", json!({"channel": channel})).await, -32602, "{channel}");
    }
}

async fn channel_is_silent_after_unsubscribe(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let mut two = case.connect_to_session(&uris).await;
    two.unsubscribe(&uris.chat).await;
    two.call_ok("ping", json!({})).await;
    one.send_and_wait(&uris.chat, "deltas 3").await;
    let last = one.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Last"})).await;
    // The session's envelope comes after all envelopes of the chat.
    two.wait_for(|message| message["params"]["serverSeq"] == last["serverSeq"]).await;
    assert_eq!(two.received_envelopes(&uris.chat), [] as [Value; 0]);
}

async fn unsubscribe_without_a_subscription_is_harmless(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for channel in ["claude:/unknown", "nonsense", "", "ahp-terminal:/1", &uris.annotations()] {
        client.notify("unsubscribe", json!({"channel": channel})).await;
    }
    client.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "x"})).await;
}

async fn malformed_unsubscribe_is_harmless(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for params in [json!(null), json!(7), json!({}), json!({"channel": 7}), json!([uris.session])] {
        client.notify("unsubscribe", params).await;
    }
    client.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "x"})).await;
}

async fn subscribe_works_again_after_unsubscribe(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.unsubscribe(&uris.chat).await;
    let turn = client.send_message(&uris.chat, "deltas 3").await;
    client.wait_for_notification("root/sessionAdded", &uris.session).await;
    client.subscribe(&uris.chat).await;
    while client.subscribe(&uris.chat).await["turns"].as_array().unwrap().is_empty() {}
    let state = client.subscribe(&uris.chat).await;
    assert_eq!(state["turns"][0]["id"], turn);
    client.send_and_wait(&uris.chat, "again").await;
    client.assert_state_matches_host(&uris.chat).await;
}

async fn only_root_subscribers_receive_new_sessions(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut deaf = case.connect_uninitialized().await;
    deaf.initialize(&[&uris.chat]).await;
    client.send_and_wait(&uris.chat, "deltas 3").await;
    client.wait_for_notification("root/sessionAdded", &uris.session).await;
    deaf.wait_for_action(&uris.chat, "chat/turnComplete").await;
    client.dispatch_accepted(&uris.chat, json!({"type": "session/titleChanged", "title": "x"})).await;
    deaf.wait_for_action(&uris.chat, "session/titleChanged").await;
    assert!(!deaf.received.iter().any(|message| message["method"].as_str().is_some_and(|m| m.starts_with("root/"))));
}

async fn delivery_hints_are_accepted(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    for delivery in [json!({"maxLatencyMs": 0}), json!({"maxLatencyMs": 50}), json!({})] {
        let mut two = case.connect_client().await;
        two.call_ok("subscribe", json!({"channel": uris.chat, "delivery": delivery})).await;
        let turn = one.send_message(&uris.chat, "deltas 20").await;
        one.wait_for_turn_end(&uris.chat, &turn).await;
        two.wait_for_turn_end(&uris.chat, &turn).await;
    }
}

async fn disposed_session_cannot_be_subscribed(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.call_ok("disposeSession", json!({"channel": uris.session})).await;
    for channel in [&uris.session, &uris.chat, &uris.annotations()] {
        assert_eq!(client.call_error_code("subscribe", json!({"channel": channel})).await, -32001, "{channel}");
    }
}

async fn changesets_and_canvases_are_not_found(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let state = client.subscribe(&uris.session).await;
    assert_eq!((state.get("changesets"), state.get("customizations")), (None, None));
    for channel in [
        format!("{}/changeset/uncommitted", uris.session),
        format!("{}/changeset/session", uris.session),
        "ahp-canvas:/1".to_owned(),
        "ahp-automations://".to_owned(),
        "ahp-automation-run:/1".to_owned(),
        "ahp-resource-watch:/1".to_owned(),
        "mcp://server".to_owned(),
    ] {
        let code = client.call_error_code("subscribe", json!({"channel": channel})).await;
        assert!([-32001, -32008].contains(&code), "{channel}: {code}");
    }
}

async fn annotations_channel_always_exists(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    assert_eq!(client.subscribe(&uris.annotations()).await, json!({"annotations": []}));
}

async fn default_chat_uri_is_derived_from_the_session_uri(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    // Without padding, and with the two characters that differ in URIs.
    for session in ["claude:/a", "claude:/ab", "claude:/abc", "claude:/~~~???>>>ÿ"] {
        let uris = CaseUris::from_session(&format!("{session}-{}", case.version));
        client.call_ok("createSession", json!({"channel": uris.session})).await;
        assert_eq!(client.subscribe(&uris.session).await["defaultChat"], uris.chat);
        client.subscribe(&uris.chat).await;
    }
}
