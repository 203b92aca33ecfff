//! A host with a fake driver, and a client that checks every envelope with the protocol's own reducers.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of this module")]

pub mod commands;
pub mod log;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ahp::reducers::{apply_action_to_chat, apply_action_to_session};
use ahp_types::StateAction;
use ahp_types::actions::{ChatTurnCancelledAction, ChatTurnStartedAction};
use ahp_types::common::JsonObject;
use ahp_types::state::{ChatState, Message, MessageKind, MessageOrigin, ModelSelection, SessionState, Turn};
use hostler_driver::{DriverEvent, GatewayEndpoint, ResumeToken};
use hostler_engine::{
    AgentPoolConfig, AttachmentContents, AttachmentLimits, BackgroundOnStop, ChannelState, Clock, CreateSession,
    DEFAULT_CLIENT_ABSENCE_TIMEOUT, Delivery, Dispatch, Engine, EngineConfig, HostNotificationKind, JournalRetention,
    ModelGateway, ModelInfo, ModelLease, OlderTurns, PermissionConfig, PublishedAction, ROOT_CHANNEL_URI,
    ReconnectOutcome, ShellLauncher, StoreOptions, Subscriber, SystemClock, TerminalsConfig, default_chat_uri,
};
use hostler_testkit::fake_driver::{FakeAgent, FakeAgentStarts, FakeDriver};
use hostler_testkit::fake_transcript_store::FakeTranscriptStore;
use serde_json::Value;

pub const SESSION: &str = "claude:/0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a369f";

pub struct NoGateway;

impl ModelGateway for NoGateway {
    fn models(&self) -> Vec<ModelInfo> {
        let model = |id: &str, name: &str, vision| ModelInfo {
            id: id.into(),
            name: name.into(),
            context_window: None,
            max_output_tokens: None,
            supports_vision: vision,
        };
        vec![model("m", "M", None), model("blind", "Blind", Some(false))]
    }
    fn lease(&self, _session: &str, _chat: &str, model: &str) -> ModelLease {
        let endpoint = GatewayEndpoint { base_url: "http://127.0.0.1:1".into(), bearer: "nonce.id".into() };
        ModelLease::new(endpoint, model.to_owned(), false, ())
    }
}

/// Host options that tests change.
#[derive(Clone)]
pub struct Options {
    pub retention: JournalRetention,
    pub absence: Duration,
    pub clock: Arc<dyn Clock>,
    pub agent_pool: AgentPoolConfig,
    pub attachments: AttachmentLimits,
    pub background_on_stop: BackgroundOnStop,
    pub session_defaults: JsonObject,
    pub show_external: Option<hostler_engine::ExternalSessionFilter>,
    /// The minimum, so that every test has turns that are not in memory.
    pub turns_in_memory: usize,
    /// Launcher of shells in terminals; without it terminals are off.
    pub shells: Option<Arc<dyn ShellLauncher>>,
    /// Whether search is on; it reads the agents' transcripts in the background.
    pub search: bool,
    /// The agents' transcripts.
    pub transcript_store: Option<Arc<FakeTranscriptStore>>,
    /// The host's settings for workspace trust.
    pub trust: hostler_engine::TrustOptions,
    /// How long an agent may ignore an interrupt. Long: the test's own agents may be slow to obey.
    pub interrupt_grace: Duration,
}

/// For tests of agents that ignore an interrupt.
pub const SHORT_INTERRUPT_GRACE: Duration = Duration::from_millis(50);

impl Default for Options {
    fn default() -> Self {
        Self {
            retention: JournalRetention::default(),
            absence: DEFAULT_CLIENT_ABSENCE_TIMEOUT,
            clock: Arc::new(SystemClock::default()),
            agent_pool: AgentPoolConfig::default(),
            attachments: AttachmentLimits::default(),
            background_on_stop: BackgroundOnStop::default(),
            session_defaults: JsonObject::new(),
            show_external: None,
            turns_in_memory: 1,
            shells: None,
            search: false,
            transcript_store: None,
            trust: hostler_engine::TrustOptions::default(),
            interrupt_grace: Duration::from_secs(600),
        }
    }
}

pub struct Rig {
    pub engine: Engine,
    pub starts: FakeAgentStarts,
    pub state: PathBuf,
    pub work: PathBuf,
    /// Options of the next host.
    pub options: Options,
    temp_dir: Option<tempfile::TempDir>,
}

impl Rig {
    pub async fn start() -> Self {
        Self::start_with(Options::default()).await
    }

    /// Starts a host with these permissions. The next host has the default ones again.
    pub async fn with(permissions: PermissionConfig) -> Self {
        Self::start_as(Options::default(), permissions).await
    }

