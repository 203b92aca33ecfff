//! The listener: one task per connection speaks HTTP until the upgrade, then WebSocket. Owns the accept loops and the
//! limit on connections; requests are handled in `http_frontend` and `connection`.
//!
//! With TLS there are two listeners: the configured one, and one without TLS on loopback. Programs on this machine use
//! the second, so they need no certificate authority for the first.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hostler_engine::Engine;
use hostler_net::{EvictingSet, EvictingSetMember};
use hostler_telemetry::LogTap;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access_policy::{AccessPolicy, PeerInfo};
use crate::browser_sessions::BrowserSessions;
use crate::connected_clients::ConnectedClients;
use crate::connection::{self, AhpConnectionLimits, ConnectionContext};
use crate::http_frontend::{ConnectionAdmission, HttpFrontend, HttpHandler, UpgradedStream};
use crate::tls::TlsIdentity;
use crate::ws::{self, FrameEncoding};

/// Maximum number of connections over the limit that receive a refusal at a time; further ones are closed without one.
const MAX_CONCURRENT_REFUSALS: usize = 64;

/// Maximum time for connections to end when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Configuration of a server.
pub struct ServerConfig {
    /// Address to listen on; port 0 selects a free port.
    pub listen: SocketAddr,
    /// TLS identity of that listener; `None` disables TLS.
    pub tls: Option<TlsIdentity>,
    /// Which clients may connect.
    pub access: AccessPolicy,
    /// Limits of each connection and of all connections together.
    pub limits: AhpConnectionLimits,
    /// The host's own log, if clients may subscribe to it.
    pub logs: Option<LogTap>,
    /// Browsers that may connect without the token.
    pub browser_sessions: BrowserSessions,
    /// Answers requests that are no WebSocket upgrade. `None`: such requests are answered with "upgrade required".
    pub http_handler: Option<Arc<dyn HttpHandler>>,
}

/// Listener that serves an engine to AHP clients.
pub struct Server {
    public_address: SocketAddr,
    local_address: SocketAddr,
    /// Ends the listener. Connections continue until `stop`.
    listening: CancellationToken,
    stop: CancellationToken,
    tasks: TaskTracker,
    client_count: watch::Receiver<usize>,
}

impl Server {
    /// Binds the address and starts to accept connections.
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
        let max_connections = config.limits.socket.max_connections.min(Semaphore::MAX_PERMITS);
        let unauthenticated = config.limits.socket.max_unauthenticated;
        let (listening, stop, tasks) = (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let (sender, clients) = watch::channel(0);
        let shared = Arc::new(Shared {
            http_frontend: HttpFrontend::new(
                config.access,
                config.http_handler,
                config.browser_sessions.clone(),
                config.limits.socket.request_head_timeout,
            ),
            context: ConnectionContext {
                engine,
                limits: config.limits,
                clients: ConnectedClients::default(),
                logs: config.logs,
                browser_sessions: config.browser_sessions,
                browser_client: None,
                encoding: FrameEncoding::default(),
                stop: stop.clone(),
                tasks: tasks.clone(),
            },
            listening: listening.clone(),
            client_count: sender,
            unauthenticated: EvictingSet::new(unauthenticated),
            connection_slots: Arc::new(Semaphore::new(max_connections)),
            refusal_slots: Arc::new(Semaphore::new(MAX_CONCURRENT_REFUSALS)),
        });
        if let Some(plain) = plain {
            tasks.spawn(accept_connections(plain, None, Arc::clone(&shared)));
        }
        tasks.spawn(accept_connections(listener, config.tls.map(Arc::new), shared));
        Ok(Self { public_address: address, local_address: local, listening, stop, tasks, client_count: clients })
    }

    /// Address for programs on this machine, without TLS.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_address
    }

    /// The configured address, with TLS if there is a certificate.
    pub fn public_addr(&self) -> SocketAddr {
        self.public_address
    }

    /// Number of connected clients, as a watch.
    pub fn watch_client_count(&self) -> watch::Receiver<usize> {
        self.client_count.clone()
    }

    /// Stops accepting connections. Open connections continue.
    pub fn stop_accepting(&self) {
        self.listening.cancel();
    }

    /// Ends the listener and all connections. Idempotent.
    pub async fn stop(&self) {
        self.listening.cancel();
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(STOP_GRACE, self.tasks.wait()).await.is_err() {
            tracing::warn!("connections did not close within the grace period");
        }
    }
}

