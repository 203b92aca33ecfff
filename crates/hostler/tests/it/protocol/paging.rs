//! Paging of turns and sessions.

use std::sync::Arc;

use super::harness::*;

area! { HostFixture::with_fake_agent_in(TestHome::new(), &[("HOSTLER_TURNS_IN_MEMORY", "2")]);
    subscribe_without_a_view_returns_all_turns,
    view_has_the_latest_turns_and_a_cursor,
    view_larger_than_the_chat_has_no_cursor,
    view_of_zero_has_at_least_the_last_turn,
    pages_add_up_to_the_whole_chat,
    page_arrives_before_its_answer,
    page_reaches_only_its_requester,
    page_may_be_fetched_right_after_subscribe,
    page_may_be_fetched_during_a_turn,
    cursor_stays_valid_while_turns_are_added,
    cursor_is_used_once,
    cursor_of_another_chat_is_rejected,
    invalid_turn_cursor_is_rejected,
    turns_of_an_unknown_chat_are_32001,
    fetching_turns_requires_a_subscription,
    page_without_older_turns_is_empty,
    malformed_view_is_invalid,
    reconnecting_client_continues_with_its_view,
    sessions_are_listed_by_page,
    invalid_session_list_cursor_is_rejected,
    session_pages_are_stable_while_sessions_are_added,
    invalid_page_limits_are_tolerated,
}

/// Returns a chat with this many turns, and a subscriber with its full state.
async fn long(case: &ProtocolCase, turns: usize) -> (RecordingClient, CaseUris) {
    let (mut client, uris) = case.connect_with_session().await;
    for number in 0..turns {
        let mut action = turn_started_action(&format!("m{number}"));
        action["turnId"] = json!(format!("t{number}"));
        client.dispatch_accepted(&uris.chat, action).await;
        client.wait_for_turn_end(&uris.chat, &format!("t{number}")).await;
    }
    (client, uris)
}

async fn view(client: &mut RecordingClient, chat: &str, turns: usize) -> Value {
    client.call_ok("subscribe", json!({"channel": chat, "view": {"turns": turns}})).await["snapshot"]["state"].take()
}

fn ids(turns: &Value) -> Vec<String> {
    turns.as_array().unwrap().iter().map(|turn| turn["id"].as_str().unwrap().to_owned()).collect()
}

fn numbered(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("t{number}")).collect()
}

/// Returns the turns of the next page.
async fn page(client: &mut RecordingClient, chat: &str, cursor: &Value) -> Value {
    let before = client.received_envelopes(chat).len();
    assert_eq!(client.call_ok("fetchTurns", json!({"channel": chat, "cursor": cursor})).await, json!({}));
    let loaded =
        client.received_envelopes(chat).into_iter().skip(before).find(|e| e["action"]["type"] == "chat/turnsLoaded");
    loaded.expect("the turns come before the answer")["action"].take()
}

async fn subscribe_without_a_view_returns_all_turns(case: ProtocolCase) {
    let (mut client, uris) = long(&case, 7).await;
    let state = client.subscribe(&uris.chat).await;
    assert_eq!((ids(&state["turns"]), state.get("turnsNextCursor")), (numbered(0..7), None));
    client.assert_state_matches_host(&uris.chat).await;
}

async fn view_has_the_latest_turns_and_a_cursor(case: ProtocolCase) {
    let (_, uris) = long(&case, 7).await;
    let state = view(&mut case.connect_client().await, &uris.chat, 3).await;
    assert_eq!(ids(&state["turns"]), numbered(4..7));
    assert!(state["turnsNextCursor"].is_string(), "{state:#}");
}

async fn view_larger_than_the_chat_has_no_cursor(case: ProtocolCase) {
    let (_, uris) = long(&case, 3).await;
    for turns in [3, 4, 1000] {
        let state = view(&mut case.connect_client().await, &uris.chat, turns).await;
        assert_eq!((ids(&state["turns"]), state.get("turnsNextCursor")), (numbered(0..3), None), "{turns}");
    }
}

async fn view_of_zero_has_at_least_the_last_turn(case: ProtocolCase) {
    let (_, uris) = long(&case, 3).await;
    assert_eq!(ids(&view(&mut case.connect_client().await, &uris.chat, 0).await["turns"]), numbered(2..3));
}

async fn pages_add_up_to_the_whole_chat(case: ProtocolCase) {
    let (mut client, uris) = long(&case, 8).await;
    let whole = client.subscribe(&uris.chat).await;
    let mut other = case.connect_client().await;
    let mut state = view(&mut other, &uris.chat, 2).await;
    while let Some(cursor) = state.get("turnsNextCursor").cloned() {
        let loaded = page(&mut other, &uris.chat, &cursor).await;
        let mut turns = loaded["turns"].as_array().unwrap().clone();
        turns.extend(state["turns"].as_array().unwrap().clone());
        state["turns"] = json!(turns);
        match loaded.get("turnsNextCursor") {
            Some(cursor) => state["turnsNextCursor"] = cursor.clone(),
            None => drop(state.as_object_mut().unwrap().remove("turnsNextCursor")),
        }
    }
    assert_eq!(state, whole);
}

