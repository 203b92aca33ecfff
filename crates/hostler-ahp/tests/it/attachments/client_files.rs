//! Attachments that the host reads from a client's machine.

use std::time::Duration;

use ahp_types::state::MessageAttachment;
use hostler_ahp::{AhpConnectionLimits, MemoryConnection, connect_in_memory};
use hostler_testkit::test_client::{MemoryTransport, TestClient};
use serde_json::{Value, json};

use crate::attachments::fixture::{SESSION, chat, remote, subscribed_client, turn};
use crate::common::Raw;

#[tokio::test]
async fn a_client_file_is_read_and_stored_by_the_host() {
    let (mut rig, mut raw) = subscribed_client().await;
    raw.dispatch(&chat(), turn("t1", "look", &[remote("notes.txt")])).await;
    let (id, params) = raw.asked().await;
    assert_eq!((&params["uri"], &params["encoding"]), (&remote("notes.txt")["uri"], &json!("base64")));
    raw.hand_over(&id, b"remember").await;
    let accepted = raw.envelope("chat/turnStarted").await;
    assert!(accepted.get("rejectionReason").is_none(), "{accepted}");
    let shown: MessageAttachment =
        serde_json::from_value(accepted["action"]["message"]["attachments"][0].clone()).unwrap();
    let MessageAttachment::Resource(shown) = shown else { panic!("{shown:?}") };
    assert!(shown.uri.starts_with("ahp-content:/"), "{}", shown.uri);
    let read = raw.call("resourceRead", json!({ "uri": shown.uri })).await.unwrap();
    assert_eq!(read["data"], "remember");
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_full_prompt().await.blocks().len(), 1);
    rig.engine.shutdown().await;
}

/// Sends a message whose file the client answers with `answer`; returns the rejection.
async fn refused(answer: Value) -> String {
    let (rig, mut raw) = subscribed_client().await;
    raw.dispatch(&chat(), turn("t1", "look", &[remote("notes.txt")])).await;
    let (id, _) = raw.asked().await;
    let mut message = json!({ "jsonrpc": "2.0", "id": id });
    message.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
    raw.send(&message.to_string()).await;
    let envelope = raw.envelope("chat/turnStarted").await;
    // The session still works and accepts the message without the file.
    raw.dispatch(&chat(), turn("t1", "look", &[])).await;
    assert!(raw.envelope("chat/turnStarted").await.get("rejectionReason").is_none());
    rig.engine.shutdown().await;
    envelope["rejectionReason"].as_str().expect("a refusal").to_owned()
}

#[tokio::test]
async fn every_bad_answer_of_a_client_has_its_reason() {
    let error = |code: i64| json!({ "error": { "code": code, "message": "/home/user/secret" } });
    let huge = "A".repeat(15 << 20);
    for (answer, code, text) in [
        (error(-32008), "attachment_artifact_missing", "does not have the file"),
        (error(-32009), "attachment_transport_failed", "does not allow this host to read the file"),
        (error(-32603), "attachment_transport_failed", "failed to read the file"),
        (json!({ "error": "what?" }), "attachment_transport_failed", "failed to read the file"),
        (json!({ "result": null }), "attachment_corrupt", "cannot be read"),
        (json!({ "result": { "data": "%%%", "encoding": "base64" } }), "attachment_corrupt", "cannot be read"),
        (json!({ "result": { "data": 7, "encoding": "base64" } }), "attachment_corrupt", "cannot be read"),
        (json!({ "result": { "data": huge, "encoding": "base64" } }), "attachment_too_large", "larger"),
        (json!({ "result": { "data": huge, "encoding": "utf-8" } }), "attachment_too_large", "larger"),
    ] {
        let reason = refused(answer).await;
        assert!(reason.contains(code) && reason.contains(text) && reason.contains("notes.txt"), "{code}: {reason}");
        assert!(!reason.contains("secret"), "{reason}");
    }
}

