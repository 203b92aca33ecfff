//! Small AHP client: one WebSocket, requests with answers, dispatched actions, and a bounded stream of events.
//!
//! It owns framing and request ids; the caller interprets the events.

mod actor;
mod browser_sign_in;
mod frames;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use ahp_types::ROOT_RESOURCE_URI;
use ahp_types::actions::{ChatTurnsLoadedAction, StateAction};
use ahp_types::commands::{
    CreateSessionParams, DispatchActionParams, DisposeSessionParams, FetchTurnsParams, Implementation,
    InitializeParams, ListSessionsParams, ListSessionsResult, SubscribeParams, SubscribeResult, SubscribeView,
};
use ahp_types::messages::JsonRpcError;
use ahp_types::state::{ChatState, MessageAttachment, SessionState, SnapshotState};
use hostler_redact::redact_json_error;
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, client::IntoClientRequest as _};

use crate::attachments::AttachmentPlanResponse;
use crate::commands::GrantInfo;
use actor::{ClientCommand, ConnectionActor, KeepaliveTimeouts};
pub(crate) use browser_sign_in::SignedInBrowser;
pub(crate) use frames::{HostEvent, rejection_code};

/// Protocol version of this client.
const PROTOCOL_VERSION: &str = "1.0.0";
/// Events that may wait for the caller; when the queue is full, the socket is not read until the caller catches up.
const EVENT_QUEUE_SIZE: usize = 1024;
const COMMAND_QUEUE_SIZE: usize = 16;
/// Turns of a chat that the first request loads.
const INITIAL_TURN_COUNT: i64 = 50;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// JSON-RPC error code of a method that the host does not know.
const METHOD_NOT_FOUND_CODE: i32 = -32601;
const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// Parameters of `hostler/search`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SearchParams<'a> {
    pub(crate) query: &'a str,
    pub(crate) limit: u32,
    pub(crate) offset: usize,
    pub(crate) wait_for_index: bool,
    pub(crate) include_unlisted: bool,
}

/// Page of search results, as the host sends it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SearchResultPage {
    pub(crate) items: Vec<Box<RawValue>>,
    pub(crate) next_offset: Option<usize>,
    #[serde(default)]
    pub(crate) pending_sessions: usize,
    pub(crate) index_error: Option<String>,
}

/// Why a request failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// No connection.
    #[error("Cannot reach the host at {addr}: {reason}.")]
    Unreachable {
        /// Address of the host.
        addr: SocketAddr,
        /// Why.
        reason: String,
    },
    /// The host rejected the connection with this HTTP status.
    #[error("The host rejected the connection with status {0}. Check the token.")]
    Refused(u16),
    /// The connection ended.
    #[error("The connection to the host was closed: {0}.")]
    Closed(String),
    /// The host answered a request with an error.
    #[error("{message}")]
    ErrorResponse {
        /// Code of the JSON-RPC error.
        rpc_code: i32,
        /// Code of the condition, from the error's `data.code`.
        code: Option<String>,
        /// Message of the host.
        message: String,
    },
    /// The host's answer does not match the protocol.
    #[error("Unexpected response to {method}: {reason}. Check that the host has the same version.")]
    UnexpectedResponse {
        /// The request.
        method: &'static str,
        /// What is wrong with the answer.
        reason: String,
    },
    /// The host rejected an action.
    #[error("The host rejected the change: {reason}")]
    ActionRejected {
        /// Code of the condition, from the envelope's metadata.
        code: Option<String>,
        /// Reason of the host.
        reason: String,
    },
    /// Too many events wait to be read; the answer would come after them.
    #[error("The connection is too slow: too many events of the host are waiting.")]
    FellBehind,
}

