//! One client's connection: handshake, then a reader and a writer side by side.
//!
//! The reader handles messages in the order in which they arrive; the writer owns the outbound side and drains its
//! queue in one go. A client that does not read fills its queue and is cut off; nobody else notices.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ahp_types::commands::{Implementation, InitializeResult, SubscribeResult};
use ahp_types::state::Snapshot;
use futures::{Sink, SinkExt as _, Stream, StreamExt as _};
use hostler_engine::{Delivery, Engine, Subscriber};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::decode;
use crate::encode::{self, Frame};
use crate::methods::{self, Command, Hello};
use crate::rpc::{self, Incoming, RequestId, RpcError};
use crate::table::{self, ChannelKind};
use crate::version::Version;

/// Bounds of one connection.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// How many deliveries may wait for the client before it is cut off.
    pub queue: usize,
    /// How long a client may take to initialize.
    pub handshake: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { queue: 16_384, handshake: Duration::from_secs(30) }
    }
}

/// What a connection shares with the server.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) engine: Engine,
    pub(crate) limits: ConnectionLimits,
    /// Fires when the server stops.
    pub(crate) stop: CancellationToken,
    /// Work that must be finished even if the connection is gone.
    pub(crate) tasks: TaskTracker,
}

/// How long a client may take to read what is left when the server stops.
const FAREWELL: Duration = Duration::from_millis(500);

/// Serves one client until it leaves, is cut off, or the server stops.
pub(crate) async fn serve<I, O>(context: Context, inbound: I, outbound: O)
where
    I: Stream<Item = String> + Send + Unpin,
    O: Sink<Frame> + Send + Unpin + 'static,
{
    let (subscriber, deliveries) = Subscriber::new(context.limits.queue);
    let id = subscriber.id();
    let engine = context.engine.clone();
    talk(context, subscriber, deliveries, inbound, outbound).await;
    engine.forget_subscriber(id);
}

async fn talk<I, O>(
    context: Context,
    subscriber: Subscriber,
    mut deliveries: mpsc::Receiver<Delivery>,
    mut inbound: I,
    mut outbound: O,
) where
    I: Stream<Item = String> + Send + Unpin,
    O: Sink<Frame> + Send + Unpin + 'static,
{
    let stop = context.stop.clone();
    let greeting = greet(&context, &subscriber, &mut deliveries, &mut inbound, &mut outbound);
    let hello = tokio::select! {
        () = stop.cancelled() => return,
        hello = tokio::time::timeout(context.limits.handshake, greeting) => hello,
    };
    let Ok(Some(hello)) = hello else { return };

    let (replies, outgoing) = mpsc::channel(64);
    let waiting = Waiting::default();
    let writer = Writer { version: hello.version, waiting: waiting.clone(), deliveries, replies: outgoing, outbound };
    let (overflow, id, engine) = (subscriber.overflow().clone(), subscriber.id(), context.engine.clone());
    let reader = Reader { context, subscriber, client_id: hello.client_id, waiting, replies };
    let mut writing = std::pin::pin!(writer.run());
    tokio::select! {
        () = overflow.cancelled() => tracing::info!("a client that did not read was disconnected"),
        () = &mut writing => {}
        () = reader.run(inbound) => {}
        () = stop.cancelled() => {
            // The reader is gone and nobody delivers any more: the writer ends after what is there.
            engine.forget_subscriber(id);
            if tokio::time::timeout(FAREWELL, writing).await.is_err() {
                tracing::debug!("a client did not read to the end");
            }
        }
    }
}

