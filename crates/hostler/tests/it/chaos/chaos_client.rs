//! Client that disconnects and reconnects: it repeats unanswered dispatches, and its state comes from received
//! messages only.

use std::collections::BTreeMap;
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
    Replay,
    Snapshot,
}

/// Client of one chat.
pub(crate) struct ChaosClient {
    raw: Option<RawClient>,
    pub(crate) id: String,
    chat: String,
    /// Last server sequence number that it received.
    last_server_seq: i64,
    /// Last client sequence number that it dispatched.
    last_client_seq: i64,
    /// Dispatches without an envelope.
    unanswered: BTreeMap<i64, Value>,
    /// State of the chat after the last received number.
    pub(crate) state: ChatState,
    /// Length of the running turn's text over time.
    pub(crate) text_progress: Vec<(Instant, usize)>,
    request_count: u64,
}

/// Envelope, and the message that was in the steering slot before it.
pub(crate) struct ReceivedEnvelope {
    pub(crate) envelope: Value,
    /// Whether it answers a dispatch of this client.
    pub(crate) is_own: bool,
    pub(crate) slot_before: Option<String>,
}

impl ChaosClient {
    /// Creates a session and subscribes to its chat; returns the chat.
    pub(crate) async fn create(url: &str, directory: &std::path::Path) -> (Self, String) {
        let (mut raw, id) = hello(url).await;
        let (_, chat) = raw.create_session(directory).await;
        (Self::subscribed(raw, id, &chat).await, chat)
    }

    pub(crate) async fn subscribe(url: &str, chat: &str) -> Self {
        let (raw, id) = hello(url).await;
        Self::subscribed(raw, id, chat).await
    }

