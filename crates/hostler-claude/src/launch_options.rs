//! Argument list and environment of an agent: pure functions.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use hostler_driver::{GatewayEndpoint, OpenSpec};
use hostler_process::Environment;
use secrecy::ExposeSecret;
use uuid::Uuid;

use crate::workspace::StagedConfiguration;

/// Variables of the host that never reach an agent, beside the upstream's credentials.
const DENIED_VARIABLES: [&str; 4] = ["NODE_OPTIONS", "CLAUDECODE", "DEBUG", "GITHUB_ACTIONS"];

/// Their families.
const DENIED_PREFIXES: [&str; 5] = ["ANTHROPIC_", "CLAUDE_CODE_", "VSCODE_", "ELECTRON_", "HOSTLER_"];

/// What the agent calls the models that it uses beside the chosen one.
const SMALL_MODEL_VARIABLES: [&str; 4] = [
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
];

/// Addresses that no proxy may see: the gateway's.
const LOOPBACK_HOSTS: &str = "127.0.0.1,localhost";

/// Which conversation the agent is told to lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionArgument {
    /// A new one under this id.
    New(Uuid),
    /// One that exists: a transcript's path or a conversation's id.
    Resume(String),
}

/// The agent's arguments. Values are glued to their flags, so that none can be taken for a flag itself.
pub(crate) fn arguments(
    identity: &SessionArgument,
    spec: &OpenSpec,
    stage: &StagedConfiguration,
) -> Result<Vec<OsString>, serde_json::Error> {
    let identity = match identity {
        SessionArgument::New(id) => format!("--session-id={id}"),
        SessionArgument::Resume(token) => format!("--resume={token}"),
    };
    let OpenSpec { model, permission_mode, .. } = spec;
    let mut arguments = vec![
        "--output-format=stream-json".to_owned(),
        "--verbose".to_owned(),
        "--input-format=stream-json".to_owned(),
        "--include-partial-messages".to_owned(),
        "--permission-prompt-tool=stdio".to_owned(),
        format!("--permission-mode={permission_mode}"),
        format!("--model={model}"),
        format!("--settings={}", pinned_settings(spec, stage)?),
        // Servers are programs and addresses that start without a question: the user's own are switched off, too.
        "--strict-mcp-config".to_owned(),
        identity,
    ];
    if !spec.web_search {
        arguments.push("--disallowedTools=WebSearch".to_owned());
    }
    arguments.extend(spec.effort.as_ref().map(|effort| format!("--effort={effort}")));
    arguments.extend(spec.thinking_budget.map(|tokens| format!("--max-thinking-tokens={tokens}")));
    Ok(arguments.into_iter().map(OsString::from).chain(stage.arguments.iter().cloned()).collect())
}

/// Whether a model is one of the agent's maker. For others the environment says which models do the small jobs.
pub(crate) fn is_anthropic_model(model: &str) -> bool {
    model.starts_with("claude-")
}

