//! Annotations on places in files.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    annotation_is_created_and_shared,
    annotation_with_the_same_id_is_replaced,
    annotation_entry_is_added_and_changed,
    annotation_is_resolved_and_reopened,
    annotation_entry_is_removed_except_the_last,
    annotation_is_removed,
    changes_of_missing_annotations_are_rejected,
    annotation_without_entries_is_rejected,
    malformed_annotations_are_rejected,
    other_actions_on_the_annotations_channel_are_rejected,
    annotations_of_an_unknown_session_are_not_found,
    annotations_are_removed_with_their_session,
    meta_and_ranges_are_stored,
    annotations_are_separate_per_session,
    annotations_are_attached_to_a_message,
}

fn annotation(uris: &CaseUris, id: &str, text: &str) -> Value {
    json!({"id": id, "origin": {"session": uris.session}, "resource": "file:///x.rs", "resolved": false,
        "entries": [{"id": "1", "text": text}]})
}

fn set(annotation: &Value) -> Value {
    json!({"type": "annotations/set", "annotation": annotation})
}

/// Returns a client that is subscribed to a session's annotations, with one annotation.
async fn annotated(case: &ProtocolCase) -> (RecordingClient, CaseUris, String) {
    let (mut client, uris) = case.connect_with_session().await;
    let channel = uris.annotations();
    client.subscribe(&channel).await;
    client.dispatch_accepted(&channel, set(&annotation(&uris, "a", "why?"))).await;
    (client, uris, channel)
}

async fn annotation_is_created_and_shared(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let channel = uris.annotations();
    let mut other = case.connect_client().await;
    assert_eq!(other.subscribe(&channel).await, json!({"annotations": []}));
    client.subscribe(&channel).await;
    let action = annotation(&uris, "a", "why?");
    client.dispatch_accepted(&channel, set(&action)).await;
    assert_eq!(other.wait_for_action(&channel, "annotations/set").await["annotation"], action);
    other.assert_state_matches_host(&channel).await;
    assert_eq!(other.subscribe(&channel).await["annotations"], json!([action]));
}

async fn annotation_with_the_same_id_is_replaced(case: ProtocolCase) {
    let (mut client, uris, channel) = annotated(&case).await;
    client.dispatch_accepted(&channel, set(&annotation(&uris, "a", "because"))).await;
    let state = client.subscribe(&channel).await;
    assert_eq!(state["annotations"], json!([annotation(&uris, "a", "because")]));
}

async fn annotation_entry_is_added_and_changed(case: ProtocolCase) {
    let (mut client, _, channel) = annotated(&case).await;
    let entry =
        |text: &str| json!({"type": "annotations/entrySet", "annotationId": "a", "entry": {"id": "2", "text": text}});
    client.dispatch_accepted(&channel, entry("so")).await;
    client.dispatch_accepted(&channel, entry("so, really")).await;
    let entries = client.subscribe(&channel).await["annotations"][0]["entries"].clone();
    assert_eq!(entries, json!([{"id": "1", "text": "why?"}, {"id": "2", "text": "so, really"}]));
    client.assert_state_matches_host(&channel).await;
}

async fn annotation_is_resolved_and_reopened(case: ProtocolCase) {
    let (mut client, _, channel) = annotated(&case).await;
    for resolved in [true, false] {
        client
            .dispatch_accepted(
                &channel,
                json!({"type": "annotations/updated", "annotationId": "a", "resolved": resolved}),
            )
            .await;
        assert_eq!(client.subscribe(&channel).await["annotations"][0]["resolved"], resolved);
    }
    client.assert_state_matches_host(&channel).await;
}

async fn annotation_entry_is_removed_except_the_last(case: ProtocolCase) {
    let (mut client, _, channel) = annotated(&case).await;
    let entry = json!({"type": "annotations/entrySet", "annotationId": "a", "entry": {"id": "2", "text": "x"}});
    client.dispatch_accepted(&channel, entry).await;
    let remove = |id: &str| json!({"type": "annotations/entryRemoved", "annotationId": "a", "entryId": id});
    client.dispatch_accepted(&channel, remove("1")).await;
    client.dispatch_rejected(&channel, remove("2")).await;
    assert_eq!(client.subscribe(&channel).await["annotations"][0]["entries"], json!([{"id": "2", "text": "x"}]));
    client.assert_state_matches_host(&channel).await;
}

async fn annotation_is_removed(case: ProtocolCase) {
    let (mut client, _, channel) = annotated(&case).await;
    client.dispatch_accepted(&channel, json!({"type": "annotations/removed", "annotationId": "a"})).await;
    assert_eq!(client.subscribe(&channel).await, json!({"annotations": []}));
}