    async fn subscribed(mut raw: RawClient, id: String, chat: &str) -> Self {
        let answer = raw.call("subscribe", json!({"channel": chat})).await.unwrap();
        let (last, state) = snapshot(&answer["snapshot"]);
        Self {
            raw: Some(raw),
            id,
            chat: chat.to_owned(),
            last_server_seq: last,
            last_client_seq: 0,
            unanswered: BTreeMap::new(),
            state,
            text_progress: Vec::new(),
            request_count: 0,
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.raw.is_some()
    }

    /// Drops the connection without a close handshake.
    pub(crate) fn disconnect(&mut self) {
        self.raw = None;
    }

    /// Dispatches now, or after the reconnect; returns the number.
    pub(crate) async fn dispatch(&mut self, action: Value) -> i64 {
        self.last_client_seq += 1;
        let params = json!({"channel": self.chat, "clientSeq": self.last_client_seq, "action": action});
        let frame = json!({"jsonrpc": "2.0", "method": "dispatchAction", "params": params});
        self.unanswered.insert(self.last_client_seq, frame.clone());
        if let Some(raw) = self.raw.as_mut() {
            raw.try_send(frame.to_string()).await;
        }
        self.last_client_seq
    }

    /// Repeats unanswered dispatches.
    pub(crate) async fn redispatch_unanswered(&mut self) {
        let Some(raw) = self.raw.as_mut() else { return };
        for frame in self.unanswered.values() {
            raw.try_send(frame.to_string()).await;
        }
    }

    pub(crate) fn has_all_answers(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// Reconnects with the last received number; returns how it was resynchronized, and the missed envelopes.
    pub(crate) async fn reconnect(&mut self, url: &str) -> (ResyncKind, Vec<ReceivedEnvelope>) {
        let mut raw = RawClient::connect(url).await;
        let params =
            json!({"clientId": self.id, "lastSeenServerSeq": self.last_server_seq, "subscriptions": [self.chat]});
        let answer = raw.call("reconnect", params).await.unwrap();
        self.raw = Some(raw);
        if let Some(actions) = answer["actions"].as_array() {
            assert_eq!(answer["missing"].as_array().map_or(0, Vec::len), 0, "{answer}");
            let received = actions.iter().map(|envelope| self.apply(envelope.clone())).collect();
            return (ResyncKind::Replay, received);
        }
        let snapshots = answer["snapshots"].as_array().unwrap();
        assert_eq!(snapshots.len(), 1, "one snapshot for each channel: {answer}");
        (self.last_server_seq, self.state) = snapshot(&snapshots[0]);
        (ResyncKind::Snapshot, Vec::new())
    }

    /// Receives one more action of the chat; `None` when the host has closed the connection. Waits forever while
    /// disconnected.
    pub(crate) async fn receive(&mut self) -> Option<ReceivedEnvelope> {
        let Some(raw) = self.raw.as_mut() else { return std::future::pending().await };
        while let Some(mut message) = raw.receive().await {
            // The creator of a session is subscribed to the session as well.
            if message["method"] == "action" && message["params"]["channel"] == self.chat.as_str() {
                return Some(self.apply(message["params"].take()));
            }
        }
        self.raw = None;
        None
    }

    /// Requests the host's state, in order with the actions, and compares; returns envelopes received meanwhile.
    pub(crate) async fn assert_state_matches_host(&mut self) -> Vec<ReceivedEnvelope> {
        self.request_count += 1;
        let id = format!("whole-{}", self.request_count);
        let question = json!({"jsonrpc": "2.0", "id": id, "method": "subscribe", "params": {"channel": self.chat}});
        self.raw.as_mut().unwrap().send(question.to_string()).await;
        let mut received = Vec::new();
        loop {
            let mut message = self.raw.as_mut().unwrap().receive().await.expect("the host answers");
            if message["id"] == id.as_str() {
                let host = &message["result"]["snapshot"]["state"];
                let own = serde_json::to_value(&self.state).unwrap();
                assert!(own == *host, "the client's chat\n{own}\nis not the host's\n{host}");
                return received;
            }
            if message["method"] == "action" && message["params"]["channel"] == self.chat.as_str() {
                received.push(self.apply(message["params"].take()));
            }
        }
    }

    /// Returns the text of a turn, running or completed.
    pub(crate) fn text(&self, turn: &str) -> Option<String> {
        let active = self.state.active_turn.iter().map(|turn| (&turn.id, &turn.response_parts));
        let mut all = self.state.turns.iter().map(|turn| (&turn.id, &turn.response_parts)).chain(active);
        let (_, parts) = all.find(|(id, _)| *id == turn)?;
        let markdown = |part: &ResponsePart| match part {
            ResponsePart::Markdown(part) => Some(part.content.clone()),
            _ => None,
        };
        Some(parts.iter().filter_map(markdown).collect())
    }

    fn apply(&mut self, envelope: Value) -> ReceivedEnvelope {
        let seq = envelope["serverSeq"].as_i64().unwrap();
        let origin = &envelope["origin"];
        let own = (origin["clientId"] == self.id.as_str()).then(|| origin["clientSeq"].as_i64()).flatten();
        let slot_before = self.state.steering_message.as_ref().map(|message| message.message.text.clone());
        if let Some(own) = own
            && self.unanswered.remove(&own).is_some()
            && seq <= self.last_server_seq
        {
            // A repeated dispatch is answered by its first envelope, which may be an old one.
            return ReceivedEnvelope { envelope, is_own: true, slot_before: None };
        }
        assert!(seq > self.last_server_seq, "number {seq} came after {}: {envelope}", self.last_server_seq);
        self.last_server_seq = seq;
        if envelope.get("rejectionReason").is_some() {
            return ReceivedEnvelope { envelope, is_own: own.is_some(), slot_before };
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
        ReceivedEnvelope { envelope, is_own: own.is_some(), slot_before }
    }
}

async fn hello(url: &str) -> (RawClient, String) {
    let mut raw = RawClient::connect(url).await;
    let id = format!("chaos-{}", Uuid::new_v4());
    raw.call("initialize", json!({"protocolVersions": ["1.0.0"], "clientId": id})).await.unwrap();
    (raw, id)
}

fn snapshot(value: &Value) -> (i64, ChatState) {
    let state = serde_json::from_value(value["state"].clone()).unwrap();
    (value["fromSeq"].as_i64().unwrap(), state)
}
