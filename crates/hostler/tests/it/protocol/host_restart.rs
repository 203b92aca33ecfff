//! The host is killed or stopped, and another one replaces it.

use std::sync::Arc;

use super::harness::*;

area! { HostFixture::with_shell_commands();
    accepted_changes_survive_a_kill,
    queue_survives_a_kill_and_stays_paused,
    annotations_survive_a_kill,
    root_configuration_survives_a_kill,
    provisional_session_is_gone_after_a_kill,
    disposed_session_stays_disposed_after_a_kill,
    sequence_numbers_grow_across_a_kill,
    known_client_reconnects_by_replay_after_a_kill,
    client_ahead_of_the_journal_gets_snapshots,
    unknown_client_is_32008_and_may_initialize,
    dispatch_repeated_after_a_kill_is_answered_by_its_first_envelope,
    running_turn_ends_as_interrupted_after_a_kill_and_is_resumed,
    pending_call_is_withdrawn_after_a_kill,
    command_ends_with_the_host_and_is_not_run_again,
    shutdown_cancels_the_turn,
    shutdown_closes_client_connections,
    chat_continues_after_a_restart,
    session_list_is_the_same_after_a_restart,
    active_client_without_reconnect_is_removed_after_a_restart,
    local_turns_survive_a_kill,
}

/// Host of one case, which may be killed.
struct RestartableHost {
    case: ProtocolCase,
}

impl RestartableHost {
    async fn begin(case: &ProtocolCase) -> Self {
        let stage = Arc::new(HostFixture::with_shell_commands().await);
        Self { case: ProtocolCase::new(&stage, "work", case.version) }
    }

    fn into_parts(self) -> (HostFixture, &'static str) {
        let ProtocolCase { fixture: stage, version, .. } = self.case;
        (Arc::into_inner(stage).expect("no other task holds the host"), version)
    }

    async fn killed(self) -> Self {
        let (stage, version) = self.into_parts();
        Self { case: ProtocolCase::new(&Arc::new(stage.kill_and_restart().await), "work", version) }
    }

    async fn restarted(self) -> Self {
        let (stage, version) = self.into_parts();
        Self { case: ProtocolCase::new(&Arc::new(stage.stop_and_restart().await), "work", version) }
    }

    async fn end(self) {
        self.into_parts().0.host.stop().await;
    }

    /// Returns the same client, connected to the current host.
    async fn reconnect(&self, client: &RecordingClient) -> RecordingClient {
        let mut next = self.case.connect_uninitialized().await;
        next.id = client.id.clone();
        next.seq = client.seq;
        next
    }
}

fn title(title: &str) -> Value {
    json!({"type": "session/titleChanged", "title": title})
}

async fn accepted_changes_survive_a_kill(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut client, uris) = life.case.connect_with_started_session().await;
    client.dispatch_accepted(&uris.session, title("Stored")).await;
    client.dispatch_accepted(&uris.session, json!({"type": "session/isArchivedChanged", "isArchived": true})).await;
    client
        .dispatch_accepted(
            &uris.session,
            json!({"type": "session/configChanged", "config": {"permissionMode": "plan"}}),
        )
        .await;
    client.dispatch_accepted(&uris.chat, json!({"type": "chat/draftChanged", "draft": user_message("half")})).await;
    let (session, chat) = (client.subscribe(&uris.session).await, client.subscribe(&uris.chat).await);
    let life = life.killed().await;
    let mut client = life.case.connect_client().await;
    let (now, then) = (client.subscribe(&uris.session).await, session);
    for key in ["title", "status", "config", "lifecycle", "defaultChat", "workingDirectories"] {
        assert_eq!(now[key], then[key], "{key}");
    }
    let now = client.subscribe(&uris.chat).await;
    for key in ["turns", "draft", "title"] {
        assert_eq!(now[key], chat[key], "{key}");
    }
    life.end().await;
}

