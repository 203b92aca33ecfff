//! Tool calls that wait for a person, and what the agent hears of the answer.

use super::kit::*;

area! { Stage::fake();
    a_call_waits_with_its_input_and_options,
    a_waiting_call_is_in_the_session_s_needs,
    status_says_that_somebody_is_needed,
    a_yes_runs_the_call,
    a_no_cancels_the_call_and_the_model_hears_why,
    an_option_of_the_list_is_taken,
    an_option_that_is_not_there_is_refused,
    an_answer_may_come_from_somebody_who_does_not_hear_the_chat,
    the_first_answer_wins,
    a_second_answer_by_the_same_client_is_refused,
    an_answer_to_an_unknown_call_is_refused,
    an_answer_for_another_turn_is_refused,
    an_answer_after_the_turn_is_refused,
    a_malformed_answer_is_no_answer,
    an_edited_input_is_what_runs,
    an_edited_input_that_is_no_json_is_refused,
    a_call_of_the_session_is_remembered,
    a_call_waits_without_any_client,
    a_cancel_withdraws_the_call,
    a_mode_that_denies_asks_nobody,
    a_mode_change_decides_what_waits,
    no_client_can_say_what_the_host_says_about_calls,
    the_audit_tells_who_decided,
    two_calls_are_asked_about_one_after_the_other,
    what_is_confirmed_is_not_asked_about_any_more,
    names_and_messages_are_for_people,
}

const CALL: &str = r#"call Bash {"command":"mkdir made"}"#;

/// A call that waits, as the session's needs show it.
async fn waiting(case: &Case) -> (Client, Uris, Value) {
    let (mut client, uris) = case.session().await;
    client.say(&uris.chat, CALL).await;
    let needed = client.action(&uris.session, "session/inputNeededSet").await["request"].take();
    (client, uris, needed)
}

fn verdict(needed: &Value, more: Value) -> Value {
    let mut action = json!({"type": "chat/toolCallConfirmed", "turnId": needed["turnId"],
        "toolCallId": needed["toolCall"]["toolCallId"]});
    action.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    action
}

fn yes(needed: &Value) -> Value {
    verdict(needed, json!({"approved": true, "confirmed": "user-action"}))
}

fn no(needed: &Value) -> Value {
    verdict(needed, json!({"approved": false, "reason": "denied"}))
}

/// The call of the turn that has ended.
async fn ended(client: &mut Client, uris: &Uris, needed: &Value) -> Value {
    client.end(&uris.chat, needed["turnId"].as_str().unwrap()).await;
    client.agrees(&uris.chat).await;
    client.agrees(&uris.session).await;
    let state = client.subscribe(&uris.chat).await;
    let parts = state["turns"][0]["responseParts"].as_array().unwrap();
    parts.iter().find(|part| part["kind"] == "toolCall").unwrap()["toolCall"].clone()
}

async fn a_call_waits_with_its_input_and_options(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    let state = client.subscribe(&uris.chat).await;
    let parts = state["activeTurn"]["responseParts"].as_array().unwrap();
    let call = &parts.iter().find(|part| part["kind"] == "toolCall").unwrap()["toolCall"];
    assert_eq!((&call["status"], &call["toolName"]), (&json!("pending-confirmation"), &json!("Bash")));
    let input: Value = serde_json::from_str(call["toolInput"].as_str().unwrap()).unwrap();
    assert_eq!(input, json!({"command": "mkdir made"}));
    let options = call["options"].as_array().unwrap();
    for (id, kind) in [("allow-once", "approve"), ("deny", "deny"), ("deny-tell", "deny")] {
        assert!(options.iter().any(|option| option["id"] == id && option["kind"] == kind), "{options:#?}");
    }
    client.accepted(&uris.chat, no(&needed)).await;
}

async fn a_waiting_call_is_in_the_session_s_needs(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    assert_eq!(needed["chat"], uris.chat);
    let state = client.subscribe(&uris.session).await;
    assert_eq!(state["inputNeeded"].as_array().unwrap().len(), 1);
    client.accepted(&uris.chat, yes(&needed)).await;
    client.action(&uris.session, "session/inputNeededRemoved").await;
    let state = client.subscribe(&uris.session).await;
    assert_eq!(state["inputNeeded"].as_array().map_or(0, Vec::len), 0);
}

