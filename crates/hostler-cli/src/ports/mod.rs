//! What the command line needs from the rest of Hostler; the binary joins the two.

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

/// Everything that the binary hands to the command line.
pub struct Wiring {
    /// Starts a host in this process.
    pub host_launcher: Arc<dyn HostLauncher>,
    /// Starts a gateway alone in this process.
    pub proxy_launcher: Arc<dyn ProxyLauncher>,
    /// Keeps the upstreams' credentials.
    pub credential_vault: Arc<dyn CredentialVaultPort>,
    /// Signs in where that is done on a web page.
    pub device_login: Arc<dyn DeviceLogin>,
    /// The managed installs on offer, one per provider.
    pub installers: Vec<Arc<dyn Installer>>,
    /// Checks of other layers that `doctor` reports beside its own.
    pub doctor_checks: Vec<Arc<dyn DoctorCheck>>,
    /// Where the agent writes its own plans.
    pub plans_dir: Option<PathBuf>,
    /// Lists what a folder's own configuration brings. Blocks.
    pub folder_inspector: FolderInspector,
    /// Where clients of a host hear its log.
    pub log_tap: LogTap,
    /// The process's environment, read once.
    pub environment: HostEnvironment,
}

/// Lists what the configuration of a folder brings to agents. Reads files; runs nothing.
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
    /// Starts a host; the answer comes when it accepts connections. Dropping the future leaves nothing.
    ///
    /// The caller holds the lock of `options.state_dir` for as long as the host runs.
    fn launch_host(&self, options: HostOptions) -> BoxFuture<'static, Result<Box<dyn RunningHost>, LaunchError>>;
}

/// How a host is to run.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// Where to listen; port 0 picks one.
    pub listen: SocketAddr,
    /// What clients must show; `None` lets everybody on this machine in.
    pub token: Option<SecretString>,
    /// Where journal and catalogue live. Exists, is private, and is locked by the caller.
    pub state_dir: PathBuf,
    /// Who answers the model calls, and within which limits.
    pub gateway: GatewayOptions,
    /// Where the credentials are that somebody logged in with.
    pub vault: VaultSettings,
    /// Variables that hold upstreams' credentials; no agent gets them.
    pub credential_variables: Vec<String>,
    /// Which Claude Code to run.
    pub claude: ClaudeChoice,
    /// How long an agent may take to become ready, if not the usual time.
    pub handshake_timeout: Option<Duration>,
    /// How long and how many agents are kept.
    pub agent_pool: AgentPoolOptions,
    /// What accepted messages survive.
    pub durability: DurabilitySetting,
    /// The most that a message may carry.
    pub attachment_limits: AttachmentLimits,
    /// How many bytes the contents that sessions keep may be together, if not as many as usual.
    pub content_quota_bytes: Option<u64>,
    /// Variables that are added to the agents' environment. They may hold keys.
    pub agent_env: Vec<(String, SecretString)>,
    /// Whether sessions may skip permissions altogether, if a client chooses that.
    pub allow_bypass_permissions: bool,
    /// Whether clients may not run commands in the user's shell.
    pub disable_shell_commands: bool,
    /// Terminals of people.
    pub terminals: TerminalOptions,
    /// Whether an agent that is not there is installed when it is first needed.
    pub install_agents: bool,
    /// What becomes of requests for permissions and answers that nobody answers.
    pub unattended: UnattendedSetting,
    /// What becomes of a client's request for files outside of the sessions' directories.
    pub file_grants: FileGrantSetting,
    /// Where sessions may work; anywhere if there are none.
    pub session_roots: Vec<PathBuf>,
    /// The host's own directories and files; no permission mode allows them, no session works there and no client reaches them.
    pub private_paths: Vec<PathBuf>,
    /// Folders whose own configuration applies without a decision, with their subfolders.
    pub trusted_folders: Vec<PathBuf>,
    /// The permission mode of sessions that do not name one.
    pub permission_mode: Option<String>,
    /// Where clients start to look for folders.
    pub default_directory: PathBuf,
    /// Origins of web pages that may connect, beside the built-in ones.
    pub allowed_origins: Vec<String>,
    /// `Host` headers that are accepted beside loopback.
    pub allowed_hosts: Vec<String>,
    /// Proxies on other machines that are believed when they say that a browser speaks TLS.
    pub trusted_proxies: Vec<IpAddr>,
    /// Whom the listener is to be by TLS; none means that it speaks without.
    pub tls: Option<TlsFiles>,
}

/// The files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates, the host's own first, as PEM.
    pub cert: PathBuf,
    /// Its key, as PEM.
    pub key: PathBuf,
}

/// Where browsers find a host's page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageEndpoint {
    /// Where it listens for them, with the real port.
    pub addr: SocketAddr,
    /// Whether by TLS.
    pub tls: bool,
    /// Whether there is one: a binary may have been built without it.
    pub is_built: bool,
}

