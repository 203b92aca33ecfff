//! External sync: one conversation that this host and other processes continue.

use hostler_driver::{DriverEvent, ResumeToken, TranscriptStoreError, TurnIndexEntry};
use hostler_testkit::fake_transcript_store::FakeTurn;
use uuid::Uuid;

use super::helpers::{append_turn, run_own_turn, start_own_turn, write_external_turn};
use super::{EXTERNAL_SESSION, expected, id, start_with_external_session, turns};
use crate::common::{Listener, Rig, SESSION};

#[tokio::test]
async fn external_turns_are_appended_as_they_happen() {
    let (rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    write_external_turn(&transcript_store, 4);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    listener.until("session/isReadChanged").await;
    assert_eq!(turns(&listener), expected(1..=4));
    assert_eq!(listener.chat.as_ref().unwrap().modified_at, "2026-01-01T00:04:02.000Z");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn own_turns_are_not_appended_and_external_turns_are_appended_once() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let agent = run_own_turn(&mut rig, &transcript_store, &mut listener, None, 4).await;
    // The agent started this turn by itself after a turn of this host: it belongs to this host.
    append_turn(&transcript_store, FakeTurn::new(5, "background", "done").with_message_id(None));
    rig.engine.scan_external_sessions().await;
    write_external_turn(&transcript_store, 6);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    agent.wait_closed().await;
    let loaded = [expected(1..=4), expected(6..=6)].concat();
    assert_eq!(turns(&listener), loaded);
    // Also not after a restart or a crash in between.
    rig.engine.scan_external_sessions().await;
    let rig = rig.crash().await;
    assert_eq!(turns(&rig.listen(EXTERNAL_SESSION).await), loaded);
    let mut rig = rig.restart().await;
    write_external_turn(&transcript_store, 7);
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let loaded = [loaded, expected(7..=7)].concat();
    assert_eq!(turns(&listener), loaded, "it is loaded when the session is opened");
    run_own_turn(&mut rig, &transcript_store, &mut listener, None, 8).await;
    assert_eq!(turns(&listener), [loaded, expected(8..=8)].concat());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn message_is_sent_after_unnotified_external_turns() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    write_external_turn(&transcript_store, 4);
    run_own_turn(&mut rig, &transcript_store, &mut listener, None, 5).await;
    assert_eq!(turns(&listener), expected(1..=5));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn external_turns_during_a_turn_are_appended_after_it() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let agent = start_own_turn(&mut rig, &transcript_store, None, 4).await;
    write_external_turn(&transcript_store, 5);
    rig.engine.scan_external_sessions().await;
    agent.emit_answer(1, "answer ", "4").await;
    listener.until("chat/turnComplete").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener), expected(1..=5));
    agent.wait_closed().await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn external_turns_of_an_unloaded_session_are_synced() {
    let (rig, transcript_store) = start_with_external_session(2, 3).await;
    drop(rig.listen(EXTERNAL_SESSION).await);
    let rig = rig.restart().await;
    rig.engine.scan_external_sessions().await;
    let (root, mut deliveries) = hostler_engine::Subscriber::new(100);
    rig.engine.subscribe(hostler_engine::ROOT_CHANNEL_URI, &root, 1).await.unwrap();
    write_external_turn(&transcript_store, 4);
    rig.engine.scan_external_sessions().await;
    let last = |rig: &Rig| rig.engine.list_sessions(None, None).unwrap().summaries()[0].modified_at.clone();
    while last(&rig) != "2026-01-01T00:04:02.000Z" {
        deliveries.recv().await.unwrap();
    }
    assert_eq!(turns(&rig.listen(EXTERNAL_SESSION).await), expected(1..=4));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn opening_a_session_does_not_wait_for_the_sync() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    drop(rig.listen(EXTERNAL_SESSION).await);
    rig = rig.restart().await;
    (4..=60).for_each(|n| write_external_turn(&transcript_store, n));
    transcript_store.set_opening_enabled(false);
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    assert_eq!(turns(&listener), expected(1..=3));
    transcript_store.set_opening_enabled(true);
    while turns(&listener).len() < 60 {
        listener.until("chat/turnComplete").await;
    }
    assert_eq!(turns(&listener), expected(1..=60));
    // A message is sent after all external turns.
    (61..=100).for_each(|n| write_external_turn(&transcript_store, n));
    run_own_turn(&mut rig, &transcript_store, &mut listener, None, 101).await;
    assert_eq!(turns(&listener), expected(1..=101));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn own_turns_of_an_earlier_version_are_not_appended() {
    let (mut rig, transcript_store) = start_with_external_session(2, 0).await;
    // The session is created here; its transcript is what an earlier version would have left.
    transcript_store.remove_conversation(id());
    let (mut listener, agent) = {
        rig.create(SESSION);
        let listener = rig.listen(SESSION).await;
        rig.send_message(SESSION, "t1", "message 1").await;
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
    transcript_store.add_conversation(session, &rig.work, 3);
    let rig = rig.restart().await;
    let mut listener = rig.listen(SESSION).await;
    assert_eq!(turns(&listener), ["message 1: answer 1"]);
    let next = FakeTurn::new(4, "message 4", "answer 4");
    transcript_store.update_conversation(session, |conversation| conversation.turns.push(next));
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener), ["message 1: answer 1", "message 4: answer 4"]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn unreadable_transcript_is_retried_when_the_session_is_opened_again() {
    let (rig, transcript_store) = start_with_external_session(2, 3).await;
    let failed = TranscriptStoreError::Failed("the disk failed".to_owned());
    transcript_store.update_conversation(id(), |conversation| conversation.read_error = Some(failed));
    let listener = Listener::new(EXTERNAL_SESSION);
    let refused = rig.engine.subscribe(EXTERNAL_SESSION, &listener.subscriber, 1).await.unwrap_err();
    assert!(refused.to_string().contains("the disk failed"), "{refused}");
    transcript_store.update_conversation(id(), |conversation| conversation.read_error = None);
    assert_eq!(turns(&rig.listen(EXTERNAL_SESSION).await), expected(1..=3));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn external_turn_that_grows_after_import_is_appended_in_full() {
    let (rig, transcript_store) = start_with_external_session(2, 3).await;
    transcript_store.update_conversation(id(), |conversation| conversation.turns[2].mark.is_complete = false);
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    assert_eq!(turns(&listener), expected(1..=3));
    // Replaces the turn by a longer one with the same id.
    let go_on = |record_count, answer: &str| {
        let written = FakeTurn::new(3, "message 3", answer);
        let mark = TurnIndexEntry { record_count, ..written.mark };
        transcript_store.update_conversation(id(), |conversation| conversation.turns[2] = FakeTurn { mark, ..written });
    };
    go_on(4, "answer 3, and more");
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    let all = turns(&listener);
    assert_eq!(all[..3], expected(1..=3));
    assert!(all[3].contains("This turn continued") && all[3].ends_with("answer 3, and more"), "{all:?}");
    // Appended once; also by a host that crashed since.
    let rig = rig.crash().await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    assert_eq!(turns(&listener), all);
    go_on(5, "answer 3, and still more");
    write_external_turn(&transcript_store, 4);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    listener.until("chat/turnComplete").await;
    assert!(turns(&listener)[4].ends_with("answer 3, and still more"));
    assert_eq!(turns(&listener)[5..], expected(4..=4));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn own_additions_to_an_external_turn_are_not_appended() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    run_own_turn(&mut rig, &transcript_store, &mut listener, None, 4).await;
    transcript_store.update_conversation(id(), |conversation| conversation.turns[2].mark.record_count = 2);
    rig.engine.scan_external_sessions().await;
    write_external_turn(&transcript_store, 5);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener), expected(1..=5));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn idle_agent_is_closed_so_that_a_message_follows_external_turns() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let agent = run_own_turn(&mut rig, &transcript_store, &mut listener, None, 4).await;
    // No change notification is sent.
    write_external_turn(&transcript_store, 5);
    let (_, agent) =
        tokio::join!(agent.wait_closed(), run_own_turn(&mut rig, &transcript_store, &mut listener, None, 6));
    assert_eq!(turns(&listener), expected(1..=6));
    drop(agent);
    rig.engine.shutdown().await;
}