    pub async fn start_with(options: Options) -> Self {
        Self::start_as(options, PermissionConfig::default()).await
    }

    pub async fn start_as(options: Options, permissions: PermissionConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (state, work) = (dir.path().join("state"), dir.path().join("work"));
        std::fs::create_dir(&state).unwrap();
        std::fs::create_dir(&work).unwrap();
        let (engine, starts) = host(&state, &work, options.clone(), permissions).await;
        Self { engine, starts, state, work, options, temp_dir: Some(dir) }
    }

    /// Starts a host with one session and a subscribed client.
    pub async fn with_session() -> (Self, Listener) {
        let rig = Self::start().await;
        rig.create(SESSION);
        let listener = rig.listen(SESSION).await;
        (rig, listener)
    }

    /// The same; the agent has received the first message, of turn `t1`.
    pub async fn with_running_turn() -> (Self, Listener, FakeAgent) {
        let mut rig = Self::start().await;
        let (listener, agent) = rig.start_first_turn().await;
        (rig, listener, agent)
    }

    /// Creates the session; its agent has received the first message, of turn `t1`.
    pub async fn start_first_turn(&mut self) -> (Listener, FakeAgent) {
        self.create(SESSION);
        let listener = self.listen(SESSION).await;
        self.send_message(SESSION, "t1", "hi").await;
        let mut agent = self.starts.next_start().await.succeed();
        assert_eq!(agent.next_prompt().await, "hi");
        (listener, agent)
    }

    /// Creates the session; its first turn is complete and published.
    pub async fn run_first_turn(&mut self) -> Listener {
        let (mut listener, agent) = self.start_first_turn().await;
        agent.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
        agent.emit_answer(1, "hel", "lo").await;
        listener.until("chat/turnComplete").await;
        listener.until("session/chatUpdated").await;
        listener
    }

    /// What the client `me` receives when it reconnects: sequence numbers, and missing channels. `None` means
    /// snapshots.
    pub async fn missed(&self, last_seen: u64, channels: &[&str]) -> Option<(Vec<u64>, Vec<String>)> {
        let (subscriber, mut deliveries) = Subscriber::new(10_000);
        let channels: Vec<_> = channels.iter().map(|channel| (*channel).to_owned()).collect();
        match self.engine.reconnect("me", last_seen, &channels, &subscriber, 9).await.unwrap() {
            ReconnectOutcome::Replay { missing, .. } => match deliveries.recv().await.unwrap() {
                Delivery::Replay { token: 9, missed: Some(items) } => {
                    Some((items.iter().map(|item| item.seq).collect(), missing))
                }
                other => panic!("{other:?}"),
            },
            ReconnectOutcome::Snapshots { .. } => None,
        }
    }

    /// Shuts this host down and starts another one on the same state directory.
    pub async fn restart(self) -> Self {
        self.engine.shutdown().await;
        self.crash().await
    }

    /// Starts another host on the same state directory without ending this one's turns.
    pub async fn crash(mut self) -> Self {
        let temp_dir = self.temp_dir.take();
        let (engine, starts) = host(&self.state, &self.work, self.options.clone(), PermissionConfig::default()).await;
        Self {
            engine,
            starts,
            state: self.state.clone(),
            work: self.work.clone(),
            options: self.options.clone(),
            temp_dir,
        }
    }

    pub fn create(&self, uri: &str) {
        let directory = url::Url::from_file_path(&self.work).unwrap().to_string();
        let request =
            CreateSession { uri: uri.into(), working_directories: vec![directory], ..CreateSession::default() };
        self.engine.create_session(request).unwrap();
    }

    /// Subscribes a client to root, session and default chat.
    pub async fn listen(&self, uri: &str) -> Listener {
        let mut listener = Listener::new(uri);
        for (token, channel) in [(1, ROOT_CHANNEL_URI.to_owned()), (2, uri.to_owned()), (3, default_chat_uri(uri))] {
            self.engine.subscribe(&channel, &listener.subscriber, token).await.unwrap();
        }
        for _ in 0..3 {
            listener.snapshot().await;
        }
        listener
    }

    pub async fn send_message(&self, uri: &str, turn: &str, text: &str) {
        self.engine.dispatch(turn_started(uri, turn, text)).await;
    }

    pub async fn cancel(&self, uri: &str, turn: &str) {
        let action = ChatTurnCancelledAction { turn_id: turn.into(), duration: 5, meta: None };
        self.engine.dispatch(dispatch(uri, StateAction::ChatTurnCancelled(action))).await;
    }

    pub fn listed(&self) -> Vec<String> {
        let page = self.engine.list_sessions(None, None).unwrap();
        page.summaries().into_iter().map(|item| item.resource).collect()
    }
}

