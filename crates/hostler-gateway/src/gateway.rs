//! Public API of the gateway: start, register agents, select models, read and set limits, stop. Owns the state that all
//! connections share.

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

/// Configuration of a gateway.
pub struct GatewayConfig {
    /// The upstreams that answer requests.
    pub upstreams: Upstreams,
    /// Betas for upstreams with [`BetaPolicy::Allowed`](crate::BetaPolicy::Allowed), without dates.
    pub allowed_betas: Vec<String>,
    /// Address to listen on; port 0 selects any free port.
    pub listen: SocketAddr,
    /// Names that are accepted in `Host` headers besides loopback, without a port.
    pub allowed_hosts: Vec<String>,
    /// Limits on connections.
    pub connections: GatewayConnectionLimits,
    /// Whether a bearer with the right nonce but an unknown id is served. False inside the host.
    pub accept_unregistered: bool,
    /// Limits on usage.
    pub limits: GatewayLimits,
    /// What happens to a request that is over a limit.
    pub over_limit_policy: OverLimitPolicy,
    /// Token prices.
    pub prices: PriceList,
    /// Receives every authenticated request, and the outcome of every request.
    pub observer: Option<Arc<dyn RequestObserver>>,
    /// Existing directory for the ledger and the model cache; without it both are in memory only.
    pub state_dir: Option<PathBuf>,
    /// Tokens that clients have provided.
    pub sign_ins: Arc<SignInStore>,
    /// Whether `GET /metrics` and `GET /healthz` are served, without authentication.
    pub diagnostics_endpoints: bool,
}

impl GatewayConfig {
    /// The configuration inside the host: any loopback port, registered callers only, no limits; requests over a limit
    /// that is set later wait.
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

/// What a selected model id means for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSelection {
    /// The upstream named in the id, for the agent's [`Lease`].
    pub upstream: Option<String>,
    /// The id without the upstream's name; agents derive thinking and token limits from it.
    pub model: String,
    /// Whether the upstream can serve the agent's web searches.
    pub supports_web_search: bool,
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The gateway cannot listen on the address.
    #[error("the gateway failed to listen on {address}: {source}; choose another address or port 0")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// The system provided no random bytes.
    #[error("the gateway failed to create its nonce: the system provides no random bytes: {0}")]
    Random(getrandom::Error),
    /// The ledger cannot be opened.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl GatewayError {
    /// The code for programs, which does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Listen { .. } => "gatewayListenFailed",
            Self::Random(_) => "randomUnavailable",
            Self::Ledger(error) => error.code(),
        }
    }
}

/// A running gateway. Dropping it stops it as well, without waiting for its tasks.
pub struct Gateway {
    shared: Arc<GatewayState>,
    address: SocketAddr,
    tasks: TaskTracker,
}

impl Gateway {
    /// Binds the address and starts serving; must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If the address cannot be bound, the system provides no random bytes, or the ledger cannot be opened.
    pub async fn start(config: GatewayConfig) -> Result<Self, GatewayError> {
        let nonce = BearerNonce::random().map_err(GatewayError::Random)?;
        let listen_error = |source| GatewayError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let ledger = open_ledger(config.state_dir.clone()).await?;
        let admission = Arc::new(AdmissionControl::new(ledger, config.limits, config.over_limit_policy));
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
            registry: Arc::new(LeaseRegistry::new(config.accept_unregistered, Arc::clone(&admission), stop.clone())),
            upstreams: RwLock::new(Arc::new(offers)),
            model_cache,
            allowed_betas: RwLock::new(config.allowed_betas.into()),
            admission,
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
        tracing::info!(%address, "gateway listening");
        Ok(Self { shared, address, tasks })
    }

    /// The address that the gateway listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for agents.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The part of every bearer before the dot. Where unregistered callers are served, any id may follow it.
    #[must_use]
    pub fn nonce(&self) -> &SecretString {
        self.shared.nonce.secret()
    }

    /// Resolves a model id that a person selected: the upstream, the id there, and what that upstream supports.
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

    /// Whether a user's text is a script for a scripted upstream.
    #[must_use]
    pub fn is_script(&self, text: &str) -> bool {
        self.shared.upstreams().all().iter().any(|offer| offer.upstream.is_script(text))
    }

    /// Creates a bearer for one agent process.
    #[must_use = "dropping the registration revokes its bearer"]
    pub fn register(&self, lease: Lease) -> Registration {
        self.shared.registry.register(lease, &self.shared.nonce)
    }

    /// Replaces the upstreams. Running requests continue with the upstream that they started with.
    pub fn set_upstreams(&self, upstreams: Upstreams) {
        let mut offers = self.shared.upstreams.write().unwrap_or_else(PoisonError::into_inner);
        let new = UpstreamRegistry::new(upstreams, Some(&offers));
        *offers = Arc::new(new);
    }

    /// Replaces the betas for upstreams with [`BetaPolicy::Allowed`](crate::BetaPolicy::Allowed).
    pub fn set_allowed_betas(&self, allowed: Vec<String>) {
        *self.shared.allowed_betas.write().unwrap_or_else(PoisonError::into_inner) = allowed.into();
    }

