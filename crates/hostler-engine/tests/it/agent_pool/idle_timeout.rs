//! Idle agents are closed and reopened on demand.

use hostler_driver::{
    BackgroundTask, BackgroundTaskKind, CloseMode, ConversationStart, DriverEvent, ResumeToken, TurnCause, TurnOutcome,
};
use hostler_engine::AgentPoolStatus;

use super::{IDLE, IDLE_MAX, begin, finish, max_agents, start_pool, uri};
use crate::common::Listener;

fn activity(listener: &Listener) -> Option<String> {
    listener.chat.as_ref().unwrap().activity.clone()
}

pub(super) async fn start_background_work(agent: &hostler_testkit::fake_driver::FakeAgent) {
    let task = BackgroundTask {
        id: "b1".into(),
        kind: BackgroundTaskKind::Shell,
        description: "a server".into(),
        call_id: None,
    };
    agent.emit(DriverEvent::BackgroundTaskChanged(task)).await;
}

#[tokio::test]
async fn idle_agent_is_closed_after_its_window_and_resumed_by_the_next_message() {
    let (mut rig, clock) = start_pool(max_agents(4), false).await;
    let (mut listener, agent) = begin(&mut rig, 1).await;
    clock.advance(2 * IDLE_MAX);
    assert_eq!(clock.count_sleepers(), 0, "no window while it works");
    finish(1, &mut listener, &agent).await;
    clock.wait_for_sleeper(IDLE).await;
    clock.advance(IDLE / 2);
    rig.send_message(&uri(1), "t2", "again").await;
    let mut agent = agent;
    assert_eq!(agent.next_prompt().await, "again");
    finish(1, &mut listener, &agent).await;
    clock.wait_for_sleeper(IDLE).await;
    clock.advance(IDLE / 2);
    assert!(!agent.is_closed(), "the window starts again at the end of the turn");
    clock.advance(IDLE / 2);
    assert_eq!(agent.wait_closed().await, CloseMode::Graceful);

    rig.send_message(&uri(1), "t3", "back").await;
    let start = rig.starts.next_start().await;
    let ConversationStart::Resume { token, .. } = &start.spec.conversation else { panic!("{:?}", start.spec) };
    assert_eq!(*token, ResumeToken("token-1".into()));
    let mut agent = start.succeed();
    assert_eq!(agent.next_prompt().await, "back");
    finish(1, &mut listener, &agent).await;
    assert_eq!(listener.chat.as_ref().unwrap().turns.len(), 3);
    assert_eq!(activity(&listener), None);
    rig.engine.shutdown().await;
    assert_eq!(rig.engine.agent_pool_status(), AgentPoolStatus::default());
}

