//! One client's connection: handshake, then a reader and a writer side by side.
//!
//! The reader handles messages in the order in which they arrive; the writer owns the outbound side and drains its
//! queue in one go. A client that does not read fills its queue and is cut off; nobody else notices.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ahp_types::commands::{Implementation, InitializeResult, ReconnectResult, ReconnectSnapshotResult};
use ahp_types::state::TelemetryCapabilities;
use futures::{Sink, SinkExt as _, Stream, StreamExt as _};
use hostler_engine::{
    Deliveries, Delivery, Engine, EngineError, Extent, Presence, Reconnected, SnapshotAt, Subscriber,
};
use hostler_telemetry::LogTap;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::clients::Clients;
use crate::encode::{self, Frame, Long};
use crate::logs::{self, Logs};
use crate::methods::{self, Hello};
use crate::pass::{Guest, Passes};
use crate::protocol::notifications;
use crate::reader::Reader;
use crate::reverse::Reverse;
use crate::rpc::{self, Incoming, RequestId, RpcError};
use crate::version::Version;
use crate::ws::{Encoding, Goodbye, SocketLimits};

/// Bounds of one connection.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// How many deliveries may wait for the client before it is cut off.
    pub queue: usize,
    /// How long a client may take to initialize.
    pub handshake: Duration,
    /// How long a client may take to answer a request of the host.
    pub reverse: Duration,
    /// Bounds of the sockets that carry connections.
    pub socket: SocketLimits,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            queue: 16_384,
            handshake: Duration::from_secs(30),
            reverse: Duration::from_secs(30),
            socket: SocketLimits::default(),
        }
    }
}

/// What a connection shares with the server.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) engine: Engine,
    pub(crate) limits: ConnectionLimits,
    /// Who else is connected.
    pub(crate) clients: Clients,
    /// The host's own log, if clients may hear it.
    pub(crate) logs: Option<LogTap>,
    /// How frames are written on this connection.
    pub(crate) encoding: Encoding,
    /// Which browsers may come in without the token.
    pub(crate) passes: Passes,
    /// The pass by which this client is in, if it is.
    pub(crate) guest: Option<Arc<Guest>>,
    /// Fires when the server stops.
    pub(crate) stop: CancellationToken,
    /// Work that must be finished even if the connection is gone.
    pub(crate) tasks: TaskTracker,
}

/// How long a client may take to read what is left when the server stops.
const FAREWELL: Duration = Duration::from_millis(500);

/// Serves one client until it leaves, is cut off, or the server stops. Says which, for the close frame.
pub(crate) async fn serve<I, O>(context: Context, inbound: I, outbound: O) -> Goodbye
where
    I: Stream<Item = String> + Send + Unpin,
    O: Sink<Frame> + Send + Unpin + 'static,
{
    let (subscriber, deliveries) = Subscriber::new(context.limits.queue);
    let id = subscriber.id();
    let engine = context.engine.clone();
    let goodbye = talk(context, subscriber, deliveries, inbound, outbound).await;
    engine.forget_subscriber(id);
    if goodbye == Goodbye::SignedOut {
        tracing::info!("a client left because its browser was signed out");
    }
    goodbye
}