    /// The known models, the default upstream's first; never empty.
    #[must_use]
    pub fn models(&self) -> Vec<AvailableModel> {
        self.shared.upstreams().known_models(UpstreamScope::All)
    }

    /// Fetches the model lists of all upstreams; an upstream that fails retains its previous list.
    pub async fn refresh_models(&self) -> Vec<AvailableModel> {
        self.shared.fetch_models().await.known_models(UpstreamScope::All)
    }

    /// The current limits.
    #[must_use]
    pub fn limits(&self) -> GatewayLimits {
        self.shared.admission.limits()
    }

    /// Replaces the limits. Waiting requests are checked again.
    pub fn set_limits(&self, limits: GatewayLimits) {
        self.shared.admission.set_limits(limits);
    }

    /// Sets the limits of one session; absent values use the default for sessions. They are not stored, so the caller
    /// sets them again after a restart. Waiting requests are checked again.
    pub fn set_session_limits(&self, session: &str, limits: SessionLimits) {
        self.shared.admission.set_session_limits(session, limits);
    }

    /// A session's usage, limits and waiting request, now and at every change.
    #[must_use]
    pub fn session_status(&self, session: &str) -> watch::Receiver<SessionUsageStatus> {
        self.shared.admission.account(session).status()
    }

    /// Deletes a session's usage and limits.
    pub fn delete_session_usage(&self, session: &str) {
        self.shared.admission.delete_session(session);
    }

    /// Usage of all sessions today (UTC).
    #[must_use]
    pub fn usage_today(&self) -> UsageTotals {
        self.shared.admission.ledger().totals_today()
    }

    /// Replaces the prices. The cost of past usage does not change.
    pub fn set_prices(&self, prices: PriceList) {
        *self.shared.prices.write().unwrap_or_else(PoisonError::into_inner) = prices;
    }

    /// Returns once everything counted so far is in the ledger file; at once if there is none.
    pub async fn wait_until_ledger_written(&self) {
        self.shared.admission.ledger().wait_until_written().await;
    }

    /// Number of requests that are being answered, streams included.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        *self.shared.in_flight.borrow()
    }

    /// Number of requests accepted since the start.
    #[must_use]
    pub fn requests_accepted(&self) -> u64 {
        self.shared.requests_accepted.load(Ordering::Relaxed)
    }

    /// Number of open connections that have not authenticated.
    #[must_use]
    pub fn unauthenticated_connections(&self) -> usize {
        self.shared.connections.unauthenticated_count()
    }

    /// Returns as soon as no request is in flight.
    pub async fn wait_until_idle(&self) {
        // Fails only if the sender is dropped, and `self` holds it.
        let _ = self.shared.in_flight.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Stops the gateway: the listener closes, requests in flight end with an error, and all tasks have ended when this
    /// returns. The ledger is written and unlocked.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        if self.shared.admission.ledger().is_open() {
            let admission = Arc::clone(&self.shared.admission);
            if let Err(error) = tokio::task::spawn_blocking(move || admission.ledger().close()).await {
                tracing::error!(%error, "failed to close the ledger");
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

/// Opens the ledger on a blocking thread.
async fn open_ledger(dir: Option<PathBuf>) -> Result<Ledger, LedgerError> {
    let options = LedgerOptions::new(dir);
    match options.state_dir.clone() {
        None => Ledger::open(options),
        Some(path) => tokio::task::spawn_blocking(move || Ledger::open(options))
            .await
            .unwrap_or_else(|error| Err(LedgerError::Io { path, source: io::Error::other(error) })),
    }
}

/// State that all connections of a gateway share.
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
    /// Requests accepted since the start.
    requests_accepted: AtomicU64,
}

impl GatewayState {
    /// The current upstreams.
    pub(crate) fn upstreams(&self) -> Arc<UpstreamRegistry> {
        Arc::clone(&self.upstreams.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The current betas for upstreams with [`BetaPolicy::Allowed`](crate::BetaPolicy::Allowed).
    pub(crate) fn allowed_betas(&self) -> Arc<[String]> {
        Arc::clone(&self.allowed_betas.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The price of a model's tokens, if it is known.
    pub(crate) fn price(&self, model: &str) -> Option<ModelPrice> {
        self.prices.read().unwrap_or_else(PoisonError::into_inner).price_of(model)
    }

    /// Fetches the model lists of all upstreams and saves them in the model cache.
    pub(crate) async fn fetch_models(self: &Arc<Self>) -> Arc<UpstreamRegistry> {
        let offers = self.upstreams();
        offers.fetch_models().await;
        if self.model_cache.is_some() {
            let (shared, known) = (Arc::clone(self), Arc::clone(&offers));
            let saved =
                tokio::task::spawn_blocking(move || shared.model_cache.as_ref().map(|cache| cache.save(&known)));
            // Fails only if the task panics or the runtime ends.
            let _ = saved.await;
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
