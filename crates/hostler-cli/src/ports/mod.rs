//! Ports of the command line; the binary implements them with the other crates.

mod credentials;
mod gateway;
mod proxy;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use hostler_attachments::AttachmentLimits;
use hostler_driver::{Installer, WorkspaceConfiguration};
use hostler_telemetry::LogTap;
use secrecy::SecretString;
use serde::Serialize;

use crate::environment::HostEnvironment;

pub use credentials::{
    CredentialStoreSetting, CredentialVaultPort, DeviceCodePrompt, DeviceLogin, SaveCredentialResult,
    SavedCredentialLocation, VaultError, VaultSettings,
};
pub use gateway::{
    CopilotModeSetting, CredentialSpec, DollarAmount, GatewayOptions, LimitSettings, PriceSettings, UpstreamKind,
    UpstreamSettings, UpstreamSpec,
};
pub use proxy::{FinishedRequestRecord, ProxyLauncher, ProxyOptions, RequestSink, RunningProxy};

/// Everything that the binary passes to the command line.
pub struct Wiring {
    /// Starts a host in this process.
    pub host_launcher: Arc<dyn HostLauncher>,
    /// Starts a gateway without a host in this process.
    pub proxy_launcher: Arc<dyn ProxyLauncher>,
    /// Stores upstream credentials.
    pub credential_vault: Arc<dyn CredentialVaultPort>,
    /// Signs in on a web page.
    pub device_login: Arc<dyn DeviceLogin>,
    /// Managed installs, one per provider.
    pub installers: Vec<Arc<dyn Installer>>,
    /// Checks of other crates that `doctor` reports beside its own.
    pub doctor_checks: Vec<Arc<dyn DoctorCheck>>,
    /// Directory in which the agent writes its plans.
    pub plans_dir: Option<PathBuf>,
    /// Lists a folder's own configuration. Blocks.
    pub folder_inspector: FolderInspector,
    /// Source of the log channel for clients.
    pub log_tap: LogTap,
    /// Environment of the process, read once.
    pub environment: HostEnvironment,
}

/// Lists the items of a folder's configuration for agents. Reads files; runs nothing.
pub type FolderInspector = Arc<dyn Fn(&Path) -> WorkspaceConfiguration + Send + Sync>;

impl fmt::Debug for Wiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wiring")
            .field("installers", &self.installers.len())
            .field("doctor", &self.doctor_checks.len())
            .field("environment", &self.environment)
            .finish_non_exhaustive()
    }
}

/// Starts hosts.
pub trait HostLauncher: Send + Sync {
    /// Starts a host; resolves when it accepts connections. Dropping the future cleans up.
    ///
    /// The caller holds the lock of `options.state_dir` while the host runs.
    fn launch_host(&self, options: HostOptions) -> BoxFuture<'static, Result<Box<dyn RunningHost>, LaunchError>>;
}

