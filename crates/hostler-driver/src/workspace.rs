//! The configuration that a folder brings to an agent, and whether the agent applies it.
//!
//! A driver lists the configuration ([`WorkspaceConfiguration`]); a person decides about it; the driver then opens
//! agents that apply exactly the configuration that was decided about, or none ([`FolderConfiguration`]).

use serde::{Deserialize, Serialize};

/// Whether an agent applies the configuration of the folder that it works in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FolderConfiguration {
    /// The user's own configuration only. Instructions for the model are still read as text.
    #[default]
    Ignored,
    /// The folder's configuration applies, except for items that a driver never applies, if it still has this
    /// fingerprint when the agent starts. Otherwise the agent starts as with [`Ignored`](Self::Ignored), and
    /// [`ConnectionInfo::applied_configuration`](crate::ConnectionInfo) is `false`.
    Applied {
        /// The [`WorkspaceConfiguration::fingerprint`] that was trusted.
        fingerprint: String,
    },
}

/// Everything that a folder brings to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceConfiguration {
    /// Changes with every byte of the configuration. Empty if the folder has none.
    pub fingerprint: String,
    /// Its items, in a stable order.
    pub items: Vec<ConfigurationItem>,
    /// Permission rules of the folder, which the host applies itself.
    #[serde(skip)]
    pub rules: Vec<FolderRule>,
    /// Why the configuration can never be applied: it cannot be read, or is too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl WorkspaceConfiguration {
    /// Whether there is nothing to decide about.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.problem.is_none()
    }
}

/// One item of a folder's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationItem {
    /// Its kind.
    pub kind: ConfigurationKind,
    /// Its display name: `PreToolUse: ./check.sh`, `NODE_ENV=test`, `postgres: npx …`. At most 200 characters.
    pub name: String,
    /// The file that contains it, relative to the working directory.
    pub source: String,
    /// A hash of its contents, so that changes can be shown.
    pub hash: String,
    /// Why it is not applied even in a trusted folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
}

/// The kinds of configuration that are displayed.
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
    /// The kind's display name, singular.
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

/// A permission rule from a folder's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderRule {
    /// `allow`, `ask` or `deny`.
    pub effect: String,
    /// The rule, such as `Bash(npm test:*)`.
    pub pattern: String,
}
