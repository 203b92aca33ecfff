//! Shared parts of the cases: a fixture with a host, recording clients, and a runner that names failing cases.
#![allow(unreachable_pub, reason = "used by the areas")]

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ahp::reducers;
use ahp_types::StateAction;
use ahp_types::state::SnapshotState;
use futures::StreamExt as _;
pub use hostler_testkit::raw_client::RawClient;
pub use serde_json::{Value, json};
pub use uuid::Uuid;

pub use crate::common::{HostProcess, TestHome};

/// Versions that every case runs at.
pub const VERSIONS: [&str; 2] = ["1.0.0", "0.9.0"];
pub const ROOT: &str = "ahp-root://";

/// Cases of an area that share the host concurrently.
const CONCURRENT_CASES: usize = 6;
/// Timeout of waiting for an event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Rules that ask about every command.
const ASK_BASH_RULES: &str =
    "[global]\nversion = 1\nrules = [{ effect = \"ask\", scope = \"global\", rule = \"Bash\" }]\n";

/// Environment of a restarted host: a short disconnect grace for clients.
const RESTARTED_HOST_ENV: [(&str, &str); 2] = [("HOSTLER_NO_SHELL_COMMANDS", "false"), ("HOSTLER_CLIENT_TIMEOUT", "1")];

/// Host that the cases of an area share. Each case has its own clients, sessions and directory.
pub struct HostFixture {
    pub home: TestHome,
    pub host: HostProcess,
}

impl HostFixture {
    /// Starts a host with the fake agent. Its commands are asked about, and `!command` goes to the agent.
    pub async fn with_fake_agent() -> Self {
        Self::with_fake_agent_in(TestHome::new(), &[]).await
    }

    /// Starts a host with the fake agent that runs `!command` itself.
    pub async fn with_shell_commands() -> Self {
        Self::with_fake_agent_in(TestHome::new(), &[("HOSTLER_NO_SHELL_COMMANDS", "false")]).await
    }

    /// Starts a host with the fake agent in a prepared home.
    pub async fn with_fake_agent_in(home: TestHome, env: &[(&str, &str)]) -> Self {
        prepare(&home);
        let host = home.serve_fake(env).await;
        Self { home, host }
    }

    /// Starts a host with a build of the real agent on the scripted model.
    pub async fn with_claude(build: &str, env: &[(&str, &str)]) -> Self {
        let home = TestHome::new();
        let host = home.serve_with(&["--claude", build, "--upstream", "scripted"], env).await;
        Self { home, host }
    }

    /// Kills the host, checks that nothing of it remains, and starts another one in the same home.
    pub async fn kill_and_restart(mut self) -> Self {
        let tree = self.host.process_tree();
        self.host.signal(nix::sys::signal::Signal::SIGKILL);
        self.host.wait_for_exit().await;
        let left = hostler_testkit::processes::wait_for_exit(&tree).await;
        assert!(left.is_empty(), "remaining processes: {left:#?}");
        let host = self.home.serve_fake(&RESTARTED_HOST_ENV).await;
        Self { home: self.home, host }
    }

    /// Stops the host and starts another one in the same home.
    pub async fn stop_and_restart(self) -> Self {
        self.host.stop().await;
        let host = self.home.serve_fake(&RESTARTED_HOST_ENV).await;
        Self { home: self.home, host }
    }
}

fn prepare(home: &TestHome) {
    use std::os::unix::fs::PermissionsExt as _;
    let state = home.path("state").join("hostler");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(state.join("rules.toml"), ASK_BASH_RULES).unwrap();
}

/// One case at one version.
#[derive(Clone)]
pub struct ProtocolCase {
    pub fixture: Arc<HostFixture>,
    pub version: &'static str,
    /// Directory of this case only.
    pub dir: PathBuf,
}

impl ProtocolCase {
    pub fn new(stage: &Arc<HostFixture>, name: &str, version: &'static str) -> Self {
        let dir = stage.home.work().join(format!("{name}-{version}"));
        std::fs::create_dir_all(&dir).unwrap();
        Self { fixture: Arc::clone(stage), version, dir }
    }

    pub fn url(&self) -> String {
        self.fixture.host.url()
    }

    /// Returns a connection without `initialize`.
    pub async fn connect_uninitialized(&self) -> RecordingClient {
        RecordingClient::connect(&self.url(), self.version).await
    }

