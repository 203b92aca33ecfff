//! Microsoft's AHP client as a test client, with helpers for common steps.

use std::path::Path;
use std::time::Duration;

use ahp::client::{ClientConfig, ClientEvent, ClientEventStream, SubscriptionEvent};
use ahp::error::TransportError;
use ahp::transport::{Transport, TransportMessage};
use ahp::{Client, reducers};
use ahp_types::actions::{ActionEnvelope, ChatTurnCancelledAction, ChatTurnStartedAction, StateAction};
use ahp_types::state::{ChatState, Message, MessageKind, MessageOrigin, SnapshotState};
use ahp_ws::WebSocketTransport;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use uuid::Uuid;

/// The client drops events that exceed its event channel; tests must stay far below that.
const EVENT_BUFFER_SIZE: usize = 16_384;

/// Timeout of waiting for an event; the failure lists the received events.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// An initialized client, subscribed to the root channel.
pub struct TestClient {
    /// The client.
    pub client: Client,
    events: ClientEventStream,
    /// All events received so far, for failure reports.
    pub received: Vec<ClientEvent>,
}

/// Session that a client has created, and its default chat.
#[derive(Debug, Clone)]
pub struct SessionUris {
    /// The session's URI.
    pub session: String,
    /// The default chat's URI.
    pub chat: String,
}

impl TestClient {
    /// Connects over WebSocket.
    pub async fn connect(url: &str) -> Self {
        let transport = WebSocketTransport::connect(url).await.expect("the host accepts the connection");
        Self::connect_over(transport).await
    }

    /// Connects over any transport.
    pub async fn connect_over(transport: impl Transport) -> Self {
        let config =
            ClientConfig { subscription_buffer: EVENT_BUFFER_SIZE, default_request_timeout: Some(EVENT_TIMEOUT) };
        let client = Client::connect(transport, config).await.expect("the client starts");
        let events = client.events();
        let id = format!("peer-{}", Uuid::new_v4());
        let root = ahp_types::ROOT_RESOURCE_URI.to_owned();
        let hello = client.initialize(id, vec!["1.0.0".to_owned()], vec![root]).await.expect("initialize succeeds");
        assert_eq!(hello.protocol_version, "1.0.0");
        Self { client, events, received: Vec::new() }
    }

    /// Creates a session and subscribes to it and its default chat.
    pub async fn create_session(&self, directory: &Path) -> SessionUris {
        self.create_session_with_uri(format!("claude:/{}", Uuid::new_v4()), directory).await
    }

    /// Creates a session with this URI and subscribes to it and its default chat.
    pub async fn create_session_with_uri(&self, session: String, directory: &Path) -> SessionUris {
        let directory = format!("file://{}", directory.display());
        let params = json!({"channel": session, "provider": "claude", "workingDirectories": [directory]});
        let _: Value = self.client.request("createSession", params).await.expect("createSession succeeds");
        let SnapshotState::Session(state) = self.subscribe_snapshot(&session).await else {
            panic!("a session's snapshot")
        };
        let chat = state.default_chat.expect("the default chat is in the first snapshot");
        self.subscribe_snapshot(&chat).await;
        SessionUris { session, chat }
    }

    /// Subscribes and returns the snapshot's state.
    pub async fn subscribe_snapshot(&self, channel: &str) -> SnapshotState {
        let (result, _events) = self.client.subscribe(channel.to_owned()).await.expect("subscribe succeeds");
        result.snapshot.expect("a snapshot").state
    }

    /// Returns a chat's current state.
    pub async fn chat_state(&self, chat: &str) -> ChatState {
        match self.subscribe_snapshot(chat).await {
            SnapshotState::Chat(state) => *state,
            other => panic!("a chat's snapshot, not {other:?}"),
        }
    }

    /// Returns the URIs of the listed sessions.
    pub async fn list_sessions(&self) -> Vec<String> {
        let params = json!({"channel": ahp_types::ROOT_RESOURCE_URI});
        let list: Value = self.client.request("listSessions", params).await.expect("listSessions succeeds");
        let items = list["items"].as_array().expect("a list of sessions");
        items.iter().map(|item| item["resource"].as_str().expect("a URI").to_owned()).collect()
    }

    /// Disposes of a session.
    pub async fn dispose_session(&self, session: &str) {
        let params = json!({"channel": session});
        let _: Value = self.client.request("disposeSession", params).await.expect("disposeSession succeeds");
    }

