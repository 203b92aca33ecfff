//! Unfinished work from before a restart, and sessions that are unloaded.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostler_driver::TranscriptStoreError;
use hostler_engine::{SnapshotTurns, default_chat_uri};
use hostler_testkit::clock::ManualClock;

use super::{
    EXTERNAL_SESSION, expected, id, start_with_external_session, start_with_external_session_and_options, turns, viewer,
};
use crate::common::{Listener, Options, dispatch_json};

const CALM: Duration = Duration::from_secs(420);

fn with(clock: &ManualClock) -> Options {
    Options { clock: Arc::new(clock.clone()), ..Options::default() }
}

#[tokio::test]
async fn partial_import_is_completed_after_a_restart_without_a_client() {
    let clock = ManualClock::new();
    let (rig, transcript_store) = start_with_external_session_and_options(2, 300, with(&clock)).await;
    transcript_store.allow_loads(1);
    drop(viewer(&rig, SnapshotTurns::Last(2)).await);
    transcript_store.wait_for_loads().await;
    let rig = rig.restart().await;
    clock.wait_for_sleeper(Duration::from_secs(10)).await;
    // Allows all batches.
    transcript_store.allow_loads(5);
    clock.advance(Duration::from_secs(10));
    transcript_store.wait_for_loads().await;
    let listener = rig.listen(EXTERNAL_SESSION).await;
    transcript_store.remove_conversation(id());
    assert_eq!(turns(&listener), expected(1..=300));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn failed_transcript_removal_is_repeated_after_a_restart() {
    let (rig, transcript_store) = start_with_external_session(1, 2).await;
    rig.engine.scan_external_sessions().await;
    transcript_store.update_conversation(id(), |known| {
        known.read_error = Some(TranscriptStoreError::Failed("the disk is read-only".to_owned()))
    });
    rig.engine.dispose_session(EXTERNAL_SESSION).await.unwrap();
    assert!(transcript_store.external_conversation(id()).is_some());
    transcript_store.update_conversation(id(), |known| known.read_error = None);
    let rig = rig.restart().await;
    while transcript_store.external_conversation(id()).is_some() {
        tokio::task::yield_now().await;
    }
    // After the removal, a restored transcript is a new one.
    transcript_store.add_conversation(id(), Path::new("/"), 2);
    let rig = rig.restart().await.restart().await;
    rig.engine.wait_for_initial_scan().await;
    assert!(transcript_store.external_conversation(id()).is_some());
    assert_eq!(rig.listed(), [""; 0]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn unused_session_is_unloaded_and_restored_unchanged() {
    let clock = ManualClock::new();
    let (rig, _transcript_store) = start_with_external_session_and_options(2, 3, with(&clock)).await;
    rig.engine.wait_for_initial_scan().await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let titled = |title: &str| serde_json::json!({"type": "session/titleChanged", "title": title});
    rig.engine.dispatch(dispatch_json(EXTERNAL_SESSION, 1, titled("mine"), None)).await;
    listener.until("session/titleChanged").await;
    // It stays loaded as long as a client is subscribed.
    for _ in 0..3 {
        clock.wait_for_sleeper(CALM).await;
        clock.advance(CALM);
    }
    clock.wait_for_sleeper(CALM).await;
    assert!(tasks() > before);
    rig.engine.dispatch(dispatch_json(EXTERNAL_SESSION, 2, titled("mine still"), None)).await;
    listener.until("session/titleChanged").await;
    rig.engine.remove_subscriber(listener.subscriber.id());
    clock.wait_for_sleeper(CALM).await;
    while tasks() > before {
        clock.advance(CALM);
        tokio::task::yield_now().await;
    }
    assert!(rig.engine.has_session(EXTERNAL_SESSION));
    let again = rig.listen(EXTERNAL_SESSION).await;
    assert_eq!(again.session.as_ref().unwrap().title, "mine still");
    assert_eq!(turns(&again), expected(1..=3));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn request_during_an_unload_is_served() {
    let clock = ManualClock::new();
    let (rig, _transcript_store) = start_with_external_session_and_options(2, 3, with(&clock)).await;
    for round in 0..50 {
        let listener = Listener::new(EXTERNAL_SESSION);
        rig.engine.subscribe(&default_chat_uri(EXTERNAL_SESSION), &listener.subscriber, 1).await.unwrap();
        rig.engine.remove_subscriber(listener.subscriber.id());
        clock.wait_for_sleeper(CALM).await;
        clock.advance(CALM);
        clock.wait_for_sleeper(CALM).await;
        clock.advance(CALM);
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
    }
    rig.engine.shutdown().await;
}
