//! Message queue and steering.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    a_message_queued_on_an_idle_chat_starts_at_once,
    a_queued_message_waits_for_the_running_turn,
    the_turn_of_a_queued_message_names_it,
    queued_messages_run_in_their_order,
    the_same_id_corrects_a_message,
    a_removed_message_never_runs,
    removing_what_is_not_there_is_refused,
    an_order_puts_the_unnamed_behind,
    an_order_of_unknown_ids_changes_nothing,
    reordering_an_empty_queue_is_refused,
    an_empty_queued_message_is_refused,
    a_queued_message_of_somebody_else_is_refused,
    an_unknown_kind_of_pending_message_is_refused,
    a_message_that_ran_cannot_be_changed,
    a_cancel_holds_the_queue,
    a_failure_holds_the_queue,
    the_next_message_releases_a_held_queue,
    reordering_releases_a_held_queue,
    a_queue_holds_a_hundred,
    a_queue_is_everybody_s,
    words_for_a_running_turn_stand_in_its_slot,
    later_words_replace_earlier_ones,
    words_can_be_taken_back,
    words_reach_the_model_with_the_next_call,
    words_that_nobody_heard_become_the_next_turn,
    words_for_an_idle_chat_are_a_message,
    a_turn_may_start_from_the_queue_by_name,
    a_turn_that_names_nothing_queued_is_refused,
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

async fn a_message_queued_on_an_idle_chat_starts_at_once(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "now")).await;
    assert_eq!(turns(&mut client, &uris.chat, 2).await, ["hello", "now"]);
    assert_eq!(queue(&mut client, &uris.chat).await, [""; 0]);
}

async fn a_queued_message_waits_for_the_running_turn(case: ProtocolCase) {
    let (mut client, uris, turn) = working(&case).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "later")).await;
    assert_eq!(queue(&mut client, &uris.chat).await, ["later"]);
    assert_eq!(client.subscribe(&uris.chat).await["activeTurn"]["id"], turn);
    go(&case);
    assert_eq!(turns(&mut client, &uris.chat, 2).await[1], "later");
}

async fn the_turn_of_a_queued_message_names_it(case: ProtocolCase) {
    let (mut client, uris, _) = working(&case).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "later")).await;
    go(&case);
    let named = |message: &Value| message["params"]["action"]["queuedMessageId"] == "q";
    let envelope = client.wait_for(named).await["params"].take();
    assert_eq!((&envelope["action"]["type"], envelope.get("origin")), (&json!("chat/turnStarted"), None));
    assert_eq!(envelope["action"]["message"], user_message("later"));
    turns(&mut client, &uris.chat, 2).await;
}

async fn queued_messages_run_in_their_order(case: ProtocolCase) {
    let (mut client, uris, _) = working(&case).await;
    for (id, text) in [("c", "one"), ("a", "two"), ("b", "three")] {
        client.dispatch_accepted(&uris.chat, pending_message_action("queued", id, text)).await;
    }
    go(&case);
    assert_eq!(turns(&mut client, &uris.chat, 4).await[1..], ["one", "two", "three"]);
}

async fn the_same_id_corrects_a_message(case: ProtocolCase) {
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

async fn a_removed_message_never_runs(case: ProtocolCase) {
    let (mut client, uris, _) = working(&case).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "one")).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "r", "two")).await;
    client.dispatch_accepted(&uris.chat, removal("queued", "q")).await;
    go(&case);
    assert_eq!(turns(&mut client, &uris.chat, 2).await[1], "two");
}

