//! A host: store, gateway, driver, engine and listener, joined.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_ahp::{AccessPolicy, ConnectionLimits, Passes, Server, ServerConfig, Tls};
use hostler_claude::{ClaudeConfig, ClaudeDriver, Executable, OnDemandDriver};
use hostler_cli::{
    AgentDiag, Durability, FleetOptions, GatewayOptions, GrantSetting, HostDiagnostics, HostEnvironment, HostLauncher,
    HostOptions, LaunchError, PageAt, RunningHost, TlsFiles,
};
use hostler_driver::{Driver, Installer};
use hostler_engine::{
    ABSENCE, BackgroundOnStop, BlobOptions, Caps, Engine, EngineConfig, FixedAnswer, FleetConfig, GrantPolicy,
    MAX_QUEUE, PermissionConfig, SessionRoots, ShowExternal, StoreOptions, SystemClock, TURNS_IN_MEMORY, TrustOptions,
    Unattended,
};
use hostler_gateway::{Gateway, GatewayConfig};
use hostler_process::SupervisorCommand;
use hostler_telemetry::LogTap;
use hostler_web::Site;
use secrecy::ExposeSecret as _;
use serde_json::{Map, Value};

use crate::agent::{self, Chosen};
use crate::commands::{self, Supervised};
use crate::models::ModelWatch;
use crate::page::Page;
use crate::upstreams::{self, Joined};
use crate::{gateway, terminals};

/// The hidden command under which this program supervises one agent.
pub(crate) const SUPERVISE: &str = "supervise";

/// The file of the state directory that knows which browsers have signed in.
const SIGN_INS: &str = "sign-ins.json";

/// What the agent is told where the configuration denies whatever would be asked.
const NOBODY_IS_ASKED: &str = "Nobody is asked on this host, so it is denied. Go on without it.";

/// How long an agent may take to react to an interrupt.
const INTERRUPT_GRACE: Duration = Duration::from_secs(2);

/// Starts hosts in this process.
pub(crate) struct Launcher {
    environment: HostEnvironment,
    installer: Arc<dyn Installer>,
    supervisor: SupervisorCommand,
    log: LogTap,
}

impl Launcher {
    pub(crate) fn new(
        environment: HostEnvironment,
        installer: Arc<dyn Installer>,
        supervisor: SupervisorCommand,
        log: LogTap,
    ) -> Self {
        Self { environment, installer, supervisor, log }
    }
}

impl HostLauncher for Launcher {
    fn launch(&self, options: HostOptions) -> BoxFuture<'static, Result<Box<dyn RunningHost>, LaunchError>> {
        let (environment, installer) = (self.environment.clone(), Arc::clone(&self.installer));
        let (supervisor, log) = (self.supervisor.clone(), self.log.clone());
        async move {
            let host = launch(&environment, installer, supervisor, log, options).await?;
            Ok(Box::new(host) as Box<dyn RunningHost>)
        }
        .boxed()
    }
}

struct Host {
    installer: Arc<dyn Installer>,
    engine: Engine,
    server: Server,
    gateway: Arc<Gateway>,
    joined: Joined,
    models: ModelWatch,
    /// Whether browsers speak TLS to it.
    tls: bool,
    page_is_built: bool,
}

