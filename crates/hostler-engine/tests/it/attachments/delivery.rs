//! Attachments on their way to the agent: at once, from the queue, as a steer, and after a resume.

use ahp_types::state::PendingMessageKind;
use hostler_attachments::{AttachmentBlock, ImageType};
use hostler_driver::{DriverEvent, TurnOutcome};
use serde_json::json;

use crate::attachments::helpers::{embedded, pending, png, starts, with};
use crate::common::{Rig, SESSION};

fn kinds(prompt: &hostler_driver::Prompt) -> Vec<String> {
    let kind = |block: &AttachmentBlock| match block {
        AttachmentBlock::Image { image_type: media_type, data } => {
            assert_eq!((*media_type, data.as_ref()), (ImageType::Png, png().as_slice()));
            "image".to_owned()
        }
        AttachmentBlock::Text { title, text } => format!("{title}: {text}"),
        AttachmentBlock::References(text) => text.to_string(),
        AttachmentBlock::Pdf { title, .. } => title.to_string(),
    };
    prompt.blocks().iter().map(kind).collect()
}

#[tokio::test]
async fn agent_receives_contents_and_clients_see_names() {
    let attached = [embedded("dir/shot.png", &png()), embedded("notes.txt", b"remember")];
    let (mut rig, mut listener) = Rig::begun_with(&attached).await;
    let mut agent = rig.starts.next_start().await.succeed();
    let prompt = agent.next_full_prompt().await;
    assert_eq!(prompt.expose(), "look");
    assert_eq!(kinds(&prompt), ["image", "notes.txt: remember"]);
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;

    let shown = serde_json::to_value(listener.attached()).unwrap();
    assert_eq!(shown[0]["type"], "resource");
    assert_eq!(shown[0]["label"], "dir/shot.png");
    assert_eq!(shown[0]["contentType"], "image/png", "by its bytes, not by the type that the client sent");
    assert_eq!(shown[0]["sizeHint"], png().len());
    assert_eq!(shown[0]["_meta"]["hostler"]["decision"], "send");
    assert_eq!(shown[0]["_meta"]["hostler"]["label"], "shot.png");
    let contents = rig.engine.content(shown[0]["uri"].as_str().unwrap()).await.unwrap();
    assert_eq!((contents.content_type.as_str(), contents.body), ("image/png", png()));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn session_title_of_a_message_without_text_is_its_first_file() {
    let (mut rig, mut listener) = Rig::with_session().await;
    rig.attach(starts("t1", with("  ", &[embedded("a/shot.png", &png())]))).await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(kinds(&agent.next_full_prompt().await), ["image"]);
    listener.until("session/titleChanged").await;
    assert_eq!(listener.session.as_ref().unwrap().title, "shot.png");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn message_that_a_client_sends_again_has_its_attachments() {
    let (rig, mut listener, _agent) = Rig::with_running_turn().await;
    let queue = |message| pending(PendingMessageKind::Queued, "q", message);
    rig.attach(queue(with("first", &[embedded("shot.png", &png())]))).await;
    listener.until("chat/pendingMessageSet").await;
    let mut shown = listener.chat.as_ref().unwrap().queued_messages.as_ref().unwrap()[0].message.clone();
    let before = shown.clone();
    shown.text = "second".into();
    // The client's value for the host's `blocks` is ignored.
    shown.meta.as_mut().unwrap()["hostler"] = json!({ "blocks": [] });
    rig.attach(queue(shown)).await;
    listener.until("chat/pendingMessageSet").await;
    let after = listener.chat.as_ref().unwrap().queued_messages.as_ref().unwrap()[0].message.clone();
    assert_eq!((after.text.as_str(), &after.attachments, &after.meta), ("second", &before.attachments, &before.meta));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn queued_message_has_its_attachments_after_a_restart() {
    let (rig, mut listener, _agent) = Rig::with_running_turn().await;
    rig.attach(pending(PendingMessageKind::Queued, "q", with("look", &[embedded("shot.png", &png())]))).await;
    listener.until("chat/pendingMessageSet").await;
    let mut rig = rig.restart().await;
    let mut listener = rig.listen(SESSION).await;
    // A person sends a message, and the queue continues after it.
    rig.send_message(SESSION, "t2", "go on").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "go on");
    agent.emit_answer(1, "a", "b").await;
    assert_eq!(kinds(&agent.next_full_prompt().await), ["image"]);
    agent.emit_answer(2, "a", "b").await;
    listener.until("chat/turnComplete").await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn resumed_undelivered_turn_is_sent_with_its_attachments() {
    let (mut rig, mut listener) = Rig::begun_with(&[embedded("shot.png", &png())]).await;
    drop(rig.starts.next_start().await);
    listener.until("chat/error").await;
    let resume = json!({ "type": "chat/turnResume", "turnId": "t1" });
    let chat = hostler_engine::default_chat_uri(SESSION);
    rig.engine.dispatch(crate::common::dispatch_json(&chat, 0, resume, None)).await;
    let mut agent = rig.starts.next_start().await.succeed();
    let prompt = agent.next_full_prompt().await;
    assert_eq!((prompt.expose(), kinds(&prompt)), ("look", vec!["image".to_owned()]));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn steer_carries_its_attachments() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    agent.emit(DriverEvent::TurnStarted(hostler_driver::TurnCause::Prompt)).await;
    rig.attach(pending(PendingMessageKind::Steering, "s", with("see", &[embedded("shot.png", &png())]))).await;
    listener.until("chat/pendingMessageSet").await;
    let steer = agent.wait_steered().await;
    assert_eq!((steer.prompt.expose(), kinds(&steer.prompt)), ("see", vec!["image".to_owned()]));
    // The steer was not injected, so it is the next message.
    agent.end_turn(TurnOutcome::Completed { empty: false }).await;
    listener.until("chat/turnStarted").await;
    let mut agent = agent;
    let prompt = agent.next_full_prompt().await;
    assert_eq!((prompt.expose(), kinds(&prompt)), ("see", vec!["image".to_owned()]));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn cancel_before_files_are_read_leaves_the_agent_idle() {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    rig.attach(starts("t2", with("look", &[embedded("shot.png", &png())]))).await;
    rig.cancel(SESSION, "t2").await;
    rig.send_message(SESSION, "t3", "something else").await;
    // Whether the image is sent is a race; the next message is answered in either case.
    let mut prompt = agent.next_full_prompt().await;
    if prompt.expose() == "look" {
        agent.end_turn(TurnOutcome::Interrupted).await;
        prompt = agent.next_full_prompt().await;
    }
    assert_eq!((prompt.expose(), prompt.blocks().len()), ("something else", 0));
    assert_eq!(rig.starts.open_count(), 1);
    rig.engine.shutdown().await;
}
