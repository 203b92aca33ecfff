//! The gateway as its owner sees it: start, register, watch, stop.

mod client_sign_in;

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

use crate::auth::BearerNonce;
use crate::betas::DEFAULT_ALLOWED_BETAS;
use crate::connection::{ConnectionTracker, GatewayConnectionLimits};
use crate::host_header::HostHeaderCheck;
use crate::lease::{Lease, LeaseRegistry, Registration};
use crate::ledger::{Ledger, LedgerError, LedgerOptions};
use crate::limits::{AdmissionControl, GatewayLimits, OverLimitPolicy, SessionLimits, SessionUsageStatus};
use crate::metrics::Metrics;
use crate::model_cache::ModelCache;
use crate::model_catalog::AvailableModel;
use crate::prices::{ModelPrice, PriceList};
use crate::request_observer::RequestObserver;
use crate::server;
use crate::sign_in::SignInStore;
use crate::upstream_registry::{self, UpstreamRegistry, UpstreamScope, Upstreams};
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
    pub connections: GatewayConnectionLimits,
    /// Whether a bearer with the right nonce but an unknown id is served. Inside the host it is not.
    pub accept_unregistered: bool,
    /// How much may be used.
    pub limits: GatewayLimits,
    /// What happens to a request that is over a limit.
    pub over_limit_policy: OverLimitPolicy,
    /// What tokens cost.
    pub prices: PriceList,
    /// Is shown every authenticated request, and told what became of all.
    pub observer: Option<Arc<dyn RequestObserver>>,
    /// Where what is known and what was used is kept from one run to the next; it exists. Absent: nowhere.
    pub state_dir: Option<PathBuf>,
    /// Where the tokens are that clients bring.
    pub sign_ins: Arc<SignInStore>,
    /// Whether `GET /metrics` and `GET /healthz` are answered, to anybody who can connect.
    pub diagnostics_endpoints: bool,
}

impl GatewayConfig {
    /// The setup inside the host: any loopback port, registered callers only, no limits, and whoever comes over one that
    /// is set later waits.
    #[must_use]
    pub fn new(upstreams: Upstreams) -> Self {
        Self {
            upstreams,
            allowed_betas: DEFAULT_ALLOWED_BETAS.map(str::to_owned).into(),
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            allowed_hosts: Vec::new(),
            connections: GatewayConnectionLimits::default(),
            accept_unregistered: false,
            limits: GatewayLimits::default(),
            over_limit_policy: OverLimitPolicy::WAIT,
            prices: PriceList::bundled(),
            observer: None,
            state_dir: None,
            sign_ins: SignInStore::new(),
            diagnostics_endpoints: false,
        }
    }
}

impl fmt::Debug for GatewayConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayConfig")
            .field("upstreams", &self.upstreams)
            .field("listen", &self.listen)
            .field("accept_unregistered", &self.accept_unregistered)
            .field("dir", &self.state_dir)
            .field("limits", &self.limits)
            .field("over_limit", &self.over_limit_policy)
            .field("observer", &self.observer.is_some())
            .finish_non_exhaustive()
    }
}

/// What a chosen model means for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSelection {
    /// The upstream that the id names, for the agent's [`Lease`].
    pub upstream: Option<String>,
    /// The id without the upstream's name: agents derive thinking and limits from it.
    pub model: String,
    /// Whether the agent's web searches can be served.
    pub supports_web_search: bool,
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
    shared: Arc<GatewayState>,
    address: SocketAddr,
    tasks: TaskTracker,
}

