//! A hundred sessions over a simulated day.

use std::time::Duration;

use hostler_driver::{DriverEvent, ResumeToken};
use hostler_engine::AgentPoolStatus;
use hostler_testkit::fake_driver::{FakeAgent, FakeAgentStart, FakeDriver};
use tokio::sync::mpsc;

use super::{IDLE, max_agents, start_pool, uri};
use crate::common::Rig;

/// Earliest time after which a session without work unloads its actor.
const CALM: Duration = Duration::from_secs(420);
const SESSIONS: usize = 100;
const LIVE: usize = 8;

/// Plays an agent until it is closed: it answers every prompt.
async fn run_fake_agent(start: FakeAgentStart, answered: mpsc::Sender<String>) {
    let id = start.spec.conversation.id();
    let mut agent: FakeAgent = start.succeed();
    agent.emit(DriverEvent::ResumeToken(ResumeToken(id.to_string()))).await;
    while let Some(prompt) = agent.prompts.recv().await {
        agent.emit_answer(1, "hel", "lo").await;
        answered.send(prompt).await.unwrap();
    }
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

async fn until(mut fact: impl FnMut() -> bool) {
    while !fact() {
        tokio::task::yield_now().await;
    }
}

async fn wait_until_all_idle(rig: &Rig) {
    until(|| {
        let AgentPoolStatus { live, idle, waiting, .. } = rig.engine.agent_pool_status();
        waiting == 0 && live == idle
    })
    .await;
}

#[tokio::test]
async fn hundred_sessions_share_eight_agents_for_a_day_without_loss() {
    let (mut rig, clock) = start_pool(max_agents(LIVE), false).await;
    let mut starts = std::mem::replace(&mut rig.starts, FakeDriver::new().1);
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (answered, mut answers) = mpsc::channel(SESSIONS);
    let actors = tokio::spawn(async move {
        let mut players = tokio::task::JoinSet::new();
        loop {
            let start = starts.next_start().await;
            while players.try_join_next().is_some() {}
            players.spawn(run_fake_agent(start, answered.clone()));
        }
    });
    for number in 0..SESSIONS {
        rig.create(&uri(number));
    }
    let mut flat = None;
    for hour in 0..24 {
        for number in 0..SESSIONS {
            rig.send_message(&uri(number), &format!("t{hour}"), &format!("{number} at {hour}")).await;
        }
        let mut received: Vec<String> = Vec::new();
        while received.len() < SESSIONS {
            received.push(answers.recv().await.unwrap());
            let status = rig.engine.agent_pool_status();
            assert!(status.live <= LIVE, "{status:?}");
        }
        received.sort();
        let mut sent: Vec<_> = (0..SESSIONS).map(|number| format!("{number} at {hour}")).collect();
        sent.sort();
        assert_eq!(received, sent, "each message is answered once");
        wait_until_all_idle(&rig).await;
        assert_eq!(rig.engine.agent_pool_status().live, LIVE, "the pool is full");
        clock.wait_for_sleepers(LIVE, IDLE).await;
        clock.advance(Duration::from_secs(3600));
        until(|| rig.engine.agent_pool_status().live == 0 && rig.engine.agents().is_empty()).await;
        // Each session waits for its own unload timer.
        until(|| clock.count_sleepers_due_in(CALM) == SESSIONS).await;
        // The session list is updated a little later; after that no resource of the past hour remains.
        let now = (clock.count_sleepers(), open_files());
        let (sleepers, files) = *flat.get_or_insert(now);
        assert_eq!(now.0, sleepers, "no timer remains");
        assert!(now.1 <= files + 1, "no file is left open: {} after {files}", now.1);
    }
    until(|| tasks() <= SESSIONS + 8).await;
    let listed = rig.engine.list_sessions(Some(SESSIONS), None).unwrap();
    assert_eq!(listed.items.len(), SESSIONS);
    for number in 0..SESSIONS {
        let listener = rig.listen(&uri(number)).await;
        assert_eq!(listener.chat.as_ref().unwrap().turns.len(), 24);
    }
    rig.engine.shutdown().await;
    actors.abort();
}
