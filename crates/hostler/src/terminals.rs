//! Implements the engine's terminal port with shells under a supervisor.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_cli::TerminalOptions;
use hostler_engine::{
    CommandExit, DEFAULT_MAX_TERMINALS, DEFAULT_SCROLLBACK_BYTES, ShellLauncher, ShellSpec, ShellStartError,
    TerminalShell, TerminalSize, TerminalsConfig,
};
use hostler_process::{
    Environment, ProcessHandle, Pty, PtySize, SpawnError, SpawnSpec, SupervisorCommand, TerminalProcess,
    TerminationMode,
};
use hostler_terminal::{ShellIntegration, ShellLaunch};
use tokio::time::Instant;

use crate::command_runner::{to_command_end, user_shell};

/// Directory of the shell integration scripts, in the state directory.
const SHELL_INTEGRATION_DIR: &str = "shell-integration";

/// Prefixes of variables that describe another program's terminal.
const FOREIGN_TERMINAL_VARIABLES: [&str; 4] = ["VSCODE_", "ELECTRON_", "TERM_PROGRAM", "CLAUDECODE"];

/// How long the shell's remaining processes may take to end. Some of them cannot be killed: another user's process,
/// for example.
const SHELL_TREE_EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the terminal configuration; `None` if terminals are off.
pub(crate) fn terminals_config(
    options: &TerminalOptions,
    environment: Environment,
    supervisor: SupervisorCommand,
    state: &Path,
) -> Option<TerminalsConfig> {
    (!options.is_disabled).then(|| TerminalsConfig {
        shell_launcher: Arc::new(SupervisedShells::new(
            options.shell.clone(),
            environment,
            supervisor,
            state.join(SHELL_INTEGRATION_DIR),
        )),
        max_terminals: options.max_terminals.unwrap_or(DEFAULT_MAX_TERMINALS),
        scrollback_bytes: options.scrollback_bytes.unwrap_or(DEFAULT_SCROLLBACK_BYTES),
    })
}

struct SupervisedShells {
    shell: PathBuf,
    environment: Environment,
    supervisor: SupervisorCommand,
    scripts: PathBuf,
}

impl SupervisedShells {
    fn new(
        shell: Option<PathBuf>,
        mut environment: Environment,
        supervisor: SupervisorCommand,
        scripts: PathBuf,
    ) -> Self {
        let shell = shell.unwrap_or_else(|| user_shell(&environment).into());
        FOREIGN_TERMINAL_VARIABLES.iter().for_each(|name| environment.remove_prefix(name));
        environment.set("TERM", "xterm-256color");
        environment.set("COLORTERM", "truecolor");
        environment.set("TERM_PROGRAM", "hostler");
        environment.set("SHELL", &shell);
        Self { shell, environment, supervisor, scripts }
    }

    /// Returns how the shell is started. If the scripts cannot be written, the shell does not report its commands.
    fn shell_launch(&self, spec: &ShellSpec) -> ShellLaunch {
        let zdotdir = self.environment.get("ZDOTDIR").map(OsString::from);
        match ShellIntegration::install(&self.scripts) {
            Ok(integration) => integration.launch_options(&self.shell, &spec.nonce, zdotdir),
            Err(error) => {
                tracing::warn!(%error, "failed to write shell integration scripts; terminals do not report commands");
                ShellLaunch::default()
            }
        }
    }
}

impl ShellLauncher for SupervisedShells {
    fn default_title(&self) -> String {
        self.shell.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn open(&self, spec: ShellSpec) -> BoxFuture<'static, Result<Arc<dyn TerminalShell>, ShellStartError>> {
        let launch = self.shell_launch(&spec);
        let mut env = self.environment.clone();
        launch.env.into_iter().for_each(|(name, value)| env.set(name, value));
        let size = PtySize { cols: spec.size.cols, rows: spec.size.rows };
        let spec = SpawnSpec {
            program: self.shell.clone(),
            args: launch.args,
            env,
            cwd: spec.directory,
            supervisor: self.supervisor.clone(),
            lock: None,
            redact: Vec::new(),
        };
        async move {
            let process = hostler_process::spawn_in_terminal(spec, size).await.map_err(|error| match error {
                SpawnError::NotFound(shell) => ShellStartError::NotFound(shell),
                error => ShellStartError::Failed(error.to_string()),
            })?;
            Ok(Arc::new(SupervisedShell::new(process)) as Arc<dyn TerminalShell>)
        }
        .boxed()
    }
}

struct SupervisedShell {
    /// Taken when the terminal is being ended: the system then sends a hangup.
    pty: Mutex<Option<Arc<Pty>>>,
    handle: ProcessHandle,
    /// When the shell's own end was noticed.
    exited_at: OnceLock<Instant>,
}

impl SupervisedShell {
    fn new(process: TerminalProcess) -> Self {
        Self { pty: Mutex::new(Some(Arc::new(process.pty))), handle: process.handle, exited_at: OnceLock::new() }
    }

    fn lock_pty(&self) -> MutexGuard<'_, Option<Arc<Pty>>> {
        self.pty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pty(&self) -> Option<Arc<Pty>> {
        self.lock_pty().clone()
    }
}

impl TerminalShell for SupervisedShell {
    fn read<'a>(&'a self, buffer: &'a mut [u8]) -> BoxFuture<'a, usize> {
        async {
            match self.pty() {
                Some(pty) => pty.read(buffer).await.unwrap_or(0),
                None => 0,
            }
        }
        .boxed()
    }

    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, usize> {
        async {
            match self.pty() {
                Some(pty) => pty.write(bytes).await.unwrap_or(0),
                None => 0,
            }
        }
        .boxed()
    }

    fn resize(&self, size: TerminalSize) {
        let Some(pty) = self.pty() else { return };
        if let Err(error) = pty.resize(PtySize { cols: size.cols, rows: size.rows }) {
            tracing::debug!(%error, "failed to resize terminal");
        }
    }

    fn wait(&self) -> BoxFuture<'_, CommandExit> {
        async {
            let exit = self.handle.wait_for_exit().await;
            let since = *self.exited_at.get_or_init(Instant::now);
            if tokio::time::timeout_at(since + SHELL_TREE_EXIT_TIMEOUT, self.handle.wait_until_tree_empty())
                .await
                .is_err()
            {
                tracing::warn!("processes of a shell are still running after its exit");
            }
            to_command_end(exit)
        }
        .boxed()
    }

    fn terminate(&self) -> BoxFuture<'_, ()> {
        self.lock_pty().take();
        self.handle.close(TerminationMode::Now).boxed()
    }
}
