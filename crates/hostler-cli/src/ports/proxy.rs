//! The gateway alone, as `hostler proxy` needs it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use secrecy::SecretString;

use super::{GatewayOptions, LaunchError, VaultSettings};

/// Starts gateways without a host.
pub trait ProxyLauncher: Send + Sync {
    /// Starts a gateway; the answer comes when it accepts connections. Dropping the future leaves nothing.
    ///
    /// The caller holds the lock of the state directory if anything is limited.
    fn launch(&self, options: ProxyOptions) -> BoxFuture<'static, Result<Box<dyn RunningProxy>, LaunchError>>;
}

/// How a gateway is to run.
#[derive(Clone)]
pub struct ProxyOptions {
    /// Where to listen; port 0 picks one.
    pub listen: SocketAddr,
    /// Names that `Host` headers may have beside loopback.
    pub allowed_hosts: Vec<String>,
    /// Who answers, and within which limits.
    pub gateway: GatewayOptions,
    /// Where the credentials are that somebody logged in with.
    pub vault: VaultSettings,
    /// Where to count what is used, if anything is limited. Exists, is private, and is locked by the caller.
    pub ledger_dir: Option<std::path::PathBuf>,
    /// Whether `/metrics` and `/healthz` are served.
    pub serve_metrics: bool,
    /// Is told about every request that is over.
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

/// Takes what became of requests. Called on their way: be quick.
pub type RequestSink = Arc<dyn Fn(FinishedRequestRecord) + Send + Sync>;

/// What became of a request. Holds nothing of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedRequestRecord {
    /// The method, such as `POST`.
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// The model that was asked for, once that was known.
    pub model: Option<String>,
    /// The upstream that was chosen, once that was known.
    pub upstream: Option<String>,
    /// The status of the answer; absent if the client left before there was one.
    pub status: Option<u16>,
    /// From the request to its end.
    pub duration: Duration,
    /// Tokens that were read, from the cache too, and written.
    pub tokens: (u64, u64),
    /// How it ended, in a word.
    pub outcome: &'static str,
}

/// A gateway that accepts connections.
pub trait RunningProxy: Send + Sync {
    /// Where it listens, with the real port.
    fn local_addr(&self) -> SocketAddr;
    /// What stands before the dot of its bearers.
    fn nonce(&self) -> SecretString;
    /// Exchanges upstreams, limits, prices and betas while requests run; an upstream that is the same stays the same.
    ///
    /// # Errors
    /// If they cannot be used; then nothing has changed.
    fn reconfigure(&self, options: GatewayOptions) -> Result<(), LaunchError>;
    /// Closes the listener and ends the requests; returns when nothing is left.
    fn shutdown(&self) -> BoxFuture<'_, ()>;
}