async fn host(state: &Path, work: &Path, options: Options, permissions: PermissionConfig) -> (Engine, FakeAgentStarts) {
    let transcript_store =
        options.transcript_store.map(|transcript_store| transcript_store as Arc<dyn hostler_driver::TranscriptStore>);
    let (driver, starts) = FakeDriver::with_transcript_store(transcript_store);
    let config = EngineConfig {
        store: StoreOptions { retention: options.retention, ..StoreOptions::new(state) },
        drivers: vec![driver],
        gateway: Arc::new(NoGateway),
        default_directory: work.to_owned(),
        grant_policy: hostler_engine::GrantPolicy::default(),
        session_roots: hostler_engine::SessionRoots::default(),
        interrupt_grace: options.interrupt_grace,
        background_on_stop: options.background_on_stop,
        max_queued_messages: hostler_engine::DEFAULT_MAX_QUEUED_MESSAGES,
        turns_in_memory: options.turns_in_memory,
        permissions,
        client_absence_timeout: options.absence,
        clock: options.clock,
        agent_pool: options.agent_pool,
        attachment_limits: options.attachments,
        command_runner: Arc::new(commands::PlainCommands),
        allow_shell_commands: true,
        terminals: options.shells.map(|shells| TerminalsConfig {
            shell_launcher: shells,
            max_terminals: 8,
            scrollback_bytes: 1 << 20,
        }),
        session_defaults: options.session_defaults,
        external_session_filter: options.show_external,
        enable_search: options.search,
        trust: options.trust,
    };
    (Engine::start(config).await.unwrap(), starts)
}

pub fn dispatch(uri: &str, action: StateAction) -> Dispatch {
    Dispatch {
        client_id: "me".into(),
        client_seq: 0,
        channel: default_chat_uri(uri),
        action,
        subscriber: None,
        attachment_contents: AttachmentContents::default(),
        facts: Default::default(),
    }
}

/// A dispatch of the client `me`, from JSON.
pub fn dispatch_json(channel: &str, seq: i64, action: Value, subscriber: Option<&Subscriber>) -> Dispatch {
    let parsed = serde_json::from_value(action.clone()).unwrap();
    assert!(!matches!(parsed, StateAction::Unknown(_)), "{action}");
    Dispatch {
        client_id: "me".into(),
        client_seq: seq,
        channel: channel.into(),
        action: parsed,
        subscriber: subscriber.cloned(),
        attachment_contents: AttachmentContents::default(),
        facts: Default::default(),
    }
}

pub fn turn_started(uri: &str, turn: &str, text: &str) -> Dispatch {
    dispatch(uri, StateAction::ChatTurnStarted(started(turn, text)))
}

pub fn started(turn: &str, text: &str) -> ChatTurnStartedAction {
    ChatTurnStartedAction {
        turn_id: turn.into(),
        started_at: "2026-11-15T08:00:00.000Z".into(),
        message: message(text, None),
        queued_message_id: None,
        meta: None,
    }
}

pub fn message(text: &str, model: Option<&str>) -> Message {
    Message {
        text: text.into(),
        origin: MessageOrigin { kind: MessageKind::User },
        attachments: None,
        model: model.map(|id| ModelSelection { id: id.into(), config: None }),
        agent: None,
        meta: None,
    }
}

/// A chat with its turns that were not in memory.
fn with_all_turns(chat: &ChatState, older: Option<OlderTurns>) -> ChatState {
    let mut chat = chat.clone();
    let older = older.into_iter().flatten();
    let mut turns: Vec<_> = older.map(|turn| serde_json::from_str::<Turn>(&turn).unwrap()).collect();
    turns.append(&mut chat.turns);
    chat.turns = turns;
    chat
}

/// A client that applies everything to its own copy of the states, and records each event as a short text.
pub struct Listener {
    pub subscriber: Subscriber,
    deliveries: hostler_engine::Deliveries,
    session_uri: String,
    pub chat: Option<ChatState>,
    pub session: Option<SessionState>,
    /// The chats of sub-agents.
    pub sub_agent_chats: BTreeMap<String, ChatState>,
    pub events: Vec<String>,
    /// Every action, as it was sent.
    pub actions: String,
    pub numbers: Vec<u64>,
    /// The sequence numbers on the chat's channel.
    pub chat_numbers: Vec<u64>,
    pub added: Vec<ahp_types::state::SessionSummary>,
    last: u64,
}

impl Listener {
    pub fn new(uri: &str) -> Self {
        let (subscriber, deliveries) = Subscriber::new(10_000);
        Self {
            subscriber,
            deliveries,
            session_uri: uri.into(),
            chat: None,
            session: None,
            sub_agent_chats: BTreeMap::new(),
            events: Vec::new(),
            actions: String::new(),
            numbers: Vec::new(),
            chat_numbers: Vec::new(),
            added: Vec::new(),
            last: 0,
        }
    }

