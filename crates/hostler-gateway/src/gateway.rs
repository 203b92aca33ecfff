//! The gateway as its owner sees it: start, register, watch, stop.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::Nonce;
use crate::betas::ALLOWED_BETAS;
use crate::catalogue::Model;
use crate::lease::{Lease, Registration, Registry};
use crate::metrics::Metrics;
use crate::model_cache::ModelCache;
use crate::observe::RequestObserver;
use crate::server;
use crate::upstreams::{self, Offers, Upstreams};

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
    /// Is shown every authenticated request, and told what became of all.
    pub observer: Option<Arc<dyn RequestObserver>>,
    /// Where what is known is kept from one run to the next; it exists. Absent: nowhere.
    pub dir: Option<PathBuf>,
    /// Whether `GET /metrics` and `GET /healthz` are answered, to anybody who can connect.
    pub diagnostics: bool,
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
            dir: None,
            diagnostics: false,
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
            .finish_non_exhaustive()
    }
}

/// What a chosen model means for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The upstream that the id names, for the agent's [`Lease`].
    pub upstream: Option<String>,
    /// The id without the upstream's name: agents derive thinking and limits from it.
    pub model: String,
    /// Whether the agent's web searches can be served.
    pub searches_the_web: bool,
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
        let offers = Offers::new(config.upstreams, None);
        let model_cache = config.dir.as_deref().map(ModelCache::new);
        if let Some(cache) = &model_cache {
            cache.recall(&offers);
        }
        let shared = Arc::new(Shared {
            nonce,
            registry: Arc::new(Registry::new(config.accept_unregistered, stop.clone())),
            offers: RwLock::new(Arc::new(offers)),
            model_cache,
            allowed_betas: config.allowed_betas,
            observer: config.observer,
            metrics: Metrics::default(),
            diagnostics: config.diagnostics,
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

    /// What a model id that a person chose means for an agent: which upstream, which id, what that upstream can do.
    #[must_use]
    pub fn choose(&self, model: &str) -> Choice {
        let offers = self.shared.offers();
        let (name, id) = upstreams::split(model).map_or((None, model), |(name, id)| (Some(name), id));
        let offer = name.map_or_else(|| offers.all().first(), |name| offers.named(name));
        Choice {
            upstream: name.map(str::to_owned),
            model: id.to_owned(),
            searches_the_web: offer.is_some_and(|offer| offer.upstream.searches_the_web()),
        }
    }

    /// Mints a bearer for one agent process.
    #[must_use = "dropping the registration revokes its bearer"]
    pub fn register(&self, lease: Lease) -> Registration {
        self.shared.registry.register(lease, &self.shared.nonce)
    }

    /// Exchanges the upstreams. Requests that run stay with the upstream that they began with.
    pub fn reconfigure(&self, upstreams: Upstreams) {
        let mut offers = self.shared.offers.write().unwrap_or_else(PoisonError::into_inner);
        let new = Offers::new(upstreams, Some(&offers));
        *offers = Arc::new(new);
    }

    /// The models that are known to be on offer, the default upstream's first; never empty.
    #[must_use]
    pub fn models(&self) -> Vec<Model> {
        self.shared.offers().known_models(None)
    }

    /// Asks all upstreams for their models; those that do not answer keep what is known about them.
    pub async fn refresh_models(&self) -> Vec<Model> {
        self.shared.fetch_models().await.known_models(None)
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
    model_cache: Option<ModelCache>,
    pub(crate) allowed_betas: Vec<String>,
    pub(crate) observer: Option<Arc<dyn RequestObserver>>,
    pub(crate) metrics: Metrics,
    pub(crate) diagnostics: bool,
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

    /// Asks all upstreams for their models, and remembers what they said.
    pub(crate) async fn fetch_models(self: &Arc<Self>) -> Arc<Offers> {
        let offers = self.offers();
        offers.fetch_models().await;
        if self.model_cache.is_some() {
            let (shared, known) = (Arc::clone(self), Arc::clone(&offers));
            let kept = tokio::task::spawn_blocking(move || shared.model_cache.as_ref().map(|cache| cache.keep(&known)));
            // It fails only if it panics or the runtime ends.
            let _ = kept.await;
        }
        offers
    }

    pub(crate) fn count_in(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.in_flight.send_modify(|count| *count += 1);
    }

    pub(crate) fn count_out(&self) {
        self.in_flight.send_modify(|count| *count -= 1);
    }
}
