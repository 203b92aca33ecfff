//! Drives the executable directly, with the arguments and the environment that the host gave its own agent.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use uuid::Uuid;

/// Command line and environment of an agent.
pub(crate) struct AgentLaunch {
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl AgentLaunch {
    /// Copies those of a running agent, with another conversation and directly to the model.
    pub(crate) fn from_running_agent(pid: u32, model: &str) -> Self {
        let read = |name: &str| {
            let bytes = std::fs::read(format!("/proc/{pid}/{name}")).expect("the agent is alive");
            let entries = bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
            entries.map(|entry| String::from_utf8_lossy(entry).into_owned()).collect::<Vec<_>>()
        };
        let env: Vec<_> = read("environ").iter().filter_map(|entry| entry.split_once('=')).map(own).collect();
        let gateway = env.iter().find(|(name, _)| name == "ANTHROPIC_BASE_URL").expect("a gateway").1.clone();
        let swap = |text: &str| text.replace(&gateway, model);
        let mut arguments = read("cmdline").into_iter();
        let program = arguments.next().expect("a program");
        let args = arguments
            .filter(|argument| !argument.starts_with("--session-id"))
            // The host removes the directories of its agent when the agent ends.
            .filter(|argument| !argument.contains("=/"))
            .map(|argument| swap(&argument))
            .collect();
        Self { program, args, env: env.into_iter().map(|(name, value)| (name, swap(&value))).collect() }
    }
}

fn own((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Running agent after its handshake.
pub(crate) struct DirectAgent {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    line: String,
}

impl DirectAgent {
    pub(crate) async fn start(launch: &AgentLaunch, directory: &Path) -> Self {
        let mut command = Command::new(&launch.program);
        command.args(&launch.args).arg(format!("--session-id={}", Uuid::new_v4()));
        command.env_clear().envs(launch.env.iter().cloned()).current_dir(directory).kill_on_drop(true);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
        let (stdin, stdout) = (child.stdin.take().expect("stdin"), child.stdout.take().expect("stdout"));
        let mut agent = Self { child, stdin, stdout: BufReader::with_capacity(1 << 16, stdout), line: String::new() };
        let hooks = json!({"PreToolUse": [{"hookCallbackIds": ["h"]}]});
        let request = json!({"subtype": "initialize", "hooks": hooks});
        agent.write(json!({"type": "control_request", "request_id": "i", "request": request})).await;
        while agent.read().await["type"] != "control_response" {}
        agent
    }

    async fn write(&mut self, value: Value) {
        self.stdin.write_all(format!("{value}\n").as_bytes()).await.expect("the agent reads");
    }

    async fn read(&mut self) -> Value {
        self.line.clear();
        assert!(self.stdout.read_line(&mut self.line).await.expect("a line") > 0, "the agent ended");
        serde_json::from_str(&self.line).expect("JSON")
    }

    async fn prompt(&mut self, text: &str) {
        let message = json!({"role": "user", "content": text});
        let line = json!({"type": "user", "session_id": "", "message": message, "parent_tool_use_id": null, "uuid": Uuid::new_v4()});
        self.write(line).await;
    }

    /// Returns when the deltas of a turn arrived.
    pub(crate) async fn delta_arrivals(&mut self, text: &str) -> Vec<Instant> {
        self.prompt(text).await;
        let mut arrivals = Vec::new();
        loop {
            let message = self.read().await;
            let at = Instant::now();
            if message["event"]["type"] == "content_block_delta" {
                arrivals.push(at);
            }
            if message["type"] == "result" {
                return arrivals;
            }
        }
    }

    /// Runs a whole turn; returns when its first delta arrived, and when it ended.
    pub(crate) async fn run_turn(&mut self, text: &str) -> (Instant, Instant) {
        let arrivals = self.delta_arrivals(text).await;
        (arrivals.first().copied().expect("a delta"), Instant::now())
    }

    pub(crate) async fn stop(mut self) {
        let _ = self.child.kill().await;
    }
}
