//! Attachments on the wire: accepted whole or not at all, and never echoed with their contents.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::harness::*;

area! { HostFixture::with_fake_agent();
    embedded_text_reaches_the_agent,
    contents_are_replaced_by_references_before_the_echo,
    attached_contents_are_readable_by_reference,
    file_of_the_session_is_passed_to_the_agent_by_path,
    attached_file_outside_is_rejected,
    missing_attached_file_is_rejected,
    invalid_base64_attachment_is_rejected,
    one_invalid_file_rejects_the_message_and_the_corrected_one_is_accepted,
    unknown_attachment_type_is_rejected,
    file_on_the_client_is_requested_from_it,
    refused_client_file_rejects_the_message_with_a_reason,
    simple_attachment_is_plain_text,
    attachment_plan_for_an_unknown_chat_is_rejected,
    attachment_plan_stores_nothing,
    attachment_plan_reports_problems,
    later_dispatches_wait_for_a_message_with_attachments,
    draft_may_have_attachments,
    message_with_only_attachments_is_accepted,
    attachment_meta_is_preserved,
    queued_message_is_sent_with_its_attachments,
}

fn embedded(label: &str, kind: &str, bytes: &[u8]) -> Value {
    json!({"type": "embeddedResource", "label": label, "contentType": kind, "data": STANDARD.encode(bytes)})
}

fn with(text: &str, attachments: Value) -> Value {
    let mut action = turn_started_action(text);
    action["message"]["attachments"] = attachments;
    action
}

/// Sends a message that is accepted; returns the envelope and the turn.
async fn sent(client: &mut RecordingClient, chat: &str, action: Value) -> (Value, Value) {
    let echo = client.dispatch_accepted(chat, action.clone()).await;
    client.wait_for_turn_end(chat, action["turnId"].as_str().unwrap()).await;
    let turn = client.subscribe(chat).await["turns"].as_array().unwrap().last().unwrap().clone();
    (echo, turn)
}

async fn embedded_text_reaches_the_agent(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let action = with("read this", json!([embedded("note.txt", "text/plain", b"the password is horse")]));
    let (_, turn) = sent(&mut client, &uris.chat, action).await;
    assert!(markdown_text(&turn).contains("the password is horse"), "{turn:#}");
}

async fn contents_are_replaced_by_references_before_the_echo(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut other = case.connect_to_session(&uris).await;
    let action = with("read this", json!([embedded("note.txt", "text/plain", b"contents")]));
    let (echo, turn) = sent(&mut client, &uris.chat, action).await;
    let data = STANDARD.encode("contents");
    assert!(!echo.to_string().contains(&data) && !turn.to_string().contains(&data), "{echo:#}");
    let attachment = &echo["action"]["message"]["attachments"][0];
    assert_eq!(attachment["type"], "resource");
    assert!(attachment["uri"].as_str().unwrap().starts_with("ahp-content:/"), "{attachment:#}");
    assert_eq!(other.wait_for_action(&uris.chat, "chat/turnStarted").await["message"], echo["action"]["message"]);
    client.assert_state_matches_host(&uris.chat).await;
}

async fn attached_contents_are_readable_by_reference(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let action = with("read this", json!([embedded("note.txt", "text/plain", b"contents")]));
    let (echo, _) = sent(&mut client, &uris.chat, action).await;
    let uri = &echo["action"]["message"]["attachments"][0]["uri"];
    let read = case.connect_client().await.call_ok("resourceRead", json!({"uri": uri})).await;
    assert_eq!(read["data"], "contents");
    assert_eq!(client.call_error_code("resourceRead", json!({"uri": "ahp-content:/0000"})).await, -32008);
}

fn resource(uri: &str) -> Value {
    json!({"type": "resource", "label": "file", "uri": uri})
}

async fn file_of_the_session_is_passed_to_the_agent_by_path(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let file = case.write_file("main.rs", "fn main() {}");
    let (_, turn) = sent(&mut client, &uris.chat, with("look", json!([resource(&file)]))).await;
    assert!(markdown_text(&turn).contains("main.rs"), "{turn:#}");
}

async fn attached_file_outside_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let reason = client.dispatch_rejected(&uris.chat, with("look", json!([resource("file:///etc/passwd")]))).await;
    assert!(reason.contains("attachment_path_unsafe"), "{reason}");
}

