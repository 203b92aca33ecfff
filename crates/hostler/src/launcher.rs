//! Launches a host in this process: connects store, gateway, driver, engine and listener.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_ahp::{AccessPolicy, AhpConnectionLimits, BrowserSessions, Server, ServerConfig, TlsIdentity};
use hostler_claude::{ClaudeConfig, ClaudeDriver, Executable, OnDemandDriver};
use hostler_cli::{
    AgentDiagnostics, AgentPoolOptions, DurabilitySetting, FileGrantSetting, GatewayOptions, HostDiagnostics,
    HostEnvironment, HostLauncher, HostOptions, LaunchError, PageEndpoint, RunningHost, TlsFiles,
};
use hostler_driver::{Driver, Installer};
use hostler_engine::{
    AgentPoolConfig, AgentPoolLimits, BackgroundOnStop, BlobOptions, DEFAULT_CLIENT_ABSENCE_TIMEOUT,
    DEFAULT_MAX_QUEUED_MESSAGES, DEFAULT_TURNS_IN_MEMORY, Engine, EngineConfig, ExternalSessionFilter, GrantPolicy,
    PermissionConfig, SessionRoots, StoreOptions, SystemClock, TrustOptions, UnattendedAnswer, UnattendedPolicy,
};
use hostler_gateway::{Gateway, GatewayConfig};
use hostler_process::SupervisorCommand;
use hostler_telemetry::LogTap;
use hostler_web::Site;
use secrecy::ExposeSecret as _;
use serde_json::{Map, Value};

use crate::agent_binary::{self, AgentBinary};
use crate::command_runner::{self, SupervisedCommands};
use crate::embedded_site::EmbeddedSite;
use crate::model_refresh::ModelRefresher;
use crate::upstreams::{ConfiguredUpstreams, to_gateway_error};
use crate::{gateway_adapter, terminals};

/// Hidden command that runs this program as a supervisor of one agent.
pub(crate) const SUPERVISE_COMMAND: &str = "supervise";

/// File of the state directory with the browser sessions.
const BROWSER_SESSIONS_FILE: &str = "sign-ins.json";

/// Reason that the agent receives if the configuration denies instead of asking.
const UNATTENDED_DENY_MESSAGE: &str = "Denied: this host does not ask. Continue without it.";

/// Time in which an agent must react to an interrupt.
const DEFAULT_INTERRUPT_GRACE: Duration = Duration::from_secs(2);

/// Starts hosts in this process.
pub(crate) struct InProcessHostLauncher {
    environment: HostEnvironment,
    installer: Arc<dyn Installer>,
    supervisor: SupervisorCommand,
    log_tap: LogTap,
}

impl InProcessHostLauncher {
    pub(crate) fn new(
        environment: HostEnvironment,
        installer: Arc<dyn Installer>,
        supervisor: SupervisorCommand,
        log_tap: LogTap,
    ) -> Self {
        Self { environment, installer, supervisor, log_tap }
    }
}

impl HostLauncher for InProcessHostLauncher {
    fn launch_host(&self, options: HostOptions) -> BoxFuture<'static, Result<Box<dyn RunningHost>, LaunchError>> {
        let (environment, installer) = (self.environment.clone(), Arc::clone(&self.installer));
        let (supervisor, log) = (self.supervisor.clone(), self.log_tap.clone());
        async move {
            let host = launch(&environment, installer, supervisor, log, options).await?;
            Ok(Box::new(host) as Box<dyn RunningHost>)
        }
        .boxed()
    }
}

struct LaunchedHost {
    installer: Arc<dyn Installer>,
    engine: Engine,
    server: Server,
    gateway: Arc<Gateway>,
    upstreams: ConfiguredUpstreams,
    model_refresher: ModelRefresher,
    /// Whether browsers connect with TLS.
    tls: bool,
    page_is_built: bool,
}

