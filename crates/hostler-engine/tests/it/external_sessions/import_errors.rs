//! Errors during an import: no turn of the transcript is lost, and no client waits for a turn that does not come.

use std::sync::Arc;
use std::time::Duration;

use hostler_driver::TranscriptStoreError;
use hostler_engine::{EngineError, SnapshotTurns, default_chat_uri};
use hostler_testkit::clock::ManualClock;
use hostler_testkit::fake_transcript_store::FakeTranscriptStore;
use uuid::Uuid;

use super::{
    EXTERNAL_SESSION, expected, fetch, id, start_with_external_session, start_with_external_session_and_options, turns,
    viewer,
};
use crate::common::{Listener, Options, Rig};

/// A host that has imported the last two of 300 turns, and a client that sees them. The clock does not advance, and the
/// transcripts are not scanned.
async fn start_with_partial_import() -> (Rig, Arc<FakeTranscriptStore>, ManualClock, Listener) {
    let clock = ManualClock::new();
    let options = Options { clock: Arc::new(clock.clone()), ..Options::default() };
    let (rig, transcript_store) = start_with_external_session_and_options(2, 300, options).await;
    transcript_store.allow_loads(1);
    let viewer = viewer(&rig, SnapshotTurns::Last(2)).await;
    transcript_store.wait_for_loads().await;
    transcript_store.set_listing_enabled(false);
    (rig, transcript_store, clock, viewer)
}

fn set_read_error(transcript_store: &FakeTranscriptStore, why: Option<TranscriptStoreError>) {
    transcript_store.update_conversation(id(), |conversation| conversation.read_error = why);
    transcript_store.allow_loads(usize::MAX);
}

fn disk_error() -> TranscriptStoreError {
    TranscriptStoreError::Failed("the disk is not mounted".to_owned())
}

/// Lets this many attempts fail, the first of which is in progress.
async fn let_attempts_fail(clock: &ManualClock, tries: u32) {
    for doublings in 0..tries {
        let pause = Duration::from_millis(500) * 2u32.pow(doublings);
        clock.wait_for_sleeper(pause).await;
        clock.advance(pause);
    }
}

/// A client requests older turns.
async fn request_older_turns(rig: &Rig, viewer: &Listener) -> Result<(), EngineError> {
    let cursor = viewer.chat.as_ref().unwrap().turns_next_cursor.clone();
    rig.engine.fetch_turns(&default_chat_uri(EXTERNAL_SESSION), cursor.as_deref(), &viewer.subscriber, 8).await
}

