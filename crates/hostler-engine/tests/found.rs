//! Conversations that somebody else has led: opened, read and continued as sessions of this host.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;

#[path = "found/branches.rs"]
mod branches;
#[path = "found/checkup.rs"]
mod checkup;
#[path = "found/commands.rs"]
mod commands;
#[path = "found/elsewhere.rs"]
mod elsewhere;
#[path = "found/leads.rs"]
mod leads;
#[path = "found/left.rs"]
mod left;
#[path = "found/listing.rs"]
mod listing;
#[path = "found/naming.rs"]
mod naming;
#[path = "found/queue.rs"]
mod queue;
#[path = "found/resume.rs"]
mod resume;
#[path = "found/saying.rs"]
mod saying;
#[path = "found/taking.rs"]
mod taking;
#[path = "found/trouble.rs"]
mod trouble;

use std::path::Path;
use std::sync::Arc;

use ahp_types::state::{ResponsePart, Turn};
use common::{Listener, Options, Rig};
use hostler_engine::{Extent, default_chat_uri};
use hostler_testkit::fake_archive::FakeArchive;
use uuid::Uuid;

const FOUND: &str = "claude:/0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a3700";

fn id() -> Uuid {
    Uuid::try_parse(FOUND.strip_prefix("claude:/").unwrap()).unwrap()
}

/// A host that keeps so many turns in memory, and a conversation of so many turns that it has found.
async fn found(turns_in_memory: usize, turns: u32) -> (Rig, Arc<FakeArchive>) {
    found_by(turns_in_memory, turns, Options::default()).await
}

/// The same with a host that is otherwise like this.
async fn found_by(turns_in_memory: usize, turns: u32, options: Options) -> (Rig, Arc<FakeArchive>) {
    // Nothing changes in there that nobody has changed.
    let archive = FakeArchive::new(Path::new("/no/such/directory"));
    archive.put(id(), &std::env::temp_dir(), turns);
    let archive_of_host = Some(Arc::clone(&archive));
    let options = Options { turns_in_memory, archive: archive_of_host, ..options };
    (Rig::start_with(options).await, archive)
}

/// Somebody who wants to see the last turns of the chat.
async fn viewer(rig: &Rig, extent: Extent) -> Listener {
    let mut viewer = Listener::new(FOUND);
    rig.engine.subscribe_to(&default_chat_uri(FOUND), extent, &viewer.subscriber, 7).await.unwrap();
    viewer.snapshot().await;
    viewer
}

async fn fetch(rig: &Rig, viewer: &mut Listener) {
    let cursor = viewer.chat.as_ref().unwrap().turns_next_cursor.clone();
    rig.engine.fetch_turns(&default_chat_uri(FOUND), cursor.as_deref(), &viewer.subscriber, 8).await.unwrap();
    viewer.until("chat/turnsLoaded").await;
}

fn turns(listener: &Listener) -> Vec<String> {
    listener.chat.as_ref().unwrap().turns.iter().map(words).collect()
}

/// A turn in a line: what was said, and what was answered.
fn words(turn: &Turn) -> String {
    let answers = turn.response_parts.iter().map(|part| match part {
        ResponsePart::Markdown(part) => part.content.clone(),
        other => format!("{other:?}"),
    });
    format!("{}: {}", turn.message.text, answers.collect::<Vec<_>>().join(", "))
}

fn expected(places: std::ops::RangeInclusive<u32>) -> Vec<String> {
    places.map(|n| format!("message {n}: answer {n}")).collect()
}
