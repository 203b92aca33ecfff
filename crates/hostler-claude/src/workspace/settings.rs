//! Items from the settings files and `.mcp.json` of a folder, and which of them apply.

use std::collections::BTreeMap;

use hostler_driver::{ConfigurationItem, ConfigurationKind, FolderRule};
use serde_json::{Map, Value};

use super::configuration_item;
use super::denied_variables::is_denied_variable;

/// Settings that apply unchanged. All others may name programs, change permissions or belong to the host, in this
/// build or a later one, so they do not apply.
const APPLIED_SETTINGS: &[&str] = &[
    "alwaysThinkingEnabled",
    "attribution",
    "claudeMdExcludes",
    "includeCoAuthoredBy",
    "includeGitInstructions",
    "language",
    "outputStyle",
    "respectGitignore",
];

/// Settings that name programs.
const HELPER_SETTINGS: &[&str] =
    &["awsAuthRefresh", "awsCredentialExport", "fileSuggestion", "gcpAuthRefresh", "statusLine", "subagentStatusLine"];

/// Settings that enable plugins.
const PLUGIN_SETTINGS: &[&str] = &["enabledPlugins", "extraKnownMarketplaces", "pluginConfigs"];

/// Settings about MCP servers.
const SERVER_SETTINGS: &[&str] = &["enableAllProjectMcpServers", "enabledMcpjsonServers", "mcpServers"];

const HOOKS_BLOCKED_REASON: &str = "Project hooks are not supported yet.";
const SERVERS_BLOCKED_REASON: &str = "Project MCP servers are not supported yet.";
const PLUGINS_BLOCKED_REASON: &str = "Project plugins are not supported yet.";
const HELPERS_BLOCKED_REASON: &str = "Helper programs of a folder do not run.";
const VARIABLE_BLOCKED_REASON: &str = "Folders cannot set this variable.";
const SETTING_BLOCKED_REASON: &str = "Folders cannot change this setting.";

/// Parts of variable names whose values are secrets.
const SECRET_NAME_PARTS: &[&str] = &["AUTH", "CREDENTIAL", "KEY", "PASS", "PRIVATE", "SECRET", "TOKEN"];

/// Collected settings. Files that are added later take precedence.
#[derive(Debug, Default)]
pub(super) struct FolderSettings {
    pub(super) items: Vec<ConfigurationItem>,
    pub(super) rules: Vec<FolderRule>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) directories: Vec<String>,
    pub(super) applied: Map<String, Value>,
}

impl FolderSettings {
    /// Adds a settings file.
    pub(super) fn add(&mut self, source: &str, settings: &Map<String, Value>) {
        for (key, value) in settings {
            match key.as_str() {
                "$schema" => {}
                "env" => self.add_environment(source, value),
                "hooks" => self.add_hooks(source, value),
                "permissions" => self.add_permissions(source, value),
                key if PLUGIN_SETTINGS.contains(&key) => {
                    self.add_each(ConfigurationKind::Plugin, source, key, value, PLUGINS_BLOCKED_REASON)
                }
                key if SERVER_SETTINGS.contains(&key) => {
                    self.add_each(ConfigurationKind::McpServer, source, key, value, SERVERS_BLOCKED_REASON);
                }
                key if HELPER_SETTINGS.contains(&key) || key.ends_with("Helper") => {
                    self.push(
                        ConfigurationKind::Helper,
                        source,
                        format!("{key}: {}", display_value(value)),
                        value,
                        Some(HELPERS_BLOCKED_REASON),
                    );
                }
                key => {
                    let applies = APPLIED_SETTINGS.contains(&key);
                    if applies {
                        self.applied.insert(key.to_owned(), value.clone());
                    }
                    let name = format!("{key}: {}", display_value(value));
                    self.push(
                        ConfigurationKind::Setting,
                        source,
                        name,
                        value,
                        (!applies).then_some(SETTING_BLOCKED_REASON),
                    );
                }
            }
        }
    }

    /// Adds the servers of an `.mcp.json`.
    pub(super) fn add_servers(&mut self, source: &str, file: &Map<String, Value>) {
        match file.get("mcpServers").and_then(Value::as_object) {
            Some(servers) => {
                for (name, server) in servers {
                    let parts = ["command", "url"].iter().filter_map(|key| server.get(key)?.as_str());
                    let arguments = server.get("args").and_then(Value::as_array).into_iter().flatten();
                    let parts: Vec<_> = parts.map(str::to_owned).chain(arguments.map(display_value)).collect();
                    let name = format!("{name}: {}", parts.join(" "));
                    self.push(ConfigurationKind::McpServer, source, name, server, Some(SERVERS_BLOCKED_REASON));
                }
            }
            None if file.is_empty() => {}
            None => {
                let name = "unknown contents".to_owned();
                self.push(
                    ConfigurationKind::McpServer,
                    source,
                    name,
                    &file.clone().into(),
                    Some(SERVERS_BLOCKED_REASON),
                );
            }
        }
    }