/// Answers until the client has initialized. `None` if it leaves or cannot be served.
async fn greet<I, O>(
    context: &Context,
    subscriber: &Subscriber,
    deliveries: &mut mpsc::Receiver<Delivery>,
    inbound: &mut I,
    outbound: &mut O,
) -> Option<Hello>
where
    I: Stream<Item = String> + Send + Unpin,
    O: Sink<Frame> + Send + Unpin,
{
    while let Some(text) = inbound.next().await {
        let (id, method, params) = match rpc::parse(&text) {
            Ok(Incoming::Request { id, method, params }) => (id, method, params),
            Ok(Incoming::Notification { .. } | Incoming::Answer) => continue,
            Err((id, error)) => {
                outbound.send(encode::answer(&id, Err(error))).await.ok()?;
                continue;
            }
        };
        let result = match method.as_str() {
            "initialize" => match methods::initialize(params) {
                Ok(hello) => return welcome(context, subscriber, deliveries, outbound, &id, hello).await,
                Err(error) => {
                    // Without a common version there is nothing more to say.
                    let hopeless = error.data.is_some();
                    outbound.send(encode::answer(&id, Err(error))).await.ok()?;
                    if hopeless {
                        return None;
                    }
                    continue;
                }
            },
            "ping" => Ok(Value::Null),
            "reconnect" => Err(methods::reconnect(params)),
            _ => Err(RpcError::new(-32601, "initialize first")),
        };
        outbound.send(encode::answer(&id, result)).await.ok()?;
    }
    None
}

/// Answers `initialize` with the snapshots that it asked for, before any envelope that follows them.
async fn welcome<O>(
    context: &Context,
    subscriber: &Subscriber,
    deliveries: &mut mpsc::Receiver<Delivery>,
    outbound: &mut O,
    id: &RequestId,
    hello: Hello,
) -> Option<Hello>
where
    O: Sink<Frame> + Send + Unpin,
{
    let mut missing = 0;
    for (token, channel) in (0..).zip(&hello.subscriptions) {
        // A channel that does not exist gives no snapshot and is no error.
        if context.engine.subscribe(channel, subscriber, token).await.is_ok() {
            missing += 1;
        }
    }
    let mut snapshots: Vec<Snapshot> = Vec::new();
    let mut held = Vec::new();
    while snapshots.len() < missing {
        match deliveries.recv().await? {
            Delivery::Snapshot { snapshot, .. } => snapshots.push(encode::snapshot(snapshot)),
            other => held.push(other),
        }
    }
    let current = i64::try_from(context.engine.current_seq()).unwrap_or(i64::MAX);
    let server_seq = snapshots.iter().map(|snapshot| snapshot.from_seq).max().unwrap_or(current);
    let result = InitializeResult {
        protocol_version: hello.version.name.clone(),
        server_seq,
        server_info: Some(Implementation {
            name: "hostler".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            title: Some("Hostler".to_owned()),
        }),
        meta: None,
        snapshots,
        default_directory: Url::from_directory_path(context.engine.default_directory()).ok().map(String::from),
        completion_trigger_characters: None,
        terminal_command_prefix: None,
        telemetry: None,
        automations: None,
    };
    outbound.feed(encode::success(id, &result)).await.ok()?;
    for delivery in held {
        if let Some(frame) = frame_for(&hello.version, &Waiting::default(), delivery) {
            outbound.feed(frame).await.ok()?;
        }
    }
    outbound.flush().await.ok()?;
    Some(hello)
}

/// Subscriptions whose snapshot is on its way, by token.
#[derive(Clone, Default)]
struct Waiting(Arc<Mutex<HashMap<u64, RequestId>>>);

impl Waiting {
    fn add(&self, id: RequestId) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
        let token = NEXT.fetch_add(1, Ordering::Relaxed);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(token, id);
        token
    }

    fn take(&self, token: u64) -> Option<RequestId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&token)
    }
}

/// The frame of a delivery, if it has one.
fn frame_for(version: &Version, waiting: &Waiting, delivery: Delivery) -> Option<Frame> {
    match delivery {
        Delivery::Envelope(item) => Some(item.frame(version.slot, encode::envelope)),
        Delivery::Notice(notice) => Some(notice.frame(encode::notice)),
        Delivery::Snapshot { token, snapshot } => {
            let id = waiting.take(token)?;
            let snapshot = Some(encode::snapshot(snapshot));
            Some(encode::success(&id, &SubscribeResult { snapshot }))
        }
    }
}

