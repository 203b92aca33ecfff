//! Reconnect: replay, snapshots, unknown clients, and repeated dispatches.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    unknown_client_is_not_found_and_may_initialize,
    missed_envelopes_are_replayed_unchanged,
    nothing_missed_gives_an_empty_replay,
    own_echoes_are_replayed,
    rejections_are_replayed,
    only_named_channels_are_replayed,
    new_envelopes_follow_the_replay,
    removed_channels_are_reported_as_missing,
    future_numbers_get_snapshots,
    number_of_another_host_run_gets_a_correct_snapshot,
    negative_numbers_are_tolerated,
    reconnect_channel_may_be_omitted,
    failed_reconnect_leaves_the_socket_open,
    reconnect_after_initialize_is_rejected,
    malformed_reconnects_are_invalid,
    replay_and_snapshot_give_the_same_state,
    client_lost_during_a_stream_misses_nothing,
    reconnect_continues_with_the_negotiated_version,
    repeated_dispatch_has_no_second_effect,
    repeated_dispatch_is_answered_by_its_first_envelope,
    same_number_with_another_action_is_a_new_dispatch,
    notifications_are_not_replayed,
    older_socket_of_the_same_client_may_stay_open,
    unnamed_subscriptions_are_dropped_on_reconnect,
    annotations_are_replayed,
}

fn reconnect_params(client: &RecordingClient, seen: i64, channels: &[&str]) -> Value {
    json!({"channel": ROOT, "clientId": client.id, "lastSeenServerSeq": seen, "subscriptions": channels})
}

/// Returns the last number that a client received.
fn last_seen_seq(client: &RecordingClient) -> i64 {
    client.received.iter().filter_map(|message| message["params"]["serverSeq"].as_i64()).max().unwrap_or(0)
}

/// Returns the same client on another connection.
async fn connect_again(case: &ProtocolCase, client: &RecordingClient) -> RecordingClient {
    let mut next = case.connect_uninitialized().await;
    next.id = client.id.clone();
    next.seq = client.seq;
    next
}

/// Returns a session, a client that received its start and disconnected, and one that is still connected.
async fn start_with_disconnected_client(case: &ProtocolCase) -> (RecordingClient, RecordingClient, CaseUris) {
    let (mut gone, uris) = case.connect_with_started_session().await;
    let there = case.connect_to_session(&uris).await;
    gone.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Parted"})).await;
    (gone, there, uris)
}

async fn unknown_client_is_not_found_and_may_initialize(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    let params = reconnect_params(&client, 0, &[ROOT]);
    assert_eq!(client.call_error_code("reconnect", params).await, -32008);
    client.initialize(&[ROOT]).await;
    client.call_ok("listSessions", json!({})).await;
}

async fn missed_envelopes_are_replayed_unchanged(case: ProtocolCase) {
    let (gone, mut there, uris) = start_with_disconnected_client(&case).await;
    let mark = there.dispatch_accepted(&uris.session, json!({"type": "session/isReadChanged", "isRead": true})).await;
    there.send_and_wait(&uris.chat, "deltas 30").await;
    let mut client = connect_again(&case, &gone).await;
    let params = reconnect_params(&gone, mark["serverSeq"].as_i64().unwrap() - 1, &[&uris.session, &uris.chat]);
    let answer = client.call_ok("reconnect", params).await;
    assert_eq!((&answer["type"], &answer["missing"]), (&json!("replay"), &json!([])));
    let from = mark["serverSeq"].as_i64().unwrap();
    let mut expected: Vec<_> = [there.received_envelopes(&uris.session), there.received_envelopes(&uris.chat)].concat();
    expected.retain(|envelope| envelope["serverSeq"].as_i64().unwrap() >= from);
    expected.sort_by_key(|envelope| envelope["serverSeq"].as_i64());
    assert_eq!(answer["actions"].as_array().unwrap(), &expected);
}

async fn nothing_missed_gives_an_empty_replay(case: ProtocolCase) {
    let (gone, _there, uris) = start_with_disconnected_client(&case).await;
    let mut client = connect_again(&case, &gone).await;
    let params = reconnect_params(&gone, last_seen_seq(&gone), &[&uris.session]);
    let answer = client.call_ok("reconnect", params).await;
    assert_eq!(answer, json!({"type": "replay", "actions": [], "missing": []}));
}