async fn queue_survives_a_kill_and_stays_paused(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut client, uris) = life.case.connect_with_session().await;
    client.send_message(&uris.chat, "hang").await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "one")).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "s", "steer")).await;
    let life = life.killed().await;
    let mut client = life.case.connect_to_session(&uris).await;
    let state = client.subscribe(&uris.chat).await;
    let waiting: Vec<_> =
        state["queuedMessages"].as_array().unwrap().iter().map(|waits| waits["message"]["text"].clone()).collect();
    assert_eq!(waiting, ["steer", "one"], "nothing that was accepted is lost");
    assert_eq!((state.get("activeTurn"), state.get("steeringMessage")), (None, None));
    assert_eq!(client.subscribe(&uris.session).await["_meta"]["hostler"]["queuePaused"], true);
    life.end().await;
}

async fn annotations_survive_a_kill(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut client, uris) = life.case.connect_with_started_session().await;
    let channel = uris.annotations();
    client.subscribe(&channel).await;
    let annotation = json!({"id": "a", "origin": {"session": uris.session}, "resource": "file:///x", "resolved": false,
        "entries": [{"id": "1", "text": "stored"}]});
    client.dispatch_accepted(&channel, json!({"type": "annotations/set", "annotation": annotation})).await;
    let life = life.killed().await;
    let mut client = life.case.connect_client().await;
    assert_eq!(client.subscribe(&channel).await, json!({"annotations": [annotation]}));
    life.end().await;
}

async fn root_configuration_survives_a_kill(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let mut client = life.case.connect_client().await;
    client
        .dispatch_accepted(ROOT, json!({"type": "root/configChanged", "config": {"custom": [1], "effort": "low"}}))
        .await;
    let life = life.killed().await;
    let mut client = life.case.connect_client().await;
    let values = client.subscribe(ROOT).await["config"]["values"].clone();
    assert_eq!((&values["custom"], &values["effort"]), (&json!([1]), &json!("low")));
    life.end().await;
}

async fn provisional_session_is_gone_after_a_kill(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut client, uris) = life.case.connect_with_session().await;
    client.dispatch_accepted(&uris.session, title("Provisional")).await;
    // This is in memory only, and the client's number may be as well. A later durable change makes both durable.
    client.dispatch_accepted(ROOT, json!({"type": "root/configChanged", "config": {"custom": true}})).await;
    let life = life.killed().await;
    let mut back = life.reconnect(&client).await;
    let params = json!({"clientId": back.id, "lastSeenServerSeq": 0, "subscriptions": [uris.session]});
    match back.call("reconnect", params).await {
        Ok(answer) if answer["type"] == "replay" => assert_eq!(answer["missing"], json!([uris.session])),
        Ok(answer) => assert_eq!(answer["snapshots"], json!([])),
        Err(error) => panic!("{error:#}"),
    }
    assert_eq!(back.call_error_code("subscribe", json!({"channel": uris.session})).await, -32001);
    life.end().await;
}

async fn disposed_session_stays_disposed_after_a_kill(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut client, uris) = life.case.connect_with_started_session().await;
    client.call_ok("disposeSession", json!({"channel": uris.session})).await;
    let life = life.killed().await;
    let mut client = life.case.connect_client().await;
    assert_eq!(client.call_ok("listSessions", json!({})).await["items"], json!([]));
    assert_eq!(client.call_error_code("subscribe", json!({"channel": uris.session})).await, -32001);
    life.end().await;
}

async fn sequence_numbers_grow_across_a_kill(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut client, uris) = life.case.connect_with_started_session().await;
    let before = client.dispatch_accepted(&uris.session, title("Before")).await["serverSeq"].as_i64().unwrap();
    let life = life.killed().await;
    let mut client = life.case.connect_to_session(&uris).await;
    let after = client.dispatch_accepted(&uris.session, title("After")).await["serverSeq"].as_i64().unwrap();
    assert!(after > before, "{after} > {before}");
    life.end().await;
}

async fn known_client_reconnects_by_replay_after_a_kill(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut gone, uris) = life.case.connect_with_started_session().await;
    let seen = gone.dispatch_accepted(&uris.session, title("Seen")).await["serverSeq"].as_i64().unwrap();
    let mut there = life.case.connect_to_session(&uris).await;
    let missed = there.dispatch_accepted(&uris.session, title("Missed")).await;
    let life = life.killed().await;
    let mut back = life.reconnect(&gone).await;
    let params = json!({"clientId": back.id, "lastSeenServerSeq": seen, "subscriptions": [uris.session]});
    let answer = back.call_ok("reconnect", params).await;
    assert_eq!(answer["type"], "replay", "{answer:#}");
    assert!(answer["actions"].as_array().unwrap().contains(&missed), "{answer:#}");
    back.dispatch_accepted(&uris.session, title("And on")).await;
    life.end().await;
}

