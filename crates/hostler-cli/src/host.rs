//! Connects to the running host of a state directory, or starts one in this process.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::client::{Client, ClientError, HostEvent};
use crate::console::{Console, TextStyle};
use crate::exit::{CommandFailure, Exit};
use crate::ports::{HostOptions, PageEndpoint, RunningHost, Wiring};
use crate::reload::{self, ConfigReloader, ReloadConstraints, ReloadNotice};
use crate::settings::{Settings, TokenChoice};
use crate::signals::Signals;
use crate::state::{
    EditorAnnouncement, HostEndpoint, HostLock, PublishedEndpoint, StateDir, StateError, read_token, to_local_ip,
};

/// Maximum duration of a shutdown; after it, the supervisors end the remaining processes.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(4500);
/// How long to wait for a host that is starting or stopping.
const HOST_WAIT_TIMEOUT: Duration = Duration::from_secs(20);
const HOST_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long the host may take to notice our disconnect before other clients are reported.
const DISCONNECT_NOTICE_DELAY: Duration = Duration::from_secs(1);

/// Host in this process, with its lock and its published address.
pub(crate) struct InProcessHost {
    pub(crate) host: Arc<dyn RunningHost>,
    reloader: Option<ConfigReloader>,
    published: PublishedEndpoint,
    announced: EditorAnnouncement,
    token: Option<SecretString>,
    _lock: HostLock,
}

impl InProcessHost {
    /// Starts a host and publishes its address. The lock is held until it has stopped. The host follows the
    /// configuration file; `on_notice` receives its reload notices.
    pub(crate) async fn start(
        wiring: &Wiring,
        directory: &StateDir,
        lock: HostLock,
        options: HostOptions,
        settings: &Settings,
        on_notice: impl Fn(ReloadNotice) + Send + 'static,
    ) -> Result<Self, CommandFailure> {
        let token = options.token.clone();
        let host: Arc<dyn RunningHost> = wiring.host_launcher.launch_host(options).await?.into();
        let page = settings.public_url.clone().or_else(|| host.page().map(page_url));
        match PublishedEndpoint::publish(directory, &lock, host.local_addr(), token.as_ref(), page) {
            Ok(published) => {
                let target = Arc::clone(&host);
                let constraints = ReloadConstraints {
                    withheld_variables: Some(settings.credential_variables.clone()),
                    has_no_ledger: false,
                };
                let reloader = ConfigReloader::start(
                    settings,
                    constraints,
                    Arc::new(move |options| target.reconfigure(options)),
                    on_notice,
                );
                Ok(Self { host, reloader, published, announced: EditorAnnouncement::default(), token, _lock: lock })
            }
            Err(error) => {
                host.shutdown().await;
                Err(error.into())
            }
        }
    }

    /// Announces the host to the editors on this machine until it stops.
    pub(crate) fn announce_to_editors(&mut self, settings: &Settings) {
        let addr = self.endpoint().addr();
        self.announced =
            EditorAnnouncement::publish(&settings.editor_data_dirs, &settings.state_dir, addr, self.token.as_ref());
    }

    pub(crate) fn endpoint(&self) -> &HostEndpoint {
        self.published.endpoint()
    }

    /// Returns the port of the configured address.
    pub(crate) fn port(&self) -> u16 {
        self.host.page().map_or(self.endpoint().port, |page| page.addr.port())
    }

    pub(crate) fn token(&self) -> Option<&SecretString> {
        self.token.as_ref()
    }

    /// Returns the watcher of the configuration file.
    pub(crate) fn reloader(&self) -> Option<&ConfigReloader> {
        self.reloader.as_ref()
    }

    /// Connects to the host.
    pub(crate) async fn connect(&self) -> Result<(Client, mpsc::Receiver<HostEvent>), ClientError> {
        Client::connect(self.endpoint().addr(), self.token()).await
    }

    /// Returns whether the binary was built with the page.
    pub(crate) fn has_page(&self) -> bool {
        self.host.page().is_some_and(|page| page.is_built)
    }

    /// Returns a URL that opens the page once, if there is a page.
    pub(crate) async fn create_page_link(&self) -> Option<PageLink> {
        let page = self.endpoint().page_url.as_deref()?;
        if self.token.is_none() {
            return Some(PageLink { base: page.to_owned(), code: None });
        }
        let (client, _events) = self.connect().await.ok()?;
        let link = client.create_link(None, None).await;
        client.close().await;
        Some(PageLink { base: page.to_owned(), code: Some(link.ok()?.code) })
    }

