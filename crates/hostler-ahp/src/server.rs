//! The listener: HTTP until the upgrade, then a WebSocket, all in one task per connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hostler_engine::Engine;
use hostler_telemetry::LogTap;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clients::Clients;
use crate::connection::{self, ConnectionLimits, Context};
use crate::edge::{AccessPolicy, Line};
use crate::exchange::{Admission, Pages, Reception, Upgraded};
use crate::pass::Passes;
use crate::ws::{self, Encoding};

/// How many connections over the limit are told so at a time; further ones are just closed.
const REFUSALS: usize = 64;

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
    /// Which browsers may come in without the token.
    pub passes: Passes,
    /// What requests get that want no WebSocket; none means that they are told to want one.
    pub pages: Option<Arc<dyn Pages>>,
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
    reception: Reception,
    context: Context,
    listening: CancellationToken,
    clients: watch::Sender<usize>,
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let seats = shared.context.limits.socket.connections.min(Semaphore::MAX_PERMITS);
    let (seats, refusals) = (Arc::new(Semaphore::new(seats)), Arc::new(Semaphore::new(REFUSALS)));
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
        let (place, admission) = match Arc::clone(&seats).try_acquire_owned() {
            Ok(seat) => (seat, Admission::Seated),
            Err(_) => match Arc::clone(&refusals).try_acquire_owned() {
                Ok(place) => (place, Admission::Full),
                Err(_) => continue,
            },
        };
        let shared = Arc::clone(&shared);
        shared.context.tasks.clone().spawn(async move {
            serve(stream, Line { peer: peer.ip(), tls: false }, &shared, admission).await;
            drop(place);
        });
    }
}

/// One connection from its first byte to its last.
async fn serve(stream: TcpStream, line: Line, shared: &Shared, admission: Admission) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let upgraded = tokio::select! {
        () = shared.listening.cancelled() => return,
        upgraded = shared.reception.receive(stream, line, admission) => upgraded,
    };
    let Some(Upgraded { stream, early, encoding, guest }) = upgraded else { return };
    let context = Context { encoding, guest: guest.map(Arc::new), ..shared.context.clone() };
    let _present = Present::new(&shared.clients);
    ws::run(stream, early, encoding, &shared.context.limits.socket, |inbound, outbound| {
        connection::serve(context, inbound, outbound)
    })
    .await;
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
