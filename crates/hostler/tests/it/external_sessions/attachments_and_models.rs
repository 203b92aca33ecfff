//! Imported sessions equal the live ones: MCP tools, images and documents, other models and modes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::import_fidelity::{AllowedDifference, assert_import_matches};
use crate::claude_driver::attachment_blocks::{base64_contents, one_page_pdf, png};
use crate::common::BUILDS;
use crate::common::session_fixture::SessionFixture;

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/elicitation_server.py");

/// Sends a message, and waits for the turn's end.
async fn send_and_wait(bench: &mut SessionFixture, message: Value) {
    let turn = json!({ "type": "chat/turnStarted", "turnId": uuid::Uuid::new_v4(),
        "startedAt": "2026-11-15T08:00:00.000Z", "message": message });
    bench.dispatch(turn).await;
    bench.wait_for_turn_end().await;
}

/// A person allows the call, and does not answer the server's question.
#[tokio::test(flavor = "multi_thread")]
async fn mcp_tool_call_is_imported_as_it_was_allowed() {
    for build in BUILDS {
        let servers = json!({ "mcpServers": { "stable": { "command": "python3", "args": [SERVER] } } });
        let mut bench = SessionFixture::with_mcp_servers(build, &servers).await;
        bench.prompt_tool_call("mcp__stable__book", &json!({})).await;
        let waiting = bench.wait_for_approval_request().await;
        bench.answer_approval(&waiting, json!({ "approved": true })).await;
        let asked = bench.wait_for_questions().await;
        bench.dispatch(json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": "decline" })).await;
        bench.wait_for_turn_end().await;
        assert_import_matches(
            bench,
            &[(".toolCall.confirmed:", "a transcript does not contain whether a person was asked")],
        )
        .await;
    }
}

const ATTACHMENT_DIFFERENCES: [AllowedDifference; 3] = [
    (".message.attachments:", "only the agent has them; their number is noted beside the answer"),
    (".message._meta:", "the same"),
    (".responseParts[0].id:", "the note comes first"),
];

#[tokio::test(flavor = "multi_thread")]
async fn message_with_image_and_document_is_imported_with_its_text() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let embedded = |label: &str, kind: &str, data: String| json!({ "type": "embeddedResource", "label": label, "data": data, "contentType": kind });
        let image = embedded("small.png", "image/png", base64_contents(&png(8, 6)));
        let paper = embedded("small.pdf", "application/pdf", STANDARD.encode(one_page_pdf()));
        let message = |text: &str, attached: &[&Value]| json!({ "text": text, "origin": { "kind": "user" }, "attachments": attached });
        send_and_wait(&mut bench, message("!say an image", &[&image])).await;
        send_and_wait(&mut bench, message("!say both", &[&image, &paper])).await;
        bench.client.send_and_wait(&bench.uris.chat, "!say The end.").await;
        assert_import_matches(bench, &ATTACHMENT_DIFFERENCES).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_with_other_models_and_modes_are_imported_unchanged() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let message =
            |text: &str, model: &str| json!({ "text": text, "origin": { "kind": "user" }, "model": { "id": model } });
        send_and_wait(&mut bench, message("!say one", "claude-opus-4-6")).await;
        send_and_wait(&mut bench, message("!say two", "claude-sonnet-4-5")).await;
        bench.set_permission_mode("acceptEdits").await;
        let write = json!({ "file_path": bench.home.work().join("notes.txt"), "content": "oats\n" });
        bench.prompt_tool_call("Write", &write).await;
        assert!(!bench.wait_for_turn_end().await, "{build}: no request is pending in this mode");
        bench.set_permission_mode("default").await;
        bench.client.send_and_wait(&bench.uris.chat, "!say The end.").await;
        assert_import_matches(
            bench,
            &[(".message.model:", "a transcript contains which model answered, but not that a client selected it")],
        )
        .await;
    }
}
