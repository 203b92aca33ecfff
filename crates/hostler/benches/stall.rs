//! Cancel, steer and a message to another session, on a socket that also waits for something slow: a session on a stalled
//! disk, a hanging diff preview, a large transcript. Each beside the same with nothing slow.
//!
//! The host runs in this process. For the stalls its runtime has one blocking thread, which a stall occupies.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark prints its results")]

#[path = "../../hostler-claude/benches/support/generated_transcripts.rs"]
mod generated_transcripts;
#[path = "stall/local_host.rs"]
mod local_host;
#[path = "support/stored_history.rs"]
mod stored_history;
#[path = "support/mod.rs"]
mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use generated_transcripts::{nothing, written};
use hostler_claude::transcripts::ClaudeTranscriptStore;
use hostler_driver::{AgentRequestId, DriverEvent, PermissionRequest, ToolDisplay, TurnOutcome};
use hostler_engine::default_chat_uri;
use hostler_testkit::benchmark_table::{BenchmarkRow, BenchmarkTable, percentile};
use hostler_testkit::fake_driver::FakeAgent;
use hostler_testkit::raw_client::RawClient;
use hostler_testkit::stalled_disk::{StalledDisk, run_with_stallable_disk};
use local_host::LocalHost;
use serde_json::{Value, json};
use stored_history::{HistoryGenerator, number_option};
use support::{BenchmarkHome, elapsed_ms};
use uuid::Uuid;

const ROUNDS: usize = 60;
const TRANSCRIPT_MB: usize = 200;
const IMPORT_ROUNDS: usize = 20;
const IMPORTS: usize = 3;

/// A stall ends after this time, even if an answer waits for its end.
const MAX_STALL: Duration = Duration::from_secs(3);

/// Design target of every answer.
const TARGET_MS: f64 = 50.0;

fn main() {
    let (floor, disk, preview) = run_with_stallable_disk(beside_stalls());
    let megabytes = number_option("--mb", TRANSCRIPT_MB);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let (import_floor, import) = runtime.expect("a runtime").block_on(beside_import(megabytes));
    let mut rows = disk.rows("a stalled disk", &floor);
    rows.extend(preview.rows("a hanging diff preview", &floor));
    rows.extend(import.rows(&format!("the import of {megabytes} MB"), &import_floor));
    println!("{}", BenchmarkTable { rows });
}

/// Times to the answers, in milliseconds.
#[derive(Default)]
struct AnswerTimes {
    steer: Vec<f64>,
    message: Vec<f64>,
    cancel: Vec<f64>,
}

impl AnswerTimes {
    fn rows(&self, beside: &str, floor: &Self) -> Vec<BenchmarkRow> {
        let kinds = [
            ("cancel", &self.cancel, &floor.cancel),
            ("steer", &self.steer, &floor.steer),
            ("message to another session", &self.message, &floor.message),
        ];
        let numbers = [("p50", 50), ("p99", 99), ("max", 100)];
        let row = |what: &str, number: &str, percent, times: &[f64], floor: &[f64]| BenchmarkRow {
            metric: format!("{what} beside {beside}, {number}"),
            unit: "ms",
            hostler: percentile(times, percent),
            baseline: Some(("nothing slow".to_owned(), percentile(floor, percent))),
            target: Some(TARGET_MS),
        };
        kinds
            .iter()
            .flat_map(|(what, times, floor)| numbers.map(|(name, percent)| row(what, name, percent, times, floor)))
            .collect()
    }
}

/// A client, the chat whose turns it steers and cancels, and the chat of another session.
struct Setup {
    client: RawClient,
    client_seq: i64,
    turns: usize,
    busy: OpenChat,
    other: OpenChat,
}

struct OpenChat {
    uri: String,
    agent: FakeAgent,
}

