//! Turns: streaming, ends, cancellation, failures, and ids.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    turn_is_echoed_started_streamed_and_completed,
    part_starts_before_its_first_delta,
    deltas_add_up_to_the_text,
    usage_comes_before_the_turn_end,
    durations_are_integer_milliseconds,
    status_follows_the_turn,
    turn_end_marks_the_session_unread,
    turn_id_of_the_client_is_used,
    two_turns_run_in_one_agent_process,
    second_turn_during_a_turn_is_rejected,
    used_turn_id_is_rejected,
    empty_or_overlong_turn_id_is_rejected,
    empty_message_is_rejected,
    message_of_another_origin_is_rejected,
    invalid_start_time_is_tolerated,
    turn_without_a_start_time_is_rejected,
    unknown_model_is_rejected_or_fails_with_a_message,
    cancel_is_echoed_at_once_and_ends_the_turn,
    cancelled_turn_produces_no_further_actions,
    cancel_without_a_turn_is_rejected,
    cancel_of_another_turn_is_rejected,
    cancel_with_a_fractional_duration_is_accepted,
    session_continues_after_a_cancel,
    failed_turn_ends_with_an_error_part,
    agent_crash_is_a_failed_turn_and_the_next_turn_starts_a_new_agent,
    failed_turn_can_be_resumed,
    successful_turn_cannot_be_resumed,
    unknown_turn_cannot_be_resumed,
    older_turn_cannot_be_resumed,
    empty_response_is_shown_with_a_notice,
    malformed_agent_output_reaches_no_client,
    message_meta_is_preserved,
    agent_initiated_turn_states_its_reason,
    background_work_is_listed_and_can_be_stopped,
    compaction_is_reported,
    retries_are_shown_as_activity,
    long_texts_are_transferred_whole,
    texts_of_every_script_are_transferred_whole,
}

/// Returns the action types of a chat since its first turn, without consecutive duplicates.
fn kinds(client: &RecordingClient, chat: &str) -> Vec<String> {
    let mut kinds: Vec<String> = Vec::new();
    for envelope in client.received_envelopes(chat) {
        let kind = envelope["action"]["type"].as_str().unwrap().to_owned();
        if kinds.last() != Some(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

async fn turn_is_echoed_started_streamed_and_completed(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "deltas 3").await;
    let mut kinds = kinds(&client, &uris.chat);
    kinds.retain(|kind| {
        !["chat/activityChanged", "chat/isReadChanged", "session/titleChanged"].contains(&kind.as_str())
    });
    assert_eq!(kinds.first().unwrap(), "chat/turnStarted");
    let rest: Vec<_> = kinds.iter().skip(1).map(String::as_str).filter(|kind| *kind != "chat/usage").collect();
    assert_eq!(rest, ["chat/responsePart", "chat/delta", "chat/turnComplete"]);
    assert_eq!((&turn["state"], markdown_text(&turn)), (&json!("complete"), "d0 d1 d2 ".to_owned()));
    client.assert_state_matches_host(&uris.chat).await;
    client.assert_state_matches_host(&uris.session).await;
}

async fn part_starts_before_its_first_delta(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_and_wait(&uris.chat, "cut").await;
    client.send_and_wait(&uris.chat, "deltas 5").await;
    let mut parts = std::collections::HashSet::new();
    for envelope in client.received_envelopes(&uris.chat) {
        let action = &envelope["action"];
        match action["type"].as_str().unwrap() {
            "chat/responsePart" => drop(parts.insert(action["part"]["id"].clone())),
            "chat/delta" => assert!(parts.contains(&action["partId"]), "{action:#}"),
            _ => {}
        }
    }
    assert!(parts.len() >= 2);
}

async fn deltas_add_up_to_the_text(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "deltas 200").await;
    let expected: String = (0..200).map(|number| format!("d{number} ")).collect();
    assert_eq!(markdown_text(&turn), expected);
}

async fn usage_comes_before_the_turn_end(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "hello").await;
    assert_eq!((&turn["usage"]["inputTokens"], &turn["usage"]["outputTokens"]), (&json!(10), &json!(5)));
    let place = |kind: &str| {
        let envelopes = client.received_envelopes(&uris.chat);
        envelopes.iter().rposition(|envelope| envelope["action"]["type"] == kind).unwrap()
    };
    assert!(place("chat/usage") < place("chat/turnComplete"));
}

async fn durations_are_integer_milliseconds(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "hello").await;
    let end = client.wait_for_turn_end(&uris.chat, &turn).await;
    assert!(end["duration"].is_u64(), "{end:#}");
    let state = client.subscribe(&uris.chat).await;
    assert_eq!(state["turns"][0]["duration"], end["duration"]);
    assert_eq!(state["turns"][0]["startedAt"], "2026-11-15T08:00:00.000Z");
}

