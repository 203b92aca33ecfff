//! Settings. Precedence: flag, `HOSTLER_…` variable, configuration file, default.
//!
//! One table ([`definitions`]) names them all; the name is the configuration key, `HOSTLER_NAME` the variable, and
//! `--name` the flag of those that have one. Everything but [`SettingsSource`] is a pure function over values.

mod attachments;
mod config_file;
mod config_sections;
mod definitions;
mod parse_values;
mod resolve;
mod source;
mod upstreams;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostler_attachments::AttachmentLimits;
use secrecy::SecretString;

use crate::ports::{
    AgentPoolOptions, ClaudeChoice, DurabilitySetting, FileGrantSetting, GatewayOptions, TerminalOptions, TlsFiles,
    UnattendedSetting, VaultSettings,
};

pub(crate) use config_file::ConfigFile;
#[cfg(test)]
pub(crate) use definitions::FormerSettingName;
use definitions::{
    EXPECTED_COUNT, EXPECTED_SECONDS, EXPECTED_SIZE, SettingDefinition, SettingKind, TakesEffect, find_setting,
};
pub(crate) use definitions::{FORMER_NAMES, SETTINGS, SettingKey};
pub(crate) use resolve::resolve_settings;
pub(crate) use source::{ConfigFileStamp, SettingsSource};
pub(crate) use upstreams::unconfigured_upstream;

/// Default address of the host.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8137);

/// Default address of the proxy: its bearers are new at each start, so its port may be as well.
pub(crate) const DEFAULT_PROXY_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Resolved settings of a command.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) token: TokenChoice,
    pub(crate) state_dir: PathBuf,
    /// Whether the user chose the state directory.
    pub(crate) is_state_dir_explicit: bool,
    /// Upstreams, limits, prices and betas.
    pub(crate) gateway: GatewayOptions,
    /// Whether a flag chose the default upstream.
    pub(crate) is_upstream_from_flag: bool,
    /// Variables that contain upstream credentials.
    pub(crate) credential_variables: Vec<String>,
    pub(crate) credential_vault: VaultSettings,
    pub(crate) proxy_listen: SocketAddr,
    pub(crate) log_requests: bool,
    pub(crate) metrics: bool,
    pub(crate) claude: ClaudeChoice,
    /// Timeout of the agent's handshake, if not the default.
    pub(crate) handshake_timeout: Option<Duration>,
    pub(crate) agent_pool: AgentPoolOptions,
    pub(crate) durability: DurabilitySetting,
    /// Limits of a message's attachments.
    pub(crate) attachment_limits: AttachmentLimits,
    /// Maximum size of all stored attachment contents, if not the default.
    pub(crate) content_quota_bytes: Option<u64>,
    pub(crate) agent_env: Vec<(String, SecretString)>,
    pub(crate) allow_bypass_permissions: bool,
    pub(crate) disable_shell_commands: bool,
    pub(crate) terminals: TerminalOptions,
    pub(crate) install_agents: bool,
    /// Editor directories in which the host is announced.
    pub(crate) editor_data_dirs: Vec<PathBuf>,
    pub(crate) unattended: UnattendedSetting,
    /// Policy for file requests outside the sessions' directories.
    pub(crate) file_grants: FileGrantSetting,
    /// Directories that sessions may work in; any if empty.
    pub(crate) session_roots: Vec<PathBuf>,
    /// Folders whose own configuration applies without a decision, with their subfolders.
    pub(crate) trusted_folders: Vec<PathBuf>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) trusted_proxies: Vec<IpAddr>,
    /// Public URL of the page, if not the listening address. Without a trailing slash.
    pub(crate) public_url: Option<String>,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) exit_on_stdin_eof: bool,
    pub(crate) log_filter: String,
    pub(crate) model: Option<String>,
    pub(crate) permission_mode: Option<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) json: bool,
    /// Warnings about ignored input.
    pub(crate) warnings: Vec<String>,
    /// Uses of former names; also among the warnings.
    pub(crate) former_names: Vec<FormerNameUse>,
    /// Settings that take effect after a restart only, by name.
    pub(crate) restart_settings: BTreeMap<&'static str, SettingValue>,
    /// Source to reload from, if the host follows the file.
    pub(crate) source: Option<Arc<SettingsSource>>,
    /// Stamp of the file when it was read.
    pub(crate) config_stamp: Option<ConfigFileStamp>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("listen", &self.listen)
            .field("state_dir", &self.state_dir)
            .field("gateway", &self.gateway)
            .finish_non_exhaustive()
    }
}

/// Token that clients must present.
#[derive(Debug, Clone)]
pub(crate) enum TokenChoice {
    /// Token in the state directory.
    StateDirectory,
    /// Token given as a value.
    Given(SecretString),
    /// Token in this file.
    File(PathBuf),
    /// No token.
    Disabled,
}

/// Use of a setting's former name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FormerNameUse {
    /// Where the former name is.
    pub(crate) origin: String,
    /// The current name.
    pub(crate) current: String,
}

impl fmt::Display for FormerNameUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is now called {}.", self.origin, self.current)
    }
}

/// Returns the environment variable of a setting.
pub(crate) fn environment_variable(name: &str) -> String {
    format!("HOSTLER_{}", name.to_uppercase().replace(['-', '.'], "_"))
}

/// Setting value as written. It may be a token and is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum SettingValue {
    Text(OsString),
    Flag(bool),
    List(Vec<String>),
}

/// Why settings are invalid.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Invalid value.
    #[error("{origin} must be {expected}.")]
    Invalid {
        /// Where the value was given.
        origin: String,
        /// Expected value.
        expected: String,
    },
    /// A credential in the configuration file, where others can read it.
    #[error(
        "{origin} is not allowed: keys do not belong in the configuration file. Use key-env (an environment variable), key-file (a private file) or key-keyring = true (the system keyring)."
    )]
    LiteralKey {
        /// Where the value was given.
        origin: String,
    },
    /// Several values for one choice in one place.
    #[error("{first} and {second} cannot be used together. Remove one of them.")]
    Conflict {
        /// First setting.
        first: String,
        /// Second setting.
        second: String,
    },
    /// No token, with an address that is not loopback.
    #[error(
        "A host without a token can listen on loopback only, and {0} is not loopback. Use a token, or pass --listen 127.0.0.1:0."
    )]
    NoTokenOffLoopback(SocketAddr),
    /// No token, with a host name that other machines may use.
    #[error(
        "A host without a token accepts loopback names only, and {0} adds another name. Remove it, or use a token."
    )]
    NoTokenWithHostName(String),
    /// The configuration file cannot be read.
    #[error("Failed to read the configuration file {path}: {source}.")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The configuration file is not TOML.
    #[error("{path} line {line}: {message}.")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Message of the parser.
        message: String,
    },
}

impl SettingsError {
    /// Returns the code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalidSetting",
            Self::LiteralKey { .. } => "keyInConfigFile",
            Self::Conflict { .. } => "conflictingSettings",
            Self::NoTokenOffLoopback(_) | Self::NoTokenWithHostName(_) => "tokenRequired",
            Self::Unreadable { .. } => "configUnreadable",
            Self::Syntax { .. } => "configSyntaxError",
        }
    }
}
