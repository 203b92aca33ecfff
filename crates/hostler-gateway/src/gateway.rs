//! The gateway as its owner sees it: start, register, watch, stop.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::Nonce;
use crate::betas::ALLOWED_BETAS;
use crate::catalogue::Model;
use crate::lease::{Lease, Registration, Registry};
use crate::observe::RequestObserver;
use crate::server;
use crate::upstreams::{Offers, Upstreams};

/// How a gateway is set up.
pub struct GatewayConfig {
    /// Who answers the requests.
    pub upstreams: Upstreams,
    /// The betas that are told to upstreams which take only some, without their editions.
    pub allowed_betas: Vec<String>,
    /// Where to listen; port 0 takes any free port.
    pub listen: SocketAddr,
    /// Whether a bearer with the right nonce but an unknown id is served. Inside the host it is not.
    pub accept_unregistered: bool,
    /// Is shown every authenticated request.
    pub observer: Option<Arc<dyn RequestObserver>>,
}

impl GatewayConfig {
    /// The setup inside the host: any loopback port, registered callers only.
    #[must_use]
    pub fn new(upstreams: Upstreams) -> Self {
        Self {
            upstreams,
            allowed_betas: ALLOWED_BETAS.map(str::to_owned).into(),
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            accept_unregistered: false,
            observer: None,
        }
    }
}

impl fmt::Debug for GatewayConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayConfig")
            .field("upstreams", &self.upstreams)
            .field("listen", &self.listen)
            .field("accept_unregistered", &self.accept_unregistered)
            .field("observer", &self.observer.is_some())
            .finish()
    }
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The address cannot be listened on.
    #[error("the gateway cannot listen on {address}: {source}; choose another address or port 0")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The system gave no random bytes.
    #[error("the gateway cannot make its nonce: the system gives no random bytes ({0})")]
    Random(getrandom::Error),
}

/// A running gateway. Dropping it stops it too, without waiting for its tasks.
pub struct Gateway {
    shared: Arc<Shared>,
    address: SocketAddr,
    tasks: TaskTracker,
}

impl Gateway {
    /// Binds the address and begins to serve; must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If the address cannot be bound or the system has no random bytes.
    pub async fn start(config: GatewayConfig) -> Result<Self, GatewayError> {
        let nonce = Nonce::random().map_err(GatewayError::Random)?;
        let listen_error = |source| GatewayError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            nonce,
            registry: Arc::new(Registry::new(config.accept_unregistered, stop.clone())),
            offers: RwLock::new(Arc::new(Offers::new(config.upstreams, None))),
            allowed_betas: RwLock::new(config.allowed_betas.into()),
            observer: config.observer,
            stop,
            in_flight: watch::Sender::new(0),
            taken: AtomicU64::new(0),
        });
        let tasks = TaskTracker::new();
        tasks.spawn(server::accept(listener, Arc::clone(&shared), tasks.clone()));
        tracing::info!(%address, "the gateway listens");
        Ok(Self { shared, address, tasks })
    }

    /// The address that is really listened on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What an agent is given as its base URL.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What stands before the dot of every bearer. Where unregistered callers are served, any id may follow it.
    #[must_use]
    pub fn nonce(&self) -> &SecretString {
        self.shared.nonce.secret()
    }

    /// Mints a bearer for one agent process.
    #[must_use = "dropping the registration revokes its bearer"]
    pub fn register(&self, lease: Lease) -> Registration {
        self.shared.registry.register(lease, &self.shared.nonce)
    }

    /// Exchanges the upstreams. Requests that run stay with the upstream that they began with.
    pub fn reconfigure(&self, upstreams: Upstreams) {
        let mut offers = self.shared.offers.write().unwrap_or_else(PoisonError::into_inner);
        *offers = Arc::new(Offers::new(upstreams, Some(&offers)));
    }

    /// Exchanges the betas that are told to upstreams which take only some.
    pub fn allow_betas(&self, allowed: Vec<String>) {
        *self.shared.allowed_betas.write().unwrap_or_else(PoisonError::into_inner) = allowed.into();
    }

    /// The models that are known to be on offer, the default upstream's first; never empty.
    #[must_use]
    pub fn models(&self) -> Vec<Model> {
        self.shared.offers().known_models(None)
    }

    /// Asks all upstreams for their models; those that do not answer keep what is known about them.
    pub async fn refresh_models(&self) -> Vec<Model> {
        let offers = self.shared.offers();
        offers.fetch_models().await;
        offers.known_models(None)
    }

    /// How many requests are being answered at this moment, streams included.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        *self.shared.in_flight.borrow()
    }

    /// How many requests were taken on since the start.
    #[must_use]
    pub fn requests_taken(&self) -> u64 {
        self.shared.taken.load(Ordering::Relaxed)
    }

    /// Returns as soon as no request is being answered.
    pub async fn idle(&self) {
        // Fails only when the sender is gone, and `self` holds it.
        let _ = self.shared.in_flight.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Stops: the listener closes, requests in flight end with an error, and no task is left when this returns.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What all connections of one gateway share.
pub(crate) struct Shared {
    pub(crate) nonce: Nonce,
    pub(crate) registry: Arc<Registry>,
    offers: RwLock<Arc<Offers>>,
    allowed_betas: RwLock<Arc<[String]>>,
    pub(crate) observer: Option<Arc<dyn RequestObserver>>,
    pub(crate) stop: CancellationToken,
    pub(crate) in_flight: watch::Sender<usize>,
    /// Requests that were taken on since the start.
    taken: AtomicU64,
}

impl Shared {
    /// The upstreams as they are now.
    pub(crate) fn offers(&self) -> Arc<Offers> {
        Arc::clone(&self.offers.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The betas that upstreams which take only some are told.
    pub(crate) fn allowed_betas(&self) -> Arc<[String]> {
        Arc::clone(&self.allowed_betas.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts a request in; it is counted out when the guard is dropped.
    pub(crate) fn count_in(&self) -> InFlight {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.in_flight.send_modify(|count| *count += 1);
        InFlight(self.in_flight.clone())
    }
}

/// A request that is being answered.
pub(crate) struct InFlight(watch::Sender<usize>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