    fn add_environment(&mut self, source: &str, value: &Value) {
        let Some(variables) = value.as_object() else {
            return self.push(
                ConfigurationKind::Environment,
                source,
                display_value(value),
                value,
                Some(VARIABLE_BLOCKED_REASON),
            );
        };
        for (name, value) in variables {
            let text = match value {
                Value::String(text) => Some(text.clone()),
                Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
                _ => None,
            };
            let text = text.filter(|text| !text.contains('\0') && !is_denied_variable(name));
            let upper = name.to_uppercase();
            let is_secret = SECRET_NAME_PARTS.iter().any(|part| upper.contains(part));
            let shown = if is_secret { "…".to_owned() } else { display_value(value) };
            let blocked = text.is_none().then_some(VARIABLE_BLOCKED_REASON);
            self.push(ConfigurationKind::Environment, source, format!("{name}={shown}"), value, blocked);
            if let Some(text) = text {
                self.environment.insert(name.clone(), text);
            }
        }
    }

    fn add_hooks(&mut self, source: &str, value: &Value) {
        let Some(events) = value.as_object() else {
            return self.push(ConfigurationKind::Hook, source, display_value(value), value, Some(HOOKS_BLOCKED_REASON));
        };
        for (event, matchers) in events {
            let hooks: Vec<_> = matchers
                .as_array()
                .into_iter()
                .flatten()
                .flat_map(|matcher| matcher.get("hooks").and_then(Value::as_array).into_iter().flatten())
                .collect();
            for hook in &hooks {
                let what = ["command", "url", "prompt"].iter().find_map(|key| hook.get(key)?.as_str());
                let name = format!("{event}: {}", what.map_or_else(|| display_value(hook), str::to_owned));
                self.push(ConfigurationKind::Hook, source, name, hook, Some(HOOKS_BLOCKED_REASON));
            }
            if hooks.is_empty() {
                self.push(ConfigurationKind::Hook, source, event.clone(), matchers, Some(HOOKS_BLOCKED_REASON));
            }
        }
    }

    fn add_permissions(&mut self, source: &str, value: &Value) {
        let Some(permissions) = value.as_object() else {
            return self.push(
                ConfigurationKind::PermissionRule,
                source,
                display_value(value),
                value,
                Some(SETTING_BLOCKED_REASON),
            );
        };
        for (key, value) in permissions {
            let texts = value.as_array().map(|all| all.iter().filter_map(Value::as_str));
            match (key.as_str(), texts) {
                (effect @ ("allow" | "ask" | "deny"), Some(patterns)) => {
                    for pattern in patterns {
                        let name = format!("{effect} {pattern}");
                        self.push(ConfigurationKind::PermissionRule, source, name, &pattern.into(), None);
                        self.rules.push(FolderRule { effect: effect.to_owned(), pattern: pattern.to_owned() });
                    }
                }
                ("additionalDirectories", Some(directories)) => {
                    for directory in directories {
                        let name = directory.to_owned();
                        self.push(ConfigurationKind::AdditionalDirectory, source, name, &directory.into(), None);
                        self.directories.push(directory.to_owned());
                    }
                }
                _ => {
                    let name = format!("permissions.{key}: {}", display_value(value));
                    self.push(ConfigurationKind::Setting, source, name, value, Some(SETTING_BLOCKED_REASON));
                }
            }
        }
    }

    /// One item for each member of a setting.
    fn add_each(&mut self, kind: ConfigurationKind, source: &str, key: &str, value: &Value, blocked: &str) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    self.push(kind, source, format!("{key}: {name}"), member, Some(blocked));
                }
            }
            value => self.push(kind, source, format!("{key}: {}", display_value(value)), value, Some(blocked)),
        }
    }

    fn push(&mut self, kind: ConfigurationKind, source: &str, name: String, value: &Value, blocked: Option<&str>) {
        self.items.push(configuration_item(kind, name, source, value.to_string().as_bytes(), blocked));
    }
}

/// A value for display.
fn display_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
