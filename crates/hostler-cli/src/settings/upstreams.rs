//! Resolves which upstreams exist, which is the default, and where each credential comes from.

use hostler_redact::SafeUrl;
use url::Host;

use super::config_sections::{UpstreamKeySource, UpstreamSection, default_upstream_settings};
use crate::environment::HostEnvironment;
use crate::ports::{CredentialSpec, UpstreamKind, UpstreamSettings, UpstreamSpec};

/// Hostler's own variable for the default upstream's key.
pub(crate) const KEY_VARIABLE: &str = "HOSTLER_UPSTREAM_KEY";

/// Chosen default upstream.
pub(super) struct DefaultUpstreamChoice<'a> {
    /// Name of a table, or a kind.
    pub(super) name: &'a str,
    /// URL of the default upstream, if given outside its table.
    pub(super) url: Option<SafeUrl>,
}

/// Returns the upstreams, the default first; `None` if none has the chosen name.
///
/// Also returns the settings that do not apply to the chosen one.
pub(super) fn resolve_upstreams(
    chosen: DefaultUpstreamChoice<'_>,
    mut sections: Vec<UpstreamSection>,
    environment: &HostEnvironment,
) -> Option<(Vec<UpstreamSpec>, bool)> {
    let default = match sections.iter().position(|section| section.name == chosen.name) {
        Some(at) => sections.remove(at),
        None => implicit_section(UpstreamKind::from_name(chosen.name)?),
    };
    sections.insert(0, default);
    let mut url_ignored = false;
    if let (Some(first), Some(given)) = (sections.first_mut(), chosen.url) {
        match &mut first.settings {
            UpstreamSettings::Anthropic { url, .. } | UpstreamSettings::OpenAi { url, .. } => *url = Some(given),
            UpstreamSettings::Copilot { api_url, .. } => *api_url = Some(given),
            UpstreamSettings::Scripted => url_ignored = true,
        }
    }
    let specs = sections.into_iter().enumerate().map(|(at, section)| to_spec(section, at == 0, environment));
    Some((specs.collect(), url_ignored))
}

/// Section for an upstream without a table.
fn implicit_section(kind: UpstreamKind) -> UpstreamSection {
    UpstreamSection {
        name: kind.as_str().to_owned(),
        settings: default_upstream_settings(kind),
        key_source: None,
        has_custom_url: false,
    }
}

/// Returns an upstream that is not configured; `agents login` accepts it by its kind.
pub(crate) fn unconfigured_upstream(kind: UpstreamKind, environment: &HostEnvironment) -> UpstreamSpec {
    to_spec(implicit_section(kind), false, environment)
}

fn to_spec(section: UpstreamSection, is_default: bool, environment: &HostEnvironment) -> UpstreamSpec {
    let credential = resolve_credential(&section, is_default, environment);
    UpstreamSpec { name: section.name, settings: section.settings, credential }
}

/// Chooses the credential's source. Precedence: Hostler's variable (default upstream only), the table, the variable
/// that other tools use, a saved login.
fn resolve_credential(section: &UpstreamSection, is_default: bool, environment: &HostEnvironment) -> CredentialSpec {
    let from = |variable: &str| {
        let key = environment.var(variable)?.to_string_lossy().into_owned();
        Some(CredentialSpec::Variable { name: variable.to_owned(), key: key.into() })
    };
    // The key of the default variable is sent to the default address only, not to one that a table names.
    let default_variable = section_kind(section).default_key_variable().filter(|_| !section.has_custom_url);
    if section_kind(section) == UpstreamKind::Scripted {
        return CredentialSpec::None;
    }
    if let Some(given) = from(KEY_VARIABLE).filter(|_| is_default) {
        return given;
    }
    match &section.key_source {
        Some(UpstreamKeySource::Variable { name, origin }) => from(name).unwrap_or_else(|| {
            let sentence =
                format!("the variable {name} is not set, which {origin} names for the key of {}", section.name);
            CredentialSpec::Missing(sentence)
        }),
        Some(UpstreamKeySource::File(path)) => CredentialSpec::File(path.clone()),
        Some(UpstreamKeySource::Keyring) => CredentialSpec::Stored {
            keyring: true,
            missing_message: Some(missing_credential_message(section, is_default, None)),
        },
        None => default_variable.and_then(from).unwrap_or_else(|| CredentialSpec::Stored {
            keyring: false,
            missing_message: needs_credential(&section.settings)
                .then(|| missing_credential_message(section, is_default, default_variable)),
        }),
    }
}

fn section_kind(section: &UpstreamSection) -> UpstreamKind {
    match section.settings {
        UpstreamSettings::Anthropic { .. } => UpstreamKind::Anthropic,
        UpstreamSettings::Copilot { .. } => UpstreamKind::Copilot,
        UpstreamSettings::OpenAi { .. } => UpstreamKind::OpenAi,
        UpstreamSettings::Scripted => UpstreamKind::Scripted,
    }
}

/// Returns whether a credential is required. Self-hosted servers may need none; providers always do.
fn needs_credential(settings: &UpstreamSettings) -> bool {
    let is_at = |url: &Option<SafeUrl>, host: &str| {
        url.as_ref().is_none_or(|url| url.expose().host() == Some(Host::Domain(host)))
    };
    match settings {
        UpstreamSettings::Anthropic { url, .. } => is_at(url, "api.anthropic.com"),
        UpstreamSettings::OpenAi { url, .. } => is_at(url, "api.openai.com"),
        UpstreamSettings::Copilot { .. } => true,
        UpstreamSettings::Scripted => false,
    }
}

/// Explains how to provide a missing credential.
fn missing_credential_message(section: &UpstreamSection, is_default: bool, default_variable: Option<&str>) -> String {
    let what = if section_kind(section) == UpstreamKind::Copilot { "GitHub token" } else { "key" };
    let variables: Vec<&str> = is_default.then_some(KEY_VARIABLE).into_iter().chain(default_variable).collect();
    let name = &section.name;
    let login = format!("no {what} for the upstream {name}. Run `hostler agents login {name}`");
    if variables.is_empty() { login } else { format!("{login}, or start Hostler with {}", variables.join(" or ")) }
}
