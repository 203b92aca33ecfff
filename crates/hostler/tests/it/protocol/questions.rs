//! Questions of the agent, and answers of people.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    question_is_a_turn_part_and_in_the_sessions_input_needed,
    chosen_answer_reaches_the_agent,
    several_answers_are_given_together,
    free_text_is_an_answer,
    answer_draft_is_shared_and_is_not_an_answer,
    answer_draft_counts_when_the_request_is_accepted,
    decline_reaches_the_agent,
    cancelled_question_reaches_the_agent,
    first_completed_answer_wins,
    answer_to_an_unknown_request_is_rejected,
    answer_to_an_unknown_question_is_rejected,
    answer_outside_the_options_is_rejected,
    malformed_question_answer_is_rejected,
    accepting_without_required_answers_is_rejected,
    cancelled_turn_leaves_the_question_unanswered,
    plan_is_shown_and_answered,
    clients_cannot_dispatch_questions,
}

fn questions() -> Value {
    let option = |label: &str| json!({"label": label, "description": format!("the {label} one")});
    json!({"questions": [
        {"question": "Which colour?", "header": "Colour", "multiSelect": false, "options": [option("red"), option("blue")]},
        {"question": "Which sizes?", "header": "Sizes", "multiSelect": true, "options": [option("small"), option("large")]},
    ]})
}

/// Returns a pending question.
async fn asked(case: &ProtocolCase) -> (RecordingClient, CaseUris, Value) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_message(&uris.chat, &format!("call AskUserQuestion {}", questions())).await;
    let request = client.wait_for_action(&uris.chat, "chat/inputRequested").await["request"].take();
    (client, uris, request)
}

fn id(request: &Value, number: usize) -> String {
    request["questions"][number]["id"].as_str().unwrap().to_owned()
}

fn chosen(value: Value) -> Value {
    let kind = if value.is_array() { "selected-many" } else { "selected" };
    json!({"state": "submitted", "value": {"kind": kind, "value": value}})
}

fn completed(request: &Value, response: &str, answers: Value) -> Value {
    json!({"type": "chat/inputCompleted", "requestId": request["id"], "response": response, "answers": answers})
}

fn both(request: &Value) -> Value {
    json!({id(request, 0): chosen(json!("blue")), id(request, 1): chosen(json!(["small", "large"]))})
}

/// Returns the turn, once it is over.
async fn ended(client: &mut RecordingClient, uris: &CaseUris) -> Value {
    loop {
        let state = client.subscribe(&uris.chat).await;
        if let Some(turn) = state["turns"].as_array().unwrap().first() {
            client.assert_state_matches_host(&uris.chat).await;
            client.assert_state_matches_host(&uris.session).await;
            return turn.clone();
        }
        client.wait_for(|message| message["params"]["channel"] == uris.chat).await;
    }
}

async fn question_is_a_turn_part_and_in_the_sessions_input_needed(case: ProtocolCase) {
    let (mut client, uris, request) = asked(&case).await;
    assert_eq!(request["questions"][0]["kind"], "single-select", "{request:#}");
    assert_eq!(request["questions"][1]["kind"], "multi-select");
    assert_eq!(request["questions"][0]["options"][1]["label"], "blue");
    let state = client.subscribe(&uris.chat).await;
    let parts = state["activeTurn"]["responseParts"].as_array().unwrap();
    assert!(parts.iter().any(|part| part["kind"] == "inputRequest" && part.get("response").is_none()), "{parts:#?}");
    assert_eq!(state["status"].as_u64().unwrap() & 31, 24);
    let needed = client.subscribe(&uris.session).await["inputNeeded"].clone();
    assert_eq!(needed.as_array().unwrap().len(), 1, "{needed:#}");
    client.dispatch_accepted(&uris.chat, completed(&request, "cancel", json!({}))).await;
}

async fn chosen_answer_reaches_the_agent(case: ProtocolCase) {
    let (mut client, uris, request) = asked(&case).await;
    client.dispatch_accepted(&uris.chat, completed(&request, "accept", both(&request))).await;
    let turn = ended(&mut client, &uris).await;
    let parts = turn["responseParts"].to_string();
    assert!(parts.contains("blue") && turn["state"] == "complete", "{turn:#}");
}

async fn several_answers_are_given_together(case: ProtocolCase) {
    let (mut client, uris, request) = asked(&case).await;
    let echo = client.dispatch_accepted(&uris.chat, completed(&request, "accept", both(&request))).await;
    assert_eq!(echo["action"]["answers"][id(&request, 1)]["value"]["value"], json!(["small", "large"]));
    ended(&mut client, &uris).await;
    assert_eq!(client.subscribe(&uris.session).await["inputNeeded"].as_array().map_or(0, Vec::len), 0);
}

