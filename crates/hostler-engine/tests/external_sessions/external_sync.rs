//! External sync: one conversation that this host and other processes continue.

use hostler_driver::{DriverEvent, ResumeToken, TranscriptStoreError, TurnIndexEntry};
use hostler_testkit::fake_transcript_store::FakeTurn;
use uuid::Uuid;

use super::helpers::{put, somebody, we_say};
use super::{FOUND, expected, found, id, turns};
use crate::common::{Listener, Rig, SESSION};

#[tokio::test]
async fn external_turns_are_appended_as_they_happen() {
    let (rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    somebody(&archive, 4);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    listener.until("session/isReadChanged").await;
    assert_eq!(turns(&listener), expected(1..=4));
    assert_eq!(listener.chat.as_ref().unwrap().modified_at, "2026-01-01T00:04:02.000Z");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn own_turns_are_not_appended_and_external_turns_are_appended_once() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    let agent = we_say(&mut rig, &archive, &mut listener, None, 4).await;
    // The agent started this turn by itself after a turn of this host: it belongs to this host.
    put(&archive, FakeTurn::new(5, "background", "done").with_message_id(None));
    rig.engine.scan_external_sessions().await;
    somebody(&archive, 6);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    agent.wait_closed().await;
    let said = [expected(1..=4), expected(6..=6)].concat();
    assert_eq!(turns(&listener), said);
    // Also not after a restart or a crash in between.
    rig.engine.scan_external_sessions().await;
    let rig = rig.crash().await;
    assert_eq!(turns(&rig.listen(FOUND).await), said);
    let mut rig = rig.restart().await;
    somebody(&archive, 7);
    let mut listener = rig.listen(FOUND).await;
    let said = [said, expected(7..=7)].concat();
    assert_eq!(turns(&listener), said, "it is there when the session is opened");
    we_say(&mut rig, &archive, &mut listener, None, 8).await;
    assert_eq!(turns(&listener), [said, expected(8..=8)].concat());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn message_is_sent_after_unnotified_external_turns() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    somebody(&archive, 4);
    we_say(&mut rig, &archive, &mut listener, None, 5).await;
    assert_eq!(turns(&listener), expected(1..=5));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn running_turn_gets_a_note_about_external_turns() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    rig.say(FOUND, "t4", "message 4").await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    somebody(&archive, 5);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/responsePart systemNotification").await;
    agent.emit_answer(1, "answer ", "4").await;
    listener.until("chat/turnComplete").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener).last().unwrap(), "message 5: answer 5");
    agent.wait_closed().await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn external_turns_of_an_unloaded_session_are_synced() {
    let (rig, archive) = found(2, 3).await;
    drop(rig.listen(FOUND).await);
    let rig = rig.restart().await;
    rig.engine.scan_external_sessions().await;
    let (root, mut told) = hostler_engine::Subscriber::new(100);
    rig.engine.subscribe(hostler_engine::ROOT_CHANNEL_URI, &root, 1).await.unwrap();
    somebody(&archive, 4);
    rig.engine.scan_external_sessions().await;
    let last = |rig: &Rig| rig.engine.list_sessions(None, None).unwrap().summaries()[0].modified_at.clone();
    while last(&rig) != "2026-01-01T00:04:02.000Z" {
        told.recv().await.unwrap();
    }
    assert_eq!(turns(&rig.listen(FOUND).await), expected(1..=4));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn opening_a_session_does_not_wait_for_the_sync() {
    let (mut rig, archive) = found(2, 3).await;
    drop(rig.listen(FOUND).await);
    rig = rig.restart().await;
    (4..=60).for_each(|n| somebody(&archive, n));
    archive.set_opening_enabled(false);
    let mut listener = rig.listen(FOUND).await;
    assert_eq!(turns(&listener), expected(1..=3));
    archive.set_opening_enabled(true);
    while turns(&listener).len() < 60 {
        listener.until("chat/turnComplete").await;
    }
    assert_eq!(turns(&listener), expected(1..=60));
    // A message is sent after all external turns.
    (61..=100).for_each(|n| somebody(&archive, n));
    we_say(&mut rig, &archive, &mut listener, None, 101).await;
    assert_eq!(turns(&listener), expected(1..=101));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn own_turns_of_an_earlier_version_are_not_appended() {
    let (mut rig, archive) = found(2, 0).await;
    // The session is created here; its transcript is what an earlier version would have left.
    archive.remove_conversation(id());
    let (mut listener, agent) = {
        rig.create(SESSION);
        let listener = rig.listen(SESSION).await;
        rig.say(SESSION, "t1", "message 1").await;
        (listener, rig.starts.next_start().await.succeed())
    };
    let session = Uuid::try_parse(SESSION.strip_prefix("claude:/").unwrap()).unwrap();
    agent.emit(DriverEvent::ResumeToken(ResumeToken(format!("record-{session}")))).await;
    agent.emit_answer(1, "answer ", "1").await;
    listener.until("chat/turnComplete").await;
    rig.engine.shutdown().await;
    let database = rusqlite::Connection::open(rig.state.join("hostler.db")).unwrap();
    database.execute("UPDATE snapshots SET body = json_remove(body, '$.syncedThrough')", []).unwrap();
    drop(database);
    archive.add_conversation(session, &rig.work, 3);
    let rig = rig.restart().await;
    let mut listener = rig.listen(SESSION).await;
    assert_eq!(turns(&listener), ["message 1: answer 1"]);
    let next = FakeTurn::new(4, "message 4", "answer 4");
    archive.update_conversation(session, |conversation| conversation.turns.push(next));
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener), ["message 1: answer 1", "message 4: answer 4"]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn unreadable_transcript_is_retried_when_the_session_is_opened_again() {
    let (rig, archive) = found(2, 3).await;
    let failed = TranscriptStoreError::Failed("the disk is on fire".to_owned());
    archive.update_conversation(id(), |conversation| conversation.read_error = Some(failed));
    let listener = Listener::new(FOUND);
    let refused = rig.engine.subscribe(FOUND, &listener.subscriber, 1).await.unwrap_err();
    assert!(refused.to_string().contains("the disk is on fire"), "{refused}");
    archive.update_conversation(id(), |conversation| conversation.read_error = None);
    assert_eq!(turns(&rig.listen(FOUND).await), expected(1..=3));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn external_turn_that_grows_after_import_is_appended_in_full() {
    let (rig, archive) = found(2, 3).await;
    archive.update_conversation(id(), |conversation| conversation.turns[2].mark.is_complete = false);
    let mut listener = rig.listen(FOUND).await;
    assert_eq!(turns(&listener), expected(1..=3));
    // Replaces the turn by a longer one with the same id.
    let go_on = |record_count, answer: &str| {
        let told = FakeTurn::new(3, "message 3", answer);
        let mark = TurnIndexEntry { record_count, ..told.mark };
        archive.update_conversation(id(), |conversation| conversation.turns[2] = FakeTurn { mark, ..told });
    };
    go_on(4, "answer 3, and more");
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    let all = turns(&listener);
    assert_eq!(all[..3], expected(1..=3));
    assert!(all[3].contains("This turn continued") && all[3].ends_with("answer 3, and more"), "{all:?}");
    // Appended once; also by a host that crashed since.
    let rig = rig.crash().await;
    let mut listener = rig.listen(FOUND).await;
    assert_eq!(turns(&listener), all);
    go_on(5, "answer 3, and still more");
    somebody(&archive, 4);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    listener.until("chat/turnComplete").await;
    assert!(turns(&listener)[4].ends_with("answer 3, and still more"));
    assert_eq!(turns(&listener)[5..], expected(4..=4));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn own_additions_to_an_external_turn_are_not_appended() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    we_say(&mut rig, &archive, &mut listener, None, 4).await;
    archive.update_conversation(id(), |conversation| conversation.turns[2].mark.record_count = 2);
    rig.engine.scan_external_sessions().await;
    somebody(&archive, 5);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener), expected(1..=5));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn idle_agent_is_closed_so_that_a_message_follows_external_turns() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    let agent = we_say(&mut rig, &archive, &mut listener, None, 4).await;
    // No change notification is sent.
    somebody(&archive, 5);
    let (_, agent) = tokio::join!(agent.wait_closed(), we_say(&mut rig, &archive, &mut listener, None, 6));
    assert_eq!(turns(&listener), expected(1..=6));
    drop(agent);
    rig.engine.shutdown().await;
}
