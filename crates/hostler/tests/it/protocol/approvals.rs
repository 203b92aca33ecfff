//! Tool approvals: pending tool calls, and what the agent receives of the answer.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    pending_call_has_its_input_and_options,
    pending_call_is_in_the_sessions_input_needed,
    status_shows_that_input_is_needed,
    approval_runs_the_call,
    denial_cancels_the_call_and_its_reason_reaches_the_model,
    listed_option_is_accepted,
    unknown_option_is_rejected,
    answer_from_an_unsubscribed_client_is_accepted,
    first_answer_to_a_call_wins,
    second_answer_by_the_same_client_is_rejected,
    answer_to_an_unknown_call_is_rejected,
    answer_for_another_turn_is_rejected,
    answer_after_the_turn_is_rejected,
    malformed_tool_answer_is_rejected,
    edited_input_is_run,
    edited_input_that_is_not_json_is_rejected,
    session_approval_is_remembered,
    call_stays_pending_without_clients,
    cancel_withdraws_the_pending_call,
    denying_mode_asks_no_client,
    mode_change_decides_pending_calls,
    clients_cannot_dispatch_host_actions_about_calls,
    audit_log_names_who_decided,
    two_calls_ask_one_after_the_other,
    confirmed_call_is_no_longer_pending,
    tool_names_and_messages_are_readable,
}

const CALL: &str = r#"call Bash {"command":"mkdir made"}"#;

/// Returns a pending call, as the session shows it.
async fn waiting(case: &ProtocolCase) -> (RecordingClient, CaseUris, Value) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_message(&uris.chat, CALL).await;
    let needed = client.wait_for_action(&uris.session, "session/inputNeededSet").await["request"].take();
    (client, uris, needed)
}

fn confirmation(needed: &Value, more: Value) -> Value {
    let mut action = json!({"type": "chat/toolCallConfirmed", "turnId": needed["turnId"],
        "toolCallId": needed["toolCall"]["toolCallId"]});
    action.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    action
}

fn yes(needed: &Value) -> Value {
    confirmation(needed, json!({"approved": true, "confirmed": "user-action"}))
}

fn no(needed: &Value) -> Value {
    confirmation(needed, json!({"approved": false, "reason": "denied"}))
}

/// Returns the call of the completed turn.
async fn ended(client: &mut RecordingClient, uris: &CaseUris, needed: &Value) -> Value {
    client.wait_for_turn_end(&uris.chat, needed["turnId"].as_str().unwrap()).await;
    client.assert_state_matches_host(&uris.chat).await;
    client.assert_state_matches_host(&uris.session).await;
    let state = client.subscribe(&uris.chat).await;
    let parts = state["turns"][0]["responseParts"].as_array().unwrap();
    parts.iter().find(|part| part["kind"] == "toolCall").unwrap()["toolCall"].clone()
}

async fn pending_call_has_its_input_and_options(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    let state = client.subscribe(&uris.chat).await;
    let parts = state["activeTurn"]["responseParts"].as_array().unwrap();
    let call = &parts.iter().find(|part| part["kind"] == "toolCall").unwrap()["toolCall"];
    assert_eq!((&call["status"], &call["toolName"]), (&json!("pending-confirmation"), &json!("Bash")));
    let input: Value = serde_json::from_str(call["toolInput"].as_str().unwrap()).unwrap();
    assert_eq!(input, json!({"command": "mkdir made"}));
    let options = call["options"].as_array().unwrap();
    for (id, kind) in [("allow-once", "approve"), ("deny", "deny"), ("deny-with-feedback", "deny")] {
        assert!(options.iter().any(|option| option["id"] == id && option["kind"] == kind), "{options:#?}");
    }
    client.dispatch_accepted(&uris.chat, no(&needed)).await;
}