async fn launch(
    environment: &HostEnvironment,
    installer: Arc<dyn Installer>,
    supervisor: SupervisorCommand,
    log: LogTap,
    options: HostOptions,
) -> Result<Host, LaunchError> {
    hostler_process::become_host()
        .map_err(|error| LaunchError::Other(format!("This process cannot become a host: {error}.")))?;
    let passes = Passes::open(options.state_dir.join(SIGN_INS), options.token.as_ref()).map_err(|error| {
        LaunchError::Other(format!("What is kept of browsers that signed in cannot be read: {error}."))
    })?;
    let tls = options.tls.clone().map(|TlsFiles { cert, key }| Tls::open(cert, key)).transpose();
    let tls = tls.map_err(|error| LaunchError::Other(format!("TLS cannot be spoken: {error}")))?;
    let driver = driver(environment, &installer, &options, supervisor.clone())?;
    let users = commands::users(environment.vars.clone(), &options.credential_variables);
    let joined = Joined::new(&options.vault);
    let config = GatewayConfig { dir: Some(options.state_dir.clone()), ..joined.config(&options.gateway)? };
    let gateway = Arc::new(Gateway::start(config).await.map_err(upstreams::sentence)?);
    let engine = Engine::start(EngineConfig {
        store: StoreOptions {
            full_durability: options.durability == Durability::Full,
            blobs: blobs(options.quota),
            ..StoreOptions::new(options.state_dir.clone())
        },
        drivers: vec![driver],
        gateway: Arc::new(gateway::Port(Arc::clone(&gateway))),
        default_directory: default_directory(&options),
        session_roots: SessionRoots { allowed: options.session_roots.clone(), private: options.private.clone() },
        grants: match options.grants {
            GrantSetting::Never => GrantPolicy::Never,
            GrantSetting::Ask => GrantPolicy::Ask,
            GrantSetting::Always => GrantPolicy::Always,
        },
        interrupt_grace: options.fleet.interrupt_grace.unwrap_or(INTERRUPT_GRACE),
        background_on_stop: match options.fleet.background_on_stop {
            hostler_cli::BackgroundOnStop::Keep => BackgroundOnStop::Keep,
            hostler_cli::BackgroundOnStop::Stop => BackgroundOnStop::Stop,
            hostler_cli::BackgroundOnStop::Ask => BackgroundOnStop::Ask,
        },
        max_queue: options.fleet.max_queue.unwrap_or(MAX_QUEUE),
        turns_in_memory: options.fleet.turns_in_memory.unwrap_or(TURNS_IN_MEMORY),
        permissions: permissions(&options),
        absence: options.fleet.absence.unwrap_or(ABSENCE),
        clock: Arc::new(SystemClock::default()),
        fleet: fleet(&options.fleet),
        attachments: options.attachments.clone(),
        commands: Arc::new(Supervised::new(users.clone(), supervisor.clone())),
        shell: !options.no_commands,
        terminals: terminals::config(&options.terminals, users, supervisor, &options.state_dir),
        session_defaults: session_defaults(&options),
        show_external: options.fleet.show_external.and_then(ShowExternal::named),
        search: true,
        trust: TrustOptions {
            trusted_folders: options.trusted_folders.clone(),
            home: Some(options.default_directory.clone()),
        },
    });
    let engine = engine.await.map_err(other)?;
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
        limits: ConnectionLimits::default(),
        logs: Some(log),
        passes,
        pages: Some(Arc::new(Page(site))),
    };
    match Server::start(engine.clone(), config).await {
        Ok(server) => {
            let models = ModelWatch::start(Arc::clone(&gateway), engine.clone(), &server);
            Ok(Host { installer, engine, server, gateway, joined, models, tls: options.tls.is_some(), page_is_built })
        }
        Err(error) => {
            engine.shutdown().await;
            gateway.stop().await;
            let address = options.listen;
            Err(LaunchError::Other(format!("{address} cannot be listened on: {error}. Choose another --listen.")))
        }
    }
}

/// Where sessions work that name no directory: at home, or where sessions may work at all.
fn default_directory(options: &HostOptions) -> PathBuf {
    let home = &options.default_directory;
    let may_be_home = |root: &PathBuf| home.starts_with(root);
    match options.session_roots.first() {
        Some(first) if !options.session_roots.iter().any(may_be_home) => first.clone(),
        _ => home.clone(),
    }
}

/// How contents are kept.
fn blobs(quota: Option<u64>) -> BlobOptions {
    let usual = BlobOptions::default();
    BlobOptions { quota: quota.unwrap_or(usual.quota), ..usual }
}

fn permissions(options: &HostOptions) -> PermissionConfig {
    PermissionConfig {
        allow_bypass: options.allow_bypass,
        unattended: match options.unattended {
            hostler_cli::Unattended::Wait => Unattended::Wait,
            hostler_cli::Unattended::Deny(Some(time)) => Unattended::DenyAfter(time),
            hostler_cli::Unattended::Deny(None) => Unattended::Answer(FixedAnswer::Deny(NOBODY_IS_ASKED.to_owned())),
            hostler_cli::Unattended::Allow => Unattended::Answer(FixedAnswer::Allow),
        },
        // Sessions that name no directory work at home.
        home: Some(options.default_directory.clone()),
        own_directories: options.private.clone(),
    }
}

