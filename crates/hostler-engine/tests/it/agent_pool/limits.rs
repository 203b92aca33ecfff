//! Agents never exceed the slots; a session without a slot waits, visibly and in order.

use hostler_driver::{CloseMode, ConversationStart, DriverEvent, ResumeToken};
use hostler_engine::AgentPoolStatus;
use hostler_testkit::fake_driver::FakeAgent;

use super::{begin, finish, idle_session, max_agents, start_pool, uri};
use crate::common::{Listener, Rig};

async fn idle_agents(rig: &Rig, count: usize) {
    while rig.engine.agent_pool_status().idle != count {
        tokio::task::yield_now().await;
    }
}

async fn waiting(rig: &Rig, count: usize) {
    while rig.engine.agent_pool_status().waiting != count {
        tokio::task::yield_now().await;
    }
}

/// Creates a session whose first message waits for a slot.
async fn create_waiting_session(rig: &Rig, number: usize) -> Listener {
    let uri = uri(number);
    rig.create(&uri);
    let mut listener = rig.listen(&uri).await;
    let before = rig.engine.agent_pool_status().waiting;
    rig.send_message(&uri, "t1", &format!("hi {number}")).await;
    listener.until("chat/activityChanged").await;
    waiting(rig, before + 1).await;
    listener
}

fn activity(listener: &Listener) -> &str {
    listener.chat.as_ref().unwrap().activity.as_deref().unwrap_or_default()
}

#[tokio::test]
async fn longest_idle_agent_is_evicted() {
    let (mut rig, _clock) = start_pool(max_agents(2), false).await;
    let (mut first, mut first_agent) = idle_session(&mut rig, 1).await;
    let (mut second, second_agent) = begin(&mut rig, 2).await;
    finish(2, &mut second, &second_agent).await;
    idle_agents(&rig, 2).await;
    // The first agent is used again, so the second one is idle for longer.
    rig.send_message(&uri(1), "t2", "again").await;
    assert_eq!(first_agent.next_prompt().await, "again");
    finish(1, &mut first, &first_agent).await;
    idle_agents(&rig, 2).await;

    let (mut third, third_agent) = begin(&mut rig, 3).await;
    assert_eq!(second_agent.wait_closed().await, CloseMode::Graceful);
    assert!(!first_agent.is_closed());
    finish(3, &mut third, &third_agent).await;

    rig.send_message(&uri(2), "t2", "back").await;
    let start = rig.starts.next_start().await;
    assert!(first_agent.is_closed(), "it is idle for longest now");
    let ConversationStart::Resume { token: ResumeToken(token), .. } = &start.spec.conversation else {
        panic!("the conversation is not resumed");
    };
    assert_eq!(token, "token-2");
    let mut agent = start.succeed();
    assert_eq!(agent.next_prompt().await, "back");
    finish(2, &mut second, &agent).await;
    rig.engine.shutdown().await;
    assert_eq!(rig.engine.agent_pool_status(), AgentPoolStatus::default());
}

#[tokio::test]
async fn slot_is_free_only_after_the_previous_agent_has_exited() {
    let (mut rig, _clock) = start_pool(max_agents(1), false).await;
    let (_first, first_agent) = idle_session(&mut rig, 1).await;
    first_agent.block_close();
    let second = create_waiting_session(&rig, 2).await;
    assert_eq!(activity(&second), "Closing an idle agent to make room");
    first_agent.wait_closed().await;
    assert_eq!(rig.starts.open_count(), 1, "the process tree has not ended");
    first_agent.unblock_close();
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "hi 2");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn waiting_turns_are_visible_ordered_and_cancellable() {
    let (mut rig, _clock) = start_pool(max_agents(1), false).await;
    let (mut first, first_agent) = begin(&mut rig, 1).await;
    let mut second = create_waiting_session(&rig, 2).await;
    assert_eq!(activity(&second), "Waiting for a free agent (1 of 1 are working)");
    let mut third = create_waiting_session(&rig, 3).await;
    let _fourth = create_waiting_session(&rig, 4).await;
    let mut fifth = create_waiting_session(&rig, 5).await;

    rig.cancel(&uri(3), "t1").await;
    third.until("chat/turnCancelled").await;
    waiting(&rig, 3).await;
    rig.engine.dispose_session(&uri(4)).await.unwrap();
    waiting(&rig, 2).await;
    assert_eq!(rig.starts.open_count(), 1);
    assert_eq!(rig.listed(), [uri(1)], "a session that never had an agent is not listed");

    finish(1, &mut first, &first_agent).await;
    assert_eq!(first_agent.wait_closed().await, CloseMode::Graceful);
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "hi 2", "slots are assigned in request order");
    assert!(!first_session_has_an_agent(&rig));
    finish(2, &mut second, &agent).await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "hi 5");
    finish(5, &mut fifth, &agent).await;
    assert_eq!(activity(&fifth), "");

    // A session that gave up waiting can be used again.
    rig.send_message(&uri(3), "t2", "now").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "now");
    finish(3, &mut third, &agent).await;
    rig.engine.shutdown().await;
}

