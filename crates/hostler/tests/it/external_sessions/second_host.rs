//! Other programs that share only the agent's transcripts with the first host.

use std::io::Write as _;
use std::process::Stdio;

use hostler_testkit::test_client::TestClient;
use serde_json::Value;
use tokio::process::Command;

use crate::common::session_fixture::SessionFixture;
use crate::common::{HostProcess, claude_executable, list_files, run_to_end, text};

/// Host with a separate state directory; the agent's directory is shared.
pub(crate) struct SecondHost {
    pub(crate) host: HostProcess,
    pub(crate) peer: TestClient,
}

impl SecondHost {
    pub(crate) async fn start(bench: &SessionFixture) -> Self {
        let env = [
            ("HOSTLER_UPSTREAM", "anthropic"),
            ("HOSTLER_UPSTREAM_URL", bench.upstream.url.as_str()),
            ("HOSTLER_UPSTREAM_KEY", "sk-of-the-test"),
            ("HOSTLER_CLAUDE", bench.build),
        ];
        let mut command = bench.home.serve_command(&[], &env);
        let state = bench.home.path("state-of-another");
        command.env("XDG_STATE_HOME", &state);
        let host = HostProcess::start(command, &state.join("hostler")).await;
        let peer = host.connect().await;
        Self { host, peer }
    }

    /// Returns the chat of the fixture's session, as this host shows it.
    pub(crate) async fn chat(&self, bench: &SessionFixture) -> Value {
        self.peer.subscribe_snapshot(&bench.uris.session).await;
        serde_json::to_value(self.peer.chat_state(&bench.uris.chat).await).unwrap()
    }
}

/// Continues the fixture's conversation as a person at a terminal.
pub(crate) async fn continue_in_terminal(bench: &SessionFixture, prompt: &str) -> String {
    let output = run_to_end(terminal_command(bench, prompt)).await;
    assert!(output.status.success(), "{}: {}{}", bench.build, text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Returns the command with which a person at a terminal continues the fixture's conversation. It may run other
/// commands.
pub(crate) fn terminal_command(bench: &SessionFixture, prompt: &str) -> Command {
    let conversation = bench.uris.session.strip_prefix("claude:/").unwrap();
    let mut command = agent_command(bench);
    command.args(["--print", "--allowedTools=Bash", "--resume", conversation, "--", prompt]).stdin(Stdio::null());
    command
}

/// Returns the agent as a person starts it, beside the fixture's host.
pub(crate) fn agent_command(bench: &SessionFixture) -> Command {
    let executable = claude_executable(bench.build);
    let mut command = match bench.build {
        "js" => {
            let mut command = Command::new("node");
            command.arg(&executable);
            command
        }
        _ => Command::new(&executable),
    };
    command
        .current_dir(bench.home.work())
        .kill_on_drop(true)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", bench.home.path("home"))
        .env("TMPDIR", bench.home.path("run"))
        .env("CLAUDE_CONFIG_DIR", bench.home.path("claude"))
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("ANTHROPIC_BASE_URL", &bench.upstream.url)
        // An API key would have to be approved first.
        .env("ANTHROPIC_AUTH_TOKEN", "sk-of-the-test");
    command
}

/// Renames the fixture's conversation as a person at a terminal: writes the agent's record.
pub(crate) fn rename_in_terminal(bench: &SessionFixture, title: &str) {
    let conversation = bench.uris.session.strip_prefix("claude:/").unwrap();
    let name = format!("{conversation}.jsonl");
    let path = list_files(&bench.home.path("claude")).into_iter().find(|path| path.ends_with(&name)).unwrap();
    let record = format!(r#"{{"type":"custom-title","customTitle":{title:?},"sessionId":"{conversation}"}}"#);
    let mut file = std::fs::File::options().append(true).open(path).unwrap();
    writeln!(file, "{record}").unwrap();
}
