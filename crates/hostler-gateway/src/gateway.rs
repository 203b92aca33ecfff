//! The gateway as its owner sees it: start, register, watch, stop.

mod signing;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
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
use crate::connection::{ConnectionLimits, Connections};
use crate::host_names::HostNames;
use crate::lease::{Lease, Registration, Registry};
use crate::ledger::{Ledger, LedgerError, LedgerOptions};
use crate::limits::{Desk, Limits, OverLimit, SessionLimits, SessionStatus};
use crate::metrics::Metrics;
use crate::model_cache::ModelCache;
use crate::observe::RequestObserver;
use crate::prices::{Price, Prices};
use crate::server;
use crate::sign_in::SignIns;
use crate::upstreams::{self, Offers, Reach, Upstreams};
use crate::usage::UsageTotals;

/// How a gateway is set up.
pub struct GatewayConfig {
    /// Who answers the requests.
    pub upstreams: Upstreams,
    /// The betas that are told to upstreams which take only some, without their editions.
    pub allowed_betas: Vec<String>,
    /// Where to listen; port 0 takes any free port.
    pub listen: SocketAddr,
    /// Names that `Host` headers may have beside loopback, without a port.
    pub allowed_hosts: Vec<String>,
    /// How many connections there may be, and for how long.
    pub connections: ConnectionLimits,
    /// Whether a bearer with the right nonce but an unknown id is served. Inside the host it is not.
    pub accept_unregistered: bool,
    /// How much may be used.
    pub limits: Limits,
    /// What happens to a request that is over a limit.
    pub over_limit: OverLimit,
    /// What tokens cost.
    pub prices: Prices,
    /// Is shown every authenticated request, and told what became of all.
    pub observer: Option<Arc<dyn RequestObserver>>,
    /// Where what is known and what was used is kept from one run to the next; it exists. Absent: nowhere.
    pub dir: Option<PathBuf>,
    /// Where the tokens are that clients bring.
    pub sign_ins: Arc<SignIns>,
    /// Whether `GET /metrics` and `GET /healthz` are answered, to anybody who can connect.
    pub diagnostics: bool,
}

