//! Message queue and steering.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    message_queued_on_an_idle_chat_starts_at_once,
    queued_message_waits_for_the_running_turn,
    turn_of_a_queued_message_refers_to_it,
    queued_messages_run_in_order,
    same_id_replaces_a_queued_message,
    removed_queued_message_never_runs,
    removing_an_unknown_message_is_rejected,
    reorder_puts_unnamed_messages_last,
    reorder_with_unknown_ids_changes_nothing,
    reordering_an_empty_queue_is_rejected,
    empty_queued_message_is_rejected,
    queued_message_of_another_origin_is_rejected,
    unknown_pending_message_kind_is_rejected,
    started_message_cannot_be_changed,
    cancel_pauses_the_queue,
    failure_pauses_the_queue,
    next_message_resumes_a_paused_queue,
    reordering_resumes_a_paused_queue,
    queue_holds_a_hundred_messages,
    queue_is_shared_by_all_clients,
    steer_is_in_the_steering_slot,
    later_steer_replaces_the_earlier_one,
    steer_can_be_withdrawn,
    steer_reaches_the_model_with_the_next_call,
    undelivered_steer_becomes_the_next_turn,
    steer_on_an_idle_chat_is_a_message,
    turn_may_start_a_queued_message_by_id,
    turn_with_an_unknown_queued_message_is_rejected,
}

/// Returns a chat whose agent works until a file exists.
async fn working(case: &ProtocolCase) -> (RecordingClient, CaseUris, String) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, &format!("wait {}", case.dir.join("go").display())).await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    (client, uris, turn)
}

fn go(case: &ProtocolCase) {
    case.write_file("go", "");
}

async fn queue(client: &mut RecordingClient, chat: &str) -> Vec<String> {
    let state = client.subscribe(chat).await;
    let queue = state["queuedMessages"].as_array().cloned().unwrap_or_default();
    queue.iter().map(|waits| waits["message"]["text"].as_str().unwrap().to_owned()).collect()
}

async fn paused(client: &mut RecordingClient, session: &str) -> bool {
    client.subscribe(session).await["_meta"]["hostler"]["queuePaused"] == true
}

/// Waits for the end of this many turns; returns their prompts.
async fn turns(client: &mut RecordingClient, chat: &str, count: usize) -> Vec<String> {
    loop {
        let state = client.subscribe(chat).await;
        let turns = state["turns"].as_array().unwrap();
        if turns.len() == count {
            client.assert_state_matches_host(chat).await;
            return turns.iter().map(|turn| turn["message"]["text"].as_str().unwrap().to_owned()).collect();
        }
        assert!(turns.len() < count, "{state:#}");
        client.wait_for(|message| message["params"]["channel"] == chat).await;
    }
}

async fn message_queued_on_an_idle_chat_starts_at_once(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "now")).await;
    assert_eq!(turns(&mut client, &uris.chat, 2).await, ["hello", "now"]);
    assert_eq!(queue(&mut client, &uris.chat).await, [""; 0]);
}

async fn queued_message_waits_for_the_running_turn(case: ProtocolCase) {
    let (mut client, uris, turn) = working(&case).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "later")).await;
    assert_eq!(queue(&mut client, &uris.chat).await, ["later"]);
    assert_eq!(client.subscribe(&uris.chat).await["activeTurn"]["id"], turn);
    go(&case);
    assert_eq!(turns(&mut client, &uris.chat, 2).await[1], "later");
}

async fn turn_of_a_queued_message_refers_to_it(case: ProtocolCase) {
    let (mut client, uris, _) = working(&case).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "later")).await;
    go(&case);
    let named = |message: &Value| message["params"]["action"]["queuedMessageId"] == "q";
    let envelope = client.wait_for(named).await["params"].take();
    assert_eq!((&envelope["action"]["type"], envelope.get("origin")), (&json!("chat/turnStarted"), None));
    assert_eq!(envelope["action"]["message"], user_message("later"));
    turns(&mut client, &uris.chat, 2).await;
}

async fn queued_messages_run_in_order(case: ProtocolCase) {
    let (mut client, uris, _) = working(&case).await;
    for (id, text) in [("c", "one"), ("a", "two"), ("b", "three")] {
        client.dispatch_accepted(&uris.chat, pending_message_action("queued", id, text)).await;
    }
    go(&case);
    assert_eq!(turns(&mut client, &uris.chat, 4).await[1..], ["one", "two", "three"]);
}

async fn same_id_replaces_a_queued_message(case: ProtocolCase) {
    let (mut client, uris, turn) = working(&case).await;
    for (id, text) in [("q", "one"), ("r", "two"), ("q", "better")] {
        client.dispatch_accepted(&uris.chat, pending_message_action("queued", id, text)).await;
    }
    assert_eq!(queue(&mut client, &uris.chat).await, ["better", "two"]);
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
}