async fn status_says_that_somebody_is_needed(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    assert_eq!(client.subscribe(&uris.chat).await["status"].as_u64().unwrap() & 31, 24);
    assert_eq!(client.subscribe(&uris.session).await["status"].as_u64().unwrap() & 31, 24);
    client.accepted(&uris.chat, yes(&needed)).await;
    ended(&mut client, &uris, &needed).await;
    assert_eq!(client.subscribe(&uris.chat).await["status"].as_u64().unwrap() & 31, 1);
}

async fn a_yes_runs_the_call(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    client.accepted(&uris.chat, yes(&needed)).await;
    let call = ended(&mut client, &uris, &needed).await;
    assert_eq!((&call["status"], &call["success"]), (&json!("completed"), &json!(true)), "{call:#}");
    assert_eq!(call["content"][0]["text"], "done");
}

async fn a_no_cancels_the_call_and_the_model_hears_why(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    let told = json!({"approved": false, "reason": "denied", "reasonMessage": "not on a Sunday"});
    client.accepted(&uris.chat, verdict(&needed, told)).await;
    let call = ended(&mut client, &uris, &needed).await;
    assert_eq!(call["status"], "cancelled", "{call:#}");
    assert!(call.to_string().contains("not on a Sunday"), "{call:#}");
    assert!(!case.dir.join("made").exists());
}

async fn an_option_of_the_list_is_taken(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    let chosen = json!({"approved": true, "confirmed": "user-action", "selectedOptionId": "allow-once"});
    client.accepted(&uris.chat, verdict(&needed, chosen)).await;
    assert_eq!(ended(&mut client, &uris, &needed).await["status"], "completed");
}

async fn an_option_that_is_not_there_is_refused(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    for (approved, option) in [(true, "allow-everything"), (true, "deny"), (false, "allow-once"), (true, "")] {
        let chosen = json!({"approved": approved, "selectedOptionId": option});
        client.refused(&uris.chat, verdict(&needed, chosen)).await;
    }
    client.accepted(&uris.chat, no(&needed)).await;
}

async fn an_answer_may_come_from_somebody_who_does_not_hear_the_chat(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    let mut other = case.client().await;
    other.subscribe(&uris.session).await;
    other.dispatch(&uris.chat, yes(&needed)).await;
    other.action(&uris.session, "session/inputNeededRemoved").await;
    assert_eq!(ended(&mut client, &uris, &needed).await["status"], "completed");
}

async fn the_first_answer_wins(case: Case) {
    let (mut one, uris, needed) = waiting(&case).await;
    let mut two = case.beside(&uris).await;
    let (first, second) = (one.dispatch(&uris.chat, yes(&needed)).await, two.dispatch(&uris.chat, no(&needed)).await);
    let (first, second) = (one.echo(first).await, two.echo(second).await);
    let refused = [&first, &second].iter().filter(|envelope| envelope.get("rejectionReason").is_some()).count();
    assert_eq!(refused, 1, "{first:#} {second:#}");
    let status = if first.get("rejectionReason").is_none() { "completed" } else { "cancelled" };
    assert_eq!(ended(&mut one, &uris, &needed).await["status"], status);
    two.agrees(&uris.chat).await;
}

async fn a_second_answer_by_the_same_client_is_refused(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    client.accepted(&uris.chat, no(&needed)).await;
    client.refused(&uris.chat, yes(&needed)).await;
    assert_eq!(ended(&mut client, &uris, &needed).await["status"], "cancelled");
}

async fn an_answer_to_an_unknown_call_is_refused(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    let mut wish = yes(&needed);
    wish["toolCallId"] = json!("nobody");
    client.refused(&uris.chat, wish).await;
    client.accepted(&uris.chat, no(&needed)).await;
}