    async fn delivery(&mut self) -> Delivery {
        let wait = tokio::time::timeout(Duration::from_secs(30), self.deliveries.recv()).await;
        wait.unwrap_or_else(|_| panic!("no further event after {:#?}", self.events)).expect("the broadcaster is alive")
    }

    /// Applies a snapshot; events on other channels before it are applied as usual.
    pub async fn snapshot(&mut self) {
        let snapshot = loop {
            match self.delivery().await {
                Delivery::Snapshot { snapshot, .. } => break snapshot,
                other => self.apply_delivery(other),
            };
        };
        match snapshot.state {
            ChannelState::Chat(chat) => {
                let chat = with_all_turns(&chat, snapshot.older_turns);
                match *snapshot.resource == default_chat_uri(&self.session_uri) {
                    true => self.chat = Some(chat),
                    false => drop(self.sub_agent_chats.insert(snapshot.resource.to_string(), chat)),
                }
            }
            ChannelState::Session(session) => self.session = Some((*session).clone()),
            _ => {}
        }
        self.last = self.last.max(snapshot.from_seq);
    }

    /// Applies the answer to a reconnect; `false` if snapshots are needed.
    pub async fn replayed(&mut self) -> bool {
        match self.delivery().await {
            Delivery::Replay { missed: Some(items), .. } => {
                items.iter().for_each(|item| drop(self.envelope(item)));
                true
            }
            Delivery::Replay { missed: None, .. } => false,
            other => panic!("{other:?}"),
        }
    }

    /// Applies events until one starts with `prefix`.
    pub async fn until(&mut self, prefix: &str) {
        while !self.next().await.starts_with(prefix) {}
    }

    /// Applies the next event and returns its text.
    pub async fn next(&mut self) -> String {
        let delivery = self.delivery().await;
        self.apply_delivery(delivery)
    }

    fn apply_delivery(&mut self, delivery: Delivery) -> String {
        let event = match delivery {
            Delivery::Envelope(item) => self.envelope(&item),
            Delivery::Notification(notice) => match &notice.kind {
                HostNotificationKind::SessionAdded(summary) => {
                    self.added.push((**summary).clone());
                    "added".into()
                }
                HostNotificationKind::SignInExpired(_) => "signed out".into(),
                HostNotificationKind::Progress(_) => "progress".into(),
                HostNotificationKind::SessionRemoved(_) => "removed".into(),
                HostNotificationKind::SessionSummaryChanged { .. } => "changed".into(),
            },
            Delivery::TurnsLoaded { envelope: Some(item), .. } => self.envelope(&item),
            Delivery::TurnsLoaded { envelope: None, .. } => "another view".into(),
            Delivery::Snapshot { .. } | Delivery::Replay { .. } => panic!("an answer that was not requested"),
        };
        self.events.push(event.clone());
        event
    }

    fn envelope(&mut self, item: &PublishedAction) -> String {
        assert!(item.seq > self.last, "sequence numbers grow");
        self.last = item.seq;
        self.numbers.push(item.seq);
        if *item.channel != *self.session_uri {
            self.chat_numbers.push(item.seq);
        }
        self.actions.push_str(&item.action_json);
        let json: Value = serde_json::from_str(&item.action_json).unwrap();
        let mut event = json["type"].as_str().unwrap().to_owned();
        if let Some(reason) = &item.rejection {
            return format!("{event} rejected: {reason}");
        }
        if *item.channel == *self.session_uri {
            apply_action_to_session(self.session.as_mut().unwrap(), &item.action);
        } else if let Some(chat) = self.sub_agent_chats.get_mut(&*item.channel) {
            apply_action_to_chat(chat, &item.action);
        } else {
            apply_action_to_chat(self.chat.as_mut().unwrap(), &item.action);
        }
        match &*item.action {
            StateAction::ChatDelta(a) => event = format!("{event} {} {:?}", a.part_id, a.content),
            StateAction::ChatReasoning(a) => event = format!("{event} {} {:?}", a.part_id, a.content),
            StateAction::ChatResponsePart(_) => {
                event = format!(
                    "{event} {} {}",
                    json["part"]["kind"].as_str().unwrap(),
                    json["part"]["id"].as_str().unwrap_or("-")
                )
            }
            StateAction::ChatError(a) => event = format!("{event} {}", a.part.error.error_type),
            _ => {}
        }
        event
    }

    /// The events of the chat, without the projections.
    pub fn chat_events(&self) -> Vec<&str> {
        self.events
            .iter()
            .map(String::as_str)
            .filter(|event| event.starts_with("chat/") && !event.starts_with("chat/activity"))
            .collect()
    }
}