async fn missing_attached_file_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let reason = client.dispatch_rejected(&uris.chat, with("look", json!([resource(&case.uri("missing"))]))).await;
    assert!(reason.contains("attachment_"), "{reason}");
    let reason = client.dispatch_rejected(&uris.chat, with("look", json!([resource("ahp-content:/0000")]))).await;
    assert!(reason.contains("attachment_artifact_missing"), "{reason}");
}

async fn invalid_base64_attachment_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut bad = embedded("x.png", "image/png", b"");
    bad["data"] = json!("%%%");
    let reason = client.dispatch_rejected(&uris.chat, with("look", json!([bad]))).await;
    assert!(reason.contains("attachment_corrupt"), "{reason}");
}

async fn one_invalid_file_rejects_the_message_and_the_corrected_one_is_accepted(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let good = embedded("good.txt", "text/plain", b"good");
    let bad = embedded("bad.bin", "application/octet-stream", &[0, 159, 146, 150]);
    client.dispatch_rejected(&uris.chat, with("look", json!([good, bad]))).await;
    assert_eq!(client.subscribe(&uris.session).await["lifecycle"], "creating", "nothing was begun");
    let (_, turn) = sent(&mut client, &uris.chat, with("look", json!([good]))).await;
    assert_eq!(turn["state"], "complete");
}

async fn unknown_attachment_type_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let strange = json!({"type": "fromTheFuture", "label": "x", "payload": [1]});
    client.dispatch_rejected(&uris.chat, with("look", json!([strange]))).await;
    client.dispatch_rejected(&uris.chat, with("look", json!(7))).await;
    client.dispatch_rejected(&uris.chat, with("look", json!([{"label": "x"}]))).await;
}

/// Returns the request of the host to a client.
async fn asked(client: &mut RecordingClient) -> Value {
    client.wait_for(|message| message["method"] == "resourceRead").await
}

async fn file_on_the_client_is_requested_from_it(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let uri = format!("vscode-agent-client://{}/file/-/notes.txt", client.id);
    let action = with("look", json!([resource(&uri)]));
    client.dispatch(&uris.chat, action.clone()).await;
    let request = asked(&mut client).await;
    assert_eq!((&request["params"]["uri"], &request["params"]["channel"]), (&json!(uri), &json!(ROOT)));
    let result = json!({"data": STANDARD.encode("mine alone"), "encoding": "base64", "contentType": "text/plain"});
    client.send_text(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string()).await;
    client.wait_for_turn_end(&uris.chat, action["turnId"].as_str().unwrap()).await;
    let answer = markdown_text(&client.subscribe(&uris.chat).await["turns"][0]);
    assert!(answer.contains("mine alone"), "{answer}");
}

async fn refused_client_file_rejects_the_message_with_a_reason(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let uri = format!("vscode-agent-client://{}/file/-/notes.txt", client.id);
    let seq = client.dispatch(&uris.chat, with("look", json!([resource(&uri)]))).await;
    let request = asked(&mut client).await;
    let error = json!({"code": -32009, "message": "no"});
    client.send_text(json!({"jsonrpc": "2.0", "id": request["id"], "error": error}).to_string()).await;
    let reason = assert_readable_sentence(&client.wait_for_echo(seq).await["rejectionReason"]);
    assert!(reason.contains("attachment_"), "{reason}");
}

async fn simple_attachment_is_plain_text(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let simple = json!({"type": "simple", "label": "selection", "modelRepresentation": "the chosen lines"});
    let (_, turn) = sent(&mut client, &uris.chat, with("look", json!([simple]))).await;
    assert!(markdown_text(&turn).contains("the chosen lines"), "{turn:#}");
}

async fn attachment_plan_for_an_unknown_chat_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let chat = |uri: &str| json!({"type": "chat", "label": "that chat", "resource": uri});
    client.dispatch_rejected(&uris.chat, with("look", json!([chat(&CaseUris::random().chat)]))).await;
    let mut unknown = chat(&uris.chat);
    unknown["endTurn"] = json!("unknown");
    client.dispatch_rejected(&uris.chat, with("look", json!([unknown]))).await;
}

