//! Transcripts with two branches: the active one is the conversation, and turns of the other one are marked.

use ahp_types::state::ResponsePart;
use hostler_driver::ExternalActivity;
use hostler_testkit::fake_transcript_store::FakeTurn;

use super::helpers::{append_turn, command, run_own_turn, start_own_turn, turn, write_external_turn};
use super::{EXTERNAL_SESSION, expected, id, start_with_external_session, turns};
use crate::common::Listener;

/// The notice of a turn before its answer.
fn note(listener: &Listener, turn: usize) -> String {
    match &listener.chat.as_ref().unwrap().turns[turn].response_parts[0] {
        ResponsePart::SystemNotification(part) => format!("{:?}", part.content),
        other => panic!("{other:?}"),
    }
}

/// Waits until these turns of the chat, by their positions, are on abandoned branches.
async fn wait_for_abandoned(listener: &mut Listener, places: &[usize]) {
    loop {
        let chat = listener.chat.as_ref().unwrap();
        let expected: Vec<_> = places.iter().filter_map(|place| Some(chat.turns.get(*place)?.id.as_str())).collect();
        let meta = listener.session.as_ref().unwrap().meta.as_ref();
        let meta = meta.and_then(|meta| meta.get("hostler")?.get("abandonedTurns")?.as_array());
        let abandoned: Vec<_> = meta.into_iter().flatten().filter_map(|id| id.as_str()).collect();
        if expected.len() == places.len() && abandoned == expected {
            return;
        }
        listener.next().await;
    }
}

#[tokio::test]
async fn branches_that_are_abandoned_and_resumed_are_kept_and_marked() {
    let (mut rig, transcript_store) = start_with_external_session(20, 3).await;
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
        conversation.abandoned_turns = vec![(before, 1), (theirs.clone(), 4), (on.clone(), 4), (command, 4)];
    });
    rig.engine.scan_external_sessions().await;
    wait_for_abandoned(&mut listener, &[4, 5]).await;
    assert_eq!(turns(&listener)[..4], expected(1..=4));
    assert!(note(&listener, 4).contains("abandoned branch"));
    assert!(turns(&listener)[5].starts_with("background"));
    // The other process continues from there: this host's turn is abandoned.
    transcript_store.update_conversation(id(), |conversation| {
        let ours = conversation.turns.pop().unwrap();
        conversation.turns.extend([theirs, on, turn(9)]);
        conversation.abandoned_turns = vec![(ours, 3)];
    });
    rig.engine.scan_external_sessions().await;
    wait_for_abandoned(&mut listener, &[3]).await;
    agent.wait_closed().await;
    assert_eq!(turns(&listener).len(), 7);
    assert!(note(&listener, 6).contains("continues from an earlier turn"));
    let loaded = turns(&listener);
    let rig = rig.crash().await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    wait_for_abandoned(&mut listener, &[3]).await;
    assert_eq!(turns(&listener), loaded);
    write_external_turn(&transcript_store, 10);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener), [loaded.clone(), expected(10..=10)].concat(), "the notice is added once");
    // The conversation returns to this host's turn.
    transcript_store.update_conversation(id(), |conversation| {
        let [(ours, _)] = conversation.abandoned_turns.as_slice() else { panic!() };
        let ours = ours.clone();
        conversation.abandoned_turns = conversation.turns.drain(3..).map(|turn| (turn, 4)).collect();
        conversation.turns.extend([ours, turn(11)]);
    });
    rig.engine.scan_external_sessions().await;
    wait_for_abandoned(&mut listener, &[4, 5, 6, 7]).await;
    assert_eq!(turns(&listener)[..8], [loaded, expected(10..=10)].concat(), "no turn is lost or repeated");
    assert!(turns(&listener)[8].starts_with("message 11"));
    assert!(note(&listener, 8).contains("continues from an earlier turn"));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn external_turn_after_ours_on_the_active_branch_is_an_ordinary_turn() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let agent = start_own_turn(&mut rig, &transcript_store, None, 4).await;
    let mut theirs = turn(5);
    // It was started while the turn of this host was running.
    theirs.started_at = Some(jiff::Timestamp::now().to_string());
    agent.emit_answer(4, "answer ", "4").await;
    listener.until("chat/turnComplete").await;
    append_turn(&transcript_store, theirs);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener), expected(1..=5));
    wait_for_abandoned(&mut listener, &[]).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn abandoned_own_turn_is_marked_and_the_next_turn_has_a_notice() {
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
    wait_for_abandoned(&mut listener, &[3]).await;
    assert!(note(&listener, 4).contains("continues from an earlier turn"));
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
        conversation.abandoned_turns = vec![(theirs, 4)];
        conversation.external_activity = Some(ExternalActivity::Busy);
    });
    rig.send_message(EXTERNAL_SESSION, "t6", "message 6").await;
    listener.until("chat/turnStarted rejected: another process is running a turn").await;
    transcript_store.update_conversation(id(), |conversation| {
        conversation.abandoned_turns[0].0.mark.is_complete = true;
        conversation.external_activity = None;
    });
    let agent = run_own_turn(&mut rig, &transcript_store, &mut listener, Some(agent), 6).await;
    assert!(note(&listener, 4).contains("abandoned branch"));
    wait_for_abandoned(&mut listener, &[4]).await;
    assert_eq!(turns(&listener)[5..], expected(6..=6), "the agent knows the conversation");
    drop(agent);
    rig.engine.shutdown().await;
}
