//! The gateway joined to its neighbours: the engine's port on one side, the configured upstreams on the other.
//!
//! A new kind of upstream gets its line in [`Joined::make`].

use std::sync::{Arc, Mutex, PoisonError};

use hostler_cli::{CopilotMode, GatewayOptions, LaunchError, UpstreamSettings, UpstreamSpec, VaultSettings};
use hostler_driver::Endpoint;
use hostler_engine::{Lease, ModelGateway, ModelInfo};
use hostler_gateway::{
    ALLOWED_BETAS, AnthropicConfig, AnthropicUpstream, Choice, CopilotConfig, CopilotUpstream, CredentialHeader,
    CredentialVault, GITHUB_API_URL, Gateway, GatewayConfig, NamedUpstream, OpenAiConfig, OpenAiUpstream,
    ScriptedUpstream, TokenLimit, Upstream, Upstreams,
};
use url::Url;

use crate::credentials;

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

/// Where the Messages API is when nobody says otherwise.
const ANTHROPIC: &str = "https://api.anthropic.com";
/// Where chat completions are when nobody says otherwise.
const OPENAI: &str = "https://api.openai.com/v1";

/// The upstreams of one gateway, with what they were made from: what has not changed is not made again, and keeps its
/// connections, tokens and lists.
pub(crate) struct Joined {
    vault: CredentialVault,
    made: Mutex<Vec<Made>>,
}

struct Made {
    spec: UpstreamSpec,
    upstream: Arc<dyn Upstream>,
}

impl Joined {
    pub(crate) fn new(vault: &VaultSettings) -> Self {
        Self { vault: credentials::vault(vault), made: Mutex::default() }
    }

    /// The setup of a gateway that has not started yet.
    pub(crate) fn config(&self, options: &GatewayOptions) -> Result<GatewayConfig, LaunchError> {
        let mut config = GatewayConfig::new(self.upstreams(options)?);
        config.allowed_betas = allowed_betas(options);
        Ok(config)
    }

    /// Brings a running gateway up to date. Nothing has changed if this fails.
    pub(crate) fn reconfigure(&self, gateway: &Gateway, options: &GatewayOptions) -> Result<(), LaunchError> {
        gateway.reconfigure(self.upstreams(options)?);
        gateway.allow_betas(allowed_betas(options));
        Ok(())
    }