async fn launch(
    environment: &HostEnvironment,
    installer: Arc<dyn Installer>,
    supervisor: SupervisorCommand,
    log: LogTap,
    options: HostOptions,
) -> Result<LaunchedHost, LaunchError> {
    hostler_process::become_host()
        .map_err(|error| LaunchError::Other(format!("Failed to prepare the process of the host: {error}.")))?;
    let browser_sessions = BrowserSessions::open(options.state_dir.join(BROWSER_SESSIONS_FILE), options.token.as_ref())
        .map_err(|error| LaunchError::Other(format!("Failed to read the browser sessions: {error}.")))?;
    let tls = options.tls.clone().map(|TlsFiles { cert, key }| TlsIdentity::load(cert, key)).transpose();
    let tls = tls.map_err(|error| LaunchError::Tls(error.to_string()))?;
    let driver = build_driver(environment, &installer, &options, supervisor.clone())?;
    let user_environment = command_runner::user_environment(environment.vars.clone(), &options.credential_variables);
    let upstreams = ConfiguredUpstreams::new(&options.vault);
    let config =
        GatewayConfig { state_dir: Some(options.state_dir.clone()), ..upstreams.gateway_config(&options.gateway)? };
    let gateway = Arc::new(Gateway::start(config).await.map_err(to_gateway_error)?);
    let engine = Engine::start(EngineConfig {
        store: StoreOptions {
            full_durability: options.durability == DurabilitySetting::Full,
            blobs: blob_options(options.content_quota_bytes),
            ..StoreOptions::new(options.state_dir.clone())
        },
        drivers: vec![driver],
        gateway: Arc::new(gateway_adapter::GatewayAdapter(Arc::clone(&gateway))),
        default_directory: default_directory(&options),
        session_roots: SessionRoots {
            allowed_roots: options.session_roots.clone(),
            private_paths: options.private_paths.clone(),
        },
        grant_policy: match options.file_grants {
            FileGrantSetting::Never => GrantPolicy::Never,
            FileGrantSetting::Ask => GrantPolicy::Ask,
            FileGrantSetting::Always => GrantPolicy::Always,
        },
        interrupt_grace: options.agent_pool.interrupt_grace.unwrap_or(DEFAULT_INTERRUPT_GRACE),
        background_on_stop: match options.agent_pool.background_on_stop {
            hostler_cli::BackgroundOnStopSetting::Keep => BackgroundOnStop::Keep,
            hostler_cli::BackgroundOnStopSetting::Stop => BackgroundOnStop::Stop,
            hostler_cli::BackgroundOnStopSetting::Ask => BackgroundOnStop::Ask,
        },
        max_queued_messages: options.agent_pool.max_queued_messages.unwrap_or(DEFAULT_MAX_QUEUED_MESSAGES),
        turns_in_memory: options.agent_pool.max_turns_in_memory.unwrap_or(DEFAULT_TURNS_IN_MEMORY),
        permissions: permission_config(&options),
        client_absence_timeout: options.agent_pool.client_timeout.unwrap_or(DEFAULT_CLIENT_ABSENCE_TIMEOUT),
        clock: Arc::new(SystemClock::default()),
        agent_pool: agent_pool_config(&options.agent_pool),
        attachment_limits: options.attachment_limits.clone(),
        command_runner: Arc::new(SupervisedCommands::new(user_environment.clone(), supervisor.clone())),
        allow_shell_commands: !options.disable_shell_commands,
        terminals: terminals::terminals_config(&options.terminals, user_environment, supervisor, &options.state_dir),
        session_defaults: session_defaults(&options),
        external_session_filter: options.agent_pool.external_session_filter.and_then(ExternalSessionFilter::from_name),
        enable_search: true,
        trust: TrustOptions {
            trusted_folders: options.trusted_folders.clone(),
            home: Some(options.default_directory.clone()),
        },
    });
    let engine = engine.await.map_err(to_launch_error)?;
    let site = Site::embedded();
    let page_is_built = site.is_built();
    let config = ServerConfig {
        listen: options.listen,
        tls,
        access: AccessPolicy {
            token: options.token,
            allowed_origins: options.allowed_origins,
            allowed_hosts: options.allowed_hosts,
            trusted_proxies: options.trusted_proxies,
        },
        limits: AhpConnectionLimits::default(),
        logs: Some(log),
        browser_sessions,
        http_handler: Some(Arc::new(EmbeddedSite(site))),
    };
    match Server::start(engine.clone(), config).await {
        Ok(server) => {
            let model_refresher = ModelRefresher::start(Arc::clone(&gateway), engine.clone(), &server);
            Ok(LaunchedHost {
                installer,
                engine,
                server,
                gateway,
                upstreams,
                model_refresher,
                tls: options.tls.is_some(),
                page_is_built,
            })
        }
        Err(error) => {
            engine.shutdown().await;
            gateway.stop().await;
            Err(LaunchError::Listen { address: options.listen, reason: error.to_string() })
        }
    }
}

/// Returns the directory of sessions that name none: home, or the first session root.
fn default_directory(options: &HostOptions) -> PathBuf {
    let home = &options.default_directory;
    let contains_home = |root: &PathBuf| home.starts_with(root);
    match options.session_roots.first() {
        Some(first) if !options.session_roots.iter().any(contains_home) => first.clone(),
        _ => home.clone(),
    }
}

/// Returns the options of the blob store.
fn blob_options(quota: Option<u64>) -> BlobOptions {
    let defaults = BlobOptions::default();
    BlobOptions { quota_bytes: quota.unwrap_or(defaults.quota_bytes), ..defaults }
}

fn permission_config(options: &HostOptions) -> PermissionConfig {
    PermissionConfig {
        allow_bypass: options.allow_bypass_permissions,
        unattended: match options.unattended {
            hostler_cli::UnattendedSetting::Wait => UnattendedPolicy::Wait,
            hostler_cli::UnattendedSetting::Deny(Some(time)) => UnattendedPolicy::DenyAfter(time),
            hostler_cli::UnattendedSetting::Deny(None) => {
                UnattendedPolicy::Answer(UnattendedAnswer::Deny(UNATTENDED_DENY_MESSAGE.to_owned()))
            }
            hostler_cli::UnattendedSetting::Allow => UnattendedPolicy::Answer(UnattendedAnswer::Allow),
        },
        // Sessions that name no directory work at home.
        home_directory: Some(options.default_directory.clone()),
        host_directories: options.private_paths.clone(),
    }
}