async fn status_follows_the_turn(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "hang").await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    let state = client.subscribe(&uris.chat).await;
    assert_eq!(state["status"].as_u64().unwrap() & 31, 8, "in progress");
    assert_eq!(state["activeTurn"]["id"], turn);
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
    let state = client.subscribe(&uris.chat).await;
    assert_eq!(state["status"].as_u64().unwrap() & 31, 1, "idle");
    assert_eq!(state.get("activeTurn"), None);
    let turn = client.send_message(&uris.chat, "error 500").await;
    client.wait_for_turn_end(&uris.chat, &turn).await;
    assert_eq!(client.subscribe(&uris.chat).await["status"].as_u64().unwrap() & 31, 2, "error");
}

async fn turn_end_marks_the_session_unread(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.dispatch_accepted(&uris.session, json!({"type": "session/isReadChanged", "isRead": true})).await;
    assert_eq!(client.subscribe(&uris.session).await["status"].as_u64().unwrap() & 32, 32);
    client.send_and_wait(&uris.chat, "news").await;
    let unread = |message: &Value| {
        message["params"]["channel"] == uris.session
            && message["params"]["action"]["type"] == "session/isReadChanged"
            && message["params"]["action"]["isRead"] == false
    };
    client.wait_for(unread).await;
    assert_eq!(client.subscribe(&uris.session).await["status"].as_u64().unwrap() & 32, 0);
}

async fn turn_id_of_the_client_is_used(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for id in ["t1", "ü-🐎", "a b/c?d#e"] {
        let mut action = turn_started_action("hello");
        action["turnId"] = json!(id);
        client.dispatch_accepted(&uris.chat, action).await;
        client.wait_for_turn_end(&uris.chat, id).await;
    }
    let state = client.subscribe(&uris.chat).await;
    let ids: Vec<_> = state["turns"].as_array().unwrap().iter().map(|turn| turn["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["t1", "ü-🐎", "a b/c?d#e"]);
}

async fn two_turns_run_in_one_agent_process(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, "one").await), "echo: one");
    let agents = |case: &ProtocolCase| {
        let id = uris.session.trim_start_matches("claude:/").to_owned();
        let agents = case.fixture.host.agents().into_iter().filter(move |agent| agent.command.contains(&id));
        agents.map(|agent| agent.pid).collect::<Vec<_>>()
    };
    let before = agents(&case);
    assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, "two").await), "echo: two");
    assert_eq!((agents(&case), before.len()), (before, 1));
}

async fn second_turn_during_a_turn_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut other = case.connect_to_session(&uris).await;
    let first = client.send_message(&uris.chat, "hang").await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    client.dispatch_rejected(&uris.chat, turn_started_action("mine")).await;
    other.dispatch_rejected(&uris.chat, turn_started_action("theirs")).await;
    assert_eq!(client.subscribe(&uris.chat).await["activeTurn"]["id"], first);
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&first)).await;
    client.assert_state_matches_host(&uris.chat).await;
}

async fn used_turn_id_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let action = turn_started_action("hello");
    client.dispatch_accepted(&uris.chat, action.clone()).await;
    client.wait_for_turn_end(&uris.chat, action["turnId"].as_str().unwrap()).await;
    client.dispatch_rejected(&uris.chat, action).await;
    assert_eq!(client.subscribe(&uris.chat).await["turns"].as_array().unwrap().len(), 1);
}

async fn empty_or_overlong_turn_id_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for id in [String::new(), "x".repeat(257)] {
        let mut action = turn_started_action("hello");
        action["turnId"] = json!(id);
        client.dispatch_rejected(&uris.chat, action).await;
    }
    assert_eq!(client.subscribe(&uris.chat).await["turns"], json!([]));
}

async fn empty_message_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for text in ["", "   ", "\n\t "] {
        client.dispatch_rejected(&uris.chat, turn_started_action(text)).await;
    }
    assert_eq!(client.subscribe(&uris.session).await["lifecycle"], "creating", "nothing was started for it");
}

async fn message_of_another_origin_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for kind in ["agent", "tool", "automation", "systemNotification"] {
        let mut action = turn_started_action("hello");
        action["message"]["origin"]["kind"] = json!(kind);
        client.dispatch_rejected(&uris.chat, action).await;
    }
}

async fn invalid_start_time_is_tolerated(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for time in ["yesterday", "", "2026-99-99T99:99:99Z", "9999999999999"] {
        let mut action = turn_started_action("hello");
        action["startedAt"] = json!(time);
        let seq = client.dispatch(&uris.chat, action.clone()).await;
        if client.wait_for_echo(seq).await.get("rejectionReason").is_none() {
            let end = client.wait_for_turn_end(&uris.chat, action["turnId"].as_str().unwrap()).await;
            assert_eq!(end["type"], "chat/turnComplete", "{time:?}");
        }
    }
    client.assert_state_matches_host(&uris.chat).await;
}

