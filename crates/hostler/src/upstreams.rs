//! Converts the gateway settings to the gateway's types: upstreams, limits, prices, betas.
//!
//! A new kind of upstream gets its arm in `ConfiguredUpstreams::build`.

use std::sync::{Arc, Mutex, PoisonError};

use hostler_cli::{
    CopilotModeSetting, GatewayOptions, LaunchError, LimitSettings, PriceSettings, UpstreamSettings, UpstreamSpec,
    VaultSettings,
};
use hostler_gateway::{
    AnthropicConfig, AnthropicUpstream, CredentialHeader, CredentialVault, DEFAULT_ALLOWED_BETAS, Dollars, Gateway,
    GatewayConfig, GatewayLimits, ModelPrice, NamedUpstream, PriceList, SessionLimits, SignInStore, Upstream,
    Upstreams, UsageBudget,
};
use hostler_gateway_copilot::{CopilotConfig, CopilotUpstream, GITHUB_API_URL, GITHUB_URL};
use hostler_gateway_openai::{OpenAiConfig, OpenAiUpstream, TokenLimitField};
use hostler_gateway_scripted::ScriptedUpstream;
use hostler_redact::SafeUrl;
use url::Url;

use crate::credential_adapters;

/// Default URL of the Messages API.
const ANTHROPIC_API_URL: &str = "https://api.anthropic.com";
/// Default URL of chat completions.
const OPENAI_API_URL: &str = "https://api.openai.com/v1";

/// Upstreams of one gateway with their settings: an unchanged upstream is reused with its connections, tokens
/// and lists.
pub(crate) struct ConfiguredUpstreams {
    vault: CredentialVault,
    /// Sign-ins of clients stay when the configuration changes.
    sign_ins: Arc<SignInStore>,
    built: Mutex<Vec<BuiltUpstream>>,
}

struct BuiltUpstream {
    spec: UpstreamSpec,
    upstream: Arc<dyn Upstream>,
}

impl ConfiguredUpstreams {
    pub(crate) fn new(vault: &VaultSettings) -> Self {
        Self { vault: credential_adapters::open_vault(vault), sign_ins: SignInStore::new(), built: Mutex::default() }
    }

    /// Returns the configuration of a gateway that has not started yet.
    pub(crate) fn gateway_config(&self, options: &GatewayOptions) -> Result<GatewayConfig, LaunchError> {
        let mut config = GatewayConfig::new(self.build_upstreams(options)?);
        config.sign_ins = Arc::clone(&self.sign_ins);
        config.allowed_betas = allowed_betas(options);
        config.limits = to_gateway_limits(&options.limits);
        config.prices = to_gateway_prices(&options.prices)?;
        Ok(config)
    }

    /// Reconfigures a running gateway. A failure changes nothing.
    pub(crate) fn reconfigure(&self, gateway: &Gateway, options: &GatewayOptions) -> Result<(), LaunchError> {
        let prices = to_gateway_prices(&options.prices)?;
        gateway.set_upstreams(self.build_upstreams(options)?);
        gateway.set_allowed_betas(allowed_betas(options));
        gateway.set_prices(prices);
        // Last: waiting requests may continue now, with all other settings in place.
        gateway.set_limits(to_gateway_limits(&options.limits));
        Ok(())
    }

    fn build_upstreams(&self, options: &GatewayOptions) -> Result<Upstreams, LaunchError> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = Vec::new();
        for spec in &options.upstreams {
            let upstream = match built.iter().find(|built| built.spec == *spec) {
                Some(same) => Arc::clone(&same.upstream),
                None => self.build(spec)?,
            };
            next.push(BuiltUpstream { spec: spec.clone(), upstream });
        }
        let named = next
            .iter()
            .map(|built| NamedUpstream { name: built.spec.name.clone(), upstream: Arc::clone(&built.upstream) });
        let upstreams = Upstreams::new(named.collect()).map_err(to_gateway_error)?;
        *built = next;
        Ok(upstreams)
    }

    fn build(&self, spec: &UpstreamSpec) -> Result<Arc<dyn Upstream>, LaunchError> {
        match &spec.settings {
            UpstreamSettings::Scripted => Ok(Arc::new(ScriptedUpstream)),
            UpstreamSettings::Anthropic { url, bearer } => {
                let config = AnthropicConfig {
                    credential: credential_adapters::credential_source(&self.vault, spec)?,
                    credential_header: if *bearer { CredentialHeader::Bearer } else { CredentialHeader::ApiKey },
                    ..AnthropicConfig::new(url_or_default(url.as_ref(), ANTHROPIC_API_URL)?)
                };
                Ok(Arc::new(AnthropicUpstream::new(config)))
            }
            UpstreamSettings::OpenAi { url, max_tokens_field } => {
                let mut config = OpenAiConfig {
                    credential: credential_adapters::credential_source(&self.vault, spec)?,
                    ..OpenAiConfig::new(url_or_default(url.as_ref(), OPENAI_API_URL)?)
                };
                match max_tokens_field.as_deref() {
                    None => {}
                    Some("max_completion_tokens") => {
                        config.dialect.token_limit_field = TokenLimitField::MaxCompletionTokens
                    }
                    Some(_) => config.dialect.token_limit_field = TokenLimitField::MaxTokens,
                }
                Ok(Arc::new(OpenAiUpstream::new(config)))
            }
            UpstreamSettings::Copilot { github_url, github_api_url, api_url, integration_id, mode, .. } => {
                let github = url_or_default(github_api_url.as_ref(), GITHUB_API_URL)?;
                let mut config = CopilotConfig::new(github, credential_adapters::credential_source(&self.vault, spec)?);
                config.github_url = Some(url_or_default(github_url.as_ref(), GITHUB_URL)?);
                config.sign_ins = Some(Arc::clone(&self.sign_ins));
                config.api_url = api_url.as_ref().map(|url| url.expose().clone());
                config.integration_id = integration_id.clone();
                config.mode = match mode {
                    CopilotModeSetting::Exchange => hostler_gateway_copilot::CopilotMode::Exchange,
                    CopilotModeSetting::Token => hostler_gateway_copilot::CopilotMode::Token,
                };
                Ok(Arc::new(CopilotUpstream::new(config).map_err(to_gateway_error)?))
            }
        }
    }
}