async fn free_text_is_an_answer(case: ProtocolCase) {
    let (mut client, uris, request) = asked(&case).await;
    let own = json!({"state": "submitted", "value": {"kind": "selected", "value": "", "freeformValues": ["mauve"]}});
    client.dispatch_accepted(&uris.chat, completed(&request, "accept", json!({id(&request, 0): own}))).await;
    let turn = ended(&mut client, &uris).await;
    assert!(turn["responseParts"].to_string().contains("mauve"), "{turn:#}");
}

fn draft(request: &Value, number: usize, answer: Value) -> Value {
    json!({"type": "chat/inputAnswerChanged", "requestId": request["id"], "questionId": id(request, number), "answer": answer})
}

async fn answer_draft_is_shared_and_is_not_an_answer(case: ProtocolCase) {
    let (mut client, uris, request) = asked(&case).await;
    let mut other = case.connect_to_session(&uris).await;
    let answer = json!({"state": "draft", "value": {"kind": "selected", "value": "red"}});
    client.dispatch_accepted(&uris.chat, draft(&request, 0, answer.clone())).await;
    assert_eq!(other.wait_for_action(&uris.chat, "chat/inputAnswerChanged").await["answer"], answer);
    other.assert_state_matches_host(&uris.chat).await;
    assert_eq!(client.subscribe(&uris.session).await["inputNeeded"].as_array().unwrap().len(), 1, "still open");
    client.dispatch_accepted(&uris.chat, completed(&request, "decline", json!({}))).await;
}

async fn answer_draft_counts_when_the_request_is_accepted(case: ProtocolCase) {
    let (mut client, uris, request) = asked(&case).await;
    client.dispatch_accepted(&uris.chat, draft(&request, 0, chosen(json!("red")))).await;
    let rest = json!({id(&request, 1): chosen(json!(["large"]))});
    client.dispatch_accepted(&uris.chat, completed(&request, "accept", rest)).await;
    let turn = ended(&mut client, &uris).await;
    let parts = turn["responseParts"].to_string();
    assert!(parts.contains("red") && parts.contains("large"), "{turn:#}");
}

async fn decline_reaches_the_agent(case: ProtocolCase) {
    let (mut client, uris, request) = asked(&case).await;
    client.dispatch_accepted(&uris.chat, completed(&request, "decline", json!({}))).await;
    let turn = ended(&mut client, &uris).await;
    assert_eq!(turn["state"], "complete", "the agent continues without an answer: {turn:#}");
}

async fn cancelled_question_reaches_the_agent(case: ProtocolCase) {
    let (mut client, uris, request) = asked(&case).await;
    client.dispatch_accepted(&uris.chat, completed(&request, "cancel", json!({}))).await;
    let turn = ended(&mut client, &uris).await;
    assert_eq!(turn["state"], "complete", "{turn:#}");
}

async fn first_completed_answer_wins(case: ProtocolCase) {
    let (mut one, uris, request) = asked(&case).await;
    let mut two = case.connect_to_session(&uris).await;
    let first = one.dispatch(&uris.chat, completed(&request, "accept", both(&request))).await;
    let second = two.dispatch(&uris.chat, completed(&request, "decline", json!({}))).await;
    let (first, second) = (one.wait_for_echo(first).await, two.wait_for_echo(second).await);
    let refused = [&first, &second].iter().filter(|envelope| envelope.get("rejectionReason").is_some()).count();
    assert_eq!(refused, 1, "{first:#} {second:#}");
    ended(&mut one, &uris).await;
    two.assert_state_matches_host(&uris.chat).await;
}

async fn untouched(client: &mut RecordingClient, uris: &CaseUris, actions: Vec<Value>) {
    let before = client.subscribe(&uris.chat).await["activeTurn"].take();
    for action in actions {
        client.dispatch_rejected(&uris.chat, action).await;
    }
    assert_eq!(client.subscribe(&uris.chat).await["activeTurn"], before);
}

async fn answer_to_an_unknown_request_is_rejected(case: ProtocolCase) {
    let (mut client, uris, request) = asked(&case).await;
    let mut other = request.clone();
    other["id"] = json!("unknown");
    let actions = vec![completed(&other, "accept", both(&request)), draft(&other, 0, chosen(json!("red")))];
    untouched(&mut client, &uris, actions).await;
    client.dispatch_accepted(&uris.chat, completed(&request, "cancel", json!({}))).await;
    ended(&mut client, &uris).await;
    client.dispatch_rejected(&uris.chat, completed(&request, "accept", both(&request))).await;
}