async fn attachment_plan_stores_nothing(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let attachments = json!([embedded("note.txt", "text/plain", b"contents")]);
    let plan =
        client.call_ok("hostler/planAttachments", json!({"channel": uris.chat, "attachments": attachments})).await;
    assert_eq!((&plan["ok"], &plan["files"][0]["decision"]), (&json!(true), &json!("send")));
    assert_eq!(client.subscribe(&uris.chat).await["turns"], json!([]));
}

async fn attachment_plan_reports_problems(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let good = embedded("note.txt", "text/plain", b"contents");
    let bad = embedded("data.bin", "application/octet-stream", &[0, 159, 146, 150]);
    let params = json!({"channel": uris.chat, "attachments": [good, bad]});
    let plan = client.call_ok("hostler/planAttachments", params).await;
    assert_eq!((&plan["ok"], &plan["files"][0]["decision"]), (&json!(false), &json!("wouldSend")));
    assert_eq!(plan["files"][1]["code"], "attachment_type_unsupported");
    assert_readable_sentence(&plan["files"][1]["message"]);
    let unknown = json!({"channel": CaseUris::random().chat, "attachments": []});
    assert_eq!(client.call_error_code("hostler/planAttachments", unknown).await, -32001);
}

async fn later_dispatches_wait_for_a_message_with_attachments(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let uri = format!("vscode-agent-client://{}/file/-/notes.txt", client.id);
    let first = client.dispatch(&uris.chat, with("look", json!([resource(&uri)]))).await;
    let second = client.dispatch(&uris.session, json!({"type": "session/titleChanged", "title": "Behind"})).await;
    let request = asked(&mut client).await;
    client.call_ok("ping", json!({})).await;
    assert!(!client.received.iter().any(|message| message["params"]["origin"]["clientSeq"] == second), "it waits");
    let result = json!({"data": "contents", "encoding": "utf-8", "contentType": "text/plain"});
    client.send_text(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string()).await;
    let (first, second) = (client.wait_for_echo(first).await, client.wait_for_echo(second).await);
    assert!(first["serverSeq"].as_i64() < second["serverSeq"].as_i64());
}

async fn draft_may_have_attachments(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut draft = json!({"type": "chat/draftChanged", "draft": user_message("soon")});
    draft["draft"]["attachments"] = json!([embedded("note.txt", "text/plain", b"contents")]);
    let echo = client.dispatch_accepted(&uris.chat, draft).await;
    assert!(!echo.to_string().contains(&STANDARD.encode("contents")), "{echo:#}");
    // Attachments of the draft can be sent.
    let attachments = client.subscribe(&uris.chat).await["draft"]["attachments"].take();
    let (_, turn) = sent(&mut client, &uris.chat, with("now", attachments)).await;
    assert!(markdown_text(&turn).contains("contents"), "{turn:#}");
}

async fn message_with_only_attachments_is_accepted(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let action = with("", json!([embedded("note.txt", "text/plain", b"alone")]));
    let (_, turn) = sent(&mut client, &uris.chat, action).await;
    assert_eq!(turn["state"], "complete");
}

async fn attachment_meta_is_preserved(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut note = embedded("note.txt", "text/plain", b"contents");
    note["_meta"] = json!({"colour": "red"});
    note["displayKind"] = json!("file");
    let (echo, _) = sent(&mut client, &uris.chat, with("look", json!([note]))).await;
    let attachment = &echo["action"]["message"]["attachments"][0];
    assert_eq!((&attachment["_meta"]["colour"], &attachment["displayKind"]), (&json!("red"), &json!("file")));
    assert_eq!(attachment["_meta"]["hostler"]["decision"], "send", "{attachment:#}");
}

async fn queued_message_is_sent_with_its_attachments(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let first = client.send_message(&uris.chat, &format!("wait {}", case.dir.join("go").display())).await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    let mut action = pending_message_action("queued", "q", "look");
    action["message"]["attachments"] = json!([embedded("note.txt", "text/plain", b"queued contents")]);
    client.dispatch_accepted(&uris.chat, action).await;
    case.write_file("go", "");
    client.wait_for_turn_end(&uris.chat, &first).await;
    let second = client.wait_for_action(&uris.chat, "chat/turnStarted").await["turnId"].as_str().unwrap().to_owned();
    client.wait_for_turn_end(&uris.chat, &second).await;
    let answer = markdown_text(&client.subscribe(&uris.chat).await["turns"][1]);
    assert!(answer.contains("queued contents"), "{answer}");
}
