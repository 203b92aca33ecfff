//! Several clients: the same state for all of them, and private parts for each.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    all_clients_receive_the_same_order,
    envelope_names_its_origin_for_all_clients,
    host_actions_have_no_origin,
    rejection_reaches_the_channels_subscribers,
    envelopes_of_one_session_do_not_reach_another,
    late_subscribers_see_the_same_state,
    client_disconnect_does_not_affect_others,
    turn_continues_without_its_sender,
    one_of_two_concurrent_turns_is_accepted,
    concurrent_titles_of_ten_clients_converge,
    active_client_is_set_updated_and_removed,
    clients_cannot_act_for_other_clients,
    removing_an_inactive_client_is_rejected,
    unsubscribe_removes_the_active_client,
    active_client_that_reconnects_without_the_session_is_removed,
    client_tools_are_stored_and_not_run,
    malformed_active_client_is_rejected,
    dispatch_without_a_subscription_is_carried_out,
    dispatches_of_one_client_are_answered_in_order,
    dispatch_to_an_unknown_session_is_ignored,
}

fn title(title: &str) -> Value {
    json!({"type": "session/titleChanged", "title": title})
}

async fn all_clients_receive_the_same_order(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let (mut two, mut three) = (case.connect_to_session(&uris).await, case.connect_to_session(&uris).await);
    let turn = one.send_message(&uris.chat, "deltas 100").await;
    two.dispatch_accepted(&uris.session, title("Two")).await;
    three.dispatch_accepted(&uris.session, title("Three")).await;
    for client in [&mut one, &mut two, &mut three] {
        client.wait_for_turn_end(&uris.chat, &turn).await;
        client.assert_state_matches_host(&uris.chat).await;
        client.assert_state_matches_host(&uris.session).await;
    }
    assert_eq!(one.received_envelopes(&uris.chat), two.received_envelopes(&uris.chat));
    assert_eq!(one.received_envelopes(&uris.chat), three.received_envelopes(&uris.chat));
}

async fn envelope_names_its_origin_for_all_clients(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let mut two = case.connect_to_session(&uris).await;
    one.dispatch_accepted(&uris.session, title("x")).await;
    let envelope = two.wait_for_envelope(&uris.session, "session/titleChanged").await;
    assert_eq!(envelope["origin"], json!({"clientId": one.id, "clientSeq": one.seq}));
}

async fn host_actions_have_no_origin(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_and_wait(&uris.chat, "deltas 3").await;
    for envelope in client.received_envelopes(&uris.chat) {
        let mine = envelope["action"]["type"] == "chat/turnStarted";
        assert_eq!(envelope.get("origin").is_some(), mine, "{envelope:#}");
    }
}

async fn rejection_reaches_the_channels_subscribers(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let mut two = case.connect_to_session(&uris).await;
    let reason = one.dispatch_rejected(&uris.session, title("")).await;
    let refused = |message: &Value| message["params"].get("rejectionReason").is_some();
    let envelope = two.wait_for(refused).await["params"].take();
    assert_eq!((&envelope["rejectionReason"], &envelope["origin"]["clientId"]), (&json!(reason), &json!(one.id)));
    two.assert_state_matches_host(&uris.session).await;
}

async fn envelopes_of_one_session_do_not_reach_another(case: ProtocolCase) {
    let (mut one, mine) = case.connect_with_session().await;
    let (mut two, theirs) = case.connect_with_session().await;
    let (a, b) = (one.send_message(&mine.chat, "deltas 20").await, two.send_message(&theirs.chat, "deltas 20").await);
    one.wait_for_turn_end(&mine.chat, &a).await;
    two.wait_for_turn_end(&theirs.chat, &b).await;
    assert_eq!(one.received_envelopes(&theirs.chat).len() + one.received_envelopes(&theirs.session).len(), 0);
    assert_eq!(two.received_envelopes(&mine.chat).len() + two.received_envelopes(&mine.session).len(), 0);
}