struct Writer<O> {
    version: Version,
    waiting: Waiting,
    deliveries: mpsc::Receiver<Delivery>,
    replies: mpsc::Receiver<Frame>,
    outbound: O,
}

impl<O: Sink<Frame> + Send + Unpin> Writer<O> {
    /// Writes what is there, all of it, then flushes once: a burst costs few system calls, a single frame no delay.
    async fn run(mut self) {
        let mut batch = Vec::new();
        loop {
            let reply = tokio::select! {
                Some(reply) = self.replies.recv() => Some(reply),
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
                && self.outbound.feed(reply).await.is_err()
            {
                return;
            }
            for delivery in batch.drain(..) {
                let Some(frame) = frame_for(&self.version, &self.waiting, delivery) else { continue };
                if self.outbound.feed(frame).await.is_err() {
                    return;
                }
            }
            if self.deliveries.is_empty() && self.outbound.flush().await.is_err() {
                return;
            }
        }
    }
}

struct Reader {
    context: Context,
    subscriber: Subscriber,
    client_id: String,
    waiting: Waiting,
    replies: mpsc::Sender<Frame>,
}

impl Reader {
    async fn run(self, mut inbound: impl Stream<Item = String> + Send + Unpin) {
        while let Some(text) = inbound.next().await {
            let going_on = match rpc::parse(&text) {
                Ok(Incoming::Request { id, method, params }) => self.request(id, &method, params).await,
                Ok(Incoming::Notification { method, params }) => {
                    self.notification(&method, params).await;
                    true
                }
                Ok(Incoming::Answer) => true,
                Err((id, error)) => self.reply(encode::answer(&id, Err(error))).await,
            };
            if !going_on {
                return;
            }
        }
    }

    /// `false` if the writer is gone.
    async fn reply(&self, frame: Frame) -> bool {
        self.replies.send(frame).await.is_ok()
    }

    async fn request(&self, id: RequestId, method: &str, params: Value) -> bool {
        match methods::command(&self.context.engine, method, params) {
            Command::Answer(result) => self.reply(encode::answer(&id, result)).await,
            Command::Subscribe(channel) => self.subscribe(id, &channel).await,
            Command::Dispose(session) => {
                let (engine, replies) = (self.context.engine.clone(), self.replies.clone());
                self.context.tasks.spawn(async move {
                    let result = engine.dispose_session(&session).await;
                    let frame = encode::answer(&id, result.map(|()| Value::Null).map_err(RpcError::from));
                    // The client may have left; the session is disposed of all the same.
                    let _ = replies.send(frame).await;
                });
                true
            }
        }
    }

    async fn subscribe(&self, id: RequestId, channel: &str) -> bool {
        let token = self.waiting.add(id);
        let result = self.context.engine.subscribe(channel, &self.subscriber, token).await;
        match result {
            // The answer is the snapshot, which is in the queue already.
            Ok(()) => true,
            Err(error) => match self.waiting.take(token) {
                Some(id) => self.reply(encode::answer(&id, Err(error.into()))).await,
                None => true,
            },
        }
    }

    async fn notification(&self, method: &str, params: Value) {
        match method {
            "unsubscribe" => {
                if let Some(channel) = params.get("channel").and_then(Value::as_str) {
                    self.context.engine.unsubscribe(channel, self.subscriber.id());
                }
            }
            "dispatchAction" => self.dispatch(params).await,
            _ => tracing::debug!(method, "an unknown notification was ignored"),
        }
    }

    async fn dispatch(&self, params: Value) {
        let Some((dispatch, name)) = decode::dispatch(params, &self.client_id) else {
            tracing::warn!("a dispatch without channel, number or action was dropped");
            return;
        };
        let Some(kind) = ChannelKind::of(&dispatch.channel) else { return };
        match table::check(kind, &name, &dispatch.action) {
            Ok(()) => self.context.engine.dispatch(dispatch).await,
            Err(reason) => self.context.engine.reject(dispatch, reason).await,
        }
    }
}
