//! A client that loses its connection and comes back: it believes only what it was told, and checks it.

use std::time::Instant;

use ahp::reducers;
use ahp_types::actions::StateAction;
use ahp_types::state::{ChatState, ResponsePart};
use hostler_testkit::raw_client::RawClient;
use serde_json::{Value, json};
use uuid::Uuid;

/// How a client was made whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResyncKind {
    /// It was told what it had missed.
    Replay,
    /// It was told how things are.
    Snapshot,
}

/// A reader of one chat.
pub(crate) struct ReconnectingClient {
    /// The connection, while there is one.
    pub(crate) raw: Option<RawClient>,
    id: String,
    chat: String,
    /// The last number that it saw.
    last_server_seq: i64,
    /// The chat as it is after that number.
    pub(crate) state: ChatState,
    /// When how much of the current turn's text was there.
    pub(crate) text_progress: Vec<(Instant, usize)>,
    request_count: u64,
}

impl ReconnectingClient {
    pub(crate) async fn subscribe(url: &str, chat: &str) -> Self {
        Self::subscribe_over(RawClient::connect(url).await, chat).await
    }

    pub(crate) async fn subscribe_over(mut raw: RawClient, chat: &str) -> Self {
        let id = format!("returning-{}", Uuid::new_v4());
        raw.call("initialize", json!({"protocolVersions": ["1.0.0"], "clientId": id})).await.unwrap();
        let answer = raw.call("subscribe", json!({"channel": chat})).await.unwrap();
        let (last, state) = snapshot(&answer["snapshot"]);
        Self {
            raw: Some(raw),
            id,
            chat: chat.to_owned(),
            last_server_seq: last,
            state,
            text_progress: Vec::new(),
            request_count: 0,
        }
    }

    /// The connection is gone without a word.
    pub(crate) fn disconnect(&mut self) {
        self.raw = None;
    }

    /// Comes back with the last number that it saw.
    pub(crate) async fn reconnect(&mut self, url: &str) -> ResyncKind {
        let mut raw = RawClient::connect(url).await;
        let params =
            json!({"clientId": self.id, "lastSeenServerSeq": self.last_server_seq, "subscriptions": [self.chat]});
        let answer = raw.call("reconnect", params).await.unwrap();
        self.raw = Some(raw);
        if let Some(actions) = answer["actions"].as_array() {
            assert_eq!(answer["missing"].as_array().map_or(0, Vec::len), 0, "{answer}");
            for envelope in actions {
                self.apply(envelope);
            }
            return ResyncKind::Replay;
        }
        let snapshots = answer["snapshots"].as_array().unwrap();
        assert_eq!(snapshots.len(), 1, "one snapshot for each channel");
        (self.last_server_seq, self.state) = snapshot(&snapshots[0]);
        ResyncKind::Snapshot
    }

    /// Hears one more action of the chat; `false` when the host has hung up.
    pub(crate) async fn receive(&mut self) -> bool {
        while let Some(message) = self.raw.as_mut().unwrap().receive().await {
            if message["method"] == "action" {
                self.apply(&message["params"]);
                return true;
            }
        }
        self.raw = None;
        false
    }

    /// Hears until so many turns of the chat are over.
    pub(crate) async fn receive_turns(&mut self, count: usize) {
        while self.state.turns.len() < count {
            assert!(self.receive().await, "the host hung up on a client that reads");
        }
    }

    /// Asks for the host's own view, in its place among the actions, and compares.
    pub(crate) async fn assert_state_matches_host(&mut self) {
        self.request_count += 1;
        let id = format!("whole-{}", self.request_count);
        let question = json!({"jsonrpc": "2.0", "id": id, "method": "subscribe", "params": {"channel": self.chat}});
        self.raw.as_mut().unwrap().send(question.to_string()).await;
        loop {
            let message = self.raw.as_mut().unwrap().receive().await.unwrap();
            if message["id"] == id.as_str() {
                let host = &message["result"]["snapshot"]["state"];
                let own = serde_json::to_value(&self.state).unwrap();
                // Objects of both are sorted by key: equal values are equal as canonical JSON.
                assert!(own == *host, "the client's chat\n{}\nis not the host's\n{}", short(&own), short(host));
                return;
            }
            if message["method"] == "action" {
                self.apply(&message["params"]);
            }
        }
    }

    /// Whether a turn is running, as far as this client knows.
    pub(crate) fn is_running(&self) -> bool {
        self.state.active_turn.is_some()
    }

    /// The text of the running turn or, between turns, of the last one.
    pub(crate) fn text(&self) -> String {
        let parts = match (&self.state.active_turn, self.state.turns.last()) {
            (Some(turn), _) => &turn.response_parts,
            (None, Some(turn)) => &turn.response_parts,
            (None, None) => return String::new(),
        };
        let markdown = |part: &ResponsePart| match part {
            ResponsePart::Markdown(part) => Some(part.content.clone()),
            _ => None,
        };
        parts.iter().filter_map(markdown).collect()
    }

    fn apply(&mut self, envelope: &Value) {
        assert_eq!(envelope["channel"], self.chat.as_str());
        let seq = envelope["serverSeq"].as_i64().unwrap();
        assert!(seq > self.last_server_seq, "number {seq} came after {}", self.last_server_seq);
        self.last_server_seq = seq;
        if envelope.get("rejectionReason").is_some() {
            return;
        }
        let action: StateAction = serde_json::from_value(envelope["action"].clone()).unwrap();
        if matches!(action, StateAction::ChatTurnStarted(_)) {
            self.text_progress.clear();
        }
        reducers::apply_action_to_chat(&mut self.state, &action);
        if let StateAction::ChatDelta(delta) = action {
            let before = self.text_progress.last().map_or(0, |(_, length)| *length);
            self.text_progress.push((Instant::now(), before + delta.content.len()));
        }
    }
}

fn snapshot(value: &Value) -> (i64, ChatState) {
    let state = serde_json::from_value(value["state"].clone()).unwrap();
    (value["fromSeq"].as_i64().unwrap(), state)
}

/// The end of a value that may be long.
fn short(value: &Value) -> String {
    let text = value.to_string();
    let from = text.chars().count().saturating_sub(1_500);
    text.chars().skip(from).collect()
}
