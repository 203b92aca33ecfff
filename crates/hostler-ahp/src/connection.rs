//! One client's connection: the handshake, then a reader and a writer that run concurrently.
//!
//! The reader never waits for a session or a disk. The writer owns the outbound side and drains its queue before it
//! flushes. A client that does not read fills its queue and is disconnected; other clients are not affected.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ahp_types::commands::{Implementation, InitializeResult, ReconnectResult, ReconnectSnapshotResult};
use ahp_types::errors::ahp_error_codes;
use ahp_types::state::TelemetryCapabilities;
use futures::future::join_all;
use futures::{Sink, SinkExt as _, Stream, StreamExt as _};
use hostler_engine::{
    ChannelSnapshot, Deliveries, Delivery, Engine, EngineError, PresenceGuard, ReconnectOutcome, SnapshotTurns,
    Subscriber,
};
use hostler_telemetry::LogTap;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::browser_sessions::{BrowserClient, BrowserSessions};
use crate::connected_clients::ConnectedClients;
use crate::connection_reader::ConnectionReader;
use crate::encode::{self, AnswerWriter, Frame};
use crate::host_requests::HostRequests;
use crate::log_channels::{self, LogSubscriptions};
use crate::methods::{self, InitializeRequest};
use crate::protocol::notifications;
use crate::protocol_version::ProtocolVersion;
use crate::rpc::{self, IncomingMessage, JsonRpcId, RpcError};
use crate::ws::{CloseReason, FrameEncoding, SocketLimits};

/// Limits of one connection.
#[derive(Debug, Clone)]
pub struct AhpConnectionLimits {
    /// Maximum number of queued deliveries before the client is disconnected.
    pub max_queued_deliveries: usize,
    /// Maximum time for a client to initialize.
    pub initialize_timeout: Duration,
    /// Maximum time for a client to answer a request of the host.
    pub host_request_timeout: Duration,
    /// Limits of the socket that carries the connection.
    pub socket: SocketLimits,
}

impl Default for AhpConnectionLimits {
    fn default() -> Self {
        Self {
            max_queued_deliveries: 16_384,
            initialize_timeout: Duration::from_secs(30),
            host_request_timeout: Duration::from_secs(30),
            socket: SocketLimits::default(),
        }
    }
}

/// What a connection shares with the server.
#[derive(Clone)]
pub(crate) struct ConnectionContext {
    pub(crate) engine: Engine,
    pub(crate) limits: AhpConnectionLimits,
    /// All connected clients.
    pub(crate) clients: ConnectedClients,
    /// The host's own log, if clients may subscribe to it.
    pub(crate) logs: Option<LogTap>,
    /// How frames are encoded on this connection.
    pub(crate) encoding: FrameEncoding,
    /// Browsers that may connect without the token.
    pub(crate) browser_sessions: BrowserSessions,
    /// The browser session that authenticated this client, if any.
    pub(crate) browser_client: Option<Arc<BrowserClient>>,
    /// Canceled when the server stops.
    pub(crate) stop: CancellationToken,
    /// Tracks work that must finish even if the connection ends.
    pub(crate) tasks: TaskTracker,
}

/// Maximum time for a client to read the remaining frames when the server stops.
const STOP_FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// Serves one client until it disconnects, is disconnected, or the server stops. Returns the reason for the close
/// frame.
pub(crate) async fn serve<I, O>(context: ConnectionContext, inbound: I, outbound: O) -> CloseReason
where
    I: Stream<Item = String> + Send + Unpin,
    O: Sink<Frame> + Send + Unpin + 'static,
{
    let (subscriber, deliveries) = Subscriber::new(context.limits.max_queued_deliveries);
    let id = subscriber.id();
    let engine = context.engine.clone();
    let close_reason = run_connection(context, subscriber, deliveries, inbound, outbound).await;
    engine.remove_subscriber(id);
    if close_reason == CloseReason::SignedOut {
        tracing::info!("client disconnected: its browser was signed out");
    }
    close_reason
}

