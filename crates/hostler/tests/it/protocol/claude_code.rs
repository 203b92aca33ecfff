//! Real Claude Code behind the protocol: its output becomes parts, calls and turn ends as clients expect them.

use super::harness::*;

area! { HostFixture::with_claude("native", &[]);
    reasoning_and_text_are_separate_parts,
    tool_call_streams_runs_and_completes,
    text_after_a_call_is_a_new_part,
    denied_call_passes_the_message_to_the_model,
    model_question_is_answered,
    text_of_a_cancelled_response_remains,
    provider_failure_is_a_resumable_error,
    usage_names_the_model,
    steering_reaches_the_model_in_the_turn,
    chosen_model_is_requested,
}

async fn reasoning_and_text_are_separate_parts(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "!think Let me see.\n!say Here it is.").await;
    let kinds: Vec<_> =
        turn["responseParts"].as_array().unwrap().iter().map(|part| part["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "markdown"], "{turn:#}");
    assert_eq!(turn["responseParts"][0]["content"], "Let me see.");
    assert_eq!(markdown_text(&turn), "Here it is.");
    client.assert_state_matches_host(&uris.chat).await;
    client.assert_state_matches_host(&uris.session).await;
}

fn read(case: &ProtocolCase) -> String {
    format!("!tool Read {}", json!({"file_path": case.dir.join("file")}))
}

async fn tool_call_streams_runs_and_completes(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    case.write_file("file", "contents of it");
    let turn = client.send_message(&uris.chat, &format!("{}\n!say done", read(&case))).await;
    for kind in ["chat/toolCallStart", "chat/toolCallReady", "chat/toolCallComplete"] {
        client.wait_for_action(&uris.chat, kind).await;
    }
    client.wait_for_turn_end(&uris.chat, &turn).await;
    client.assert_state_matches_host(&uris.chat).await;
    let turn = client.subscribe(&uris.chat).await["turns"][0].take();
    let call = &turn["responseParts"][0]["toolCall"];
    assert_eq!((&call["status"], &call["confirmed"]), (&json!("completed"), &json!("not-needed")), "{call:#}");
    assert_eq!(call["_meta"]["toolKind"], "read");
}

async fn text_after_a_call_is_a_new_part(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    case.write_file("file", "x");
    let turn = client.send_and_wait(&uris.chat, &format!("!say before\n{}\n!say after", read(&case))).await;
    let parts = turn["responseParts"].as_array().unwrap();
    let kinds: Vec<_> = parts.iter().map(|part| part["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["markdown", "toolCall", "markdown"]);
    assert_ne!(parts[0]["id"], parts[2]["id"]);
}

async fn denied_call_passes_the_message_to_the_model(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let write = json!({"file_path": case.dir.join("made"), "content": "x"});
    let turn = client.send_message(&uris.chat, &format!("!tool Write {write}\n!say done")).await;
    let needed = client.wait_for_action(&uris.session, "session/inputNeededSet").await["request"].take();
    assert!(needed["toolCall"]["edits"].is_object(), "the change is shown before: {needed:#}");
    let no = json!({"type": "chat/toolCallConfirmed", "turnId": needed["turnId"], "reason": "denied",
        "toolCallId": needed["toolCall"]["toolCallId"], "approved": false, "reasonMessage": "no files today"});
    client.dispatch_accepted(&uris.chat, no).await;
    assert_eq!(client.wait_for_turn_end(&uris.chat, &turn).await["type"], "chat/turnComplete");
    assert!(!case.dir.join("made").exists());
    client.assert_state_matches_host(&uris.chat).await;
    client.assert_state_matches_host(&uris.session).await;
}

async fn model_question_is_answered(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let option = |label: &str| json!({"label": label, "description": label});
    let questions = json!({"questions": [{"question": "Which?", "header": "Which", "multiSelect": false,
        "options": [option("red"), option("blue")]}]});
    let turn = client.send_message(&uris.chat, &format!("!tool AskUserQuestion {questions}\n!say done")).await;
    let request = client.wait_for_action(&uris.chat, "chat/inputRequested").await["request"].take();
    let id = request["questions"][0]["id"].as_str().unwrap();
    let answer = json!({"state": "submitted", "value": {"kind": "selected", "value": "blue"}});
    let completed = json!({"type": "chat/inputCompleted", "requestId": request["id"], "response": "accept",
        "answers": {id: answer}});
    client.dispatch_accepted(&uris.chat, completed).await;
    assert_eq!(client.wait_for_turn_end(&uris.chat, &turn).await["type"], "chat/turnComplete");
    client.assert_state_matches_host(&uris.chat).await;
}

async fn text_of_a_cancelled_response_remains(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "!say sent before\n!hang").await;
    let before =
        |message: &Value| message["params"]["action"]["content"].as_str().is_some_and(|text| text.contains("before"));
    client.wait_for(before).await;
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
    let state = client.subscribe(&uris.chat).await;
    assert_eq!(
        (&state["turns"][0]["state"], markdown_text(&state["turns"][0])),
        (&json!("cancelled"), "sent before".to_owned())
    );
    assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, "!say on").await), "on");
}

async fn provider_failure_is_a_resumable_error(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "!error 400 Bad hay.").await;
    let part = turn["responseParts"].as_array().unwrap().last().unwrap();
    assert_eq!((&turn["state"], &part["resumable"]), (&json!("error"), &json!(true)), "{turn:#}");
    assert_readable_sentence(&part["error"]["message"]);
    assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, "!say better").await), "better");
}

async fn usage_names_the_model(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "!say hello").await;
    assert!(turn["usage"]["inputTokens"].as_u64().unwrap() > 0 && turn["usage"]["model"].is_string(), "{turn:#}");
    assert!(turn["usage"]["_meta"]["hostler"]["contextTokens"].is_u64(), "{turn:#}");
}

async fn steering_reaches_the_model_in_the_turn(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let wait = json!({"command": "while [ ! -e go ]; do sleep 0.05; done", "description": "wait"});
    client.send_message(&uris.chat, &format!("!tool Bash {wait}\n!say the end")).await;
    let needed = client.wait_for_action(&uris.session, "session/inputNeededSet").await["request"].take();
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "s", "!say steered")).await;
    let yes = json!({"type": "chat/toolCallConfirmed", "turnId": needed["turnId"],
        "toolCallId": needed["toolCall"]["toolCallId"], "approved": true, "confirmed": "user-action"});
    client.dispatch_accepted(&uris.chat, yes).await;
    case.write_file("go", "");
    // The answer to the steer is a separate turn, marked as a continuation.
    let continued = |message: &Value| {
        let action = &message["params"]["action"];
        action["type"] == "chat/turnStarted" && action["message"]["text"] == "!say steered"
    };
    let turn = client.wait_for(continued).await["params"]["action"]["turnId"].as_str().unwrap().to_owned();
    client.wait_for_turn_end(&uris.chat, &turn).await;
    client.assert_state_matches_host(&uris.chat).await;
    assert_eq!(client.subscribe(&uris.chat).await.get("steeringMessage"), None);
}

async fn chosen_model_is_requested(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let models = client.subscribe(ROOT).await["agents"][0]["models"].clone();
    let model = models.as_array().unwrap().last().unwrap()["id"].clone();
    let mut action = turn_started_action("!say hello");
    action["message"]["model"] = json!({"id": model});
    client.dispatch_accepted(&uris.chat, action.clone()).await;
    client.wait_for_turn_end(&uris.chat, action["turnId"].as_str().unwrap()).await;
    let state = client.subscribe(&uris.chat).await;
    assert_eq!(state["turns"][0]["usage"]["model"], model, "{state:#}");
}
