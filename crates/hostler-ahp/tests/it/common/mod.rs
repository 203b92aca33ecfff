//! An engine with a fake driver behind the AHP surface.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses only a part")]

#[path = "../../../../hostler-engine/tests/it/common/commands.rs"]
mod commands;

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostler_ahp::{
    AccessPolicy, AhpConnectionLimits, BrowserSessions, MemoryConnection, ServerConfig, connect_in_memory,
};
use hostler_driver::GatewayEndpoint;
use hostler_engine::{
    BackgroundOnStop, DEFAULT_CLIENT_ABSENCE_TIMEOUT, Engine, EngineConfig, GrantPolicy, ModelGateway, ModelInfo,
    ModelLease, PermissionConfig, StoreOptions,
};
use hostler_testkit::fake_driver::{FakeAgent, FakeAgentStarts, FakeDriver};
use serde_json::{Value, json};

struct NoGateway;

impl ModelGateway for NoGateway {
    fn models(&self) -> Vec<ModelInfo> {
        vec![ModelInfo {
            id: "m".into(),
            name: "M".into(),
            context_window: Some(7),
            max_output_tokens: None,
            supports_vision: None,
        }]
    }
    fn lease(&self, _session: &str, _chat: &str, model: &str) -> ModelLease {
        let endpoint = GatewayEndpoint { base_url: "http://127.0.0.1:1".into(), bearer: "nonce.id".into() };
        ModelLease::new(endpoint, model.to_owned(), false, ())
    }
}

/// A listener that accepts every program on this machine and has no HTTP handler.
pub fn open_server_config() -> ServerConfig {
    ServerConfig {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        tls: None,
        access: AccessPolicy::default(),
        limits: AhpConnectionLimits::default(),
        logs: None,
        browser_sessions: BrowserSessions::default(),
        http_handler: None,
    }
}

pub struct Rig {
    pub engine: Engine,
    pub starts: FakeAgentStarts,
    pub dir: tempfile::TempDir,
    work: tempfile::TempDir,
    grants: GrantPolicy,
}

pub async fn rig() -> Rig {
    rig_granting(GrantPolicy::default()).await
}

/// A host with its own policy for grants.
pub async fn rig_granting(grants: GrantPolicy) -> Rig {
    host(tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), grants).await
}

impl Rig {
    /// Stops this host and starts another one on the same state directory.
    pub async fn restart(self) -> Self {
        self.engine.shutdown().await;
        host(self.dir, self.work, self.grants).await
    }

    /// Working directory of sessions that name none.
    pub fn work(&self) -> &Path {
        self.work.path()
    }
}

async fn host(dir: tempfile::TempDir, work: tempfile::TempDir, grants: GrantPolicy) -> Rig {
    let (driver, starts) = FakeDriver::new();
    let config = EngineConfig {
        store: StoreOptions::new(dir.path()),
        drivers: vec![driver],
        gateway: Arc::new(NoGateway),
        default_directory: work.path().to_owned(),
        grant_policy: grants,
        session_roots: hostler_engine::SessionRoots::default(),
        interrupt_grace: Duration::from_secs(2),
        background_on_stop: BackgroundOnStop::default(),
        max_queued_messages: hostler_engine::DEFAULT_MAX_QUEUED_MESSAGES,
        // The minimum, so that every test has turns that are not in memory.
        turns_in_memory: 1,
        permissions: PermissionConfig::default(),
        client_absence_timeout: DEFAULT_CLIENT_ABSENCE_TIMEOUT,
        clock: Arc::new(hostler_engine::SystemClock::default()),
        agent_pool: hostler_engine::AgentPoolConfig::default(),
        attachment_limits: hostler_engine::AttachmentLimits::default(),
        command_runner: Arc::new(commands::PlainCommands),
        allow_shell_commands: true,
        terminals: None,
        session_defaults: Default::default(),
        external_session_filter: None,
        enable_search: true,
        trust: hostler_engine::TrustOptions::default(),
    };
    Rig { engine: Engine::start(config).await.unwrap(), starts, dir, work, grants }
}

/// A client that sends raw JSON.
pub struct Raw {
    connection: MemoryConnection,
    next: u64,
    /// The client sequence number of the last dispatch.
    pub seq: i64,
    pub received: Vec<Value>,
}

impl Raw {
    pub fn connect(rig: &Rig) -> Self {
        Self::connect_with(rig, AhpConnectionLimits::default())
    }

    pub fn connect_with(rig: &Rig, limits: AhpConnectionLimits) -> Self {
        Self { connection: connect_in_memory(&rig.engine, limits), next: 0, seq: 0, received: Vec::new() }
    }

    pub async fn initialized(rig: &Rig) -> Self {
        Self::speaking(rig, "1.0.0").await
    }

    /// A client that subscribes to a chat, the chat's URI, and the agent, which has received the message of turn `t1`.
    pub async fn begun(rig: &mut Rig, session: &str) -> (Self, String, FakeAgent) {
        let mut raw = Self::initialized(rig).await;
        raw.call("createSession", json!({"channel": session})).await.unwrap();
        let chat = hostler_engine::default_chat_uri(session);
        raw.call("subscribe", json!({"channel": chat})).await.unwrap();
        let message = json!({"text": "hi", "origin": {"kind": "user"}});
        let started = json!({"type": "chat/turnStarted", "turnId": "t1", "startedAt": "2026-11-15T08:00:00.000Z", "message": message});
        raw.dispatch(&chat, started).await;
        let mut agent = rig.starts.next_start().await.succeed();
        agent.next_prompt().await;
        (raw, chat, agent)
    }

    /// A client of this version.
    pub async fn speaking(rig: &Rig, version: &str) -> Self {
        let mut raw = Self::connect(rig);
        let params = json!({"protocolVersions": [version], "clientId": "raw", "initialSubscriptions": ["ahp-root://"]});
        raw.call("initialize", params).await.unwrap();
        raw
    }

    pub async fn send(&mut self, text: &str) {
        self.connection.sender.send(text.to_owned()).await.unwrap();
    }

    /// The next message; `None` when the host has closed the connection.
    pub async fn receive(&mut self) -> Option<Value> {
        let wait = tokio::time::timeout(Duration::from_secs(30), self.connection.receiver.recv()).await;
        let frame = wait.unwrap_or_else(|_| panic!("nothing more was received after {:#?}", self.received))?;
        let value: Value = serde_json::from_slice(&frame).unwrap();
        self.received.push(value.clone());
        Some(value)
    }

    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
        loop {
            let mut message = self.receive().await.expect("an answer");
            if message["id"] == id {
                assert_eq!(message["jsonrpc"], "2.0");
                return match message.get_mut("error") {
                    Some(error) => Err(error.take()),
                    None => {
                        assert!(message.get("result").is_some(), "a result is always there, be it null");
                        Ok(message["result"].take())
                    }
                };
            }
        }
    }

    pub async fn code(&mut self, method: &str, params: Value) -> i64 {
        let error = self.call(method, params).await.expect_err("an error");
        assert!(!error["message"].as_str().unwrap().is_empty());
        error["code"].as_i64().unwrap()
    }

    pub async fn dispatch(&mut self, channel: &str, action: Value) {
        self.seq += 1;
        let params = json!({"channel": channel, "clientSeq": self.seq, "action": action});
        self.send(&json!({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}).to_string()).await;
    }

    /// Waits for an envelope of this type.
    pub async fn envelope(&mut self, kind: &str) -> Value {
        loop {
            let mut message = self.receive().await.expect("an envelope");
            if message["method"] == "action" && message["params"]["action"]["type"] == kind {
                return message["params"].take();
            }
        }
    }
}