async fn own_echoes_are_replayed(case: ProtocolCase) {
    let (mut gone, _there, uris) = start_with_disconnected_client(&case).await;
    let before = last_seen_seq(&gone);
    let echo = gone.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Mine"})).await;
    let mut client = connect_again(&case, &gone).await;
    let answer = client.call_ok("reconnect", reconnect_params(&gone, before, &[&uris.session])).await;
    assert_eq!(answer["actions"], json!([echo]));
    assert_eq!(answer["actions"][0]["origin"], json!({"clientId": gone.id, "clientSeq": gone.seq}));
}

async fn rejections_are_replayed(case: ProtocolCase) {
    let (mut gone, _there, uris) = start_with_disconnected_client(&case).await;
    let before = last_seen_seq(&gone);
    gone.dispatch_rejected(&uris.session, json!({"type": "session/titleChanged", "title": ""})).await;
    let mut client = connect_again(&case, &gone).await;
    let answer = client.call_ok("reconnect", reconnect_params(&gone, before, &[&uris.session])).await;
    assert_readable_sentence(&answer["actions"][0]["rejectionReason"]);
}

async fn only_named_channels_are_replayed(case: ProtocolCase) {
    let (gone, mut there, uris) = start_with_disconnected_client(&case).await;
    let before = last_seen_seq(&gone);
    there.send_and_wait(&uris.chat, "deltas 3").await;
    there.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "x"})).await;
    let mut client = connect_again(&case, &gone).await;
    let answer = client.call_ok("reconnect", reconnect_params(&gone, before, &[&uris.session])).await;
    let actions = answer["actions"].as_array().unwrap();
    assert!(!actions.is_empty() && actions.iter().all(|envelope| envelope["channel"] == uris.session), "{answer:#}");
}

async fn new_envelopes_follow_the_replay(case: ProtocolCase) {
    let (gone, mut there, uris) = start_with_disconnected_client(&case).await;
    let before = last_seen_seq(&gone);
    let turn = there.send_message(&uris.chat, "deltas 400").await;
    let mut client = connect_again(&case, &gone).await;
    let answer = client.call_ok("reconnect", reconnect_params(&gone, before, &[&uris.chat])).await;
    client.wait_for_turn_end(&uris.chat, &turn).await;
    there.wait_for_turn_end(&uris.chat, &turn).await;
    let mut all: Vec<_> = answer["actions"].as_array().unwrap().clone();
    all.extend(client.received_envelopes(&uris.chat));
    let mut expected = there.received_envelopes(&uris.chat);
    expected.retain(|envelope| envelope["serverSeq"].as_i64().unwrap() > before);
    assert_eq!(all, expected, "nothing is missing and nothing comes twice");
}

async fn removed_channels_are_reported_as_missing(case: ProtocolCase) {
    let (gone, _there, uris) = start_with_disconnected_client(&case).await;
    let mut client = connect_again(&case, &gone).await;
    let (unknown, chat) = (CaseUris::random().session, CaseUris::random().chat);
    let params = reconnect_params(&gone, last_seen_seq(&gone), &[&unknown, &uris.session, &chat, "nonsense"]);
    let answer = client.call_ok("reconnect", params).await;
    let mut missing: Vec<_> = answer["missing"].as_array().unwrap().clone();
    let mut expected = vec![json!(unknown), json!(chat), json!("nonsense")];
    missing.sort_by_key(ToString::to_string);
    expected.sort_by_key(ToString::to_string);
    assert_eq!(missing, expected);
}

async fn future_numbers_get_snapshots(case: ProtocolCase) {
    let (gone, _there, uris) = start_with_disconnected_client(&case).await;
    let mut client = connect_again(&case, &gone).await;
    let params = reconnect_params(&gone, 1 << 50, &[&uris.session, ROOT, &CaseUris::random().session]);
    let answer = client.call_ok("reconnect", params).await;
    assert_eq!((&answer["type"], answer.get("missing")), (&json!("snapshot"), None));
    let names: Vec<_> = answer["snapshots"].as_array().unwrap().iter().map(|s| s["resource"].clone()).collect();
    assert_eq!(names, [json!(uris.session), json!(ROOT)]);
}

async fn number_of_another_host_run_gets_a_correct_snapshot(case: ProtocolCase) {
    let (gone, mut there, uris) = start_with_disconnected_client(&case).await;
    let mut client = connect_again(&case, &gone).await;
    let answer = client.call_ok("reconnect", reconnect_params(&gone, 1 << 50, &[&uris.chat])).await;
    assert_eq!(answer["snapshots"][0]["state"], there.subscribe(&uris.chat).await);
    there.send_and_wait(&uris.chat, "more").await;
    client.wait_for_action(&uris.chat, "chat/turnComplete").await;
}