async fn an_answer_for_another_turn_is_refused(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    let mut wish = yes(&needed);
    wish["turnId"] = json!("another");
    client.refused(&uris.chat, wish).await;
    client.accepted(&uris.chat, no(&needed)).await;
}

async fn an_answer_after_the_turn_is_refused(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    client.accepted(&uris.chat, cancel(needed["turnId"].as_str().unwrap())).await;
    let before = client.subscribe(&uris.chat).await;
    client.refused(&uris.chat, yes(&needed)).await;
    assert_eq!(client.subscribe(&uris.chat).await["turns"], before["turns"]);
}

async fn a_malformed_answer_is_no_answer(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    for more in [json!({}), json!({"approved": "yes"}), json!({"approved": 1}), json!({"approved": null})] {
        client.refused(&uris.chat, verdict(&needed, more)).await;
    }
    let state = client.subscribe(&uris.session).await;
    assert_eq!(state["inputNeeded"].as_array().unwrap().len(), 1, "it still waits");
    client.accepted(&uris.chat, no(&needed)).await;
}

async fn an_edited_input_is_what_runs(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    let edited = r#"{"command":"mkdir other"}"#;
    let wish = json!({"approved": true, "confirmed": "user-action", "editedToolInput": edited});
    client.accepted(&uris.chat, verdict(&needed, wish)).await;
    let call = ended(&mut client, &uris, &needed).await;
    assert_eq!(call["toolInput"], edited, "{call:#}");
    assert!(call["content"][0]["text"].as_str().unwrap().contains("mkdir other"), "{call:#}");
}

async fn an_edited_input_that_is_no_json_is_refused(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    for edited in ["{", "7", ""] {
        let wish = json!({"approved": true, "confirmed": "user-action", "editedToolInput": edited});
        client.refused(&uris.chat, verdict(&needed, wish)).await;
    }
    client.accepted(&uris.chat, no(&needed)).await;
}

async fn a_call_of_the_session_is_remembered(case: Case) {
    // Without a rule that asks about every command.
    let (mut client, uris) = case.session().await;
    let write = format!("call Write {}", json!({"file_path": case.dir.join("made"), "content": "x"}));
    client.say(&uris.chat, &write).await;
    let needed = client.action(&uris.session, "session/inputNeededSet").await["request"].take();
    let chosen = json!({"approved": true, "confirmed": "user-action", "selectedOptionId": "allow-session"});
    client.accepted(&uris.chat, verdict(&needed, chosen)).await;
    client.end(&uris.chat, needed["turnId"].as_str().unwrap()).await;
    client.ask(&uris.chat, &write).await;
    let asked = client.envelopes(&uris.session).into_iter().filter(|e| e["action"]["type"] == "session/inputNeededSet");
    assert_eq!(asked.count(), 1, "the same is not asked again");
}

async fn a_call_waits_without_any_client(case: Case) {
    let (client, uris, needed) = waiting(&case).await;
    drop(client);
    let mut other = case.beside(&uris).await;
    assert_eq!(other.subscribe(&uris.session).await["inputNeeded"][0], needed);
    other.accepted(&uris.chat, yes(&needed)).await;
    assert_eq!(ended(&mut other, &uris, &needed).await["status"], "completed");
}

async fn a_cancel_withdraws_the_call(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    client.accepted(&uris.chat, cancel(needed["turnId"].as_str().unwrap())).await;
    client.action(&uris.session, "session/inputNeededRemoved").await;
    let call = ended(&mut client, &uris, &needed).await;
    assert_eq!(call["status"], "cancelled", "{call:#}");
    assert_eq!(words(&client.ask(&uris.chat, "on").await), "echo: on");
}

async fn a_mode_that_denies_asks_nobody(case: Case) {
    let (mut client, uris) = case.session().await;
    let config = json!({"type": "session/configChanged", "config": {"permissionMode": "dontAsk"}});
    client.accepted(&uris.session, config).await;
    let turn = client.ask(&uris.chat, CALL).await;
    assert!(turn["responseParts"][0].to_string().contains("toolCall"), "{turn:#}");
    assert!(!client.envelopes(&uris.session).iter().any(|e| e["action"]["type"] == "session/inputNeededSet"));
    client.agrees(&uris.chat).await;
}