#[tokio::test]
async fn temporarily_unreadable_turns_are_retried_and_readers_get_an_error() {
    let (rig, transcript_store, clock, mut viewer) = start_with_partial_import().await;
    set_read_error(&transcript_store, Some(disk_error()));
    clock.wait_for_sleeper(Duration::from_millis(500)).await;
    let refused = request_older_turns(&rig, &viewer).await.unwrap_err();
    assert!(matches!(refused, EngineError::ImportIncomplete(_)), "{refused:?}");
    let message = refused.to_string();
    assert!(message.contains("the disk is not mounted") && message.contains("try again later"), "{message}");
    // No time has passed: the request triggers an attempt at once.
    set_read_error(&transcript_store, None);
    fetch(&rig, &mut viewer).await;
    let seen = u32::try_from(turns(&viewer).len()).unwrap();
    assert!(seen > 2, "a page");
    assert_eq!(turns(&viewer), expected(301 - seen..=300));
    assert_eq!(turns(&rig.listen(EXTERNAL_SESSION).await), expected(1..=300));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn temporarily_missing_transcript_loses_no_turns() {
    let (rig, transcript_store, clock, viewer) = start_with_partial_import().await;
    set_read_error(&transcript_store, Some(TranscriptStoreError::Missing));
    let_attempts_fail(&clock, 6).await;
    clock.wait_for_sleeper(Duration::from_secs(32)).await;
    // However often a client requests them meanwhile.
    for _ in 0..20 {
        let refused = request_older_turns(&rig, &viewer).await.unwrap_err();
        assert!(refused.to_string().contains("does not exist"), "{refused}");
    }
    set_read_error(&transcript_store, None);
    assert_eq!(turns(&rig.listen(EXTERNAL_SESSION).await), expected(1..=300));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn imported_turns_of_a_missing_transcript_remain_and_others_become_placeholders() {
    let (rig, transcript_store, clock, viewer) = start_with_partial_import().await;
    set_read_error(&transcript_store, Some(TranscriptStoreError::Missing));
    let_attempts_fail(&clock, 4).await;
    clock.wait_for_sleeper(Duration::from_secs(8)).await;
    drop(viewer);
    // A restarted host continues the count of five missing reads.
    transcript_store.set_listing_enabled(true);
    let rig = rig.restart().await;
    rig.engine.wait_for_initial_scan().await;
    transcript_store.set_listing_enabled(false);
    let viewer = super::viewer(&rig, SnapshotTurns::Last(2)).await;
    let_attempts_fail(&clock, 4).await;
    while request_older_turns(&rig, &viewer).await.is_err() {
        tokio::task::yield_now().await;
    }
    let all = turns(&rig.listen(EXTERNAL_SESSION).await);
    assert_eq!(all.len(), 300);
    let gone = "This turn could not be imported: the agent's transcript of the conversation does not exist.";
    assert!(all[..298].iter().all(|turn| turn.contains(gone)));
    assert_eq!(all[298..], expected(299..=300));
    let rig = rig.restart().await;
    assert_eq!(turns(&rig.listen(EXTERNAL_SESSION).await), all);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn unreadable_turn_does_not_affect_other_turns() {
    let (rig, transcript_store) = start_with_external_session(2, 300).await;
    // The first turn of a batch, one in the middle of another batch, and one of the last turns.
    let torn = [235usize, 150, 299];
    let ids = torn.map(|number| Uuid::from_u128(u128::try_from(number).unwrap()));
    transcript_store.update_conversation(id(), |conversation| conversation.unreadable_turns.extend(ids));
    let listener = rig.listen(EXTERNAL_SESSION).await;
    let mut all = turns(&listener);
    for (number, id) in torn.into_iter().zip(ids) {
        assert!(all[number - 1].contains("This turn could not be imported"), "{}", all[number - 1]);
        assert_eq!(listener.chat.as_ref().unwrap().turns[number - 1].id, id.to_string());
        all[number - 1] = format!("message {number}: answer {number}");
    }
    assert_eq!(all, expected(1..=300));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn import_started_by_an_earlier_version_is_completed() {
    let (rig, _transcript_store, _clock, viewer) = start_with_partial_import().await;
    drop(viewer);
    rig.engine.shutdown().await;
    let database = rusqlite::Connection::open(rig.state.join("hostler.db")).unwrap();
    let changed = database.execute("UPDATE snapshots SET body = json_remove(body, '$.importCursor')", []).unwrap();
    assert_eq!(changed, 1);
    drop(database);
    rig.options.transcript_store.as_ref().unwrap().allow_loads(usize::MAX);
    let rig = rig.restart().await;
    assert_eq!(turns(&rig.listen(EXTERNAL_SESSION).await), expected(1..=300));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn import_gives_up_after_ten_attempts_until_the_transcript_changes() {
    let (rig, transcript_store, clock, viewer) = start_with_partial_import().await;
    set_read_error(&transcript_store, Some(disk_error()));
    let_attempts_fail(&clock, 9).await;
    request_older_turns(&rig, &viewer).await.unwrap_err();
    assert_eq!(clock.count_sleepers_due_in(Duration::from_secs(256)), 0, "it was tried ten times");
    transcript_store.update_conversation(id(), |conversation| conversation.read_error = None);
    // Allows all batches; no client requests any.
    transcript_store.allow_loads(5);
    transcript_store.set_listing_enabled(true);
    rig.engine.scan_external_sessions().await;
    transcript_store.wait_for_loads().await;
    rig.engine.shutdown().await;
}
