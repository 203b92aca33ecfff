//! The real binary as a user starts it, in separate directories.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

pub mod blocking_command;
pub mod cuttable_connection;
pub mod github_mock;
pub mod proxy_process;
pub mod scripted_upstream;
pub mod session_fixture;

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hostler_claude::install::{ClaudeInstaller, InstallerConfig};
use hostler_driver::Installer as _;
use hostler_process::SupervisorCommand;
use hostler_testkit::processes::{self, ProcessInfo};
use hostler_testkit::test_client::TestClient;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

/// Both builds of the real agent; every test that uses them runs on each.
pub const BUILDS: [&str; 2] = ["native", "js"];

/// Timeout of each wait in a test.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(90);

/// Home, state, work and runtime directories of one user.
pub struct TestHome {
    dir: TempDir,
}

impl TestHome {
    pub fn new() -> Self {
        let home = Self { dir: tempfile::Builder::new().prefix("hostler-test-").tempdir().unwrap() };
        for name in ["home", "work", "run", "claude"] {
            std::fs::create_dir(home.path(name)).unwrap();
        }
        home
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// Writes the user's configuration file.
    pub fn write_config(&self, toml: &str) {
        let directory = self.path("config").join("hostler");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("config.toml"), toml).unwrap();
    }

    /// Returns a command of the real binary in this home. The cache with the installed agents is the machine's.
    pub fn hostler_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hostler"));
        command.args(args).current_dir(self.work()).stdin(Stdio::null()).kill_on_drop(true);
        for variable in [
            "HOSTLER_UPSTREAM_KEY",
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "NO_COLOR",
            "GITHUB_TOKEN",
            "OPENAI_API_KEY",
            "DBUS_SESSION_BUS_ADDRESS",
        ] {
            command.env_remove(variable);
        }
        command
            .env("XDG_CACHE_HOME", cache_home())
            .env("HOME", self.path("home"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("CLAUDE_CONFIG_DIR", self.path("claude"))
            .env("TMPDIR", self.path("run"))
            // Scripts for the model look like shell commands.
            .env("HOSTLER_NO_SHELL_COMMANDS", "true");
        command
    }

    /// Starts a host on the scripted model with one of the managed builds.
    pub async fn serve(&self, build: &str) -> HostProcess {
        self.serve_with(&["--claude", build, "--upstream", "scripted"], &[]).await
    }

    /// Starts a host with the fake agent.
    pub async fn serve_fake(&self, env: &[(&str, &str)]) -> HostProcess {
        let agent = hostler_testkit::fake_agent::ensure_built().unwrap();
        self.serve_with(&["--claude", agent.to_str().unwrap(), "--upstream", "scripted"], env).await
    }

    pub async fn serve_with(&self, args: &[&str], env: &[(&str, &str)]) -> HostProcess {
        HostProcess::start(self.serve_command(args, env), &self.path("state").join("hostler")).await
    }

    /// Returns `hostler serve` on a free port, to be modified before it starts.
    pub fn serve_command(&self, args: &[&str], env: &[(&str, &str)]) -> Command {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0"];
        all.extend(args);
        let mut command = self.hostler_command(&all);
        command.envs(env.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Returns the audit log of a session, as `hostler sessions export --audit` prints it.
    pub async fn export_audit_log(&self, session: &str) -> Vec<Value> {
        let mut command = self.hostler_command(&["sessions", "export", session, "--audit"]);
        command.env("HOSTLER_UPSTREAM", "scripted");
        let output = run_to_end(command).await;
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the conversation locks that are held or left.
    pub fn locks(&self) -> Vec<PathBuf> {
        list_files(&self.path("run"))
            .into_iter()
            .filter(|path| path.extension().is_some_and(|end| end == "lock"))
            .collect()
    }
}

/// Runs a command to its end.
pub async fn run_to_end(mut command: Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    tokio::time::timeout(TEST_TIMEOUT, command.output()).await.expect("the command ends").unwrap()
}

/// Returns a command's output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Trusts a folder with its current configuration, as a client.
pub async fn trust_folder(peer: &TestClient, directory: &Path) {
    let mut params = json!({"channel": ahp_types::ROOT_RESOURCE_URI, "directory": directory});
    let seen: Value = peer.client.request("hostler/checkTrust", params.clone()).await.unwrap();
    params["decision"] = "trust".into();
    params["fingerprint"] = seen["configuration"]["fingerprint"].clone();
    let report: Value = peer.client.request("hostler/setTrust", params).await.unwrap();
    assert_eq!(report["state"], "trusted", "{report}");
}

/// Returns all files below a directory.
pub fn list_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(directory) else { return found };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(list_files(&entry.path())),
            Ok(_) => found.push(entry.path()),
            Err(_) => {}
        }
    }
    found
}

/// Returns the installed Claude Code of a build.
pub fn claude_executable(build: &str) -> PathBuf {
    let environment = std::env::vars_os().collect();
    let config = InstallerConfig::for_this_machine(cache_home().join("hostler"), environment, supervisor_command());
    let installed = ClaudeInstaller::new(config).installed_build(build);
    installed.unwrap_or_else(|| panic!("run `hostler agents install claude --build {build}`")).path
}

/// Returns the real binary as a supervisor.
pub fn supervisor_command() -> SupervisorCommand {
    SupervisorCommand { program: env!("CARGO_BIN_EXE_hostler").into(), args: vec!["supervise".into()] }
}

pub fn cache_home() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
    std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from)
}

