//! Measured systems: the upstream itself, Hostler's gateway in front of it, and other gateways in front of it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::net::TcpStream;

/// How long a peer may take until it listens.
const PEER_START_TIMEOUT: Duration = Duration::from_secs(90);
const BEARER: &str = "bench-bearer";

/// System that answers Messages requests.
pub(super) struct MeasuredSystem {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    /// Head of every request to it.
    pub(super) head: String,
    pub(super) process: Option<MeasuredProcess>,
}

impl MeasuredSystem {
    /// Upstream, called directly.
    pub(super) fn direct(address: SocketAddr) -> Self {
        Self { name: "direct", address, head: head(address, "none"), process: None }
    }

    /// `hostler proxy` in front of that upstream.
    pub(super) fn hostler(upstream: SocketAddr) -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_hostler"));
        command
            .args(["proxy", "--listen", "127.0.0.1:0", "--upstream", "anthropic", "--upstream-url"])
            .arg(format!("http://{upstream}"))
            .current_dir(home.path())
            // Independent of the caller's environment.
            .env_clear()
            .env("HOME", home.path())
            .env("HOSTLER_UPSTREAM_KEY", "sk-bench")
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = MeasuredProcess::start(command, home);
        let mut lines = BufReader::new(process.child.stdout.take().expect("stdout")).lines();
        let mut line = |prefix| {
            let line = lines.next().expect("a line").expect("a line of text");
            line.strip_prefix(prefix).unwrap_or_else(|| panic!("{line:?} is not {prefix}…")).to_owned()
        };
        let port: u16 = line("READY:").parse().expect("a port");
        let nonce = line("NONCE:");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Self { name: "hostler", address, head: head(address, &format!("{nonce}.bench")), process: Some(process) }
    }

    /// Whether it gets the full load.
    pub(super) fn is_ours(&self) -> bool {
        ["direct", "hostler"].contains(&self.name)
    }
}

fn head(address: SocketAddr, bearer: &str) -> String {
    format!(
        "POST /v1/messages HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {bearer}\r\nx-api-key: {bearer}\r\n\
         anthropic-version: 2023-06-01\r\n"
    )
}

/// Starts the given peers; one that does not start is reported and skipped.
pub(super) async fn peers(arguments: &[String], upstream: SocketAddr) -> Vec<MeasuredSystem> {
    let home = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).map(PathBuf::from)
    };
    let mut peers = Vec::new();
    if let Some(home) = home("--claude-code-router") {
        peers.push(peer("claude-code-router", |port, own| router(&home, upstream, port, own)).await);
    }
    if let Some(home) = home("--litellm") {
        peers.push(peer("litellm", |port, own| litellm(&home, upstream, port, own)).await);
    }
    peers.into_iter().flatten().collect()
}

/// Starts a peer and waits until it accepts connections.
async fn peer(name: &'static str, command: impl FnOnce(u16, &Path) -> Command) -> Option<MeasuredSystem> {
    let own = tempfile::tempdir().expect("a temporary directory");
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.expect("a free port");
    let log = std::fs::File::create(own.path().join("log")).expect("a file");
    let mut command = command(address.port(), own.path());
    command.env("HOME", own.path()).stdin(Stdio::null());
    command.stdout(log.try_clone().expect("a file")).stderr(log);
    let mut process = MeasuredProcess::start(command, own);
    let deadline = Instant::now() + PEER_START_TIMEOUT;
    loop {
        if TcpStream::connect(address).await.is_ok() {
            return Some(MeasuredSystem { name, address, head: head(address, BEARER), process: Some(process) });
        }
        let ended = process.child.try_wait().ok().flatten();
        if ended.is_some() || Instant::now() > deadline {
            let log = std::fs::read_to_string(process.home.path().join("log")).unwrap_or_default();
            println!("{name} is not measured: it did not start.\n{log}");
            return None;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// npm's `@musistudio/claude-code-router`, configured to pass Anthropic's format through.
fn router(home: &Path, upstream: SocketAddr, port: u16, own: &Path) -> Command {
    let provider = serde_json::json!({
        "name": "mock",
        "api_base_url": format!("http://{upstream}/v1/messages"),
        "api_key": "sk-bench",
        "models": ["claude-sonnet-4-5"],
        "transformer": {"use": ["Anthropic"]},
    });
    let config = serde_json::json!({
        "HOST": "127.0.0.1", "PORT": port, "APIKEY": BEARER, "LOG": false, "NON_INTERACTIVE_MODE": true,
        "Providers": [provider],
        "Router": {"default": "mock,claude-sonnet-4-5"},
    });
    let directory = own.join(".claude-code-router");
    std::fs::create_dir_all(&directory).expect("a directory");
    std::fs::write(directory.join("config.json"), config.to_string()).expect("a file");
    let mut command = Command::new("node");
    command.arg(home.join("node_modules/@musistudio/claude-code-router/dist/cli.js")).arg("start");
    command
}

/// PyPI's LiteLLM with one worker, started as documented.
fn litellm(home: &Path, upstream: SocketAddr, port: u16, own: &Path) -> Command {
    let parameters = serde_json::json!({
        "model": "anthropic/claude-sonnet-4-5",
        "api_base": format!("http://{upstream}"),
        "api_key": "sk-bench",
    });
    let config = serde_json::json!({
        "model_list": [{"model_name": "claude-sonnet-4-5", "litellm_params": parameters}],
        "general_settings": {"master_key": BEARER},
    });
    // JSON is YAML.
    let file = own.join("config.yaml");
    std::fs::write(&file, config.to_string()).expect("a file");
    let mut command = Command::new("python3");
    command
        .args(["-c", "from litellm import run_server; run_server()", "--host", "127.0.0.1", "--config"])
        .arg(file)
        .args(["--port", &port.to_string(), "--telemetry", "False"])
        .env("PYTHONPATH", home)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
    command
}

/// Measured process; ended when dropped.
pub(super) struct MeasuredProcess {
    child: Child,
    home: TempDir,
}

impl MeasuredProcess {
    fn start(mut command: Command, home: TempDir) -> Self {
        Self { child: command.spawn().expect("the program starts"), home }
    }

    /// Returns the CPU time of all its threads.
    pub(super) fn cpu(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it is alive");
        let spent = tasks.flatten().filter_map(|task| {
            let line = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            line.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(spent.sum())
    }

    /// Returns the resident memory in MiB.
    pub(super) fn resident(&self) -> f64 {
        self.status("VmRSS:")
    }

    /// Returns the peak resident memory.
    pub(super) fn peak(&self) -> f64 {
        self.status("VmHWM:")
    }

    fn status(&self, name: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it is alive");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a size");
        line.trim().trim_end_matches("kB").trim().parse::<f64>().expect("a number") / 1024.0
    }
}

impl Drop for MeasuredProcess {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _ = self.child.wait();
    }
}