    /// Returns an initialized client, subscribed to the root channel.
    pub async fn connect_client(&self) -> RecordingClient {
        let mut client = self.connect_uninitialized().await;
        client.initialize(&[ROOT]).await;
        client
    }

    /// Returns a client that is subscribed to a new session and its default chat.
    pub async fn connect_with_session(&self) -> (RecordingClient, CaseUris) {
        let mut client = self.connect_client().await;
        let uris = client.create_session(&self.dir).await;
        (client, uris)
    }

    /// Returns another client that is subscribed to a session and its default chat.
    pub async fn connect_to_session(&self, uris: &CaseUris) -> RecordingClient {
        let mut client = self.connect_client().await;
        client.subscribe(&uris.session).await;
        client.subscribe(&uris.chat).await;
        client
    }

    /// Returns a client of a session with a completed turn.
    pub async fn connect_with_started_session(&self) -> (RecordingClient, CaseUris) {
        let (mut client, uris) = self.connect_with_session().await;
        client.send_and_wait(&uris.chat, "hello").await;
        (client, uris)
    }

    /// Returns the URI of a path in the case's directory.
    pub fn uri(&self, name: &str) -> String {
        file_uri(&self.dir.join(name))
    }

    pub fn write_file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        std::fs::write(self.dir.join(name), text).unwrap();
        self.uri(name)
    }

    pub fn read_file(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.join(name)).unwrap()
    }
}

pub fn file_uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// Session and its default chat.
#[derive(Debug, Clone)]
pub struct CaseUris {
    pub session: String,
    pub chat: String,
}

impl CaseUris {
    /// Returns URIs of a session that does not exist yet.
    pub fn random() -> Self {
        Self::from_session(&format!("claude:/{}", Uuid::new_v4()))
    }

    /// The default chat's URI is derived from the session's.
    pub fn from_session(session: &str) -> Self {
        use base64::Engine as _;
        let name = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(session);
        Self { session: session.to_owned(), chat: format!("ahp-chat://default/{name}") }
    }

    pub fn annotations(&self) -> String {
        format!("{}/annotations", self.session)
    }
}

/// Client that records everything that it receives.
pub struct RecordingClient {
    raw: RawClient,
    version: &'static str,
    pub id: String,
    /// All received messages, in order.
    pub received: Vec<Value>,
    /// Number of messages that were waited for.
    consumed: usize,
    pub seq: i64,
    next_id: u64,
    initial_snapshots: HashMap<String, (i64, SnapshotState)>,
}

impl RecordingClient {
    pub async fn connect(url: &str, version: &'static str) -> Self {
        let (raw, id) = (RawClient::connect(url).await, format!("suite-{}", Uuid::new_v4()));
        Self {
            raw,
            version,
            id,
            received: Vec::new(),
            consumed: 0,
            seq: 0,
            next_id: 0,
            initial_snapshots: HashMap::new(),
        }
    }

    /// Returns the params of `initialize`.
    pub fn initialize_params(&self, subscriptions: &[&str]) -> Value {
        json!({"channel": ROOT, "protocolVersions": [self.version], "clientId": self.id,
            "initialSubscriptions": subscriptions})
    }

    pub async fn initialize(&mut self, subscriptions: &[&str]) -> Value {
        let hello = self.initialize_params(subscriptions);
        let answer = self.call_ok("initialize", hello).await;
        assert_eq!(answer["protocolVersion"], self.version);
        for snapshot in answer["snapshots"].as_array().unwrap() {
            self.record_snapshot(snapshot);
        }
        answer
    }

    /// Sends any text.
    pub async fn send_text(&mut self, text: impl Into<String>) {
        self.raw.send(text.into()).await;
    }