impl ClientError {
    /// Returns the code for programs. The host's own code wins where it sent one.
    pub fn code(&self) -> &str {
        match self {
            Self::Unreachable { .. } => "hostUnreachable",
            Self::Refused(_) => "connectionRejected",
            Self::Closed(_) => "connectionClosed",
            Self::ErrorResponse { code, .. } => code.as_deref().unwrap_or("protocolError"),
            Self::UnexpectedResponse { .. } => "unexpectedResponse",
            Self::ActionRejected { code, .. } => code.as_deref().unwrap_or("actionRejected"),
            Self::FellBehind => "clientTooSlow",
        }
    }
}

impl From<JsonRpcError> for ClientError {
    fn from(error: JsonRpcError) -> Self {
        let code = error.data.as_ref().and_then(|data| Some(data.get("code")?.as_str()?.to_owned()));
        Self::ErrorResponse { rpc_code: error.code, code, message: error.message }
    }
}

/// Initialized connection. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Client {
    commands: mpsc::Sender<ClientCommand>,
    client_id: String,
    client_seq: AtomicI64,
}

impl Client {
    /// Connects, initializes and subscribes to the root channel.
    pub(crate) async fn connect(
        addr: SocketAddr,
        token: Option<&SecretString>,
    ) -> Result<(Self, mpsc::Receiver<HostEvent>), ClientError> {
        let socket = tokio::time::timeout(CONNECT_TIMEOUT, open_socket(addr, token))
            .await
            .map_err(|_| ClientError::Unreachable { addr, reason: "it does not respond".to_owned() })??;
        let (commands, inbox) = mpsc::channel(COMMAND_QUEUE_SIZE);
        let (outbox, events) = mpsc::channel(EVENT_QUEUE_SIZE);
        tokio::spawn(ConnectionActor::new(socket, inbox, outbox, KeepaliveTimeouts::DEFAULT).run());
        let client = Self { commands, client_id: uuid::Uuid::new_v4().to_string(), client_seq: AtomicI64::new(0) };
        let negotiated: InitializeResponse = client
            .request(
                "initialize",
                &InitializeParams {
                    channel: ROOT_RESOURCE_URI.to_owned(),
                    meta: None,
                    protocol_versions: vec![PROTOCOL_VERSION.to_owned()],
                    client_id: client.client_id.clone(),
                    client_info: Some(Implementation {
                        name: "hostler-cli".to_owned(),
                        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
                        title: None,
                    }),
                    initial_subscriptions: Some(vec![ROOT_RESOURCE_URI.to_owned()]),
                    locale: None,
                    capabilities: None,
                },
            )
            .await?;
        if negotiated.protocol_version != PROTOCOL_VERSION {
            let reason = format!("the host selected protocol version {}", negotiated.protocol_version);
            return Err(ClientError::UnexpectedResponse { method: "initialize", reason });
        }
        Ok((client, events))
    }

    /// Client id that is the origin of our own actions.
    pub(crate) fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Subscribes to a channel; its events follow the answer. For a chat, `turns` is the number of latest turns to
    /// load.
    async fn subscribe<R: DeserializeOwned>(&self, channel: &str, turns: i64) -> Result<R, ClientError> {
        let view = Some(SubscribeView { turns: Some(turns) });
        let params = SubscribeParams { channel: channel.to_owned(), meta: None, delivery: None, view };
        self.request("subscribe", &params).await
    }

    /// Creates a session with a URI chosen by the client.
    pub(crate) async fn create_session(&self, params: &CreateSessionParams) -> Result<(), ClientError> {
        self.request::<IgnoredAny>("createSession", params).await.map(|_| ())
    }

    /// Removes a session permanently; it is removed when the answer arrives.
    pub(crate) async fn dispose_session(&self, session: &str) -> Result<(), ClientError> {
        let params = DisposeSessionParams { channel: session.to_owned(), meta: None };
        self.request::<IgnoredAny>("disposeSession", &params).await.map(|_| ())
    }