async fn run_connection<I, O>(
    context: ConnectionContext,
    subscriber: Subscriber,
    mut deliveries: Deliveries,
    mut inbound: I,
    mut outbound: O,
) -> CloseReason
where
    I: Stream<Item = String> + Send + Unpin,
    O: Sink<Frame> + Send + Unpin + 'static,
{
    let stop = context.stop.clone();
    let signed_out =
        context.browser_client.as_ref().map_or_else(CancellationToken::new, |client| client.signed_out.clone());
    let (replies, outgoing) = mpsc::channel(64);
    let logs = context.logs.clone().map(|tap| LogSubscriptions::new(tap, replies.clone()));
    let mut handshake = HandshakeInbound {
        deadline: Instant::now() + context.limits.initialize_timeout,
        inbound: &mut inbound,
        early: VecDeque::new(),
        timed_out: false,
    };
    let client = tokio::select! {
        () = stop.cancelled() => return CloseReason::GoingAway,
        () = signed_out.cancelled() => return CloseReason::SignedOut,
        client = await_handshake(&context, &subscriber, &mut deliveries, logs.as_ref(), &mut handshake, &mut outbound) => client,
    };
    let HandshakeInbound { early, timed_out, .. } = handshake;
    // The client counts as present until this function ends, on every path.
    let InitializedClient { version, id: client_id, presence: _presence } = match client {
        Some(client) => client,
        None if timed_out => return CloseReason::NeverInitialized,
        None => return CloseReason::Finished,
    };

    // One large answer waits while another one is written.
    let (large_sender, large_replies) = mpsc::channel(1);
    let pending_answers = PendingAnswers::default();
    let encoding = context.encoding;
    let writer = ConnectionWriter {
        version,
        encoding,
        pending_answers: pending_answers.clone(),
        deliveries,
        replies: outgoing,
        large_replies,
        outbound,
    };
    let (overflow, id, engine) = (subscriber.overflow().clone(), subscriber.id(), context.engine.clone());
    let host_requests = HostRequests::new(replies.clone(), context.limits.host_request_timeout);
    // Unanswered host requests fail when this function ends.
    let _hang_up = host_requests.disconnect_on_drop();
    let _connected = context.clients.register(&client_id, &host_requests);
    let reader =
        ConnectionReader::new(context, subscriber, client_id, pending_answers, replies, large_sender, host_requests)
            .with_logs(logs);
    let mut writing = std::pin::pin!(writer.run());
    tokio::select! {
        () = overflow.cancelled() => {
            tracing::info!("client disconnected: it does not read its messages");
            CloseReason::TooSlow
        }
        () = signed_out.cancelled() => CloseReason::SignedOut,
        () = &mut writing => CloseReason::Finished,
        () = reader.run(futures::stream::iter(early).chain(inbound)) => CloseReason::Finished,
        () = stop.cancelled() => {
            // The reader has ended and the engine delivers no more: the writer ends after the queued deliveries.
            engine.remove_subscriber(id);
            if tokio::time::timeout(STOP_FLUSH_TIMEOUT, writing).await.is_err() {
                tracing::debug!("client did not read its remaining messages in time");
            }
            CloseReason::GoingAway
        }
    }
}

/// Client that has initialized or reconnected.
struct InitializedClient {
    version: ProtocolVersion,
    id: String,
    presence: PresenceGuard,
}