async fn client_ahead_of_the_journal_gets_snapshots(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (client, uris) = life.case.connect_with_started_session().await;
    let life = life.killed().await;
    let mut back = life.reconnect(&client).await;
    // As if the client had received more than the disk contains.
    let seen = client.received.iter().filter_map(|message| message["params"]["serverSeq"].as_i64()).max().unwrap();
    let params = json!({"clientId": back.id, "lastSeenServerSeq": seen + 1000, "subscriptions": [uris.session]});
    let answer = back.call_ok("reconnect", params).await;
    assert_eq!(answer["type"], "snapshot");
    assert_eq!(answer["snapshots"][0]["resource"], uris.session);
    life.end().await;
}

async fn unknown_client_is_32008_and_may_initialize(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await.killed().await;
    let mut client = life.case.connect_uninitialized().await;
    let params = json!({"clientId": client.id, "lastSeenServerSeq": 5, "subscriptions": [ROOT]});
    assert_eq!(client.call_error_code("reconnect", params).await, -32008);
    client.initialize(&[ROOT]).await;
    life.end().await;
}

async fn dispatch_repeated_after_a_kill_is_answered_by_its_first_envelope(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut client, uris) = life.case.connect_with_session().await;
    let action = turn_started_action("once");
    let first = client.dispatch_accepted(&uris.chat, action.clone()).await;
    let seq = client.seq;
    client.wait_for_turn_end(&uris.chat, action["turnId"].as_str().unwrap()).await;
    let life = life.killed().await;
    let mut back = life.reconnect(&client).await;
    let seen = first["serverSeq"].as_i64().unwrap() - 1;
    let params = json!({"clientId": back.id, "lastSeenServerSeq": seen, "subscriptions": [uris.chat]});
    back.call_ok("reconnect", params).await;
    back.dispatch_with_seq(seq, &uris.chat, action).await;
    assert_eq!(back.wait_for_echo(seq).await, first);
    assert_eq!(back.subscribe(&uris.chat).await["turns"].as_array().unwrap().len(), 1);
    life.end().await;
}

async fn running_turn_ends_as_interrupted_after_a_kill_and_is_resumed(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut client, uris) = life.case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "hang").await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    let life = life.killed().await;
    let mut client = life.case.connect_to_session(&uris).await;
    let state = client.subscribe(&uris.chat).await;
    let last = &state["turns"][0];
    assert_eq!((&last["id"], &last["state"], state.get("activeTurn")), (&json!(turn), &json!("error"), None));
    let part = last["responseParts"].as_array().unwrap().last().unwrap();
    assert_eq!((&part["error"]["errorType"], &part["resumable"]), (&json!("interrupted"), &json!(true)));
    assert_readable_sentence(&part["error"]["message"]);
    client.dispatch_accepted(&uris.chat, json!({"type": "chat/turnResume", "turnId": turn})).await;
    assert_eq!(client.subscribe(&uris.chat).await["activeTurn"]["id"], turn);
    life.end().await;
}

async fn pending_call_is_withdrawn_after_a_kill(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut client, uris) = life.case.connect_with_session().await;
    client.send_message(&uris.chat, "tool").await;
    let needed = client.wait_for_action(&uris.session, "session/inputNeededSet").await["request"].take();
    let life = life.killed().await;
    let mut client = life.case.connect_to_session(&uris).await;
    assert_eq!(client.subscribe(&uris.session).await["inputNeeded"].as_array().map_or(0, Vec::len), 0);
    let yes = json!({"type": "chat/toolCallConfirmed", "turnId": needed["turnId"],
        "toolCallId": needed["toolCall"]["toolCallId"], "approved": true});
    client.dispatch_rejected(&uris.chat, yes).await;
    life.end().await;
}