async fn pending_call_is_in_the_sessions_input_needed(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    assert_eq!(needed["chat"], uris.chat);
    let state = client.subscribe(&uris.session).await;
    assert_eq!(state["inputNeeded"].as_array().unwrap().len(), 1);
    client.dispatch_accepted(&uris.chat, yes(&needed)).await;
    client.wait_for_action(&uris.session, "session/inputNeededRemoved").await;
    let state = client.subscribe(&uris.session).await;
    assert_eq!(state["inputNeeded"].as_array().map_or(0, Vec::len), 0);
}

async fn status_shows_that_input_is_needed(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    assert_eq!(client.subscribe(&uris.chat).await["status"].as_u64().unwrap() & 31, 24);
    assert_eq!(client.subscribe(&uris.session).await["status"].as_u64().unwrap() & 31, 24);
    client.dispatch_accepted(&uris.chat, yes(&needed)).await;
    ended(&mut client, &uris, &needed).await;
    assert_eq!(client.subscribe(&uris.chat).await["status"].as_u64().unwrap() & 31, 1);
}

async fn approval_runs_the_call(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    client.dispatch_accepted(&uris.chat, yes(&needed)).await;
    let call = ended(&mut client, &uris, &needed).await;
    assert_eq!((&call["status"], &call["success"]), (&json!("completed"), &json!(true)), "{call:#}");
    assert_eq!(call["content"][0]["text"], "done");
}

async fn denial_cancels_the_call_and_its_reason_reaches_the_model(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    let answer = json!({"approved": false, "reason": "denied", "reasonMessage": "not on a Sunday"});
    client.dispatch_accepted(&uris.chat, confirmation(&needed, answer)).await;
    let call = ended(&mut client, &uris, &needed).await;
    assert_eq!(call["status"], "cancelled", "{call:#}");
    assert!(call.to_string().contains("not on a Sunday"), "{call:#}");
    assert!(!case.dir.join("made").exists());
}

async fn listed_option_is_accepted(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    let chosen = json!({"approved": true, "confirmed": "user-action", "selectedOptionId": "allow-once"});
    client.dispatch_accepted(&uris.chat, confirmation(&needed, chosen)).await;
    assert_eq!(ended(&mut client, &uris, &needed).await["status"], "completed");
}

async fn unknown_option_is_rejected(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    for (approved, option) in [(true, "allow-everything"), (true, "deny"), (false, "allow-once"), (true, "")] {
        let chosen = json!({"approved": approved, "selectedOptionId": option});
        client.dispatch_rejected(&uris.chat, confirmation(&needed, chosen)).await;
    }
    client.dispatch_accepted(&uris.chat, no(&needed)).await;
}

async fn answer_from_an_unsubscribed_client_is_accepted(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    let mut other = case.connect_client().await;
    other.subscribe(&uris.session).await;
    other.dispatch(&uris.chat, yes(&needed)).await;
    other.wait_for_action(&uris.session, "session/inputNeededRemoved").await;
    assert_eq!(ended(&mut client, &uris, &needed).await["status"], "completed");
}

async fn first_answer_to_a_call_wins(case: ProtocolCase) {
    let (mut one, uris, needed) = waiting(&case).await;
    let mut two = case.connect_to_session(&uris).await;
    let (first, second) = (one.dispatch(&uris.chat, yes(&needed)).await, two.dispatch(&uris.chat, no(&needed)).await);
    let (first, second) = (one.wait_for_echo(first).await, two.wait_for_echo(second).await);
    let refused = [&first, &second].iter().filter(|envelope| envelope.get("rejectionReason").is_some()).count();
    assert_eq!(refused, 1, "{first:#} {second:#}");
    let status = if first.get("rejectionReason").is_none() { "completed" } else { "cancelled" };
    assert_eq!(ended(&mut one, &uris, &needed).await["status"], status);
    two.assert_state_matches_host(&uris.chat).await;
}

