//! Port for a gateway without a host, used by `hostler proxy`.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use secrecy::SecretString;

use super::{GatewayOptions, LaunchError, VaultSettings};

/// Starts gateways without a host.
pub trait ProxyLauncher: Send + Sync {
    /// Starts a gateway; resolves when it accepts connections. Dropping the future cleans up.
    ///
    /// The caller holds the lock of the state directory if anything is limited.
    fn launch(&self, options: ProxyOptions) -> BoxFuture<'static, Result<Box<dyn RunningProxy>, LaunchError>>;
}

/// Options of a proxy.
#[derive(Clone)]
pub struct ProxyOptions {
    /// Address to listen on; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Accepted `Host` headers beside loopback.
    pub allowed_hosts: Vec<String>,
    /// Upstreams and usage limits.
    pub gateway: GatewayOptions,
    /// Where saved credentials are.
    pub vault: VaultSettings,
    /// Directory of the ledger, if anything is limited. It exists, is private, and is locked by the caller.
    pub ledger_dir: Option<std::path::PathBuf>,
    /// Whether `/metrics` and `/healthz` are served.
    pub serve_metrics: bool,
    /// Receives every finished request.
    pub request_sink: Option<RequestSink>,
}

impl fmt::Debug for ProxyOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyOptions")
            .field("listen", &self.listen)
            .field("allowed_hosts", &self.allowed_hosts)
            .field("gateway", &self.gateway)
            .field("ledger_dir", &self.ledger_dir)
            .field("metrics", &self.serve_metrics)
            .field("requests", &self.request_sink.is_some())
            .finish_non_exhaustive()
    }
}

/// Receives finished requests. It is called while they are handled, so it must be quick.
pub type RequestSink = Arc<dyn Fn(FinishedRequestRecord) + Send + Sync>;

/// Outcome of a request, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedRequestRecord {
    /// The method, such as `POST`.
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// Requested model, once known.
    pub model: Option<String>,
    /// Selected upstream, once known.
    pub upstream: Option<String>,
    /// Status of the response; absent if the client disconnected before there was one.
    pub status: Option<u16>,
    /// Duration of the request.
    pub duration: Duration,
    /// Input tokens, cached ones included, and output tokens.
    pub tokens: (u64, u64),
    /// Short name of the outcome.
    pub outcome: &'static str,
}

/// Gateway that accepts connections.
pub trait RunningProxy: Send + Sync {
    /// Listening address, with the actual port.
    fn local_addr(&self) -> SocketAddr;
    /// Part of its bearers before the dot.
    fn nonce(&self) -> SecretString;
    /// Replaces upstreams, limits, prices and betas of the running gateway; an unchanged upstream is reused.
    ///
    /// # Errors
    /// If the options are invalid; then nothing has changed.
    fn reconfigure(&self, options: GatewayOptions) -> Result<(), LaunchError>;
    /// Closes the listener and ends the requests; returns when all have ended.
    fn shutdown(&self) -> BoxFuture<'_, ()>;
}