    /// Returns a page of the announced sessions, the most recently changed first.
    pub(crate) async fn list_sessions(
        &self,
        limit: usize,
        cursor: Option<String>,
    ) -> Result<ListSessionsResult, ClientError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params =
            ListSessionsParams { channel: ROOT_RESOURCE_URI.to_owned(), meta: None, limit: Some(limit), cursor };
        self.request("listSessions", &params).await
    }

    /// Returns a page of a session's audit log, after an entry (0: from the beginning).
    pub(crate) async fn fetch_audit_page(&self, session: &str, after: i64) -> Result<AuditPage, ClientError> {
        let params = AuditParams { channel: session, after };
        self.request("hostler/listAudit", &params).await
    }

    /// Searches sessions.
    pub(crate) async fn search(&self, params: &SearchParams<'_>) -> Result<SearchResultPage, ClientError> {
        self.request("hostler/search", params).await
    }

    /// Checks the agents' transcripts; returns the host's findings unparsed.
    pub(crate) async fn check_transcripts(&self) -> Result<Box<RawValue>, ClientError> {
        self.request("hostler/checkSessions", &RootParams { channel: ROOT_RESOURCE_URI }).await
    }

    /// Sets or removes a session's tag.
    pub(crate) async fn set_tag(&self, session: &str, tag: Option<&str>) -> Result<(), ClientError> {
        self.request::<IgnoredAny>("hostler/tagSession", &TagParams { channel: session, tag }).await.map(|_| ())
    }

    /// Returns the attachment plan for a message to a chat. `None` from a host without that method.
    pub(crate) async fn plan_attachments(
        &self,
        chat: &str,
        attachments: &[MessageAttachment],
    ) -> Result<Option<AttachmentPlanResponse>, ClientError> {
        let params = PlanAttachmentsParams { channel: chat, attachments };
        match self.request("hostler/planAttachments", &params).await {
            Err(ClientError::ErrorResponse { rpc_code: METHOD_NOT_FOUND_CODE, .. }) => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Lists grants beyond the sessions' directories, pending ones included.
    pub(crate) async fn list_grants(&self) -> Result<Vec<GrantInfo>, ClientError> {
        #[derive(Deserialize)]
        struct Page {
            items: Vec<GrantInfo>,
        }
        let params = GrantParams { channel: ROOT_RESOURCE_URI, id: None };
        Ok(self.request::<Page>("hostler/listGrants", &params).await?.items)
    }

    /// Allows or revokes a grant.
    pub(crate) async fn change_grant(&self, method: &'static str, id: &str) -> Result<(), ClientError> {
        let params = GrantParams { channel: ROOT_RESOURCE_URI, id: Some(id) };
        self.request::<IgnoredAny>(method, &params).await.map(|_| ())
    }

    /// Removes images from the context of a chat's agent; returns how many.
    pub(crate) async fn remove_images(&self, chat: &str, all: bool) -> Result<u64, ClientError> {
        let params = RemoveImagesParams { channel: chat, images: if all { "all" } else { "last" } };
        Ok(self.request::<RemoveImagesResult>("hostler/removeImages", &params).await?.removed)
    }

    /// Subscribes to a session and returns its state.
    pub(crate) async fn subscribe_to_session(&self, session: &str) -> Result<SessionState, ClientError> {
        match self.subscribe_state(session).await? {
            SnapshotState::Session(state) => Ok(*state),
            _ => Err(unexpected_state("not the state of a session")),
        }
    }

    /// Subscribes to a chat and returns its state with all turns; older turns are loaded page by page. Other events
    /// that arrive until then are dropped.
    pub(crate) async fn load_chat(
        &self,
        events: &mut mpsc::Receiver<HostEvent>,
        chat: &str,
    ) -> Result<ChatState, ClientError> {
        let mut state = match self.subscribe_state(chat).await? {
            SnapshotState::Chat(state) => *state,
            _ => return Err(unexpected_state("not the state of a chat")),
        };
        // Newest page first; turns inside a page are in order.
        let mut pages = vec![std::mem::take(&mut state.turns)];
        while let Some(cursor) = state.turns_next_cursor.take() {
            let page = self.fetch_older_turns(events, chat, cursor.clone()).await?;
            // Stops if the host repeats the same page.
            state.turns_next_cursor = page.turns_next_cursor.filter(|next| *next != cursor);
            pages.push(page.turns);
        }
        state.turns = pages.into_iter().rev().flatten().collect();
        Ok(state)
    }

    /// Loads a page of older turns. They arrive as an event before the answer.
    async fn fetch_older_turns(
        &self,
        events: &mut mpsc::Receiver<HostEvent>,
        chat: &str,
        cursor: String,
    ) -> Result<ChatTurnsLoadedAction, ClientError> {
        let params = FetchTurnsParams { channel: chat.to_owned(), meta: None, cursor: Some(cursor) };
        self.request::<IgnoredAny>("fetchTurns", &params).await?;
        loop {
            match events.try_recv() {
                Ok(HostEvent::Envelope { envelope, .. }) if envelope.channel == chat => {
                    if let StateAction::ChatTurnsLoaded(page) = envelope.action {
                        return Ok(page);
                    }
                }
                Ok(HostEvent::Envelope { .. } | HostEvent::SessionRemoved(_)) => {}
                Ok(HostEvent::Closed(error)) => return Err(error),
                Err(_) => {
                    let reason = "no turns were loaded".to_owned();
                    return Err(ClientError::UnexpectedResponse { method: "fetchTurns", reason });
                }
            }
        }
    }

    async fn subscribe_state(&self, channel: &str) -> Result<SnapshotState, ClientError> {
        let result: SubscribeResult = self.subscribe(channel, INITIAL_TURN_COUNT).await?;
        Ok(result.snapshot.ok_or_else(|| unexpected_state("no snapshot"))?.state)
    }

    /// Subscribes to a session and to its default chat; returns the chat's URI and whether a turn is running there.
    pub(crate) async fn subscribe_session_and_chat(&self, session: &str) -> Result<(String, bool), ClientError> {
        #[derive(Deserialize)]
        struct Subscribed {
            snapshot: Option<Snapshot>,
        }
        #[derive(Deserialize)]
        struct Snapshot {
            state: Chat,
        }
        // Only the active turn is needed of the chat's state.
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Chat {
            active_turn: Option<IgnoredAny>,
        }
        let chat = default_chat(&self.subscribe_to_session(session).await?)?;
        let subscribed: Subscribed = self.subscribe(&chat, 1).await?;
        let busy = subscribed.snapshot.is_some_and(|snapshot| snapshot.state.active_turn.is_some());
        Ok((chat, busy))
    }

    /// Dispatches an action on a subscribed channel and waits until the host has accepted or rejected it. Other
    /// events that arrive until then are dropped.
    pub(crate) async fn dispatch_and_confirm(
        &self,
        events: &mut mpsc::Receiver<HostEvent>,
        channel: &str,
        action: StateAction,
    ) -> Result<(), ClientError> {
        let seq = self.dispatch(channel, action).await?;
        loop {
            match events.recv().await {
                Some(HostEvent::Envelope { envelope, raw }) => {
                    let origin = envelope.origin.as_ref();
                    if origin.is_some_and(|origin| origin.client_id == self.client_id && origin.client_seq == seq) {
                        return match envelope.rejection_reason {
                            None => Ok(()),
                            Some(reason) => Err(ClientError::ActionRejected { code: rejection_code(&raw), reason }),
                        };
                    }
                }
                Some(HostEvent::SessionRemoved(_)) => {}
                Some(HostEvent::Closed(error)) => return Err(error),
                None => return Err(connection_closed()),
            }
        }
    }

    /// Dispatches an action; its outcome arrives as an event whose origin has the returned number.
    pub(crate) async fn dispatch(&self, channel: &str, action: StateAction) -> Result<i64, ClientError> {
        let client_seq = self.client_seq.fetch_add(1, Ordering::Relaxed) + 1;
        let params = DispatchActionParams { channel: channel.to_owned(), client_seq, action };
        let text = frames::encode_notification("dispatchAction", &params)?;
        self.commands.send(ClientCommand::Notify { text }).await.map_err(|_| connection_closed())?;
        Ok(client_seq)
    }

    /// Performs the close handshake and waits until the connection is closed.
    pub(crate) async fn close(self) {
        let (done, closed) = oneshot::channel();
        if self.commands.send(ClientCommand::Close { done }).await.is_ok() {
            let _gone = closed.await;
        }
    }

    async fn request<R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &(impl Serialize + Sync),
    ) -> Result<R, ClientError> {
        let params = frames::encode_params(method, params)?;
        let (reply, answer) = oneshot::channel();
        self.commands.send(ClientCommand::Request { method, params, reply }).await.map_err(|_| connection_closed())?;
        let result = answer.await.map_err(|_| connection_closed())??;
        serde_json::from_str(result.get())
            .map_err(|error| ClientError::UnexpectedResponse { method, reason: redact_json_error(&error) })
    }
}

