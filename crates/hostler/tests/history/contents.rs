//! What is restored is what was seen, of what comes from outside the agent: a server's tool, pictures and papers, other models
//! and modes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::golden::{Named, compare};
use crate::common::BUILDS;
use crate::common::bench::Bench;
use crate::pictures::{encoded, paper, png};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/eliciting_server.py");

/// Says something, and waits for the answer.
async fn say(bench: &mut Bench, message: Value) {
    let turn = json!({ "type": "chat/turnStarted", "turnId": uuid::Uuid::new_v4(),
        "startedAt": "2026-11-15T08:00:00.000Z", "message": message });
    bench.dispatch(turn).await;
    bench.end().await;
}

/// A person allows the call, and does not answer what the server asks.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_servers_tool_is_taken_in_as_it_was_allowed() {
    for build in BUILDS {
        let servers = json!({ "mcpServers": { "stable": { "command": "python3", "args": [SERVER] } } });
        let mut bench = Bench::with_servers(build, &servers).await;
        bench.use_tool("mcp__stable__book", &json!({})).await;
        let waiting = bench.waiting().await;
        bench.answer(&waiting, json!({ "approved": true })).await;
        let asked = bench.asked().await;
        bench.dispatch(json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": "decline" })).await;
        bench.end().await;
        compare(bench, &[(".toolCall.confirmed:", "a record does not say that somebody was asked")]).await;
    }
}

const ATTACHED: [Named; 3] = [
    (".message.attachments:", "only the agent has them; how many there were is told beside the answer"),
    (".message._meta:", "the same"),
    (".responseParts[0].id:", "what is told beside it comes first"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_message_with_a_picture_and_a_paper_is_taken_in_with_its_words() {
    for build in BUILDS {
        let mut bench = Bench::start(build).await;
        let embedded = |label: &str, kind: &str, data: String| json!({ "type": "embeddedResource", "label": label, "data": data, "contentType": kind });
        let picture = embedded("small.png", "image/png", encoded(&png(8, 6)));
        let paper = embedded("small.pdf", "application/pdf", STANDARD.encode(paper()));
        let message = |text: &str, attached: &[&Value]| json!({ "text": text, "origin": { "kind": "user" }, "attachments": attached });
        say(&mut bench, message("!say a picture", &[&picture])).await;
        say(&mut bench, message("!say both", &[&picture, &paper])).await;
        bench.peer.ask(&bench.uris.chat, "!say The end.").await;
        compare(bench, &ATTACHED).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_with_other_models_and_modes_are_taken_in_as_they_were() {
    for build in BUILDS {
        let mut bench = Bench::start(build).await;
        let message =
            |text: &str, model: &str| json!({ "text": text, "origin": { "kind": "user" }, "model": { "id": model } });
        say(&mut bench, message("!say one", "claude-opus-4-6")).await;
        say(&mut bench, message("!say two", "claude-sonnet-4-5")).await;
        bench.change_mode("acceptEdits").await;
        let write = json!({ "file_path": bench.home.work().join("notes.txt"), "content": "oats\n" });
        bench.use_tool("Write", &write).await;
        assert!(!bench.end().await, "{build}: nobody is asked in this mode");
        bench.change_mode("default").await;
        bench.peer.ask(&bench.uris.chat, "!say The end.").await;
        compare(bench, &[(".message.model:", "a record says who answered, but not that somebody asked for it")]).await;
    }
}
