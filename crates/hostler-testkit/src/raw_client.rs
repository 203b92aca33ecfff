//! Minimal AHP client: frames in, frames out. For benchmarks, and for messages that Microsoft's client cannot send.

use std::time::{Duration, Instant};

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use uuid::Uuid;

/// Timeout of waiting for a frame.
const FRAME_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to a host.
pub struct RawClient {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    next_id: u64,
    client_seq: i64,
}

impl RawClient {
    /// Connects without sending a message.
    pub async fn connect(url: &str) -> Self {
        let (socket, _) = tokio_tungstenite::connect_async(url).await.expect("the host accepts the connection");
        if let MaybeTlsStream::Plain(stream) = socket.get_ref() {
            stream.set_nodelay(true).expect("a TCP socket");
        }
        Self { socket, next_id: 0, client_seq: 0 }
    }

    /// Connects over an existing TCP connection.
    pub async fn connect_over(stream: TcpStream, url: &str) -> Self {
        let stream = MaybeTlsStream::Plain(stream);
        let (socket, _) = tokio_tungstenite::client_async(url, stream).await.expect("the host accepts the connection");
        Self { socket, next_id: 0, client_seq: 0 }
    }

    /// Connects and initializes.
    pub async fn connect_and_initialize(url: &str) -> Self {
        let mut raw = Self::connect(url).await;
        let id = format!("raw-{}", Uuid::new_v4());
        raw.call("initialize", json!({"protocolVersions": ["1.0.0"], "clientId": id})).await.expect("initialize");
        raw
    }

    /// Sends a frame.
    pub async fn send(&mut self, text: String) {
        self.socket.send(Message::Text(text.into())).await.expect("the connection is open");
    }

    /// Sends a frame; returns whether the connection was open.
    pub async fn try_send(&mut self, text: String) -> bool {
        self.socket.send(Message::Text(text.into())).await.is_ok()
    }

    /// Receives the next message; `None` when the host has closed the connection.
    pub async fn receive(&mut self) -> Option<Value> {
        Some(serde_json::from_str(&self.receive_text().await?).expect("JSON"))
    }

    /// Receives the next message unparsed.
    async fn receive_text(&mut self) -> Option<Utf8Bytes> {
        loop {
            let message = tokio::time::timeout(FRAME_TIMEOUT, self.socket.next()).await.expect("a frame in time")?;
            match message.ok()? {
                Message::Text(text) => return Some(text),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    /// Calls a method and passes every message up to its answer, unparsed: parsing takes longer than some answers.
    pub async fn call_streaming(&mut self, method: &str, params: Value, mut each: impl FnMut(&str)) {
        self.next_id += 1;
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"#, self.next_id);
        self.send(json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}).to_string()).await;
        loop {
            let text = self.receive_text().await.expect("an answer");
            each(&text);
            if text.starts_with(&answer) {
                return;
            }
        }
    }

    /// Calls a method; envelopes that arrive meanwhile are dropped.
    ///
    /// # Errors
    /// The error object of the host's answer.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.next_id += 1;
        let id = self.next_id;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
        loop {
            let mut message = self.receive().await.expect("an answer");
            if message["id"] == id {
                return match message.get_mut("error") {
                    Some(error) => Err(error.take()),
                    None => Ok(message["result"].take()),
                };
            }
        }
    }

    /// Creates a session and subscribes to its default chat; returns session and chat.
    pub async fn create_session(&mut self, directory: &std::path::Path) -> (String, String) {
        let session = format!("claude:/{}", Uuid::new_v4());
        let directory = format!("file://{}", directory.display());
        let params = json!({"channel": session, "workingDirectories": [directory]});
        self.call("createSession", params).await.expect("createSession");
        let state = self.call("subscribe", json!({"channel": session})).await.expect("subscribe");
        let chat = state["snapshot"]["state"]["defaultChat"].as_str().expect("a default chat").to_owned();
        self.call("subscribe", json!({"channel": chat})).await.expect("subscribe");
        (session, chat)
    }

    /// Sends a message.
    pub async fn send_message(&mut self, chat: &str, text: &str) {
        self.client_seq += 1;
        let message = json!({"text": text, "origin": {"kind": "user"}});
        let action = json!({"type": "chat/turnStarted", "turnId": Uuid::new_v4(), "startedAt": "2026-11-15T08:00:00.000Z",
                            "message": message});
        let params = json!({"channel": chat, "clientSeq": self.client_seq, "action": action});
        self.send(json!({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}).to_string()).await;
    }

    /// Reads and discards this many frames.
    pub async fn drain(&mut self, frames: usize) {
        for _ in 0..frames {
            self.receive().await.expect("a frame");
        }
    }

    /// Renames a session.
    pub async fn rename_session(&mut self, session: &str, title: &str) {
        self.client_seq += 1;
        let action = json!({"type": "session/titleChanged", "title": title});
        let params = json!({"channel": session, "clientSeq": self.client_seq, "action": action});
        self.send(json!({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}).to_string()).await;
    }

    /// Waits for an action of this type and returns when it arrived. An error of the turn fails the test.
    pub async fn wait_for_action(&mut self, kind: &str) -> (Instant, Value) {
        loop {
            let mut message = self.receive().await.expect("an envelope");
            let at = Instant::now();
            let action = message["params"]["action"].take();
            if action["type"] == kind {
                return (at, action);
            }
            assert!(action["type"] != "chat/error", "{action:#}");
        }
    }
}
