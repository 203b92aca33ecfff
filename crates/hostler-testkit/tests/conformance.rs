//! The fake driver keeps what every driver owes the engine, if the test that plays its agents does.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::sync::Arc;

use hostler_driver::{
    ClosedGate, ConversationStart, DriverEvent, Endpoint, OpenSpec, PartId, PartKind, TokenUsage, TurnCause,
    TurnOutcome,
};
use hostler_testkit::conformance::{self, Subject};
use hostler_testkit::fake_driver::{FakeAgent, FakeDriver, FakeStarts};
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
        more_directories: Vec::new(),
        folder_configuration: hostler_driver::FolderConfiguration::Ignored,
        gatekeeper: Arc::new(ClosedGate),
        endpoint: Endpoint { base_url: String::new(), bearer: String::new().into() },
    }
}

async fn play(mut starts: FakeStarts, release: Arc<Notify>) {
    loop {
        let mut agent = starts.next().await.succeed();
        let mut prompts = std::mem::replace(&mut agent.prompts, mpsc::channel(1).1);
        let mut part = 0;
        loop {
            let prompt = tokio::select! {
                prompt = prompts.recv() => prompt,
                _ = agent.closed() => None,
            };
            let Some(prompt) = prompt else { break };
            part += 1;
            answer(&agent, &prompt, PartId(part), &release).await;
        }
        drop(prompts);
        agent.die("exit code 0", "").await;
    }
}

async fn answer(agent: &FakeAgent, prompt: &str, part: PartId, release: &Notify) {
    agent.emit(DriverEvent::TurnBegan(TurnCause::Prompt)).await;
    agent.emit(DriverEvent::MessageStarted).await;
    if prompt == "call" || prompt == "talk" {
        release.notified().await;
    }
    if prompt == "call" {
        assert!(agent.inject().await.is_some());
        agent.emit(DriverEvent::MessageStarted).await;
    }
    agent.emit(DriverEvent::PartStarted { part, kind: PartKind::Text }).await;
    agent.emit(DriverEvent::Delta { part, text: "words".to_owned() }).await;
    let outcome = if prompt == "hang" {
        agent.interrupted().await;
        TurnOutcome::Interrupted
    } else {
        TurnOutcome::Completed { empty: false }
    };
    agent.emit(DriverEvent::Usage(TokenUsage::default())).await;
    agent.end(outcome).await;
}

#[tokio::test]
async fn the_fake_driver_conforms() {
    let (driver, starts) = FakeDriver::new();
    let release = Arc::new(Notify::new());
    let player = tokio::spawn(play(starts, Arc::clone(&release)));
    let subject = Subject {
        driver,
        spec: Box::new(spec),
        answered: "hello".to_owned(),
        calls: "call".to_owned(),
        talks: "talk".to_owned(),
        hangs: "hang".to_owned(),
        hold: Box::new(|| {}),
        release: Box::new(move || release.notify_one()),
    };
    tokio::select! {
        () = conformance::all(&subject) => {}
        played = player => panic!("the player ended: {played:?}"),
    }
}