    /// Stops the host. A signal ends the wait.
    pub(crate) async fn stop(self, signals: &mut Signals) -> Result<(), CommandFailure> {
        let Self { host, reloader, published, announced, token: _, _lock } = self;
        drop(reloader);
        drop(announced);
        // New clients do not find the host from here on; the lock is held until the shutdown is complete.
        drop(published);
        match signals.run_or_interrupt(tokio::time::timeout(SHUTDOWN_TIMEOUT, host.shutdown())).await? {
            Ok(()) => Ok(()),
            Err(_) => Err(CommandFailure::new(
                Exit::Failed,
                "shutdownTimeout",
                "The host did not shut down in time. The remaining processes are being terminated.",
            )),
        }
    }

    /// Waits until no client is connected, or for a signal, then stops the host.
    pub(crate) async fn stop_after_clients(
        self,
        console: &mut Console,
        signals: &mut Signals,
    ) -> Result<(), CommandFailure> {
        self.wait_for_clients(console, signals).await;
        self.stop(signals).await
    }

    async fn wait_for_clients(&self, console: &mut Console, signals: &mut Signals) {
        let mut is_notice_printed = false;
        while self.host.client_count() > 0 {
            tokio::select! {
                () = self.host.client_count_changed() => {}
                () = tokio::time::sleep(DISCONNECT_NOTICE_DELAY) => if !is_notice_printed {
                    is_notice_printed = true;
                    console.write_note("Other clients are connected. Waiting for them to disconnect. Press Ctrl-C to stop now.", TextStyle::Dim);
                },
                _ = signals.next_stop_signal() => return,
            }
        }
    }
}

/// Returns the page's URL for a browser on this machine.
fn page_url(page: PageEndpoint) -> String {
    let scheme = if page.tls { "https" } else { "http" };
    format!("{scheme}://{}", SocketAddr::new(to_local_ip(page.addr.ip()), page.addr.port()))
}

/// Connection to the host of a state directory.
pub(crate) struct HostConnection {
    pub(crate) client: Client,
    pub(crate) events: mpsc::Receiver<HostEvent>,
    /// Host in this process, if none was running.
    pub(crate) started_host: Option<InProcessHost>,
}

impl HostConnection {
    /// Closes the connection; a host of our own runs until its last client has disconnected.
    pub(crate) async fn disconnect(self, console: &mut Console, signals: &mut Signals) {
        let Self { client, events, started_host } = self;
        drop(events);
        client.close().await;
        if let Some(host) = started_host
            && let Err(mut failure) = host.stop_after_clients(console, signals).await
        {
            failure.report(console);
        }
    }
}

/// Connects to the host that runs on the state directory, or starts one in this process.
pub(crate) async fn connect_or_start(wiring: &Wiring, settings: &Settings) -> Result<HostConnection, CommandFailure> {
    let directory = StateDir::open(&settings.state_dir)?;
    let deadline = Instant::now() + HOST_WAIT_TIMEOUT;
    loop {
        let obstacle: CommandFailure = if let Some(endpoint) = HostEndpoint::find_running(&directory)? {
            let token = endpoint.token()?;
            match Client::connect(endpoint.addr(), token.as_ref()).await {
                Ok((client, events)) => {
                    return Ok(HostConnection { client, events, started_host: None });
                }
                // The host may be stopping: it removes its files first and releases its lock last.
                Err(error @ (ClientError::Unreachable { .. } | ClientError::Closed(_))) => error.into(),
                Err(error) => return Err(error.into()),
            }
        } else {
            match HostLock::acquire(&directory).await {
                Ok(lock) => return start_in_process(wiring, settings, &directory, lock).await,
                // Another process is starting or stopping a host.
                Err(error @ StateError::InUse { .. }) => error.into(),
                Err(error) => return Err(error.into()),
            }
        };
        if Instant::now() > deadline {
            return Err(obstacle);
        }
        tokio::time::sleep(HOST_POLL_INTERVAL).await;
    }
}

/// Connects to the host that runs on the state directory. It starts none, because that one would end with the
/// command.
pub(crate) async fn connect_to_running(
    settings: &Settings,
) -> Result<(HostEndpoint, Client, mpsc::Receiver<HostEvent>), CommandFailure> {
    let directory = StateDir::without_checks(&settings.state_dir);
    let deadline = Instant::now() + HOST_WAIT_TIMEOUT;
    loop {
        if let Some(endpoint) = HostEndpoint::find_running(&directory)? {
            let token = endpoint.token()?;
            let (client, events) = Client::connect(endpoint.addr(), token.as_ref()).await?;
            return Ok((endpoint, client, events));
        }
        // Another process may be starting one.
        if !HostLock::is_held(&directory)? || Instant::now() > deadline {
            let path = settings.state_dir.display();
            let sentence = format!(
                "No host is running for the state directory {path}. Start one with `hostler serve`, then try again."
            );
            return Err(CommandFailure::new(Exit::Failed, "hostNotRunning", sentence));
        }
        tokio::time::sleep(HOST_POLL_INTERVAL).await;
    }
}

