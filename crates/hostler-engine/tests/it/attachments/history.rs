//! Limits include what the conversation already carries.

use ahp_types::state::PendingMessageKind;
use hostler_driver::DriverEvent;

use crate::attachments::helpers::{embedded, pending, png, starts, with};
use crate::common::{Options, Rig, SESSION};

async fn at_most(images: usize) -> Rig {
    let mut options = Options::default();
    options.attachments.images_per_request = images;
    let rig = Rig::start_with(options).await;
    rig.create(SESSION);
    rig
}

fn images(count: usize) -> Vec<serde_json::Value> {
    vec![embedded("shot.png", &png()); count]
}

#[tokio::test]
async fn earlier_images_count_until_compaction() {
    let mut rig = at_most(3).await;
    let mut listener = rig.listen(SESSION).await;
    rig.attach(starts("t1", with("look", &images(2)))).await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    rig.attach(starts("t2", with("more", &images(2)))).await;
    let reason = listener.refusal().await;
    assert!(reason.contains("attachment_payload_too_large") && reason.to_lowercase().contains("compact"), "{reason}");
    rig.attach(starts("t2", with("more", &images(1)))).await;
    agent.next_prompt().await;
    agent.emit(DriverEvent::CompactionFinished { tokens_before: None, tokens_after: None }).await;
    agent.emit_answer(2, "a", "b").await;
    listener.until("chat/turnComplete").await;
    rig.attach(starts("t3", with("again", &images(3)))).await;
    assert_eq!(agent.next_full_prompt().await.blocks().len(), 3);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn queued_message_over_the_limit_fails_and_does_not_count_itself() {
    let mut rig = at_most(3).await;
    let mut listener = rig.listen(SESSION).await;
    rig.attach(starts("t1", with("look", &images(1)))).await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    // The running message counts; queued ones may still be removed.
    let queue = |id: &str, text: &str, count| pending(PendingMessageKind::Queued, id, with(text, &images(count)));
    rig.attach(queue("q0", "never", 3)).await;
    assert!(listener.refusal().await.contains("attachment_payload_too_large"));
    for (id, text, count) in [("q1", "first", 1), ("q2", "too many", 2), ("q3", "fine", 1)] {
        rig.attach(queue(id, text, count)).await;
        listener.until("chat/pendingMessageSet").await;
    }
    agent.emit_answer(1, "a", "b").await;
    assert_eq!(agent.next_full_prompt().await.expose(), "first");
    agent.emit_answer(2, "a", "b").await;
    listener.until("chat/error attachment_payload_too_large").await;
    assert_eq!(listener.attached().len(), 2, "the message stays");
    assert!(!agent.is_closed(), "the agent is as free as it was");
    // As after any failure, the queue waits for a person.
    rig.send_message(SESSION, "t2", "go on").await;
    assert_eq!(agent.next_prompt().await, "go on");
    agent.emit_answer(3, "a", "b").await;
    assert_eq!(agent.next_full_prompt().await.expose(), "fine");
    assert_eq!(rig.starts.open_count(), 1);
    rig.engine.shutdown().await;
}
