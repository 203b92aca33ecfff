//! What people write about places in files.

use super::kit::*;

area! { Stage::fake();
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

fn annotation(uris: &Uris, id: &str, text: &str) -> Value {
    json!({"id": id, "origin": {"session": uris.session}, "resource": "file:///x.rs", "resolved": false,
        "entries": [{"id": "1", "text": text}]})
}

fn set(annotation: &Value) -> Value {
    json!({"type": "annotations/set", "annotation": annotation})
}

/// A client that hears a session's annotations, of which there is one.
async fn annotated(case: &Case) -> (Client, Uris, String) {
    let (mut client, uris) = case.session().await;
    let channel = uris.annotations();
    client.subscribe(&channel).await;
    client.accepted(&channel, set(&annotation(&uris, "a", "why?"))).await;
    (client, uris, channel)
}

async fn an_annotation_is_made_and_shared(case: Case) {
    let (mut client, uris) = case.session().await;
    let channel = uris.annotations();
    let mut other = case.client().await;
    assert_eq!(other.subscribe(&channel).await, json!({"annotations": []}));
    client.subscribe(&channel).await;
    let wish = annotation(&uris, "a", "why?");
    client.accepted(&channel, set(&wish)).await;
    assert_eq!(other.action(&channel, "annotations/set").await["annotation"], wish);
    other.agrees(&channel).await;
    assert_eq!(other.subscribe(&channel).await["annotations"], json!([wish]));
}

async fn the_same_id_replaces_an_annotation(case: Case) {
    let (mut client, uris, channel) = annotated(&case).await;
    client.accepted(&channel, set(&annotation(&uris, "a", "because"))).await;
    let state = client.subscribe(&channel).await;
    assert_eq!(state["annotations"], json!([annotation(&uris, "a", "because")]));
}

async fn an_entry_is_added_and_changed(case: Case) {
    let (mut client, _, channel) = annotated(&case).await;
    let entry =
        |text: &str| json!({"type": "annotations/entrySet", "annotationId": "a", "entry": {"id": "2", "text": text}});
    client.accepted(&channel, entry("so")).await;
    client.accepted(&channel, entry("so, really")).await;
    let entries = client.subscribe(&channel).await["annotations"][0]["entries"].clone();
    assert_eq!(entries, json!([{"id": "1", "text": "why?"}, {"id": "2", "text": "so, really"}]));
    client.agrees(&channel).await;
}

async fn an_annotation_is_resolved_and_opened_again(case: Case) {
    let (mut client, _, channel) = annotated(&case).await;
    for resolved in [true, false] {
        client
            .accepted(&channel, json!({"type": "annotations/updated", "annotationId": "a", "resolved": resolved}))
            .await;
        assert_eq!(client.subscribe(&channel).await["annotations"][0]["resolved"], resolved);
    }
    client.agrees(&channel).await;
}

async fn an_entry_is_removed_but_never_the_last(case: Case) {
    let (mut client, _, channel) = annotated(&case).await;
    let entry = json!({"type": "annotations/entrySet", "annotationId": "a", "entry": {"id": "2", "text": "x"}});
    client.accepted(&channel, entry).await;
    let remove = |id: &str| json!({"type": "annotations/entryRemoved", "annotationId": "a", "entryId": id});
    client.accepted(&channel, remove("1")).await;
    client.refused(&channel, remove("2")).await;
    assert_eq!(client.subscribe(&channel).await["annotations"][0]["entries"], json!([{"id": "2", "text": "x"}]));
    client.agrees(&channel).await;
}

async fn an_annotation_is_removed(case: Case) {
    let (mut client, _, channel) = annotated(&case).await;
    client.accepted(&channel, json!({"type": "annotations/removed", "annotationId": "a"})).await;
    assert_eq!(client.subscribe(&channel).await, json!({"annotations": []}));
}

async fn what_is_not_there_is_refused(case: Case) {
    let (mut client, _, channel) = annotated(&case).await;
    let before = client.subscribe(&channel).await;
    for action in [
        json!({"type": "annotations/removed", "annotationId": "b"}),
        json!({"type": "annotations/updated", "annotationId": "b", "resolved": true}),
        json!({"type": "annotations/entrySet", "annotationId": "b", "entry": {"id": "1", "text": "x"}}),
        json!({"type": "annotations/entryRemoved", "annotationId": "a", "entryId": "7"}),
        json!({"type": "annotations/entryRemoved", "annotationId": "b", "entryId": "1"}),
    ] {
        client.refused(&channel, action).await;
    }
    assert_eq!(client.subscribe(&channel).await, before);
}

async fn an_annotation_without_entries_is_refused(case: Case) {
    let (mut client, uris, channel) = annotated(&case).await;
    let mut empty = annotation(&uris, "b", "x");
    empty["entries"] = json!([]);
    client.refused(&channel, set(&empty)).await;
    assert_eq!(client.subscribe(&channel).await["annotations"].as_array().unwrap().len(), 1);
}

async fn malformed_annotations_are_refused(case: Case) {
    let (mut client, uris, channel) = annotated(&case).await;
    for key in ["id", "resource", "entries", "origin", "resolved"] {
        let mut broken = annotation(&uris, "b", "x");
        broken.as_object_mut().unwrap().remove(key);
        client.refused(&channel, set(&broken)).await;
    }
    client.refused(&channel, json!({"type": "annotations/set"})).await;
    client.refused(&channel, json!({"type": "annotations/fromTheFuture"})).await;
}

async fn other_actions_do_not_belong_there(case: Case) {
    let (mut client, uris, channel) = annotated(&case).await;
    client.refused(&channel, json!({"type": "session/titleChanged", "title": "x"})).await;
    client.refused(&uris.session, set(&annotation(&uris, "b", "x"))).await;
    client.refused(&uris.chat, set(&annotation(&uris, "b", "x"))).await;
}

async fn annotations_of_an_unknown_session_are_not_there(case: Case) {
    let mut client = case.client().await;
    let uris = Uris::fresh();
    assert_eq!(client.code("subscribe", json!({"channel": uris.annotations()})).await, -32001);
    client.dispatch(&uris.annotations(), set(&annotation(&uris, "a", "x"))).await;
    client.ok("ping", json!({})).await;
}

async fn annotations_go_with_their_session(case: Case) {
    let (mut client, uris, channel) = annotated(&case).await;
    client.ok("disposeSession", json!({"channel": uris.session})).await;
    assert_eq!(client.code("subscribe", json!({"channel": channel})).await, -32001);
    client.ok("createSession", json!({"channel": uris.session})).await;
    assert_eq!(client.subscribe(&channel).await, json!({"annotations": []}));
}

async fn meta_and_ranges_are_kept(case: Case) {
    let (mut client, uris, channel) = annotated(&case).await;
    let mut wish = annotation(&uris, "b", "x");
    wish["_meta"] = json!({"colour": "red"});
    wish["range"] = json!({"start": {"line": 1, "character": 2}, "end": {"line": 3, "character": 4}});
    wish["origin"]["chat"] = json!(uris.chat);
    wish["origin"]["turnId"] = json!("t");
    wish["entries"][0]["text"] = json!({"markdown": "*x*"});
    client.accepted(&channel, set(&wish)).await;
    assert_eq!(client.subscribe(&channel).await["annotations"][1], wish);
}

async fn one_session_s_annotations_are_not_another_s(case: Case) {
    let (mut client, _, _) = annotated(&case).await;
    let other = client.create(&case.dir).await;
    assert_eq!(client.subscribe(&other.annotations()).await, json!({"annotations": []}));
}

async fn annotations_are_attached_to_a_message(case: Case) {
    let (mut client, uris, channel) = annotated(&case).await;
    let mut wish = turn("look at these");
    wish["message"]["attachments"] = json!([{"type": "annotations", "label": "notes", "resource": channel}]);
    client.accepted(&uris.chat, wish.clone()).await;
    client.end(&uris.chat, wish["turnId"].as_str().unwrap()).await;
    let answer = words(&client.subscribe(&uris.chat).await["turns"][0]);
    assert!(answer.contains("why?"), "{answer}");
    let mut wish = turn("and at this");
    wish["message"]["attachments"] =
        json!([{"type": "annotations", "label": "notes", "resource": channel, "annotationIds": ["nobody"]}]);
    client.refused(&uris.chat, wish).await;
}