    /// Sends a request without waiting; returns its id.
    pub async fn request(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params});
        self.send_text(request.to_string()).await;
        self.next_id
    }

    pub async fn notify(&mut self, method: &str, params: Value) {
        self.send_text(json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()).await;
    }

    /// Waits for the answer to a request. Other messages are recorded.
    pub async fn wait_for_response(&mut self, id: u64) -> Result<Value, Value> {
        let mut message = self.find_message(|message| message["id"] == id && message.get("method").is_none()).await;
        match message.get_mut("error") {
            Some(error) => Err(error.take()),
            None => Ok(message.get_mut("result").expect("a result, if only null").take()),
        }
    }

    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.request(method, params).await;
        self.wait_for_response(id).await
    }

    pub async fn call_ok(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params.clone()).await;
        answer.unwrap_or_else(|error| panic!("{method} {params:#}: {error:#}"))
    }

    /// Returns the code of an error, and checks that its message is readable.
    pub async fn call_error_code(&mut self, method: &str, params: Value) -> i64 {
        let error = self.call(method, params.clone()).await.expect_err(method);
        assert_readable_sentence(&error["message"]);
        error["code"].as_i64().unwrap()
    }

    /// Dispatches an action; returns its number.
    pub async fn dispatch(&mut self, channel: &str, action: Value) -> i64 {
        self.seq += 1;
        self.dispatch_with_seq(self.seq, channel, action).await
    }

    pub async fn dispatch_with_seq(&mut self, seq: i64, channel: &str, action: Value) -> i64 {
        let params = json!({"channel": channel, "clientSeq": seq, "action": action});
        self.notify("dispatchAction", params).await;
        seq
    }

    /// Waits for the envelope of a dispatched action of this client.
    pub async fn wait_for_echo(&mut self, seq: i64) -> Value {
        let origin = json!({"clientId": self.id, "clientSeq": seq});
        self.find_message(|message| message["params"]["origin"] == origin).await["params"].take()
    }

    /// Dispatches an action that is accepted; returns the envelope.
    pub async fn dispatch_accepted(&mut self, channel: &str, action: Value) -> Value {
        let seq = self.dispatch(channel, action).await;
        let envelope = self.wait_for_echo(seq).await;
        assert_eq!(envelope.get("rejectionReason"), None, "{envelope:#}");
        envelope
    }

    /// Dispatches an action that is rejected; returns the reason. It comes with the action itself.
    pub async fn dispatch_rejected(&mut self, channel: &str, action: Value) -> String {
        let seq = self.dispatch(channel, action.clone()).await;
        let envelope = self.wait_for_echo(seq).await;
        assert_eq!((&envelope["channel"], &envelope["action"]["type"]), (&json!(channel), &action["type"]));
        assert_readable_sentence(&envelope["rejectionReason"])
    }

    /// Returns the next matching message among those that were not waited for yet. Messages before it are skipped.
    pub async fn wait_for(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            while self.consumed < self.received.len() {
                self.consumed += 1;
                if fits(&self.received[self.consumed - 1]) {
                    return self.received[self.consumed - 1].clone();
                }
            }
            assert!(self.receive().await, "the host hung up after {:#?}", self.last_messages());
        }
    }

    /// Returns the first matching message, skipped ones included.
    async fn find_message(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        let mut from = 0;
        loop {
            if let Some(found) = self.received[from..].iter().find(|message| fits(message)) {
                return found.clone();
            }
            from = self.received.len();
            assert!(self.receive().await, "the host hung up after {:#?}", self.last_messages());
        }
    }

    /// Waits for a message; returns whether there was one before the host closed the connection.
    pub async fn receive(&mut self) -> bool {
        let message = tokio::time::timeout(EVENT_TIMEOUT, self.raw.receive()).await;
        let Ok(message) = message else { panic!("waited in vain after {:#?}", self.last_messages()) };
        self.received.extend(message.clone());
        message.is_some()
    }

    /// Waits until the host closes the connection.
    pub async fn wait_for_close(&mut self) {
        while self.receive().await {}
    }

    /// Waits for the next envelope of this type on this channel.
    pub async fn wait_for_envelope(&mut self, channel: &str, kind: &str) -> Value {
        let fits = |message: &Value| {
            message["method"] == "action"
                && message["params"]["channel"] == channel
                && message["params"]["action"]["type"] == kind
                && message["params"].get("rejectionReason").is_none()
        };
        self.wait_for(fits).await["params"].take()
    }

    /// Waits for the next action of this type on this channel.
    pub async fn wait_for_action(&mut self, channel: &str, kind: &str) -> Value {
        self.wait_for_envelope(channel, kind).await["action"].take()
    }

    /// Waits for the output of a running command. Its terminal is announced before.
    pub async fn wait_for_output(&mut self, chat: &str) -> String {
        loop {
            let shown = self.wait_for_action(chat, "chat/toolCallContentChanged").await;
            if let Some(text) = shown["content"][0]["text"].as_str() {
                return text.to_owned();
            }
        }
    }

    /// Waits for the next notification of this method about a session.
    pub async fn wait_for_notification(&mut self, method: &str, session: &str) -> Value {
        let about = |params: &Value| params["session"] == session || params["summary"]["resource"] == session;
        self.wait_for(|message| message["method"] == method && about(&message["params"])).await["params"].take()
    }

    /// Returns all envelopes of a channel, rejections included.
    pub fn received_envelopes(&self, channel: &str) -> Vec<Value> {
        let actions = self.received.iter().filter(|message| message["method"] == "action");
        actions.map(|message| message["params"].clone()).filter(|envelope| envelope["channel"] == channel).collect()
    }

    /// Subscribes; returns the state.
    pub async fn subscribe(&mut self, channel: &str) -> Value {
        let mut answer = self.call_ok("subscribe", json!({"channel": channel})).await;
        assert_eq!(answer["snapshot"]["resource"], channel);
        self.record_snapshot(&answer["snapshot"]);
        answer["snapshot"]["state"].take()
    }

    fn record_snapshot(&mut self, snapshot: &Value) {
        let state = serde_json::from_value(snapshot["state"].clone()).expect("a state of the protocol");
        let seq = snapshot["fromSeq"].as_i64().unwrap();
        self.initial_snapshots.entry(snapshot["resource"].as_str().unwrap().to_owned()).or_insert((seq, state));
    }

    pub async fn unsubscribe(&mut self, channel: &str) {
        self.notify("unsubscribe", json!({"channel": channel})).await;
        self.initial_snapshots.remove(channel);
    }

    /// Creates a session and subscribes to it and its default chat.
    pub async fn create_session(&mut self, directory: &Path) -> CaseUris {
        let uris = CaseUris::random();
        let params = json!({"channel": uris.session, "workingDirectories": [file_uri(directory)]});
        assert_eq!(self.call_ok("createSession", params).await, Value::Null);
        let state = self.subscribe(&uris.session).await;
        assert_eq!(state["defaultChat"], uris.chat);
        self.subscribe(&uris.chat).await;
        uris
    }

    /// Sends a message; returns the turn's id.
    pub async fn send_message(&mut self, chat: &str, text: &str) -> String {
        let turn = turn_started_action(text);
        self.dispatch(chat, turn.clone()).await;
        turn["turnId"].as_str().unwrap().to_owned()
    }

    /// Waits for the end of a turn, however it ends.
    pub async fn wait_for_turn_end(&mut self, chat: &str, turn: &str) -> Value {
        let ends = ["chat/turnComplete", "chat/turnCancelled", "chat/error"];
        let fits = |message: &Value| {
            let (envelope, action) = (&message["params"], &message["params"]["action"]);
            envelope["channel"] == chat
                && action["turnId"] == turn
                && envelope.get("rejectionReason").is_none()
                && ends.iter().any(|end| action["type"] == *end)
        };
        self.find_message(fits).await["params"]["action"].take()
    }

    /// Sends a message and waits for the turn's end; returns the turn.
    pub async fn send_and_wait(&mut self, chat: &str, text: &str) -> Value {
        let turn = self.send_message(chat, text).await;
        self.wait_for_turn_end(chat, &turn).await;
        let state = self.subscribe(chat).await;
        let turns = state["turns"].as_array().unwrap();
        turns.iter().find(|known| known["id"] == turn).unwrap_or_else(|| panic!("{turn} in {state:#}")).clone()
    }

    /// Asserts that the state reduced from all received envelopes of a channel equals the host's state.
    pub async fn assert_state_matches_host(&mut self, channel: &str) {
        let (from, mut state) = self.initial_snapshots.get(channel).expect("a subscribed channel").clone();
        let now = self.call_ok("subscribe", json!({"channel": channel})).await["snapshot"].take();
        let to = now["fromSeq"].as_i64().unwrap();
        for envelope in self.received_envelopes(channel) {
            let seq = envelope["serverSeq"].as_i64().unwrap();
            if envelope.get("rejectionReason").is_none() && from < seq && seq <= to {
                apply_action(&mut state, &serde_json::from_value(envelope["action"].clone()).unwrap());
            }
        }
        let now: SnapshotState = serde_json::from_value(now["state"].clone()).unwrap();
        assert_eq!(serde_json::to_value(state).unwrap(), serde_json::to_value(now).unwrap(), "{channel}");
    }

    fn last_messages(&self) -> &[Value] {
        &self.received[self.received.len().saturating_sub(8)..]
    }
}

