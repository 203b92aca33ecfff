//! Resuming failed and interrupted turns.

use ahp_types::state::{ResponsePart, TurnState};
use hostler_driver::{
    ApiErrorCategory, CloseMode, ConversationStart, DriverEvent, ResumeToken, TurnFailure, TurnOutcome,
};
use serde_json::json;

use crate::common::{Rig, SESSION};
use crate::turn_runtime::helpers::emit_partial_answer;

async fn resume(rig: &Rig, turn: &str) {
    rig.chat(json!({"type": "chat/turnResume", "turnId": turn})).await;
}

#[tokio::test]
async fn turn_continues_after_an_agent_crash() {
    let (mut rig, mut listener, agent) = Rig::with_running_turn().await;
    agent.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
    emit_partial_answer(&agent, 1, "half an ans").await;
    listener.until("chat/delta").await;
    agent.exit("signal 9", "").await;
    listener.until("chat/error agentExited").await;
    resume(&rig, "t1").await;
    let start = rig.starts.next_start().await;
    assert!(matches!(start.spec.conversation, ConversationStart::Resume { .. }));
    let mut agent = start.succeed();
    assert_eq!(agent.next_prompt().await, "Continue where you left off.");
    emit_partial_answer(&agent, 1, "wer").await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })).await;
    listener.until("chat/turnResume").await;
    listener.until("chat/turnComplete").await;
    let chat = listener.chat.as_ref().unwrap();
    assert_eq!(chat.turns.len(), 1);
    let parts = &chat.turns[0].response_parts;
    let kinds: Vec<_> = parts.iter().map(|part| serde_json::to_value(part).unwrap()["kind"].clone()).collect();
    assert_eq!(kinds, ["markdown", "error", "markdown"]);
    assert_eq!(chat.turns[0].state, TurnState::Complete);
    // The store contains the turn as it ended, once.
    let rig = rig.restart().await;
    let listener = rig.listen(SESSION).await;
    let again = &listener.chat.as_ref().unwrap().turns;
    assert_eq!((again.len(), &again[0].response_parts), (1, parts));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn undelivered_message_is_sent_again_unchanged() {
    let (mut rig, mut listener, agent) = Rig::with_running_turn().await;
    agent.exit("signal 9", "").await;
    listener.until("chat/error agentExited").await;
    resume(&rig, "t1").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "hi");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn interrupted_turn_is_resumed_after_a_restart() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    agent.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
    emit_partial_answer(&agent, 1, "half").await;
    listener.until("chat/delta").await;
    let mut rig = rig.crash().await;
    let mut listener = rig.listen(SESSION).await;
    let turn = listener.chat.as_ref().unwrap().turns[0].clone();
    let Some(ResponsePart::Error(error)) = turn.response_parts.last() else { panic!("{turn:?}") };
    assert_eq!((error.error.error_type.as_str(), error.resumable), ("interrupted", Some(true)));
    resume(&rig, "t1").await;
    let mut agent = rig.starts.next_start().await.succeed();
    let prompt = agent.next_prompt().await;
    // Output of the last 100 ms may be missing, and with it the note of the delivery.
    assert!(["Continue where you left off.", "hi"].contains(&prompt.as_str()), "{prompt}");
    agent.emit_answer(1, "the", " rest").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(listener.chat.as_ref().unwrap().turns.len(), 1);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn only_a_failed_last_turn_can_be_resumed() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    resume(&rig, "t1").await;
    listener.until("chat/turnResume rejected: a turn is running").await;
    agent.emit_answer(1, "x", "y").await;
    listener.until("chat/turnComplete").await;
    resume(&rig, "t1").await;
    listener.until("chat/turnResume rejected: the turn did not fail").await;
    resume(&rig, "t0").await;
    listener.until("chat/turnResume rejected: only the last turn").await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn turn_with_a_failed_start_can_be_resumed() {
    let (mut rig, mut listener) = Rig::with_session().await;
    rig.send_message(SESSION, "t1", "go").await;
    drop(rig.starts.next_start().await);
    listener.until("chat/error").await;
    resume(&rig, "t1").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "go");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn injected_unanswered_steer_is_sent_again() {
    let (mut rig, mut listener, agent) = Rig::with_running_turn().await;
    agent.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
    emit_partial_answer(&agent, 1, "let me look").await;
    listener.until("chat/delta").await;
    rig.steer("s", "/in blue").await;
    agent.wait_steered().await;
    agent.inject_steer().await.unwrap();
    agent.exit("signal 9", "").await;
    listener.until("chat/error agentExited").await;
    resume(&rig, "t1").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "Continue where you left off.\n\nMy last message:\n\n/in blue");
    // After the turn continues, the steer is not repeated.
    emit_partial_answer(&agent, 1, "in blue").await;
    listener.until("chat/delta").await;
    agent.exit("signal 9", "").await;
    listener.until("chat/error agentExited").await;
    resume(&rig, "t1").await;
    assert_eq!(rig.starts.next_start().await.succeed().next_prompt().await, "Continue where you left off.");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn message_is_sent_unchanged_despite_late_output_of_the_previous_turn() {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    rig.cancel(SESSION, "t1").await;
    listener.until("chat/turnCancelled").await;
    rig.send_message(SESSION, "t2", "next").await;
    listener.until("chat/turnStarted").await;
    // The answer to the cancelled turn starts late.
    emit_partial_answer(&agent, 1, "old").await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Interrupted)).await;
    assert_eq!(agent.next_prompt().await, "next");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn agent_that_lost_its_working_directory_is_closed_before_the_next_message() {
    let (mut rig, mut listener, agent) = Rig::with_running_turn().await;
    let failure = TurnFailure {
        category: ApiErrorCategory::WorkingDirectory,
        message: "Path \"/p\" does not exist".to_owned(),
        status: None,
    };
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Failed(failure))).await;
    listener.until("chat/error workingDirectoryMissing").await;
    assert_eq!(agent.wait_closed().await, CloseMode::Graceful);
    rig.send_message(SESSION, "t2", "next").await;
    assert_eq!(rig.starts.next_start().await.succeed().next_prompt().await, "next");
    rig.engine.shutdown().await;
}