async fn second_answer_by_the_same_client_is_rejected(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    client.dispatch_accepted(&uris.chat, no(&needed)).await;
    client.dispatch_rejected(&uris.chat, yes(&needed)).await;
    assert_eq!(ended(&mut client, &uris, &needed).await["status"], "cancelled");
}

async fn answer_to_an_unknown_call_is_rejected(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    let mut action = yes(&needed);
    action["toolCallId"] = json!("unknown");
    client.dispatch_rejected(&uris.chat, action).await;
    client.dispatch_accepted(&uris.chat, no(&needed)).await;
}

async fn answer_for_another_turn_is_rejected(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    let mut action = yes(&needed);
    action["turnId"] = json!("another");
    client.dispatch_rejected(&uris.chat, action).await;
    client.dispatch_accepted(&uris.chat, no(&needed)).await;
}

async fn answer_after_the_turn_is_rejected(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(needed["turnId"].as_str().unwrap())).await;
    let before = client.subscribe(&uris.chat).await;
    client.dispatch_rejected(&uris.chat, yes(&needed)).await;
    assert_eq!(client.subscribe(&uris.chat).await["turns"], before["turns"]);
}

async fn malformed_tool_answer_is_rejected(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    for more in [json!({}), json!({"approved": "yes"}), json!({"approved": 1}), json!({"approved": null})] {
        client.dispatch_rejected(&uris.chat, confirmation(&needed, more)).await;
    }
    let state = client.subscribe(&uris.session).await;
    assert_eq!(state["inputNeeded"].as_array().unwrap().len(), 1, "it still waits");
    client.dispatch_accepted(&uris.chat, no(&needed)).await;
}

async fn edited_input_is_run(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    let edited = r#"{"command":"mkdir other"}"#;
    let action = json!({"approved": true, "confirmed": "user-action", "editedToolInput": edited});
    client.dispatch_accepted(&uris.chat, confirmation(&needed, action)).await;
    let call = ended(&mut client, &uris, &needed).await;
    assert_eq!(call["toolInput"], edited, "{call:#}");
    assert!(call["content"][0]["text"].as_str().unwrap().contains("mkdir other"), "{call:#}");
}

async fn edited_input_that_is_not_json_is_rejected(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    for edited in ["{", "7", ""] {
        let action = json!({"approved": true, "confirmed": "user-action", "editedToolInput": edited});
        client.dispatch_rejected(&uris.chat, confirmation(&needed, action)).await;
    }
    client.dispatch_accepted(&uris.chat, no(&needed)).await;
}

async fn session_approval_is_remembered(case: ProtocolCase) {
    // Without a rule that asks about every command.
    let (mut client, uris) = case.connect_with_session().await;
    let write = format!("call Write {}", json!({"file_path": case.dir.join("made"), "content": "x"}));
    client.send_message(&uris.chat, &write).await;
    let needed = client.wait_for_action(&uris.session, "session/inputNeededSet").await["request"].take();
    let chosen = json!({"approved": true, "confirmed": "user-action", "selectedOptionId": "allow-session"});
    client.dispatch_accepted(&uris.chat, confirmation(&needed, chosen)).await;
    client.wait_for_turn_end(&uris.chat, needed["turnId"].as_str().unwrap()).await;
    client.send_and_wait(&uris.chat, &write).await;
    let asked = client
        .received_envelopes(&uris.session)
        .into_iter()
        .filter(|e| e["action"]["type"] == "session/inputNeededSet");
    assert_eq!(asked.count(), 1, "the same is not asked again");
}

async fn call_stays_pending_without_clients(case: ProtocolCase) {
    let (client, uris, needed) = waiting(&case).await;
    drop(client);
    let mut other = case.connect_to_session(&uris).await;
    assert_eq!(other.subscribe(&uris.session).await["inputNeeded"][0], needed);
    other.dispatch_accepted(&uris.chat, yes(&needed)).await;
    assert_eq!(ended(&mut other, &uris, &needed).await["status"], "completed");
}