/// What new sessions begin with.
fn session_defaults(options: &HostOptions) -> Map<String, Value> {
    let mode = options.permission_mode.iter().map(|mode| ("permissionMode".to_owned(), mode.as_str().into()));
    mode.collect()
}

fn fleet(options: &FleetOptions) -> FleetConfig {
    let usual = FleetConfig::default();
    let idle = options.idle.unwrap_or(usual.idle);
    let live = options.max_agents.unwrap_or(usual.caps.live);
    FleetConfig {
        idle,
        idle_max: options.idle_max.unwrap_or(usual.idle_max).max(idle),
        stall: options.stall.unwrap_or(usual.stall),
        caps: Caps { live, warm: options.max_warm.unwrap_or(usual.caps.warm).min(live) },
        warm: options.warm,
    }
}

/// How this program is run to supervise another one.
pub(crate) fn supervisor() -> SupervisorCommand {
    // Where it cannot find itself, nothing that needs a supervisor starts, which says so then.
    let program = std::env::current_exe().unwrap_or_else(|_| "hostler".into());
    SupervisorCommand { program, args: vec![SUPERVISE.into()] }
}

fn driver(
    environment: &HostEnvironment,
    installer: &Arc<dyn Installer>,
    options: &HostOptions,
    supervisor: SupervisorCommand,
) -> Result<Arc<dyn Driver>, LaunchError> {
    let chosen = agent::choose(&options.claude, &**installer, environment, options.install_agents)?;
    let runtime_dir = hostler_process::runtime_dir(environment.xdg_runtime.clone()).map_err(|error| {
        LaunchError::Other(format!("The directory for the conversations' locks cannot be used: {error}."))
    })?;
    let (options, surroundings) = (options.clone(), environment.clone());
    let config = move |executable: Executable| {
        let mut config = ClaudeConfig::new(executable, supervisor.clone(), runtime_dir.clone());
        config.host_environment = surroundings.vars.clone().into_iter().collect();
        config.upstream_credentials = options.credential_variables.iter().map(OsString::from).collect();
        config.agent_env =
            options.agent_env.iter().map(|(name, value)| (name.into(), value.expose_secret().into())).collect();
        config.holder = format!("the host with process {} ({})", std::process::id(), options.state_dir.display());
        if let Some(limit) = options.handshake_timeout {
            config.handshake_timeout = limit;
        }
        config
    };
    Ok(match chosen {
        Chosen::Executable(executable) => Arc::new(ClaudeDriver::new(config(executable))),
        Chosen::OnDemand(build) => {
            let environment = environment.clone();
            let executable = move |path| agent::executable(path, &environment);
            Arc::new(OnDemandDriver::new(Arc::clone(installer), build, executable, config))
        }
    })
}

fn other(error: impl std::fmt::Display) -> LaunchError {
    LaunchError::Other(error.to_string())
}

impl RunningHost for Host {
    fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    fn page(&self) -> Option<PageAt> {
        Some(PageAt { addr: self.server.public_addr(), tls: self.tls, is_built: self.page_is_built })
    }

    fn reconfigure(&self, options: GatewayOptions) -> Result<(), LaunchError> {
        self.joined.reconfigure(&self.gateway, &options)?;
        self.models.reconfigured();
        Ok(())
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        async {
            // Turns end as cancelled while the clients still listen, so that they hear of it.
            self.server.stop_accepting();
            tokio::join!(self.engine.shutdown(), self.installer.stop());
            tokio::join!(self.server.stop(), self.gateway.stop());
        }
        .boxed()
    }

    fn clients(&self) -> usize {
        *self.server.clients().borrow()
    }

    fn client_left(&self) -> BoxFuture<'_, ()> {
        let mut clients = self.server.clients();
        clients.mark_unchanged();
        async move {
            // An error means that the server is gone, and its clients with it.
            let _ = clients.changed().await;
        }
        .boxed()
    }

    fn diagnostics(&self) -> HostDiagnostics {
        let agents = self.engine.agents().into_iter();
        let agents = agents.map(|agent| AgentDiag { session: agent.session, pid: agent.pid, version: agent.version });
        HostDiagnostics { agents: agents.collect(), gateway_requests: self.gateway.requests_taken() }
    }
}