async fn changes_of_missing_annotations_are_rejected(case: ProtocolCase) {
    let (mut client, _, channel) = annotated(&case).await;
    let before = client.subscribe(&channel).await;
    for action in [
        json!({"type": "annotations/removed", "annotationId": "b"}),
        json!({"type": "annotations/updated", "annotationId": "b", "resolved": true}),
        json!({"type": "annotations/entrySet", "annotationId": "b", "entry": {"id": "1", "text": "x"}}),
        json!({"type": "annotations/entryRemoved", "annotationId": "a", "entryId": "7"}),
        json!({"type": "annotations/entryRemoved", "annotationId": "b", "entryId": "1"}),
    ] {
        client.dispatch_rejected(&channel, action).await;
    }
    assert_eq!(client.subscribe(&channel).await, before);
}

async fn annotation_without_entries_is_rejected(case: ProtocolCase) {
    let (mut client, uris, channel) = annotated(&case).await;
    let mut empty = annotation(&uris, "b", "x");
    empty["entries"] = json!([]);
    client.dispatch_rejected(&channel, set(&empty)).await;
    assert_eq!(client.subscribe(&channel).await["annotations"].as_array().unwrap().len(), 1);
}

async fn malformed_annotations_are_rejected(case: ProtocolCase) {
    let (mut client, uris, channel) = annotated(&case).await;
    for key in ["id", "resource", "entries", "origin", "resolved"] {
        let mut broken = annotation(&uris, "b", "x");
        broken.as_object_mut().unwrap().remove(key);
        client.dispatch_rejected(&channel, set(&broken)).await;
    }
    client.dispatch_rejected(&channel, json!({"type": "annotations/set"})).await;
    client.dispatch_rejected(&channel, json!({"type": "annotations/fromTheFuture"})).await;
}

async fn other_actions_on_the_annotations_channel_are_rejected(case: ProtocolCase) {
    let (mut client, uris, channel) = annotated(&case).await;
    client.dispatch_rejected(&channel, json!({"type": "session/titleChanged", "title": "x"})).await;
    client.dispatch_rejected(&uris.session, set(&annotation(&uris, "b", "x"))).await;
    client.dispatch_rejected(&uris.chat, set(&annotation(&uris, "b", "x"))).await;
}

async fn annotations_of_an_unknown_session_are_not_found(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let uris = CaseUris::random();
    assert_eq!(client.call_error_code("subscribe", json!({"channel": uris.annotations()})).await, -32001);
    client.dispatch(&uris.annotations(), set(&annotation(&uris, "a", "x"))).await;
    client.call_ok("ping", json!({})).await;
}

async fn annotations_are_removed_with_their_session(case: ProtocolCase) {
    let (mut client, uris, channel) = annotated(&case).await;
    client.call_ok("disposeSession", json!({"channel": uris.session})).await;
    assert_eq!(client.call_error_code("subscribe", json!({"channel": channel})).await, -32001);
    client.call_ok("createSession", json!({"channel": uris.session})).await;
    assert_eq!(client.subscribe(&channel).await, json!({"annotations": []}));
}

async fn meta_and_ranges_are_stored(case: ProtocolCase) {
    let (mut client, uris, channel) = annotated(&case).await;
    let mut action = annotation(&uris, "b", "x");
    action["_meta"] = json!({"colour": "red"});
    action["range"] = json!({"start": {"line": 1, "character": 2}, "end": {"line": 3, "character": 4}});
    action["origin"]["chat"] = json!(uris.chat);
    action["origin"]["turnId"] = json!("t");
    action["entries"][0]["text"] = json!({"markdown": "*x*"});
    client.dispatch_accepted(&channel, set(&action)).await;
    assert_eq!(client.subscribe(&channel).await["annotations"][1], action);
}

async fn annotations_are_separate_per_session(case: ProtocolCase) {
    let (mut client, _, _) = annotated(&case).await;
    let other = client.create_session(&case.dir).await;
    assert_eq!(client.subscribe(&other.annotations()).await, json!({"annotations": []}));
}

async fn annotations_are_attached_to_a_message(case: ProtocolCase) {
    let (mut client, uris, channel) = annotated(&case).await;
    let mut action = turn_started_action("look at these");
    action["message"]["attachments"] = json!([{"type": "annotations", "label": "notes", "resource": channel}]);
    client.dispatch_accepted(&uris.chat, action.clone()).await;
    client.wait_for_turn_end(&uris.chat, action["turnId"].as_str().unwrap()).await;
    let answer = markdown_text(&client.subscribe(&uris.chat).await["turns"][0]);
    assert!(answer.contains("why?"), "{answer}");
    let mut action = turn_started_action("and at this");
    action["message"]["attachments"] =
        json!([{"type": "annotations", "label": "notes", "resource": channel, "annotationIds": ["unknown"]}]);
    client.dispatch_rejected(&uris.chat, action).await;
}
