use ahp_types::state::{ResponsePart, TurnState};
use hostler_driver::{
    ApiErrorCategory, CloseMode, ConversationStart, DriverEvent, ResumeToken, TurnFailure, TurnOutcome,
};
use serde_json::json;

use crate::common::{Rig, SESSION};
use crate::helpers::says;

async fn resume(rig: &Rig, turn: &str) {
    rig.chat(json!({"type": "chat/turnResume", "turnId": turn})).await;
}

#[tokio::test]
async fn a_turn_whose_agent_died_goes_on_where_it_was() {
    let (mut rig, mut listener, agent) = Rig::asked().await;
    agent.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
    says(&agent, 1, "half an ans").await;
    listener.until("chat/delta").await;
    agent.exit("signal 9", "").await;
    listener.until("chat/error agentExited").await;
    resume(&rig, "t1").await;
    let start = rig.starts.next_start().await;
    assert!(matches!(start.spec.conversation, ConversationStart::Resume { .. }));
    let mut agent = start.succeed();
    assert_eq!(agent.next_prompt().await, "Continue where you left off.");
    says(&agent, 1, "wer").await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })).await;
    listener.until("chat/turnResume").await;
    listener.until("chat/turnComplete").await;
    let chat = listener.chat.as_ref().unwrap();
    assert_eq!(chat.turns.len(), 1);
    let parts = &chat.turns[0].response_parts;
    let kinds: Vec<_> = parts.iter().map(|part| serde_json::to_value(part).unwrap()["kind"].clone()).collect();
    assert_eq!(kinds, ["markdown", "error", "markdown"]);
    assert_eq!(chat.turns[0].state, TurnState::Complete);
    // The store holds the turn as it ended, once.
    let rig = rig.restart().await;
    let listener = rig.listen(SESSION).await;
    let again = &listener.chat.as_ref().unwrap().turns;
    assert_eq!((again.len(), &again[0].response_parts), (1, parts));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_message_that_never_reached_the_model_is_sent_again_as_it_was() {
    let (mut rig, mut listener, agent) = Rig::asked().await;
    agent.exit("signal 9", "").await;
    listener.until("chat/error agentExited").await;
    resume(&rig, "t1").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "hi");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_turn_that_the_host_left_goes_on_after_its_restart() {
    let (rig, mut listener, agent) = Rig::asked().await;
    agent.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
    says(&agent, 1, "half").await;
    listener.until("chat/delta").await;
    let mut rig = rig.crash().await;
    let mut listener = rig.listen(SESSION).await;
    let turn = listener.chat.as_ref().unwrap().turns[0].clone();
    let Some(ResponsePart::Error(error)) = turn.response_parts.last() else { panic!("{turn:?}") };
    assert_eq!((error.error.error_type.as_str(), error.resumable), ("interrupted", Some(true)));
    resume(&rig, "t1").await;
    let mut agent = rig.starts.next_start().await.succeed();
    let prompt = agent.next_prompt().await;
    // What was streamed in the last tenth of a second may be missing, and with it the mark.
    assert!(["Continue where you left off.", "hi"].contains(&prompt.as_str()), "{prompt}");
    agent.emit_answer(1, "the", " rest").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(listener.chat.as_ref().unwrap().turns.len(), 1);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn only_the_last_turn_and_only_one_that_failed() {
    let (rig, mut listener, agent) = Rig::asked().await;
    resume(&rig, "t1").await;
    listener.until("chat/turnResume rejected: a turn is running").await;
    agent.emit_answer(1, "x", "y").await;
    listener.until("chat/turnComplete").await;
    resume(&rig, "t1").await;
    listener.until("chat/turnResume rejected: that turn did not fail").await;
    resume(&rig, "t0").await;
    listener.until("chat/turnResume rejected: only the last turn").await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_turn_whose_agent_never_came_up_is_tried_again() {
    let (mut rig, mut listener) = Rig::with_session().await;
    rig.say(SESSION, "t1", "go").await;
    drop(rig.starts.next_start().await);
    listener.until("chat/error").await;
    resume(&rig, "t1").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "go");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn what_was_told_and_not_answered_is_said_once_more() {
    let (mut rig, mut listener, agent) = Rig::asked().await;
    agent.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
    says(&agent, 1, "let me look").await;
    listener.until("chat/delta").await;
    rig.steer("s", "/in blue").await;
    agent.wait_steered().await;
    agent.inject_steer().await.unwrap();
    agent.exit("signal 9", "").await;
    listener.until("chat/error agentExited").await;
    resume(&rig, "t1").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "Continue where you left off.\n\nWhat I said last:\n\n/in blue");
    // Once it goes on, the words are old.
    says(&agent, 1, "in blue").await;
    listener.until("chat/delta").await;
    agent.exit("signal 9", "").await;
    listener.until("chat/error agentExited").await;
    resume(&rig, "t1").await;
    assert_eq!(rig.starts.next_start().await.succeed().next_prompt().await, "Continue where you left off.");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_message_is_sent_as_it_was_even_if_the_agent_spoke_for_the_turn_before_it_meanwhile() {
    let (rig, mut listener, mut agent) = Rig::asked().await;
    rig.cancel(SESSION, "t1").await;
    listener.until("chat/turnCancelled").await;
    rig.say(SESSION, "t2", "next").await;
    listener.until("chat/turnStarted").await;
    // The answer to the cancelled turn begins late.
    says(&agent, 1, "old").await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Interrupted)).await;
    assert_eq!(agent.next_prompt().await, "next");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn an_agent_that_lost_its_directory_takes_no_other_message() {
    let (mut rig, mut listener, agent) = Rig::asked().await;
    let failure = TurnFailure {
        category: ApiErrorCategory::WorkingDirectory,
        message: "Path \"/p\" does not exist".to_owned(),
        status: None,
    };
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Failed(failure))).await;
    listener.until("chat/error workingDirectoryMissing").await;
    assert_eq!(agent.wait_closed().await, CloseMode::Graceful);
    rig.say(SESSION, "t2", "next").await;
    assert_eq!(rig.starts.next_start().await.succeed().next_prompt().await, "next");
    rig.engine.shutdown().await;
}
