//! Agent pool of the real host: agents start and end, sessions remain.

use std::time::{Duration, Instant};

use crate::common::{BUILDS, HostProcess, TEST_TIMEOUT, TestHome, list_files, trust_folder};
use ahp_types::StateAction;
use hostler_testkit::test_client::SessionUris;

/// Waits until this many agents run.
async fn agents(host: &HostProcess, count: usize) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while host.agents().len() != count {
        assert!(Instant::now() < deadline, "there are not {count} agents but {:#?}", host.agents());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the transcript of a session's conversation.
fn transcript(home: &TestHome, uris: &SessionUris) -> String {
    let id = uris.session.trim_start_matches("claude:/");
    let name = format!("{id}.jsonl");
    let all = list_files(&home.path("claude"));
    let path = all.iter().find(|path| path.ends_with(&name)).unwrap_or_else(|| panic!("no {name} in {all:#?}"));
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_sessions_share_three_agents_and_each_has_its_context() {
    const SESSIONS: usize = 10;
    const MAX_AGENTS: usize = 3;
    let home = TestHome::new();
    home.write_config(&format!("max-agents = {MAX_AGENTS}"));
    let host = home.serve("native").await;
    let mut peer = host.connect().await;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(peer.create_session(&home.work()).await);
    }
    for round in 0..2 {
        for (number, uris) in sessions.iter().enumerate() {
            let answer = peer.send_and_wait(&uris.chat, &format!("!say {number} in round {round}")).await;
            assert_eq!(answer, format!("{number} in round {round}"));
            let alive = host.agents();
            assert!(alive.len() <= MAX_AGENTS, "{alive:#?}");
            if round > 0 {
                let id = uris.session.trim_start_matches("claude:/");
                assert!(
                    alive.iter().any(|agent| agent.command.contains("--resume=") && agent.command.contains(id)),
                    "{number} was resumed: {alive:#?}"
                );
            }
        }
    }
    agents(&host, MAX_AGENTS).await;
    for (number, uris) in sessions.iter().enumerate() {
        let transcript = transcript(&home, uris);
        for round in 0..2 {
            assert!(transcript.contains(&format!("{number} in round {round}")), "{number} has lost round {round}");
        }
        assert_eq!(peer.chat_state(&uris.chat).await.turns.len(), 2);
    }
    assert_eq!(peer.list_sessions().await.len(), SESSIONS);
    host.stop().await;
    assert!(home.locks().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_agent_is_closed_with_its_process_tree_and_the_next_message_resumes() {
    for build in BUILDS {
        let home = TestHome::new();
        home.write_config("idle-timeout = 0.2");
        let host = home.serve(build).await;
        let mut peer = host.connect().await;
        let uris = peer.create_session(&home.work()).await;
        for turn in 0..2 {
            assert_eq!(
                peer.send_and_wait(&uris.chat, &format!("!say turn {turn}")).await,
                format!("turn {turn}"),
                "{build}"
            );
            agents(&host, 0).await;
            let deadline = Instant::now() + TEST_TIMEOUT;
            while !(host.process_tree().is_empty() && home.locks().is_empty()) {
                assert!(Instant::now() < deadline, "{build}: remaining {:?} {:?}", host.process_tree(), home.locks());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let transcript = transcript(&home, &uris);
        assert!(transcript.contains("turn 0") && transcript.contains("turn 1"), "{build}: one conversation");
        host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn turn_waits_for_a_free_agent_slot_and_shows_it() {
    let home = TestHome::new();
    home.write_config("max-agents = 1");
    let host = home.serve("native").await;
    let mut peer = host.connect().await;
    let first = peer.create_session(&home.work()).await;
    let second = peer.create_session(&home.work()).await;
    let turn = peer.send_message(&first.chat, "!hang").await;
    agents(&host, 1).await;
    let agent = host.only_agent().pid;
    peer.send_message(&second.chat, "!say at last").await;
    let waits = "Waiting for a free agent (1 of 1 are working)";
    peer.wait_for(&second.chat, |envelope| match &envelope.action {
        StateAction::ChatActivityChanged(action) => action.activity.as_deref() == Some(waits),
        _ => false,
    })
    .await;
    assert_eq!(host.only_agent().pid, agent);
    peer.cancel_turn(&first.chat, &turn).await;
    let received_envelopes = peer.wait_for_turn_end(&second.chat).await;
    assert_eq!(hostler_testkit::test_client::collect_text(&received_envelopes), "at last");
    assert_ne!(host.only_agent().pid, agent);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prewarmed_agent_answers_the_first_message() {
    for build in BUILDS {
        let home = TestHome::new();
        home.write_config("prewarm = true");
        let host = home.serve(build).await;
        let mut peer = host.connect().await;
        let uris = peer.create_session(&home.work()).await;
        agents(&host, 1).await;
        let agent = host.only_agent().pid;
        assert!(peer.list_sessions().await.is_empty(), "{build}: it is not listed");
        assert_eq!(peer.send_and_wait(&uris.chat, "!say hello").await, "hello", "{build}");
        assert_eq!(host.only_agent().pid, agent, "{build}: it was used");
        assert_eq!(peer.list_sessions().await, std::slice::from_ref(&uris.session));

        // An agent that was prewarmed before the project changed its settings is not used.
        let other = peer.create_session(&home.work()).await;
        agents(&host, 2).await;
        let ahead = host.agents().into_iter().find(|known| known.pid != agent).unwrap().pid;
        std::fs::create_dir_all(home.work().join(".claude")).unwrap();
        std::fs::write(home.work().join(".claude/settings.json"), r#"{"env":{"A":"b"}}"#).unwrap();
        trust_folder(&peer, &home.work()).await;
        assert_eq!(peer.send_and_wait(&other.chat, "!say fresh").await, "fresh", "{build}");
        assert!(host.agents().iter().all(|known| known.pid != ahead), "{build}: a cold one was started");
        host.stop().await;
    }
}