async fn talk<I, O>(
    context: Context,
    subscriber: Subscriber,
    mut deliveries: Deliveries,
    mut inbound: I,
    mut outbound: O,
) -> Goodbye
where
    I: Stream<Item = String> + Send + Unpin,
    O: Sink<Frame> + Send + Unpin + 'static,
{
    let stop = context.stop.clone();
    let signed_out = context.guest.as_ref().map_or_else(CancellationToken::new, |guest| guest.ended.clone());
    let (replies, outgoing) = mpsc::channel(64);
    let logs = context.logs.clone().map(|tap| Logs::new(tap, replies.clone()));
    let mut first = First { until: Instant::now() + context.limits.handshake, inbound: &mut inbound, late: false };
    let greeted = tokio::select! {
        () = stop.cancelled() => return Goodbye::GoingAway,
        () = signed_out.cancelled() => return Goodbye::SignedOut,
        greeted = greet(&context, &subscriber, &mut deliveries, logs.as_ref(), &mut first, &mut outbound) => greeted,
    };
    let late = first.late;
    // The presence lasts until the end of this function, however that comes.
    let Client { version, id: client_id, presence: _presence } = match greeted {
        Some(client) => client,
        None if late => return Goodbye::NeverInitialized,
        None => return Goodbye::Done,
    };

    // One waits while one is written.
    let (large, largest) = mpsc::channel(1);
    let waiting = Waiting::default();
    let encoding = context.encoding;
    let writer =
        Writer { version, encoding, waiting: waiting.clone(), deliveries, replies: outgoing, large: largest, outbound };
    let (overflow, id, engine) = (subscriber.overflow().clone(), subscriber.id(), context.engine.clone());
    let reverse = Reverse::new(replies.clone(), context.limits.reverse);
    // What the host has asked the client and is not answered fails with the end of this function.
    let _hang_up = reverse.hang_up_on_drop();
    let _connected = context.clients.connected(&client_id, &reverse);
    let reader = Reader::new(context, subscriber, client_id, waiting, replies, large, reverse).hearing(logs);
    let mut writing = std::pin::pin!(writer.run());
    tokio::select! {
        () = overflow.cancelled() => {
            tracing::info!("a client that did not read was disconnected");
            Goodbye::TooSlow
        }
        () = signed_out.cancelled() => Goodbye::SignedOut,
        () = &mut writing => Goodbye::Done,
        () = reader.run(inbound) => Goodbye::Done,
        () = stop.cancelled() => {
            // The reader is gone and nobody delivers any more: the writer ends after what is there.
            engine.forget_subscriber(id);
            if tokio::time::timeout(FAREWELL, writing).await.is_err() {
                tracing::debug!("a client did not read to the end");
            }
            Goodbye::GoingAway
        }
    }
}

/// A client that has initialized or come back.
struct Client {
    version: Version,
    id: String,
    presence: Presence,
}

/// Answers until the client has initialized. `None` if it leaves or cannot be served.
async fn greet<I, O>(
    context: &Context,
    subscriber: &Subscriber,
    deliveries: &mut Deliveries,
    logs: Option<&Logs>,
    first: &mut First<'_, I>,
    outbound: &mut O,
) -> Option<Client>
where
    I: Stream<Item = String> + Send + Unpin,
    O: Sink<Frame> + Send + Unpin,
{
    while let Some(text) = first.next().await {
        let (id, method, params) = match rpc::parse(&text) {
            Ok(Incoming::Request { id, method, params }) => (id, method, params),
            Ok(Incoming::Notification { .. } | Incoming::Answer { .. }) => continue,
            Err((id, error)) => {
                outbound.send(context.encoding.frame(&encode::answer(&id, Err(error)))).await.ok()?;
                continue;
            }
        };
        let result = match method.as_str() {
            "initialize" => match methods::initialize(params) {
                Ok(hello) => return welcome(context, subscriber, deliveries, logs, outbound, &id, hello).await,
                Err(error) => {
                    // Without a common version there is nothing more to say.
                    let hopeless = error.data.is_some();
                    outbound.send(context.encoding.frame(&encode::answer(&id, Err(error)))).await.ok()?;
                    if hopeless {
                        return None;
                    }
                    continue;
                }
            },
            "ping" => Ok(Value::Null),
            "reconnect" => match reconnect(context, subscriber, deliveries, logs, outbound, &id, params).await? {
                Ok(client) => return Some(client),
                // The socket stays open: the client may initialize on it.
                Err(error) => Err(error),
            },
            _ => Err(RpcError::new(-32601, "initialize first")),
        };
        outbound.send(context.encoding.frame(&encode::answer(&id, result))).await.ok()?;
    }
    None
}

/// What a client says before it is known. It has so long to say it; what it is answered may take longer, since that can be
/// long, and its line slow.
struct First<'a, I> {
    until: Instant,
    inbound: &'a mut I,
    late: bool,
}

impl<I: Stream<Item = String> + Unpin> First<'_, I> {
    async fn next(&mut self) -> Option<String> {
        let said = tokio::time::timeout_at(self.until, self.inbound.next()).await;
        self.late = said.is_err();
        said.ok().flatten()
    }
}