/// Options of a host.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// Address to listen on; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Token that clients must present; `None` admits every program on this machine.
    pub token: Option<SecretString>,
    /// Directory of journal and catalog. It exists, is private, and is locked by the caller.
    pub state_dir: PathBuf,
    /// Upstreams and usage limits.
    pub gateway: GatewayOptions,
    /// Where saved credentials are.
    pub vault: VaultSettings,
    /// Variables that contain upstream credentials; they are withheld from agents.
    pub credential_variables: Vec<String>,
    /// Which Claude Code to run.
    pub claude: ClaudeChoice,
    /// Timeout of the agent's handshake, if not the default.
    pub handshake_timeout: Option<Duration>,
    /// Idle window and limits of the agent pool.
    pub agent_pool: AgentPoolOptions,
    /// Which failures accepted messages survive.
    pub durability: DurabilitySetting,
    /// Limits of a message's attachments.
    pub attachment_limits: AttachmentLimits,
    /// Maximum size of all stored attachment contents, if not the default.
    pub content_quota_bytes: Option<u64>,
    /// Variables added to the agents' environment. They may contain keys.
    pub agent_env: Vec<(String, SecretString)>,
    /// Whether clients may choose the bypass permission mode.
    pub allow_bypass_permissions: bool,
    /// Whether clients are not allowed to run commands in the user's shell.
    pub disable_shell_commands: bool,
    /// Terminals of clients.
    pub terminals: TerminalOptions,
    /// Whether a missing agent is installed when it is first needed.
    pub install_agents: bool,
    /// Policy for pending requests without an answer.
    pub unattended: UnattendedSetting,
    /// Policy for file requests outside the sessions' directories.
    pub file_grants: FileGrantSetting,
    /// Directories that sessions may work in; any if empty.
    pub session_roots: Vec<PathBuf>,
    /// The host's own directories and files; no permission mode allows them, no session works there and no client
    /// reaches them.
    pub private_paths: Vec<PathBuf>,
    /// Folders whose own configuration applies without a decision, with their subfolders.
    pub trusted_folders: Vec<PathBuf>,
    /// Permission mode of sessions that set none.
    pub permission_mode: Option<String>,
    /// Directory in which clients start to browse.
    pub default_directory: PathBuf,
    /// Origins of web pages that may connect, beside the built-in ones.
    pub allowed_origins: Vec<String>,
    /// `Host` headers that are accepted beside loopback.
    pub allowed_hosts: Vec<String>,
    /// Proxies on other machines that are trusted to report whether a browser uses TLS.
    pub trusted_proxies: Vec<IpAddr>,
    /// Certificate of the listener; `None` means no TLS.
    pub tls: Option<TlsFiles>,
}

/// Files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate chain, the host's own first, as PEM.
    pub cert: PathBuf,
    /// Private key, as PEM.
    pub key: PathBuf,
}

/// Address of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageEndpoint {
    /// Listening address, with the actual port.
    pub addr: SocketAddr,
    /// Whether it uses TLS.
    pub tls: bool,
    /// Whether the page exists: a binary may have been built without it.
    pub is_built: bool,
}

/// Policy for file requests outside the sessions' directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileGrantSetting {
    /// Refused.
    #[default]
    Never,
    /// Pending until a person allows it.
    Ask,
    /// Granted.
    Always,
}

/// Options of the agent pool; absent values are defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentPoolOptions {
    /// Idle window after the last turn.
    pub idle_timeout: Option<Duration>,
    /// Maximum idle window, if background work or a pending request prevents closing the agent.
    pub idle_timeout_max: Option<Duration>,
    /// How long a working agent may be silent before its turn is shown as stalled.
    pub stall_timeout: Option<Duration>,
    /// Time in which an agent must react to an interrupt.
    pub interrupt_grace: Option<Duration>,
    /// What happens to background work when a turn is stopped.
    pub background_on_stop: BackgroundOnStopSetting,
    /// Which external sessions are listed; the client decides if absent.
    pub external_session_filter: Option<&'static str>,
    /// How long a client may be disconnected before it is removed from its sessions.
    pub client_timeout: Option<Duration>,
    /// Maximum number of agents.
    pub max_agents: Option<usize>,
    /// Maximum number of prewarmed agents.
    pub max_prewarmed: Option<usize>,
    /// Maximum number of queued messages per chat.
    pub max_queued_messages: Option<usize>,
    /// Maximum number of completed turns of an open chat in memory.
    pub max_turns_in_memory: Option<usize>,
    /// Whether agents are prewarmed when a client opens a session.
    pub prewarm: bool,
}

/// Options of terminals; absent values are defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TerminalOptions {
    /// Whether terminals are off.
    pub is_disabled: bool,
    /// The shell, if not the user's own.
    pub shell: Option<PathBuf>,
    /// Maximum number of terminals.
    pub max_terminals: Option<usize>,
    /// Bytes of scrollback per terminal.
    pub scrollback_bytes: Option<usize>,
}

/// What happens to background work when a turn is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackgroundOnStopSetting {
    /// It continues.
    #[default]
    Keep,
    /// It is stopped.
    Stop,
    /// The session asks a person.
    Ask,
}