impl Setup {
    async fn new(host: &mut LocalHost, work: &Path) -> Self {
        let mut client = RawClient::connect_and_initialize(&host.url).await;
        let busy = open_chat(host, &mut client, work).await;
        let other = open_chat(host, &mut client, work).await;
        Self { client, client_seq: 1_000, turns: 0, busy, other }
    }

    async fn dispatch(&mut self, chat: &str, action: &Value) -> Instant {
        self.client_seq += 1;
        let params = json!({"channel": chat, "clientSeq": self.client_seq, "action": action});
        let sent = Instant::now();
        self.client.send(json!({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}).to_string()).await;
        sent
    }

    /// Waits for the envelope of the last dispatch; returns whether it was accepted.
    async fn wait_for_echo(&mut self) -> bool {
        loop {
            let message = self.client.receive().await.expect("an envelope");
            if message["params"]["origin"]["clientSeq"] == self.client_seq {
                return message["params"].get("rejectionReason").is_none();
            }
        }
    }

    /// Dispatches an action and measures the time to its envelope.
    async fn time(&mut self, chat: &str, action: &Value) -> f64 {
        let sent = self.dispatch(chat, action).await;
        assert!(self.wait_for_echo().await, "the action is accepted");
        elapsed_ms(sent, Instant::now())
    }

    async fn request(&mut self, id: &str, method: &str, params: &Value) {
        self.client.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
    }

    /// Starts a turn in the busy chat. The agent has received its message.
    async fn start_turn(&mut self) -> String {
        let chat = self.busy.uri.clone();
        loop {
            self.turns += 1;
            let turn = format!("turn-{}", self.turns);
            self.dispatch(&chat, &turn_started(&turn)).await;
            if self.wait_for_echo().await {
                self.busy.agent.next_prompt().await;
                return turn;
            }
            // The agent has not ended the turn before.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Measures the three answers. The turn is canceled then.
    async fn measure(&mut self, turn: &str, times: &mut AnswerTimes) {
        let (busy, other) = (self.busy.uri.clone(), self.other.uri.clone());
        let message = json!({"text": "in blue", "origin": {"kind": "user"}});
        let steer = json!({"type": "chat/pendingMessageSet", "kind": "steering", "id": turn, "message": message});
        times.steer.push(self.time(&busy, &steer).await);
        times.message.push(self.time(&other, &turn_started(turn)).await);
        self.time(&busy, &json!({"type": "chat/pendingMessageRemoved", "kind": "steering", "id": turn})).await;
        let cancel = json!({"type": "chat/turnCancelled", "turnId": turn, "duration": 1});
        times.cancel.push(self.time(&busy, &cancel).await);
    }

    /// Ends the turns of both chats.
    async fn finish_round(&mut self) {
        self.busy.agent.end_turn(TurnOutcome::Interrupted).await;
        self.other.agent.next_prompt().await;
        self.other.agent.emit_answer(1, "a", "b").await;
        self.client.wait_for_action("chat/turnComplete").await;
    }
}

async fn open_chat(host: &mut LocalHost, client: &mut RawClient, work: &Path) -> OpenChat {
    let (_, uri) = client.create_session(work).await;
    client.send_message(&uri, "hi").await;
    let mut agent = host.starts.next_start().await.succeed();
    agent.next_prompt().await;
    agent.emit_answer(1, "a", "b").await;
    client.wait_for_action("chat/turnComplete").await;
    OpenChat { uri, agent }
}

fn turn_started(turn: &str) -> Value {
    json!({"type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-11-15T08:00:00.000Z",
           "message": {"text": "go", "origin": {"kind": "user"}}})
}

/// Stalls the disk until the guard is dropped, or for the maximum time.
async fn stall_disk() -> tokio::sync::oneshot::Sender<()> {
    let stall = StalledDisk::start().await;
    let (guard, dropped) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let _ = tokio::time::timeout(MAX_STALL, dropped).await;
        drop(stall);
    });
    guard
}

