//! Runs the gateway without a host, for the command line.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_cli::{
    FinishedRequestRecord, GatewayOptions, LaunchError, ProxyLauncher, ProxyOptions, RequestSink, RunningProxy,
};
use hostler_gateway::{FinishedRequest, Gateway, ObservedRequest, OverLimitPolicy, RequestObserver};
use secrecy::SecretString;

use crate::upstreams::{ConfiguredUpstreams, to_gateway_error};

/// Starts gateways in this process.
pub(crate) struct InProcessProxyLauncher;

impl ProxyLauncher for InProcessProxyLauncher {
    fn launch(&self, options: ProxyOptions) -> BoxFuture<'static, Result<Box<dyn RunningProxy>, LaunchError>> {
        async move {
            // The proxy holds keys like a host, and hides them from other programs of the user in the same way.
            hostler_process::become_host().map_err(|error| {
                LaunchError::Other(format!("Failed to protect the memory of the process: {error}."))
            })?;
            let upstreams = ConfiguredUpstreams::new(&options.vault);
            let mut config = upstreams.gateway_config(&options.gateway)?;
            config.listen = options.listen;
            config.allowed_hosts = options.allowed_hosts;
            config.accept_unregistered = true;
            config.diagnostics_endpoints = options.serve_metrics;
            config.state_dir = options.ledger_dir;
            // There is no client that could raise a limit while a request waits.
            config.over_limit_policy = OverLimitPolicy::Reject;
            config.observer =
                options.request_sink.map(|sink| Arc::new(RequestSinkObserver(sink)) as Arc<dyn RequestObserver>);
            let gateway = Gateway::start(config).await.map_err(to_gateway_error)?;
            Ok(Box::new(LaunchedProxy { gateway, upstreams }) as Box<dyn RunningProxy>)
        }
        .boxed()
    }
}

struct LaunchedProxy {
    gateway: Gateway,
    upstreams: ConfiguredUpstreams,
}

impl RunningProxy for LaunchedProxy {
    fn local_addr(&self) -> SocketAddr {
        self.gateway.address()
    }

    fn nonce(&self) -> SecretString {
        self.gateway.nonce().clone()
    }

    fn reconfigure(&self, options: GatewayOptions) -> Result<(), LaunchError> {
        self.upstreams.reconfigure(&self.gateway, &options)
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        self.gateway.stop().boxed()
    }
}

/// Reports the outcome of each request to the command line.
struct RequestSinkObserver(RequestSink);

impl RequestObserver for RequestSinkObserver {
    fn observe(&self, _request: ObservedRequest) {}

    fn observe_finished(&self, request: &FinishedRequest) {
        let tokens = &request.tokens;
        (self.0)(FinishedRequestRecord {
            method: request.method.clone(),
            path: request.path.clone(),
            model: request.model.clone(),
            upstream: request.upstream.clone(),
            status: request.status,
            duration: request.duration,
            tokens: (tokens.input + tokens.cache_read + tokens.cache_write, tokens.output),
            outcome: request.outcome.as_str(),
        });
    }
}
