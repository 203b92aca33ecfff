//! Agents that are prewarmed when a client subscribes to a session.

use hostler_driver::{CloseMode, ConversationStart, OpenErrorKind};
use hostler_engine::{AgentPoolLimits, AgentPoolStatus};

use super::{IDLE, begin, finish, max_agents, send_message_with_model, start_pool, uri};
use crate::common::Rig;

#[tokio::test]
async fn prewarmed_agent_takes_the_first_message() {
    let (mut rig, _clock) = start_pool(max_agents(4), true).await;
    rig.create(&uri(1));
    let mut listener = rig.listen(&uri(1)).await;
    let mut agent = rig.starts.next_start().await.succeed();
    while rig.engine.agents().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.engine.agent_pool_status(), AgentPoolStatus { live: 1, prewarmed: 1, ..AgentPoolStatus::default() });
    assert!(rig.listed().is_empty(), "nothing is announced before there is a message");
    assert!(listener.events.is_empty(), "{:?}", listener.events);

    rig.send_message(&uri(1), "t1", "hi").await;
    assert_eq!(agent.next_prompt().await, "hi");
    listener.until("session/ready").await;
    assert_eq!(rig.listed(), [uri(1)]);
    finish(1, &mut listener, &agent).await;
    assert_eq!(rig.starts.open_count(), 1);
    while rig.engine.agent_pool_status().idle == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.engine.agent_pool_status().prewarmed, 0, "it is an ordinary agent now");

    // After a restart the stored session is prewarmed by a resume.
    let mut rig = rig.restart().await;
    let _listener = rig.listen(&uri(1)).await;
    let start = rig.starts.next_start().await;
    assert!(matches!(start.spec.conversation, ConversationStart::Resume { .. }), "prewarmed by a resume");
    let _agent = start.succeed();
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn prewarmed_agent_with_another_model_is_replaced() {
    let (mut rig, _clock) = start_pool(max_agents(4), true).await;
    rig.create(&uri(1));
    let mut listener = rig.listen(&uri(1)).await;
    let warm = rig.starts.next_start().await.succeed();
    while rig.engine.agents().is_empty() {
        tokio::task::yield_now().await;
    }
    send_message_with_model(&rig, 1, "t1", "hi", "other-model").await;
    assert_eq!(warm.wait_closed().await, CloseMode::Graceful);
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.model, "other-model");
    let mut agent = start.succeed();
    assert_eq!(agent.next_prompt().await, "hi");
    finish(1, &mut listener, &agent).await;

    // The next prewarmed agent gets the model that was used last.
    let mut rig = rig.restart().await;
    let _listener = rig.listen(&uri(1)).await;
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.model, "other-model");
    let mut agent = start.succeed();
    send_message_with_model(&rig, 1, "t2", "again", "other-model").await;
    assert_eq!(agent.next_prompt().await, "again");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn message_for_another_model_cancels_the_prewarming_start() {
    let (mut rig, _clock) = start_pool(max_agents(1), true).await;
    rig.create(&uri(1));
    let mut listener = rig.listen(&uri(1)).await;
    let mut warm = rig.starts.next_start().await;
    send_message_with_model(&rig, 1, "t1", "hi", "other-model").await;
    warm.wait_abandoned().await;
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.model, "other-model");
    let mut agent = start.succeed();
    assert_eq!(agent.next_prompt().await, "hi");
    finish(1, &mut listener, &agent).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn prewarmed_agent_with_changed_settings_is_not_used() {
    let (mut rig, _clock) = start_pool(max_agents(4), true).await;
    rig.create(&uri(1));
    let mut listener = rig.listen(&uri(1)).await;
    let warm = rig.starts.next_start().await.succeed();
    while rig.engine.agents().is_empty() {
        tokio::task::yield_now().await;
    }
    rig.starts.change_settings();
    rig.send_message(&uri(1), "t1", "hi").await;
    assert_eq!(warm.wait_closed().await, CloseMode::Graceful);
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "hi");
    finish(1, &mut listener, &agent).await;
    // It is an ordinary agent by now: changed settings do not close it.
    rig.starts.change_settings();
    rig.send_message(&uri(1), "t2", "again").await;
    assert_eq!(agent.next_prompt().await, "again");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn message_during_prewarming_uses_the_starting_agent() {
    let (mut rig, _clock) = start_pool(max_agents(1), true).await;
    rig.create(&uri(1));
    let mut listener = rig.listen(&uri(1)).await;
    let start = rig.starts.next_start().await;
    rig.send_message(&uri(1), "t1", "hi").await;
    listener.until("chat/turnStarted").await;
    let mut agent = start.succeed();
    assert_eq!(agent.next_prompt().await, "hi");
    finish(1, &mut listener, &agent).await;
    assert_eq!((rig.listed(), rig.starts.open_count()), (vec![uri(1)], 1));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn prewarmed_agents_are_limited_evicted_first_and_expire() {
    let (mut rig, clock) = start_pool(AgentPoolLimits { max_agents: 3, max_prewarmed: 2 }, true).await;
    let mut prewarmed = Vec::new();
    for number in 1..=3 {
        rig.create(&uri(number));
        let listener = rig.listen(&uri(number)).await;
        if number < 3 {
            let agent = rig.starts.next_start().await.succeed();
            while rig.engine.agents().len() < number {
                tokio::task::yield_now().await;
            }
            prewarmed.push((listener, agent));
        }
    }
    assert_eq!((rig.starts.open_count(), rig.engine.agent_pool_status().prewarmed), (2, 2));
    rig.send_message(&uri(3), "t1", "hi").await;
    let mut third = rig.starts.next_start().await.succeed();
    assert_eq!(third.next_prompt().await, "hi");
    assert!(!prewarmed[0].1.is_closed(), "a slot was free");
    rig.create(&uri(4));
    rig.send_message(&uri(4), "t1", "hi").await;
    assert_eq!(prewarmed[0].1.wait_closed().await, CloseMode::Graceful);
    let mut fourth = rig.starts.next_start().await.succeed();
    assert_eq!(fourth.next_prompt().await, "hi");
    clock.wait_for_sleeper(IDLE).await;
    clock.advance(IDLE);
    assert_eq!(prewarmed[1].1.wait_closed().await, CloseMode::Graceful);
    while rig.engine.agent_pool_status().live > 2 {
        tokio::task::yield_now().await;
    }
    // A provisional session whose prewarmed agent was closed can still be used and disposed of.
    rig.engine.dispose_session(&uri(1)).await.unwrap();
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn failed_prewarm_is_silent_and_the_message_retries() {
    let (mut rig, _clock) = start_pool(max_agents(1), true).await;
    rig.create(&uri(1));
    let mut listener = rig.listen(&uri(1)).await;
    rig.starts.next_start().await.fail(OpenErrorKind::ExitedEarly, "no", "");
    while rig.engine.agent_pool_status().live > 0 {
        tokio::task::yield_now().await;
    }
    rig.send_message(&uri(1), "t1", "hi").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "hi");
    finish(1, &mut listener, &agent).await;
    assert!(!listener.events.iter().any(|event| event.starts_with("chat/error")), "{:?}", listener.events);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn disposing_a_provisional_session_closes_its_prewarmed_agent() {
    let (mut rig, _clock) = start_pool(max_agents(1), true).await;
    rig.create(&uri(1));
    let _listener = rig.listen(&uri(1)).await;
    let agent = rig.starts.next_start().await.succeed();
    rig.engine.dispose_session(&uri(1)).await.unwrap();
    assert!(agent.is_closed());
    assert_eq!(rig.engine.agent_pool_status(), AgentPoolStatus::default());
    let (_listener, _agent) = begin_without_subscription(&mut rig).await;
    rig.engine.shutdown().await;
}

/// Starts a session without a subscription before its first message.
async fn begin_without_subscription(rig: &mut Rig) -> ((), hostler_testkit::fake_driver::FakeAgent) {
    rig.create(&uri(2));
    rig.send_message(&uri(2), "t1", "hi").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "hi");
    ((), agent)
}

#[tokio::test]
async fn no_agent_is_prewarmed_if_prewarming_is_off() {
    let (mut rig, _clock) = start_pool(max_agents(4), false).await;
    let (_listener, _agent) = begin(&mut rig, 1).await;
    rig.create(&uri(2));
    let _second = rig.listen(&uri(2)).await;
    assert_eq!((rig.starts.open_count(), rig.engine.agent_pool_status().live), (1, 1));
    rig.engine.shutdown().await;
}
