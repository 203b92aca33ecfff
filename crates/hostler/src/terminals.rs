//! The engine's port for shells in terminals, on processes under a supervisor.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_cli::TerminalOptions;
use hostler_engine::{CommandEnd, MAX_TERMINALS, SCROLLBACK, Shell, ShellSpec, Shells, TerminalSize, TerminalsConfig};
use hostler_process::{
    CloseMode, Environment, ProcessHandle, Pty, Size, SpawnError, SpawnSpec, SupervisorCommand, TerminalProcess,
};
use hostler_terminal::{Integration, Launch};
use tokio::time::Instant;

use crate::commands::{end_of, users_shell};

/// Where the scripts are that make shells tell of their commands, in the state directory.
const SCRIPTS: &str = "shell-integration";

/// What other programs say about terminals of theirs, which are not ours.
const OTHERS: [&str; 4] = ["VSCODE_", "ELECTRON_", "TERM_PROGRAM", "CLAUDECODE"];

/// How long what a shell has left behind may take to end. Some of it may be beyond our reach: another user's process, say.
const REST: Duration = Duration::from_secs(5);

/// What terminals are made of; nothing if they are switched off.
pub(crate) fn config(
    options: &TerminalOptions,
    environment: Environment,
    supervisor: SupervisorCommand,
    state: &Path,
) -> Option<TerminalsConfig> {
    (!options.off).then(|| TerminalsConfig {
        shells: Arc::new(Supervised::new(options.shell.clone(), environment, supervisor, state.join(SCRIPTS))),
        max: options.max.unwrap_or(MAX_TERMINALS),
        scrollback: options.scrollback.unwrap_or(SCROLLBACK),
    })
}

struct Supervised {
    shell: PathBuf,
    environment: Environment,
    supervisor: SupervisorCommand,
    scripts: PathBuf,
}

impl Supervised {
    fn new(
        shell: Option<PathBuf>,
        mut environment: Environment,
        supervisor: SupervisorCommand,
        scripts: PathBuf,
    ) -> Self {
        let shell = shell.unwrap_or_else(|| users_shell(&environment).into());
        OTHERS.iter().for_each(|name| environment.remove_prefix(name));
        environment.set("TERM", "xterm-256color");
        environment.set("COLORTERM", "truecolor");
        environment.set("TERM_PROGRAM", "hostler");
        environment.set("SHELL", &shell);
        Self { shell, environment, supervisor, scripts }
    }

    /// How the shell is started. Where the scripts cannot be written it does not tell of its commands.
    fn launch(&self, spec: &ShellSpec) -> Launch {
        let zdotdir = self.environment.get("ZDOTDIR").map(OsString::from);
        match Integration::install(&self.scripts) {
            Ok(integration) => integration.launch(&self.shell, &spec.nonce, zdotdir),
            Err(error) => {
                tracing::warn!(%error, "the scripts for shells could not be written: terminals tell of no commands");
                Launch::default()
            }
        }
    }
}

impl Shells for Supervised {
    fn title(&self) -> String {
        self.shell.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn open(&self, spec: ShellSpec) -> BoxFuture<'static, Result<Arc<dyn Shell>, String>> {
        let launch = self.launch(&spec);
        let mut env = self.environment.clone();
        launch.env.into_iter().for_each(|(name, value)| env.set(name, value));
        let size = Size { cols: spec.size.cols, rows: spec.size.rows };
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
                SpawnError::NotFound(shell) => {
                    format!("{} was not found; name another one by `terminal-shell`", shell.display())
                }
                error => error.to_string(),
            })?;
            Ok(Arc::new(Running::new(process)) as Arc<dyn Shell>)
        }
        .boxed()
    }
}

struct Running {
    /// Gone when it is being ended: then the system hangs up.
    pty: Mutex<Option<Arc<Pty>>>,
    handle: ProcessHandle,
    /// When its own end was noticed.
    exited: OnceLock<Instant>,
}

impl Running {
    fn new(process: TerminalProcess) -> Self {
        Self { pty: Mutex::new(Some(Arc::new(process.pty))), handle: process.handle, exited: OnceLock::new() }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Pty>>> {
        self.pty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pty(&self) -> Option<Arc<Pty>> {
        self.slot().clone()
    }
}

impl Shell for Running {
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
        if let Err(error) = pty.resize(Size { cols: size.cols, rows: size.rows }) {
            tracing::debug!(%error, "a terminal did not take its size");
        }
    }

    fn ended(&self) -> BoxFuture<'_, CommandEnd> {
        async {
            let exit = self.handle.exited().await;
            let since = *self.exited.get_or_init(Instant::now);
            if tokio::time::timeout_at(since + REST, self.handle.tree_empty()).await.is_err() {
                tracing::warn!("something that a shell has started goes on after its end");
            }
            end_of(exit)
        }
        .boxed()
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        self.slot().take();
        self.handle.close(CloseMode::Now).boxed()
    }
}
