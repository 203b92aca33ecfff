//! Transcripts with two branches: both are displayed, with a note on which of them the agent remembers.

use ahp_types::state::ResponsePart;
use hostler_driver::ExternalActivity;
use hostler_testkit::fake_transcript_store::FakeTurn;

use super::helpers::{append_turn, command, run_own_turn, start_own_turn, turn, write_external_turn};
use super::{EXTERNAL_SESSION, expected, id, start_with_external_session, turns};
use crate::common::Listener;

/// The notes of a turn before its answer.
fn note(listener: &Listener, turn: usize) -> String {
    match &listener.chat.as_ref().unwrap().turns[turn].response_parts[0] {
        ResponsePart::SystemNotification(part) => format!("{:?}", part.content),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn external_turn_during_our_turn_is_appended_although_abandoned() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let agent = start_own_turn(&mut rig, &transcript_store, None, 4).await;
    agent.emit_answer(4, "answer ", "4").await;
    listener.until("chat/turnComplete").await;
    let theirs = turn(5);
    let on = FakeTurn::new(6, "background", "done").with_message_id(None);
    // A command that the agent writes for a model change; and a turn that another process abandoned for one of its own
    // long ago.
    let command = command(7, "/model another", "set");
    let before = turn(8);
    transcript_store.update_conversation(id(), |conversation| {
        conversation.abandoned_turns = vec![(before, 1), (theirs.clone(), 3), (on, 3), (command, 3)];
    });
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener)[..4], expected(1..=4));
    assert!(note(&listener, 4).contains("remembers only one of the two"));
    assert!(turns(&listener)[5].starts_with("background"));
    // The other process continues from there: this host's turn is abandoned.
    transcript_store.update_conversation(id(), |conversation| {
        let ours = conversation.turns.pop().unwrap();
        conversation.turns.push(theirs);
        conversation.turns.push(turn(9));
        conversation.abandoned_turns = vec![(ours, 3)];
    });
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    agent.wait_closed().await;
    assert_eq!(turns(&listener).len(), 7);
    assert!(note(&listener, 6).contains("does not remember the turns in between"));
    let loaded = turns(&listener);
    let rig = rig.crash().await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    assert_eq!(turns(&listener), loaded);
    write_external_turn(&transcript_store, 10);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener), [loaded, expected(10..=10)].concat(), "the note is added once");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn external_turn_started_during_our_turn_carries_a_note() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let agent = start_own_turn(&mut rig, &transcript_store, None, 4).await;
    let mut theirs = turn(5);
    theirs.started_at = Some(jiff::Timestamp::now().to_string());
    agent.emit_answer(4, "answer ", "4").await;
    listener.until("chat/turnComplete").await;
    // This host's agent has not written all of it yet.
    append_turn(&transcript_store, theirs);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    assert!(note(&listener, 4).contains("remembers only one of the two"));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn abandoned_own_turn_is_reported_as_not_remembered() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let agent = run_own_turn(&mut rig, &transcript_store, &mut listener, None, 4).await;
    // Another process whose agent was running all the time continues from the turn before; no sync has happened since.
    transcript_store.update_conversation(id(), |conversation| {
        let ours = conversation.turns.pop().unwrap();
        conversation.turns.push(turn(5));
        conversation.abandoned_turns = vec![(ours, 3)];
    });
    let (_, next) =
        tokio::join!(agent.wait_closed(), run_own_turn(&mut rig, &transcript_store, &mut listener, None, 6));
    assert_eq!(turns(&listener).len(), 6);
    assert!(note(&listener, 4).contains("does not remember the turns in between"));
    assert_eq!(turns(&listener)[5..], expected(6..=6));
    drop(next);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn running_external_turn_on_another_branch_is_awaited() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let agent = run_own_turn(&mut rig, &transcript_store, &mut listener, None, 4).await;
    let mut theirs = turn(5);
    theirs.mark.is_complete = false;
    transcript_store.update_conversation(id(), |conversation| {
        conversation.abandoned_turns = vec![(theirs, 3)];
        conversation.external_activity = Some(ExternalActivity::Busy);
    });
    rig.send_message(EXTERNAL_SESSION, "t6", "message 6").await;
    listener.until("chat/turnStarted rejected: another process is running a turn").await;
    transcript_store.update_conversation(id(), |conversation| {
        conversation.abandoned_turns[0].0.mark.is_complete = true;
        conversation.external_activity = None;
    });
    let agent = run_own_turn(&mut rig, &transcript_store, &mut listener, Some(agent), 6).await;
    assert!(note(&listener, 4).contains("remembers only one of the two"));
    assert_eq!(turns(&listener)[5..], expected(6..=6), "the agent knows the conversation");
    drop(agent);
    rig.engine.shutdown().await;
}
