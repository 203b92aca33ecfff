//! The driver alone with one of the real builds, on a scripted model that remembers what it was asked.

use std::path::PathBuf;
use std::sync::Arc;

use hostler_attachments::Block;
use hostler_claude::{ClaudeConfig, ClaudeDriver, Executable};
use hostler_driver::{
    CloseMode, ConversationStart, Driver as _, DriverEvent, Endpoint, Gate, GatedCall, Gatekeeper, OpenSpec, Opened,
    Prompt, Steer, SteerId,
};
use serde_json::Value;
use uuid::Uuid;

use crate::common::upstream::ScriptedServer;
use crate::common::{Home, PATIENCE, executable, supervisor};

/// One agent, and where it lives.
pub(crate) struct Bed {
    pub(crate) build: &'static str,
    pub(crate) place: Place,
    pub(crate) conversation: Uuid,
    pub(crate) opened: Opened,
    /// Everything that the agent did.
    pub(crate) seen: Vec<DriverEvent>,
}

/// Directories and a model for one build's agents.
pub(crate) struct Place {
    build: &'static str,
    pub(crate) home: Home,
    pub(crate) model: ScriptedServer,
}

/// What the gate says about everything.
struct Says(Gate);

impl Gatekeeper for Says {
    fn decide(&self, _: &GatedCall<'_>) -> Gate {
        self.0.clone()
    }
}

impl Place {
    pub(crate) async fn new(build: &'static str) -> Self {
        Self { build, home: Home::new(), model: ScriptedServer::start().await }
    }

    pub(crate) fn driver(&self) -> ClaudeDriver {
        let executable = Executable::from_path(executable(self.build));
        let mut config = ClaudeConfig::new(executable, supervisor(), self.home.path("run"));
        config.host_environment = std::env::vars_os().collect();
        config.agent_env = vec![
            ("CLAUDE_CONFIG_DIR".into(), self.home.path("claude").into()),
            ("HOME".into(), self.home.path("home").into()),
            ("TMPDIR".into(), self.home.path("run").into()),
        ];
        ClaudeDriver::new(config)
    }

    pub(crate) fn spec(&self, gate: Gate) -> OpenSpec {
        OpenSpec {
            conversation: ConversationStart::New(Uuid::new_v4()),
            working_directory: self.home.work(),
            model: "claude-sonnet-4-5".to_owned(),
            web_search: false,
            permission_mode: "default".to_owned(),
            effort: None,
            thinking_budget: None,
            more_directories: Vec::new(),
            folder_configuration: hostler_driver::FolderConfiguration::Ignored,
            endpoint: Endpoint { base_url: self.model.url.clone(), bearer: "nonce.id".to_owned().into() },
            gatekeeper: Arc::new(Says(gate)),
        }
    }
}

impl Bed {
    pub(crate) async fn open(build: &'static str) -> Self {
        Self::open_with(build, Gate::Allow, |_| {}).await
    }

    pub(crate) async fn open_with(build: &'static str, gate: Gate, change: impl FnOnce(&mut OpenSpec)) -> Self {
        let place = Place::new(build).await;
        let mut spec = place.spec(gate);
        change(&mut spec);
        let conversation = spec.conversation.id();
        let opened = place.driver().open(spec).await.unwrap();
        Self { build, place, conversation, opened, seen: Vec::new() }
    }

    /// A file in the working directory, which a command may wait for.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.place.home.work().join(name)
    }

    pub(crate) async fn send(&self, prompt: &str) {
        self.send_with(prompt, Vec::new()).await;
    }

    /// The same, with something attached.
    pub(crate) async fn send_with(&self, prompt: &str, blocks: Vec<Block>) {
        self.opened.connection.send(Prompt::new(prompt).with_blocks(blocks)).await.unwrap();
    }

    pub(crate) fn steer(&self, id: &str, text: &str) {
        self.steer_with(id, text, Vec::new());
    }

    /// The same, with something attached.
    pub(crate) fn steer_with(&self, id: &str, text: &str, blocks: Vec<Block>) {
        let text = Prompt::new(text).with_blocks(blocks);
        self.opened.connection.steer(Steer { id: SteerId(id.to_owned()), text });
    }

    /// What the model was asked last: the blocks of the last message that a person, or a tool, said.
    pub(crate) fn asked(&self) -> Vec<Value> {
        let requests = self.place.model.requests();
        let messages = requests.last().expect("a request").body["messages"].as_array().cloned().unwrap_or_default();
        let last = messages.into_iter().rfind(|message| message["role"] == "user").expect("a message");
        last["content"].as_array().cloned().unwrap_or_default()
    }

    /// Waits for an event, and answers all up to it.
    pub(crate) async fn until(&mut self, what: &str, wanted: impl Fn(&DriverEvent) -> bool) -> Vec<DriverEvent> {
        let mut events = Vec::new();
        loop {
            let next = tokio::time::timeout(PATIENCE, self.opened.events.recv()).await;
            let Ok(Some(event)) = next else { panic!("{}: no {what} but {next:?} after {events:#?}", self.build) };
            let found = wanted(&event);
            self.seen.push(event.clone());
            events.push(event);
            if found {
                return events;
            }
        }
    }

    pub(crate) async fn end(&mut self) -> Vec<DriverEvent> {
        self.until("end of the turn", |event| matches!(event, DriverEvent::TurnEnded(_))).await
    }

    pub(crate) async fn gated(&mut self) {
        self.until("decision of the gate", |event| matches!(event, DriverEvent::ToolGated { .. })).await;
    }

    /// The bodies of the requests that hold a text.
    pub(crate) fn requests_with(&self, text: &str) -> Vec<String> {
        let all = self.place.model.requests().into_iter().map(|request| request.body["messages"].to_string());
        all.filter(|body| body.contains(text)).collect()
    }

    pub(crate) async fn close(self) {
        self.opened.connection.close(CloseMode::Now).await;
    }
}

/// A command that ends with this code when the file is there.
pub(crate) fn wait_for(file: &str, code: u8) -> String {
    format!("while [ ! -e {file} ]; do sleep 0.05; done; exit {code}")
}

/// What is said in the events.
pub(crate) fn text(events: &[DriverEvent]) -> String {
    let said = |event: &DriverEvent| match event {
        DriverEvent::Delta { text, .. } => Some(text.clone()),
        _ => None,
    };
    events.iter().filter_map(said).collect()
}

/// The receipts, and what they stand between.
pub(crate) fn receipts(events: &[DriverEvent]) -> Vec<&str> {
    let receipt = |event| match event {
        &DriverEvent::SteerInjected(_) => Some("told"),
        DriverEvent::SteerUndelivered(_) => Some("kept"),
        DriverEvent::MessageStarted => Some("answer"),
        DriverEvent::TurnEnded(_) => Some("end"),
        _ => None,
    };
    events.iter().filter_map(receipt).collect()
}
