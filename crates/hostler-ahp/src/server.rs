//! The WebSocket listener.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::extract::ws::{Message, Utf8Bytes, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures::{SinkExt as _, StreamExt as _};
use hostler_engine::Engine;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::{self, ConnectionLimits, Context};
use crate::edge::AccessPolicy;

/// The largest message that a client may send.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// How long a client may take to send its request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long connections may take to end when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// What a server needs.
pub struct ServerConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Who is let in.
    pub access: AccessPolicy,
    /// Bounds of each connection.
    pub limits: ConnectionLimits,
}

/// A listener that serves an engine to AHP clients.
pub struct Server {
    address: SocketAddr,
    /// Ends the listener. Connections outlive it until `stop`.
    listening: CancellationToken,
    stop: CancellationToken,
    tasks: TaskTracker,
    clients: watch::Receiver<usize>,
}

#[derive(Clone)]
struct Shared {
    access: Arc<AccessPolicy>,
    context: Context,
    clients: Arc<watch::Sender<usize>>,
}

impl Server {
    /// Binds and starts to accept.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn start(engine: Engine, config: ServerConfig) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen).await?;
        let address = listener.local_addr()?;
        let (listening, stop, tasks) = (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let (sender, clients) = watch::channel(0);
        let shared = Shared {
            access: Arc::new(config.access),
            context: Context { engine, limits: config.limits, stop: stop.clone(), tasks: tasks.clone() },
            clients: Arc::new(sender),
        };
        tasks.spawn(accept(listener, shared, listening.clone(), tasks.clone()));
        Ok(Self { address, listening, stop, tasks, clients })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// How many clients are connected, and a way to hear of changes.
    pub fn clients(&self) -> watch::Receiver<usize> {
        self.clients.clone()
    }

    /// Accepts nobody any more. Connections that are there go on.
    pub fn stop_accepting(&self) {
        self.listening.cancel();
    }

    /// Ends the listener and all connections. Twice is the same as once.
    pub async fn stop(&self) {
        self.listening.cancel();
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(STOP_GRACE, self.tasks.wait()).await.is_err() {
            tracing::warn!("some connections did not end in time");
        }
    }
}

async fn accept(listener: TcpListener, shared: Shared, listening: CancellationToken, tasks: TaskTracker) {
    let router = Router::new().fallback(upgrade).with_state(shared);
    loop {
        let stream = tokio::select! {
            () = listening.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, most likely: wait for some to come back.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        tasks.spawn(http(stream, router.clone(), listening.clone()));
    }
}

/// Speaks HTTP until the upgrade; the WebSocket goes on in a task of its own.
async fn http(stream: TcpStream, router: Router, listening: CancellationToken) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .with_upgrades();
    tokio::select! {
        () = listening.cancelled() => {}
        result = connection => if let Err(error) = result {
            tracing::debug!(%error, "a connection ended early");
        },
    }
}

async fn upgrade(
    State(shared): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    socket: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Response {
    if let Err(refusal) = shared.access.check(&uri, &headers) {
        tracing::info!(?refusal, "a connection was refused");
        return (StatusCode::FORBIDDEN, format!("{}\n", refusal.sentence())).into_response();
    }
    let Ok(socket) = socket else {
        let text = "This is a Hostler host. Connect with an AHP client over WebSocket.\n";
        return (StatusCode::UPGRADE_REQUIRED, [("upgrade", "websocket")], text).into_response();
    };
    let tasks = shared.context.tasks.clone();
    socket.max_message_size(MAX_MESSAGE).max_frame_size(MAX_MESSAGE).on_upgrade(move |socket| {
        // axum spawns this future; the tracker makes a stop wait for it.
        tasks.track_future(async move {
            shared.clients.send_modify(|clients| *clients += 1);
            let (sink, stream) = socket.split();
            let inbound = stream.filter_map(|message| std::future::ready(text(message)));
            let outbound = sink.with(|frame: bytes::Bytes| {
                std::future::ready(Utf8Bytes::try_from(frame).map(Message::Text).map_err(axum::Error::new))
            });
            connection::serve(shared.context.clone(), Box::pin(inbound), Box::pin(outbound)).await;
            shared.clients.send_modify(|clients| *clients -= 1);
        })
    })
}

/// The JSON text of a message. Binary frames are taken as text too.
fn text(message: Result<Message, axum::Error>) -> Option<String> {
    match message {
        Ok(Message::Text(text)) => Some(text.as_str().to_owned()),
        Ok(Message::Binary(bytes)) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Ok(Message::Ping(_) | Message::Pong(_) | Message::Close(_)) => None,
        Err(error) => {
            tracing::debug!(%error, "a socket failed");
            None
        }
    }
}
