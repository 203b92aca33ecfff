//! Queued messages while another process continues the conversation.

use hostler_driver::ExternalActivity;
use hostler_engine::default_chat_uri;
use hostler_testkit::fake_driver::FakeAgent;
use hostler_testkit::fake_transcript_store::FakeTranscriptStore;
use serde_json::json;

use super::helpers::{start_own_turn, write_external_turn};
use super::{EXTERNAL_SESSION, expected, id, start_with_external_session, turns};
use crate::common::{Listener, Rig, dispatch_json};

/// The fourth turn is running, and the sixth message is queued.
async fn start_with_queued_message(
    rig: &mut Rig,
    transcript_store: &FakeTranscriptStore,
    listener: &mut Listener,
) -> FakeAgent {
    let agent = start_own_turn(rig, transcript_store, None, 4).await;
    let action = json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": "q",
        "message": { "text": "message 6", "origin": { "kind": "user" } } });
    rig.engine.dispatch(dispatch_json(&default_chat_uri(EXTERNAL_SESSION), 1, action, None)).await;
    listener.until("chat/pendingMessageSet").await;
    agent
}

/// The agent does not know the external turns, so another agent gets the message.
async fn assert_next_agent_continues(rig: &mut Rig, listener: &mut Listener, agent: FakeAgent) {
    let (_, next) = tokio::join!(agent.wait_closed(), rig.starts.next_start());
    let mut next = next.succeed();
    assert_eq!(next.next_prompt().await, "message 6");
    next.emit_answer(6, "answer ", "6").await;
    while turns(listener).len() < 6 {
        listener.until("chat/turnComplete").await;
    }
    assert_eq!(turns(listener), expected(1..=6));
}

#[tokio::test]
async fn queued_message_is_sent_after_external_turns() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let agent = start_with_queued_message(&mut rig, &transcript_store, &mut listener).await;
    write_external_turn(&transcript_store, 5);
    agent.emit_answer(4, "answer ", "4").await;
    assert_next_agent_continues(&mut rig, &mut listener, agent).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn queued_message_waits_for_a_running_external_turn() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let agent = start_with_queued_message(&mut rig, &transcript_store, &mut listener).await;
    write_external_turn(&transcript_store, 5);
    transcript_store
        .update_conversation(id(), |conversation| conversation.external_activity = Some(ExternalActivity::Busy));
    agent.emit_answer(4, "answer ", "4").await;
    while listener.chat.as_ref().unwrap().activity.as_deref() != Some("Continued elsewhere") {
        listener.next().await;
    }
    let chat = listener.chat.as_ref().unwrap();
    assert_eq!((chat.active_turn.is_some(), chat.queued_messages.as_ref().unwrap().len()), (false, 1));
    assert_eq!(turns(&listener), expected(1..=4));
    transcript_store
        .update_conversation(id(), |conversation| conversation.external_activity = Some(ExternalActivity::Idle));
    rig.engine.scan_external_sessions().await;
    assert_next_agent_continues(&mut rig, &mut listener, agent).await;
    assert_eq!(listener.chat.as_ref().unwrap().activity, None);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn queue_from_before_a_restart_stays_paused_during_external_turns() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let agent = start_with_queued_message(&mut rig, &transcript_store, &mut listener).await;
    let rig = rig.crash().await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    for n in [7, 8] {
        write_external_turn(&transcript_store, n);
        rig.engine.scan_external_sessions().await;
        listener.until("chat/turnComplete").await;
    }
    let chat = listener.chat.as_ref().unwrap();
    assert_eq!((chat.active_turn.is_some(), chat.queued_messages.as_ref().unwrap().len()), (false, 1));
    assert_eq!(turns(&listener)[4..], expected(7..=8));
    drop(agent);
    rig.engine.shutdown().await;
}