/// Answers requests until the client has initialized. `None` if it disconnects or cannot be served.
async fn await_handshake<I, O>(
    context: &ConnectionContext,
    subscriber: &Subscriber,
    deliveries: &mut Deliveries,
    logs: Option<&LogSubscriptions>,
    handshake: &mut HandshakeInbound<'_, I>,
    outbound: &mut O,
) -> Option<InitializedClient>
where
    I: Stream<Item = String> + Send + Unpin,
    O: Sink<Frame> + Send + Unpin,
{
    while let Some(text) = handshake.next().await {
        let (id, method, params) = match rpc::parse_message(&text) {
            Ok(IncomingMessage::Request { id, method, params }) => (id, method, params),
            Ok(IncomingMessage::Notification { .. } | IncomingMessage::Response { .. }) => continue,
            Err((id, error)) => {
                outbound.send(context.encoding.frame(&encode::answer(&id, Err(error)))).await.ok()?;
                continue;
            }
        };
        let result = match method.as_str() {
            "initialize" => match methods::parse_initialize(params) {
                Ok(request) => {
                    let preparing = prepare_initialize(context, subscriber, deliveries, logs, &id, request);
                    let answer = handshake.read_during(context.encoding, outbound, preparing).await?;
                    return answer.send(context, outbound).await;
                }
                Err(error) => {
                    // Without a common version the connection cannot continue.
                    let is_incompatible = error.code == ahp_error_codes::UNSUPPORTED_PROTOCOL_VERSION;
                    outbound.send(context.encoding.frame(&encode::answer(&id, Err(error)))).await.ok()?;
                    if is_incompatible {
                        return None;
                    }
                    continue;
                }
            },
            "ping" => Ok(Value::Null),
            "reconnect" => {
                let preparing = prepare_reconnect(context, subscriber, deliveries, logs, &id, params);
                match handshake.read_during(context.encoding, outbound, preparing).await? {
                    Ok(answer) => return answer.send(context, outbound).await,
                    // The socket stays open: the client may still initialize.
                    Err(error) => Err(error),
                }
            }
            _ => Err(RpcError::new(-32601, "the connection is not initialized; send initialize first")),
        };
        outbound.send(context.encoding.frame(&encode::answer(&id, result))).await.ok()?;
    }
    None
}

/// Maximum number of messages that are read before the handshake is answered.
const MAX_EARLY_MESSAGES: usize = 16;

/// Messages before the client is initialized. The timeout applies to reading them only: an answer can be long and the
/// connection slow.
struct HandshakeInbound<'a, I> {
    deadline: Instant,
    inbound: &'a mut I,
    /// Messages that arrived while an answer was prepared.
    early: VecDeque<String>,
    timed_out: bool,
}

impl<I: Stream<Item = String> + Unpin> HandshakeInbound<'_, I> {
    /// Waits for an answer, which can need a slow session, and reads meanwhile: pings are answered, and other messages
    /// wait behind the answer. `None` if the client disconnects.
    async fn read_during<T>(
        &mut self,
        encoding: FrameEncoding,
        outbound: &mut (impl Sink<Frame> + Unpin),
        answer: impl Future<Output = Option<T>>,
    ) -> Option<T> {
        let mut answer = std::pin::pin!(answer);
        loop {
            let text = tokio::select! {
                biased;
                answer = &mut answer => return answer,
                text = self.inbound.next(), if self.early.len() < MAX_EARLY_MESSAGES => text?,
            };
            match rpc::parse_message(&text) {
                Ok(IncomingMessage::Request { id, method, .. }) if method == "ping" => {
                    outbound.send(encoding.frame(&encode::answer(&id, Ok(Value::Null)))).await.ok()?;
                }
                _ => self.early.push_back(text),
            }
        }
    }

    async fn next(&mut self) -> Option<String> {
        if let Some(early) = self.early.pop_front() {
            return Some(early);
        }
        let received = tokio::time::timeout_at(self.deadline, self.inbound.next()).await;
        self.timed_out = received.is_err();
        received.ok().flatten()
    }
}

/// The answer to a handshake, and the deliveries that arrived before it was complete.
struct HandshakeAnswer {
    client: InitializedClient,
    frame: Frame,
    later_deliveries: Vec<Delivery>,
}