/// State that all connections share.
struct Shared {
    http_frontend: HttpFrontend,
    context: ConnectionContext,
    listening: CancellationToken,
    client_count: watch::Sender<usize>,
    /// Connections that have presented neither a token nor a browser session yet.
    unauthenticated: Arc<EvictingSet>,
    /// Limits connections over all listeners.
    connection_slots: Arc<Semaphore>,
    /// Limits connections that are refused with an answer.
    refusal_slots: Arc<Semaphore>,
}

async fn accept_connections(listener: TcpListener, tls: Option<Arc<TlsIdentity>>, shared: Arc<Shared>) {
    loop {
        let (stream, peer) = tokio::select! {
            () = shared.listening.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most likely the process is out of descriptors: wait until some are closed.
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let evicted = CancellationToken::new();
        let unauthenticated = shared.unauthenticated.insert(evicted.clone());
        let (permit, admission) = match Arc::clone(&shared.connection_slots).try_acquire_owned() {
            Ok(permit) => (permit, ConnectionAdmission::Admitted),
            Err(_) => match Arc::clone(&shared.refusal_slots).try_acquire_owned() {
                Ok(permit) => (permit, ConnectionAdmission::OverLimit),
                Err(_) => continue,
            },
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "failed to set TCP_NODELAY");
        }
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        shared.context.tasks.clone().spawn(async move {
            let peer_info = PeerInfo { peer: peer.ip(), is_tls: tls.is_some() };
            let unauthenticated = UnauthenticatedConnection { evicted, _member: unauthenticated };
            match tls {
                None => serve_connection(stream, peer_info, &shared, admission, unauthenticated).await,
                Some(tls) => {
                    if let Some(stream) = unauthenticated.run_until_evicted(accept_tls(stream, &tls, &shared)).await {
                        serve_connection(stream, peer_info, &shared, admission, unauthenticated).await;
                    }
                }
            }
            drop(permit);
        });
    }
}

/// Performs the TLS handshake. `None` if the client does not complete it in time.
async fn accept_tls(stream: TcpStream, tls: &TlsIdentity, shared: &Shared) -> Option<TlsStream<TcpStream>> {
    let handshake =
        tokio::time::timeout(shared.context.limits.socket.request_head_timeout, tls.acceptor().accept(stream));
    let accepted = tokio::select! {
        () = shared.listening.cancelled() => return None,
        accepted = handshake => accepted,
    };
    match accepted {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!("TLS handshake timed out");
            None
        }
    }
}

/// Serves one connection from its first byte to its last.
async fn serve_connection<S>(
    stream: S,
    peer_info: PeerInfo,
    shared: &Shared,
    admission: ConnectionAdmission,
    unauthenticated: UnauthenticatedConnection,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let upgraded = tokio::select! {
        () = shared.listening.cancelled() => return,
        upgraded = unauthenticated.run_until_evicted(shared.http_frontend.serve_until_upgrade(stream, peer_info, admission)) => upgraded,
    };
    let Some(UpgradedStream { stream, read_ahead: early, encoding, browser_client }) = upgraded else {
        return;
    };
    // The connection is authenticated and can no longer be evicted.
    drop(unauthenticated);
    let context =
        ConnectionContext { encoding, browser_client: browser_client.map(Arc::new), ..shared.context.clone() };
    let _client_count = ClientCountGuard::new(&shared.client_count);
    ws::run_socket(stream, early, encoding, &shared.context.limits.socket, |inbound, outbound| {
        connection::serve(context, inbound, outbound)
    })
    .await;
}

/// Connection that has presented neither a token nor a browser session yet. Newer connections can evict it.
struct UnauthenticatedConnection {
    evicted: CancellationToken,
    _member: EvictingSetMember,
}

impl UnauthenticatedConnection {
    /// `None` if the connection was evicted first.
    async fn run_until_evicted<T>(&self, work: impl Future<Output = Option<T>>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => done,
            () = self.evicted.cancelled() => {
                tracing::debug!("evicted an unauthenticated connection for a newer one");
                None
            }
        }
    }
}

/// Counts a client as connected until it is dropped.
struct ClientCountGuard<'a>(&'a watch::Sender<usize>);

impl<'a> ClientCountGuard<'a> {
    fn new(clients: &'a watch::Sender<usize>) -> Self {
        clients.send_modify(|clients| *clients += 1);
        Self(clients)
    }
}

impl Drop for ClientCountGuard<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|clients| *clients -= 1);
    }
}
