//! Runs an SDK script: where it is installed, how it is started, and what it reports.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use crate::support::Fixture;

const PINS: &str = include_str!("../../../../xtask/pins.json");
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sdk {
    Node,
    Python,
}

impl Sdk {
    /// Runs the jobs; returns one result per job.
    pub(crate) async fn run(self, fixture: &Fixture, jobs: Value) -> Vec<Value> {
        self.run_as(fixture, fixture.bearer(), jobs).await
    }

    /// Runs the jobs with another bearer.
    pub(crate) async fn run_as(self, fixture: &Fixture, bearer: &str, jobs: Value) -> Vec<Value> {
        let mut running = self.start(&fixture.gateway.base_url(), bearer, &jobs);
        let facts = running.facts().await;
        running.end().await;
        facts
    }

    pub(crate) fn start(self, base_url: &str, bearer: &str, jobs: &Value) -> Running {
        let home = self.home();
        let (program, script) = match self {
            Self::Node => ("node", "client.mjs"),
            Self::Python => ("python3", "client.py"),
        };
        let own_home = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command
            .arg(Path::new(SCRIPTS).join(script))
            .arg(jobs.to_string())
            // Without proxies, keys or profiles of the environment that runs the tests.
            .env_clear()
            .envs(
                std::env::vars_os()
                    .filter(|(name, _)| ["PATH", "TEST_RUN", "TMPDIR"].iter().any(|passed| name == passed)),
            )
            .env("HOME", own_home.path())
            .env("SDK_HOME", &home)
            .env("PYTHONPATH", &home)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("ANTHROPIC_BASE_URL", base_url)
            .env("ANTHROPIC_AUTH_TOKEN", bearer)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{program} is needed for this test: {error}"));
        let stdin = child.stdin.take();
        Running { sdk: self, child, stdin, _home: own_home }
    }

    /// Where `cargo xtask setup` installs it.
    fn home(self) -> PathBuf {
        let name = match self {
            Self::Node => "sdk-node",
            Self::Python => "sdk-python",
        };
        let pins: Value = serde_json::from_str(PINS).unwrap();
        let (package, version) = (pins[name]["package"].as_str().unwrap(), pins[name]["version"].as_str().unwrap());
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = absolute("XDG_CACHE_HOME").unwrap_or_else(|| absolute("HOME").unwrap().join(".cache"));
        let home = cache.join("hostler/tools").join(format!("{name}-{version}"));
        assert!(
            home.join("installed.json").exists(),
            "{package} {version} is not installed at {}; run `cargo xtask setup`",
            home.display()
        );
        home
    }
}

/// A running script.
pub(crate) struct Running {
    sdk: Sdk,
    child: Child,
    /// The script exits when this is closed.
    stdin: Option<ChildStdin>,
    _home: tempfile::TempDir,
}

impl Running {
    /// The results, after all jobs are done.
    pub(crate) async fn facts(&mut self) -> Vec<Value> {
        let mut stdout = BufReader::new(self.child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).await.unwrap();
        if line.is_empty() {
            let mut complaint = String::new();
            self.child.stderr.take().unwrap().read_to_string(&mut complaint).await.unwrap();
            panic!(
                "{:?} reported nothing (`cargo xtask setup` installs it anew if it is broken): {complaint}",
                self.sdk
            );
        }
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) async fn end(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().await.unwrap().success());
    }
}