fn allowed_betas(options: &GatewayOptions) -> Vec<String> {
    options.allowed_betas.clone().unwrap_or_else(|| DEFAULT_ALLOWED_BETAS.map(str::to_owned).into())
}

fn to_gateway_limits(settings: &LimitSettings) -> GatewayLimits {
    let small = |count: Option<u64>| count.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let money = |dollars: Option<hostler_cli::DollarAmount>| dollars.map(|dollars| Dollars::from_nanos(dollars.nanos));
    GatewayLimits {
        concurrent: small(settings.concurrent),
        requests_per_minute: small(settings.requests_per_minute),
        day: UsageBudget {
            requests: settings.day_requests,
            tokens: settings.day_tokens,
            dollars: money(settings.day_dollars),
        },
        session: SessionLimits {
            total: UsageBudget {
                requests: settings.session_requests,
                tokens: settings.session_tokens,
                dollars: money(settings.session_dollars),
            },
            ..SessionLimits::default()
        },
    }
}

/// Returns the bundled prices, preceded by those of the configuration.
fn to_gateway_prices(settings: &[PriceSettings]) -> Result<PriceList, LaunchError> {
    let dollars = |dollars: hostler_cli::DollarAmount| Dollars::from_nanos(dollars.nanos);
    settings.iter().try_fold(PriceList::bundled(), |prices, settings| {
        let base = ModelPrice::new(dollars(settings.input), dollars(settings.output));
        let price = ModelPrice {
            cache_read: settings.cache_read.map_or(base.cache_read, dollars),
            cache_write: settings.cache_write.map_or(base.cache_write, dollars),
            ..base
        };
        prices.with_price(&settings.model, price).map_err(to_gateway_error)
    })
}

/// Returns an upstream's address, or the default.
pub(crate) fn url_or_default(url: Option<&SafeUrl>, default: &str) -> Result<Url, LaunchError> {
    match url {
        Some(url) => Ok(url.expose().clone()),
        None => Url::parse(default).map_err(to_gateway_error),
    }
}

/// Converts an error of the gateway to a launch error.
pub(crate) fn to_gateway_error(reason: impl std::fmt::Display) -> LaunchError {
    let reason = reason.to_string();
    let mut letters = reason.trim_end_matches('.').chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    LaunchError::Gateway(format!("{first}{}.", letters.as_str()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::path::PathBuf;

    use hostler_cli::{CredentialSpec, CredentialStoreSetting};

    use super::*;

    fn spec(name: &str, path: &str) -> UpstreamSpec {
        UpstreamSpec {
            name: name.to_owned(),
            settings: UpstreamSettings::Anthropic { url: SafeUrl::parse("http://127.0.0.1:9"), bearer: false },
            credential: CredentialSpec::File(PathBuf::from(path)),
        }
    }

    fn options(upstreams: Vec<UpstreamSpec>) -> GatewayOptions {
        GatewayOptions { upstreams, allowed_betas: None, limits: LimitSettings::default(), prices: Vec::new() }
    }

    fn built(upstreams: &ConfiguredUpstreams, name: &str) -> Arc<dyn Upstream> {
        let built = upstreams.built.lock().unwrap();
        Arc::clone(&built.iter().find(|built| built.spec.name == name).unwrap().upstream)
    }

    #[test]
    fn unchanged_upstreams_are_reused_and_a_failure_changes_nothing() {
        let upstreams = ConfiguredUpstreams::new(&VaultSettings {
            directory: PathBuf::from("/nowhere"),
            store: CredentialStoreSetting::File,
        });
        upstreams.build_upstreams(&options(vec![spec("a", "/a"), spec("b", "/b")])).unwrap();
        let (a, b) = (built(&upstreams, "a"), built(&upstreams, "b"));
        upstreams.build_upstreams(&options(vec![spec("b", "/other"), spec("a", "/a")])).unwrap();
        assert!(Arc::ptr_eq(&a, &built(&upstreams, "a")));
        assert!(!Arc::ptr_eq(&b, &built(&upstreams, "b")));
        let b = built(&upstreams, "b");
        assert!(upstreams.build_upstreams(&options(vec![spec("c", "/c"), spec("c", "/c")])).is_err());
        assert!(Arc::ptr_eq(&b, &built(&upstreams, "b")));
    }
}
