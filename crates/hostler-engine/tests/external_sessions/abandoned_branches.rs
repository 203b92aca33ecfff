//! A record with two branches: what was said on both is shown, and which of them the agent remembers.

use ahp_types::state::ResponsePart;
use hostler_driver::ExternalActivity;
use hostler_testkit::fake_transcript_store::FakeTurn;

use super::helpers::{command, put, somebody, turn, we_begin, we_say};
use super::{FOUND, expected, found, id, turns};
use crate::common::Listener;

/// What a turn says before its answer.
fn note(listener: &Listener, turn: usize) -> String {
    match &listener.chat.as_ref().unwrap().turns[turn].response_parts[0] {
        ResponsePart::SystemNotification(part) => format!("{:?}", part.content),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_somebody_else_said_while_our_turn_ran_is_shown_though_the_conversation_went_on_from_ours() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    let agent = we_begin(&mut rig, &archive, None, 4).await;
    agent.emit_answer(4, "answer ", "4").await;
    listener.until("chat/turnComplete").await;
    let theirs = turn(5);
    let on = FakeTurn::new(6, "background", "done").with_message_id(None);
    // A command is what the agent makes of somebody's wish; and long ago somebody has led their own turns back.
    let command = command(7, "/model another", "set");
    let before = turn(8);
    archive.update_conversation(id(), |conversation| {
        conversation.abandoned_turns = vec![(before, 1), (theirs.clone(), 3), (on, 3), (command, 3)];
    });
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener)[..4], expected(1..=4));
    assert!(note(&listener, 4).contains("remembers only one of the two"));
    assert!(turns(&listener)[5].starts_with("background"));
    // Their agent goes on from there: ours is left.
    archive.update_conversation(id(), |conversation| {
        let ours = conversation.turns.pop().unwrap();
        conversation.turns.push(theirs);
        conversation.turns.push(turn(9));
        conversation.abandoned_turns = vec![(ours, 3)];
    });
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    agent.wait_closed().await;
    assert_eq!(turns(&listener).len(), 7);
    assert!(note(&listener, 6).contains("does not remember what was said between"));
    let said = turns(&listener);
    let rig = rig.crash().await;
    let mut listener = rig.listen(FOUND).await;
    assert_eq!(turns(&listener), said);
    somebody(&archive, 10);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener), [said, expected(10..=10)].concat(), "it is said once");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_turn_that_was_begun_while_ours_ran_says_so() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    let agent = we_begin(&mut rig, &archive, None, 4).await;
    let mut theirs = turn(5);
    theirs.started_at = Some(jiff::Timestamp::now().to_string());
    agent.emit_answer(4, "answer ", "4").await;
    listener.until("chat/turnComplete").await;
    // Our agent has not written all of it down yet.
    put(&archive, theirs);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    assert!(note(&listener, 4).contains("remembers only one of the two"));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_turn_of_ours_that_others_do_not_know_is_said_to_be_forgotten() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    let agent = we_say(&mut rig, &archive, &mut listener, None, 4).await;
    // Somebody whose agent was there all the time goes on from the turn before; nobody has looked since.
    archive.update_conversation(id(), |conversation| {
        let ours = conversation.turns.pop().unwrap();
        conversation.turns.push(turn(5));
        conversation.abandoned_turns = vec![(ours, 3)];
    });
    let (_, next) = tokio::join!(agent.wait_closed(), we_say(&mut rig, &archive, &mut listener, None, 6));
    assert_eq!(turns(&listener).len(), 6);
    assert!(note(&listener, 4).contains("does not remember what was said between"));
    assert_eq!(turns(&listener)[5..], expected(6..=6));
    drop(next);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn somebody_who_is_at_work_beside_ours_is_waited_for() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    let agent = we_say(&mut rig, &archive, &mut listener, None, 4).await;
    let mut theirs = turn(5);
    theirs.mark.is_complete = false;
    archive.update_conversation(id(), |conversation| {
        conversation.abandoned_turns = vec![(theirs, 3)];
        conversation.external_activity = Some(ExternalActivity::Busy);
    });
    rig.say(FOUND, "t6", "message 6").await;
    listener.until("chat/turnStarted rejected: the conversation is being continued elsewhere").await;
    archive.update_conversation(id(), |conversation| {
        conversation.abandoned_turns[0].0.mark.is_complete = true;
        conversation.external_activity = None;
    });
    let agent = we_say(&mut rig, &archive, &mut listener, Some(agent), 6).await;
    assert!(note(&listener, 4).contains("remembers only one of the two"));
    assert_eq!(turns(&listener)[5..], expected(6..=6), "the agent knows the conversation");
    drop(agent);
    rig.engine.shutdown().await;
}
