//! Races between events.

use std::sync::Arc;
use std::time::Duration;

use ahp_types::state::{MessageKind, TurnState};
use hostler_driver::{BackgroundTask, BackgroundTaskKind, CloseMode, DriverEvent, TurnCause, TurnOutcome};
use hostler_testkit::clock::ManualClock;

use crate::common::{Options, Rig, SESSION};
use crate::turn_runtime::helpers::emit_partial_answer;

const DONE: TurnOutcome = TurnOutcome::Completed { empty: false };

fn agent_initiated() -> DriverEvent {
    DriverEvent::TurnStarted(TurnCause::Agent("The tests are done.".to_owned()))
}

fn task() -> BackgroundTask {
    BackgroundTask { id: "b".into(), kind: BackgroundTaskKind::Shell, description: "a job".into(), call_id: None }
}

/// Starts a host with a manual clock.
async fn start_with_manual_clock() -> (Rig, ManualClock) {
    let clock = ManualClock::new();
    (Rig::start_with(Options { clock: Arc::new(clock.clone()), ..Options::default() }).await, clock)
}

#[tokio::test]
async fn dispose_during_a_start_aborts_it_and_stores_nothing() {
    let (mut rig, mut listener) = Rig::with_session().await;
    rig.send_message(SESSION, "t1", "hi").await;
    let mut start = rig.starts.next_start().await;
    rig.engine.dispose_session(SESSION).await.unwrap();
    start.wait_abandoned().await;
    listener.until("chat/turnCancelled").await;
    assert_eq!(rig.listed(), Vec::<String>::new());
    let rig = rig.restart().await;
    assert!(rig.engine.dispose_session(SESSION).await.is_err(), "nothing of the session is stored");
}

#[tokio::test]
async fn turn_end_before_the_first_output_completes_the_turn_once() {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    agent.emit(DriverEvent::TurnEnded(DONE)).await;
    listener.until("chat/turnComplete").await;
    // A second end of the same work has no effect.
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Interrupted)).await;
    // The end is processed when the event after it is.
    agent.emit(DriverEvent::BackgroundTaskChanged(task())).await;
    listener.until("chat/backgroundWorkSet").await;
    rig.send_message(SESSION, "t2", "next").await;
    assert_eq!(agent.next_prompt().await, "next");
    agent.emit_answer(1, "x", "y").await;
    listener.until("chat/turnComplete").await;
    assert!(listener.chat.as_ref().unwrap().turns.iter().all(|turn| turn.state == TurnState::Complete));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn agent_initiated_work_while_a_prompt_is_written_is_displayed_in_its_turn() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    agent.emit(agent_initiated()).await;
    emit_partial_answer(&agent, 1, "all green").await;
    agent.emit(DriverEvent::TurnEnded(DONE)).await;
    listener.until("chat/responsePart systemNotification").await;
    listener.until("chat/delta").await;
    // That was not the answer to the message.
    agent.emit(DriverEvent::TurnStarted(TurnCause::Prompt)).await;
    emit_partial_answer(&agent, 2, "hello to you").await;
    agent.emit(DriverEvent::TurnEnded(DONE)).await;
    listener.until("chat/turnComplete").await;
    let chat = listener.chat.as_ref().unwrap();
    assert_eq!((chat.turns.len(), chat.turns[0].message.text.as_str()), (1, "hi"));
    let shown = serde_json::to_string(&chat.turns[0].response_parts).unwrap();
    for text in ["The tests are done.", "all green", "hello to you"] {
        assert!(shown.contains(text), "{shown}");
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn cancel_of_a_prompt_that_the_agent_has_not_started_closes_the_agent() {
    let (mut rig, mut listener, agent) = Rig::with_running_turn().await;
    agent.emit(agent_initiated()).await;
    listener.until("chat/responsePart systemNotification").await;
    rig.cancel(SESSION, "t1").await;
    assert_eq!(agent.wait_closed().await, CloseMode::Now, "its answer could not be distinguished from a later one");
    rig.send_message(SESSION, "t2", "next").await;
    assert_eq!(rig.starts.next_start().await.succeed().next_prompt().await, "next");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn message_queued_during_agent_initiated_work_runs_after_it() {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    agent.emit_answer(1, "x", "y").await;
    listener.until("chat/turnComplete").await;
    agent.emit(agent_initiated()).await;
    listener.until("chat/turnStarted").await;
    rig.queue("a", "and now?").await;
    listener.until("chat/pendingMessageSet").await;
    agent.emit(DriverEvent::TurnEnded(DONE)).await;
    assert_eq!(agent.next_prompt().await, "and now?");
    listener.until("chat/turnComplete").await;
    let own = &listener.chat.as_ref().unwrap().turns[1];
    assert_eq!(own.message.origin.kind, MessageKind::SystemNotification);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn late_interrupt_timeout_does_not_affect_a_new_connection() {
    let (mut rig, clock) = start_with_manual_clock().await;
    let (mut listener, first) = rig.start_first_turn().await;
    rig.cancel(SESSION, "t1").await;
    listener.until("chat/turnCancelled").await;
    first.wait_interrupted().await;
    let grace = Options::default().interrupt_grace;
    clock.wait_for_sleeper(grace).await;
    rig.send_message(SESSION, "t2", "next").await;
    first.exit("signal 9", "").await;
    let mut second = rig.starts.next_start().await.succeed();
    assert_eq!(second.next_prompt().await, "next");
    clock.advance(grace);
    second.emit_answer(1, "x", "y").await;
    listener.until("chat/turnComplete").await;
    assert!(!second.is_closed(), "the timeout of the first interrupt does not apply to the second agent");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn stall_is_displayed_and_cleared() {
    let (mut rig, clock) = start_with_manual_clock().await;
    let (mut listener, agent) = rig.start_first_turn().await;
    let stall = Duration::from_secs(120);
    clock.wait_for_sleeper(stall).await;
    clock.advance(stall);
    let stalled = Some("Stalled: no output from the agent for 2 minutes");
    while listener.chat.as_ref().unwrap().activity.as_deref() != stalled {
        listener.until("chat/activityChanged").await;
    }
    agent.emit_answer(1, "x", "y").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(listener.chat.as_ref().unwrap().activity, None);
    rig.engine.shutdown().await;
}
