//! Titles and tags that people set, and their copies in the transcript.

use std::sync::Arc;
use std::time::Duration;

use hostler_driver::{ConversationTag, DriverEvent, ResumeToken, TranscriptStoreError};
use hostler_testkit::clock::ManualClock;
use hostler_testkit::fake_transcript_store::{FakeTranscriptStore, FakeTurn};
use serde_json::json;
use uuid::Uuid;

use super::{EXTERNAL_SESSION, id, start_with_external_session};
use crate::common::{Listener, Options, Rig, SESSION, dispatch_json};

async fn set_title(rig: &Rig, session: &str, title: &str) {
    rig.engine.dispatch(dispatch_json(session, 1, json!({"type": "session/titleChanged", "title": title}), None)).await;
}

fn title(listener: &Listener) -> &str {
    &listener.session.as_ref().unwrap().title
}

fn transcript_title(transcript_store: &FakeTranscriptStore, id: Uuid) -> Option<String> {
    transcript_store.external_conversation(id).unwrap().custom_title
}

#[tokio::test]
async fn failed_title_write_is_retried() {
    let clock = ManualClock::new();
    let directory = std::env::temp_dir();
    let transcript_store = FakeTranscriptStore::new(&directory);
    transcript_store.add_conversation(id(), &directory, 2);
    transcript_store.update_conversation(id(), |known| {
        known.listing.title = "old".to_owned();
        known.listing.custom_title = Some("old".to_owned());
    });
    let shared_store = Some(Arc::clone(&transcript_store));
    let options = Options { transcript_store: shared_store, clock: Arc::new(clock.clone()), ..Options::default() };
    let rig = Rig::start_with(options).await;
    rig.engine.scan_external_sessions().await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    assert_eq!(title(&listener), "old");
    let failed = TranscriptStoreError::Failed("the disk is full".to_owned());
    transcript_store.update_conversation(id(), |known| known.read_error = Some(failed));
    set_title(&rig, EXTERNAL_SESSION, "mine").await;
    listener.until("session/titleChanged").await;
    // Something else changes in the transcript, which still has the old title.
    for _ in 0..3 {
        transcript_store.update_conversation(id(), |_| ());
        rig.engine.scan_external_sessions().await;
        tokio::task::yield_now().await;
    }
    // Also after a restart.
    let rig = rig.restart().await;
    rig.engine.scan_external_sessions().await;
    let listener = rig.listen(EXTERNAL_SESSION).await;
    transcript_store.update_conversation(id(), |_| ());
    rig.engine.scan_external_sessions().await;
    assert_eq!((title(&listener), transcript_title(&transcript_store, id()).as_deref()), ("mine", Some("old")));
    transcript_store.update_conversation(id(), |known| known.read_error = None);
    while transcript_title(&transcript_store, id()).as_deref() != Some("mine") {
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(title(&rig.listen(EXTERNAL_SESSION).await), "mine");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn title_set_right_before_shutdown_is_written() {
    let (rig, transcript_store) = start_with_external_session(1, 2).await;
    let listener = rig.listen(EXTERNAL_SESSION).await;
    set_title(&rig, EXTERNAL_SESSION, "mine").await;
    rig.engine.shutdown().await;
    assert_eq!(transcript_title(&transcript_store, id()).as_deref(), Some("mine"));
    drop(listener);
}

#[tokio::test]
async fn title_set_before_the_transcript_exists_is_written_later() {
    let (mut rig, transcript_store) = start_with_external_session(1, 0).await;
    rig.create(SESSION);
    let mut listener = rig.listen(SESSION).await;
    set_title(&rig, SESSION, "mine").await;
    listener.until("session/titleChanged").await;
    rig.send_message(SESSION, "t1", "hi").await;
    let agent = rig.starts.next_start().await.succeed();
    let conversation = Uuid::try_parse(SESSION.strip_prefix("claude:/").unwrap()).unwrap();
    transcript_store.add_conversation(conversation, &rig.work, 0);
    agent.emit(DriverEvent::ResumeToken(ResumeToken(format!("record-{conversation}")))).await;
    while transcript_title(&transcript_store, conversation).as_deref() != Some("mine") {
        tokio::task::yield_now().await;
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn tag_is_rewritten_after_an_agent_overwrites_it() {
    let (mut rig, transcript_store) = start_with_external_session(1, 2).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    rig.engine.tag_session(EXTERNAL_SESSION, Some("old")).await.unwrap();
    listener.until("session/metaChanged").await;
    rig.send_message(EXTERNAL_SESSION, "t3", "message 3").await;
    let mut agent = rig.starts.next_start().await.succeed();
    let sent = agent.next_full_prompt().await.id();
    transcript_store.update_conversation(id(), |known| {
        known.turns.push(FakeTurn::new(3, "message 3", "answer 3").with_message_id(sent))
    });
    agent.emit_answer(3, "answer ", "3").await;
    listener.until("chat/turnComplete").await;
    rig.engine.tag_session(EXTERNAL_SESSION, Some("new")).await.unwrap();
    listener.until("session/metaChanged").await;
    // The agent's last output; it is closed because another process has continued.
    transcript_store.update_conversation(id(), |known| {
        known.listing.tag = ConversationTag::Tagged("old".to_owned());
        known.turns.push(FakeTurn::new(4, "message 4", "answer 4"));
    });
    rig.engine.scan_external_sessions().await;
    agent.wait_closed().await;
    while transcript_store.external_conversation(id()).unwrap().tag.text() != Some("new") {
        tokio::task::yield_now().await;
    }
    rig.engine.scan_external_sessions().await;
    let rig = rig.restart().await;
    let listener = rig.listen(EXTERNAL_SESSION).await;
    assert_eq!(json!(listener.session.as_ref().unwrap().meta)["hostler"]["tag"], "new");
    rig.engine.shutdown().await;
}