impl HandshakeAnswer {
    /// Sends the answer, then the deliveries.
    async fn send(
        self,
        context: &ConnectionContext,
        outbound: &mut (impl Sink<Frame> + Unpin),
    ) -> Option<InitializedClient> {
        let Self { client, frame, later_deliveries } = self;
        let (version, no_requests) = (&client.version, PendingAnswers::default());
        outbound.feed(frame).await.ok()?;
        for delivery in later_deliveries {
            let frames = encode_delivery(version, context.encoding, &no_requests, delivery).await;
            for frame in frames.into_iter().flatten() {
                outbound.feed(frame).await.ok()?;
            }
        }
        outbound.flush().await.ok()?;
        Some(client)
    }
}

/// Prepares the answer to `initialize` with the requested snapshots, before any envelope that follows them.
async fn prepare_initialize(
    context: &ConnectionContext,
    subscriber: &Subscriber,
    deliveries: &mut Deliveries,
    logs: Option<&LogSubscriptions>,
    id: &JsonRpcId,
    request: InitializeRequest,
) -> Option<HandshakeAnswer> {
    let presence = context.engine.connect_client(&request.client_id, request.version.client_metadata()).await;
    context.engine.attach(&request.client_id, subscriber);
    let (log, channels) = split_log_channels(request.subscriptions);
    subscribe_to_logs(logs, &log);
    let (snapshots, later_deliveries) =
        collect_snapshots(context, subscriber, deliveries, SnapshotTurns::All, &channels).await?;
    let last = snapshots.iter().map(|snapshot| snapshot.from_seq).max();
    let server_seq = i64::try_from(last.unwrap_or_else(|| context.engine.current_seq())).unwrap_or(i64::MAX);
    let result = InitializeResult {
        protocol_version: request.version.name.clone(),
        server_seq,
        server_info: Some(Implementation {
            name: "hostler".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            title: Some("Hostler".to_owned()),
        }),
        meta: None,
        snapshots: Vec::new(),
        default_directory: Url::from_directory_path(context.engine.default_directory()).ok().map(String::from),
        completion_trigger_characters: Some(["@", "#", "/"].map(str::to_owned).to_vec()),
        terminal_command_prefix: context.engine.command_prefix().map(str::to_owned),
        telemetry: context.logs.as_ref().map(|_| TelemetryCapabilities {
            logs: Some(log_channels::LOG_CHANNEL_TEMPLATE.to_owned()),
            ..TelemetryCapabilities::default()
        }),
        automations: None,
    };
    let frame = encode_answer_with_snapshots(context, id, &result, &request.version, snapshots).await;
    let client = InitializedClient { version: request.version, id: request.client_id, presence };
    Some(HandshakeAnswer { client, frame, later_deliveries })
}

/// Resumes a client's subscriptions and prepares the answer. The inner error leaves the connection unchanged.
async fn prepare_reconnect(
    context: &ConnectionContext,
    subscriber: &Subscriber,
    deliveries: &mut Deliveries,
    logs: Option<&LogSubscriptions>,
    id: &JsonRpcId,
    params: Value,
) -> Option<Result<HandshakeAnswer, RpcError>> {
    let request = match methods::parse_reconnect(params) {
        Ok(request) => request,
        Err(error) => return Some(Err(error)),
    };
    let engine = &context.engine;
    let known = engine
        .client_metadata(&request.client_id)
        .and_then(|metadata| ProtocolVersion::from_client_metadata(&metadata));
    let Some(version) = known else { return Some(Err(EngineError::ClientUnknown.into())) };
    let (log, channels) = split_log_channels(request.subscriptions);
    let answer = engine.reconnect(&request.client_id, request.last_seen_seq, &channels, subscriber, 0).await;
    let (channels, missing, replay) = match answer {
        Ok(ReconnectOutcome::Replay { channels, missing }) => (channels, missing, true),
        Ok(ReconnectOutcome::Snapshots { channels, missing }) => (channels, missing, false),
        Err(error) => return Some(Err(error.into())),
    };
    let presence = engine.connect_client(&request.client_id, version.client_metadata()).await;
    engine.attach(&request.client_id, subscriber);
    subscribe_to_logs(logs, &log);
    let client = InitializedClient { version, id: request.client_id, presence };
    if replay && let Delivery::Replay { missed: Some(missed), .. } = deliveries.recv().await? {
        let frame = context.encoding.frame(&encode::replay(id, &client.version, &missed, &missing));
        return Some(Ok(HandshakeAnswer { client, frame, later_deliveries: Vec::new() }));
    }
    let (snapshots, later_deliveries) =
        collect_snapshots(context, subscriber, deliveries, SnapshotTurns::SameAsBefore, &channels).await?;
    let result = ReconnectResult::Snapshot(ReconnectSnapshotResult { snapshots: Vec::new() });
    let frame = encode_answer_with_snapshots(context, id, &result, &client.version, snapshots).await;
    Some(Ok(HandshakeAnswer { client, frame, later_deliveries }))
}

