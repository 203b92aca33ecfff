//! A session, a subscribed client, and messages with attachments.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hostler_engine::default_chat_uri;
use serde_json::{Value, json};

use crate::common::{Raw, Rig, rig};

pub(crate) const SESSION: &str = "claude:/0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a369f";

pub(crate) fn chat() -> String {
    default_chat_uri(SESSION)
}

pub(crate) fn embedded(label: &str, contents: &[u8]) -> Value {
    json!({ "type": "embeddedResource", "label": label, "data": STANDARD.encode(contents), "contentType": "text/plain" })
}

/// A file on the client's machine.
pub(crate) fn remote(label: &str) -> Value {
    json!({ "type": "resource", "label": label, "uri": format!("vscode-agent-client://raw/file/-/{label}") })
}

pub(crate) fn turn(id: &str, text: &str, attachments: &[Value]) -> Value {
    let message = json!({ "text": text, "origin": { "kind": "user" }, "attachments": attachments });
    json!({ "type": "chat/turnStarted", "turnId": id, "startedAt": "2026-11-15T08:00:00.000Z", "message": message })
}

pub(crate) fn queued(id: &str, text: &str, attachments: &[Value]) -> Value {
    let message = json!({ "text": text, "origin": { "kind": "user" }, "attachments": attachments });
    json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": id, "message": message })
}

/// A host with a session, and a client that subscribes to its chat.
pub(crate) async fn subscribed_client() -> (Rig, Raw) {
    let rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    raw.call("createSession", json!({ "channel": SESSION })).await.unwrap();
    raw.call("subscribe", json!({ "channel": chat() })).await.unwrap();
    (rig, raw)
}

impl Raw {
    /// The host's next request to this client: its id and parameters.
    pub(crate) async fn asked(&mut self) -> (Value, Value) {
        loop {
            let message = self.receive().await.expect("a request");
            if message["method"] == "resourceRead" {
                assert_eq!(message["params"]["channel"], "ahp-root://");
                return (message["id"].clone(), message["params"].clone());
            }
        }
    }

    /// Expects this request from the host next; returns its id.
    pub(crate) async fn asked_to(&mut self, method: &str, uri: &Value) -> Value {
        loop {
            let message = self.receive().await.expect("a request");
            if message["method"].is_string() && message["id"].is_number() {
                assert_eq!((&message["method"], &message["params"]["uri"]), (&json!(method), uri), "{message}");
                assert_eq!(message["params"]["channel"], "ahp-root://");
                return message["id"].clone();
            }
        }
    }

    pub(crate) async fn answer(&mut self, id: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()).await;
    }

    pub(crate) async fn hand_over(&mut self, id: &Value, contents: &[u8]) {
        self.answer(id, json!({ "data": STANDARD.encode(contents), "encoding": "base64" })).await;
    }

    /// The next envelopes of these types, in the order of arrival: type and, if rejected, the reason.
    pub(crate) async fn next_envelopes(&mut self, count: usize, kinds: &[&str]) -> Vec<Value> {
        let mut received = Vec::new();
        while received.len() < count {
            let mut message = self.receive().await.expect("an envelope");
            let kind = message["params"]["action"]["type"].as_str().unwrap_or_default().to_owned();
            if message["method"] == "action" && kinds.contains(&kind.as_str()) {
                received.push(message["params"].take());
            }
        }
        received
    }
}
