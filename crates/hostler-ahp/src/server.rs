//! The listener: HTTP until the upgrade, then a WebSocket, all in one task per connection.

use std::convert::Infallible;
use std::future::{poll_fn, ready};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use hostler_engine::Engine;
use hostler_telemetry::LogTap;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clients::Clients;
use crate::connection::{self, ConnectionLimits, Context};
use crate::edge::AccessPolicy;
use crate::ws::{self, Encoding, handshake};

/// The largest head of a request.
const MAX_HEAD: usize = 16 * 1024;

/// How many connections over the limit are told so at a time; further ones are just closed.
const REFUSALS: usize = 64;

/// What a connection over the limit is told.
const FULL: &str = "This host serves as many connections as it may; close some, or try again later.";

/// What a client is told that does not finish its request.
const TOO_SLOW: &str = "The request did not arrive in time; try again.";

/// How long a client may take to hang up after an answer that is no upgrade.
const HANG_UP: Duration = Duration::from_secs(1);

/// How long connections may take to end when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// What a server needs.
pub struct ServerConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Who is let in.
    pub access: AccessPolicy,
    /// Bounds of each connection and of all together.
    pub limits: ConnectionLimits,
    /// The host's own log, if clients may hear it.
    pub logs: Option<LogTap>,
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
        let shared = Arc::new(Shared {
            access: config.access,
            context: Context {
                engine,
                limits: config.limits,
                clients: Clients::default(),
                logs: config.logs,
                encoding: Encoding::default(),
                stop: stop.clone(),
                tasks: tasks.clone(),
            },
            listening: listening.clone(),
            clients: sender,
        });
        tasks.spawn(accept(listener, shared));
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

/// What the connections share.
struct Shared {
    access: AccessPolicy,
    context: Context,
    listening: CancellationToken,
    clients: watch::Sender<usize>,
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let seats = shared.context.limits.socket.connections.min(Semaphore::MAX_PERMITS);
    let (seats, refusals) = (Arc::new(Semaphore::new(seats)), Arc::new(Semaphore::new(REFUSALS)));
    loop {
        let stream = tokio::select! {
            () = shared.listening.cancelled() => return,
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
        let (place, admission) = match Arc::clone(&seats).try_acquire_owned() {
            Ok(seat) => (seat, Admission::Seated),
            Err(_) => match Arc::clone(&refusals).try_acquire_owned() {
                Ok(place) => (place, Admission::Full),
                Err(_) => continue,
            },
        };
        let shared = Arc::clone(&shared);
        shared.context.tasks.clone().spawn(async move {
            serve(stream, &shared, admission).await;
            drop(place);
        });
    }
}

/// Whether there is room for a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Admission {
    Seated,
    Full,
}

/// One connection from its first byte to its last.
async fn serve(stream: TcpStream, shared: &Shared, admission: Admission) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let upgraded = tokio::select! {
        () = shared.listening.cancelled() => return,
        upgraded = http(stream, shared, admission) => upgraded,
    };
    let Some(Upgraded { stream, early, encoding }) = upgraded else { return };
    let context = Context { encoding, ..shared.context.clone() };
    let _present = Present::new(&shared.clients);
    ws::run(stream, early, encoding, &shared.context.limits.socket, |inbound, outbound| {
        connection::serve(context, inbound, outbound)
    })
    .await;
}

/// A stream that speaks WebSocket from now on.
struct Upgraded {
    stream: TcpStream,
    /// What the client has sent right after its request.
    early: Bytes,
    encoding: Encoding,
}

/// Answers one request. `None` if it is not upgraded.
async fn http(stream: TcpStream, shared: &Shared, admission: Admission) -> Option<Upgraded> {
    let agreed = OnceLock::new();
    let service = service_fn(|request| {
        let answer = match answer(shared, admission, &request) {
            Ok(accepted) => {
                // There is one request per connection.
                let _ = agreed.set(accepted.encoding());
                accepted.response()
            }
            Err(refused) => *refused,
        };
        ready(Ok::<_, Infallible>(answer))
    });
    let mut connection = http1::Builder::new().max_buf_size(MAX_HEAD).serve_connection(TokioIo::new(stream), service);
    let exchange = poll_fn(|context| connection.poll_without_shutdown(context));
    let served = tokio::time::timeout(shared.context.limits.socket.head, exchange).await;
    let http1::Parts { io, read_buf, .. } = connection.into_parts();
    let mut stream = io.into_inner();
    match served {
        Ok(Ok(())) if let Some(&encoding) = agreed.get() => {
            return Some(Upgraded { stream, early: read_buf, encoding });
        }
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a request could not be read"),
        Err(_) => {
            let length = TOO_SLOW.len() + 1;
            let head = "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: text/plain; charset=utf-8";
            let answer = format!("{head}\r\ncontent-length: {length}\r\n\r\n{TOO_SLOW}\n");
            // It is small enough for the socket's buffer, or nobody reads it.
            let _ = tokio::time::timeout(HANG_UP, stream.write_all(answer.as_bytes())).await;
        }
    }
    let _ = tokio::time::timeout(HANG_UP, ws::hang_up(&mut stream)).await;
    None
}

type Answer = Response<Full<Bytes>>;

/// Decides about a request: whether there is room, whether the client may come in, whether it speaks WebSocket.
fn answer<B>(shared: &Shared, admission: Admission, request: &Request<B>) -> Result<handshake::Accepted, Box<Answer>> {
    if admission == Admission::Full {
        tracing::info!("a connection was refused: there are as many as there may be");
        return Err(Box::new(text(StatusCode::SERVICE_UNAVAILABLE, FULL)));
    }
    if let Err(refusal) = shared.access.check(request.uri(), request.headers()) {
        tracing::info!(?refusal, "a connection was refused");
        return Err(Box::new(text(StatusCode::FORBIDDEN, refusal.sentence())));
    }
    handshake::check(request).map_err(|fault| {
        let mut answer = text(fault.status(), &fault.to_string());
        answer.headers_mut().extend(fault.hint());
        Box::new(answer)
    })
}

fn text(status: StatusCode, sentence: &str) -> Answer {
    let mut answer = Response::new(Full::from(format!("{sentence}\n")));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

/// Counts a client as long as it is there.
struct Present<'a>(&'a watch::Sender<usize>);

impl<'a> Present<'a> {
    fn new(clients: &'a watch::Sender<usize>) -> Self {
        clients.send_modify(|clients| *clients += 1);
        Self(clients)
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|clients| *clients -= 1);
    }
}
