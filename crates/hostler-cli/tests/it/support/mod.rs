//! Scripted host behind the command line's ports, and a process environment made of values.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod gateway;
pub(crate) mod host;
pub(crate) mod installer;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use hostler_cli::{Console, Exit, HostEnvironment, Io, Signal, Signals, Wiring};
use hostler_driver::{ConfigurationItem, ConfigurationKind, WorkspaceConfiguration};
use hostler_telemetry::LogTap;
use tokio::sync::{mpsc, watch};

use gateway::{FakeDeviceLogin, FakeProxyLauncher, FakeVault};
use host::FakeHostLauncher;
use installer::FakeInstaller;

/// Captured output of a command; tests wait for it.
#[derive(Clone)]
pub(crate) struct CapturedOutput {
    text: Arc<watch::Sender<String>>,
    broken: bool,
}

impl CapturedOutput {
    pub(crate) fn new() -> Self {
        Self { text: Arc::new(watch::channel(String::new()).0), broken: false }
    }

    /// Output whose reader is gone.
    pub(crate) fn with_broken_pipe() -> Self {
        Self { broken: true, ..Self::new() }
    }

    pub(crate) fn text(&self) -> String {
        self.text.borrow().clone()
    }

    pub(crate) async fn wait_for(&self, part: &str) {
        self.text.subscribe().wait_for(|text| text.contains(part)).await.unwrap();
    }
}

impl Write for CapturedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let part = String::from_utf8(bytes.to_vec()).unwrap();
        self.text.send_modify(|text| text.push_str(&part));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Home directory, scratch directory, and one command to run in them.
pub(crate) struct CommandFixture {
    pub(crate) scratch: tempfile::TempDir,
    pub(crate) vars: Vec<(String, String)>,
    pub(crate) out: CapturedOutput,
    pub(crate) err: CapturedOutput,
    pub(crate) is_terminal: bool,
    pub(crate) stdin: Vec<u8>,
    pub(crate) signal: mpsc::Sender<Signal>,
    pub(crate) proxy_launcher: FakeProxyLauncher,
    pub(crate) credential_vault: FakeVault,
    pub(crate) device_login: FakeDeviceLogin,
    signals: Option<Signals>,
}

impl CommandFixture {
    pub(crate) fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("tmp")).unwrap();
        std::fs::create_dir(scratch.path().join("project")).unwrap();
        let (signal, signals) = Signals::channel();
        let home = scratch.path().display().to_string();
        Self {
            scratch,
            vars: vec![("HOME".into(), home)],
            out: CapturedOutput::new(),
            err: CapturedOutput::new(),
            is_terminal: false,
            stdin: Vec::new(),
            signal,
            proxy_launcher: FakeProxyLauncher::default(),
            credential_vault: FakeVault::default(),
            device_login: FakeDeviceLogin::default(),
            signals: Some(signals),
        }
    }

    pub(crate) fn on_terminal(mut self) -> Self {
        self.is_terminal = true;
        self
    }

    pub(crate) fn with_var(mut self, name: &str, value: &str) -> Self {
        self.vars.push((name.into(), value.into()));
        self
    }

    pub(crate) fn state_dir(&self) -> std::path::PathBuf {
        self.scratch.path().join(".local/state/hostler")
    }

    /// Writes the configuration file.
    pub(crate) fn write_config(&self, text: &str) -> std::path::PathBuf {
        let directory = self.scratch.path().join(".config/hostler");
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("config.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn environment(&self) -> HostEnvironment {
        let vars = self.vars.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let path = |name: &str| self.scratch.path().join(name);
        let mut environment = HostEnvironment::from_vars(vars, path("project"), path("tmp"));
        environment.stdin_is_terminal = self.is_terminal;
        environment.stdout_is_terminal = self.is_terminal;
        environment.stderr_is_terminal = self.is_terminal;
        environment
    }

    pub(crate) fn wiring(&self, launcher: &FakeHostLauncher) -> Wiring {
        Wiring {
            host_launcher: Arc::new(launcher.clone()),
            proxy_launcher: Arc::new(self.proxy_launcher.clone()),
            credential_vault: Arc::new(self.credential_vault.clone()),
            device_login: Arc::new(self.device_login.clone()),
            installers: vec![Arc::new(FakeInstaller::installed(self.scratch.path()))],
            doctor_checks: Vec::new(),
            folder_inspector: Arc::new(inspect),
            plans_dir: Some(self.scratch.path().join("plans")),
            log_tap: LogTap::default(),
            environment: self.environment(),
        }
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&mut self, args: &[&str], launcher: &FakeHostLauncher) -> Exit {
        let wiring = self.wiring(launcher);
        self.run_with_wiring(args, wiring).await
    }

    pub(crate) async fn run_with_wiring(&mut self, args: &[&str], wiring: Wiring) -> Exit {
        self.command(args, wiring).await
    }

    /// Returns the command as a future, so that the test can observe it.
    pub(crate) fn command(&mut self, args: &[&str], wiring: Wiring) -> impl Future<Output = Exit> + use<> {
        let mut io = Io {
            console: Console::with_writers(self.out.clone(), self.err.clone(), &wiring.environment),
            signals: self.signals.take().unwrap(),
            stdin: Box::new(io::Cursor::new(self.stdin.clone())),
        };
        let args: Vec<OsString> = std::iter::once("hostler").chain(args.iter().copied()).map(OsString::from).collect();
        async move { hostler_cli::execute(args, &wiring, &mut io).await }
    }
}

/// File that the fake driver reads as a folder's configuration: a line for each hook, or `problem: WHY`.
pub(crate) const FOLDER_CONFIGURATION_FILE: &str = "brings.txt";

fn inspect(directory: &Path) -> WorkspaceConfiguration {
    let Ok(text) = std::fs::read_to_string(directory.join(FOLDER_CONFIGURATION_FILE)) else {
        return WorkspaceConfiguration::default();
    };
    let item = |line: &str| ConfigurationItem {
        kind: ConfigurationKind::Hook,
        name: line.split('=').next().unwrap().to_owned(),
        source: FOLDER_CONFIGURATION_FILE.to_owned(),
        hash: line.to_owned(),
        blocked: line.starts_with("blocked").then(|| "Not supported.".to_owned()),
    };
    let problem = text.strip_prefix("problem: ").map(str::to_owned);
    let items = if problem.is_some() { Vec::new() } else { text.lines().map(item).collect() };
    WorkspaceConfiguration { fingerprint: text, items, problem, ..Default::default() }
}

/// Returns the names of a directory's entries.
pub(crate) fn entry_names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
