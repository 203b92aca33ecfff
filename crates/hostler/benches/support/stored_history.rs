//! Generates a state directory with a long history: written by the engine itself, with an agent that answers at
//! once.
#![allow(dead_code, unreachable_pub, reason = "each benchmark uses its own part")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostler_driver::GatewayEndpoint;
use hostler_engine::{
    AgentPoolConfig, AttachmentLimits, BackgroundOnStop, CreateSession, DEFAULT_CLIENT_ABSENCE_TIMEOUT, Deliveries,
    Delivery, Dispatch, Engine, EngineConfig, GrantPolicy, ModelGateway, ModelInfo, ModelLease, PermissionConfig,
    StoreOptions, Subscriber, SystemClock, default_chat_uri,
};
use hostler_testkit::fake_driver::{FakeAgent, FakeAgentStarts, FakeDriver};
use serde_json::json;

#[path = "../../../hostler-engine/tests/it/common/commands.rs"]
mod commands;

struct NoGateway;

impl ModelGateway for NoGateway {
    fn models(&self) -> Vec<ModelInfo> {
        vec![ModelInfo {
            id: "m".into(),
            name: "M".into(),
            context_window: None,
            max_output_tokens: None,
            supports_vision: None,
        }]
    }

    fn lease(&self, _session: &str, _chat: &str, model: &str) -> ModelLease {
        let endpoint = GatewayEndpoint { base_url: "http://127.0.0.1:1".into(), bearer: "nonce.id".into() };
        ModelLease::new(endpoint, model.to_owned(), false, ())
    }
}

/// Host that writes the history and is not measured.
pub struct HistoryGenerator {
    engine: Engine,
    starts: FakeAgentStarts,
    subscriber: Subscriber,
    deliveries: Deliveries,
}

impl HistoryGenerator {
    pub async fn start(state: &Path, work: &Path) -> Self {
        std::fs::create_dir_all(state).expect("a directory");
        std::fs::set_permissions(state, std::fs::Permissions::from_mode(0o700)).expect("a directory of our own");
        let (driver, starts) = FakeDriver::new();
        let engine = Engine::start(local_engine_config(state, work, driver));
        let (subscriber, deliveries) = Subscriber::new(100_000);
        Self { engine: engine.await.expect("an engine"), starts, subscriber, deliveries }
    }

    /// Adds a session with this many turns, each with a response of this many bytes.
    pub async fn add_session(&mut self, session: &str, turns: usize, bytes: usize) {
        self.engine.create_session(CreateSession { uri: session.into(), ..CreateSession::default() }).expect("created");
        let chat = default_chat_uri(session);
        self.engine.subscribe(&chat, &self.subscriber, 1).await.expect("subscribed");
        let answer = "some text of an answer ".repeat(bytes / 24);
        let mut agent: Option<FakeAgent> = None;
        for turn in 0..turns {
            let message = json!({"text": format!("question {turn} about {session}"), "origin": {"kind": "user"}});
            let action = json!({"type": "chat/turnStarted", "turnId": format!("turn-{turn}"), "message": message,
                                "startedAt": "2026-11-15T08:00:00.000Z"});
            let action = serde_json::from_value(action).expect("an action");
            let (client_id, contents) = ("bench".to_owned(), Default::default());
            let dispatch = Dispatch {
                client_id,
                client_seq: 0,
                channel: chat.clone(),
                action,
                subscriber: None,
                attachment_contents: contents,
                facts: Default::default(),
            };
            self.engine.dispatch(dispatch).await;
            if agent.is_none() {
                agent = Some(self.starts.next_start().await.succeed());
            }
            let agent = agent.as_mut().expect("an agent");
            agent.next_prompt().await;
            agent.emit_answer(turn as u64 + 1, &answer, "").await;
            self.wait_for_action("chat/turnComplete").await;
        }
        self.engine.unsubscribe(&chat, self.subscriber.id());
    }

    async fn wait_for_action(&mut self, kind: &str) {
        let kind = format!(r#""type":"{kind}""#);
        loop {
            match self.deliveries.recv().await.expect("the engine is alive") {
                Delivery::Envelope(item) if item.action_json.contains(&kind) => return,
                _ => {}
            }
        }
    }

    pub async fn finish(self) {
        self.engine.shutdown().await;
    }
}

/// Returns the configuration of a host in this process, whose agents the benchmark controls.
pub fn local_engine_config(state: &Path, work: &Path, driver: Arc<FakeDriver>) -> EngineConfig {
    EngineConfig {
        store: StoreOptions::new(state),
        drivers: vec![driver],
        gateway: Arc::new(NoGateway),
        default_directory: work.to_owned(),
        grant_policy: GrantPolicy::default(),
        session_roots: hostler_engine::SessionRoots::default(),
        interrupt_grace: Duration::from_secs(2),
        background_on_stop: BackgroundOnStop::default(),
        max_queued_messages: hostler_engine::DEFAULT_MAX_QUEUED_MESSAGES,
        turns_in_memory: hostler_engine::DEFAULT_TURNS_IN_MEMORY,
        permissions: PermissionConfig::default(),
        client_absence_timeout: DEFAULT_CLIENT_ABSENCE_TIMEOUT,
        clock: Arc::new(SystemClock::default()),
        agent_pool: AgentPoolConfig::default(),
        attachment_limits: AttachmentLimits::default(),
        command_runner: Arc::new(commands::PlainCommands),
        allow_shell_commands: false,
        terminals: None,
        session_defaults: Default::default(),
        external_session_filter: None,
        enable_search: false,
        trust: hostler_engine::TrustOptions::default(),
    }
}

/// Returns a numeric option of the benchmark.
pub fn number_option(name: &str, usual: usize) -> usize {
    let mut args = std::env::args().skip_while(|arg| arg != name).skip(1);
    args.next().map_or(usual, |number| number.parse().expect("a number"))
}

/// Returns the peak resident memory of a process, in MiB.
pub fn peak_memory_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the host is alive");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
    kilobytes / 1024.0
}