/// Separates log channels from all others: the log has no state and the engine does not know it.
fn split_log_channels(channels: Vec<String>) -> (Vec<String>, Vec<String>) {
    channels.into_iter().partition(|channel| log_channels::is_log_channel(channel))
}

/// Subscribes the client to log channels before the answer is sent, so the log includes what the answer causes.
fn subscribe_to_logs(logs: Option<&LogSubscriptions>, channels: &[String]) {
    if let Some(logs) = logs {
        channels.iter().for_each(|channel| logs.subscribe(channel));
    }
}

/// Subscribes to channels and collects their snapshots, in the order of the channels; other deliveries that arrive
/// meanwhile are sent after them. One slow session does not delay the subscriptions to others.
async fn collect_snapshots(
    context: &ConnectionContext,
    subscriber: &Subscriber,
    deliveries: &mut Deliveries,
    extent: SnapshotTurns,
    channels: &[String],
) -> Option<(Vec<ChannelSnapshot>, Vec<Delivery>)> {
    let mut subscribing = Vec::with_capacity(channels.len());
    for (token, channel) in (0..).zip(channels) {
        subscribing.push(context.engine.subscribe_with_turns(channel, extent, subscriber, token));
    }
    let subscribed = join_all(subscribing).await;
    // A channel that does not exist yields no snapshot and no error.
    let expected = subscribed.iter().filter(|result| result.is_ok()).count();
    let (mut snapshots, mut later_deliveries) = (BTreeMap::new(), Vec::new());
    while snapshots.len() < expected {
        match deliveries.recv().await? {
            Delivery::Snapshot { token, snapshot } => drop(snapshots.insert(token, snapshot)),
            other => later_deliveries.push(other),
        }
    }
    Some((snapshots.into_values().collect(), later_deliveries))
}

/// Encodes an answer that contains snapshots.
async fn encode_answer_with_snapshots(
    context: &ConnectionContext,
    id: &JsonRpcId,
    members: &impl Serialize,
    version: &ProtocolVersion,
    snapshots: Vec<ChannelSnapshot>,
) -> Frame {
    let mut answer = AnswerWriter::begin_result(id);
    match answer.write_result_with_snapshots(members, version, snapshots).await {
        Ok(()) => answer.finish(context.encoding),
        Err(error) => context.encoding.frame(&encode::answer(id, Err(error))),
    }
}

/// Requests whose answers pass through the delivery queue, by token.
#[derive(Clone, Default)]
pub(crate) struct PendingAnswers(Arc<Mutex<HashMap<u64, PendingAnswer>>>);

/// A request, and its permits, which are released when it is answered.
struct PendingAnswer {
    id: JsonRpcId,
    permits: Vec<OwnedSemaphorePermit>,
}

