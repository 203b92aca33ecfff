//! Settings: a flag beats a `HOSTLER_…` variable beats the configuration file beats the default.
//!
//! One table ([`TABLE`]) names them all; the name is the configuration key, `HOSTLER_NAME` the variable, and `--name` the flag of
//! those that have one.
//! Everything but [`load`] is a function over values.

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
use definitions::{EXPECTED_COUNT, EXPECTED_SECONDS, EXPECTED_SIZE, SettingDefinition, SettingKind, TakesEffect};
pub(crate) use definitions::{SETTINGS, SettingKey};
pub(crate) use resolve::resolve_settings;
pub(crate) use source::{ConfigFileStamp, SettingsSource};
pub(crate) use upstreams::unconfigured_upstream;

/// Where the host listens unless it is told otherwise.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8137);

/// Where the proxy listens unless it is told otherwise: its bearers are new at each start, so its port may be as well.
pub(crate) const DEFAULT_PROXY_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What a command runs with.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) token: TokenChoice,
    pub(crate) state_dir: PathBuf,
    /// Whether the state directory was chosen by the user, wherever.
    pub(crate) is_state_dir_explicit: bool,
    /// Upstreams, limits, prices and betas.
    pub(crate) gateway: GatewayOptions,
    /// Whether the default upstream was chosen by a flag.
    pub(crate) is_upstream_from_flag: bool,
    /// Variables that hold upstreams' credentials.
    pub(crate) credential_variables: Vec<String>,
    pub(crate) credential_vault: VaultSettings,
    pub(crate) proxy_listen: SocketAddr,
    pub(crate) log_requests: bool,
    pub(crate) metrics: bool,
    pub(crate) claude: ClaudeChoice,
    /// How long an agent may take to become ready, if not the usual time.
    pub(crate) handshake_timeout: Option<Duration>,
    pub(crate) agent_pool: AgentPoolOptions,
    pub(crate) durability: DurabilitySetting,
    /// The most that a message may carry.
    pub(crate) attachment_limits: AttachmentLimits,
    /// How many bytes the contents that sessions keep may be together, if not as many as usual.
    pub(crate) content_quota_bytes: Option<u64>,
    pub(crate) agent_env: Vec<(String, SecretString)>,
    pub(crate) allow_bypass_permissions: bool,
    pub(crate) disable_shell_commands: bool,
    pub(crate) terminals: TerminalOptions,
    pub(crate) install_agents: bool,
    /// The editors' directories in which the host is announced.
    pub(crate) editor_data_dirs: Vec<PathBuf>,
    pub(crate) unattended: UnattendedSetting,
    /// What becomes of requests for files outside of the sessions' directories.
    pub(crate) file_grants: FileGrantSetting,
    /// Where sessions may work; anywhere if there are none.
    pub(crate) session_roots: Vec<PathBuf>,
    /// Folders whose own configuration applies without a decision, with their subfolders.
    pub(crate) trusted_folders: Vec<PathBuf>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) trusted_proxies: Vec<IpAddr>,
    /// Where browsers find the page, if not where the host listens. Without a slash at its end.
    pub(crate) public_url: Option<String>,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) exit_on_stdin_eof: bool,
    pub(crate) log_filter: String,
    pub(crate) model: Option<String>,
    pub(crate) permission_mode: Option<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) json: bool,
    /// Sentences about what was ignored.
    pub(crate) warnings: Vec<String>,
    /// What counts from the next start only, by its name.
    pub(crate) restart_settings: BTreeMap<&'static str, SettingValue>,
    /// Where to read all this again, if it is to follow the file.
    pub(crate) source: Option<Arc<SettingsSource>>,
    /// The file as it was read.
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

/// Which token clients must show.
#[derive(Debug, Clone)]
pub(crate) enum TokenChoice {
    /// The one that the state directory keeps.
    StateDirectory,
    /// This one.
    Given(SecretString),
    /// The one in this file.
    File(PathBuf),
    /// None at all.
    Disabled,
}

/// The variable of a setting.
pub(crate) fn environment_variable(name: &str) -> String {
    format!("HOSTLER_{}", name.to_uppercase().replace(['-', '.'], "_"))
}

/// A value as it was written. It may be a token: never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum SettingValue {
    Text(OsString),
    Flag(bool),
    List(Vec<String>),
}

/// What is wrong with the settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A value cannot be read.
    #[error("{origin} must be {expected}.")]
    Invalid {
        /// Where it was given.
        origin: String,
        /// What it should be.
        expected: String,
    },
    /// A key where others can read it, and where it is forgotten.
    #[error(
        "{origin} must not be in the file: name the variable that holds the key (key-env), the file (key-file), or the system keyring (key-keyring = true)."
    )]
    LiteralKey {
        /// Where it stands.
        origin: String,
    },
    /// More than one answer to a question, at one place.
    #[error("{first} and {second} exclude each other: give one of them.")]
    Conflict {
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// No token, and reachable from elsewhere.
    #[error(
        "A host without a token may listen on loopback only, and {0} is not loopback: give it a token, or --listen 127.0.0.1:0."
    )]
    NoTokenOffLoopback(SocketAddr),
    /// No token, and reachable by a name that others may have.
    #[error(
        "A host without a token answers to loopback names only, and {0} adds another: remove it, or give the host a token."
    )]
    NoTokenWithHostName(String),
    /// The configuration file cannot be read.
    #[error("The configuration file {path} cannot be read: {source}")]
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
        /// What the parser says.
        message: String,
    },
}