/// The agent's environment: the host's without what must not be seen, then the folder's, then what the configuration adds, then
/// ours.
pub(crate) fn environment(
    host: &[(OsString, OsString)],
    upstream_credentials: &[OsString],
    folder: &[(OsString, OsString)],
    configured: &[(OsString, OsString)],
    endpoint: &GatewayEndpoint,
    model: &str,
) -> Environment {
    let mut environment = Environment::from_vars(host.iter().cloned());
    for prefix in DENIED_PREFIXES {
        environment.remove_prefix(prefix);
    }
    environment.retain(|name, _| {
        !DENIED_VARIABLES.iter().any(|denied| name == OsStr::new(denied))
            && !upstream_credentials.iter().any(|c| c == name)
    });
    for (name, value) in folder.iter().chain(configured) {
        environment.set(name, value);
    }
    // A search runs the program that this file names (`--pre`); only the user may name one.
    if environment.get("RIPGREP_CONFIG_PATH").is_none() {
        environment.set("RIPGREP_CONFIG_PATH", "");
    }
    for name in ["NO_PROXY", "no_proxy"] {
        let excepted = match environment.get(name) {
            Some(names) if !names.is_empty() => {
                let mut names = names.to_owned();
                names.push(",");
                names.push(LOOPBACK_HOSTS);
                names
            }
            _ => LOOPBACK_HOSTS.into(),
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
    neutralize_git(&mut environment);
    if !is_anthropic_model(model) {
        // The agent has small jobs done by small models of its own maker, which this model's provider does not have.
        for name in SMALL_MODEL_VARIABLES {
            environment.set(name, model);
        }
    }
    environment
}

/// Settings that hold in every repository: no `.git/config` has a monitor started, and none is found inside of a work tree.
const GIT_SETTINGS: [(&str, &str); 2] = [("core.fsmonitor", "false"), ("safe.bareRepository", "explicit")];

/// Adds settings for git behind those that the environment holds already, takes away its pager, and keeps commands that only read
/// from rewriting the index.
fn neutralize_git(environment: &mut Environment) {
    let count = environment.get("GIT_CONFIG_COUNT").and_then(OsStr::to_str).and_then(|count| count.parse().ok());
    let mut next: u32 = count.unwrap_or(0);
    for (key, value) in GIT_SETTINGS {
        environment.set(format!("GIT_CONFIG_KEY_{next}"), key);
        environment.set(format!("GIT_CONFIG_VALUE_{next}"), value);
        next = next.saturating_add(1);
    }
    environment.set("GIT_CONFIG_COUNT", next.to_string());
    environment.set("GIT_PAGER", "cat");
    environment.set("GIT_OPTIONAL_LOCKS", "0");
}

/// Settings on the command line beat every settings file, and settings files beat the environment. So everything that
/// could route traffic past the gateway is pinned here.
///
/// The bearer is not: anybody on the machine can read an argument list. `CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST` makes
/// the agent ignore a token that settings name, so the environment's stays.
fn pinned_settings(spec: &OpenSpec, stage: &StagedConfiguration) -> Result<String, serde_json::Error> {
    let env = BTreeMap::from([
        ("ANTHROPIC_BASE_URL", spec.endpoint.base_url.as_str()),
        ("ANTHROPIC_API_KEY", ""),
        ("ANTHROPIC_CUSTOM_HEADERS", ""),
        ("HTTP_PROXY", ""),
        ("HTTPS_PROXY", ""),
        ("ALL_PROXY", ""),
        ("http_proxy", ""),
        ("https_proxy", ""),
        ("all_proxy", ""),
        ("NO_PROXY", LOOPBACK_HOSTS),
        ("no_proxy", LOOPBACK_HOSTS),
        ("CLAUDE_CODE_USE_ANTHROPIC_AWS", "0"),
        ("CLAUDE_CODE_USE_BEDROCK", "0"),
        ("CLAUDE_CODE_USE_FOUNDRY", "0"),
        ("CLAUDE_CODE_USE_MANTLE", "0"),
        ("CLAUDE_CODE_USE_VERTEX", "0"),
        ("CLAUDE_CODE_ENABLE_TELEMETRY", "0"),
    ]);
    let mut settings = stage.settings.clone();
    settings.insert("apiKeyHelper".to_owned(), "".into());
    // Command hooks run without a question; ours are callbacks and stay alive.
    settings.insert("disableAllHooks".to_owned(), true.into());
    // Commands and skills may hold shell commands, which run without a question and without a rule.
    settings.insert("disableSkillShellExecution".to_owned(), true.into());
    settings.insert("env".to_owned(), serde_json::to_value(env)?);
    // Not `--add-dir`, by which some builds load the plugins of a directory.
    let directories: Vec<_> =
        spec.additional_directories.iter().chain(&stage.directories).map(|path| path.to_string_lossy()).collect();
    if !directories.is_empty() {
        settings.insert("permissions".to_owned(), serde_json::json!({ "additionalDirectories": directories }));
    }
    serde_json::to_string(&settings)
}

#[cfg(test)]
mod tests;
