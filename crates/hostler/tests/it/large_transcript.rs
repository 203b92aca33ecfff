//! The import of a transcript of 200 MB beside other work on the same socket: a cancel, a steer and a message to another
//! session are answered while it is read.

#[path = "../../benches/stall/local_host.rs"]
mod local_host;
#[path = "../../benches/support/stored_history.rs"]
mod stored_history;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_claude::transcripts::ClaudeTranscriptStore;
use hostler_driver::{ResumeToken, Transcript, TranscriptScan, TranscriptStore, TranscriptStoreError};
use hostler_engine::default_chat_uri;
use hostler_testkit::fake_driver::FakeAgent;
use hostler_testkit::raw_client::RawClient;
use local_host::LocalHost;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use uuid::Uuid;

const TRANSCRIPT_BYTES: usize = 200 * 1024 * 1024;
const CHUNK_BYTES: usize = 1024 * 1024;

/// Writes a transcript of one turn with 200 MB of bookkeeping.
fn write_transcript(claude: &Path) -> Uuid {
    let (id, question, answer) = (Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4());
    let directory = claude.join("projects/-home-dana");
    fs::create_dir_all(&directory).unwrap();
    let mut file = fs::File::create(directory.join(format!("{id}.jsonl"))).unwrap();
    let rest = r#""timestamp":"2026-01-01T00:00:00.000Z","cwd":"/home/dana","sessionId":"s","version":"2""#;
    writeln!(file, r#"{{"parentUuid":null,"isSidechain":false,"type":"user","message":{{"role":"user","content":"how large?"}},"uuid":"{question}",{rest}}}"#).unwrap();
    let line = format!("{}\n", json!({"type": "api-request-blob", "blob": "x".repeat(CHUNK_BYTES)}));
    for _ in 0..TRANSCRIPT_BYTES / CHUNK_BYTES {
        file.write_all(line.as_bytes()).unwrap();
    }
    writeln!(file, r#"{{"parentUuid":"{question}","isSidechain":false,"type":"assistant","message":{{"id":"m","role":"assistant","model":"m","content":[{{"type":"text","text":"200 MB"}}],"stop_reason":"end_turn"}},"uuid":"{answer}",{rest}}}"#).unwrap();
    id
}

/// Reads transcripts, and holds the result of each read until the test releases it.
struct HeldTranscripts {
    inner: ClaudeTranscriptStore,
    /// Whether the reader of the large transcript has started.
    started: Arc<Notify>,
    released: watch::Sender<bool>,
    /// Whether the host has received a transcript.
    delivered: Arc<AtomicBool>,
}

impl TranscriptStore for HeldTranscripts {
    fn directory(&self) -> &Path {
        self.inner.directory()
    }

    fn scan(&self) -> BoxFuture<'static, TranscriptScan> {
        self.inner.scan()
    }

    fn has_transcript(&self, token: &ResumeToken) -> BoxFuture<'static, bool> {
        self.inner.has_transcript(token)
    }

    fn open(&self, conversation: Uuid) -> BoxFuture<'static, Result<Arc<dyn Transcript>, TranscriptStoreError>> {
        let (opening, mut released) = (self.inner.open(conversation), self.released.subscribe());
        let (started, delivered) = (Arc::clone(&self.started), Arc::clone(&self.delivered));
        async move {
            started.notify_one();
            let opened = opening.await;
            released.wait_for(|released| *released).await.expect("the test releases it");
            delivered.store(true, Ordering::Release);
            opened
        }
        .boxed()
    }

    fn delete(&self, conversation: Uuid) -> BoxFuture<'static, Result<(), TranscriptStoreError>> {
        self.inner.delete(conversation)
    }
}

/// A client and the messages that it has received.
struct Client {
    raw: RawClient,
    client_seq: i64,
    received: Vec<Value>,
}

impl Client {
    async fn request(&mut self, id: &str, method: &str, params: Value) {
        self.raw.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
    }

