//! Annotations on places in files.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    an_annotation_is_made_and_shared,
    the_same_id_replaces_an_annotation,
    an_entry_is_added_and_changed,
    an_annotation_is_resolved_and_opened_again,
    an_entry_is_removed_but_never_the_last,
    an_annotation_is_removed,
    what_is_not_there_is_refused,
    an_annotation_without_entries_is_refused,
    malformed_annotations_are_refused,
    other_actions_do_not_belong_there,
    annotations_of_an_unknown_session_are_not_there,
    annotations_go_with_their_session,
    meta_and_ranges_are_kept,
    one_session_s_annotations_are_not_another_s,
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

async fn an_annotation_is_made_and_shared(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let channel = uris.annotations();
    let mut other = case.connect_client().await;
    assert_eq!(other.subscribe(&channel).await, json!({"annotations": []}));
    client.subscribe(&channel).await;
    let wish = annotation(&uris, "a", "why?");
    client.dispatch_accepted(&channel, set(&wish)).await;
    assert_eq!(other.wait_for_action(&channel, "annotations/set").await["annotation"], wish);
    other.assert_state_matches_host(&channel).await;
    assert_eq!(other.subscribe(&channel).await["annotations"], json!([wish]));
}

async fn the_same_id_replaces_an_annotation(case: ProtocolCase) {
    let (mut client, uris, channel) = annotated(&case).await;
    client.dispatch_accepted(&channel, set(&annotation(&uris, "a", "because"))).await;
    let state = client.subscribe(&channel).await;
    assert_eq!(state["annotations"], json!([annotation(&uris, "a", "because")]));
}

async fn an_entry_is_added_and_changed(case: ProtocolCase) {
    let (mut client, _, channel) = annotated(&case).await;
    let entry =
        |text: &str| json!({"type": "annotations/entrySet", "annotationId": "a", "entry": {"id": "2", "text": text}});
    client.dispatch_accepted(&channel, entry("so")).await;
    client.dispatch_accepted(&channel, entry("so, really")).await;
    let entries = client.subscribe(&channel).await["annotations"][0]["entries"].clone();
    assert_eq!(entries, json!([{"id": "1", "text": "why?"}, {"id": "2", "text": "so, really"}]));
    client.assert_state_matches_host(&channel).await;
}

async fn an_annotation_is_resolved_and_opened_again(case: ProtocolCase) {
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

async fn an_entry_is_removed_but_never_the_last(case: ProtocolCase) {
    let (mut client, _, channel) = annotated(&case).await;
    let entry = json!({"type": "annotations/entrySet", "annotationId": "a", "entry": {"id": "2", "text": "x"}});
    client.dispatch_accepted(&channel, entry).await;
    let remove = |id: &str| json!({"type": "annotations/entryRemoved", "annotationId": "a", "entryId": id});
    client.dispatch_accepted(&channel, remove("1")).await;
    client.dispatch_rejected(&channel, remove("2")).await;
    assert_eq!(client.subscribe(&channel).await["annotations"][0]["entries"], json!([{"id": "2", "text": "x"}]));
    client.assert_state_matches_host(&channel).await;
}

async fn an_annotation_is_removed(case: ProtocolCase) {
    let (mut client, _, channel) = annotated(&case).await;
    client.dispatch_accepted(&channel, json!({"type": "annotations/removed", "annotationId": "a"})).await;
    assert_eq!(client.subscribe(&channel).await, json!({"annotations": []}));
}

async fn what_is_not_there_is_refused(case: ProtocolCase) {
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

async fn an_annotation_without_entries_is_refused(case: ProtocolCase) {
    let (mut client, uris, channel) = annotated(&case).await;
    let mut empty = annotation(&uris, "b", "x");
    empty["entries"] = json!([]);
    client.dispatch_rejected(&channel, set(&empty)).await;
    assert_eq!(client.subscribe(&channel).await["annotations"].as_array().unwrap().len(), 1);
}

async fn malformed_annotations_are_refused(case: ProtocolCase) {
    let (mut client, uris, channel) = annotated(&case).await;
    for key in ["id", "resource", "entries", "origin", "resolved"] {
        let mut broken = annotation(&uris, "b", "x");
        broken.as_object_mut().unwrap().remove(key);
        client.dispatch_rejected(&channel, set(&broken)).await;
    }
    client.dispatch_rejected(&channel, json!({"type": "annotations/set"})).await;
    client.dispatch_rejected(&channel, json!({"type": "annotations/fromTheFuture"})).await;
}

async fn other_actions_do_not_belong_there(case: ProtocolCase) {
    let (mut client, uris, channel) = annotated(&case).await;
    client.dispatch_rejected(&channel, json!({"type": "session/titleChanged", "title": "x"})).await;
    client.dispatch_rejected(&uris.session, set(&annotation(&uris, "b", "x"))).await;
    client.dispatch_rejected(&uris.chat, set(&annotation(&uris, "b", "x"))).await;
}

async fn annotations_of_an_unknown_session_are_not_there(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let uris = CaseUris::random();
    assert_eq!(client.call_error_code("subscribe", json!({"channel": uris.annotations()})).await, -32001);
    client.dispatch(&uris.annotations(), set(&annotation(&uris, "a", "x"))).await;
    client.call_ok("ping", json!({})).await;
}

async fn annotations_go_with_their_session(case: ProtocolCase) {
    let (mut client, uris, channel) = annotated(&case).await;
    client.call_ok("disposeSession", json!({"channel": uris.session})).await;
    assert_eq!(client.call_error_code("subscribe", json!({"channel": channel})).await, -32001);
    client.call_ok("createSession", json!({"channel": uris.session})).await;
    assert_eq!(client.subscribe(&channel).await, json!({"annotations": []}));
}

async fn meta_and_ranges_are_kept(case: ProtocolCase) {
    let (mut client, uris, channel) = annotated(&case).await;
    let mut wish = annotation(&uris, "b", "x");
    wish["_meta"] = json!({"colour": "red"});
    wish["range"] = json!({"start": {"line": 1, "character": 2}, "end": {"line": 3, "character": 4}});
    wish["origin"]["chat"] = json!(uris.chat);
    wish["origin"]["turnId"] = json!("t");
    wish["entries"][0]["text"] = json!({"markdown": "*x*"});
    client.dispatch_accepted(&channel, set(&wish)).await;
    assert_eq!(client.subscribe(&channel).await["annotations"][1], wish);
}

async fn one_session_s_annotations_are_not_another_s(case: ProtocolCase) {
    let (mut client, _, _) = annotated(&case).await;
    let other = client.create_session(&case.dir).await;
    assert_eq!(client.subscribe(&other.annotations()).await, json!({"annotations": []}));
}

async fn annotations_are_attached_to_a_message(case: ProtocolCase) {
    let (mut client, uris, channel) = annotated(&case).await;
    let mut wish = turn_started_action("look at these");
    wish["message"]["attachments"] = json!([{"type": "annotations", "label": "notes", "resource": channel}]);
    client.dispatch_accepted(&uris.chat, wish.clone()).await;
    client.wait_for_turn_end(&uris.chat, wish["turnId"].as_str().unwrap()).await;
    let answer = markdown_text(&client.subscribe(&uris.chat).await["turns"][0]);
    assert!(answer.contains("why?"), "{answer}");
    let mut wish = turn_started_action("and at this");
    wish["message"]["attachments"] =
        json!([{"type": "annotations", "label": "notes", "resource": channel, "annotationIds": ["nobody"]}]);
    client.dispatch_rejected(&uris.chat, wish).await;
}