async fn removing_what_is_not_there_is_refused(case: ProtocolCase) {
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

async fn an_order_puts_the_unnamed_behind(case: ProtocolCase) {
    let (mut client, uris, turn) = working(&case).await;
    for id in ["z", "a", "m"] {
        client.dispatch_accepted(&uris.chat, pending_message_action("queued", id, id)).await;
    }
    client.dispatch_accepted(&uris.chat, order(&["m"])).await;
    assert_eq!(queue(&mut client, &uris.chat).await, ["m", "z", "a"], "the others as they were");
    client.assert_state_matches_host(&uris.chat).await;
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
}

async fn an_order_of_unknown_ids_changes_nothing(case: ProtocolCase) {
    let (mut client, uris, turn) = working(&case).await;
    for id in ["z", "a"] {
        client.dispatch_accepted(&uris.chat, pending_message_action("queued", id, id)).await;
    }
    let seq = client.dispatch(&uris.chat, order(&["nobody", "z", "z", "a"])).await;
    client.wait_for_echo(seq).await;
    assert_eq!(queue(&mut client, &uris.chat).await, ["z", "a"]);
    client.assert_state_matches_host(&uris.chat).await;
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
}

async fn reordering_an_empty_queue_is_refused(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.dispatch_rejected(&uris.chat, order(&["q"])).await;
    client.dispatch_rejected(&uris.chat, order(&[])).await;
}

async fn an_empty_queued_message_is_refused(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    for kind in ["queued", "steering"] {
        client.dispatch_rejected(&uris.chat, pending_message_action(kind, "q", "  ")).await;
    }
}

async fn a_queued_message_of_somebody_else_is_refused(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let mut wish = pending_message_action("queued", "q", "x");
    wish["message"]["origin"]["kind"] = json!("agent");
    client.dispatch_rejected(&uris.chat, wish).await;
}

async fn an_unknown_kind_of_pending_message_is_refused(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    for kind in ["later", "", "QUEUED"] {
        client.dispatch_rejected(&uris.chat, pending_message_action(kind, "q", "x")).await;
    }
    client.dispatch_rejected(&uris.chat, pending_message_action("queued", "", "x")).await;
    assert_eq!(queue(&mut client, &uris.chat).await, [""; 0]);
}

async fn a_message_that_ran_cannot_be_changed(case: ProtocolCase) {
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

async fn a_cancel_holds_the_queue(case: ProtocolCase) {
    let (mut client, uris) = held(&case).await;
    while !paused(&mut client, &uris.session).await {
        client.wait_for(|message| message["params"]["channel"] == uris.session).await;
    }
    assert_eq!(queue(&mut client, &uris.chat).await, ["one", "two"]);
    assert_eq!(client.subscribe(&uris.chat).await.get("activeTurn"), None);
}

async fn a_failure_holds_the_queue(case: ProtocolCase) {
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

async fn the_next_message_releases_a_held_queue(case: ProtocolCase) {
    let (mut client, uris) = held(&case).await;
    client.send_message(&uris.chat, "first").await;
    assert_eq!(turns(&mut client, &uris.chat, 4).await[1..], ["first", "one", "two"]);
    assert!(!paused(&mut client, &uris.session).await);
}

async fn reordering_releases_a_held_queue(case: ProtocolCase) {
    let (mut client, uris) = held(&case).await;
    client.dispatch_accepted(&uris.chat, order(&["r", "q"])).await;
    assert_eq!(turns(&mut client, &uris.chat, 3).await[1..], ["two", "one"]);
}

async fn a_queue_holds_a_hundred(case: ProtocolCase) {
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

async fn a_queue_is_everybody_s(case: ProtocolCase) {
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

async fn words_for_a_running_turn_stand_in_its_slot(case: ProtocolCase) {
    let (mut client, uris, turn) = working(&case).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "s", "by the way")).await;
    assert_eq!(slot(&mut client, &uris.chat).await, "by the way");
    assert_eq!(queue(&mut client, &uris.chat).await, [""; 0]);
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
}

async fn later_words_replace_earlier_ones(case: ProtocolCase) {
    let (mut client, uris, turn) = working(&case).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "s", "first")).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "t", "second")).await;
    assert_eq!(slot(&mut client, &uris.chat).await, "second");
    client.assert_state_matches_host(&uris.chat).await;
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
}

async fn words_can_be_taken_back(case: ProtocolCase) {
    let (mut client, uris, _) = working(&case).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "s", "never mind")).await;
    client.dispatch_accepted(&uris.chat, removal("steering", "s")).await;
    assert_eq!(slot(&mut client, &uris.chat).await, Value::Null);
    go(&case);
    turns(&mut client, &uris.chat, 1).await;
}

async fn words_reach_the_model_with_the_next_call(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let file = case.dir.join("go");
    client.send_message(&uris.chat, &format!("hold {} call Read {{\"file_path\":\"x\"}}", file.display())).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "s", "look left")).await;
    go(&case);
    let told = turns(&mut client, &uris.chat, 2).await;
    assert_eq!(told[1], "look left", "the answer to them is a turn of its own");
    let state = client.subscribe(&uris.chat).await;
    assert!(
        markdown_text(&state["turns"][1]).contains("told: ") && markdown_text(&state["turns"][1]).contains("look left"),
        "{state:#}"
    );
    assert_eq!(state.get("steeringMessage"), None);
    let (one, two) = (&state["turns"][0], &state["turns"][1]);
    assert_eq!((&one["state"], &two["state"]), (&json!("complete"), &json!("complete")));
}

async fn words_that_nobody_heard_become_the_next_turn(case: ProtocolCase) {
    let (mut client, uris, _) = working(&case).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "queued")).await;
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "s", "unheard")).await;
    go(&case);
    assert_eq!(turns(&mut client, &uris.chat, 3).await[1..], ["unheard", "queued"]);
}

async fn words_for_an_idle_chat_are_a_message(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "s", "hey")).await;
    assert_eq!(turns(&mut client, &uris.chat, 2).await[1], "hey");
}

async fn a_turn_may_start_from_the_queue_by_name(case: ProtocolCase) {
    let (mut client, uris) = held(&case).await;
    let mut wish = turn_started_action("two");
    wish["queuedMessageId"] = json!("r");
    client.dispatch_accepted(&uris.chat, wish).await;
    assert_eq!(turns(&mut client, &uris.chat, 3).await[1..], ["two", "one"], "it is no longer in the queue");
}

async fn a_turn_that_names_nothing_queued_is_refused(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let mut wish = turn_started_action("two");
    wish["queuedMessageId"] = json!("nobody");
    client.dispatch_rejected(&uris.chat, wish).await;
}
