//! A place for one test's agent: directories, driver, and what is left afterwards.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use hostler_claude::{ClaudeConfig, ClaudeDriver, Executable};
use hostler_driver::{
    ClosedGate, ConversationStart, Driver, DriverEvent, Endpoint, OpenError, OpenSpec, Opened, Prompt, TurnOutcome,
};
use hostler_process::ConversationLock;
use hostler_testkit::fake_agent;
use uuid::Uuid;

pub(crate) const BEARER: &str = "planted-nonce.planted-id";

/// A place for one test's agent.
pub(crate) struct Bed {
    pub(crate) root: tempfile::TempDir,
    pub(crate) agent: Vec<(OsString, OsString)>,
    pub(crate) config: ClaudeConfig,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["run", "project", "config"] {
            std::fs::create_dir(root.path().join(directory)).unwrap();
        }
        let executable = Executable::from_path(fake_agent::path().unwrap());
        let mut config = ClaudeConfig::new(executable, fake_agent::supervisor().unwrap(), root.path().join("run"));
        config.holder = "the test".to_owned();
        config.host_environment = vec![
            ("PATH".into(), std::env::var_os("PATH").unwrap()),
            ("UPSTREAM_KEY".into(), "planted-upstream-key".into()),
            ("ANTHROPIC_API_KEY".into(), "planted-anthropic-key".into()),
        ];
        config.upstream_credentials = vec!["UPSTREAM_KEY".into()];
        let bed = Self { agent: Vec::new(), config, root };
        let (config, log, pids) = (bed.path("config"), bed.path("log"), bed.path("pids"));
        bed.with("CLAUDE_CONFIG_DIR", config).with("FAKE_AGENT_LOG", log).with("FAKE_AGENT_PIDS", pids)
    }

    /// An agent that misbehaves at its start.
    pub(crate) fn behaving(behaviour: &str) -> Self {
        Self::new().with("FAKE_AGENT", behaviour)
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.agent.push((name.into(), value.into()));
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn driver(&self) -> ClaudeDriver {
        let mut config = self.config.clone();
        config.agent_env = self.agent.clone();
        ClaudeDriver::new(config)
    }

    pub(crate) fn spec(&self, conversation: ConversationStart) -> OpenSpec {
        OpenSpec {
            conversation,
            working_directory: self.path("project"),
            model: "fake-model".to_owned(),
            web_search: false,
            permission_mode: "default".to_owned(),
            effort: None,
            thinking_budget: None,
            more_directories: Vec::new(),
            folder_configuration: hostler_driver::FolderConfiguration::Ignored,
            gatekeeper: Arc::new(ClosedGate),
            endpoint: Endpoint { base_url: "http://127.0.0.1:9".to_owned(), bearer: BEARER.to_owned().into() },
        }
    }

    pub(crate) async fn open(&self) -> Opened {
        self.driver().open(self.spec(ConversationStart::New(Uuid::new_v4()))).await.unwrap()
    }

    pub(crate) async fn open_fails(&self) -> OpenError {
        let id = Uuid::new_v4();
        let error = self.driver().open(self.spec(ConversationStart::New(id))).await.unwrap_err();
        self.nothing_is_left(id);
        error
    }

    /// Copies of configuration that agents were started on.
    pub(crate) fn stages(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("run")).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("workspace-")).collect()
    }

    /// No agent that ever ran here still does, no copy of configuration is there, and the conversation is free.
    pub(crate) fn nothing_is_left(&self, conversation: Uuid) {
        for pid in self.logged_pids() {
            assert!(!alive(pid), "agent {pid} is alive");
        }
        assert_eq!(self.stages(), Vec::<PathBuf>::new());
        drop(ConversationLock::acquire(&self.path("run"), &conversation.to_string(), "the check").unwrap());
    }

    pub(crate) fn log(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn logged_pids(&self) -> Vec<u32> {
        self.log().iter().map(|record| record["pid"].as_u64().unwrap().try_into().unwrap()).collect()
    }

    /// The child that the last `fork` left behind.
    pub(crate) fn forked_pid(&self) -> u32 {
        let pids = std::fs::read_to_string(self.path("pids")).unwrap();
        pids.lines().last().unwrap().parse().unwrap()
    }
}

/// Whether a process exists and is not a zombie.
pub(crate) fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

/// Everything up to and including the turn's end (or the agent's).
pub(crate) async fn turn(opened: &mut Opened) -> Vec<DriverEvent> {
    let mut events = Vec::new();
    while let Some(event) = opened.events.recv().await {
        let last = matches!(event, DriverEvent::TurnEnded(_) | DriverEvent::Gone { .. });
        events.push(event);
        if last {
            return events;
        }
    }
    panic!("the channel closed without a last event: {events:?}")
}

pub(crate) async fn say(opened: &mut Opened, prompt: &str) -> Vec<DriverEvent> {
    opened.connection.send(Prompt::new(prompt)).await.unwrap();
    turn(opened).await
}

pub(crate) fn text(events: &[DriverEvent]) -> String {
    events
        .iter()
        .filter_map(|event| if let DriverEvent::Delta { text, .. } = event { Some(text.as_str()) } else { None })
        .collect()
}

pub(crate) fn outcome(events: &[DriverEvent]) -> &TurnOutcome {
    match events.last() {
        Some(DriverEvent::TurnEnded(outcome)) => outcome,
        other => panic!("not a turn's end: {other:?}"),
    }
}

pub(crate) async fn until_delta(opened: &mut Opened) {
    while !matches!(opened.events.recv().await.unwrap(), DriverEvent::Delta { .. }) {}
}
