//! Sequence numbers: one sequence over all channels.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    one_sequence_numbers_all_channels,
    rejection_has_its_own_number,
    two_clients_agree_on_every_number,
    snapshot_is_consistent_with_its_number,
    snapshot_plus_envelopes_equals_the_state_at_any_time,
    concurrent_sessions_never_share_a_number,
    turn_is_accepted_before_agent_output,
    session_is_ready_before_it_is_announced,
    turn_end_comes_last,
    own_dispatches_are_echoed_in_order,
    chat_entry_in_the_session_follows_the_chat,
}

fn number(envelope: &Value) -> i64 {
    envelope["serverSeq"].as_i64().unwrap()
}

/// Returns all envelopes, in the order of arrival.
fn all(client: &RecordingClient) -> Vec<Value> {
    let actions = client.received.iter().filter(|message| message["method"] == "action");
    actions.map(|message| message["params"].clone()).collect()
}

fn title(title: &str) -> Value {
    json!({"type": "session/titleChanged", "title": title})
}

async fn one_sequence_numbers_all_channels(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.subscribe(&uris.annotations()).await;
    let turn = client.send_message(&uris.chat, "deltas 50").await;
    client.dispatch_accepted(&uris.session, title("x")).await;
    client.dispatch_accepted(ROOT, json!({"type": "root/configChanged", "config": {"mine": 1}})).await;
    client.wait_for_turn_end(&uris.chat, &turn).await;
    let all = all(&client);
    let channels: std::collections::HashSet<_> = all.iter().map(|envelope| envelope["channel"].clone()).collect();
    assert!(channels.len() >= 3, "{channels:?}");
    assert!(all.windows(2).all(|pair| number(&pair[0]) < number(&pair[1])));
}

async fn rejection_has_its_own_number(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let before = client.dispatch_accepted(&uris.session, title("x")).await;
    client.dispatch_rejected(&uris.session, title("")).await;
    let after = client.dispatch_accepted(&uris.session, title("y")).await;
    let refused =
        client.received_envelopes(&uris.session).into_iter().find(|e| e.get("rejectionReason").is_some()).unwrap();
    assert!(number(&before) < number(&refused) && number(&refused) < number(&after));
}

async fn two_clients_agree_on_every_number(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let mut two = case.connect_to_session(&uris).await;
    let turn = one.send_message(&uris.chat, "deltas 100").await;
    for number in 0..20 {
        two.dispatch_accepted(&uris.session, title(&number.to_string())).await;
    }
    one.wait_for_turn_end(&uris.chat, &turn).await;
    two.wait_for_turn_end(&uris.chat, &turn).await;
    let mine: std::collections::HashMap<_, _> = all(&one).into_iter().map(|e| (number(&e), e)).collect();
    for envelope in all(&two) {
        if let Some(known) = mine.get(&number(&envelope)) {
            assert_eq!(known, &envelope);
        }
    }
}

async fn snapshot_is_consistent_with_its_number(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let before = client.dispatch_accepted(&uris.session, title("before")).await;
    let answer = client.call_ok("subscribe", json!({"channel": uris.session})).await;
    let after = client.dispatch_accepted(&uris.session, title("after")).await;
    let from = answer["snapshot"]["fromSeq"].as_i64().unwrap();
    assert!(number(&before) <= from && from < number(&after), "{from}");
}

async fn snapshot_plus_envelopes_equals_the_state_at_any_time(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "deltas 400").await;
    let mut others = Vec::new();
    for _ in 0..8 {
        others.push(case.connect_to_session(&uris).await);
    }
    client.wait_for_turn_end(&uris.chat, &turn).await;
    for mut other in others {
        other.assert_state_matches_host(&uris.chat).await;
        other.assert_state_matches_host(&uris.session).await;
    }
}

async fn concurrent_sessions_never_share_a_number(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let (one, two) = (client.create_session(&case.dir).await, client.create_session(&case.dir).await);
    let (a, b) =
        (client.send_message(&one.chat, "deltas 100").await, client.send_message(&two.chat, "deltas 100").await);
    client.wait_for_turn_end(&one.chat, &a).await;
    client.wait_for_turn_end(&two.chat, &b).await;
    let all = all(&client);
    assert!(all.windows(2).all(|pair| number(&pair[0]) < number(&pair[1])), "in order, and none of them twice");
}

async fn turn_is_accepted_before_agent_output(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let turn = client.send_message(&uris.chat, "deltas 3").await;
    client.wait_for_turn_end(&uris.chat, &turn).await;
    let mine: Vec<_> =
        client.received_envelopes(&uris.chat).into_iter().filter(|e| e["action"]["turnId"] == turn).collect();
    assert_eq!(mine[0]["action"]["type"], "chat/turnStarted");
    assert_eq!(mine[0]["origin"]["clientId"], client.id);
}

async fn session_is_ready_before_it_is_announced(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_and_wait(&uris.chat, "hello").await;
    client.wait_for_notification("root/sessionAdded", &uris.session).await;
    let place = |fits: &dyn Fn(&Value) -> bool| client.received.iter().position(fits).unwrap();
    let ready = place(&|message| message["params"]["action"]["type"] == "session/ready");
    let added = place(&|message| message["params"]["summary"]["resource"] == uris.session);
    assert!(ready < added, "ready {ready}, added {added}");
}

async fn turn_end_comes_last(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for text in ["deltas 20", "error 500", "tool"] {
        let turn = client.send_message(&uris.chat, text).await;
        if text == "tool" {
            let needed = client.wait_for_action(&uris.session, "session/inputNeededSet").await["request"].take();
            let yes = json!({"type": "chat/toolCallConfirmed", "turnId": needed["turnId"],
                "toolCallId": needed["toolCall"]["toolCallId"], "approved": true, "confirmed": "user-action"});
            client.dispatch_accepted(&uris.chat, yes).await;
        }
        client.wait_for_turn_end(&uris.chat, &turn).await;
        client.dispatch_accepted(&uris.chat, json!({"type": "chat/draftChanged"})).await;
        let last = client.received_envelopes(&uris.chat).into_iter().rfind(|e| e["action"]["turnId"] == turn);
        let last = last.unwrap()["action"]["type"].clone();
        assert!(["chat/turnComplete", "chat/error"].contains(&last.as_str().unwrap()), "{text}: {last}");
    }
}

async fn own_dispatches_are_echoed_in_order(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let first = client.dispatch(&uris.session, title("a")).await;
    let second = client.dispatch(&uris.chat, json!({"type": "chat/draftChanged", "draft": user_message("x")})).await;
    let third = client.dispatch(&uris.session, title("b")).await;
    let numbers =
        [client.wait_for_echo(first).await, client.wait_for_echo(second).await, client.wait_for_echo(third).await];
    assert!(number(&numbers[0]) < number(&numbers[1]) && number(&numbers[1]) < number(&numbers[2]));
}

async fn chat_entry_in_the_session_follows_the_chat(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "hang").await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    let line = |state: &Value| state["chats"][0]["status"].as_u64().unwrap() & 31;
    let mut state = client.subscribe(&uris.session).await;
    while line(&state) != 8 {
        client.wait_for_envelope(&uris.session, "session/chatUpdated").await;
        state = client.subscribe(&uris.session).await;
    }
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
    while line(&state) != 1 {
        client.wait_for_envelope(&uris.session, "session/chatUpdated").await;
        state = client.subscribe(&uris.session).await;
    }
    client.assert_state_matches_host(&uris.session).await;
}