impl Gateway {
    /// Binds the address and begins to serve; must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If the address cannot be bound, the system has no random bytes, or the ledger cannot be opened.
    pub async fn start(config: GatewayConfig) -> Result<Self, GatewayError> {
        let nonce = BearerNonce::random().map_err(GatewayError::Random)?;
        let listen_error = |source| GatewayError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let ledger = open_ledger(config.state_dir.clone()).await?;
        let desk = Arc::new(AdmissionControl::new(ledger, config.limits, config.over_limit_policy));
        let stop = CancellationToken::new();
        let offers = UpstreamRegistry::new(config.upstreams, None);
        let model_cache = config.state_dir.as_deref().map(ModelCache::new);
        if let Some(cache) = &model_cache {
            cache.restore(&offers);
        }
        let shared = Arc::new(GatewayState {
            nonce,
            host_names: HostHeaderCheck::new(address, config.allowed_hosts),
            connections: Arc::new(ConnectionTracker::new(config.connections)),
            registry: Arc::new(LeaseRegistry::new(config.accept_unregistered, Arc::clone(&desk), stop.clone())),
            upstreams: RwLock::new(Arc::new(offers)),
            model_cache,
            allowed_betas: RwLock::new(config.allowed_betas.into()),
            admission: desk,
            prices: RwLock::new(config.prices),
            observer: config.observer,
            metrics: Metrics::default(),
            sign_ins: config.sign_ins,
            diagnostics_endpoints: config.diagnostics_endpoints,
            stop,
            in_flight: watch::Sender::new(0),
            requests_accepted: AtomicU64::new(0),
        });
        let tasks = TaskTracker::new();
        tasks.spawn(server::accept_connections(listener, Arc::clone(&shared), tasks.clone()));
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
    pub fn select_model(&self, model: &str) -> ModelSelection {
        let offers = self.shared.upstreams();
        let (name, id) = upstream_registry::split_model_id(model).map_or((None, model), |(name, id)| (Some(name), id));
        let offer = name.map_or_else(|| offers.all().first(), |name| offers.get(name));
        ModelSelection {
            upstream: name.map(str::to_owned),
            model: id.to_owned(),
            supports_web_search: offer.is_some_and(|offer| offer.upstream.supports_web_search()),
        }
    }

    /// Whether a user's text is a script that some upstream plays.
    #[must_use]
    pub fn is_script(&self, text: &str) -> bool {
        self.shared.upstreams().all().iter().any(|offer| offer.upstream.is_script(text))
    }

    /// Mints a bearer for one agent process.
    #[must_use = "dropping the registration revokes its bearer"]
    pub fn register(&self, lease: Lease) -> Registration {
        self.shared.registry.register(lease, &self.shared.nonce)
    }

    /// Exchanges the upstreams. Requests that run stay with the upstream that they began with.
    pub fn set_upstreams(&self, upstreams: Upstreams) {
        let mut offers = self.shared.upstreams.write().unwrap_or_else(PoisonError::into_inner);
        let new = UpstreamRegistry::new(upstreams, Some(&offers));
        *offers = Arc::new(new);
    }

    /// Exchanges the betas that are told to upstreams which take only some.
    pub fn set_allowed_betas(&self, allowed: Vec<String>) {
        *self.shared.allowed_betas.write().unwrap_or_else(PoisonError::into_inner) = allowed.into();
    }

    /// The models that are known to be on offer, the default upstream's first; never empty.
    #[must_use]
    pub fn models(&self) -> Vec<AvailableModel> {
        self.shared.upstreams().known_models(UpstreamScope::All)
    }

    /// Asks all upstreams for their models; those that do not answer keep what is known about them.
    pub async fn refresh_models(&self) -> Vec<AvailableModel> {
        self.shared.fetch_models().await.known_models(UpstreamScope::All)
    }

    /// The limits as they are now.
    #[must_use]
    pub fn limits(&self) -> GatewayLimits {
        self.shared.admission.limits()
    }

    /// Changes the limits. Requests that wait go on if they may now.
    pub fn set_limits(&self, limits: GatewayLimits) {
        self.shared.admission.set_limits(limits);
    }

    /// Gives a session limits of its own; what they leave out is limited as in every session. They last as long as the
    /// gateway, so whoever keeps them sets them anew after a restart. Requests that wait go on if they may now.
    pub fn set_session_limits(&self, session: &str, limits: SessionLimits) {
        self.shared.admission.set_session_limits(session, limits);
    }

    /// What a session has used, may use and waits for, now and whenever that changes.
    #[must_use]
    pub fn session_status(&self, session: &str) -> watch::Receiver<SessionUsageStatus> {
        self.shared.admission.account(session).status()
    }

    /// Forgets what a session has used, and its limits.
    pub fn delete_session_usage(&self, session: &str) {
        self.shared.admission.delete_session(session);
    }

    /// What all sessions have used today (UTC).
    #[must_use]
    pub fn usage_today(&self) -> UsageTotals {
        self.shared.admission.ledger().totals_today()
    }

    /// Exchanges the prices. What has been used keeps its cost.
    pub fn set_prices(&self, prices: PriceList) {
        *self.shared.prices.write().unwrap_or_else(PoisonError::into_inner) = prices;
    }

    /// Returns once all that has been counted so far is in the ledger's file; at once if there is none.
    pub async fn wait_until_ledger_written(&self) {
        self.shared.admission.ledger().wait_until_written().await;
    }

    /// How many requests are being answered at this moment, streams included.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        *self.shared.in_flight.borrow()
    }