fn removal(kind: &str, id: &str) -> Value {
    json!({"type": "chat/pendingMessageRemoved", "kind": kind, "id": id})
}

async fn removed_queued_message_never_runs(case: ProtocolCase) {
    let (mut client, uris, _) = working(&case).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "one")).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "r", "two")).await;
    client.dispatch_accepted(&uris.chat, removal("queued", "q")).await;
    go(&case);
    assert_eq!(turns(&mut client, &uris.chat, 2).await[1], "two");
}

async fn removing_an_unknown_message_is_rejected(case: ProtocolCase) {
    let (mut client, uris, turn) = working(&case).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "one")).await;
    let before = client.subscribe(&uris.chat).await;
    for (kind, id) in [("queued", "none"), ("steering", "q"), ("steering", "none")] {
        client.dispatch_rejected(&uris.chat, removal(kind, id)).await;
    }
    assert_eq!(client.subscribe(&uris.chat).await["queuedMessages"], before["queuedMessages"]);
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
}

fn order(ids: &[&str]) -> Value {
    json!({"type": "chat/queuedMessagesReordered", "order": ids})
}

async fn reorder_puts_unnamed_messages_last(case: ProtocolCase) {
    let (mut client, uris, turn) = working(&case).await;
    for id in ["z", "a", "m"] {
        client.dispatch_accepted(&uris.chat, pending_message_action("queued", id, id)).await;
    }
    client.dispatch_accepted(&uris.chat, order(&["m"])).await;
    assert_eq!(queue(&mut client, &uris.chat).await, ["m", "z", "a"], "the others as they were");
    client.assert_state_matches_host(&uris.chat).await;
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
}

async fn reorder_with_unknown_ids_changes_nothing(case: ProtocolCase) {
    let (mut client, uris, turn) = working(&case).await;
    for id in ["z", "a"] {
        client.dispatch_accepted(&uris.chat, pending_message_action("queued", id, id)).await;
    }
    let seq = client.dispatch(&uris.chat, order(&["unknown", "z", "z", "a"])).await;
    client.wait_for_echo(seq).await;
    assert_eq!(queue(&mut client, &uris.chat).await, ["z", "a"]);
    client.assert_state_matches_host(&uris.chat).await;
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
}

async fn reordering_an_empty_queue_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.dispatch_rejected(&uris.chat, order(&["q"])).await;
    client.dispatch_rejected(&uris.chat, order(&[])).await;
}

async fn empty_queued_message_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    for kind in ["queued", "steering"] {
        client.dispatch_rejected(&uris.chat, pending_message_action(kind, "q", "  ")).await;
    }
}

async fn queued_message_of_another_origin_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let mut action = pending_message_action("queued", "q", "x");
    action["message"]["origin"]["kind"] = json!("agent");
    client.dispatch_rejected(&uris.chat, action).await;
}

async fn unknown_pending_message_kind_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    for kind in ["later", "", "QUEUED"] {
        client.dispatch_rejected(&uris.chat, pending_message_action(kind, "q", "x")).await;
    }
    client.dispatch_rejected(&uris.chat, pending_message_action("queued", "", "x")).await;
    assert_eq!(queue(&mut client, &uris.chat).await, [""; 0]);
}

async fn started_message_cannot_be_changed(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "now")).await;
    turns(&mut client, &uris.chat, 2).await;
    client.dispatch_rejected(&uris.chat, pending_message_action("queued", "q", "too late")).await;
    client.dispatch_rejected(&uris.chat, removal("queued", "q")).await;
}

async fn held(case: &ProtocolCase) -> (RecordingClient, CaseUris) {
    let (mut client, uris, turn) = working(case).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "one")).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "r", "two")).await;
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
    (client, uris)
}

async fn cancel_pauses_the_queue(case: ProtocolCase) {
    let (mut client, uris) = held(&case).await;
    while !paused(&mut client, &uris.session).await {
        client.wait_for(|message| message["params"]["channel"] == uris.session).await;
    }
    assert_eq!(queue(&mut client, &uris.chat).await, ["one", "two"]);
    assert_eq!(client.subscribe(&uris.chat).await.get("activeTurn"), None);
}

async fn failure_pauses_the_queue(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let file = case.dir.join("go");
    let turn = client.send_message(&uris.chat, &format!("hold {} error 500", file.display())).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "one")).await;
    go(&case);
    assert_eq!(client.wait_for_turn_end(&uris.chat, &turn).await["type"], "chat/error");
    while !paused(&mut client, &uris.session).await {
        client.wait_for(|message| message["params"]["channel"] == uris.session).await;
    }
    assert_eq!(queue(&mut client, &uris.chat).await, ["one"]);
}

async fn next_message_resumes_a_paused_queue(case: ProtocolCase) {
    let (mut client, uris) = held(&case).await;
    client.send_message(&uris.chat, "first").await;
    assert_eq!(turns(&mut client, &uris.chat, 4).await[1..], ["first", "one", "two"]);
    assert!(!paused(&mut client, &uris.session).await);
}

