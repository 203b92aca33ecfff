//! The engine's port to the gateway.

use std::sync::Arc;

use hostler_cli::{HostOptions, LaunchError, UpstreamChoice};
use hostler_driver::Endpoint;
use hostler_engine::{Lease, ModelGateway, ModelInfo};
use hostler_gateway::{
    AnthropicConfig, AnthropicUpstream, Choice, FixedCredential, Gateway, ScriptedUpstream, Upstream,
};
use url::Url;

/// Where the Messages API is when nobody says otherwise.
const ANTHROPIC: &str = "https://api.anthropic.com";

/// The gateway as the engine wants it.
pub(crate) struct Port(pub(crate) Arc<Gateway>);

impl ModelGateway for Port {
    fn models(&self) -> Vec<ModelInfo> {
        let info = |model: hostler_gateway::Model| ModelInfo {
            id: model.id,
            name: model.name,
            context_window: model.context_window,
            max_output: model.max_output,
        };
        self.0.models().into_iter().map(info).collect()
    }

    fn lease(&self, session: &str, chat: &str, model: &str) -> Lease {
        let Choice { upstream, model, searches_the_web } = self.0.choose(model);
        let lease = hostler_gateway::Lease { session: session.to_owned(), chat: chat.to_owned(), upstream };
        let registration = self.0.register(lease);
        let endpoint = Endpoint { base_url: self.0.base_url(), bearer: registration.bearer().clone() };
        Lease::new(endpoint, model, searches_the_web, registration)
    }
}

/// The upstream that the options name.
pub(crate) fn upstream(options: &HostOptions) -> Result<Arc<dyn Upstream>, LaunchError> {
    match options.upstream {
        UpstreamChoice::Scripted => Ok(Arc::new(ScriptedUpstream)),
        UpstreamChoice::Anthropic => {
            let url = options.upstream_url.as_deref().unwrap_or(ANTHROPIC);
            let base_url = Url::parse(url)
                .ok()
                .filter(|url| matches!(url.scheme(), "http" | "https"))
                .ok_or_else(|| LaunchError::Other(format!("{url:?} is not an http address; check --upstream-url.")))?;
            let credential = Arc::new(FixedCredential(options.upstream_key.clone()));
            Ok(Arc::new(AnthropicUpstream::new(AnthropicConfig { credential, ..AnthropicConfig::new(base_url) })))
        }
        other @ (UpstreamChoice::Copilot | UpstreamChoice::OpenAi) => {
            let sentence = format!("The {other} upstream is not there yet; use anthropic or scripted.");
            Err(LaunchError::Other(sentence))
        }
    }
}