    /// How many requests were taken on since the start.
    #[must_use]
    pub fn requests_accepted(&self) -> u64 {
        self.shared.requests_accepted.load(Ordering::Relaxed)
    }

    /// How many connections are open on which no bearer was shown.
    #[must_use]
    pub fn unauthenticated_connections(&self) -> usize {
        self.shared.connections.unauthenticated_count()
    }

    /// Returns as soon as no request is being answered.
    pub async fn wait_until_idle(&self) {
        // Fails only when the sender is gone, and `self` holds it.
        let _ = self.shared.in_flight.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Stops: the listener closes, requests in flight end with an error, and no task is left when this returns. The
    /// ledger is written and free for another gateway.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        if self.shared.admission.ledger().is_open() {
            let desk = Arc::clone(&self.shared.admission);
            if let Err(error) = tokio::task::spawn_blocking(move || desk.ledger().close()).await {
                tracing::error!(%error, "the ledger was not closed");
            }
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        self.shared.admission.ledger().close();
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
    match options.state_dir.clone() {
        None => Ledger::open(options),
        Some(path) => tokio::task::spawn_blocking(move || Ledger::open(options))
            .await
            .unwrap_or_else(|error| Err(LedgerError::Io { path, source: io::Error::other(error) })),
    }
}

/// What all connections of one gateway share.
pub(crate) struct GatewayState {
    pub(crate) nonce: BearerNonce,
    pub(crate) host_names: HostHeaderCheck,
    pub(crate) connections: Arc<ConnectionTracker>,
    pub(crate) registry: Arc<LeaseRegistry>,
    upstreams: RwLock<Arc<UpstreamRegistry>>,
    model_cache: Option<ModelCache>,
    allowed_betas: RwLock<Arc<[String]>>,
    pub(crate) admission: Arc<AdmissionControl>,
    prices: RwLock<PriceList>,
    pub(crate) observer: Option<Arc<dyn RequestObserver>>,
    pub(crate) metrics: Metrics,
    sign_ins: Arc<SignInStore>,
    pub(crate) diagnostics_endpoints: bool,
    pub(crate) stop: CancellationToken,
    pub(crate) in_flight: watch::Sender<usize>,
    /// Requests that were taken on since the start.
    requests_accepted: AtomicU64,
}

impl GatewayState {
    /// The upstreams as they are now.
    pub(crate) fn upstreams(&self) -> Arc<UpstreamRegistry> {
        Arc::clone(&self.upstreams.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The betas that upstreams which take only some are told.
    pub(crate) fn allowed_betas(&self) -> Arc<[String]> {
        Arc::clone(&self.allowed_betas.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the tokens of a model cost, if anybody knows.
    pub(crate) fn price(&self, model: &str) -> Option<ModelPrice> {
        self.prices.read().unwrap_or_else(PoisonError::into_inner).price_of(model)
    }

    /// Asks all upstreams for their models, and remembers what they said.
    pub(crate) async fn fetch_models(self: &Arc<Self>) -> Arc<UpstreamRegistry> {
        let offers = self.upstreams();
        offers.fetch_models().await;
        if self.model_cache.is_some() {
            let (shared, known) = (Arc::clone(self), Arc::clone(&offers));
            let kept = tokio::task::spawn_blocking(move || shared.model_cache.as_ref().map(|cache| cache.save(&known)));
            // It fails only if it panics or the runtime ends.
            let _ = kept.await;
        }
        offers
    }

    pub(crate) fn begin_request(&self) {
        self.requests_accepted.fetch_add(1, Ordering::Relaxed);
        self.in_flight.send_modify(|count| *count += 1);
    }

    pub(crate) fn end_request(&self) {
        self.in_flight.send_modify(|count| *count -= 1);
    }
}
