//! Removing the images of a conversation.

use hostler_driver::{DriverEvent, ImageSelection, ResumeToken};
use hostler_engine::EngineError;

use crate::attachments::helpers::{embedded, png, starts, with};
use crate::common::{Options, Rig, SESSION};

#[tokio::test]
async fn images_are_removed_while_the_agent_is_closed_and_no_longer_count() {
    let mut options = Options::default();
    options.attachments.images_per_request = 2;
    let mut rig = Rig::start_with(options).await;
    rig.create(SESSION);
    let mut listener = rig.listen(SESSION).await;
    let refused = |outcome: Result<usize, EngineError>| outcome.unwrap_err().to_string();
    assert!(refused(rig.engine.remove_images(SESSION, ImageSelection::All).await).contains("has no messages"));
    let images = vec![embedded("shot.png", &png()); 2];
    rig.attach(starts("t1", with("look", &images))).await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    assert!(refused(rig.engine.remove_images(SESSION, ImageSelection::All).await).contains("a turn is running"));
    agent.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    rig.attach(starts("t2", with("more", &images))).await;
    assert!(listener.refusal().await.contains("attachment_payload_too_large"));

    agent.block_close();
    let engine = rig.engine.clone();
    let removal = tokio::spawn(async move { engine.remove_images(SESSION, ImageSelection::Last).await });
    agent.wait_closed().await;
    assert_eq!(rig.starts.removed_images(), [], "not before the process is gone");
    // A message that arrives meanwhile waits.
    rig.send_message(SESSION, "t2", "meanwhile").await;
    listener.until("chat/turnStarted").await;
    agent.unblock_close();
    assert_eq!(removal.await.unwrap().unwrap(), 1);
    assert_eq!(rig.starts.removed_images(), [(ResumeToken("tok".into()), ImageSelection::Last)]);
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "meanwhile");
    agent.emit_answer(2, "a", "b").await;
    listener.until("chat/turnComplete").await;
    rig.attach(starts("t3", with("more", &images))).await;
    assert_eq!(agent.next_full_prompt().await.blocks().len(), 2);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn images_of_a_session_without_an_agent_are_removed() {
    let (mut rig, mut listener) = Rig::begun_with(&[embedded("shot.png", &png())]).await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    agent.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    let mut rig = rig.restart().await;
    assert_eq!(rig.engine.remove_images(SESSION, ImageSelection::All).await.unwrap(), 1);
    assert_eq!(
        rig.engine.remove_images(SESSION, ImageSelection::All).await.unwrap(),
        1,
        "an agent may be opened again"
    );
    rig.send_message(SESSION, "t2", "go on").await;
    assert_eq!(rig.starts.next_start().await.succeed().next_prompt().await, "go on");
    rig.engine.shutdown().await;
}