async fn command_ends_with_the_host_and_is_not_run_again(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut client, uris) = life.case.connect_with_session().await;
    let runs = life.case.dir.join("runs");
    let command = "!echo ran >> runs; setsid sleep 414243 & echo begun; trap '' TERM HUP; sleep 414243";
    let turn = client.send_message(&uris.chat, command).await;
    assert_eq!(client.wait_for_output(&uris.chat).await, "begun\n");
    assert!(life.case.fixture.host.process_tree().len() >= 3, "a supervisor, a shell and those that sleep");
    // `killed` checks that nothing of the host remains.
    let life = life.killed().await;
    let mut client = life.case.connect_to_session(&uris).await;
    let state = client.subscribe(&uris.chat).await;
    let last = &state["turns"][0];
    assert_eq!((&last["id"], &last["state"]), (&json!(turn), &json!("error")));
    let parts = last["responseParts"].as_array().unwrap();
    assert_eq!(parts.last().unwrap()["error"]["errorType"], "interrupted");
    assert_ne!(parts[0]["toolCall"]["status"], "running", "{last:#}");
    client.dispatch_rejected(&uris.chat, json!({"type": "chat/turnResume", "turnId": turn})).await;
    let again = client.send_and_wait(&uris.chat, "!echo well").await;
    assert_eq!(again["responseParts"][0]["toolCall"]["content"][0]["text"], "well\n");
    assert_eq!(std::fs::read_to_string(runs).unwrap(), "ran\n", "once");
    assert_eq!(life.case.fixture.host.process_tree(), [] as [u32; 0]);
    life.end().await;
}

async fn shutdown_cancels_the_turn(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut client, uris) = life.case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "hang").await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    let life = life.restarted().await;
    let mut client = life.case.connect_to_session(&uris).await;
    let state = client.subscribe(&uris.chat).await;
    assert_eq!((&state["turns"][0]["id"], &state["turns"][0]["state"]), (&json!(turn), &json!("cancelled")));
    life.end().await;
}

async fn shutdown_closes_client_connections(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut client, _) = life.case.connect_with_started_session().await;
    let life = life.restarted().await;
    client.wait_for_close().await;
    life.end().await;
}

async fn chat_continues_after_a_restart(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut client, uris) = life.case.connect_with_session().await;
    client.send_and_wait(&uris.chat, "one").await;
    let life = life.killed().await;
    let mut client = life.case.connect_to_session(&uris).await;
    assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, "two").await), "echo: two");
    assert_eq!(client.subscribe(&uris.chat).await["turns"].as_array().unwrap().len(), 2);
    client.assert_state_matches_host(&uris.chat).await;
    client.assert_state_matches_host(&uris.session).await;
    life.end().await;
}

async fn session_list_is_the_same_after_a_restart(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut client, _) = life.case.connect_with_started_session().await;
    for _ in 0..3 {
        let uris = client.create_session(&life.case.dir).await;
        client.send_and_wait(&uris.chat, "hello").await;
    }
    let before = client.call_ok("listSessions", json!({})).await;
    assert_eq!(before["items"].as_array().unwrap().len(), 4);
    let life = life.restarted().await;
    let mut client = life.case.connect_client().await;
    assert_eq!(client.call_ok("listSessions", json!({})).await, before);
    life.end().await;
}

async fn active_client_without_reconnect_is_removed_after_a_restart(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut client, uris) = life.case.connect_with_started_session().await;
    let active = json!({"type": "session/activeClientSet", "activeClient": {"clientId": client.id, "tools": []}});
    client.dispatch_accepted(&uris.session, active).await;
    let life = life.killed().await;
    let mut other = life.case.connect_client().await;
    while !other.subscribe(&uris.session).await["activeClients"].as_array().unwrap().is_empty() {
        other.wait_for_envelope(&uris.session, "session/activeClientRemoved").await;
    }
    life.end().await;
}

async fn local_turns_survive_a_kill(case: ProtocolCase) {
    let life = RestartableHost::begin(&case).await;
    let (mut client, uris) = life.case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "!echo stored; exit 3").await;
    client.send_and_wait(&uris.chat, "/rename Renamed").await;
    let life = life.killed().await;
    let mut client = life.case.connect_client().await;
    assert_eq!(client.subscribe(&uris.session).await["title"], "Renamed");
    assert_eq!(client.subscribe(&uris.chat).await["turns"][0], turn);
    life.end().await;
}
