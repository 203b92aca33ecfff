//! The listener: HTTP until the upgrade, then a WebSocket, all in one task per connection.
//!
//! With TLS there are two: the one that was asked for, and one without TLS on loopback for programs on this machine, which would
//! have to be told whom to believe otherwise.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hostler_engine::Engine;
use hostler_net::{EvictingSet, Member};
use hostler_telemetry::LogTap;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clients::Clients;
use crate::connection::{self, ConnectionLimits, Context};
use crate::edge::{AccessPolicy, Line};
use crate::exchange::{Admission, Pages, Reception, Upgraded};
use crate::pass::Passes;
use crate::tls::Tls;
use crate::ws::{self, Encoding};

/// How many connections over the limit are told so at a time; further ones are just closed.
const REFUSALS: usize = 64;

/// How long connections may take to end when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// What a server needs.
pub struct ServerConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Whom that listener is by TLS; none means that it speaks without.
    pub tls: Option<Tls>,
    /// Who is let in.
    pub access: AccessPolicy,
    /// Bounds of each connection and of all together.
    pub limits: ConnectionLimits,
    /// The host's own log, if clients may hear it.
    pub logs: Option<LogTap>,
    /// Which browsers may come in without the token.
    pub passes: Passes,
    /// What requests get that want no WebSocket; none means that they are told to want one.
    pub pages: Option<Arc<dyn Pages>>,
}

/// A listener that serves an engine to AHP clients.
pub struct Server {
    address: SocketAddr,
    local: SocketAddr,
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
        let plain = match config.tls {
            Some(_) => Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?),
            None => None,
        };
        let local = plain.as_ref().map_or(Ok(address), TcpListener::local_addr)?;
        let seats = config.limits.socket.connections.min(Semaphore::MAX_PERMITS);
        let unauthenticated = config.limits.socket.unauthenticated;
        let (listening, stop, tasks) = (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let (sender, clients) = watch::channel(0);
        let shared = Arc::new(Shared {
            reception: Reception::new(config.access, config.pages, config.passes.clone(), config.limits.socket.head),
            context: Context {
                engine,
                limits: config.limits,
                clients: Clients::default(),
                logs: config.logs,
                passes: config.passes,
                guest: None,
                encoding: Encoding::default(),
                stop: stop.clone(),
                tasks: tasks.clone(),
            },
            listening: listening.clone(),
            clients: sender,
            unauthenticated: EvictingSet::new(unauthenticated),
            seats: Arc::new(Semaphore::new(seats)),
            refusals: Arc::new(Semaphore::new(REFUSALS)),
        });
        if let Some(plain) = plain {
            tasks.spawn(accept(plain, None, Arc::clone(&shared)));
        }
        tasks.spawn(accept(listener, config.tls.map(Arc::new), shared));
        Ok(Self { address, local, listening, stop, tasks, clients })
    }

    /// Where programs on this machine connect, without TLS.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Where it was told to listen, with TLS if it has a certificate.
    pub fn public_addr(&self) -> SocketAddr {
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
    reception: Reception,
    context: Context,
    listening: CancellationToken,
    clients: watch::Sender<usize>,
    /// Connections that have shown no token or browser session yet.
    unauthenticated: Arc<EvictingSet>,
    /// For connections, on whichever listener.
    seats: Arc<Semaphore>,
    /// For those that are told that there is no seat.
    refusals: Arc<Semaphore>,
}

async fn accept(listener: TcpListener, tls: Option<Arc<Tls>>, shared: Arc<Shared>) {
    loop {
        let (stream, peer) = tokio::select! {
            () = shared.listening.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, most likely: wait for some to come back.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let evicted = CancellationToken::new();
        let unauthenticated = shared.unauthenticated.enter(evicted.clone());
        let (place, admission) = match Arc::clone(&shared.seats).try_acquire_owned() {
            Ok(seat) => (seat, Admission::Seated),
            Err(_) => match Arc::clone(&shared.refusals).try_acquire_owned() {
                Ok(place) => (place, Admission::Full),
                Err(_) => continue,
            },
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        shared.context.tasks.clone().spawn(async move {
            let line = Line { peer: peer.ip(), tls: tls.is_some() };
            let newcomer = Newcomer { evicted, _member: unauthenticated };
            match tls {
                None => serve(stream, line, &shared, admission, newcomer).await,
                Some(tls) => {
                    if let Some(stream) = newcomer.until_evicted(shake_hands(stream, &tls, &shared)).await {
                        serve(stream, line, &shared, admission, newcomer).await;
                    }
                }
            }
            drop(place);
        });
    }
}

/// Begins TLS. `None` if the client does not, or not in time.
async fn shake_hands(stream: TcpStream, tls: &Tls, shared: &Shared) -> Option<TlsStream<TcpStream>> {
    let handshake = tokio::time::timeout(shared.context.limits.socket.head, tls.acceptor().accept(stream));
    let shaken = tokio::select! {
        () = shared.listening.cancelled() => return None,
        shaken = handshake => shaken,
    };
    match shaken {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a connection did not begin with TLS as it is spoken here");
            None
        }
        Err(_) => {
            tracing::debug!("a connection did not begin TLS in time");
            None
        }
    }
}

/// One connection from its first byte to its last.
async fn serve<S>(stream: S, line: Line, shared: &Shared, admission: Admission, newcomer: Newcomer)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let upgraded = tokio::select! {
        () = shared.listening.cancelled() => return,
        upgraded = newcomer.until_evicted(shared.reception.receive(stream, line, admission)) => upgraded,
    };
    let Some(Upgraded { stream, early, encoding, guest }) = upgraded else { return };
    // It has shown who it is, and no longer makes room for others.
    drop(newcomer);
    let context = Context { encoding, guest: guest.map(Arc::new), ..shared.context.clone() };
    let _present = Present::new(&shared.clients);
    ws::run(stream, early, encoding, &shared.context.limits.socket, |inbound, outbound| {
        connection::serve(context, inbound, outbound)
    })
    .await;
}

/// A connection that has shown no token or browser session yet. It makes room for newer ones.
struct Newcomer {
    evicted: CancellationToken,
    _member: Member,
}

impl Newcomer {
    /// `None` if the connection had to make room first.
    async fn until_evicted<T>(&self, work: impl Future<Output = Option<T>>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => done,
            () = self.evicted.cancelled() => {
                tracing::debug!("a connection without a token made room for another one");
                None
            }
        }
    }
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
