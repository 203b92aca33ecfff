//! Runs the conformance checks on the fake driver, with a test that plays its agents.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::sync::Arc;

use hostler_driver::{
    ConversationStart, DenyAllGate, DriverEvent, GatewayEndpoint, OpenSpec, PartId, PartKind, TokenUsage, TurnCause,
    TurnOutcome,
};
use hostler_testkit::conformance::{self, DriverUnderTest};
use hostler_testkit::fake_driver::{FakeAgent, FakeAgentStarts, FakeDriver};
use tokio::sync::{Notify, mpsc};
use uuid::Uuid;

fn spec() -> OpenSpec {
    OpenSpec {
        conversation: ConversationStart::New(Uuid::new_v4()),
        working_directory: "/".into(),
        model: "fake-model".to_owned(),
        web_search: false,
        permission_mode: "default".to_owned(),
        effort: None,
        thinking_budget: None,
        additional_directories: Vec::new(),
        folder_configuration: hostler_driver::FolderConfiguration::Ignored,
        permission_gate: Arc::new(DenyAllGate),
        endpoint: GatewayEndpoint { base_url: String::new(), bearer: String::new().into() },
    }
}

async fn play(mut starts: FakeAgentStarts, release: Arc<Notify>) {
    loop {
        let mut agent = starts.next_start().await.succeed();
        let mut prompts = std::mem::replace(&mut agent.prompts, mpsc::channel(1).1);
        let mut part = 0;
        loop {
            let prompt = tokio::select! {
                prompt = prompts.recv() => prompt,
                _ = agent.wait_closed() => None,
            };
            let Some(prompt) = prompt else { break };
            part += 1;
            answer(&agent, &prompt, PartId(part), &release).await;
        }
        drop(prompts);
        agent.exit("exit code 0", "").await;
    }
}

async fn answer(agent: &FakeAgent, prompt: &str, part: PartId, release: &Notify) {
    agent.emit(DriverEvent::TurnStarted(TurnCause::Prompt)).await;
    agent.emit(DriverEvent::MessageStarted).await;
    if prompt == "call" || prompt == "talk" {
        release.notified().await;
    }
    if prompt == "call" {
        assert!(agent.inject_steer().await.is_some());
        agent.emit(DriverEvent::MessageStarted).await;
    }
    agent.emit(DriverEvent::PartStarted { part, kind: PartKind::Text }).await;
    agent.emit(DriverEvent::PartDelta { part, text: "words".to_owned() }).await;
    let outcome = if prompt == "hang" {
        agent.wait_interrupted().await;
        TurnOutcome::Interrupted
    } else {
        TurnOutcome::Completed { empty: false }
    };
    agent.emit(DriverEvent::Usage(TokenUsage::default())).await;
    agent.end_turn(outcome).await;
}

#[tokio::test]
async fn fake_driver_conforms() {
    let (driver, starts) = FakeDriver::new();
    let release = Arc::new(Notify::new());
    let player = tokio::spawn(play(starts, Arc::clone(&release)));
    let subject = DriverUnderTest {
        driver,
        open_spec: Box::new(spec),
        answered_prompt: "hello".to_owned(),
        tool_call_prompt: "call".to_owned(),
        text_only_prompt: "talk".to_owned(),
        hanging_prompt: "hang".to_owned(),
        hold_turns: Box::new(|| {}),
        release_turn: Box::new(move || release.notify_one()),
    };
    tokio::select! {
        () = conformance::check_all(&subject) => {}
        played = player => panic!("the player ended: {played:?}"),
    }
}