impl PendingAnswers {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, PendingAnswer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request, which holds its permit until it is answered.
    pub(crate) fn add(&self, id: JsonRpcId, permit: Option<OwnedSemaphorePermit>) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
        let token = NEXT.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(token, PendingAnswer { id, permits: permit.into_iter().collect() });
        token
    }

    /// Adds a permit to a request that is not answered yet.
    pub(crate) fn hold(&self, token: u64, permit: OwnedSemaphorePermit) {
        if let Some(request) = self.lock().get_mut(&token) {
            request.permits.push(permit);
        }
    }

    pub(crate) fn take(&self, token: u64) -> Option<JsonRpcId> {
        self.lock().remove(&token).map(|request| request.id)
    }
}

/// Encodes a delivery: an envelope or notification, and an answer behind it.
async fn encode_delivery(
    version: &ProtocolVersion,
    encoding: FrameEncoding,
    pending_answers: &PendingAnswers,
    delivery: Delivery,
) -> [Option<Frame>; 2] {
    let frame = match delivery {
        Delivery::Envelope(item) => encode::shared_envelope_frame(version, encoding, &item),
        // Notifications are few and small: all connections share the plain frame.
        Delivery::Notification(notice) if !version.supports(notifications::row_for(&notice.kind).since) => None,
        Delivery::Notification(notice) => Some(notice.frame(|kind| FrameEncoding::Plain.frame(&encode::notice(kind)))),
        Delivery::Snapshot { token, snapshot } => match pending_answers.take(token) {
            Some(id) => Some(encode_subscribe_answer(version, encoding, &id, snapshot).await),
            None => None,
        },
        Delivery::TurnsLoaded { token, envelope: loaded } => {
            let frame = loaded.as_ref().and_then(|item| encode::shared_envelope_frame(version, encoding, item));
            let result = loaded.map(|_| json!({})).ok_or_else(|| Engine::stale_view_error().into());
            let answer = pending_answers.take(token).map(|id| encoding.frame(&encode::answer(&id, result)));
            return [frame, answer];
        }
        // Only the handshake requests a replay, and awaits it there.
        Delivery::Replay { .. } => None,
    };
    [frame, None]
}

/// Encodes the answer to `subscribe`.
async fn encode_subscribe_answer(
    version: &ProtocolVersion,
    encoding: FrameEncoding,
    id: &JsonRpcId,
    snapshot: ChannelSnapshot,
) -> Frame {
    let mut answer = AnswerWriter::begin_result(id);
    answer.push(r#"{"snapshot":"#);
    match answer.write_snapshot(version, snapshot).await {
        Ok(()) => {
            answer.push("}");
            answer.finish(encoding)
        }
        Err(error) => encoding.frame(&encode::answer(id, Err(error))),
    }
}

struct ConnectionWriter<O> {
    version: ProtocolVersion,
    encoding: FrameEncoding,
    pending_answers: PendingAnswers,
    deliveries: Deliveries,
    replies: mpsc::Receiver<Frame>,
    large_replies: mpsc::Receiver<Frame>,
    outbound: O,
}

impl<O: Sink<Frame> + Send + Unpin> ConnectionWriter<O> {
    /// Writes all queued frames, then flushes once: a burst costs few system calls, and a single frame is not delayed.
    async fn run(mut self) {
        let mut batch = Vec::new();
        loop {
            let reply = tokio::select! {
                Some(reply) = self.replies.recv() => Some(reply),
                Some(reply) = self.large_replies.recv() => Some(reply),
                count = self.deliveries.recv_many(&mut batch, 512) => {
                    if count == 0 {
                        // Closing the sink sends the close frame.
                        let _ = self.outbound.close().await;
                        return;
                    }
                    None
                }
            };
            if let Some(reply) = reply
                && self.outbound.feed(self.encoding.frame(&reply)).await.is_err()
            {
                return;
            }
            for delivery in batch.drain(..) {
                let frames = encode_delivery(&self.version, self.encoding, &self.pending_answers, delivery).await;
                for frame in frames.into_iter().flatten() {
                    if self.outbound.feed(frame).await.is_err() {
                        return;
                    }
                }
            }
            if self.deliveries.is_empty() && self.outbound.flush().await.is_err() {
                return;
            }
        }
    }
}
