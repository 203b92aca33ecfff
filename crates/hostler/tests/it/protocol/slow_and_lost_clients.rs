//! Slow and lost clients. `tests/reconnect.rs` tests the disconnect of a client that stalls permanently, because
//! that needs a flood.

use super::harness::*;

area! { HostFixture::with_fake_agent_in(TestHome::new(), &[("HOSTLER_CLIENT_TIMEOUT", "1")]);
    paused_reader_misses_nothing,
    stalled_reader_does_not_delay_others,
    lost_active_client_is_removed_from_its_sessions,
    active_client_that_reconnects_in_time_stays,
    turn_of_a_lost_client_can_be_cancelled_by_others,
    question_of_a_lost_client_stays_pending_for_others,
    provisional_session_survives_its_creators_disconnect,
    request_of_a_lost_client_is_carried_out,
    client_lost_during_its_attachment_blocks_no_others,
}

/// Returns a connection with a small receive buffer.
async fn narrow(case: &ProtocolCase, channels: &[&str]) -> (RawClient, String) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let stream = socket.connect(([127, 0, 0, 1], case.fixture.host.port).into()).await.unwrap();
    let mut raw = RawClient::connect_over(stream, &case.url()).await;
    let id = format!("narrow-{}", Uuid::new_v4());
    let params = json!({"protocolVersions": [case.version], "clientId": id, "initialSubscriptions": channels});
    raw.call("initialize", params).await.unwrap();
    (raw, id)
}

async fn paused_reader_misses_nothing(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let (mut paused, _) = narrow(&case, &[&uris.session]).await;
    let mut last = 0;
    for number in 0..1000 {
        last = client
            .dispatch(&uris.session, json!({"type": "session/titleChanged", "title": format!("t{number}")}))
            .await;
    }
    client.wait_for_echo(last).await;
    let mut titles = 0;
    while titles < 1000 {
        let message = paused.receive().await.expect("it is not cut off for a pause");
        if message["params"]["action"]["type"] == "session/titleChanged" {
            assert_eq!(message["params"]["action"]["title"], format!("t{titles}"));
            titles += 1;
        }
    }
}

async fn stalled_reader_does_not_delay_others(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut stalled = Vec::new();
    for _ in 0..5 {
        stalled.push(narrow(&case, &[&uris.chat, &uris.session, ROOT]).await);
    }
    for _ in 0..3 {
        let turn = client.send_message(&uris.chat, "deltas 1000").await;
        client.wait_for_turn_end(&uris.chat, &turn).await;
    }
    client.assert_state_matches_host(&uris.chat).await;
}

fn active(id: &str) -> Value {
    json!({"type": "session/activeClientSet", "activeClient": {"clientId": id, "tools": []}})
}

async fn lost_active_client_is_removed_from_its_sessions(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let mut two = case.connect_to_session(&uris).await;
    let id = one.id.clone();
    one.dispatch_accepted(&uris.session, active(&id)).await;
    drop(one);
    assert_eq!(two.wait_for_action(&uris.session, "session/activeClientRemoved").await["clientId"], id);
    two.assert_state_matches_host(&uris.session).await;
}

async fn active_client_that_reconnects_in_time_stays(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let id = one.id.clone();
    one.dispatch_accepted(&uris.session, active(&id)).await;
    let mut back = case.connect_uninitialized().await;
    back.id = id.clone();
    back.seq = one.seq;
    let params = json!({"clientId": id, "lastSeenServerSeq": 0, "subscriptions": [uris.session]});
    // The client reconnects before its old connection has ended, like clients that change their network.
    back.call_ok("reconnect", params).await;
    drop(one);
    back.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "x"})).await;
    assert_eq!(back.subscribe(&uris.session).await["activeClients"][0]["clientId"], id);
}

async fn turn_of_a_lost_client_can_be_cancelled_by_others(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let mut two = case.connect_to_session(&uris).await;
    let turn = one.send_message(&uris.chat, "hang").await;
    two.wait_for_action(&uris.chat, "chat/delta").await;
    drop(one);
    two.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
}

async fn question_of_a_lost_client_stays_pending_for_others(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    one.send_message(&uris.chat, "tool").await;
    let needed = one.wait_for_action(&uris.session, "session/inputNeededSet").await["request"].take();
    drop(one);
    let mut two = case.connect_to_session(&uris).await;
    let yes = json!({"type": "chat/toolCallConfirmed", "turnId": needed["turnId"],
        "toolCallId": needed["toolCall"]["toolCallId"], "approved": true, "confirmed": "user-action"});
    two.dispatch_accepted(&uris.chat, yes).await;
    assert_eq!(
        two.wait_for_turn_end(&uris.chat, needed["turnId"].as_str().unwrap()).await["type"],
        "chat/turnComplete"
    );
}

async fn provisional_session_survives_its_creators_disconnect(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    one.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Left alone"})).await;
    drop(one);
    let mut two = case.connect_client().await;
    assert_eq!(two.subscribe(&uris.session).await["title"], "Left alone");
}

async fn request_of_a_lost_client_is_carried_out(case: ProtocolCase) {
    let mut two = case.connect_client().await;
    let uris = CaseUris::random();
    let mut one = case.connect_client().await;
    one.request("createSession", json!({"channel": uris.session, "workingDirectories": [case.uri("")]})).await;
    one.request("subscribe", json!({"channel": uris.chat})).await;
    one.send_message(&uris.chat, "deltas 5").await;
    // A ping confirms that the host has read the earlier frames.
    one.call_ok("ping", json!({})).await;
    drop(one);
    two.wait_for_notification("root/sessionAdded", &uris.session).await;
}

async fn client_lost_during_its_attachment_blocks_no_others(case: ProtocolCase) {
    let (mut one, uris) = case.connect_with_session().await;
    let mut two = case.connect_to_session(&uris).await;
    let mut action = turn_started_action("look");
    let uri = format!("vscode-agent-client://{}/file/-/x", one.id);
    action["message"]["attachments"] = json!([{"type": "resource", "label": "x", "uri": uri}]);
    one.dispatch(&uris.chat, action).await;
    one.wait_for(|message| message["method"] == "resourceRead").await;
    drop(one);
    let refused = |message: &Value| {
        message["params"]["channel"] == uris.chat && message["params"].get("rejectionReason").is_some()
    };
    two.wait_for(refused).await;
    assert_eq!(markdown_text(&two.send_and_wait(&uris.chat, "on").await), "echo: on");
}
