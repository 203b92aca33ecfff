//! Messages that wait: the queue, and words for the turn that runs.

use super::kit::*;

area! { Stage::fake();
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

/// A chat whose agent works until a file is there.
async fn working(case: &Case) -> (Client, Uris, String) {
    let (mut client, uris) = case.session().await;
    let turn = client.say(&uris.chat, &format!("wait {}", case.dir.join("go").display())).await;
    client.action(&uris.chat, "chat/delta").await;
    (client, uris, turn)
}

fn go(case: &Case) {
    case.write("go", "");
}

async fn queue(client: &mut Client, chat: &str) -> Vec<String> {
    let state = client.subscribe(chat).await;
    let queue = state["queuedMessages"].as_array().cloned().unwrap_or_default();
    queue.iter().map(|waits| waits["message"]["text"].as_str().unwrap().to_owned()).collect()
}

async fn paused(client: &mut Client, session: &str) -> bool {
    client.subscribe(session).await["_meta"]["hostler"]["queuePaused"] == true
}

/// Waits for the end of so many turns; answers what each of them was asked.
async fn turns(client: &mut Client, chat: &str, count: usize) -> Vec<String> {
    loop {
        let state = client.subscribe(chat).await;
        let turns = state["turns"].as_array().unwrap();
        if turns.len() == count {
            client.agrees(chat).await;
            return turns.iter().map(|turn| turn["message"]["text"].as_str().unwrap().to_owned()).collect();
        }
        assert!(turns.len() < count, "{state:#}");
        client.until(|message| message["params"]["channel"] == chat).await;
    }
}

async fn a_message_queued_on_an_idle_chat_starts_at_once(case: Case) {
    let (mut client, uris) = case.begun().await;
    client.accepted(&uris.chat, pending("queued", "q", "now")).await;
    assert_eq!(turns(&mut client, &uris.chat, 2).await, ["hello", "now"]);
    assert_eq!(queue(&mut client, &uris.chat).await, [""; 0]);
}

async fn a_queued_message_waits_for_the_running_turn(case: Case) {
    let (mut client, uris, turn) = working(&case).await;
    client.accepted(&uris.chat, pending("queued", "q", "later")).await;
    assert_eq!(queue(&mut client, &uris.chat).await, ["later"]);
    assert_eq!(client.subscribe(&uris.chat).await["activeTurn"]["id"], turn);
    go(&case);
    assert_eq!(turns(&mut client, &uris.chat, 2).await[1], "later");
}

async fn the_turn_of_a_queued_message_names_it(case: Case) {
    let (mut client, uris, _) = working(&case).await;
    client.accepted(&uris.chat, pending("queued", "q", "later")).await;
    go(&case);
    let named = |message: &Value| message["params"]["action"]["queuedMessageId"] == "q";
    let envelope = client.until(named).await["params"].take();
    assert_eq!((&envelope["action"]["type"], envelope.get("origin")), (&json!("chat/turnStarted"), None));
    assert_eq!(envelope["action"]["message"], message("later"));
    turns(&mut client, &uris.chat, 2).await;
}

async fn queued_messages_run_in_their_order(case: Case) {
    let (mut client, uris, _) = working(&case).await;
    for (id, text) in [("c", "one"), ("a", "two"), ("b", "three")] {
        client.accepted(&uris.chat, pending("queued", id, text)).await;
    }
    go(&case);
    assert_eq!(turns(&mut client, &uris.chat, 4).await[1..], ["one", "two", "three"]);
}

async fn the_same_id_corrects_a_message(case: Case) {
    let (mut client, uris, turn) = working(&case).await;
    for (id, text) in [("q", "one"), ("r", "two"), ("q", "better")] {
        client.accepted(&uris.chat, pending("queued", id, text)).await;
    }
    assert_eq!(queue(&mut client, &uris.chat).await, ["better", "two"]);
    client.accepted(&uris.chat, cancel(&turn)).await;
}

fn removal(kind: &str, id: &str) -> Value {
    json!({"type": "chat/pendingMessageRemoved", "kind": kind, "id": id})
}

async fn a_removed_message_never_runs(case: Case) {
    let (mut client, uris, _) = working(&case).await;
    client.accepted(&uris.chat, pending("queued", "q", "one")).await;
    client.accepted(&uris.chat, pending("queued", "r", "two")).await;
    client.accepted(&uris.chat, removal("queued", "q")).await;
    go(&case);
    assert_eq!(turns(&mut client, &uris.chat, 2).await[1], "two");
}

async fn removing_what_is_not_there_is_refused(case: Case) {
    let (mut client, uris, turn) = working(&case).await;
    client.accepted(&uris.chat, pending("queued", "q", "one")).await;
    let before = client.subscribe(&uris.chat).await;
    for (kind, id) in [("queued", "none"), ("steering", "q"), ("steering", "none")] {
        client.refused(&uris.chat, removal(kind, id)).await;
    }
    assert_eq!(client.subscribe(&uris.chat).await["queuedMessages"], before["queuedMessages"]);
    client.accepted(&uris.chat, cancel(&turn)).await;
}

fn order(ids: &[&str]) -> Value {
    json!({"type": "chat/queuedMessagesReordered", "order": ids})
}

async fn an_order_puts_the_unnamed_behind(case: Case) {
    let (mut client, uris, turn) = working(&case).await;
    for id in ["z", "a", "m"] {
        client.accepted(&uris.chat, pending("queued", id, id)).await;
    }
    client.accepted(&uris.chat, order(&["m"])).await;
    assert_eq!(queue(&mut client, &uris.chat).await, ["m", "z", "a"], "the others as they were");
    client.agrees(&uris.chat).await;
    client.accepted(&uris.chat, cancel(&turn)).await;
}

async fn an_order_of_unknown_ids_changes_nothing(case: Case) {
    let (mut client, uris, turn) = working(&case).await;
    for id in ["z", "a"] {
        client.accepted(&uris.chat, pending("queued", id, id)).await;
    }
    let seq = client.dispatch(&uris.chat, order(&["nobody", "z", "z", "a"])).await;
    client.echo(seq).await;
    assert_eq!(queue(&mut client, &uris.chat).await, ["z", "a"]);
    client.agrees(&uris.chat).await;
    client.accepted(&uris.chat, cancel(&turn)).await;
}

async fn reordering_an_empty_queue_is_refused(case: Case) {
    let (mut client, uris) = case.begun().await;
    client.refused(&uris.chat, order(&["q"])).await;
    client.refused(&uris.chat, order(&[])).await;
}

async fn an_empty_queued_message_is_refused(case: Case) {
    let (mut client, uris) = case.begun().await;
    for kind in ["queued", "steering"] {
        client.refused(&uris.chat, pending(kind, "q", "  ")).await;
    }
}

async fn a_queued_message_of_somebody_else_is_refused(case: Case) {
    let (mut client, uris) = case.begun().await;
    let mut wish = pending("queued", "q", "x");
    wish["message"]["origin"]["kind"] = json!("agent");
    client.refused(&uris.chat, wish).await;
}

async fn an_unknown_kind_of_pending_message_is_refused(case: Case) {
    let (mut client, uris) = case.begun().await;
    for kind in ["later", "", "QUEUED"] {
        client.refused(&uris.chat, pending(kind, "q", "x")).await;
    }
    client.refused(&uris.chat, pending("queued", "", "x")).await;
    assert_eq!(queue(&mut client, &uris.chat).await, [""; 0]);
}

async fn a_message_that_ran_cannot_be_changed(case: Case) {
    let (mut client, uris) = case.begun().await;
    client.accepted(&uris.chat, pending("queued", "q", "now")).await;
    turns(&mut client, &uris.chat, 2).await;
    client.refused(&uris.chat, pending("queued", "q", "too late")).await;
    client.refused(&uris.chat, removal("queued", "q")).await;
}

async fn held(case: &Case) -> (Client, Uris) {
    let (mut client, uris, turn) = working(case).await;
    client.accepted(&uris.chat, pending("queued", "q", "one")).await;
    client.accepted(&uris.chat, pending("queued", "r", "two")).await;
    client.accepted(&uris.chat, cancel(&turn)).await;
    (client, uris)
}

async fn a_cancel_holds_the_queue(case: Case) {
    let (mut client, uris) = held(&case).await;
    while !paused(&mut client, &uris.session).await {
        client.until(|message| message["params"]["channel"] == uris.session).await;
    }
    assert_eq!(queue(&mut client, &uris.chat).await, ["one", "two"]);
    assert_eq!(client.subscribe(&uris.chat).await.get("activeTurn"), None);
}

async fn a_failure_holds_the_queue(case: Case) {
    let (mut client, uris) = case.session().await;
    let file = case.dir.join("go");
    let turn = client.say(&uris.chat, &format!("hold {} error 500", file.display())).await;
    client.accepted(&uris.chat, pending("queued", "q", "one")).await;
    go(&case);
    assert_eq!(client.end(&uris.chat, &turn).await["type"], "chat/error");
    while !paused(&mut client, &uris.session).await {
        client.until(|message| message["params"]["channel"] == uris.session).await;
    }
    assert_eq!(queue(&mut client, &uris.chat).await, ["one"]);
}

async fn the_next_message_releases_a_held_queue(case: Case) {
    let (mut client, uris) = held(&case).await;
    client.say(&uris.chat, "first").await;
    assert_eq!(turns(&mut client, &uris.chat, 4).await[1..], ["first", "one", "two"]);
    assert!(!paused(&mut client, &uris.session).await);
}

async fn reordering_releases_a_held_queue(case: Case) {
    let (mut client, uris) = held(&case).await;
    client.accepted(&uris.chat, order(&["r", "q"])).await;
    assert_eq!(turns(&mut client, &uris.chat, 3).await[1..], ["two", "one"]);
}

async fn a_queue_holds_a_hundred(case: Case) {
    let (mut client, uris, turn) = working(&case).await;
    let mut last = 0;
    for number in 0..100 {
        last = client.dispatch(&uris.chat, pending("queued", &format!("q{number}"), "x")).await;
    }
    assert_eq!(client.echo(last).await.get("rejectionReason"), None);
    client.refused(&uris.chat, pending("queued", "one too many", "x")).await;
    client.accepted(&uris.chat, pending("queued", "q7", "corrected")).await;
    assert_eq!(queue(&mut client, &uris.chat).await.len(), 100);
    client.accepted(&uris.chat, cancel(&turn)).await;
}

async fn a_queue_is_everybody_s(case: Case) {
    let (mut client, uris, _) = working(&case).await;
    let mut other = case.beside(&uris).await;
    client.accepted(&uris.chat, pending("queued", "q", "mine")).await;
    other.accepted(&uris.chat, pending("queued", "r", "theirs")).await;
    other.accepted(&uris.chat, order(&["r", "q"])).await;
    client.accepted(&uris.chat, removal("queued", "r")).await;
    go(&case);
    assert_eq!(turns(&mut other, &uris.chat, 2).await[1], "mine");
    client.agrees(&uris.chat).await;
}

async fn slot(client: &mut Client, chat: &str) -> Value {
    client.subscribe(chat).await["steeringMessage"]["message"]["text"].take()
}

async fn words_for_a_running_turn_stand_in_its_slot(case: Case) {
    let (mut client, uris, turn) = working(&case).await;
    client.accepted(&uris.chat, pending("steering", "s", "by the way")).await;
    assert_eq!(slot(&mut client, &uris.chat).await, "by the way");
    assert_eq!(queue(&mut client, &uris.chat).await, [""; 0]);
    client.accepted(&uris.chat, cancel(&turn)).await;
}

async fn later_words_replace_earlier_ones(case: Case) {
    let (mut client, uris, turn) = working(&case).await;
    client.accepted(&uris.chat, pending("steering", "s", "first")).await;
    client.accepted(&uris.chat, pending("steering", "t", "second")).await;
    assert_eq!(slot(&mut client, &uris.chat).await, "second");
    client.agrees(&uris.chat).await;
    client.accepted(&uris.chat, cancel(&turn)).await;
}

async fn words_can_be_taken_back(case: Case) {
    let (mut client, uris, _) = working(&case).await;
    client.accepted(&uris.chat, pending("steering", "s", "never mind")).await;
    client.accepted(&uris.chat, removal("steering", "s")).await;
    assert_eq!(slot(&mut client, &uris.chat).await, Value::Null);
    go(&case);
    turns(&mut client, &uris.chat, 1).await;
}

async fn words_reach_the_model_with_the_next_call(case: Case) {
    let (mut client, uris) = case.session().await;
    let file = case.dir.join("go");
    client.say(&uris.chat, &format!("hold {} call Read {{\"file_path\":\"x\"}}", file.display())).await;
    client.accepted(&uris.chat, pending("steering", "s", "look left")).await;
    go(&case);
    let told = turns(&mut client, &uris.chat, 2).await;
    assert_eq!(told[1], "look left", "the answer to them is a turn of its own");
    let state = client.subscribe(&uris.chat).await;
    assert!(
        words(&state["turns"][1]).contains("told: ") && words(&state["turns"][1]).contains("look left"),
        "{state:#}"
    );
    assert_eq!(state.get("steeringMessage"), None);
    let (one, two) = (&state["turns"][0], &state["turns"][1]);
    assert_eq!((&one["state"], &two["state"]), (&json!("complete"), &json!("complete")));
}

async fn words_that_nobody_heard_become_the_next_turn(case: Case) {
    let (mut client, uris, _) = working(&case).await;
    client.accepted(&uris.chat, pending("queued", "q", "queued")).await;
    client.accepted(&uris.chat, pending("steering", "s", "unheard")).await;
    go(&case);
    assert_eq!(turns(&mut client, &uris.chat, 3).await[1..], ["unheard", "queued"]);
}

async fn words_for_an_idle_chat_are_a_message(case: Case) {
    let (mut client, uris) = case.begun().await;
    client.accepted(&uris.chat, pending("steering", "s", "hey")).await;
    assert_eq!(turns(&mut client, &uris.chat, 2).await[1], "hey");
}

async fn a_turn_may_start_from_the_queue_by_name(case: Case) {
    let (mut client, uris) = held(&case).await;
    let mut wish = turn("two");
    wish["queuedMessageId"] = json!("r");
    client.accepted(&uris.chat, wish).await;
    assert_eq!(turns(&mut client, &uris.chat, 3).await[1..], ["two", "one"], "it is no longer in the queue");
}

async fn a_turn_that_names_nothing_queued_is_refused(case: Case) {
    let (mut client, uris) = case.begun().await;
    let mut wish = turn("two");
    wish["queuedMessageId"] = json!("nobody");
    client.refused(&uris.chat, wish).await;
}