    async fn wait_until(&mut self, is_wanted: impl Fn(&Value) -> bool) -> &Value {
        loop {
            let message = self.raw.receive().await.expect("a message");
            self.received.push(message);
            if self.received.last().is_some_and(&is_wanted) {
                return self.received.last().unwrap();
            }
        }
    }

    /// Dispatches an action and waits until it is accepted.
    async fn dispatch(&mut self, chat: &str, action: Value) {
        self.client_seq += 1;
        let seq = self.client_seq;
        let params = json!({"channel": chat, "clientSeq": seq, "action": action});
        self.raw.send(json!({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}).to_string()).await;
        let echo = self.wait_until(|message| message["params"]["origin"]["clientSeq"] == seq).await;
        assert_eq!(echo["params"].get("rejectionReason"), None, "{echo:#}");
    }
}

fn started(turn: &str) -> Value {
    json!({"type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-11-15T08:00:00.000Z",
           "message": {"text": "go", "origin": {"kind": "user"}}})
}

/// A session whose agent has completed a turn.
async fn open_chat(host: &mut LocalHost, client: &mut Client, work: &Path) -> (String, FakeAgent) {
    let (_, chat) = client.raw.create_session(work).await;
    client.dispatch(&chat, started("t1")).await;
    let mut agent = host.starts.next_start().await.succeed();
    agent.next_prompt().await;
    agent.emit_answer(1, "a", "b").await;
    client.wait_until(|message| message["params"]["action"]["type"] == "chat/turnComplete").await;
    (chat, agent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_import_delays_neither_a_cancel_nor_a_steer_nor_another_session() {
    let directory = tempfile::tempdir().unwrap();
    let [state, work, claude] = ["state", "work", "claude"].map(|name| directory.path().join(name));
    fs::create_dir_all(&state).unwrap();
    fs::create_dir_all(&work).unwrap();
    let session = format!("claude:/{}", write_transcript(&claude));
    let transcripts = Arc::new(HeldTranscripts {
        inner: ClaudeTranscriptStore::for_config_directory(&claude),
        started: Arc::default(),
        released: watch::Sender::new(false),
        delivered: Arc::default(),
    });
    let store = Arc::<HeldTranscripts>::clone(&transcripts);
    let mut host = LocalHost::start(&state, &work, Some(store)).await;
    let raw = RawClient::connect_and_initialize(&host.url).await;
    let mut client = Client { raw, client_seq: 0, received: Vec::new() };
    let (busy, mut agent) = open_chat(&mut host, &mut client, &work).await;
    let (idle, _idle_agent) = open_chat(&mut host, &mut client, &work).await;
    client.dispatch(&busy, started("t2")).await;
    agent.next_prompt().await;

    client.request("session", "subscribe", json!({"channel": session})).await;
    client.request("chat", "subscribe", json!({"channel": default_chat_uri(&session)})).await;
    transcripts.started.notified().await;
    let message = json!({"text": "in blue", "origin": {"kind": "user"}});
    client
        .dispatch(&busy, json!({"type": "chat/pendingMessageSet", "kind": "steering", "id": "s", "message": message}))
        .await;
    assert_eq!(agent.wait_steered().await.prompt.expose(), "in blue");
    client.dispatch(&idle, started("t2")).await;
    client.dispatch(&busy, json!({"type": "chat/turnCancelled", "turnId": "t2", "duration": 1})).await;
    agent.wait_interrupted().await;
    assert!(!transcripts.delivered.load(Ordering::Acquire), "the transcript is not read yet");
    let is_answer = |message: &Value| message["id"] == "session" || message["id"] == "chat";
    assert!(!client.received.iter().any(is_answer), "its subscriptions wait for it");

    transcripts.released.send_replace(true);
    let snapshot = client.wait_until(|message| message["id"] == "chat").await;
    assert_eq!(snapshot["result"]["snapshot"]["state"]["turns"][0]["message"]["text"], "how large?", "{snapshot:#}");
    host.stop().await;
}