/// URL that opens the page.
pub(crate) struct PageLink {
    /// Base URL of the page, without a trailing slash.
    pub(crate) base: String,
    /// Sign-in code; `None` if none is needed. In the URL's fragment, it reaches no server and no log.
    pub(crate) code: Option<String>,
}

impl PageLink {
    /// Returns the URL of a path inside the page.
    pub(crate) fn url_for(&self, path: &str) -> String {
        let Self { base, code } = self;
        let code = code.as_ref().map(|code| format!("#link={code}")).unwrap_or_default();
        format!("{base}/{path}{code}")
    }
}

async fn start_in_process(
    wiring: &Wiring,
    settings: &Settings,
    directory: &StateDir,
    lock: HostLock,
) -> Result<HostConnection, CommandFailure> {
    let token = Some(directory.load_or_create_token(&lock)?);
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let options = host_options(wiring, settings, listen, token);
    let started = InProcessHost::start(wiring, directory, lock, options, settings, reload::log_notice).await?;
    match started.connect().await {
        Ok((client, events)) => Ok(HostConnection { client, events, started_host: Some(started) }),
        Err(error) => {
            started.host.shutdown().await;
            Err(error.into())
        }
    }
}

/// Converts the settings to host options.
pub(crate) fn host_options(
    wiring: &Wiring,
    settings: &Settings,
    listen: SocketAddr,
    token: Option<SecretString>,
) -> HostOptions {
    HostOptions {
        listen,
        token,
        state_dir: settings.state_dir.clone(),
        gateway: settings.gateway.clone(),
        vault: settings.credential_vault.clone(),
        credential_variables: settings.credential_variables.clone(),
        claude: settings.claude.clone(),
        handshake_timeout: settings.handshake_timeout,
        agent_pool: settings.agent_pool,
        attachment_limits: settings.attachment_limits.clone(),
        content_quota_bytes: settings.content_quota_bytes,
        durability: settings.durability,
        agent_env: settings.agent_env.clone(),
        allow_bypass_permissions: settings.allow_bypass_permissions,
        disable_shell_commands: settings.disable_shell_commands,
        terminals: settings.terminals.clone(),
        install_agents: settings.install_agents,
        unattended: settings.unattended,
        file_grants: settings.file_grants,
        session_roots: settings.session_roots.clone(),
        private_paths: private_paths(wiring, settings),
        trusted_folders: settings.trusted_folders.clone(),
        permission_mode: settings.permission_mode.clone(),
        default_directory: wiring.environment.home.clone(),
        allowed_origins: settings.allowed_origins.clone(),
        allowed_hosts: allowed_hosts(settings),
        trusted_proxies: settings.trusted_proxies.clone(),
        tls: None,
    }
}

/// Returns the host's own directories, and files with secrets that the settings name.
fn private_paths(wiring: &Wiring, settings: &Settings) -> Vec<PathBuf> {
    let token = match &settings.token {
        TokenChoice::File(path) => Some(path.clone()),
        _ => None,
    };
    let config = settings.source.as_ref().map(|source| source.path().to_owned());
    let key = settings.tls.as_ref().map(|tls| tls.key.clone());
    let directories = wiring.environment.private_directories(&settings.state_dir);
    directories.into_iter().chain([token, config, key].into_iter().flatten()).collect()
}

/// Returns the accepted host names: configured ones and that of the public URL.
fn allowed_hosts(settings: &Settings) -> Vec<String> {
    let public = settings.public_url.as_deref().and_then(|url| url::Url::parse(url).ok());
    let public = public.as_ref().and_then(url::Url::host_str).map(|name| name.trim_matches(['[', ']']).to_owned());
    settings.allowed_hosts.iter().cloned().chain(public).collect()
}

/// Returns the token that the settings choose.
pub(crate) fn choose_token(
    settings: &Settings,
    directory: &StateDir,
    lock: &HostLock,
) -> Result<Option<SecretString>, StateError> {
    match &settings.token {
        TokenChoice::Disabled => Ok(None),
        TokenChoice::Given(token) => Ok(Some(token.clone())),
        TokenChoice::File(path) => read_token(path).map(Some),
        TokenChoice::StateDirectory => directory.load_or_create_token(lock).map(Some),
    }
}