    fn upstreams(&self, options: &GatewayOptions) -> Result<Upstreams, LaunchError> {
        if options.limits.any() || !options.prices.is_empty() {
            let sentence = "Limits and prices are not there yet; take them out of the configuration file.";
            return Err(LaunchError::Other(sentence.to_owned()));
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = Vec::new();
        for spec in &options.upstreams {
            let upstream = match made.iter().find(|made| made.spec == *spec) {
                Some(same) => Arc::clone(&same.upstream),
                None => self.make(spec)?,
            };
            next.push(Made { spec: spec.clone(), upstream });
        }
        let named = next
            .iter()
            .map(|made| NamedUpstream { name: made.spec.name.clone(), upstream: Arc::clone(&made.upstream) });
        let upstreams = Upstreams::new(named.collect()).map_err(sentence)?;
        *made = next;
        Ok(upstreams)
    }

    fn make(&self, spec: &UpstreamSpec) -> Result<Arc<dyn Upstream>, LaunchError> {
        match &spec.settings {
            UpstreamSettings::Scripted => Ok(Arc::new(ScriptedUpstream)),
            UpstreamSettings::Anthropic { url, bearer } => {
                let config = AnthropicConfig {
                    credential: credentials::source(&self.vault, spec)?,
                    credential_header: if *bearer { CredentialHeader::Bearer } else { CredentialHeader::ApiKey },
                    ..AnthropicConfig::new(address(spec, url.as_deref(), ANTHROPIC)?)
                };
                Ok(Arc::new(AnthropicUpstream::new(config)))
            }
            UpstreamSettings::OpenAi { url, max_tokens_field } => {
                let mut config = OpenAiConfig {
                    credential: credentials::source(&self.vault, spec)?,
                    ..OpenAiConfig::new(address(spec, url.as_deref(), OPENAI)?)
                };
                match max_tokens_field.as_deref() {
                    None => {}
                    Some("max_completion_tokens") => config.dialect.token_limit = TokenLimit::MaxCompletionTokens,
                    Some(_) => config.dialect.token_limit = TokenLimit::MaxTokens,
                }
                Ok(Arc::new(OpenAiUpstream::new(config)))
            }
            UpstreamSettings::Copilot { github_api_url, api_url, integration_id, mode, .. } => {
                let github = address(spec, github_api_url.as_deref(), GITHUB_API_URL)?;
                let mut config = CopilotConfig::new(github, credentials::source(&self.vault, spec)?);
                config.api_url = api_url.as_deref().map(|url| address(spec, Some(url), url)).transpose()?;
                config.integration_id = integration_id.clone();
                config.mode = match mode {
                    CopilotMode::Exchange => hostler_gateway::CopilotMode::Exchange,
                    CopilotMode::Token => hostler_gateway::CopilotMode::Token,
                };
                Ok(Arc::new(CopilotUpstream::new(config).map_err(sentence)?))
            }
        }
    }
}

fn allowed_betas(options: &GatewayOptions) -> Vec<String> {
    options.allowed_betas.clone().unwrap_or_else(|| ALLOWED_BETAS.map(str::to_owned).into())
}

/// An upstream's address, or where it usually is.
pub(crate) fn address(spec: &UpstreamSpec, url: Option<&str>, usual: &str) -> Result<Url, LaunchError> {
    Url::parse(url.unwrap_or(usual)).ok().filter(|url| matches!(url.scheme(), "http" | "https")).ok_or_else(|| {
        LaunchError::Other(format!("The address of the upstream {} is no http or https URL.", spec.name))
    })
}

/// A reason of the gateway's, as a sentence.
pub(crate) fn sentence(reason: impl std::fmt::Display) -> LaunchError {
    let reason = reason.to_string();
    let mut letters = reason.trim_end_matches('.').chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    LaunchError::Other(format!("{first}{}.", letters.as_str()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::path::PathBuf;

    use hostler_cli::{CredentialSpec, CredentialStore, LimitSettings};

    use super::*;

    fn spec(name: &str, path: &str) -> UpstreamSpec {
        UpstreamSpec {
            name: name.to_owned(),
            settings: UpstreamSettings::Anthropic { url: Some("http://127.0.0.1:9".to_owned()), bearer: false },
            credential: CredentialSpec::File(PathBuf::from(path)),
        }
    }

    fn options(upstreams: Vec<UpstreamSpec>) -> GatewayOptions {
        GatewayOptions { upstreams, allowed_betas: None, limits: LimitSettings::default(), prices: Vec::new() }
    }

    fn made(joined: &Joined, name: &str) -> Arc<dyn Upstream> {
        let made = joined.made.lock().unwrap();
        Arc::clone(&made.iter().find(|made| made.spec.name == name).unwrap().upstream)
    }

    #[test]
    fn what_has_not_changed_is_not_made_again_and_a_failure_changes_nothing() {
        let joined = Joined::new(&VaultSettings { directory: PathBuf::from("/nowhere"), store: CredentialStore::File });
        joined.upstreams(&options(vec![spec("a", "/a"), spec("b", "/b")])).unwrap();
        let (a, b) = (made(&joined, "a"), made(&joined, "b"));
        joined.upstreams(&options(vec![spec("b", "/other"), spec("a", "/a")])).unwrap();
        assert!(Arc::ptr_eq(&a, &made(&joined, "a")));
        assert!(!Arc::ptr_eq(&b, &made(&joined, "b")));
        let b = made(&joined, "b");
        assert!(joined.upstreams(&options(vec![spec("c", "/c"), spec("c", "/c")])).is_err());
        assert!(Arc::ptr_eq(&b, &made(&joined, "b")));
    }
}