async fn reordering_resumes_a_paused_queue(case: ProtocolCase) {
    let (mut client, uris) = held(&case).await;
    client.dispatch_accepted(&uris.chat, order(&["r", "q"])).await;
    assert_eq!(turns(&mut client, &uris.chat, 3).await[1..], ["two", "one"]);
}

async fn queue_holds_a_hundred_messages(case: ProtocolCase) {
    let (mut client, uris, turn) = working(&case).await;
    let mut last = 0;
    for number in 0..100 {
        last = client.dispatch(&uris.chat, pending_message_action("queued", &format!("q{number}"), "x")).await;
    }
    assert_eq!(client.wait_for_echo(last).await.get("rejectionReason"), None);
    client.dispatch_rejected(&uris.chat, pending_message_action("queued", "one too many", "x")).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q7", "corrected")).await;
    assert_eq!(queue(&mut client, &uris.chat).await.len(), 100);
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
}

async fn queue_is_shared_by_all_clients(case: ProtocolCase) {
    let (mut client, uris, _) = working(&case).await;
    let mut other = case.connect_to_session(&uris).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "mine")).await;
    other.dispatch_accepted(&uris.chat, pending_message_action("queued", "r", "theirs")).await;
    other.dispatch_accepted(&uris.chat, order(&["r", "q"])).await;
    client.dispatch_accepted(&uris.chat, removal("queued", "r")).await;
    go(&case);
    assert_eq!(turns(&mut other, &uris.chat, 2).await[1], "mine");
    client.assert_state_matches_host(&uris.chat).await;
}

async fn slot(client: &mut RecordingClient, chat: &str) -> Value {
    client.subscribe(chat).await["steeringMessage"]["message"]["text"].take()
}

async fn steer_is_in_the_steering_slot(case: ProtocolCase) {
    let (mut client, uris, turn) = working(&case).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "s", "by the way")).await;
    assert_eq!(slot(&mut client, &uris.chat).await, "by the way");
    assert_eq!(queue(&mut client, &uris.chat).await, [""; 0]);
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
}

async fn later_steer_replaces_the_earlier_one(case: ProtocolCase) {
    let (mut client, uris, turn) = working(&case).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "s", "first")).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "t", "second")).await;
    assert_eq!(slot(&mut client, &uris.chat).await, "second");
    client.assert_state_matches_host(&uris.chat).await;
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
}

async fn steer_can_be_withdrawn(case: ProtocolCase) {
    let (mut client, uris, _) = working(&case).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "s", "never mind")).await;
    client.dispatch_accepted(&uris.chat, removal("steering", "s")).await;
    assert_eq!(slot(&mut client, &uris.chat).await, Value::Null);
    go(&case);
    turns(&mut client, &uris.chat, 1).await;
}

async fn steer_reaches_the_model_with_the_next_call(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let file = case.dir.join("go");
    client.send_message(&uris.chat, &format!("hold {} call Read {{\"file_path\":\"x\"}}", file.display())).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "s", "look left")).await;
    go(&case);
    let texts = turns(&mut client, &uris.chat, 2).await;
    assert_eq!(texts[1], "look left", "the answer to the steer is a separate turn");
    let state = client.subscribe(&uris.chat).await;
    assert!(
        markdown_text(&state["turns"][1]).contains("received: ")
            && markdown_text(&state["turns"][1]).contains("look left"),
        "{state:#}"
    );
    assert_eq!(state.get("steeringMessage"), None);
    let (one, two) = (&state["turns"][0], &state["turns"][1]);
    assert_eq!((&one["state"], &two["state"]), (&json!("complete"), &json!("complete")));
}

async fn undelivered_steer_becomes_the_next_turn(case: ProtocolCase) {
    let (mut client, uris, _) = working(&case).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "queued")).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "s", "undelivered")).await;
    go(&case);
    assert_eq!(turns(&mut client, &uris.chat, 3).await[1..], ["undelivered", "queued"]);
}

async fn steer_on_an_idle_chat_is_a_message(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "s", "hey")).await;
    assert_eq!(turns(&mut client, &uris.chat, 2).await[1], "hey");
}

async fn turn_may_start_a_queued_message_by_id(case: ProtocolCase) {
    let (mut client, uris) = held(&case).await;
    let mut action = turn_started_action("two");
    action["queuedMessageId"] = json!("r");
    client.dispatch_accepted(&uris.chat, action).await;
    assert_eq!(turns(&mut client, &uris.chat, 3).await[1..], ["two", "one"], "it is no longer in the queue");
}

async fn turn_with_an_unknown_queued_message_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let mut action = turn_started_action("two");
    action["queuedMessageId"] = json!("unknown");
    client.dispatch_rejected(&uris.chat, action).await;
}
