//! Argument list and environment of an agent: pure functions.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use hostler_driver::{Endpoint, OpenSpec};
use hostler_process::Environment;
use secrecy::ExposeSecret;
use serde::Serialize;
use uuid::Uuid;

/// Variables of the host that never reach an agent, beside the upstream's credentials.
const DENIED: [&str; 4] = ["NODE_OPTIONS", "CLAUDECODE", "DEBUG", "GITHUB_ACTIONS"];

/// Their families.
const DENIED_PREFIXES: [&str; 5] = ["ANTHROPIC_", "CLAUDE_CODE_", "VSCODE_", "ELECTRON_", "HOSTLER_"];

/// What the agent calls the models that it uses beside the chosen one.
const SMALLER_MODELS: [&str; 4] = [
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
];

/// Addresses that no proxy may see: the gateway's.
const LOOPBACK: &str = "127.0.0.1,localhost";

/// Which conversation the agent is told to lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// A new one under this id.
    New(Uuid),
    /// One that exists: a transcript's path or a conversation's id.
    Resume(String),
}

/// The agent's arguments. Values are glued to their flags, so that none can be taken for a flag itself.
pub(crate) fn arguments(identity: &Identity, spec: &OpenSpec) -> Result<Vec<OsString>, serde_json::Error> {
    let identity = match identity {
        Identity::New(id) => format!("--session-id={id}"),
        Identity::Resume(token) => format!("--resume={token}"),
    };
    let OpenSpec { model, permission_mode, endpoint, .. } = spec;
    let mut arguments = vec![
        "--output-format=stream-json".to_owned(),
        "--verbose".to_owned(),
        "--input-format=stream-json".to_owned(),
        "--include-partial-messages".to_owned(),
        "--permission-prompt-tool=stdio".to_owned(),
        format!("--permission-mode={permission_mode}"),
        format!("--model={model}"),
        "--setting-sources=user,project,local".to_owned(),
        format!("--settings={}", pinned_settings(endpoint)?),
        // A project's servers are programs and addresses that start without a question. The user's own are switched off
        // with them: there is no way yet to tell the two apart.
        "--strict-mcp-config".to_owned(),
        identity,
    ];
    if !spec.web_search {
        arguments.push("--disallowedTools=WebSearch".to_owned());
    }
    arguments.extend(spec.effort.as_ref().map(|effort| format!("--effort={effort}")));
    arguments.extend(spec.thinking_budget.map(|tokens| format!("--max-thinking-tokens={tokens}")));
    let directories = spec.more_directories.iter().map(|directory| {
        let mut argument = OsString::from("--add-dir=");
        argument.push(directory);
        argument
    });
    Ok(arguments.into_iter().map(OsString::from).chain(directories).collect())
}

/// Whether a model is one of the agent's maker. For others the environment says which models do the small jobs.
pub(crate) fn is_of_its_maker(model: &str) -> bool {
    model.starts_with("claude-")
}

/// The agent's environment: the host's without what must not be seen, then what the configuration adds, then ours.
pub(crate) fn environment(
    host: &[(OsString, OsString)],
    upstream_credentials: &[OsString],
    configured: &[(OsString, OsString)],
    endpoint: &Endpoint,
    model: &str,
) -> Environment {
    let mut environment = Environment::from_vars(host.iter().cloned());
    for prefix in DENIED_PREFIXES {
        environment.remove_prefix(prefix);
    }
    environment.retain(|name, _| {
        !DENIED.iter().any(|denied| name == OsStr::new(denied)) && !upstream_credentials.iter().any(|c| c == name)
    });
    for (name, value) in configured {
        environment.set(name, value);
    }
    for name in ["NO_PROXY", "no_proxy"] {
        let excepted = match environment.get(name) {
            Some(names) if !names.is_empty() => {
                let mut names = names.to_owned();
                names.push(",");
                names.push(LOOPBACK);
                names
            }
            _ => LOOPBACK.into(),
        };
        environment.set(name, excepted);
    }
    for (name, value) in [
        ("ANTHROPIC_BASE_URL", endpoint.base_url.as_str()),
        ("ANTHROPIC_AUTH_TOKEN", endpoint.bearer.expose_secret()),
        ("CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST", "1"),
        ("CLAUDE_CODE_ENTRYPOINT", "sdk-ts"),
        ("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "true"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_ERROR_REPORTING", "1"),
        ("DISABLE_TELEMETRY", "1"),
    ] {
        environment.set(name, value);
    }
    if !is_of_its_maker(model) {
        // The agent has small jobs done by small models of its own maker, which this model's provider does not have.
        for name in SMALLER_MODELS {
            environment.set(name, model);
        }
    }
    environment
}

/// Settings on the command line beat every settings file, and settings files beat the environment. So everything that
/// could route traffic past the gateway is pinned here.
///
/// The bearer is not: anybody on the machine can read an argument list. `CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST` makes
/// the agent ignore a token that settings name, so the environment's stays.
fn pinned_settings(endpoint: &Endpoint) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Settings<'a> {
        api_key_helper: &'static str,
        /// Hooks of a project run without a question; ours are callbacks and stay alive.
        disable_all_hooks: bool,
        env: BTreeMap<&'static str, &'a str>,
    }
    let env = BTreeMap::from([
        ("ANTHROPIC_BASE_URL", endpoint.base_url.as_str()),
        ("ANTHROPIC_API_KEY", ""),
        ("ANTHROPIC_CUSTOM_HEADERS", ""),
        ("HTTP_PROXY", ""),
        ("HTTPS_PROXY", ""),
        ("ALL_PROXY", ""),
        ("http_proxy", ""),
        ("https_proxy", ""),
        ("all_proxy", ""),
        ("NO_PROXY", LOOPBACK),
        ("no_proxy", LOOPBACK),
        ("CLAUDE_CODE_USE_ANTHROPIC_AWS", "0"),
        ("CLAUDE_CODE_USE_BEDROCK", "0"),
        ("CLAUDE_CODE_USE_FOUNDRY", "0"),
        ("CLAUDE_CODE_USE_MANTLE", "0"),
        ("CLAUDE_CODE_USE_VERTEX", "0"),
        ("CLAUDE_CODE_ENABLE_TELEMETRY", "0"),
    ]);
    serde_json::to_string(&Settings { api_key_helper: "", disable_all_hooks: true, env })
}

#[cfg(test)]
mod tests;