impl GatewayConfig {
    /// The setup inside the host: any loopback port, registered callers only, no limits, and whoever comes over one that
    /// is set later waits.
    #[must_use]
    pub fn new(upstreams: Upstreams) -> Self {
        Self {
            upstreams,
            allowed_betas: ALLOWED_BETAS.map(str::to_owned).into(),
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            allowed_hosts: Vec::new(),
            connections: ConnectionLimits::default(),
            accept_unregistered: false,
            limits: Limits::default(),
            over_limit: OverLimit::HOLD,
            prices: Prices::bundled(),
            observer: None,
            dir: None,
            sign_ins: SignIns::new(),
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
            .field("dir", &self.dir)
            .field("limits", &self.limits)
            .field("over_limit", &self.over_limit)
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
    /// The ledger cannot be kept where it should be.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
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
    /// If the address cannot be bound, the system has no random bytes, or the ledger cannot be opened.
    pub async fn start(config: GatewayConfig) -> Result<Self, GatewayError> {
        let nonce = Nonce::random().map_err(GatewayError::Random)?;
        let listen_error = |source| GatewayError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let ledger = open_ledger(config.dir.clone()).await?;
        let desk = Arc::new(Desk::new(ledger, config.limits, config.over_limit));
        let stop = CancellationToken::new();
        let offers = Offers::new(config.upstreams, None);
        let model_cache = config.dir.as_deref().map(ModelCache::new);
        if let Some(cache) = &model_cache {
            cache.recall(&offers);
        }
        let shared = Arc::new(Shared {
            nonce,
            host_names: HostNames::new(address, config.allowed_hosts),
            connections: Arc::new(Connections::new(config.connections)),
            registry: Arc::new(Registry::new(config.accept_unregistered, Arc::clone(&desk), stop.clone())),
            offers: RwLock::new(Arc::new(offers)),
            model_cache,
            allowed_betas: RwLock::new(config.allowed_betas.into()),
            desk,
            prices: RwLock::new(config.prices),
            observer: config.observer,
            metrics: Metrics::default(),
            sign_ins: config.sign_ins,
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

    /// What stands before the dot of every bearer. Where unregistered callers are served, any id may follow it.
    #[must_use]
    pub fn nonce(&self) -> &SecretString {
        self.shared.nonce.secret()
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

    /// Whether a user's text is a script that some upstream plays.
    #[must_use]
    pub fn is_script(&self, text: &str) -> bool {
        self.shared.offers().all().iter().any(|offer| offer.upstream.is_script(text))
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

    /// Exchanges the betas that are told to upstreams which take only some.
    pub fn allow_betas(&self, allowed: Vec<String>) {
        *self.shared.allowed_betas.write().unwrap_or_else(PoisonError::into_inner) = allowed.into();
    }

    /// The models that are known to be on offer, the default upstream's first; never empty.
    #[must_use]
    pub fn models(&self) -> Vec<Model> {
        self.shared.offers().known_models(Reach::All)
    }

    /// Asks all upstreams for their models; those that do not answer keep what is known about them.
    pub async fn refresh_models(&self) -> Vec<Model> {
        self.shared.fetch_models().await.known_models(Reach::All)
    }

    /// The limits as they are now.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.shared.desk.limits()
    }

    /// Changes the limits. Requests that wait go on if they may now.
    pub fn set_limits(&self, limits: Limits) {
        self.shared.desk.set_limits(limits);
    }

    /// Gives a session limits of its own; what they leave out is limited as in every session. They last as long as the
    /// gateway, so whoever keeps them sets them anew after a restart. Requests that wait go on if they may now.
    pub fn set_session_limits(&self, session: &str, limits: SessionLimits) {
        self.shared.desk.set_session_limits(session, limits);
    }

    /// What a session has used, may use and waits for, now and whenever that changes.
    #[must_use]
    pub fn session_status(&self, session: &str) -> watch::Receiver<SessionStatus> {
        self.shared.desk.account(session).status()
    }

    /// Forgets what a session has used, and its limits.
    pub fn forget_session(&self, session: &str) {
        self.shared.desk.forget(session);
    }

    /// What all sessions have used today (UTC).
    #[must_use]
    pub fn used_today(&self) -> UsageTotals {
        self.shared.desk.ledger().today()
    }

    /// Exchanges the prices. What has been used keeps its cost.
    pub fn set_prices(&self, prices: Prices) {
        *self.shared.prices.write().unwrap_or_else(PoisonError::into_inner) = prices;
    }

    /// Returns once all that has been counted so far is in the ledger's file; at once if there is none.
    pub async fn ledger_written(&self) {
        self.shared.desk.ledger().written().await;
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

    /// How many connections are open on which no bearer was shown.
    #[must_use]
    pub fn unauthenticated_connections(&self) -> usize {
        self.shared.connections.unauthenticated()
    }

    /// Returns as soon as no request is being answered.
    pub async fn idle(&self) {
        // Fails only when the sender is gone, and `self` holds it.
        let _ = self.shared.in_flight.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Stops: the listener closes, requests in flight end with an error, and no task is left when this returns. The
    /// ledger is written and free for another gateway.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        if self.shared.desk.ledger().is_open() {
            let desk = Arc::clone(&self.shared.desk);
            if let Err(error) = tokio::task::spawn_blocking(move || desk.ledger().close()).await {
                tracing::error!(%error, "the ledger was not closed");
            }
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        self.shared.desk.ledger().close();
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Opens the ledger; reading it is not for the threads that serve.
async fn open_ledger(dir: Option<PathBuf>) -> Result<Ledger, LedgerError> {
    let options = LedgerOptions::new(dir);
    match options.dir.clone() {
        None => Ledger::open(options),
        Some(path) => tokio::task::spawn_blocking(move || Ledger::open(options))
            .await
            .unwrap_or_else(|error| Err(LedgerError::Io { path, source: io::Error::other(error) })),
    }
}

/// What all connections of one gateway share.
pub(crate) struct Shared {
    pub(crate) nonce: Nonce,
    pub(crate) host_names: HostNames,
    pub(crate) connections: Arc<Connections>,
    pub(crate) registry: Arc<Registry>,
    offers: RwLock<Arc<Offers>>,
    model_cache: Option<ModelCache>,
    allowed_betas: RwLock<Arc<[String]>>,
    pub(crate) desk: Arc<Desk>,
    prices: RwLock<Prices>,
    pub(crate) observer: Option<Arc<dyn RequestObserver>>,
    pub(crate) metrics: Metrics,
    sign_ins: Arc<SignIns>,
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

    /// The betas that upstreams which take only some are told.
    pub(crate) fn allowed_betas(&self) -> Arc<[String]> {
        Arc::clone(&self.allowed_betas.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the tokens of a model cost, if anybody knows.
    pub(crate) fn price(&self, model: &str) -> Option<Price> {
        self.prices.read().unwrap_or_else(PoisonError::into_inner).of(model)
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