    /// Sends a message; returns the turn's id.
    pub async fn send_message(&self, chat: &str, text: &str) -> String {
        let turn = Uuid::new_v4().to_string();
        let message = Message {
            text: text.to_owned(),
            origin: MessageOrigin { kind: MessageKind::User },
            attachments: None,
            model: None,
            agent: None,
            meta: None,
        };
        let action = ChatTurnStartedAction {
            turn_id: turn.clone(),
            started_at: "2026-11-15T08:00:00.000Z".to_owned(),
            message,
            queued_message_id: None,
            meta: None,
        };
        self.dispatch(chat, StateAction::ChatTurnStarted(action)).await;
        turn
    }

    /// Cancels a turn.
    pub async fn cancel_turn(&self, chat: &str, turn: &str) {
        let action = ChatTurnCancelledAction { turn_id: turn.to_owned(), duration: 1, meta: None };
        self.dispatch(chat, StateAction::ChatTurnCancelled(action)).await;
    }

    /// Dispatches an action.
    pub async fn dispatch(&self, channel: &str, action: StateAction) {
        self.client.dispatch(channel.to_owned(), action).await.expect("dispatch succeeds");
    }

    /// Receives the next event of any channel.
    pub async fn next_event(&mut self) -> ClientEvent {
        match tokio::time::timeout(EVENT_TIMEOUT, self.events.recv()).await {
            Ok(Some(event)) => {
                self.received.push(event.clone());
                event
            }
            Ok(None) => panic!("the connection ended after {:#?}", self.last_events()),
            Err(_) => panic!("nothing more was received after {:#?}", self.last_events()),
        }
    }

    /// Waits for a matching envelope on a channel; returns all envelopes of that channel up to it.
    pub async fn wait_for(&mut self, channel: &str, fits: impl Fn(&ActionEnvelope) -> bool) -> Vec<ActionEnvelope> {
        let mut envelopes = Vec::new();
        loop {
            let event = self.next_event().await;
            if event.channel == channel
                && let SubscriptionEvent::Action(envelope) = event.event
            {
                let done = fits(&envelope);
                envelopes.push(envelope);
                if done {
                    return envelopes;
                }
            }
        }
    }

    /// Waits for the end of a turn, however it ends.
    pub async fn wait_for_turn_end(&mut self, chat: &str) -> Vec<ActionEnvelope> {
        self.wait_for(chat, is_turn_end).await
    }

    /// Sends a message, waits for the turn's end and returns the text of its markdown parts.
    pub async fn send_and_wait(&mut self, chat: &str, text: &str) -> String {
        self.send_message(chat, text).await;
        let envelopes = self.wait_for_turn_end(chat).await;
        collect_text(&envelopes)
    }

    fn last_events(&self) -> &[ClientEvent] {
        let from = self.received.len().saturating_sub(12);
        self.received.get(from..).unwrap_or_default()
    }
}

/// Returns whether an envelope ends a turn.
pub fn is_turn_end(envelope: &ActionEnvelope) -> bool {
    envelope.rejection_reason.is_none()
        && matches!(
            envelope.action,
            StateAction::ChatTurnComplete(_) | StateAction::ChatTurnCancelled(_) | StateAction::ChatError(_)
        )
}

/// Returns the markdown of envelopes.
pub fn collect_text(envelopes: &[ActionEnvelope]) -> String {
    envelopes
        .iter()
        .filter_map(|envelope| match &envelope.action {
            StateAction::ChatDelta(delta) => Some(delta.content.as_str()),
            _ => None,
        })
        .collect()
}

/// Returns a state after the envelopes of its channel.
pub fn reduce_chat(mut chat: ChatState, envelopes: &[ActionEnvelope]) -> ChatState {
    for envelope in envelopes.iter().filter(|envelope| envelope.rejection_reason.is_none()) {
        reducers::apply_action_to_chat(&mut chat, &envelope.action);
    }
    chat
}

/// In-memory transport.
pub struct MemoryTransport {
    /// To the host.
    pub sender: mpsc::Sender<String>,
    /// From the host.
    pub receiver: mpsc::Receiver<Bytes>,
}

impl Transport for MemoryTransport {
    async fn send(&mut self, message: TransportMessage) -> Result<(), TransportError> {
        let text = match message {
            TransportMessage::Text(text) => text,
            TransportMessage::Binary(_) => panic!("the client sends text"),
            TransportMessage::Parsed(message) => serde_json::to_string(&message).expect("JSON"),
        };
        self.sender.send(text).await.map_err(|_| TransportError::Closed)
    }

    async fn recv(&mut self) -> Result<Option<TransportMessage>, TransportError> {
        let Some(frame) = self.receiver.recv().await else { return Ok(None) };
        let text = String::from_utf8(frame.to_vec()).expect("UTF-8");
        Ok(Some(TransportMessage::Text(text)))
    }
}