async fn late_subscribers_see_the_same_state(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let turn = one.send_message(&uris.chat, "slow").await;
    one.wait_for_action(&uris.chat, "chat/delta").await;
    let mut late = case.connect_to_session(&uris).await;
    one.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
    late.wait_for_turn_end(&uris.chat, &turn).await;
    late.assert_state_matches_host(&uris.chat).await;
    one.assert_state_matches_host(&uris.chat).await;
    assert_eq!(one.subscribe(&uris.chat).await, late.subscribe(&uris.chat).await);
}

async fn client_disconnect_does_not_affect_others(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let turn = one.send_message(&uris.chat, "deltas 300").await;
    for _ in 0..5 {
        drop(case.connect_to_session(&uris).await);
    }
    one.wait_for_turn_end(&uris.chat, &turn).await;
    one.assert_state_matches_host(&uris.chat).await;
}

async fn turn_continues_without_its_sender(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let mut two = case.connect_to_session(&uris).await;
    let turn = one.send_message(&uris.chat, &format!("wait {}", case.dir.join("go").display())).await;
    one.wait_for_action(&uris.chat, "chat/delta").await;
    drop(one);
    case.write_file("go", "");
    assert_eq!(two.wait_for_turn_end(&uris.chat, &turn).await["type"], "chat/turnComplete");
}

async fn one_of_two_concurrent_turns_is_accepted(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_started_session().await;
    let mut two = case.connect_to_session(&uris).await;
    let (mine, theirs) = (turn_started_action("hang"), turn_started_action("hang"));
    let (a, b) = (one.dispatch(&uris.chat, mine.clone()).await, two.dispatch(&uris.chat, theirs.clone()).await);
    let (a, b) = (one.wait_for_echo(a).await, two.wait_for_echo(b).await);
    let refused = [&a, &b].iter().filter(|envelope| envelope.get("rejectionReason").is_some()).count();
    assert_eq!(refused, 1, "{a:#} {b:#}");
    let winner = if a.get("rejectionReason").is_none() { mine } else { theirs };
    assert_eq!(two.subscribe(&uris.chat).await["activeTurn"]["id"], winner["turnId"]);
    one.dispatch_accepted(&uris.chat, turn_cancelled_action(winner["turnId"].as_str().unwrap())).await;
}