async fn page_arrives_before_its_answer(case: ProtocolCase) {
    let (_, uris) = long(&case, 4).await;
    let mut client = case.connect_client().await;
    let state = view(&mut client, &uris.chat, 2).await;
    let loaded = page(&mut client, &uris.chat, &state["turnsNextCursor"]).await;
    assert_eq!(ids(&loaded["turns"]), numbered(0..2), "oldest first");
    assert_eq!(loaded.get("turnsNextCursor"), None);
}

async fn page_reaches_only_its_requester(case: ProtocolCase) {
    let (mut bystander, uris) = long(&case, 4).await;
    let mut client = case.connect_client().await;
    let state = view(&mut client, &uris.chat, 1).await;
    page(&mut client, &uris.chat, &state["turnsNextCursor"]).await;
    bystander.send_and_wait(&uris.chat, "later").await;
    assert!(!bystander.received_envelopes(&uris.chat).iter().any(|e| e["action"]["type"] == "chat/turnsLoaded"));
    bystander.assert_state_matches_host(&uris.chat).await;
}

async fn page_may_be_fetched_right_after_subscribe(case: ProtocolCase) {
    let (_, uris) = long(&case, 4).await;
    let mut client = case.connect_client().await;
    let one = client.request("subscribe", json!({"channel": uris.chat, "view": {"turns": 2}})).await;
    let two = client.request("fetchTurns", json!({"channel": uris.chat})).await;
    assert_eq!(ids(&client.wait_for_response(one).await.unwrap()["snapshot"]["state"]["turns"]), numbered(2..4));
    assert_eq!(client.wait_for_response(two).await, Ok(json!({})));
    assert_eq!(ids(&client.wait_for_action(&uris.chat, "chat/turnsLoaded").await["turns"]), numbered(0..2));
}

async fn page_may_be_fetched_during_a_turn(case: ProtocolCase) {
    let (mut author, uris) = long(&case, 4).await;
    let turn = author.send_message(&uris.chat, "slow").await;
    author.wait_for_action(&uris.chat, "chat/delta").await;
    let mut client = case.connect_client().await;
    let state = view(&mut client, &uris.chat, 2).await;
    assert_eq!(state["activeTurn"]["id"], turn);
    let loaded = page(&mut client, &uris.chat, &state["turnsNextCursor"]).await;
    assert_eq!(ids(&loaded["turns"]), numbered(0..2));
    author.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
    client.wait_for_turn_end(&uris.chat, &turn).await;
}

async fn cursor_stays_valid_while_turns_are_added(case: ProtocolCase) {
    let (mut author, uris) = long(&case, 4).await;
    let mut client = case.connect_client().await;
    let state = view(&mut client, &uris.chat, 2).await;
    author.send_and_wait(&uris.chat, "more").await;
    author.send_and_wait(&uris.chat, "and more").await;
    let loaded = page(&mut client, &uris.chat, &state["turnsNextCursor"]).await;
    assert_eq!(ids(&loaded["turns"]), numbered(0..2));
}

async fn cursor_is_used_once(case: ProtocolCase) {
    let (_, uris) = long(&case, 4).await;
    let mut client = case.connect_client().await;
    let cursor = view(&mut client, &uris.chat, 2).await["turnsNextCursor"].take();
    page(&mut client, &uris.chat, &cursor).await;
    assert_eq!(client.call_error_code("fetchTurns", json!({"channel": uris.chat, "cursor": cursor})).await, -32602);
}

async fn cursor_of_another_chat_is_rejected(case: ProtocolCase) {
    let ((_, one), (_, two)) = (long(&case, 4).await, long(&case, 4).await);
    let mut client = case.connect_client().await;
    view(&mut client, &one.chat, 2).await;
    let cursor = view(&mut client, &two.chat, 2).await["turnsNextCursor"].take();
    assert_eq!(client.call_error_code("fetchTurns", json!({"channel": one.chat, "cursor": cursor})).await, -32602);
}

async fn invalid_turn_cursor_is_rejected(case: ProtocolCase) {
    let (_, uris) = long(&case, 4).await;
    let mut client = case.connect_client().await;
    view(&mut client, &uris.chat, 2).await;
    for cursor in [json!("garbage"), json!(""), json!(7), json!("ü🐎"), json!("x".repeat(100_000))] {
        assert_eq!(client.call_error_code("fetchTurns", json!({"channel": uris.chat, "cursor": cursor})).await, -32602);
    }
}

async fn turns_of_an_unknown_chat_are_32001(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for channel in [&*CaseUris::random().chat, "ahp-chat:/nowhere", ROOT] {
        assert_eq!(client.call_error_code("fetchTurns", json!({"channel": channel})).await, -32001, "{channel}");
    }
}

async fn fetching_turns_requires_a_subscription(case: ProtocolCase) {
    let (_, uris) = long(&case, 4).await;
    let cursor = view(&mut case.connect_client().await, &uris.chat, 2).await["turnsNextCursor"].take();
    let mut stranger = case.connect_client().await;
    assert_eq!(stranger.call_error_code("fetchTurns", json!({"channel": uris.chat, "cursor": cursor})).await, -32602);
}

