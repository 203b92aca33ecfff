//! Driver without a host, with one of the real builds, on a scripted model that records its requests.

use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use hostler_attachments::AttachmentBlock;
use hostler_claude::{ClaudeConfig, ClaudeDriver, Executable};
use hostler_driver::{
    CloseMode, ConversationStart, Driver as _, DriverEvent, GateDecision, GatedCall, GatewayEndpoint, OpenSpec,
    OpenedConnection, PermissionGate, Prompt, SteeringMessage, SteeringMessageId,
};
use serde_json::Value;
use uuid::Uuid;

use crate::common::scripted_upstream::ScriptedUpstreamServer;
use crate::common::{TEST_TIMEOUT, TestHome, claude_executable, supervisor_command};

/// Running agent and its environment.
pub(crate) struct DriverFixture {
    pub(crate) build: &'static str,
    pub(crate) environment: DriverEnvironment,
    pub(crate) conversation: Uuid,
    pub(crate) opened: OpenedConnection,
    /// All events of the agent.
    pub(crate) received: Vec<DriverEvent>,
}

/// Directories and a model for one build's agents.
pub(crate) struct DriverEnvironment {
    build: &'static str,
    pub(crate) home: TestHome,
    pub(crate) model: ScriptedUpstreamServer,
}

/// Gatekeeper with a fixed decision.
struct FixedGatekeeper(GateDecision);

impl PermissionGate for FixedGatekeeper {
    fn decide(self: Arc<Self>, _: GatedCall) -> BoxFuture<'static, GateDecision> {
        ready(self.0.clone()).boxed()
    }
}

impl DriverEnvironment {
    pub(crate) async fn new(build: &'static str) -> Self {
        Self { build, home: TestHome::new(), model: ScriptedUpstreamServer::start().await }
    }

    pub(crate) fn driver(&self) -> ClaudeDriver {
        let executable = Executable::from_path(claude_executable(self.build));
        let mut config = ClaudeConfig::new(executable, supervisor_command(), self.home.path("run"));
        config.host_environment = std::env::vars_os().collect();
        config.agent_env = vec![
            ("CLAUDE_CONFIG_DIR".into(), self.home.path("claude").into()),
            ("HOME".into(), self.home.path("home").into()),
            ("TMPDIR".into(), self.home.path("run").into()),
        ];
        ClaudeDriver::new(config)
    }

    pub(crate) fn spec(&self, gate: GateDecision) -> OpenSpec {
        OpenSpec {
            conversation: ConversationStart::New(Uuid::new_v4()),
            working_directory: self.home.work(),
            model: "claude-sonnet-4-5".to_owned(),
            web_search: false,
            permission_mode: "default".to_owned(),
            effort: None,
            thinking_budget: None,
            additional_directories: Vec::new(),
            folder_configuration: hostler_driver::FolderConfiguration::Ignored,
            endpoint: GatewayEndpoint { base_url: self.model.url.clone(), bearer: "nonce.id".to_owned().into() },
            permission_gate: Arc::new(FixedGatekeeper(gate)),
        }
    }
}

impl DriverFixture {
    pub(crate) async fn open(build: &'static str) -> Self {
        Self::open_with(build, GateDecision::Allow, |_| {}).await
    }

    pub(crate) async fn open_with(build: &'static str, gate: GateDecision, change: impl FnOnce(&mut OpenSpec)) -> Self {
        let place = DriverEnvironment::new(build).await;
        let mut spec = place.spec(gate);
        change(&mut spec);
        let conversation = spec.conversation.id();
        let opened = place.driver().open(spec).await.unwrap();
        Self { build, environment: place, conversation, opened, received: Vec::new() }
    }

    /// Returns a file in the working directory, which a command may wait for.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.environment.home.work().join(name)
    }

    pub(crate) async fn send(&self, prompt: &str) {
        self.send_with(prompt, Vec::new()).await;
    }

    /// Does the same with attachments.
    pub(crate) async fn send_with(&self, prompt: &str, blocks: Vec<AttachmentBlock>) {
        self.opened.connection.send(Prompt::new(prompt).with_blocks(blocks)).await.unwrap();
    }

    pub(crate) fn steer(&self, id: &str, text: &str) {
        self.steer_with(id, text, Vec::new());
    }

    /// Does the same with attachments.
    pub(crate) fn steer_with(&self, id: &str, text: &str, blocks: Vec<AttachmentBlock>) {
        let text = Prompt::new(text).with_blocks(blocks);
        self.opened.connection.steer(SteeringMessage { id: SteeringMessageId(id.to_owned()), prompt: text });
    }

    /// Returns the blocks of the last user message that the model received.
    pub(crate) fn last_user_blocks(&self) -> Vec<Value> {
        let requests = self.environment.model.requests();
        let messages = requests.last().expect("a request").body["messages"].as_array().cloned().unwrap_or_default();
        let last = messages.into_iter().rfind(|message| message["role"] == "user").expect("a message");
        last["content"].as_array().cloned().unwrap_or_default()
    }

    /// Waits for an event, and returns all up to it.
    pub(crate) async fn wait_for(&mut self, what: &str, wanted: impl Fn(&DriverEvent) -> bool) -> Vec<DriverEvent> {
        let mut events = Vec::new();
        loop {
            let next = tokio::time::timeout(TEST_TIMEOUT, self.opened.events.recv()).await;
            let Ok(Some(event)) = next else { panic!("{}: no {what} but {next:?} after {events:#?}", self.build) };
            let found = wanted(&event);
            self.received.push(event.clone());
            events.push(event);
            if found {
                return events;
            }
        }
    }

    pub(crate) async fn wait_for_turn_end(&mut self) -> Vec<DriverEvent> {
        self.wait_for("end of the turn", |event| matches!(event, DriverEvent::TurnEnded(_))).await
    }

    pub(crate) async fn wait_for_gate(&mut self) {
        self.wait_for("decision of the gate", |event| matches!(event, DriverEvent::ToolDecided { .. })).await;
    }

    /// Returns the bodies of the requests that contain a text.
    pub(crate) fn requests_with(&self, text: &str) -> Vec<String> {
        let all = self.environment.model.requests().into_iter().map(|request| request.body["messages"].to_string());
        all.filter(|body| body.contains(text)).collect()
    }

    pub(crate) async fn close(self) {
        self.opened.connection.close(CloseMode::Now).await;
    }
}

/// Returns a command that exits with this code when the file exists.
pub(crate) fn wait_for(file: &str, code: u8) -> String {
    format!("while [ ! -e {file} ]; do sleep 0.05; done; exit {code}")
}

/// Returns the markdown text of the events.
pub(crate) fn markdown_text(events: &[DriverEvent]) -> String {
    let delta = |event: &DriverEvent| match event {
        DriverEvent::PartDelta { text, .. } => Some(text.clone()),
        _ => None,
    };
    events.iter().filter_map(delta).collect()
}

/// Returns the steer receipts and the events around them.
pub(crate) fn steer_receipts(events: &[DriverEvent]) -> Vec<&str> {
    let receipt = |event| match event {
        &DriverEvent::SteerInjected(_) => Some("injected"),
        DriverEvent::SteerUndelivered(_) => Some("undelivered"),
        DriverEvent::MessageStarted => Some("answer"),
        DriverEvent::TurnEnded(_) => Some("end"),
        _ => None,
    };
    events.iter().filter_map(receipt).collect()
}