async fn turn_without_a_start_time_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut action = turn_started_action("hello");
    action.as_object_mut().unwrap().remove("startedAt");
    assert!(client.dispatch_rejected(&uris.chat, action).await.contains("startedAt"));
}

async fn unknown_model_is_rejected_or_fails_with_a_message(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut action = turn_started_action("hello");
    action["message"]["model"] = json!({"id": "no-such-model"});
    let seq = client.dispatch(&uris.chat, action.clone()).await;
    let envelope = client.wait_for_echo(seq).await;
    if let Some(reason) = envelope.get("rejectionReason") {
        assert_readable_sentence(reason);
    } else {
        client.wait_for_turn_end(&uris.chat, action["turnId"].as_str().unwrap()).await;
    }
    assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, "on").await), "echo: on");
}

async fn cancel_is_echoed_at_once_and_ends_the_turn(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "slow").await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    let echo = client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
    assert_eq!(echo["action"]["turnId"], turn);
    let state = client.subscribe(&uris.chat).await;
    assert_eq!((&state["turns"][0]["state"], state.get("activeTurn")), (&json!("cancelled"), None));
    client.assert_state_matches_host(&uris.chat).await;
}

async fn cancelled_turn_produces_no_further_actions(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "slow").await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    let echo = client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
    client.send_and_wait(&uris.chat, "next").await;
    let late = client.received_envelopes(&uris.chat).into_iter().filter(|envelope| {
        envelope["serverSeq"].as_i64() > echo["serverSeq"].as_i64() && envelope["action"]["turnId"] == turn
    });
    assert_eq!(late.collect::<Vec<_>>(), [] as [Value; 0]);
}

async fn cancel_without_a_turn_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let before = client.subscribe(&uris.chat).await;
    client.dispatch_rejected(&uris.chat, turn_cancelled_action("t")).await;
    client.dispatch_rejected(&uris.chat, turn_cancelled_action(before["turns"][0]["id"].as_str().unwrap())).await;
    assert_eq!(client.subscribe(&uris.chat).await, before);
}

async fn cancel_of_another_turn_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "hang").await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    client.dispatch_rejected(&uris.chat, turn_cancelled_action("another")).await;
    assert_eq!(client.subscribe(&uris.chat).await["activeTurn"]["id"], turn);
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
}

async fn cancel_with_a_fractional_duration_is_accepted(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "hang").await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    let action = json!({"type": "chat/turnCancelled", "turnId": turn, "duration": 12.7});
    assert_eq!(client.dispatch_accepted(&uris.chat, action).await["action"]["duration"], 13);
}

async fn session_continues_after_a_cancel(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for _ in 0..3 {
        let turn = client.send_message(&uris.chat, "hang").await;
        client.wait_for_action(&uris.chat, "chat/delta").await;
        client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
    }
    assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, "well").await), "echo: well");
    client.assert_state_matches_host(&uris.chat).await;
}

async fn failed_turn_ends_with_an_error_part(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "error 529").await;
    assert_eq!(turn["state"], "error");
    let part = turn["responseParts"].as_array().unwrap().last().unwrap();
    assert_eq!(part["kind"], "error");
    assert_readable_sentence(&part["error"]["message"]);
    assert!(part["error"]["errorType"].is_string());
    assert_eq!(turn.get("error"), None, "the older shape");
    client.assert_state_matches_host(&uris.chat).await;
}

async fn agent_crash_is_a_failed_turn_and_the_next_turn_starts_a_new_agent(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for how in ["die", "vanish", "stderr oops"] {
        let turn = client.send_and_wait(&uris.chat, how).await;
        assert_eq!(turn["state"], "error", "{how}");
        let part = turn["responseParts"].as_array().unwrap().last().unwrap();
        assert_eq!(part["error"]["errorType"], "agentExited", "{how}: {part:#}");
        assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, "back").await), "echo: back", "{how}");
    }
}

async fn failed_turn_can_be_resumed(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "error 529").await;
    assert_eq!(turn["responseParts"].as_array().unwrap().last().unwrap()["resumable"], true);
    let id = turn["id"].as_str().unwrap();
    client.dispatch_accepted(&uris.chat, json!({"type": "chat/turnResume", "turnId": id})).await;
    let ends = |message: &Value| {
        let action = &message["params"]["action"];
        action["turnId"] == id && (action["type"] == "chat/turnComplete" || action["type"] == "chat/error")
    };
    client.wait_for(ends).await;
    client.wait_for(ends).await;
    assert_eq!(client.subscribe(&uris.chat).await["turns"].as_array().unwrap().len(), 1, "the same turn");
    client.assert_state_matches_host(&uris.chat).await;
}

