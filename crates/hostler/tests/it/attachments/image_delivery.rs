//! Delivery of images to the model.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hostler_attachments::AttachmentBlock;
use serde_json::{Value, json};

use crate::claude_driver::attachment_blocks::png;
use crate::common::BUILDS;
use crate::common::blocking_command::BlockingCommand;
use crate::common::session_fixture::{Rejection, SessionFixture};

/// Returns an image as a client embeds it, and its bytes.
pub(crate) fn embedded(label: &str, width: u32, height: u32) -> (Value, String) {
    let AttachmentBlock::Image { data, .. } = png(width, height) else { unreachable!() };
    let data = STANDARD.encode(data);
    let attachment = json!({ "type": "embeddedResource", "label": label, "data": data, "contentType": "image/png" });
    (attachment, data)
}

pub(crate) fn message(text: &str, attached: &[Value]) -> Value {
    json!({ "text": text, "origin": { "kind": "user" }, "attachments": attached })
}

/// Sends a message with attachments; returns the accepted message, or why it was rejected.
pub(crate) async fn send_message(
    bench: &mut SessionFixture,
    text: &str,
    attached: &[Value],
) -> Result<Value, Rejection> {
    bench
        .dispatch(json!({
            "type": "chat/turnStarted", "turnId": uuid::Uuid::new_v4(), "startedAt": "2026-11-15T08:00:00.000Z",
            "message": message(text, attached),
        }))
        .await;
    bench.wait_for_action("chat/turnStarted").await.map(|action| action["message"].clone())
}

async fn set_pending_message(bench: &mut SessionFixture, kind: &str, id: &str, text: &str, attached: &[Value]) {
    let message = message(text, attached);
    bench.dispatch(json!({ "type": "chat/pendingMessageSet", "kind": kind, "id": id, "message": message })).await;
    bench.wait_for_action("chat/pendingMessageSet").await.unwrap();
}

/// Starts a turn that runs until the command is released.
async fn work(bench: &SessionFixture) -> BlockingCommand {
    let gate = bench.blocking_command("work");
    bench.client.send_message(&bench.uris.chat, &format!("!tool Bash {}\n!say worked", gate.bash_input())).await;
    gate.wait_until_running().await;
    gate
}

/// Returns the images of each request that the model received.
pub(crate) fn images(bench: &SessionFixture) -> Vec<Vec<String>> {
    let images = |body: &Value| {
        let messages = body["messages"].as_array().unwrap();
        let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
        let images = blocks.filter(|block| block["type"] == "image");
        images.map(|block| block["source"]["data"].as_str().unwrap().to_owned()).collect()
    };
    bench.upstream.requests().iter().map(|request| images(&request.body)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_image_reaches_the_model_resized() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let (image, original) = embedded("noise.png", 1700, 900);
        let message = send_message(&mut bench, "!say seen", &[image]).await.unwrap();
        bench.wait_for_turn_end().await;
        let attachment = &message["attachments"][0];
        assert_eq!((&attachment["type"], &attachment["label"]), (&json!("resource"), &json!("noise.png")), "{build}");
        let meta = &attachment["_meta"]["hostler"];
        assert!(meta["width"].as_u64().unwrap() <= 1568, "{build}: {attachment:#}");
        assert!(!meta["warnings"].as_array().unwrap().is_empty(), "{build}: a person could notice it: {attachment:#}");
        let mut stored = Vec::new();
        for uri in [&attachment["uri"], &meta["sent"]["uri"]] {
            let params = json!({ "channel": "ahp-root://", "uri": uri, "encoding": "base64" });
            let read: Value = bench.client.client.request("resourceRead", params).await.unwrap();
            stored.push(read["data"].as_str().unwrap().to_owned());
        }
        assert!(stored[0] == original, "{build}: the original is stored unchanged");
        let sent: Vec<_> = images(&bench).into_iter().flatten().collect();
        assert!(
            !sent.is_empty() && sent.iter().all(|sent| *sent == stored[1]),
            "{build}: the agent does not change the image"
        );
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_message_has_its_image_after_the_host_is_killed() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        work(&bench).await;
        let (image, data) = embedded("small.png", 8, 6);
        set_pending_message(&mut bench, "queued", "q1", "!say seen", &[image]).await;
        let mut bench = bench.kill_host().await;
        let queued = bench.chat_state().await["queuedMessages"].clone();
        assert_eq!(queued[0]["message"]["attachments"][0]["type"], "resource", "{build}: {queued:#}");
        assert!(images(&bench).iter().all(Vec::is_empty), "{build}: no queued message starts automatically");
        bench.client.send_message(&bench.uris.chat, "!say here again").await;
        bench.wait_for_turn_end().await;
        bench.wait_for_turn_end().await;
        assert_eq!(images(&bench).last(), Some(&vec![data]), "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steered_image_reaches_the_running_turn_once() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let gate = work(&bench).await;
        let (image, data) = embedded("small.png", 8, 6);
        set_pending_message(&mut bench, "steering", "s1", "have a look at this", &[image]).await;
        gate.release();
        // The turn is split where the answer to the steer starts.
        bench.wait_for_turn_end().await;
        bench.wait_for_turn_end().await;
        let chat = bench.chat_state().await;
        let turns = chat["turns"].as_array().unwrap();
        assert_eq!(turns.len(), 2, "{build}: {chat:#}");
        assert_eq!(turns[1]["message"]["text"], "have a look at this", "{build}");
        assert_eq!(turns[1]["message"]["attachments"][0]["label"], "small.png", "{build}");
        assert_eq!(chat["steeringMessage"], Value::Null, "{build}");
        assert_eq!(images(&bench).last(), Some(&vec![data]), "{build}");
        assert_eq!(bench.count_in_model_requests("have a look at this").last(), Some(&1), "{build}");
        bench.stop().await;
    }
}
