//! A scripted host behind the command line's ports, and a process that is only values.

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

use gateway::{FakeLogin, FakeProxies, FakeVault};
use host::FakeLauncher;
use installer::FakeInstaller;

/// What a command writes; tests wait for it.
#[derive(Clone)]
pub(crate) struct Output {
    text: Arc<watch::Sender<String>>,
    broken: bool,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { text: Arc::new(watch::channel(String::new()).0), broken: false }
    }

    /// Nobody reads it.
    pub(crate) fn broken() -> Self {
        Self { broken: true, ..Self::new() }
    }

    pub(crate) fn text(&self) -> String {
        self.text.borrow().clone()
    }

    pub(crate) async fn wait_for(&self, part: &str) {
        self.text.subscribe().wait_for(|text| text.contains(part)).await.unwrap();
    }
}

impl Write for Output {
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

/// A home directory, a scratch directory, and one command to run in them.
pub(crate) struct Stage {
    pub(crate) scratch: tempfile::TempDir,
    pub(crate) vars: Vec<(String, String)>,
    pub(crate) out: Output,
    pub(crate) err: Output,
    pub(crate) terminal: bool,
    pub(crate) stdin: Vec<u8>,
    pub(crate) signal: mpsc::Sender<Signal>,
    pub(crate) proxies: FakeProxies,
    pub(crate) vault: FakeVault,
    pub(crate) login: FakeLogin,
    signals: Option<Signals>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("tmp")).unwrap();
        std::fs::create_dir(scratch.path().join("project")).unwrap();
        let (signal, signals) = Signals::channel();
        let home = scratch.path().display().to_string();
        Self {
            scratch,
            vars: vec![("HOME".into(), home)],
            out: Output::new(),
            err: Output::new(),
            terminal: false,
            stdin: Vec::new(),
            signal,
            proxies: FakeProxies::default(),
            vault: FakeVault::default(),
            login: FakeLogin::default(),
            signals: Some(signals),
        }
    }

    pub(crate) fn on_terminal(mut self) -> Self {
        self.terminal = true;
        self
    }

    pub(crate) fn var(mut self, name: &str, value: &str) -> Self {
        self.vars.push((name.into(), value.into()));
        self
    }

    pub(crate) fn state_dir(&self) -> std::path::PathBuf {
        self.scratch.path().join(".local/state/hostler")
    }

    /// Writes the configuration file.
    pub(crate) fn configure(&self, text: &str) -> std::path::PathBuf {
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
        environment.stdin_is_terminal = self.terminal;
        environment.stdout_is_terminal = self.terminal;
        environment.stderr_is_terminal = self.terminal;
        environment
    }

    pub(crate) fn wiring(&self, launcher: &FakeLauncher) -> Wiring {
        Wiring {
            launcher: Arc::new(launcher.clone()),
            proxies: Arc::new(self.proxies.clone()),
            vault: Arc::new(self.vault.clone()),
            device_login: Arc::new(self.login.clone()),
            installers: vec![Arc::new(FakeInstaller::installed(self.scratch.path()))],
            doctor: Vec::new(),
            inspect: Arc::new(inspect),
            plans: Some(self.scratch.path().join("plans")),
            log: LogTap::default(),
            environment: self.environment(),
        }
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&mut self, args: &[&str], launcher: &FakeLauncher) -> Exit {
        let wiring = self.wiring(launcher);
        self.run_wired(args, wiring).await
    }

    pub(crate) async fn run_wired(&mut self, args: &[&str], wiring: Wiring) -> Exit {
        self.command(args, wiring).await
    }

    /// The command as a future of its own, so that the test can watch it.
    pub(crate) fn command(&mut self, args: &[&str], wiring: Wiring) -> impl Future<Output = Exit> + use<> {
        let mut io = Io {
            console: Console::to_writers(self.out.clone(), self.err.clone(), &wiring.environment),
            signals: self.signals.take().unwrap(),
            stdin: Box::new(io::Cursor::new(self.stdin.clone())),
        };
        let args: Vec<OsString> = std::iter::once("hostler").chain(args.iter().copied()).map(OsString::from).collect();
        async move { hostler_cli::execute(args, &wiring, &mut io).await }
    }
}

/// The file of a folder that a fake driver reads: a line for each hook, or `problem: WHY`.
pub(crate) const BRINGS: &str = "brings.txt";

fn inspect(directory: &Path) -> WorkspaceConfiguration {
    let Ok(text) = std::fs::read_to_string(directory.join(BRINGS)) else { return WorkspaceConfiguration::default() };
    let item = |line: &str| ConfigurationItem {
        kind: ConfigurationKind::Hook,
        name: line.split('=').next().unwrap().to_owned(),
        source: BRINGS.to_owned(),
        hash: line.to_owned(),
        blocked: line.starts_with("blocked").then(|| "Not supported.".to_owned()),
    };
    let problem = text.strip_prefix("problem: ").map(str::to_owned);
    let items = if problem.is_some() { Vec::new() } else { text.lines().map(item).collect() };
    WorkspaceConfiguration { fingerprint: text, items, problem, ..Default::default() }
}

/// The names of what is in a directory.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
