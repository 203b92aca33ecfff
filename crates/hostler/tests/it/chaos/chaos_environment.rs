//! Environment of a run: separate directories, a disk that can be full, and the host processes in them.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use uuid::Uuid;

use crate::chaos::run_plan::Agent;
use crate::common::{HostProcess, TEST_TIMEOUT, TestHome};

/// Inherited by agents and the shells below them.
const GENERATION_VARIABLE: &str = "CHAOS_LIFE";

/// How long the host's processes may outlive it: SIGTERM, a second, then SIGKILL; the rest allows for a busy
/// machine.
const PROCESS_EXIT_GRACE: Duration = Duration::from_secs(15);

/// Directories, and optionally a small disk for the host's state.
pub(crate) struct ChaosEnvironment {
    home: TestHome,
    agent: Agent,
    disk: Option<SmallDisk>,
    host_generations: Vec<String>,
}

/// Separate file system, in a mount namespace that lives as long as this value.
struct SmallDisk {
    holder: Child,
}

impl SmallDisk {
    async fn mount(directory: &std::path::Path) -> Self {
        let script = r#"mount -t tmpfs -o size=6m,mode=0700 tmpfs "$0" && echo mounted && read -r _"#;
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script]).arg(directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut holder = command.spawn().expect("`unshare` is needed, from util-linux");
        let mut answers = BufReader::new(holder.stdout.take().unwrap()).lines();
        let answer = tokio::time::timeout(TEST_TIMEOUT, answers.next_line()).await.unwrap().unwrap();
        assert_eq!(answer.as_deref(), Some("mounted"), "a mount namespace; are user namespaces switched off?");
        Self { holder }
    }

    fn pid(&self) -> u32 {
        self.holder.id().unwrap()
    }

    /// Returns the same path, as seen in the namespace.
    fn inside(&self, path: &std::path::Path) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{}", self.pid(), path.display()))
    }
}

impl ChaosEnvironment {
    pub(crate) async fn new(agent: Agent, small_disk: bool) -> Self {
        let home = TestHome::new();
        std::fs::create_dir(home.path("state")).unwrap();
        let disk = if small_disk { Some(SmallDisk::mount(&home.path("state")).await) } else { None };
        Self { home, agent, disk, host_generations: Vec::new() }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.home.work()
    }

    /// Starts the host again; returns it and its stdin, whose end stops it.
    pub(crate) async fn serve(&mut self) -> (HostProcess, ChildStdin) {
        let fake = hostler_testkit::fake_agent::ensure_built().unwrap();
        let claude = match self.agent {
            Agent::Fake => fake.to_str().unwrap(),
            Agent::Real(build) => build,
        };
        let life = Uuid::new_v4().to_string();
        let children = self.home.path("children");
        let env = [(GENERATION_VARIABLE, life.as_str()), ("FAKE_AGENT_PIDS", children.to_str().unwrap())];
        let args = ["--claude", claude, "--upstream", "scripted", "--exit-on-stdin-eof"];
        let mut command = self.home.serve_command(&args, &env);
        let mut state = self.home.path("state").join("hostler");
        if let Some(disk) = &self.disk {
            command = within(disk.pid(), &command);
            state = disk.inside(&state);
        }
        command.stdin(Stdio::piped());
        self.host_generations.push(life);
        let mut host = HostProcess::start(command, &state).await;
        // Waiting for a child closes its stdin.
        let stdin = host.child.stdin.take().unwrap();
        (host, stdin)
    }

    /// Fills the disk completely.
    pub(crate) fn fill_disk(&self) {
        let Some(disk) = &self.disk else { return };
        let mut file = std::fs::File::create(disk.inside(&self.filler_file())).unwrap();
        let zeros = [0; 4096];
        while file.write_all(&zeros).is_ok() {}
    }

    pub(crate) fn free_disk(&self) {
        if let Some(disk) = &self.disk {
            let _ = std::fs::remove_file(disk.inside(&self.filler_file()));
        }
    }

    fn filler_file(&self) -> PathBuf {
        self.home.path("state").join("filler")
    }

    /// Waits until no process of the hosts so far remains.
    pub(crate) async fn wait_until_no_processes(&self) {
        let deadline = Instant::now() + PROCESS_EXIT_GRACE;
        loop {
            let left = self.marked_processes();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "processes outlive their host:\n  {}", left.join("\n  "));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn marked_processes(&self) -> Vec<String> {
        let marks: Vec<_> = self.host_generations.iter().map(|life| format!("{GENERATION_VARIABLE}={life}")).collect();
        let is_ours = |pid: u32| {
            hostler_testkit::processes::read_environment(pid).iter().any(|entry| marks.iter().any(|mark| mark == entry))
        };
        let all = hostler_testkit::processes::list_processes().into_iter().filter(|process| is_ours(process.pid));
        all.map(|process| format!("{}: {}", process.pid, process.command)).collect()
    }
}

/// Returns the same command in the namespaces of a process.
fn within(pid: u32, command: &Command) -> Command {
    let command = command.as_std();
    let mut inner = Command::new("nsenter");
    inner.arg(format!("--target={pid}")).args(["--user", "--mount", "--preserve-credentials", "--"]);
    inner.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => inner.env(name, value),
            None => inner.env_remove(name),
        };
    }
    inner.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    inner
}