/// Running `hostler serve`.
pub struct HostProcess {
    pub child: Child,
    pub port: u16,
    pub pid: u32,
    token: String,
    stdout: BufReader<ChildStdout>,
    stderr: Arc<Mutex<String>>,
}

impl HostProcess {
    /// Starts a host and waits until it is ready; `state` is its state directory.
    pub async fn start(mut command: Command, state: &Path) -> Self {
        let mut child = command.spawn().unwrap();
        let stderr = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let log = Arc::clone(&stderr);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let mut log = log.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        let read = tokio::time::timeout(TEST_TIMEOUT, stdout.read_line(&mut ready)).await;
        let port = ready.trim_end().strip_prefix("READY:").and_then(|port| port.parse().ok());
        let Some(port) = port else { panic!("no READY line but {read:?} {ready:?}\n{}", stderr.lock().unwrap()) };
        let token = std::fs::read_to_string(state.join("token")).unwrap().trim().to_owned();
        let pid = child.id().unwrap();
        Self { child, port, pid, token, stdout, stderr }
    }

    pub fn url(&self) -> String {
        format!("ws://127.0.0.1:{}/?tkn={}", self.port, self.token)
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    pub async fn connect(&self) -> TestClient {
        TestClient::connect(&self.url()).await
    }

    /// Returns the stderr output so far.
    pub fn stderr_text(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Waits until stderr contains a text.
    pub async fn wait_for_log(&self, part: &str) {
        let waiting = async {
            while !self.stderr_text().contains(part) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let logged = tokio::time::timeout(TEST_TIMEOUT, waiting).await;
        assert!(logged.is_ok(), "{part:?} was not logged:\n{}", self.stderr_text());
    }

    pub fn agents(&self) -> Vec<ProcessInfo> {
        processes::agent_processes(self.pid)
    }

    /// Returns the only agent.
    pub fn only_agent(&self) -> ProcessInfo {
        let agents = self.agents();
        assert_eq!(agents.len(), 1, "{agents:#?}");
        agents[0].clone()
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.pid).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Returns all descendants of the host.
    pub fn process_tree(&self) -> Vec<u32> {
        processes::descendants(self.pid).into_iter().map(|process| process.pid).collect()
    }

    /// Waits for the host's end.
    pub async fn wait_for_exit(&mut self) -> std::process::ExitStatus {
        tokio::time::timeout(TEST_TIMEOUT, self.child.wait()).await.expect("the host ends").unwrap()
    }

    /// Stops with SIGTERM; expects exit code 0 and nothing on stdout but the ready line.
    pub async fn stop(mut self) -> String {
        let tree = self.process_tree();
        self.signal(nix::sys::signal::Signal::SIGTERM);
        let status = self.wait_for_exit().await;
        assert_eq!(status.code(), Some(0), "{}", self.stderr_text());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "", "stdout holds the READY line alone");
        let left = processes::wait_for_exit(&tree).await;
        assert!(left.is_empty(), "remaining processes: {left:#?}");
        self.stderr_text()
    }
}