/// Measures with nothing slow, beside a session on a stalled disk, and beside a hanging diff preview.
async fn beside_stalls() -> (AnswerTimes, AnswerTimes, AnswerTimes) {
    let home = BenchmarkHome::new();
    let (state, work) = (home.path("state"), home.path("work"));
    let mut history = HistoryGenerator::start(&state, &work).await;
    let stored: Vec<_> = (0..ROUNDS).map(|_| format!("claude:/{}", Uuid::new_v4())).collect();
    for session in &stored {
        history.add_session(session, 1, 100).await;
    }
    history.finish().await;

    let mut host = LocalHost::start(&state, &work, None).await;
    let mut setup = Setup::new(&mut host, &work).await;
    let (mut floor, mut disk, mut preview) = <(AnswerTimes, AnswerTimes, AnswerTimes)>::default();
    for (round, unloaded) in stored.iter().enumerate() {
        let turn = setup.start_turn().await;
        setup.measure(&turn, &mut floor).await;
        setup.finish_round().await;

        let turn = setup.start_turn().await;
        let guard = stall_disk().await;
        setup.request("load", "subscribe", &json!({"channel": default_chat_uri(unloaded)})).await;
        setup.request("create", "createSession", &json!({"channel": format!("claude:/{}", Uuid::new_v4())})).await;
        setup.measure(&turn, &mut disk).await;
        drop(guard);
        setup.finish_round().await;

        let turn = setup.start_turn().await;
        let guard = stall_disk().await;
        setup.busy.agent.emit(edit_request(round)).await;
        // The session has received the request.
        tokio::time::sleep(Duration::from_millis(5)).await;
        setup.measure(&turn, &mut preview).await;
        drop(guard);
        setup.finish_round().await;
    }
    host.stop().await;
    (floor, disk, preview)
}

fn edit_request(round: usize) -> DriverEvent {
    let input = json!({"file_path": "new.txt", "content": "new"}).to_string();
    DriverEvent::PermissionRequested(PermissionRequest {
        request_id: AgentRequestId(format!("request-{round}")),
        call_id: format!("call-{round}"),
        tool: "Write".to_owned(),
        input: serde_json::value::RawValue::from_string(input).expect("JSON").into(),
        display: ToolDisplay::default(),
        reason: None,
        sub_agent: None,
    })
}

/// Measures with nothing slow, and while a large external session is imported. Each import is that of a new host.
async fn beside_import(megabytes: usize) -> (AnswerTimes, AnswerTimes) {
    let home = BenchmarkHome::new();
    let (id, _) = written(&home.path("claude"), "native", megabytes * 1024 * 1024, 0, &mut nothing);
    let session = format!("claude:/{id}");
    let (mut floor, mut import) = <(AnswerTimes, AnswerTimes)>::default();
    for _ in 0..IMPORTS {
        let _there_may_be_none = std::fs::remove_dir_all(home.path("state"));
        std::fs::create_dir(home.path("state")).expect("a directory");
        let work = home.path("work");
        let transcripts = Arc::new(ClaudeTranscriptStore::for_config_directory(&home.path("claude")));
        let mut host = LocalHost::start(&home.path("state"), &work, Some(transcripts)).await;
        let mut setup = Setup::new(&mut host, &work).await;
        for _ in 0..IMPORT_ROUNDS {
            let turn = setup.start_turn().await;
            setup.measure(&turn, &mut floor).await;
            setup.finish_round().await;
        }
        let turn = setup.start_turn().await;
        setup.request("session", "subscribe", &json!({"channel": session})).await;
        let view = json!({"channel": default_chat_uri(&session), "view": {"turns": 50}});
        setup.request("chat", "subscribe", &view).await;
        setup.measure(&turn, &mut import).await;
        setup.finish_round().await;
        for _ in 1..IMPORT_ROUNDS {
            let turn = setup.start_turn().await;
            setup.measure(&turn, &mut import).await;
            setup.finish_round().await;
        }
        host.stop().await;
    }
    (floor, import)
}
