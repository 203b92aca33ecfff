//! Client that loses its connection and reconnects: its state comes from received messages only, and is compared
//! with the host's.

use std::time::Instant;

use ahp::reducers;
use ahp_types::actions::StateAction;
use ahp_types::state::{ChatState, ResponsePart};
use hostler_testkit::raw_client::RawClient;
use serde_json::{Value, json};
use uuid::Uuid;

/// How a client was resynchronized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResyncKind {
    /// Missed envelopes were replayed.
    Replay,
    /// It received a snapshot.
    Snapshot,
}

/// Reader of one chat.
pub(crate) struct ReconnectingClient {
    /// The connection, while there is one.
    pub(crate) raw: Option<RawClient>,
    id: String,
    chat: String,
    /// Last server sequence number that it received.
    last_server_seq: i64,
    /// State of the chat after that number.
    pub(crate) state: ChatState,
    /// Length of the current turn's text over time.
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

    /// Drops the connection without a close handshake.
    pub(crate) fn disconnect(&mut self) {
        self.raw = None;
    }

    /// Reconnects with the last received number.
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

    /// Receives one more action of the chat; `false` when the host has closed the connection.
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

    /// Receives until this many turns of the chat are over.
    pub(crate) async fn receive_turns(&mut self, count: usize) {
        while self.state.turns.len() < count {
            assert!(self.receive().await, "the host hung up on a client that reads");
        }
    }

    /// Requests the host's state, in order with the actions, and compares.
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

    /// Returns whether a turn is running, as far as this client knows.
    pub(crate) fn is_running(&self) -> bool {
        self.state.active_turn.is_some()
    }

    /// Returns the text of the running turn or, between turns, of the last one.
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

/// Returns the end of a long value.
fn short(value: &Value) -> String {
    let text = value.to_string();
    let from = text.chars().count().saturating_sub(1_500);
    text.chars().skip(from).collect()
}