async fn a_mode_change_decides_what_waits(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    let config = json!({"type": "session/configChanged", "config": {"permissionMode": "dontAsk"}});
    client.accepted(&uris.session, config).await;
    // Either it is decided by the mode, or it still waits for the person who sees it.
    let state = client.subscribe(&uris.session).await;
    if state["inputNeeded"].as_array().is_some_and(|needed| !needed.is_empty()) {
        client.accepted(&uris.chat, no(&needed)).await;
    }
    assert_eq!(ended(&mut client, &uris, &needed).await["status"], "cancelled");
}

async fn no_client_can_say_what_the_host_says_about_calls(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    let (turn, call) = (&needed["turnId"], &needed["toolCall"]["toolCallId"]);
    let before = client.subscribe(&uris.chat).await["activeTurn"].take();
    let result = json!({"success": true, "pastTenseMessage": "done"});
    for action in [
        json!({"type": "chat/toolCallStart", "turnId": turn, "toolCallId": "mine", "toolName": "x", "displayName": "x"}),
        json!({"type": "chat/toolCallDelta", "turnId": turn, "toolCallId": call, "content": "x"}),
        json!({"type": "chat/toolCallReady", "turnId": turn, "toolCallId": call, "invocationMessage": "x", "confirmed": "not-needed"}),
        json!({"type": "chat/toolCallContentChanged", "turnId": turn, "toolCallId": call, "content": []}),
        json!({"type": "chat/toolCallComplete", "turnId": turn, "toolCallId": call, "result": result}),
        json!({"type": "chat/toolCallResultConfirmed", "turnId": turn, "toolCallId": call, "approved": true}),
    ] {
        client.refused(&uris.chat, action).await;
    }
    assert_eq!(client.subscribe(&uris.chat).await["activeTurn"], before);
    client.accepted(&uris.chat, no(&needed)).await;
}

async fn the_audit_tells_who_decided(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    client.accepted(&uris.chat, yes(&needed)).await;
    ended(&mut client, &uris, &needed).await;
    let log = client.ok("hostler/audit", json!({"channel": uris.session})).await;
    let items = log["items"].as_array().unwrap();
    assert!(items.iter().any(|item| item["who"] == client.id && item["decision"] == "allow"), "{log:#}");
    assert_eq!(client.code("hostler/audit", json!({"channel": "claude:/unknown"})).await, -32001);
}

async fn two_calls_are_asked_about_one_after_the_other(case: Case) {
    let (mut client, uris) = case.session().await;
    let turn = client.say(&uris.chat, "tools 2").await;
    for _ in 0..2 {
        let needed = client.action(&uris.session, "session/inputNeededSet").await["request"].take();
        client.accepted(&uris.chat, yes(&needed)).await;
    }
    assert_eq!(client.end(&uris.chat, &turn).await["type"], "chat/turnComplete");
    client.agrees(&uris.chat).await;
    client.agrees(&uris.session).await;
}

async fn what_is_confirmed_is_not_asked_about_any_more(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    client.accepted(&uris.chat, yes(&needed)).await;
    client.action(&uris.session, "session/inputNeededRemoved").await;
    client.refused(&uris.chat, yes(&needed)).await;
    assert_eq!(ended(&mut client, &uris, &needed).await["status"], "completed");
}

async fn names_and_messages_are_for_people(case: Case) {
    let (mut client, uris, needed) = waiting(&case).await;
    client.accepted(&uris.chat, yes(&needed)).await;
    let call = ended(&mut client, &uris, &needed).await;
    assert!(!call["displayName"].as_str().unwrap().is_empty(), "{call:#}");
    for text in ["invocationMessage", "pastTenseMessage"] {
        assert!(call[text].is_string() || call[text]["markdown"].is_string(), "{text}: {call:#}");
    }
    assert_eq!(call["_meta"]["toolKind"], "terminal", "a shell is drawn as one");
}
