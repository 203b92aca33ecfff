//! While another process runs a turn, no message is sent from here.

use hostler_driver::{ExternalActivity, TranscriptStoreError, TurnIndexEntry};

use super::helpers::{append_turn, run_own_turn, turn, write_external_turn};
use super::{EXTERNAL_SESSION, expected, id, start_with_external_session, turns};

#[tokio::test]
async fn messages_are_rejected_while_another_process_runs_a_turn() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let now = jiff::Timestamp::now().to_string();
    let mut theirs = turn(4);
    theirs.mark = TurnIndexEntry { is_complete: false, ..theirs.mark };
    (theirs.started_at, theirs.ended_at) = (Some(now.clone()), Some(now));
    append_turn(&transcript_store, theirs);
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    assert_eq!(turns(&listener), expected(1..=3));
    assert_eq!(listener.chat.as_ref().unwrap().activity.as_deref(), Some("Continued elsewhere"));
    rig.send_message(EXTERNAL_SESSION, "t5", "message 5").await;
    listener.until("chat/turnStarted rejected: another process is running a turn").await;
    transcript_store.update_conversation(id(), |conversation| conversation.turns[3].mark.is_complete = true);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(listener.chat.as_ref().unwrap().activity, None);
    run_own_turn(&mut rig, &transcript_store, &mut listener, None, 5).await;
    assert_eq!(turns(&listener), expected(1..=5));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn old_unfinished_external_turn_does_not_block_messages() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    transcript_store.update_conversation(id(), |conversation| conversation.turns[2].mark.is_complete = false);
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    assert_eq!(turns(&listener), expected(1..=3));
    run_own_turn(&mut rig, &transcript_store, &mut listener, None, 4).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn live_process_blocks_messages_during_an_old_unfinished_turn() {
    for (blocking, later) in [(ExternalActivity::Busy, Some(ExternalActivity::Idle)), (ExternalActivity::Unknown, None)]
    {
        let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
        transcript_store.update_conversation(id(), |conversation| {
            conversation.turns[2].mark.is_complete = false;
            conversation.external_activity = Some(blocking);
        });
        let mut listener = rig.listen(EXTERNAL_SESSION).await;
        assert_eq!(turns(&listener), expected(1..=2));
        rig.send_message(EXTERNAL_SESSION, "t4", "message 4").await;
        listener.until("chat/turnStarted rejected").await;
        transcript_store.update_conversation(id(), |conversation| conversation.external_activity = later);
        run_own_turn(&mut rig, &transcript_store, &mut listener, None, 4).await;
        assert_eq!(turns(&listener), expected(1..=4), "the unfinished turn is imported unchanged");
        rig.engine.shutdown().await;
    }
}

#[tokio::test]
async fn busy_process_blocks_messages_although_its_turn_looks_complete() {
    let (mut rig, transcript_store) = start_with_external_session(2, 2).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    transcript_store
        .update_conversation(id(), |conversation| conversation.external_activity = Some(ExternalActivity::Busy));
    write_external_turn(&transcript_store, 3);
    rig.send_message(EXTERNAL_SESSION, "t4", "message 4").await;
    listener.until("chat/turnStarted rejected: another process is running a turn").await;
    assert_eq!(turns(&listener), expected(1..=2));
    // A process with unknown activity does not delay a conversation whose turn is complete.
    transcript_store
        .update_conversation(id(), |conversation| conversation.external_activity = Some(ExternalActivity::Unknown));
    run_own_turn(&mut rig, &transcript_store, &mut listener, None, 4).await;
    assert_eq!(turns(&listener), expected(1..=4));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn missing_transcript_does_not_block_messages() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    transcript_store.update_conversation(id(), |conversation| {
        conversation.turns[2].mark.is_complete = false;
        conversation.external_activity = Some(ExternalActivity::Busy);
    });
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    assert_eq!(listener.chat.as_ref().unwrap().activity.as_deref(), Some("Continued elsewhere"));
    let failed = TranscriptStoreError::Failed("the disk is not mounted".to_owned());
    transcript_store.update_conversation(id(), |conversation| conversation.read_error = Some(failed));
    rig.send_message(EXTERNAL_SESSION, "t4", "message 4").await;
    listener.until("chat/turnStarted rejected").await;
    transcript_store.remove_conversation(id());
    rig.send_message(EXTERNAL_SESSION, "t5", "message 5").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "message 5");
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(listener.chat.as_ref().unwrap().activity, None);
    rig.engine.shutdown().await;
}