/// Returns the configuration of new sessions.
fn session_defaults(options: &HostOptions) -> Map<String, Value> {
    let mode = options.permission_mode.iter().map(|mode| ("permissionMode".to_owned(), mode.as_str().into()));
    mode.collect()
}

fn agent_pool_config(options: &AgentPoolOptions) -> AgentPoolConfig {
    let defaults = AgentPoolConfig::default();
    let idle_timeout = options.idle_timeout.unwrap_or(defaults.idle_timeout);
    let max_agents = options.max_agents.unwrap_or(defaults.limits.max_agents);
    AgentPoolConfig {
        idle_timeout,
        max_idle_timeout: options.idle_timeout_max.unwrap_or(defaults.max_idle_timeout).max(idle_timeout),
        stall_timeout: options.stall_timeout.unwrap_or(defaults.stall_timeout),
        limits: AgentPoolLimits {
            max_agents,
            max_prewarmed: options.max_prewarmed.unwrap_or(defaults.limits.max_prewarmed).min(max_agents),
        },
        prewarm: options.prewarm,
    }
}

/// Returns the command that runs this program as a supervisor.
pub(crate) fn supervisor_command() -> SupervisorCommand {
    // If the program's own path is unknown, processes under a supervisor fail to start with an error.
    let program = std::env::current_exe().unwrap_or_else(|_| "hostler".into());
    SupervisorCommand { program, args: vec![SUPERVISE_COMMAND.into()] }
}

fn build_driver(
    environment: &HostEnvironment,
    installer: &Arc<dyn Installer>,
    options: &HostOptions,
    supervisor: SupervisorCommand,
) -> Result<Arc<dyn Driver>, LaunchError> {
    let binary = agent_binary::choose_agent(&options.claude, &**installer, environment, options.install_agents)?;
    let runtime_dir = hostler_process::runtime_dir(environment.xdg_runtime.clone())
        .map_err(|error| LaunchError::Other(format!("Failed to open the directory of conversation locks: {error}.")))?;
    let (options, host_environment) = (options.clone(), environment.clone());
    let config = move |executable: Executable| {
        let mut config = ClaudeConfig::new(executable, supervisor.clone(), runtime_dir.clone());
        config.host_environment = host_environment.vars.clone().into_iter().collect();
        config.upstream_credentials = options.credential_variables.iter().map(OsString::from).collect();
        config.agent_env =
            options.agent_env.iter().map(|(name, value)| (name.into(), value.expose_secret().into())).collect();
        config.lock_holder = format!("the host with process {} ({})", std::process::id(), options.state_dir.display());
        if let Some(limit) = options.handshake_timeout {
            config.handshake_timeout = limit;
        }
        config
    };
    Ok(match binary {
        AgentBinary::Executable(executable) => Arc::new(ClaudeDriver::new(config(executable))),
        AgentBinary::InstallOnDemand(build) => {
            let environment = environment.clone();
            let executable = move |path| agent_binary::with_host_node(path, &environment);
            Arc::new(OnDemandDriver::new(Arc::clone(installer), build, executable, config))
        }
    })
}

fn to_launch_error(error: impl std::fmt::Display) -> LaunchError {
    LaunchError::Other(error.to_string())
}

impl RunningHost for LaunchedHost {
    fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    fn page(&self) -> Option<PageEndpoint> {
        Some(PageEndpoint { addr: self.server.public_addr(), tls: self.tls, is_built: self.page_is_built })
    }

    fn reconfigure(&self, options: GatewayOptions) -> Result<(), LaunchError> {
        self.upstreams.reconfigure(&self.gateway, &options)?;
        self.model_refresher.request_refresh();
        Ok(())
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        async {
            // Turns end as cancelled while clients are still connected, so that they receive the end.
            self.server.stop_accepting();
            tokio::join!(self.engine.shutdown(), self.installer.stop());
            tokio::join!(self.server.stop(), self.gateway.stop());
        }
        .boxed()
    }

    fn client_count(&self) -> usize {
        *self.server.watch_client_count().borrow()
    }

    fn client_count_changed(&self) -> BoxFuture<'_, ()> {
        let mut clients = self.server.watch_client_count();
        clients.mark_unchanged();
        async move {
            // An error means that the server has ended, and its clients with it.
            let _ = clients.changed().await;
        }
        .boxed()
    }

    fn diagnostics(&self) -> HostDiagnostics {
        let agents = self.engine.agents().into_iter();
        let agents =
            agents.map(|agent| AgentDiagnostics { session: agent.session, pid: agent.pid, version: agent.version });
        HostDiagnostics { agents: agents.collect(), gateway_requests: self.gateway.requests_accepted() }
    }
}