/// What becomes of a client's request for files outside of the sessions' directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileGrantSetting {
    /// It is refused.
    #[default]
    Never,
    /// It waits until a person allows it.
    Ask,
    /// It is granted.
    Always,
}

/// How long and how many agents are kept; what is absent is as usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentPoolOptions {
    /// How long an agent is kept after its last turn.
    pub idle_timeout: Option<Duration>,
    /// How long at most, if work in the background or an open question keeps it.
    pub max_idle_timeout: Option<Duration>,
    /// How long an agent that works may say nothing before its turn is shown as stalled.
    pub stall_timeout: Option<Duration>,
    /// How long an agent may take to react to an interrupt.
    pub interrupt_grace: Option<Duration>,
    /// What becomes of background work when a turn is stopped.
    pub background_on_stop: BackgroundOnStopSetting,
    /// Which sessions are listed that were led elsewhere; what clients want, if it is absent.
    pub external_session_filter: Option<&'static str>,
    /// How long a client may be away before it is no longer part of its sessions.
    pub client_disconnect_grace: Option<Duration>,
    /// How many agents there may be.
    pub max_agents: Option<usize>,
    /// How many of them may be opened ahead.
    pub max_prewarmed_agents: Option<usize>,
    /// How many messages may wait in one chat.
    pub max_queued_messages: Option<usize>,
    /// How many ended turns of an open chat memory holds.
    pub max_turns_in_memory: Option<usize>,
    /// Whether agents are opened ahead, when a client looks at a session.
    pub prewarm_agents: bool,
}

/// What terminals are made of; what is absent is as usual.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TerminalOptions {
    /// Whether there are none.
    pub is_disabled: bool,
    /// The shell, if not the user's own.
    pub shell: Option<PathBuf>,
    /// How many there may be.
    pub max_terminals: Option<usize>,
    /// How many bytes of each one's contents are kept.
    pub scrollback_bytes: Option<usize>,
}

/// What becomes of background work when a turn is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackgroundOnStopSetting {
    /// It goes on.
    #[default]
    Keep,
    /// It is stopped too.
    Stop,
    /// The session asks.
    Ask,
}

/// What becomes of requests that nobody answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnattendedSetting {
    /// They wait.
    #[default]
    Wait,
    /// They are denied, after this time or at once.
    Deny(Option<Duration>),
    /// They are allowed at once, as far as no rule denies them.
    Allow,
}

/// What accepted messages survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DurabilitySetting {
    /// The death of the host.
    #[default]
    Normal,
    /// A power failure too; each acceptance then waits for the disk.
    Full,
}

/// Which Claude Code to run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ClaudeChoice {
    /// The managed native build, or else `claude` on the PATH.
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
    /// Where programs on this machine connect, without TLS, with the real port.
    fn local_addr(&self) -> SocketAddr;
    /// Where browsers connect, if it has a page for them.
    fn page(&self) -> Option<PageEndpoint> {
        None
    }
    /// Exchanges upstreams, limits, prices and betas while everything runs; an upstream that is the same stays the same.
    ///
    /// # Errors
    /// If they cannot be used; then nothing has changed.
    fn reconfigure(&self, options: GatewayOptions) -> Result<(), LaunchError>;
    /// Stops accepting, ends turns as cancelled, flushes, closes agents; returns when nothing is left.
    fn shutdown(&self) -> BoxFuture<'_, ()>;
    /// How many clients are connected now.
    fn client_count(&self) -> usize;
    /// Resolves at the next change of [`clients`](Self::clients) after the call.
    fn client_count_changed(&self) -> BoxFuture<'_, ()>;
    /// What the host knows about itself that AHP does not carry.
    fn diagnostics(&self) -> HostDiagnostics;
}

/// Facts for `demo`, taken from the running parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostDiagnostics {
    /// The agent processes that run now.
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
    /// The version that the handshake told.
    pub version: Option<String>,
}

/// Why a host did not start. The text is a sentence with what to do next.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LaunchError {
    /// The chosen agent is not there.
    #[error("{0}")]
    AgentMissing(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// A check of another layer for `doctor`.
pub trait DoctorCheck: Send + Sync {
    /// A short name for the left column.
    fn name(&self) -> &str;
    /// Looks, changes nothing.
    fn run(&self) -> BoxFuture<'_, Vec<DoctorFinding>>;
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    /// How bad it is.
    pub level: FindingSeverity,
    /// One sentence.
    pub text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl DoctorFinding {
    /// All is well.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { level: FindingSeverity::Ok, text: text.into(), fix: None }
    }

    /// Usable, but worth knowing.
    pub fn warning(text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: FindingSeverity::Warning, text: text.into(), fix: Some(fix.into()) }
    }

    /// Hostler cannot work like this.
    pub fn problem(text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: FindingSeverity::Problem, text: text.into(), fix: Some(fix.into()) }
    }
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// All is well.
    Ok,
    /// Usable, but worth knowing.
    Warning,
    /// Hostler cannot work like this.
    Problem,
}