/// Policy for pending requests without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnattendedSetting {
    /// They wait.
    #[default]
    Wait,
    /// They are denied, after this time or at once.
    Deny(Option<Duration>),
    /// They are allowed at once, unless a rule denies them.
    Allow,
}

/// Which failures accepted messages survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DurabilitySetting {
    /// A crash of the host.
    #[default]
    Normal,
    /// Also a power failure; each acceptance waits for the disk.
    Full,
}

/// Which Claude Code to run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ClaudeChoice {
    /// The managed native build, otherwise `claude` on the PATH.
    #[default]
    Auto,
    /// The managed native build.
    Native,
    /// The managed `cli.js`.
    Js,
    /// Any executable or `cli.js`.
    Path(PathBuf),
}

/// A host that accepts connections.
pub trait RunningHost: Send + Sync {
    /// Address for programs on this machine, without TLS, with the actual port.
    fn local_addr(&self) -> SocketAddr;
    /// Address for browsers, if it serves a page.
    fn page(&self) -> Option<PageEndpoint> {
        None
    }
    /// Replaces upstreams, limits, prices and betas of the running host; an unchanged upstream is reused.
    ///
    /// # Errors
    /// If the options are invalid; then nothing has changed.
    fn reconfigure(&self, options: GatewayOptions) -> Result<(), LaunchError>;
    /// Stops accepting, ends turns as cancelled, flushes, closes agents; returns when all processes have ended.
    fn shutdown(&self) -> BoxFuture<'_, ()>;
    /// Returns the number of connected clients.
    fn client_count(&self) -> usize;
    /// Resolves at the next change of [`client_count`](Self::client_count) after the call.
    fn client_count_changed(&self) -> BoxFuture<'_, ()>;
    /// Returns facts about the host that AHP does not carry.
    fn diagnostics(&self) -> HostDiagnostics;
}

/// Facts for `demo`, from the running host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostDiagnostics {
    /// Running agent processes.
    pub agents: Vec<AgentDiagnostics>,
    /// Requests that the gateway has answered or is answering.
    pub gateway_requests: u64,
}

/// One agent process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDiagnostics {
    /// The session's URI.
    pub session: String,
    /// The process id.
    pub pid: u32,
    /// Version from the handshake.
    pub version: Option<String>,
}

/// Why a host did not start. The text is a sentence with what to do next.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LaunchError {
    /// The selected agent is not installed.
    #[error("{0}")]
    AgentMissing(String),
    /// The listener cannot be opened.
    #[error("Cannot listen on {address}: {reason}. Choose another address with --listen.")]
    Listen {
        /// Configured address.
        address: SocketAddr,
        /// Cause.
        reason: String,
    },
    /// The certificate or its key cannot be used.
    #[error("Cannot use TLS: {0}")]
    Tls(String),
    /// The gateway or one of its upstreams cannot be configured or started.
    #[error("{0}")]
    Gateway(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl LaunchError {
    /// Returns the code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::AgentMissing(_) => "agentMissing",
            Self::Listen { .. } => "listenFailed",
            Self::Tls(_) => "tlsFailed",
            Self::Gateway(_) => "gatewayFailed",
            Self::Other(_) => "hostStartFailed",
        }
    }
}

/// Check of another crate for `doctor`.
pub trait DoctorCheck: Send + Sync {
    /// Returns a short name for the left column.
    fn name(&self) -> &str;
    /// Runs the check; changes nothing.
    fn run(&self) -> BoxFuture<'_, Vec<DoctorFinding>>;
}

/// Finding of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    /// Severity.
    pub level: FindingSeverity,
    /// One sentence.
    pub text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl DoctorFinding {
    /// Finding without a problem.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { level: FindingSeverity::Ok, text: text.into(), fix: None }
    }

    /// Finding that does not prevent use.
    pub fn warning(text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: FindingSeverity::Warning, text: text.into(), fix: Some(fix.into()) }
    }

    /// Finding that prevents use.
    pub fn problem(text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: FindingSeverity::Problem, text: text.into(), fix: Some(fix.into()) }
    }
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// No problem.
    Ok,
    /// Usable, but worth knowing.
    Warning,
    /// Prevents use.
    Problem,
}