fn resume(turn: &Value) -> Value {
    json!({"type": "chat/turnResume", "turnId": turn})
}

async fn successful_turn_cannot_be_resumed(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "hello").await;
    client.dispatch_rejected(&uris.chat, resume(&turn["id"])).await;
    assert_eq!(client.subscribe(&uris.chat).await["turns"], json!([turn]));
}

async fn unknown_turn_cannot_be_resumed(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.dispatch_rejected(&uris.chat, resume(&json!("unknown"))).await;
    client.send_and_wait(&uris.chat, "error 500").await;
    client.dispatch_rejected(&uris.chat, resume(&json!("unknown"))).await;
}

async fn older_turn_cannot_be_resumed(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "error 500").await;
    client.send_and_wait(&uris.chat, "hello").await;
    client.dispatch_rejected(&uris.chat, resume(&turn["id"])).await;
}

async fn empty_response_is_shown_with_a_notice(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "nothing").await;
    // An empty success is not shown as empty: it has at least a notice.
    assert!(!turn["responseParts"].as_array().unwrap().is_empty(), "{turn:#}");
}

async fn malformed_agent_output_reaches_no_client(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "garbage").await;
    assert_eq!((&turn["state"], markdown_text(&turn)), (&json!("complete"), "one two three".to_owned()));
}

async fn message_meta_is_preserved(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let meta = json!({"vscode": {"x": [1, null, {"y": "z"}]}});
    let mut action = turn_started_action("hello");
    action["message"]["_meta"] = meta.clone();
    let echo = client.dispatch_accepted(&uris.chat, action).await;
    assert_eq!(echo["action"]["message"]["_meta"], meta);
}

async fn agent_initiated_turn_states_its_reason(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_and_wait(&uris.chat, "background 0").await;
    let own = |message: &Value| {
        message["params"]["channel"] == uris.chat
            && message["params"]["action"]["message"]["origin"]["kind"] == "systemNotification"
    };
    let started = client.wait_for(own).await["params"].take();
    assert_eq!(started.get("origin"), None, "no client dispatched it");
    let turn = started["action"]["turnId"].as_str().unwrap().to_owned();
    client.wait_for_turn_end(&uris.chat, &turn).await;
    client.assert_state_matches_host(&uris.chat).await;
}

async fn background_work_is_listed_and_can_be_stopped(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_and_wait(&uris.chat, "background 3600000").await;
    let work = client.subscribe(&uris.chat).await["backgroundWork"][0].take();
    assert_eq!((&work["kind"], &work["label"]), (&json!("shell"), &json!("the fake job")));
    let stop = |id: &Value| json!({"channel": uris.chat, "id": id});
    assert_eq!(client.call_error_code("hostler/stopBackgroundWork", stop(&json!("none"))).await, -32602);
    assert_eq!(client.call_ok("hostler/stopBackgroundWork", stop(&work["id"])).await, Value::Null);
    client.wait_for_envelope(&uris.chat, "chat/backgroundWorkRemoved").await;
    client.assert_state_matches_host(&uris.chat).await;
}

async fn compaction_is_reported(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let turn = client.send_and_wait(&uris.chat, "compact").await;
    let parts = turn["responseParts"].to_string();
    assert!(parts.contains("systemNotification") && parts.contains("900"), "{parts}");
    assert!(!parts.contains("secret summary"), "{parts}");
}

async fn retries_are_shown_as_activity(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "retry 529").await;
    assert_eq!(markdown_text(&turn), "after a retry");
    let activities =
        client.received_envelopes(&uris.chat).into_iter().filter(|e| e["action"]["type"] == "chat/activityChanged");
    let published: Vec<_> = activities.map(|envelope| envelope["action"].to_string()).collect();
    assert!(published.iter().any(|activity| activity.to_lowercase().contains("retry")), "{published:?}");
    assert_eq!(client.subscribe(&uris.chat).await.get("activity"), None, "nothing is going on any more");
}

async fn long_texts_are_transferred_whole(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let text = "0123456789".repeat(100_000);
    let turn = client.send_and_wait(&uris.chat, &text).await;
    assert!(turn["message"]["text"] == text && markdown_text(&turn) == format!("echo: {text}"), "{} bytes", text.len());
}

async fn texts_of_every_script_are_transferred_whole(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for text in ["größer", "日本語", "👩‍👩‍👧‍👦🐎", "\u{202e}rtl", "a\u{0}b", "tab\tand \"quotes\" \\ \u{7f}"]
    {
        let turn = client.send_and_wait(&uris.chat, text).await;
        assert_eq!((turn["message"]["text"].as_str(), markdown_text(&turn)), (Some(text), format!("echo: {text}")));
    }
}