async fn cancel_withdraws_the_pending_call(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(needed["turnId"].as_str().unwrap())).await;
    client.wait_for_action(&uris.session, "session/inputNeededRemoved").await;
    let call = ended(&mut client, &uris, &needed).await;
    assert_eq!(call["status"], "cancelled", "{call:#}");
    assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, "on").await), "echo: on");
}

async fn denying_mode_asks_no_client(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let config = json!({"type": "session/configChanged", "config": {"permissionMode": "dontAsk"}});
    client.dispatch_accepted(&uris.session, config).await;
    let turn = client.send_and_wait(&uris.chat, CALL).await;
    assert!(turn["responseParts"][0].to_string().contains("toolCall"), "{turn:#}");
    assert!(!client.received_envelopes(&uris.session).iter().any(|e| e["action"]["type"] == "session/inputNeededSet"));
    client.assert_state_matches_host(&uris.chat).await;
}

async fn mode_change_decides_pending_calls(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    let config = json!({"type": "session/configChanged", "config": {"permissionMode": "dontAsk"}});
    client.dispatch_accepted(&uris.session, config).await;
    // Either the mode decides it, or it is still pending for the client that sees it.
    let state = client.subscribe(&uris.session).await;
    if state["inputNeeded"].as_array().is_some_and(|needed| !needed.is_empty()) {
        client.dispatch_accepted(&uris.chat, no(&needed)).await;
    }
    assert_eq!(ended(&mut client, &uris, &needed).await["status"], "cancelled");
}

async fn clients_cannot_dispatch_host_actions_about_calls(case: ProtocolCase) {
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
        client.dispatch_rejected(&uris.chat, action).await;
    }
    assert_eq!(client.subscribe(&uris.chat).await["activeTurn"], before);
    client.dispatch_accepted(&uris.chat, no(&needed)).await;
}

async fn audit_log_names_who_decided(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    client.dispatch_accepted(&uris.chat, yes(&needed)).await;
    ended(&mut client, &uris, &needed).await;
    let log = client.call_ok("hostler/listAudit", json!({"channel": uris.session})).await;
    let items = log["items"].as_array().unwrap();
    assert!(items.iter().any(|item| item["decidedBy"] == client.id && item["decision"] == "allow"), "{log:#}");
    assert_eq!(client.call_error_code("hostler/listAudit", json!({"channel": "claude:/unknown"})).await, -32001);
}

async fn two_calls_ask_one_after_the_other(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "tools 2").await;
    for _ in 0..2 {
        let needed = client.wait_for_action(&uris.session, "session/inputNeededSet").await["request"].take();
        client.dispatch_accepted(&uris.chat, yes(&needed)).await;
    }
    assert_eq!(client.wait_for_turn_end(&uris.chat, &turn).await["type"], "chat/turnComplete");
    client.assert_state_matches_host(&uris.chat).await;
    client.assert_state_matches_host(&uris.session).await;
}

async fn confirmed_call_is_no_longer_pending(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    client.dispatch_accepted(&uris.chat, yes(&needed)).await;
    client.wait_for_action(&uris.session, "session/inputNeededRemoved").await;
    client.dispatch_rejected(&uris.chat, yes(&needed)).await;
    assert_eq!(ended(&mut client, &uris, &needed).await["status"], "completed");
}

async fn tool_names_and_messages_are_readable(case: ProtocolCase) {
    let (mut client, uris, needed) = waiting(&case).await;
    client.dispatch_accepted(&uris.chat, yes(&needed)).await;
    let call = ended(&mut client, &uris, &needed).await;
    assert!(!call["displayName"].as_str().unwrap().is_empty(), "{call:#}");
    for text in ["invocationMessage", "pastTenseMessage"] {
        assert!(call[text].is_string() || call[text]["markdown"].is_string(), "{text}: {call:#}");
    }
    assert_eq!(call["_meta"]["toolKind"], "terminal", "a shell is drawn as one");
}