async fn answer_to_an_unknown_question_is_rejected(case: ProtocolCase) {
    let (mut client, uris, request) = asked(&case).await;
    let action = json!({"type": "chat/inputAnswerChanged", "requestId": request["id"], "questionId": "unknown",
        "answer": chosen(json!("red"))});
    untouched(&mut client, &uris, vec![action]).await;
    client.dispatch_accepted(&uris.chat, completed(&request, "cancel", json!({}))).await;
}

async fn answer_outside_the_options_is_rejected(case: ProtocolCase) {
    let (mut client, uris, request) = asked(&case).await;
    let actions = vec![
        draft(&request, 0, chosen(json!("green"))),
        draft(&request, 1, chosen(json!(["small", "huge"]))),
        draft(&request, 0, json!({"state": "submitted", "value": {"kind": "boolean", "value": true}})),
        completed(&request, "accept", json!({id(&request, 0): chosen(json!("green"))})),
    ];
    untouched(&mut client, &uris, actions).await;
    client.dispatch_accepted(&uris.chat, completed(&request, "cancel", json!({}))).await;
}

async fn malformed_question_answer_is_rejected(case: ProtocolCase) {
    let (mut client, uris, request) = asked(&case).await;
    let actions = vec![
        draft(&request, 0, json!({"state": "submitted"})),
        draft(&request, 0, json!(7)),
        completed(&request, "perhaps", json!({})),
        json!({"type": "chat/inputCompleted", "requestId": request["id"]}),
    ];
    untouched(&mut client, &uris, actions).await;
    client.dispatch_accepted(&uris.chat, completed(&request, "cancel", json!({}))).await;
}

async fn accepting_without_required_answers_is_rejected(case: ProtocolCase) {
    let (mut client, uris, request) = asked(&case).await;
    let required = request["questions"].as_array().unwrap().iter().any(|question| question["required"] == true);
    let action = completed(&request, "accept", json!({}));
    let seq = client.dispatch(&uris.chat, action).await;
    let refused = client.wait_for_echo(seq).await.get("rejectionReason").is_some();
    assert_eq!(refused, required, "{request:#}");
    if refused {
        client.dispatch_accepted(&uris.chat, completed(&request, "cancel", json!({}))).await;
    }
    ended(&mut client, &uris).await;
}

async fn cancelled_turn_leaves_the_question_unanswered(case: ProtocolCase) {
    let (mut client, uris, request) = asked(&case).await;
    let state = client.subscribe(&uris.chat).await;
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(state["activeTurn"]["id"].as_str().unwrap())).await;
    let turn = ended(&mut client, &uris).await;
    let part = turn["responseParts"].as_array().unwrap().iter().find(|part| part["kind"] == "inputRequest").unwrap();
    assert_eq!(part.get("response"), None, "{part:#}");
    client.dispatch_rejected(&uris.chat, completed(&request, "accept", both(&request))).await;
    assert_eq!(client.subscribe(&uris.session).await["inputNeeded"].as_array().map_or(0, Vec::len), 0);
}

async fn plan_is_shown_and_answered(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let config = json!({"type": "session/configChanged", "config": {"permissionMode": "plan"}});
    client.dispatch_accepted(&uris.session, config).await;
    client.send_message(&uris.chat, r##"call ExitPlanMode {"plan":"# First this"}"##).await;
    let request = client.wait_for_action(&uris.chat, "chat/inputRequested").await["request"].take();
    assert_eq!(request["message"], "# First this", "{request:#}");
    let answer = json!({"plan": chosen(json!("accept-edits"))});
    client.dispatch_accepted(&uris.chat, completed(&request, "accept", answer)).await;
    ended(&mut client, &uris).await;
    let values = client.subscribe(&uris.session).await["config"]["values"].clone();
    assert_eq!(values["permissionMode"], "acceptEdits");
}

async fn clients_cannot_dispatch_questions(case: ProtocolCase) {
    let (mut client, uris, request) = asked(&case).await;
    let actions = vec![json!({"type": "chat/inputRequested", "request": {"id": "mine", "message": "Your password?"}})];
    untouched(&mut client, &uris, actions).await;
    for action in [
        json!({"type": "session/inputNeededSet", "request": {"id": "x", "kind": "chatInput", "chat": uris.chat}}),
        json!({"type": "session/inputNeededRemoved", "id": request["id"]}),
    ] {
        client.dispatch_rejected(&uris.session, action).await;
    }
    assert_eq!(client.subscribe(&uris.session).await["inputNeeded"].as_array().unwrap().len(), 1);
    client.dispatch_accepted(&uris.chat, completed(&request, "cancel", json!({}))).await;
}