/// Fields of the `initialize` answer that this client needs; others may be newer than this client.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResponse {
    protocol_version: String,
}

#[derive(Serialize)]
struct RootParams<'a> {
    channel: &'a str,
}

#[derive(Serialize)]
struct TagParams<'a> {
    channel: &'a str,
    tag: Option<&'a str>,
}

#[derive(Serialize)]
struct PlanAttachmentsParams<'a> {
    channel: &'a str,
    attachments: &'a [MessageAttachment],
}

#[derive(Serialize)]
struct RemoveImagesParams<'a> {
    channel: &'a str,
    images: &'static str,
}

#[derive(Deserialize)]
struct RemoveImagesResult {
    #[serde(default)]
    removed: u64,
}

#[derive(Serialize)]
struct GrantParams<'a> {
    channel: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
}

#[derive(Serialize)]
struct AuditParams<'a> {
    channel: &'a str,
    after: i64,
}

/// Entries of an audit log, unparsed.
#[derive(Deserialize)]
pub(crate) struct AuditPage {
    pub(crate) items: Vec<Box<RawValue>>,
    /// Start of the next page, if there is one.
    #[serde(rename = "next")]
    pub(crate) next_cursor: Option<i64>,
}

/// Returns the chat that receives a session's messages.
pub(crate) fn default_chat(session: &SessionState) -> Result<String, ClientError> {
    session.default_chat.clone().ok_or_else(|| unexpected_state("the session has no default chat"))
}