/// Answers `initialize` with the snapshots that it asked for, before any envelope that follows them.
async fn welcome<O>(
    context: &Context,
    subscriber: &Subscriber,
    deliveries: &mut Deliveries,
    logs: Option<&Logs>,
    outbound: &mut O,
    id: &RequestId,
    hello: Hello,
) -> Option<Client>
where
    O: Sink<Frame> + Send + Unpin,
{
    let presence = context.engine.client_arrived(&hello.client_id, hello.version.memo()).await;
    context.engine.shows(&hello.client_id, subscriber);
    let (log, channels) = apart(hello.subscriptions);
    hear(logs, &log);
    let (snapshots, held) = snapshots(context, subscriber, deliveries, Extent::All, &channels).await?;
    let last = snapshots.iter().map(|snapshot| snapshot.from_seq).max();
    let server_seq = i64::try_from(last.unwrap_or_else(|| context.engine.current_seq())).unwrap_or(i64::MAX);
    let result = InitializeResult {
        protocol_version: hello.version.name.clone(),
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
            logs: Some(logs::TEMPLATE.to_owned()),
            ..TelemetryCapabilities::default()
        }),
        automations: None,
    };
    let frame = with_snapshots(context, id, &result, &hello.version, snapshots).await;
    answer_and_release(context, outbound, &hello.version, frame, held).await?;
    Some(Client { version: hello.version, id: hello.client_id, presence })
}

/// Takes a client up again where it left. The inner error leaves the connection as it was.
async fn reconnect<O>(
    context: &Context,
    subscriber: &Subscriber,
    deliveries: &mut Deliveries,
    logs: Option<&Logs>,
    outbound: &mut O,
    id: &RequestId,
    params: Value,
) -> Option<Result<Client, RpcError>>
where
    O: Sink<Frame> + Send + Unpin,
{
    let back = match methods::reconnect(params) {
        Ok(back) => back,
        Err(error) => return Some(Err(error)),
    };
    let engine = &context.engine;
    let known = engine.client_memo(&back.client_id).and_then(|memo| Version::of_memo(&memo));
    let Some(version) = known else { return Some(Err(EngineError::ClientUnknown.into())) };
    let (log, channels) = apart(back.subscriptions);
    let answer = engine.reconnect(&back.client_id, back.last_seen, &channels, subscriber, 0).await;
    let (channels, missing, replay) = match answer {
        Ok(Reconnected::Replay { channels, missing }) => (channels, missing, true),
        Ok(Reconnected::Snapshots { channels, missing }) => (channels, missing, false),
        Err(error) => return Some(Err(error.into())),
    };
    let presence = engine.client_arrived(&back.client_id, version.memo()).await;
    engine.shows(&back.client_id, subscriber);
    hear(logs, &log);
    let client = Client { version, id: back.client_id, presence };
    if replay && let Delivery::Replay { missed: Some(missed), .. } = deliveries.recv().await? {
        let frame = context.encoding.frame(&encode::replay(id, &client.version, &missed, &missing));
        answer_and_release(context, outbound, &client.version, frame, Vec::new()).await?;
        return Some(Ok(client));
    }
    let (snapshots, held) = snapshots(context, subscriber, deliveries, Extent::AsBefore, &channels).await?;
    let result = ReconnectResult::Snapshot(ReconnectSnapshotResult { snapshots: Vec::new() });
    let frame = with_snapshots(context, id, &result, &client.version, snapshots).await;
    answer_and_release(context, outbound, &client.version, frame, held).await?;
    Some(Ok(client))
}

/// The channels of the log, and all others: the log has no state, and the engine knows nothing of it.
fn apart(channels: Vec<String>) -> (Vec<String>, Vec<String>) {
    channels.into_iter().partition(|channel| logs::is_channel(channel))
}

/// The client hears these channels of the log from before it is answered: what happens because of the answer is in it.
fn hear(logs: Option<&Logs>, channels: &[String]) {
    if let Some(logs) = logs {
        channels.iter().for_each(|channel| logs.hear(channel));
    }
}

/// Subscribes to channels and gathers their snapshots; what else arrived meanwhile is to be sent after them.
async fn snapshots(
    context: &Context,
    subscriber: &Subscriber,
    deliveries: &mut Deliveries,
    extent: Extent,
    channels: &[String],
) -> Option<(Vec<SnapshotAt>, Vec<Delivery>)> {
    let mut expected = 0;
    for (token, channel) in (0..).zip(channels) {
        // A channel that does not exist gives no snapshot and is no error.
        if context.engine.subscribe_to(channel, extent, subscriber, token).await.is_ok() {
            expected += 1;
        }
    }
    let (mut snapshots, mut held) = (Vec::new(), Vec::new());
    while snapshots.len() < expected {
        match deliveries.recv().await? {
            Delivery::Snapshot { snapshot, .. } => snapshots.push(snapshot),
            other => held.push(other),
        }
    }
    Some((snapshots, held))
}