fn apply_action(state: &mut SnapshotState, action: &StateAction) {
    match state {
        SnapshotState::Root(state) => drop(reducers::apply_action_to_root(state, action)),
        SnapshotState::Session(state) => drop(reducers::apply_action_to_session(state, action)),
        SnapshotState::Chat(state) => drop(reducers::apply_action_to_chat(state, action)),
        SnapshotState::Annotations(state) => drop(reducers::apply_action_to_annotations(state, action)),
        other => panic!("no such channel is followed: {other:?}"),
    }
}

/// Returns the action of a new turn with this text.
pub fn turn_started_action(text: &str) -> Value {
    json!({"type": "chat/turnStarted", "turnId": Uuid::new_v4(), "startedAt": "2026-11-15T08:00:00.000Z",
        "message": user_message(text)})
}

pub fn user_message(text: &str) -> Value {
    json!({"text": text, "origin": {"kind": "user"}})
}

pub fn turn_cancelled_action(turn: &str) -> Value {
    json!({"type": "chat/turnCancelled", "turnId": turn, "duration": 1})
}

pub fn pending_message_action(kind: &str, id: &str, text: &str) -> Value {
    json!({"type": "chat/pendingMessageSet", "kind": kind, "id": id, "message": user_message(text)})
}

/// Asserts that a text is a readable sentence.
pub fn assert_readable_sentence(text: &Value) -> String {
    let text = text.as_str().unwrap_or_else(|| panic!("a sentence, not {text}"));
    assert!(text.len() > 8 && text.contains(' ') && !text.contains("panicked"), "no sentence: {text:?}");
    text.to_owned()
}

