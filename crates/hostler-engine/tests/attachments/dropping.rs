//! A conversation goes on without its pictures.

use hostler_driver::{DriverEvent, Images, ResumeToken};
use hostler_engine::EngineError;

use crate::bench::{embedded, png, starts, with};
use crate::common::{Options, Rig, SESSION};

#[tokio::test]
async fn pictures_are_dropped_while_nobody_leads_the_conversation_and_no_longer_count() {
    let mut options = Options::default();
    options.attachments.images = 2;
    let mut rig = Rig::start_with(options).await;
    rig.create(SESSION);
    let mut listener = rig.listen(SESSION).await;
    let refused = |outcome: Result<usize, EngineError>| outcome.unwrap_err().to_string();
    assert!(refused(rig.engine.drop_images(SESSION, Images::All).await).contains("has not begun"));
    let pictures = vec![embedded("shot.png", &png()); 2];
    rig.attach(starts("t1", with("look", &pictures))).await;
    let mut agent = rig.starts.next().await.succeed();
    agent.prompt().await;
    assert!(refused(rig.engine.drop_images(SESSION, Images::All).await).contains("a turn is running"));
    agent.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
    agent.answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    rig.attach(starts("t2", with("more", &pictures))).await;
    assert!(listener.refusal().await.contains("attachment_payload_too_large"));

    agent.linger();
    let engine = rig.engine.clone();
    let dropping = tokio::spawn(async move { engine.drop_images(SESSION, Images::Last).await });
    agent.closed().await;
    assert_eq!(rig.starts.dropped(), [], "not before the process is gone");
    // What is said meanwhile waits.
    rig.say(SESSION, "t2", "meanwhile").await;
    listener.until("chat/turnStarted").await;
    agent.let_go();
    assert_eq!(dropping.await.unwrap().unwrap(), 1);
    assert_eq!(rig.starts.dropped(), [(ResumeToken("tok".into()), Images::Last)]);
    let mut agent = rig.starts.next().await.succeed();
    assert_eq!(agent.prompt().await, "meanwhile");
    agent.answer(2, "a", "b").await;
    listener.until("chat/turnComplete").await;
    rig.attach(starts("t3", with("more", &pictures))).await;
    assert_eq!(agent.whole_prompt().await.blocks().len(), 2);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn pictures_of_a_session_without_an_agent_are_dropped_too() {
    let (mut rig, mut listener) = Rig::begun_with(&[embedded("shot.png", &png())]).await;
    let mut agent = rig.starts.next().await.succeed();
    agent.prompt().await;
    agent.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
    agent.answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    let mut rig = rig.restart().await;
    assert_eq!(rig.engine.drop_images(SESSION, Images::All).await.unwrap(), 1);
    assert_eq!(rig.engine.drop_images(SESSION, Images::All).await.unwrap(), 1, "an agent may be opened again");
    rig.say(SESSION, "t2", "go on").await;
    assert_eq!(rig.starts.next().await.succeed().prompt().await, "go on");
    rig.engine.shutdown().await;
}
