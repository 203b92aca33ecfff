//! What a folder's own configuration brings to an agent, and whether the agent applies it.
//!
//! A driver lists the configuration ([`WorkspaceConfiguration`]); people decide about it; the driver then opens agents that
//! apply exactly what was decided about, or nothing ([`FolderConfiguration`]).

use serde::{Deserialize, Serialize};

/// Whether an agent applies the configuration of the folder that it works in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FolderConfiguration {
    /// The user's own configuration only. Instructions for the model are still read as text.
    #[default]
    Ignored,
    /// The folder's configuration applies, minus what a driver never applies, if it still has this fingerprint at the moment
    /// of the start. Otherwise the agent starts as with [`Ignored`](Self::Ignored) and
    /// [`ConnectionFacts::applied_configuration`](crate::ConnectionFacts) says so.
    Applied {
        /// The [`WorkspaceConfiguration::fingerprint`] that was trusted.
        fingerprint: String,
    },
}

/// Everything that a folder would bring to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceConfiguration {
    /// Changes with every byte of the configuration. Empty if the folder brings nothing.
    pub fingerprint: String,
    /// What it brings, in a stable order.
    pub items: Vec<ConfigurationItem>,
    /// Permission rules of the folder, which the host applies itself.
    #[serde(skip)]
    pub rules: Vec<FolderRule>,
    /// Why the configuration cannot be applied, whatever people decide: it cannot be read, or is too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl WorkspaceConfiguration {
    /// Whether there is nothing to decide about.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.problem.is_none()
    }
}

/// One thing that a folder would bring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationItem {
    /// What kind of thing it is.
    pub kind: ConfigurationKind,
    /// What people read: `PreToolUse: ./check.sh`, `NODE_ENV=test`, `postgres: npx …`. At most 200 characters.
    pub name: String,
    /// The file that brings it, relative to the working directory.
    pub source: String,
    /// A hash of its contents, so that changes can be shown.
    pub hash: String,
    /// Why it is not applied even in a trusted folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
}

/// The kinds of configuration that people are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ConfigurationKind {
    /// A command that runs at an event.
    Hook,
    /// A program or address that offers tools.
    McpServer,
    /// A variable of the agent's environment.
    Environment,
    /// A program that the agent runs for keys, headers or suggestions.
    Helper,
    /// A slash command, with or without shell commands in it.
    Command,
    /// A skill.
    Skill,
    /// A custom agent.
    Agent,
    /// A plugin or a marketplace.
    Plugin,
    /// A permission rule.
    PermissionRule,
    /// A directory beside the working directory.
    AdditionalDirectory,
    /// Any other setting.
    Setting,
}

impl ConfigurationKind {
    /// The kind in words, for one item.
    pub fn label(self) -> &'static str {
        match self {
            Self::Hook => "Hook",
            Self::McpServer => "MCP server",
            Self::Environment => "Environment variable",
            Self::Helper => "Helper program",
            Self::Command => "Slash command",
            Self::Skill => "Skill",
            Self::Agent => "Agent",
            Self::Plugin => "Plugin",
            Self::PermissionRule => "Permission rule",
            Self::AdditionalDirectory => "Additional directory",
            Self::Setting => "Setting",
        }
    }
}

/// A permission rule that a folder brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderRule {
    /// `allow`, `ask` or `deny`.
    pub effect: String,
    /// The rule, such as `Bash(npm test:*)`.
    pub pattern: String,
}