/// The frame of an answer that has snapshots among its members.
async fn with_snapshots(
    context: &Context,
    id: &RequestId,
    members: &impl Serialize,
    version: &Version,
    snapshots: Vec<SnapshotAt>,
) -> Frame {
    let mut answer = Long::result(id);
    match answer.with_snapshots(members, version, snapshots).await {
        Ok(()) => answer.finish(context.encoding),
        Err(error) => context.encoding.frame(&encode::answer(id, Err(error))),
    }
}

/// Sends an answer and then what had to wait for it.
async fn answer_and_release<O>(
    context: &Context,
    outbound: &mut O,
    version: &Version,
    answer: Frame,
    held: Vec<Delivery>,
) -> Option<()>
where
    O: Sink<Frame> + Send + Unpin,
{
    outbound.feed(answer).await.ok()?;
    for delivery in held {
        for frame in frames_for(version, context.encoding, &Waiting::default(), delivery).await.into_iter().flatten() {
            outbound.feed(frame).await.ok()?;
        }
    }
    outbound.flush().await.ok()
}

/// Requests whose answer is on its way through the queue of deliveries, by token.
#[derive(Clone, Default)]
pub(crate) struct Waiting(Arc<Mutex<HashMap<u64, Request>>>);

/// A request, and its place among those of its kind, which is free again when it is answered.
struct Request {
    id: RequestId,
    _place: Option<OwnedSemaphorePermit>,
}

impl Waiting {
    /// Adds a request, which keeps its place until it is answered.
    pub(crate) fn add(&self, id: RequestId, place: Option<OwnedSemaphorePermit>) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
        let token = NEXT.fetch_add(1, Ordering::Relaxed);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(token, Request { id, _place: place });
        token
    }

    pub(crate) fn take(&self, token: u64) -> Option<RequestId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&token).map(|request| request.id)
    }
}

/// The frames of a delivery: what is heard, and an answer behind it.
async fn frames_for(
    version: &Version,
    encoding: Encoding,
    waiting: &Waiting,
    delivery: Delivery,
) -> [Option<Frame>; 2] {
    let heard = match delivery {
        Delivery::Envelope(item) => encode::shared(version, encoding, &item),
        // Notices are few and small: all connections share the plain frame.
        Delivery::Notice(notice) if !version.knows(notifications::row(&notice.kind).since) => None,
        Delivery::Notice(notice) => Some(notice.frame(|kind| Encoding::Plain.frame(&encode::notice(kind)))),
        Delivery::Snapshot { token, snapshot } => match waiting.take(token) {
            Some(id) => Some(subscribed(version, encoding, &id, snapshot).await),
            None => None,
        },
        Delivery::Turns { token, loaded } => {
            let heard = loaded.as_ref().and_then(|item| encode::shared(version, encoding, item));
            let result = loaded.map(|_| json!({})).ok_or_else(|| Engine::stale_view().into());
            let answer = waiting.take(token).map(|id| encoding.frame(&encode::answer(&id, result)));
            return [heard, answer];
        }
        // Only the handshake asks for one, and waits for it.
        Delivery::Replay { .. } => None,
    };
    [heard, None]
}

/// The answer to `subscribe`.
async fn subscribed(version: &Version, encoding: Encoding, id: &RequestId, snapshot: SnapshotAt) -> Frame {
    let mut answer = Long::result(id);
    answer.push(r#"{"snapshot":"#);
    match answer.snapshot(version, snapshot).await {
        Ok(()) => {
            answer.push("}");
            answer.finish(encoding)
        }
        Err(error) => encoding.frame(&encode::answer(id, Err(error))),
    }
}

struct Writer<O> {
    version: Version,
    encoding: Encoding,
    waiting: Waiting,
    deliveries: Deliveries,
    replies: mpsc::Receiver<Frame>,
    large: mpsc::Receiver<Frame>,
    outbound: O,
}

impl<O: Sink<Frame> + Send + Unpin> Writer<O> {
    /// Writes what is there, all of it, then flushes once: a burst costs few system calls, a single frame no delay.
    async fn run(mut self) {
        let mut batch = Vec::new();
        loop {
            let reply = tokio::select! {
                Some(reply) = self.replies.recv() => Some(reply),
                Some(reply) = self.large.recv() => Some(reply),
                count = self.deliveries.recv_many(&mut batch, 512) => {
                    if count == 0 {
                        // A closed sink says goodbye.
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
                let frames = frames_for(&self.version, self.encoding, &self.waiting, delivery).await;
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