#[tokio::test]
async fn message_without_a_model_uses_the_last_model_after_a_close() {
    let (mut rig, clock) = start_pool(max_agents(1), false).await;
    let (mut listener, agent) = begin(&mut rig, 1).await;
    finish(1, &mut listener, &agent).await;
    super::send_message_with_model(&rig, 1, "t2", "hi", "other-model").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "hi");
    finish(1, &mut listener, &agent).await;
    clock.wait_for_sleeper(IDLE).await;
    clock.advance(IDLE);
    agent.wait_closed().await;
    rig.send_message(&uri(1), "t3", "back").await;
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.model, "other-model", "as it would have been if the agent had stayed");
    let mut agent = start.succeed();
    assert_eq!(agent.next_prompt().await, "back");
    finish(1, &mut listener, &agent).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn message_during_a_close_is_held_for_the_next_agent() {
    let (mut rig, clock) = start_pool(max_agents(1), false).await;
    let (mut listener, agent) = begin(&mut rig, 1).await;
    finish(1, &mut listener, &agent).await;
    agent.block_close();
    clock.wait_for_sleeper(IDLE).await;
    clock.advance(IDLE);
    assert_eq!(agent.wait_closed().await, CloseMode::Graceful);

    rig.send_message(&uri(1), "t2", "too early").await;
    listener.until("chat/turnStarted").await;
    // The agent produces output while it is being closed; it must not be taken for the new turn's answer.
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })).await;
    assert_eq!(rig.starts.open_count(), 1, "no agent is opened before the previous one has exited");
    assert_eq!(rig.engine.agent_pool_status().live, 1);
    agent.unblock_close();

    let mut second = rig.starts.next_start().await.succeed();
    assert_eq!(second.next_prompt().await, "too early");
    finish(1, &mut listener, &second).await;
    let turns = &listener.chat.as_ref().unwrap().turns;
    assert_eq!(turns.len(), 2, "each message has one turn");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn message_at_the_end_of_the_idle_window_is_answered() {
    let (mut rig, clock) = start_pool(max_agents(1), false).await;
    let (mut listener, mut agent) = begin(&mut rig, 1).await;
    finish(1, &mut listener, &agent).await;
    clock.wait_for_sleeper(IDLE).await;
    // Both events are queued before the actor runs: the message is answered in either order.
    let message = crate::common::turn_started(&uri(1), "t2", "in time");
    let dispatch = rig.engine.dispatch(message);
    clock.advance(IDLE);
    dispatch.await;
    listener.until("chat/turnStarted").await;
    // Its prompts end with its connection.
    let prompt = match agent.prompts.recv().await {
        Some(prompt) => prompt,
        None => {
            agent = rig.starts.next_start().await.succeed();
            agent.next_prompt().await
        }
    };
    assert_eq!(prompt, "in time");
    finish(1, &mut listener, &agent).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn background_work_extends_the_idle_window_up_to_the_maximum() {
    let (mut rig, clock) = start_pool(max_agents(1), false).await;
    let (mut listener, agent) = begin(&mut rig, 1).await;
    start_background_work(&agent).await;
    finish(1, &mut listener, &agent).await;
    clock.wait_for_sleeper(IDLE_MAX).await;
    assert_eq!(clock.count_sleepers_due_in(IDLE), 0);
    assert_eq!(rig.engine.agent_pool_status().idle, 0, "an agent with background work is not idle");
    clock.advance(IDLE_MAX / 2);
    // Further reports about the same work do not extend the window.
    start_background_work(&agent).await;
    assert!(!agent.is_closed());
    clock.advance(IDLE_MAX / 2);
    assert_eq!(agent.wait_closed().await, CloseMode::Graceful);
    listener.until("chat/activityChanged").await;
    let displayed = activity(&listener);
    assert_eq!(displayed.as_deref(), Some("The agent was closed after 2 hours, and its background work has ended"));

    rig.send_message(&uri(1), "t2", "back").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "back");
    finish(1, &mut listener, &agent).await;
    assert_eq!(activity(&listener), None);
    clock.wait_for_sleeper(IDLE).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn background_work_of_a_closed_agent_does_not_extend_the_idle_timeout_of_the_next_one() {
    let (mut rig, clock) = start_pool(max_agents(1), false).await;
    let (mut listener, agent) = begin(&mut rig, 1).await;
    start_background_work(&agent).await;
    finish(1, &mut listener, &agent).await;
    super::send_message_with_model(&rig, 1, "t2", "hi", "other-model").await;
    assert_eq!(agent.wait_closed().await, CloseMode::Graceful);
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "hi");
    finish(1, &mut listener, &agent).await;
    clock.wait_for_sleeper(IDLE).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn agent_initiated_turn_after_background_work_stops_the_idle_window() {
    let (mut rig, clock) = start_pool(max_agents(1), false).await;
    let (mut listener, agent) = begin(&mut rig, 1).await;
    start_background_work(&agent).await;
    finish(1, &mut listener, &agent).await;
    clock.wait_for_sleeper(IDLE_MAX).await;
    clock.advance(2 * IDLE);
    agent.emit(DriverEvent::BackgroundTaskEnded { id: "b1".into() }).await;
    clock.wait_for_sleeper(IDLE).await;
    agent.emit(DriverEvent::TurnStarted(TurnCause::Agent("a server ended".into()))).await;
    while clock.count_sleepers_due_in(IDLE) > 0 {
        tokio::task::yield_now().await;
    }
    clock.advance(IDLE_MAX);
    assert!(!agent.is_closed(), "the agent runs a turn");
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })).await;
    clock.wait_for_sleeper(IDLE).await;
    clock.advance(IDLE);
    assert_eq!(agent.wait_closed().await, CloseMode::Graceful);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn pending_request_extends_the_idle_window_up_to_the_maximum() {
    let (mut rig, clock) = start_pool(max_agents(1), false).await;
    let (mut listener, agent) = begin(&mut rig, 1).await;
    super::ask_permission(&agent).await;
    listener.until("session/inputNeeded").await;
    clock.wait_for_sleeper(IDLE_MAX).await;
    clock.advance(IDLE_MAX / 2);
    // The agent continues with something else: it is not idle.
    agent.emit(DriverEvent::PartDelta { part: hostler_driver::PartId(7), text: "…".into() }).await;
    clock.wait_for_sleeper(IDLE_MAX).await;
    clock.advance(IDLE_MAX - IDLE);
    assert!(!agent.is_closed());
    clock.advance(IDLE);
    assert_eq!(agent.wait_closed().await, CloseMode::Now);
    listener.until("chat/error unanswered").await;
    listener.until("session/inputNeededRemoved").await;
    let session = listener.session.as_ref().unwrap();
    assert!(session.input_needed.as_ref().is_none_or(Vec::is_empty), "no request is pending");

    rig.send_message(&uri(1), "t2", "back").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "back");
    finish(1, &mut listener, &agent).await;
    rig.engine.shutdown().await;
}
