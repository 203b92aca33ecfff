//! External sessions: conversations of other processes, opened, read and continued as sessions of this host.

mod abandoned_branches;
mod external_activity;
mod external_sync;
mod helpers;
mod import;
mod import_errors;
mod listing;
mod queue;
mod resume;
mod slash_commands;
mod stalled_disk;
mod startup_cleanup;
mod transcript_check;

use std::path::Path;
use std::sync::Arc;

use crate::common::{Listener, Options, Rig};
use ahp_types::state::{ResponsePart, Turn};
use hostler_engine::{SnapshotTurns, default_chat_uri};
use hostler_testkit::fake_transcript_store::FakeTranscriptStore;
use uuid::Uuid;

const EXTERNAL_SESSION: &str = "claude:/0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a3700";

fn id() -> Uuid {
    Uuid::try_parse(EXTERNAL_SESSION.strip_prefix("claude:/").unwrap()).unwrap()
}

/// Starts a host with this turn window, and an external conversation with this many turns.
async fn start_with_external_session(turns_in_memory: usize, turns: u32) -> (Rig, Arc<FakeTranscriptStore>) {
    start_with_external_session_and_options(turns_in_memory, turns, Options::default()).await
}

/// The same, with other host options.
async fn start_with_external_session_and_options(
    turns_in_memory: usize,
    turns: u32,
    options: Options,
) -> (Rig, Arc<FakeTranscriptStore>) {
    // A directory without a file watcher, so that only the test causes changes.
    let transcript_store = FakeTranscriptStore::new(Path::new("/no/such/directory"));
    transcript_store.add_conversation(id(), &std::env::temp_dir(), turns);
    let shared_store = Some(Arc::clone(&transcript_store));
    let options = Options { turns_in_memory, transcript_store: shared_store, ..options };
    (Rig::start_with(options).await, transcript_store)
}

/// Subscribes a client to the last turns of the chat.
async fn viewer(rig: &Rig, extent: SnapshotTurns) -> Listener {
    let mut viewer = Listener::new(EXTERNAL_SESSION);
    rig.engine.subscribe_with_turns(&default_chat_uri(EXTERNAL_SESSION), extent, &viewer.subscriber, 7).await.unwrap();
    viewer.snapshot().await;
    viewer
}

async fn fetch(rig: &Rig, viewer: &mut Listener) {
    let cursor = viewer.chat.as_ref().unwrap().turns_next_cursor.clone();
    rig.engine
        .fetch_turns(&default_chat_uri(EXTERNAL_SESSION), cursor.as_deref(), &viewer.subscriber, 8)
        .await
        .unwrap();
    viewer.until("chat/turnsLoaded").await;
}

fn turns(listener: &Listener) -> Vec<String> {
    listener.chat.as_ref().unwrap().turns.iter().map(turn_text).collect()
}

/// A turn in one line: the message and the answer.
fn turn_text(turn: &Turn) -> String {
    let answers = turn.response_parts.iter().map(|part| match part {
        ResponsePart::Markdown(part) => part.content.clone(),
        other => format!("{other:?}"),
    });
    format!("{}: {}", turn.message.text, answers.collect::<Vec<_>>().join(", "))
}

fn expected(places: std::ops::RangeInclusive<u32>) -> Vec<String> {
    places.map(|n| format!("message {n}: answer {n}")).collect()
}
