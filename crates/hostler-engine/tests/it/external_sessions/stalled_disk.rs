//! A transcript that cannot be read at the moment delays only messages that depend on it.

use std::sync::Arc;
use std::time::Duration;

use hostler_driver::{DriverEvent, TurnOutcome};
use hostler_engine::default_chat_uri;
use hostler_testkit::clock::ManualClock;
use hostler_testkit::fake_transcript_store::FakeTranscriptStore;
use serde_json::json;

use super::helpers::{run_own_turn, start_own_turn, write_external_turn};
use super::{EXTERNAL_SESSION, expected, start_with_external_session_and_options, turns};
use crate::common::{Options, Rig, dispatch_json};

/// The maximum time that a message waits.
const SYNC_DEADLINE: Duration = Duration::from_secs(3);

async fn start_with_clock() -> (Rig, Arc<FakeTranscriptStore>, ManualClock) {
    let clock = ManualClock::new();
    let options = Options { clock: Arc::new(clock.clone()), ..Options::default() };
    let (rig, transcript_store) = start_with_external_session_and_options(2, 3, options).await;
    (rig, transcript_store, clock)
}

#[tokio::test]
async fn cancel_and_steer_are_handled_while_the_transcript_is_read() {
    let (mut rig, transcript_store, _clock) = start_with_clock().await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let agent = start_own_turn(&mut rig, &transcript_store, None, 4).await;
    transcript_store.set_opening_enabled(false);
    write_external_turn(&transcript_store, 5);
    rig.engine.scan_external_sessions().await;
    let chat = default_chat_uri(EXTERNAL_SESSION);
    let steer = json!({ "type": "chat/pendingMessageSet", "kind": "steering", "id": "s",
        "message": { "text": "in blue", "origin": { "kind": "user" } } });
    rig.engine.dispatch(dispatch_json(&chat, 1, steer, None)).await;
    listener.until("chat/pendingMessageSet").await;
    let withdrawn = json!({ "type": "chat/pendingMessageRemoved", "kind": "steering", "id": "s" });
    rig.engine.dispatch(dispatch_json(&chat, 2, withdrawn, None)).await;
    listener.until("chat/pendingMessageRemoved").await;
    rig.cancel(EXTERNAL_SESSION, "t4").await;
    listener.until("chat/turnCancelled").await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Interrupted)).await;
    // A message that waits for the transcript can be cancelled at once.
    rig.send_message(EXTERNAL_SESSION, "t6", "message 6").await;
    rig.cancel(EXTERNAL_SESSION, "t6").await;
    listener.until("chat/turnStarted rejected: the turn was cancelled before it started").await;
    listener.until("chat/turnCancelled rejected").await;
    transcript_store.set_opening_enabled(true);
    let (_, agent) =
        tokio::join!(agent.wait_closed(), run_own_turn(&mut rig, &transcript_store, &mut listener, None, 7));
    assert_eq!(turns(&listener)[4..], [expected(5..=5), expected(7..=7)].concat());
    drop(agent);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn messages_of_a_client_wait_in_order_and_at_most_until_the_deadline() {
    let (mut rig, transcript_store, clock) = start_with_clock().await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    transcript_store.set_opening_enabled(false);
    rig.send_message(EXTERNAL_SESSION, "t4", "message 4").await;
    let queued = json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": "q",
        "message": { "text": "message 5", "origin": { "kind": "user" } } });
    rig.engine.dispatch(dispatch_json(&default_chat_uri(EXTERNAL_SESSION), 1, queued, None)).await;
    clock.wait_for_sleeper(SYNC_DEADLINE).await;
    assert!(listener.chat.as_ref().unwrap().active_turn.is_none());
    clock.advance(SYNC_DEADLINE);
    listener.until("chat/turnStarted").await;
    listener.until("chat/pendingMessageSet").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "message 4");
    transcript_store.set_opening_enabled(true);
    rig.engine.shutdown().await;
}