async fn concurrent_titles_of_ten_clients_converge(case: ProtocolCase) {
    let (mut watcher, uris) = case.connect_with_started_session().await;
    let mut writers = Vec::new();
    for number in 0..10 {
        let (case, uris) = (case.clone(), uris.clone());
        writers.push(tokio::spawn(async move {
            let mut client = case.connect_to_session(&uris).await;
            for round in 0..10 {
                client.dispatch_accepted(&uris.session, title(&format!("{number}-{round}"))).await;
            }
            client.assert_state_matches_host(&uris.session).await;
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    watcher.assert_state_matches_host(&uris.session).await;
    let titles =
        watcher.received_envelopes(&uris.session).into_iter().filter(|e| e["action"]["type"] == "session/titleChanged");
    assert!(
        titles.filter(|envelope| envelope.get("origin").is_some()).count() == 100,
        "each of them is published once"
    );
}

fn active(id: &str, name: &str) -> Value {
    json!({"type": "session/activeClientSet", "activeClient": {"clientId": id, "displayName": name, "tools": []}})
}

fn inactive(id: &str) -> Value {
    json!({"type": "session/activeClientRemoved", "clientId": id})
}

async fn actives(client: &mut RecordingClient, session: &str) -> Vec<Value> {
    client.subscribe(session).await["activeClients"].as_array().unwrap().clone()
}

async fn active_client_is_set_updated_and_removed(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let id = client.id.clone();
    client.dispatch_accepted(&uris.session, active(&id, "One")).await;
    client.dispatch_accepted(&uris.session, active(&id, "Two")).await;
    let now = actives(&mut client, &uris.session).await;
    assert_eq!((now.len(), &now[0]["displayName"]), (1, &json!("Two")));
    client.dispatch_accepted(&uris.session, inactive(&id)).await;
    assert_eq!(actives(&mut client, &uris.session).await, [] as [Value; 0]);
    client.assert_state_matches_host(&uris.session).await;
}

async fn clients_cannot_act_for_other_clients(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let mut two = case.connect_to_session(&uris).await;
    let id = one.id.clone();
    one.dispatch_accepted(&uris.session, active(&id, "One")).await;
    two.dispatch_rejected(&uris.session, active(&id, "Forged")).await;
    two.dispatch_rejected(&uris.session, inactive(&id)).await;
    assert_eq!(actives(&mut one, &uris.session).await[0]["displayName"], "One");
}

async fn removing_an_inactive_client_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let id = client.id.clone();
    client.dispatch_rejected(&uris.session, inactive(&id)).await;
}

async fn unsubscribe_removes_the_active_client(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let mut two = case.connect_to_session(&uris).await;
    let id = one.id.clone();
    one.dispatch_accepted(&uris.session, active(&id, "One")).await;
    one.unsubscribe(&uris.session).await;
    assert_eq!(two.wait_for_action(&uris.session, "session/activeClientRemoved").await["clientId"], one.id);
    two.assert_state_matches_host(&uris.session).await;
}

async fn active_client_that_reconnects_without_the_session_is_removed(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let mut two = case.connect_to_session(&uris).await;
    let id = one.id.clone();
    one.dispatch_accepted(&uris.session, active(&id, "One")).await;
    drop(one);
    // An open connection may be the one that is subscribed to the session, so the host must notice its end first.
    loop {
        let mut back = case.connect_uninitialized().await;
        back.id = id.clone();
        let params = json!({"clientId": id, "lastSeenServerSeq": 0, "subscriptions": [ROOT]});
        back.call_ok("reconnect", params).await;
        if actives(&mut two, &uris.session).await.is_empty() {
            break;
        }
    }
    assert_eq!(two.wait_for_action(&uris.session, "session/activeClientRemoved").await["clientId"], id);
}

async fn client_tools_are_stored_and_not_run(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut action = active(&client.id, "One");
    action["activeClient"]["tools"] =
        json!([{"name": "editor_open", "description": "opens", "inputSchema": {"type": "object"}}]);
    client.dispatch_accepted(&uris.session, action.clone()).await;
    assert_eq!(actives(&mut client, &uris.session).await[0]["tools"], action["activeClient"]["tools"]);
    let turn = client.send_and_wait(&uris.chat, "hello").await;
    assert_eq!(turn["state"], "complete");
}

async fn malformed_active_client_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for active in [json!({}), json!({"clientId": client.id}), json!(7), json!({"clientId": client.id, "tools": 7})] {
        client
            .dispatch_rejected(&uris.session, json!({"type": "session/activeClientSet", "activeClient": active}))
            .await;
    }
    assert_eq!(actives(&mut client, &uris.session).await, [] as [Value; 0]);
}

async fn dispatch_without_a_subscription_is_carried_out(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let mut two = case.connect_client().await;
    two.dispatch(&uris.session, title("From afar")).await;
    assert_eq!(one.wait_for_action(&uris.session, "session/titleChanged").await["title"], "From afar");
}

async fn dispatches_of_one_client_are_answered_in_order(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let mut last = 0;
    for number in 0..200 {
        let action = if number % 3 == 2 { title("") } else { title(&number.to_string()) };
        last = client.dispatch(&uris.session, action).await;
    }
    client.wait_for_echo(last).await;
    let origins: Vec<_> = client
        .received_envelopes(&uris.session)
        .iter()
        .filter_map(|envelope| envelope["origin"]["clientSeq"].as_i64())
        .collect();
    assert_eq!(origins.len(), 200);
    assert!(origins.windows(2).all(|pair| pair[0] < pair[1]), "{origins:?}");
}

async fn dispatch_to_an_unknown_session_is_ignored(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let unknown = CaseUris::random();
    client.dispatch(&unknown.session, title("x")).await;
    client.dispatch(&unknown.chat, turn_started_action("hello")).await;
    client.dispatch("nonsense", title("x")).await;
    client.dispatch_accepted(&uris.session, title("still here")).await;
    let envelopes = client.received.iter().filter(|message| message["method"] == "action");
    let strange = envelopes.filter(|message| message["params"]["channel"] == unknown.session);
    assert_eq!(strange.count(), 0);
}