async fn negative_numbers_are_tolerated(case: ProtocolCase) {
    let (gone, _there, uris) = start_with_disconnected_client(&case).await;
    for number in [-1, i64::MIN] {
        let mut client = connect_again(&case, &gone).await;
        match client.call("reconnect", reconnect_params(&gone, number, &[&uris.session])).await {
            Ok(answer) => assert!(answer["type"] == "snapshot" || answer["type"] == "replay", "{answer:#}"),
            Err(error) => assert_eq!(error["code"], -32602),
        }
    }
}

async fn reconnect_channel_may_be_omitted(case: ProtocolCase) {
    let (gone, _there, uris) = start_with_disconnected_client(&case).await;
    let mut client = connect_again(&case, &gone).await;
    let params =
        json!({"clientId": gone.id, "lastSeenServerSeq": last_seen_seq(&gone), "subscriptions": [uris.session]});
    assert_eq!(client.call_ok("reconnect", params).await["type"], "replay");
}

async fn failed_reconnect_leaves_the_socket_open(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    for _ in 0..3 {
        let params = reconnect_params(&client, 7, &[]);
        assert_eq!(client.call_error_code("reconnect", params).await, -32008);
        assert_eq!(client.call_error_code("listSessions", json!({})).await, -32601, "it is not initialized by that");
        client.call_ok("ping", json!({})).await;
    }
    client.initialize(&[]).await;
}

async fn reconnect_after_initialize_is_rejected(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let params = reconnect_params(&client, 0, &[ROOT]);
    assert_eq!(client.call_error_code("reconnect", params).await, -32601);
    client.call_ok("ping", json!({})).await;
}

async fn malformed_reconnects_are_invalid(case: ProtocolCase) {
    let gone = case.connect_client().await;
    let mut client = case.connect_uninitialized().await;
    for params in [
        json!({}),
        json!({"clientId": gone.id}),
        json!({"clientId": gone.id, "lastSeenServerSeq": "seven", "subscriptions": []}),
        json!({"clientId": gone.id, "lastSeenServerSeq": 0, "subscriptions": ROOT}),
        json!({"clientId": 7, "lastSeenServerSeq": 0, "subscriptions": []}),
    ] {
        assert_eq!(client.call_error_code("reconnect", params.clone()).await, -32602, "{params}");
    }
}

async fn replay_and_snapshot_give_the_same_state(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_started_session().await;
    one.send_and_wait(&uris.chat, "deltas 50").await;
    one.dispatch_accepted(&uris.chat, json!({"type": "chat/draftChanged", "draft": user_message("later")})).await;
    // From the first snapshot and all envelopes, and from a current snapshot.
    for channel in [&uris.chat, &uris.session] {
        one.assert_state_matches_host(channel).await;
    }
}

async fn client_lost_during_a_stream_misses_nothing(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "deltas 600").await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    let mut all = Vec::new();
    for _ in 0..4 {
        all.extend(client.received_envelopes(&uris.chat));
        let last = all.iter().filter_map(|envelope| envelope["serverSeq"].as_i64()).max().unwrap();
        let mut next = connect_again(&case, &client).await;
        drop(client);
        let answer = next.call_ok("reconnect", reconnect_params(&next, last, &[&uris.chat])).await;
        assert_eq!(answer["type"], "replay");
        all.extend(answer["actions"].as_array().unwrap().clone());
        client = next;
    }
    if !all.iter().any(|envelope| envelope["action"]["type"] == "chat/turnComplete") {
        client.wait_for_turn_end(&uris.chat, &turn).await;
    }
    all.extend(client.received_envelopes(&uris.chat));
    let streamed: String = all.iter().filter_map(|envelope| envelope["action"]["content"].as_str()).collect();
    let expected: String = (0..600).map(|number| format!("d{number} ")).collect();
    assert!(streamed.ends_with(&expected), "{streamed}");
}

async fn reconnect_continues_with_the_negotiated_version(case: ProtocolCase) {
    let (gone, mut there, uris) = start_with_disconnected_client(&case).await;
    let mut client = connect_again(&case, &gone).await;
    client.call_ok("reconnect", reconnect_params(&gone, last_seen_seq(&gone), &[&uris.session])).await;
    // Its messages do not differ from those before the reconnect.
    client.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Back"})).await;
    let (mine, theirs) = (client.subscribe(&uris.session).await, there.subscribe(&uris.session).await);
    assert_eq!(mine, theirs);
}

