//! Argument list and environment of an agent: pure functions.
//!
//! Claude Code lets settings files override its environment, and a project may contain settings files. Routing is
//! therefore pinned by settings on the command line, which override all files, and provider-managed mode is on.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use hostler_driver::{GatewayEndpoint, OpenSpec};
use hostler_process::Environment;
use secrecy::ExposeSecret;
use uuid::Uuid;

use crate::workspace::StagedConfiguration;

/// Variables of the host that never reach an agent, besides the upstream credentials.
const DENIED_VARIABLES: [&str; 4] = ["NODE_OPTIONS", "CLAUDECODE", "DEBUG", "GITHUB_ACTIONS"];

/// Prefixes of further such variables.
const DENIED_PREFIXES: [&str; 5] = ["ANTHROPIC_", "CLAUDE_CODE_", "VSCODE_", "ELECTRON_", "HOSTLER_"];

/// Variables that name the models for the agent's small tasks.
const SMALL_MODEL_VARIABLES: [&str; 4] = [
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
];

/// The gateway's addresses, which bypass proxies.
const LOOPBACK_HOSTS: &str = "127.0.0.1,localhost";

/// The conversation argument of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionArgument {
    /// A new conversation with this id.
    New(Uuid),
    /// An existing one: a transcript's path or a conversation's id.
    Resume(String),
}

/// The agent's arguments. Each value is joined to its flag, so that no value is parsed as a flag.
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
        // MCP servers are programs and addresses that start without a question; the user's own are disabled too.
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

/// Whether a model is made by Anthropic. For others the environment names the models for small tasks.
pub(crate) fn is_anthropic_model(model: &str) -> bool {
    model.starts_with("claude-")
}

/// The agent's environment: the host's without denied variables, then the folder's, then the configuration's, then
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
        // The agent uses small Anthropic models for small tasks; this model's provider does not have them.
        for name in SMALL_MODEL_VARIABLES {
            environment.set(name, model);
        }
    }
    environment
}

/// Settings for every repository: no `.git/config` starts a monitor, and no bare repository inside a work tree is
/// used.
const GIT_SETTINGS: [(&str, &str); 2] = [("core.fsmonitor", "false"), ("safe.bareRepository", "explicit")];

/// Adds git settings after those in the environment, removes the pager, and prevents read-only commands from rewriting
/// the index.
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

/// Settings on the command line override every settings file, and settings files override the environment. So
/// everything that could route traffic past the gateway is pinned here.
///
/// The bearer is not pinned: argument lists are readable by every user of the machine.
/// `CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST` makes the agent ignore a token from settings, so the one in the environment
/// applies.
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
    // Command hooks run without a question; our hooks are callbacks and stay active.
    settings.insert("disableAllHooks".to_owned(), true.into());
    // Commands and skills may contain shell commands, which run without a question and without a rule.
    settings.insert("disableSkillShellExecution".to_owned(), true.into());
    settings.insert("env".to_owned(), serde_json::to_value(env)?);
    // Not `--add-dir`, with which some builds load the plugins of a directory.
    let directories: Vec<_> =
        spec.additional_directories.iter().chain(&stage.directories).map(|path| path.to_string_lossy()).collect();
    if !directories.is_empty() {
        settings.insert("permissions".to_owned(), serde_json::json!({ "additionalDirectories": directories }));
    }
    serde_json::to_string(&settings)
}

#[cfg(test)]
mod tests;
