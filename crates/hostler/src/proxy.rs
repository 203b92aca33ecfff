//! The gateway alone, for the command line.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_cli::{GatewayOptions, LaunchError, ProxyLauncher, ProxyOptions, RequestLine, RequestSink, RunningProxy};
use hostler_gateway::{FinishedRequest, Gateway, ObservedRequest, OverLimit, RequestObserver};
use secrecy::SecretString;

use crate::upstreams::{self, Joined};

/// Starts gateways in this process.
pub(crate) struct Proxies;

impl ProxyLauncher for Proxies {
    fn launch(&self, options: ProxyOptions) -> BoxFuture<'static, Result<Box<dyn RunningProxy>, LaunchError>> {
        async move {
            // It holds keys as a host does, and hides them from other programs of the user in the same way.
            hostler_process::become_host()
                .map_err(|error| LaunchError::Other(format!("This process cannot hide its memory: {error}.")))?;
            let joined = Joined::new(&options.vault);
            let mut config = joined.config(&options.gateway)?;
            config.listen = options.listen;
            config.allowed_hosts = options.allowed_hosts;
            config.accept_unregistered = true;
            config.diagnostics = options.metrics;
            config.dir = options.ledger_dir;
            // Nobody is there to raise a limit while a request waits.
            config.over_limit = OverLimit::Refuse;
            config.observer = options.requests.map(|sink| Arc::new(Lines(sink)) as Arc<dyn RequestObserver>);
            let gateway = Gateway::start(config).await.map_err(upstreams::sentence)?;
            Ok(Box::new(Proxy { gateway, joined }) as Box<dyn RunningProxy>)
        }
        .boxed()
    }
}

struct Proxy {
    gateway: Gateway,
    joined: Joined,
}

impl RunningProxy for Proxy {
    fn local_addr(&self) -> SocketAddr {
        self.gateway.address()
    }

    fn nonce(&self) -> SecretString {
        self.gateway.nonce().clone()
    }

    fn reconfigure(&self, options: GatewayOptions) -> Result<(), LaunchError> {
        self.joined.reconfigure(&self.gateway, &options)
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        self.gateway.stop().boxed()
    }
}

/// Tells the command line what became of each request.
struct Lines(RequestSink);

impl RequestObserver for Lines {
    fn observe(&self, _request: ObservedRequest) {}

    fn finished(&self, request: &FinishedRequest) {
        let tokens = &request.tokens;
        (self.0)(RequestLine {
            method: request.method.clone(),
            path: request.path.clone(),
            model: request.model.clone(),
            upstream: request.upstream.clone(),
            status: request.status,
            duration: request.duration,
            tokens: (tokens.input + tokens.cache_read + tokens.cache_write, tokens.output),
            ending: request.ending.as_str(),
        });
    }
}