fn first_session_has_an_agent(rig: &Rig) -> bool {
    rig.engine.agents().iter().any(|agent| agent.session == uri(1))
}

#[tokio::test]
async fn message_during_an_eviction_is_answered() {
    let (mut rig, _clock) = start_pool(max_agents(2), false).await;
    let (mut first, mut first_agent) = idle_session(&mut rig, 1).await;
    let (_second, _second_agent) = begin(&mut rig, 2).await;
    // Its message and the eviction arrive together; in either order both sessions are answered.
    rig.create(&uri(3));
    let mut third = rig.listen(&uri(3)).await;
    let message = crate::common::turn_started(&uri(1), "t2", "mine");
    let other = crate::common::turn_started(&uri(3), "t1", "hi 3");
    tokio::join!(rig.engine.dispatch(message), rig.engine.dispatch(other));
    // Its prompts end with its connection.
    let stays = first_agent.prompts.recv().await.inspect(|prompt| assert_eq!(prompt, "mine")).is_some();
    let (listener, number, text) = if stays {
        finish(1, &mut first, &first_agent).await;
        (&mut third, 3, "hi 3")
    } else {
        let mut agent: FakeAgent = rig.starts.next_start().await.succeed();
        assert_eq!(agent.next_prompt().await, "hi 3");
        finish(3, &mut third, &agent).await;
        (&mut first, 1, "mine")
    };
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, text);
    finish(number, listener, &agent).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn agents_with_background_work_are_not_evicted() {
    let (mut rig, _clock) = start_pool(max_agents(1), false).await;
    let (mut first, agent) = begin(&mut rig, 1).await;
    super::idle_timeout::start_background_work(&agent).await;
    finish(1, &mut first, &agent).await;
    let second = create_waiting_session(&rig, 2).await;
    assert_eq!(activity(&second), "Waiting for a free agent (1 of 1 are working)");
    assert!(!agent.is_closed());
    agent.emit(DriverEvent::BackgroundTaskEnded { id: "b1".into() }).await;
    assert_eq!(agent.wait_closed().await, CloseMode::Graceful);
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "hi 2");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn shutdown_ends_waiting_turns() {
    let (mut rig, _clock) = start_pool(max_agents(1), false).await;
    let (_first, first_agent) = begin(&mut rig, 1).await;
    first_agent.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
    let mut second = create_waiting_session(&rig, 2).await;
    rig.engine.shutdown().await;
    second.until("chat/turnCancelled").await;
    assert!(first_agent.is_closed());
    assert_eq!((rig.starts.open_count(), rig.engine.agent_pool_status()), (1, AgentPoolStatus::default()));
}

#[tokio::test]
async fn failed_start_releases_its_slot() {
    let (mut rig, _clock) = start_pool(max_agents(1), false).await;
    rig.create(&uri(1));
    let mut first = rig.listen(&uri(1)).await;
    rig.send_message(&uri(1), "t1", "hi").await;
    let start = rig.starts.next_start().await;
    let _second = create_waiting_session(&rig, 2).await;
    start.fail(hostler_driver::OpenErrorKind::ExitedEarly, "no", "");
    first.until("chat/error").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "hi 2");
    agent.exit("signal 9", "").await;
    let (_third, _agent) = begin(&mut rig, 3).await;
    rig.engine.shutdown().await;
}
