//! Resuming a turn with an agent whose transcript contains the message, or does not.

use std::path::Path;

use hostler_driver::{ConversationStart, DriverEvent, PartId, PartKind, ResumeToken};
use hostler_engine::default_chat_uri;
use hostler_testkit::fake_driver::FakeAgent;
use hostler_testkit::fake_transcript_store::{FakeTranscriptStore, FakeTurn};
use serde_json::json;
use uuid::Uuid;

use super::{EXTERNAL_SESSION, id, start_with_external_session};
use crate::common::{Listener, Options, Rig, SESSION, dispatch_json};

const CONTINUE_PROMPT: &str = "Continue where you left off.";

/// Sends a message to an agent that crashes at its first output. The transcript contains the message, or does not.
async fn crash_agent(
    rig: &mut Rig,
    transcript_store: &FakeTranscriptStore,
    listener: &mut Listener,
    is_written: bool,
) -> Option<Uuid> {
    rig.send_message(EXTERNAL_SESSION, "t3", "message 3").await;
    let mut agent = rig.starts.next_start().await.succeed();
    let sent = agent.next_full_prompt().await.id();
    emit_partial_answer(&agent).await;
    listener.until("chat/delta").await;
    if is_written {
        transcript_store.update_conversation(id(), |known| {
            known.turns.push(FakeTurn::new(3, "message 3", "").with_message_id(sent))
        });
    }
    agent.exit("signal 9", "").await;
    listener.until("chat/error agentExited").await;
    sent
}

async fn emit_partial_answer(agent: &FakeAgent) {
    agent.emit(DriverEvent::MessageStarted).await;
    agent.emit(DriverEvent::PartStarted { part: PartId(1), kind: PartKind::Text }).await;
    agent.emit(DriverEvent::PartDelta { part: PartId(1), text: "ans".to_owned() }).await;
}

async fn resume_turn(rig: &mut Rig) -> (ConversationStart, String, Option<Uuid>) {
    let resume = json!({"type": "chat/turnResume", "turnId": "t3"});
    rig.engine.dispatch(dispatch_json(&default_chat_uri(EXTERNAL_SESSION), 0, resume, None)).await;
    let start = rig.starts.next_start().await;
    let conversation = start.spec.conversation.clone();
    let prompt = start.succeed().next_full_prompt().await;
    (conversation, prompt.expose().to_owned(), prompt.id())
}

#[tokio::test]
async fn message_in_the_transcript_is_continued() {
    let (mut rig, transcript_store) = start_with_external_session(1, 2).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    crash_agent(&mut rig, &transcript_store, &mut listener, true).await;
    let mut rig = rig.restart().await;
    assert_eq!(resume_turn(&mut rig).await.1, CONTINUE_PROMPT);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn message_missing_from_the_transcript_is_sent_again() {
    let (mut rig, transcript_store) = start_with_external_session(1, 2).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let sent = crash_agent(&mut rig, &transcript_store, &mut listener, false).await;
    let (conversation, prompt, again) = resume_turn(&mut rig).await;
    assert!(matches!(conversation, ConversationStart::Resume { token: ResumeToken(_), .. }));
    assert_eq!(prompt, "message 3");
    assert_ne!(again, sent);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn agent_that_stored_nothing_starts_anew_with_a_notice() {
    let transcript_store = Some(FakeTranscriptStore::new(Path::new("/no/such/directory")));
    let mut rig = Rig::start_with(Options { transcript_store, ..Options::default() }).await;
    let (mut listener, mut agent) = rig.start_first_turn().await;
    agent.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
    agent.emit_answer(1, "hel", "lo").await;
    listener.until("chat/turnComplete").await;
    rig.send_message(SESSION, "t2", "two").await;
    assert_eq!(agent.next_prompt().await, "two");
    emit_partial_answer(&agent).await;
    listener.until("chat/delta").await;
    agent.exit("signal 9", "").await;
    listener.until("chat/error agentExited").await;
    let resume = json!({"type": "chat/turnResume", "turnId": "t2"});
    rig.engine.dispatch(dispatch_json(&default_chat_uri(SESSION), 0, resume, None)).await;
    let start = rig.starts.next_start().await;
    assert!(matches!(start.spec.conversation, ConversationStart::New(_)));
    assert_eq!(start.succeed().next_prompt().await, "two");
    listener.until("chat/responsePart").await;
    let turn = serde_json::to_string(&listener.chat.as_ref().unwrap().active_turn).unwrap();
    assert!(turn.contains("It does not remember the turns before this one."), "{turn}");
    rig.engine.shutdown().await;
}
