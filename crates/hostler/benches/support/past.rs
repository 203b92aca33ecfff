//! A state directory with a long past: made by the engine itself, with an agent that answers at once.
#![allow(dead_code, unreachable_pub, reason = "each benchmark uses its own part")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostler_driver::Endpoint;
use hostler_engine::{
    ABSENCE, AttachmentLimits, BackgroundOnStop, CreateSession, Deliveries, Delivery, Dispatch, Engine, EngineConfig,
    FleetConfig, GrantPolicy, Lease, ModelGateway, ModelInfo, PermissionConfig, StoreOptions, Subscriber, SystemClock,
    default_chat_uri,
};
use hostler_testkit::fake_driver::{FakeAgent, FakeDriver, FakeStarts};
use serde_json::json;

#[path = "../../../hostler-engine/tests/common/commands.rs"]
mod commands;

struct NoGateway;

impl ModelGateway for NoGateway {
    fn models(&self) -> Vec<ModelInfo> {
        vec![ModelInfo { id: "m".into(), name: "M".into(), context_window: None, max_output: None, vision: None }]
    }

    fn lease(&self, _session: &str, _chat: &str, model: &str) -> Lease {
        let endpoint = Endpoint { base_url: "http://127.0.0.1:1".into(), bearer: "nonce.id".into() };
        Lease::new(endpoint, model.to_owned(), false, ())
    }
}

/// A host that nobody measures.
pub struct Past {
    engine: Engine,
    starts: FakeStarts,
    subscriber: Subscriber,
    deliveries: Deliveries,
}

impl Past {
    pub async fn begin(state: &Path, work: &Path) -> Self {
        std::fs::create_dir_all(state).expect("a directory");
        std::fs::set_permissions(state, std::fs::Permissions::from_mode(0o700)).expect("a directory of our own");
        let (driver, starts) = FakeDriver::new();
        let engine = Engine::start(EngineConfig {
            store: StoreOptions::new(state),
            drivers: vec![driver],
            gateway: Arc::new(NoGateway),
            default_directory: work.to_owned(),
            grants: GrantPolicy::default(),
            session_roots: hostler_engine::SessionRoots::default(),
            interrupt_grace: Duration::from_secs(2),
            background_on_stop: BackgroundOnStop::default(),
            max_queue: hostler_engine::MAX_QUEUE,
            turns_in_memory: hostler_engine::TURNS_IN_MEMORY,
            permissions: PermissionConfig::default(),
            absence: ABSENCE,
            clock: Arc::new(SystemClock::default()),
            fleet: FleetConfig::default(),
            attachments: AttachmentLimits::default(),
            commands: Arc::new(commands::PlainCommands),
            shell: false,
            terminals: None,
            session_defaults: Default::default(),
            show_external: None,
            search: false,
            trust: hostler_engine::TrustOptions::default(),
        });
        let (subscriber, deliveries) = Subscriber::new(100_000);
        Self { engine: engine.await.expect("an engine"), starts, subscriber, deliveries }
    }

    /// A session with so many turns, each with an answer of so many bytes.
    pub async fn session(&mut self, session: &str, turns: usize, bytes: usize) {
        self.engine.create_session(CreateSession { uri: session.into(), ..CreateSession::default() }).expect("created");
        let chat = default_chat_uri(session);
        self.engine.subscribe(&chat, &self.subscriber, 1).await.expect("subscribed");
        let words = "some words of an answer ".repeat(bytes / 24);
        let mut agent: Option<FakeAgent> = None;
        for turn in 0..turns {
            let message = json!({"text": format!("question {turn} about {session}"), "origin": {"kind": "user"}});
            let action = json!({"type": "chat/turnStarted", "turnId": format!("turn-{turn}"), "message": message,
                                "startedAt": "2026-11-15T08:00:00.000Z"});
            let action = serde_json::from_value(action).expect("an action");
            let (client_id, contents) = ("bench".to_owned(), Default::default());
            let dispatch = Dispatch { client_id, client_seq: 0, channel: chat.clone(), action, from: None, contents };
            self.engine.dispatch(dispatch).await;
            if agent.is_none() {
                agent = Some(self.starts.next().await.succeed());
            }
            let agent = agent.as_mut().expect("an agent");
            agent.prompt().await;
            agent.answer(turn as u64 + 1, &words, "").await;
            self.heard("chat/turnComplete").await;
        }
        self.engine.unsubscribe(&chat, self.subscriber.id());
    }

    async fn heard(&mut self, kind: &str) {
        let kind = format!(r#""type":"{kind}""#);
        loop {
            match self.deliveries.recv().await.expect("the engine is alive") {
                Delivery::Envelope(item) if item.action_json.contains(&kind) => return,
                _ => {}
            }
        }
    }

    pub async fn end(self) {
        self.engine.shutdown().await;
    }
}

/// A number that the benchmark was started with.
pub fn option(name: &str, usual: usize) -> usize {
    let mut args = std::env::args().skip_while(|arg| arg != name).skip(1);
    args.next().map_or(usual, |number| number.parse().expect("a number"))
}

/// The highest resident memory that a process ever had, in MiB.
pub fn peak(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the host is alive");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
    kilobytes / 1024.0
}