async fn repeated_dispatch_has_no_second_effect(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let action = turn_started_action("hello");
    let seq = client.dispatch(&uris.chat, action.clone()).await;
    client.wait_for_echo(seq).await;
    let id = action["turnId"].as_str().unwrap();
    client.wait_for_turn_end(&uris.chat, id).await;
    let mut next = connect_again(&case, &client).await;
    next.call_ok("reconnect", reconnect_params(&client, last_seen_seq(&client), &[&uris.chat])).await;
    next.dispatch_with_seq(seq, &uris.chat, action).await;
    next.send_and_wait(&uris.chat, "once more").await;
    assert_eq!(next.subscribe(&uris.chat).await["turns"].as_array().unwrap().len(), 2);
}

async fn repeated_dispatch_is_answered_by_its_first_envelope(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let action = json!({"type": "session/titleChanged", "title": "Sent once"});
    let first = client.dispatch_accepted(&uris.session, action.clone()).await;
    let seq = client.seq;
    let mut next = connect_again(&case, &client).await;
    next.call_ok("reconnect", reconnect_params(&client, last_seen_seq(&client), &[&uris.session])).await;
    next.dispatch_with_seq(seq, &uris.session, action).await;
    assert_eq!(next.wait_for_echo(seq).await, first, "the same number, and no new one");
}

async fn same_number_with_another_action_is_a_new_dispatch(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    for title in ["One", "Two", "Three"] {
        client.dispatch_with_seq(0, &uris.session, json!({"type": "session/titleChanged", "title": title})).await;
    }
    client.dispatch_accepted(&uris.session, json!({"type": "session/isReadChanged", "isRead": true})).await;
    assert_eq!(client.subscribe(&uris.session).await["title"], "Three");
}

async fn notifications_are_not_replayed(case: ProtocolCase) {
    let gone = case.connect_client().await;
    let (mut there, uris) = case.connect_with_started_session().await;
    there.wait_for_notification("root/sessionAdded", &uris.session).await;
    let mut client = connect_again(&case, &gone).await;
    client.call_ok("reconnect", reconnect_params(&gone, last_seen_seq(&there), &[ROOT])).await;
    client.call_ok("ping", json!({})).await;
    let about = |message: &&Value| message["params"]["summary"]["resource"] == uris.session;
    assert_eq!(client.received.iter().filter(about).count(), 0);
    let list = client.call_ok("listSessions", json!({})).await;
    assert!(list["items"].as_array().unwrap().iter().any(|item| item["resource"] == uris.session));
}

async fn older_socket_of_the_same_client_may_stay_open(case: ProtocolCase) {
    let (mut old, _there, uris) = start_with_disconnected_client(&case).await;
    let mut new = connect_again(&case, &old).await;
    new.call_ok("reconnect", reconnect_params(&old, last_seen_seq(&old), &[&uris.session])).await;
    new.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "New"})).await;
    drop(new);
    old.seq += 1;
    old.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Old"})).await;
}

async fn unnamed_subscriptions_are_dropped_on_reconnect(case: ProtocolCase) {
    let (gone, mut there, uris) = start_with_disconnected_client(&case).await;
    let mut client = connect_again(&case, &gone).await;
    client.call_ok("reconnect", reconnect_params(&gone, last_seen_seq(&gone), &[&uris.session])).await;
    there.send_and_wait(&uris.chat, "deltas 3").await;
    let last = there.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Last"})).await;
    client.wait_for(|message| message["params"]["serverSeq"] == last["serverSeq"]).await;
    assert_eq!(client.received_envelopes(&uris.chat), [] as [Value; 0]);
}

async fn annotations_are_replayed(case: ProtocolCase) {
    let (mut gone, uris) = case.connect_with_started_session().await;
    let channel = uris.annotations();
    gone.subscribe(&channel).await;
    let before = last_seen_seq(&gone);
    let annotation = json!({"id": "a1", "resource": case.uri("x"), "origin": {"session": uris.session},
        "entries": [{"id": "e1", "text": "look"}], "resolved": false});
    let echo = gone.dispatch_accepted(&channel, json!({"type": "annotations/set", "annotation": annotation})).await;
    let mut client = connect_again(&case, &gone).await;
    let answer = client.call_ok("reconnect", reconnect_params(&gone, before, &[&channel])).await;
    assert_eq!(answer["actions"], json!([echo]));
}