fn unexpected_state(reason: &str) -> ClientError {
    ClientError::UnexpectedResponse { method: "subscribe", reason: reason.to_owned() }
}

fn connection_closed() -> ClientError {
    ClientError::Closed("it is no longer open".to_owned())
}

async fn open_socket(addr: SocketAddr, token: Option<&SecretString>) -> Result<actor::Socket, ClientError> {
    let unreachable = |reason: String| ClientError::Unreachable { addr, reason };
    let url = match token {
        Some(token) => format!("ws://{addr}/?tkn={}", token.expose_secret()),
        None => format!("ws://{addr}/"),
    };
    // The error is not included: it could quote the URL and with it the token.
    let request = url.into_client_request().map_err(|_| unreachable("invalid address".to_owned()))?;
    let mut config = WebSocketConfig::default();
    config.max_message_size = Some(MAX_MESSAGE_BYTES);
    config.max_frame_size = Some(MAX_MESSAGE_BYTES);
    match tokio_tungstenite::connect_async_with_config(request, Some(config), true).await {
        Ok((socket, _response)) => Ok(socket),
        Err(tungstenite::Error::Http(response)) => Err(ClientError::Refused(response.status().as_u16())),
        Err(tungstenite::Error::Io(error)) => Err(unreachable(error.to_string())),
        Err(_) => Err(unreachable("the server at this address is not a Hostler host".to_owned())),
    }
}