/// Returns the text of a turn's markdown.
pub fn markdown_text(turn: &Value) -> String {
    let parts = turn["responseParts"].as_array().unwrap();
    parts.iter().filter(|part| part["kind"] == "markdown").filter_map(|part| part["content"].as_str()).collect()
}

/// Case with its name.
pub type NamedCase = (&'static str, fn(ProtocolCase) -> CaseFuture);

pub type CaseFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs the cases of an area on one host, at each version, and names failing ones. `SUITE_CASE` selects some by
/// name.
pub async fn run_cases(area: &str, stage: HostFixture, cases: Vec<NamedCase>) {
    let stage = Arc::new(stage);
    let wanted = std::env::var("SUITE_CASE").unwrap_or_default();
    let runs = cases.into_iter().filter(|(name, _)| name.contains(&wanted));
    let runs = runs.flat_map(|(name, run)| VERSIONS.map(|version| (name, version, run)));
    let results = futures::stream::iter(runs.map(|(name, version, run)| {
        let case = ProtocolCase::new(&stage, name, version);
        async move {
            let result = tokio::spawn(run(case)).await;
            result.err().map(|error| (name, version, error.into_panic()))
        }
    }));
    let failed: Vec<_> = results.buffer_unordered(CONCURRENT_CASES).filter_map(std::future::ready).collect().await;
    let failed: Vec<_> = failed.into_iter().map(|(name, version, why)| (name, version, panic_message(&*why))).collect();
    let stage = Arc::into_inner(stage).expect("no other task holds the host");
    let log = stage.host.stop().await;
    assert!(failed.is_empty(), "{area}: {} failed:\n{}\n{log}", failed.len(), format_failures(&failed));
    assert!(!log.contains("panicked"), "{area}: {log}");
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

fn format_failures(failed: &[(&str, &str, String)]) -> String {
    failed.iter().map(|(name, version, why)| format!("== {name} at {version}: {why}\n")).collect()
}

/// Cases of an area, and the test that runs them.
macro_rules! area {
    ($stage:expr; $($case:ident),+ $(,)?) => {
        pub(super) const CASES: &[&str] = &[$(stringify!($case)),+];

        #[tokio::test(flavor = "multi_thread")]
        async fn cases() {
            let cases: Vec<super::harness::NamedCase> = vec![$((stringify!($case), |case| Box::pin($case(case)))),+];
            super::harness::run_cases(module_path!(), $stage.await, cases).await;
        }
    };
}
pub(super) use area;