#[tokio::test]
async fn a_file_request_to_a_silent_client_times_out() {
    let rig = crate::common::rig().await;
    let limits =
        AhpConnectionLimits { host_request_timeout: Duration::from_millis(50), ..AhpConnectionLimits::default() };
    let mut raw = Raw::connect_with(&rig, limits);
    raw.call("initialize", json!({ "protocolVersions": ["1.0.0"], "clientId": "raw" })).await.unwrap();
    raw.call("createSession", json!({ "channel": SESSION })).await.unwrap();
    raw.call("subscribe", json!({ "channel": chat() })).await.unwrap();
    raw.dispatch(&chat(), turn("t1", "look", &[remote("notes.txt")])).await;
    let (id, _) = raw.asked().await;
    let refused = raw.envelope("chat/turnStarted").await;
    let reason = refused["rejectionReason"].as_str().unwrap();
    assert!(reason.contains("in time") && reason.contains("attachment_transport_failed"), "{reason}");
    // A late answer is ignored.
    raw.hand_over(&id, b"remember").await;
    assert_eq!(raw.call("ping", json!({})).await, Ok(Value::Null));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_client_that_disconnects_during_a_file_request_has_no_partial_effect() {
    let (mut rig, mut raw) = subscribed_client().await;
    let mut other = Raw::connect(&rig);
    other.call("initialize", json!({ "protocolVersions": ["1.0.0"], "clientId": "other" })).await.unwrap();
    other.call("subscribe", json!({ "channel": chat() })).await.unwrap();
    raw.dispatch(&chat(), turn("t1", "look", &[remote("notes.txt")])).await;
    raw.dispatch(&chat(), turn("t2", "plain text", &[])).await;
    raw.asked().await;
    // The dispatch before the ping has been received.
    assert_eq!(raw.call("ping", json!({})).await, Ok(Value::Null));
    drop(raw);
    let refused = other.envelope("chat/turnStarted").await;
    let reason = refused["rejectionReason"].as_str().unwrap();
    assert!(reason.contains("is disconnected") && reason.contains("attachment_transport_failed"), "{reason}");
    let next = other.envelope("chat/turnStarted").await;
    assert_eq!((&next["action"]["turnId"], next.get("rejectionReason")), (&json!("t2"), None));
    assert_eq!(rig.starts.next_start().await.succeed().next_prompt().await, "plain text");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_plan_reads_client_files_and_stores_nothing() {
    let (rig, mut raw) = subscribed_client().await;
    let attached = [remote("a.txt"), crate::attachments::fixture::embedded("b.bin", &[0xff, 0xfe, 0x00, 0x80, 0xc0])];
    let params = json!({ "channel": chat(), "attachments": attached });
    let request = json!({ "jsonrpc": "2.0", "id": "plan", "method": "hostler/planAttachments", "params": params });
    raw.send(&request.to_string()).await;
    let (id, _) = raw.asked().await;
    raw.hand_over(&id, b"remember").await;
    let plan = loop {
        let message = raw.receive().await.unwrap();
        if message["id"] == "plan" {
            break message["result"].clone();
        }
    };
    assert_eq!(plan["ok"], false);
    let files = plan["files"].as_array().unwrap();
    let refused: Vec<_> = files.iter().filter(|file| file["decision"] == "reject").collect();
    assert_eq!(refused.len(), 1, "{plan}");
    assert_eq!((&refused[0]["label"], &refused[0]["code"]), (&json!("b.bin"), &json!("attachment_corrupt")));
    assert!(refused[0]["message"].is_string());
    let wrong = json!({ "channel": "ahp-chat://default/nope", "attachments": [] });
    assert_eq!(raw.code("hostler/planAttachments", wrong).await, -32001);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn the_reference_client_provides_its_files() {
    use ahp_types::commands::{ContentEncoding, ResourceReadResult};
    let (mut rig, mut raw) = subscribed_client().await;
    let MemoryConnection { sender, receiver } = connect_in_memory(&rig.engine, AhpConnectionLimits::default());
    let client = TestClient::connect_over(MemoryTransport { sender, receiver }).await.client;
    client.set_server_request_handler(|method, params| async move {
        assert_eq!(method, "resourceRead");
        assert_eq!(params["uri"], remote("notes.txt")["uri"]);
        let (data, encoding) = ("cmVtZW1iZXI=".to_owned(), ContentEncoding::Base64);
        Ok(serde_json::to_value(ResourceReadResult { data, encoding, content_type: None }).unwrap())
    });
    let action = serde_json::from_value(turn("t1", "look", &[remote("notes.txt")])).unwrap();
    client.dispatch(chat(), action).await.unwrap();
    assert!(raw.envelope("chat/turnStarted").await.get("rejectionReason").is_none());
    assert_eq!(rig.starts.next_start().await.succeed().next_full_prompt().await.blocks().len(), 1);
    rig.engine.shutdown().await;
}

/// A directory on the client's machine.
fn directory() -> Value {
    let mut attachment = remote("project");
    attachment["displayKind"] = json!("directory");
    attachment
}

#[tokio::test]
async fn a_client_directory_is_listed_and_a_file_declared_as_one_is_read() {
    let uri = &directory()["uri"];
    let (mut rig, mut raw) = subscribed_client().await;
    raw.dispatch(&chat(), turn("t1", "look", &[directory()])).await;
    let id = raw.asked_to("resourceResolve", uri).await;
    raw.answer(&id, json!({ "uri": uri, "type": "directory" })).await;
    let id = raw.asked_to("resourceList", uri).await;
    let entries = json!([{ "name": "src", "type": "directory" }, { "name": "Cargo.toml", "type": "file" }]);
    raw.answer(&id, json!({ "entries": entries })).await;
    let accepted = raw.envelope("chat/turnStarted").await;
    assert!(accepted.get("rejectionReason").is_none(), "{accepted}");
    let shown = accepted["action"]["message"]["attachments"][0]["uri"].clone();
    let read = raw.call("resourceRead", json!({ "uri": shown })).await.unwrap();
    assert_eq!(read["data"], "Contents of the directory project on the user's machine:\nCargo.toml\nsrc/\n");
    assert_eq!(rig.starts.next_start().await.succeed().next_full_prompt().await.blocks().len(), 1);
    rig.engine.shutdown().await;

    let (mut rig, mut raw) = subscribed_client().await;
    raw.dispatch(&chat(), turn("t1", "look", &[directory()])).await;
    let id = raw.asked_to("resourceResolve", uri).await;
    raw.answer(&id, json!({ "uri": uri, "type": "file", "size": 8 })).await;
    let (id, _) = raw.asked().await;
    raw.hand_over(&id, b"remember").await;
    assert!(raw.envelope("chat/turnStarted").await.get("rejectionReason").is_none());
    assert_eq!(rig.starts.next_start().await.succeed().next_full_prompt().await.blocks().len(), 1);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_directory_that_cannot_be_listed_is_rejected_with_a_reason() {
    let uri = &directory()["uri"];
    let folder = json!({ "result": { "uri": uri, "type": "directory" } });
    let error = |code: i64| json!({ "error": { "code": code, "message": "/home/user/secret" } });
    for (answers, code, text) in [
        (vec![error(-32008)], "attachment_artifact_missing", "does not have the file"),
        (vec![error(-32601)], "attachment_transport_failed", "failed to read the file"),
        (vec![json!({ "result": {} })], "attachment_corrupt", "cannot be read"),
        (
            vec![folder.clone(), error(-32009)],
            "attachment_transport_failed",
            "does not allow this host to read the file",
        ),
        (vec![folder.clone(), json!({ "result": { "entries": "none" } })], "attachment_corrupt", "cannot be read"),
    ] {
        let (rig, mut raw) = subscribed_client().await;
        raw.dispatch(&chat(), turn("t1", "look", &[directory()])).await;
        for (method, answer) in ["resourceResolve", "resourceList"].iter().zip(answers) {
            let id = raw.asked_to(method, uri).await;
            let mut message = json!({ "jsonrpc": "2.0", "id": id });
            message.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
            raw.send(&message.to_string()).await;
        }
        let refused = raw.envelope("chat/turnStarted").await;
        let reason = refused["rejectionReason"].as_str().unwrap();
        assert!(reason.contains(code) && reason.contains(text) && !reason.contains("secret"), "{code}: {reason}");
        rig.engine.shutdown().await;
    }
}
