//! Importing external sessions.

use hostler_engine::SnapshotTurns;

use super::{EXTERNAL_SESSION, expected, fetch, id, start_with_external_session, turns, viewer};
use crate::common::Listener;

#[tokio::test]
async fn external_session_is_opened_with_all_its_turns() {
    let (rig, _transcript_store) = start_with_external_session(2, 300).await;
    let listener = rig.listen(EXTERNAL_SESSION).await;
    assert_eq!(turns(&listener), expected(1..=300));
    let session = listener.session.as_ref().unwrap();
    assert_eq!(session.title, "message 1");
    assert_eq!(rig.listed(), [EXTERNAL_SESSION]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn next_message_resumes_the_transcript() {
    let (mut rig, _transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    rig.send_message(EXTERNAL_SESSION, "t4", "go on").await;
    let start = rig.starts.next_start().await;
    let token = hostler_driver::ResumeToken(format!("record-{}", id()));
    let resume = hostler_driver::ConversationStart::Resume { id: id(), token };
    assert_eq!(start.spec.conversation, resume);
    let mut agent = start.succeed();
    assert_eq!(agent.next_prompt().await, "go on");
    agent.emit_answer(1, "yes", "!").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener).last().unwrap(), "go on: yes!");
    assert_eq!(turns(&listener).len(), 4);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn reader_of_an_older_turn_waits_for_its_import() {
    let (rig, transcript_store) = start_with_external_session(2, 300).await;
    // Only the turn window is loaded.
    transcript_store.allow_loads(1);
    let mut viewer = viewer(&rig, SnapshotTurns::Last(2)).await;
    assert_eq!(turns(&viewer), expected(299..=300));
    transcript_store.wait_for_loads().await;
    let mut fetching = Box::pin(fetch(&rig, &mut viewer));
    assert!(futures::poll!(fetching.as_mut()).is_pending());
    transcript_store.allow_loads(1);
    fetching.await;
    assert_eq!(turns(&viewer), expected(235..=300), "the first batch");
    transcript_store.allow_loads(usize::MAX);
    while viewer.chat.as_ref().unwrap().turns_next_cursor.is_some() {
        fetch(&rig, &mut viewer).await;
    }
    assert_eq!(turns(&viewer), expected(1..=300));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn import_continues_after_a_crash() {
    let (rig, transcript_store) = start_with_external_session(2, 300).await;
    transcript_store.allow_loads(2);
    drop(viewer(&rig, SnapshotTurns::Last(2)).await);
    transcript_store.wait_for_loads().await;
    let dead = rig.engine.clone();
    let rig = rig.crash().await;
    let waiting = tokio::spawn({
        let transcript_store = std::sync::Arc::clone(&transcript_store);
        async move { transcript_store.allow_loads(usize::MAX) }
    });
    let listener = rig.listen(EXTERNAL_SESSION).await;
    waiting.await.unwrap();
    assert_eq!(turns(&listener), expected(1..=300));
    rig.engine.shutdown().await;
    dead.shutdown().await;
}

#[tokio::test]
async fn five_thousand_turns_are_paged_during_the_import() {
    let (rig, transcript_store) = start_with_external_session(2, 5_000).await;
    transcript_store.allow_loads(1);
    let mut first = viewer(&rig, SnapshotTurns::Last(2)).await;
    assert_eq!(turns(&first), expected(4_999..=5_000));
    let mut pages = 0;
    // Turns are loaded only when a client waits for them.
    while pages < 20 {
        let mut fetching = Box::pin(fetch(&rig, &mut first));
        assert!(futures::poll!(fetching.as_mut()).is_pending());
        transcript_store.allow_loads(1);
        fetching.await;
        pages += 1;
    }
    let seen = u32::try_from(turns(&first).len()).unwrap();
    assert!(seen < 5_000, "the rest is not there yet");
    assert_eq!(turns(&first), expected(5_001 - seen..=5_000));
    // A second client starts at the end, and both page back during the import.
    let mut second = viewer(&rig, SnapshotTurns::Last(2)).await;
    transcript_store.allow_loads(usize::MAX);
    let is_whole = |viewer: &Listener| viewer.chat.as_ref().unwrap().turns_next_cursor.is_none();
    while !(is_whole(&first) && is_whole(&second)) {
        for viewer in [&mut first, &mut second] {
            if !is_whole(viewer) {
                fetch(&rig, viewer).await;
            }
        }
    }
    assert_eq!(turns(&first), expected(1..=5_000));
    assert_eq!(turns(&second), expected(1..=5_000));
    // The turns are stored: the transcript is not needed any more.
    transcript_store.remove_conversation(id());
    let rig = rig.restart().await;
    assert_eq!(turns(&rig.listen(EXTERNAL_SESSION).await), expected(1..=5_000));
    rig.engine.shutdown().await;
}
