//! Settings: a flag beats a `HOSTLER_…` variable beats the configuration file beats the default.
//!
//! One [`TABLE`] names them all; the name is the configuration key, `HOSTLER_NAME` the variable, and `--name` the flag of
//! those that have one.
//! Everything but [`load`] is a function over values.

mod file;
mod resolve;

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;

use crate::environment::HostEnvironment;
use crate::ports::{ClaudeChoice, Durability, UpstreamChoice};

pub(crate) use file::ConfigFile;
pub(crate) use resolve::resolve;

/// Where the host listens unless it is told otherwise.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8137);

/// What a command runs with.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) token: TokenChoice,
    pub(crate) state_dir: PathBuf,
    /// Whether the state directory was chosen by the user, wherever.
    pub(crate) state_dir_given: bool,
    pub(crate) upstream: UpstreamChoice,
    /// Whether the upstream was chosen by a flag.
    pub(crate) upstream_from_flag: bool,
    pub(crate) upstream_url: Option<String>,
    pub(crate) upstream_key: Option<SecretString>,
    pub(crate) claude: ClaudeChoice,
    /// How long an agent may take to become ready, if not the usual time.
    pub(crate) handshake_timeout: Option<Duration>,
    pub(crate) durability: Durability,
    pub(crate) agent_env: Vec<(String, String)>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) exit_on_stdin_eof: bool,
    pub(crate) log: String,
    pub(crate) model: Option<String>,
    pub(crate) permission_mode: Option<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) json: bool,
    /// Sentences about what was ignored.
    pub(crate) warnings: Vec<String>,
}

/// Which token clients must show.
#[derive(Debug, Clone)]
pub(crate) enum TokenChoice {
    /// The one that the state directory keeps.
    Kept,
    /// This one.
    Given(SecretString),
    /// The one in this file.
    File(PathBuf),
    /// None at all.
    Off,
}

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Listen,
    Token,
    TokenFile,
    NoToken,
    StateDir,
    Upstream,
    UpstreamUrl,
    Claude,
    HandshakeTimeout,
    Durability,
    ExitOnStdinEof,
    AllowedOrigins,
    AllowedHosts,
    Log,
    Model,
    PermissionMode,
    Cwd,
    Json,
}

/// What a setting's value looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// Relative to the working directory; in the file, relative to the file.
    Path,
    Switch,
    List,
    /// A number above 0, fractions allowed.
    Seconds,
}

/// What a [`Kind::Seconds`] must be.
const SECONDS: &str = "a number of seconds above 0";

/// All settings.
pub(crate) const TABLE: [(Key, &str, Kind); 18] = [
    (Key::Listen, "listen", Kind::Text),
    (Key::Token, "token", Kind::Text),
    (Key::TokenFile, "token-file", Kind::Path),
    (Key::NoToken, "no-token", Kind::Switch),
    (Key::StateDir, "state-dir", Kind::Path),
    (Key::Upstream, "upstream", Kind::Text),
    (Key::UpstreamUrl, "upstream-url", Kind::Text),
    (Key::Claude, "claude", Kind::Text),
    (Key::HandshakeTimeout, "handshake-timeout", Kind::Seconds),
    (Key::Durability, "durability", Kind::Text),
    (Key::ExitOnStdinEof, "exit-on-stdin-eof", Kind::Switch),
    (Key::AllowedOrigins, "allowed-origins", Kind::List),
    (Key::AllowedHosts, "allowed-hosts", Kind::List),
    (Key::Log, "log", Kind::Text),
    (Key::Model, "model", Kind::Text),
    (Key::PermissionMode, "permission-mode", Kind::Text),
    (Key::Cwd, "cwd", Kind::Path),
    (Key::Json, "json", Kind::Switch),
];

/// The variable of a setting.
pub(crate) fn variable(name: &str) -> String {
    format!("HOSTLER_{}", name.to_uppercase().replace('-', "_"))
}

/// A value as it was written.
#[derive(Clone)]
pub(crate) enum Value {
    Text(OsString),
    Switch(bool),
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
    /// More than one of the token settings, at one place.
    #[error("{first} and {second} exclude each other: give one of them.")]
    TokenConflict {
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

/// Reads the configuration file and resolves all settings.
pub(crate) fn load(
    flags: Vec<(Key, Value)>,
    config: Option<&Path>,
    environment: &HostEnvironment,
) -> Result<Settings, SettingsError> {
    let named = config.or_else(|| environment.var("HOSTLER_CONFIG").map(Path::new));
    let path = match named {
        Some(path) => environment.absolute(path),
        None => environment.xdg_config.join("hostler").join("config.toml"),
    };
    let file = match std::fs::read_to_string(&path) {
        Ok(text) => ConfigFile::parse(&text, &path)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => ConfigFile::default(),
        Err(source) => return Err(SettingsError::Unreadable { path, source }),
    };
    resolve(flags, environment, file)
}
