//! Order of a client's dispatches behind messages with attachments.

use serde_json::{Value, json};

use crate::attachments::fixture::{chat, embedded, queued, remote, subscribed_client, turn};

#[tokio::test]
async fn later_dispatches_wait_behind_attachments_and_requests_do_not() {
    let (rig, mut raw) = subscribed_client().await;
    raw.dispatch(&chat(), turn("t1", "look", &[remote("notes.txt")])).await;
    raw.dispatch(&chat(), queued("q1", "first", &[])).await;
    raw.dispatch(&chat(), json!({ "type": "chat/nonsense" })).await;
    raw.dispatch(&chat(), queued("q2", "second", &[embedded("a.txt", b"a")])).await;
    raw.dispatch(&chat(), queued("q3", "third", &[])).await;
    let (id, _) = raw.asked().await;
    // Requests are answered, and none of the dispatches above has taken effect.
    assert_eq!(raw.call("ping", json!({})).await, Ok(Value::Null));
    assert!(!raw.received.iter().any(|message| message["method"] == "action"), "{:?}", raw.received);
    raw.hand_over(&id, b"remember").await;
    let kinds = ["chat/turnStarted", "chat/pendingMessageSet", "chat/nonsense"];
    let received = raw.next_envelopes(5, &kinds).await;
    let (refused, accepted): (Vec<_>, Vec<_>) =
        received.iter().partition(|envelope| envelope.get("rejectionReason").is_some());
    let seqs = |envelopes: Vec<&Value>| -> Vec<_> {
        envelopes.iter().map(|envelope| envelope["origin"]["clientSeq"].as_i64().unwrap()).collect()
    };
    assert_eq!((seqs(accepted), seqs(refused)), (vec![1, 2, 4, 5], vec![3]));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_full_dispatch_queue_rejects_with_a_reason() {
    let (rig, mut raw) = subscribed_client().await;
    raw.dispatch(&chat(), turn("t1", "look", &[remote("notes.txt")])).await;
    let (id, _) = raw.asked().await;
    for number in 0..64 {
        raw.dispatch(&chat(), queued(&format!("q{number}"), "text", &[])).await;
    }
    let refused = raw.envelope("chat/pendingMessageSet").await;
    assert_eq!(refused["action"]["id"], "q63");
    assert!(refused["rejectionReason"].as_str().unwrap().contains("wait for its attachments"), "{refused}");
    raw.hand_over(&id, b"remember").await;
    let received = raw.next_envelopes(64, &["chat/turnStarted", "chat/pendingMessageSet"]).await;
    assert!(received.iter().all(|envelope| envelope.get("rejectionReason").is_none()));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_repeated_dispatch_gets_its_first_envelope_without_reading_files_again() {
    let (rig, mut raw) = subscribed_client().await;
    raw.dispatch(&chat(), turn("t1", "look", &[remote("notes.txt")])).await;
    let (id, _) = raw.asked().await;
    raw.hand_over(&id, b"remember").await;
    let first = raw.envelope("chat/turnStarted").await;
    raw.seq -= 1;
    raw.dispatch(&chat(), turn("t1", "look", &[remote("notes.txt")])).await;
    assert_eq!(raw.envelope("chat/turnStarted").await, first);
    assert_eq!(raw.received.iter().filter(|message| message["method"] == "resourceRead").count(), 1);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn attachment_contents_are_never_echoed_even_when_rejected() {
    let (rig, mut raw) = subscribed_client().await;
    let secret = "S3CRET-CONTENTS-".repeat(8);
    let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &secret);
    let unknown = json!({ "type": "hologram", "label": "h", "data": data });
    raw.dispatch(&chat(), turn("t1", "look", &[embedded("a.txt", secret.as_bytes()), unknown])).await;
    let refused = raw.envelope("chat/turnStarted").await;
    let reason = refused["rejectionReason"].as_str().unwrap();
    assert!(
        reason.contains("does not support this type") && reason.contains("attachment_type_unsupported"),
        "{reason}"
    );
    // One that the surface rejects, and one that is accepted.
    raw.dispatch(crate::attachments::fixture::SESSION, turn("t1", "look", &[embedded("a.txt", secret.as_bytes())]))
        .await;
    assert!(raw.envelope("chat/turnStarted").await.get("rejectionReason").is_some());
    raw.dispatch(&chat(), turn("t1", "look", &[embedded("a.txt", secret.as_bytes())])).await;
    assert!(raw.envelope("chat/turnStarted").await.get("rejectionReason").is_none());
    let received = serde_json::to_string(&raw.received).unwrap();
    assert!(!received.contains(&data) && !received.contains("S3CRET"));
    rig.engine.shutdown().await;
}