async fn page_without_older_turns_is_empty(case: ProtocolCase) {
    let (mut client, uris) = long(&case, 2).await;
    client.subscribe(&uris.chat).await;
    assert_eq!(client.call_ok("fetchTurns", json!({"channel": uris.chat})).await, json!({}));
    client.assert_state_matches_host(&uris.chat).await;
}

async fn malformed_view_is_invalid(case: ProtocolCase) {
    let (_, uris) = long(&case, 2).await;
    let mut client = case.connect_client().await;
    for view in [json!({"turns": -1}), json!({"turns": "three"}), json!(7)] {
        assert_eq!(
            client.call_error_code("subscribe", json!({"channel": uris.chat, "view": view})).await,
            -32602,
            "{view}"
        );
    }
    client.call_ok("subscribe", json!({"channel": uris.chat, "view": {}})).await;
    client.call_ok("subscribe", json!({"channel": uris.session, "view": {"turns": 1}})).await;
}

async fn reconnecting_client_continues_with_its_view(case: ProtocolCase) {
    let (_, uris) = long(&case, 6).await;
    let mut client = case.connect_client().await;
    view(&mut client, &uris.chat, 2).await;
    let mut back = case.connect_uninitialized().await;
    back.id = client.id.clone();
    drop(client);
    let params = json!({"clientId": back.id, "lastSeenServerSeq": 1_i64 << 50, "subscriptions": [uris.chat]});
    let answer = back.call_ok("reconnect", params).await;
    let state = &answer["snapshots"][0]["state"];
    assert_eq!(ids(&state["turns"]), numbered(4..6), "{answer:#}");
    let loaded = page(&mut back, &uris.chat, &state["turnsNextCursor"]).await;
    assert_eq!(ids(&loaded["turns"]), numbered(0..4));
}

/// Starts a host of its own with this many sessions.
async fn listed(case: &ProtocolCase, count: usize) -> (ProtocolCase, RecordingClient) {
    let own = ProtocolCase::new(&Arc::new(HostFixture::with_shell_commands().await), "work", case.version);
    let mut client = own.connect_client().await;
    for _ in 0..count {
        let uris = client.create_session(&own.dir).await;
        client.send_and_wait(&uris.chat, "/rename x").await;
    }
    (own, client)
}

async fn end(own: ProtocolCase, client: RecordingClient) {
    drop(client);
    let ProtocolCase { fixture: stage, .. } = own;
    Arc::into_inner(stage).unwrap().host.stop().await;
}

async fn sessions_are_listed_by_page(case: ProtocolCase) {
    let (own, mut client) = listed(&case, 7).await;
    let whole = client.call_ok("listSessions", json!({})).await;
    assert_eq!((whole["items"].as_array().unwrap().len(), whole.get("nextCursor")), (7, None));
    for limit in [1, 3, 7] {
        let (mut items, mut params) = (Vec::new(), json!({"limit": limit}));
        loop {
            let mut page = client.call_ok("listSessions", params.clone()).await;
            let mut more = page["items"].as_array_mut().unwrap().drain(..).collect::<Vec<_>>();
            assert!(more.len() <= limit, "{limit}");
            items.append(&mut more);
            match page.get("nextCursor") {
                Some(cursor) => params["cursor"] = cursor.clone(),
                None => break,
            }
        }
        assert_eq!(json!(items), whole["items"], "{limit}");
    }
    end(own, client).await;
}

async fn invalid_session_list_cursor_is_rejected(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for cursor in [json!("!"), json!(""), json!(7), json!("x".repeat(100_000))] {
        assert_eq!(client.call_error_code("listSessions", json!({"cursor": cursor})).await, -32602);
    }
}

async fn session_pages_are_stable_while_sessions_are_added(case: ProtocolCase) {
    let (own, mut client) = listed(&case, 4).await;
    let whole = client.call_ok("listSessions", json!({})).await["items"].take();
    let first = client.call_ok("listSessions", json!({"limit": 2})).await;
    let uris = client.create_session(&own.dir).await;
    let mut newest = turn_started_action("/rename new");
    newest["startedAt"] = json!("2031-01-01T00:00:00.000Z");
    client.dispatch_accepted(&uris.chat, newest.clone()).await;
    client.wait_for_turn_end(&uris.chat, newest["turnId"].as_str().unwrap()).await;
    let rest = client.call_ok("listSessions", json!({"cursor": first["nextCursor"]})).await;
    let old = [first["items"].as_array().unwrap().clone(), rest["items"].as_array().unwrap().clone()].concat();
    let names = |items: &[Value]| items.iter().map(|item| item["resource"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&old), names(whole.as_array().unwrap()), "none of them twice, none of them lost");
    end(own, client).await;
}

async fn invalid_page_limits_are_tolerated(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for limit in [json!(0), json!(-1), json!("many")] {
        assert_eq!(client.call_error_code("listSessions", json!({"limit": limit})).await, -32602, "{limit}");
    }
    client.call_ok("listSessions", json!({"limit": 1_u64 << 40})).await;
}
