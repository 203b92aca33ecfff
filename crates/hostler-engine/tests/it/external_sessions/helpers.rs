//! Turns of the conversation, from this host and from other processes.

use hostler_testkit::fake_driver::FakeAgent;
use hostler_testkit::fake_transcript_store::{FakeTranscriptStore, FakeTurn};

use super::{EXTERNAL_SESSION, id, turns};
use crate::common::{Listener, Rig};

/// Writes a turn into the transcript.
pub(crate) fn append_turn(transcript_store: &FakeTranscriptStore, turn: FakeTurn) {
    transcript_store.update_conversation(id(), |conversation| conversation.turns.push(turn));
}

/// A turn with a message and an answer, as another process would write it.
pub(crate) fn turn(n: u32) -> FakeTurn {
    FakeTurn::new(n, &format!("message {n}"), &format!("answer {n}"))
}

/// Writes a turn of another process.
pub(crate) fn write_external_turn(transcript_store: &FakeTranscriptStore, n: u32) {
    append_turn(transcript_store, turn(n));
}

/// A command of another process.
pub(crate) fn command(n: u32, text: &str, answer: &str) -> FakeTurn {
    let mut command = FakeTurn::new(n, text, answer);
    command.mark.is_command = true;
    command
}

/// Starts a turn here, and writes it into the transcript as the agent does.
pub(crate) async fn start_own_turn(
    rig: &mut Rig,
    transcript_store: &FakeTranscriptStore,
    agent: Option<FakeAgent>,
    n: u32,
) -> FakeAgent {
    rig.send_message(EXTERNAL_SESSION, &format!("t{n}"), &format!("message {n}")).await;
    let mut agent = match agent {
        Some(agent) => agent,
        None => rig.starts.next_start().await.succeed(),
    };
    let sent = agent.next_full_prompt().await.id();
    append_turn(transcript_store, turn(n).with_message_id(sent));
    agent
}

/// Runs a turn here, up to its answer.
pub(crate) async fn run_own_turn(
    rig: &mut Rig,
    transcript_store: &FakeTranscriptStore,
    listener: &mut Listener,
    agent: Option<FakeAgent>,
    n: u32,
) -> FakeAgent {
    let agent = start_own_turn(rig, transcript_store, agent, n).await;
    agent.emit_answer(u64::from(n), "answer ", &n.to_string()).await;
    while !turns(listener).last().is_some_and(|last| last.starts_with(&format!("message {n}:"))) {
        listener.until("chat/turnComplete").await;
    }
    agent
}
