//! Others who know the agent's conversations and nothing else of the first host.

use std::process::Stdio;

use hostler_testkit::peer::Peer;
use serde_json::Value;
use tokio::process::Command;

use crate::common::bench::Bench;
use crate::common::{Host, executable, finish, text};

/// A host with a state directory of its own; the agent's directory is the same.
pub(crate) struct Second {
    pub(crate) host: Host,
    pub(crate) peer: Peer,
}

impl Second {
    pub(crate) async fn start(bench: &Bench) -> Self {
        let env = [
            ("HOSTLER_UPSTREAM", "anthropic"),
            ("HOSTLER_UPSTREAM_URL", bench.upstream.url.as_str()),
            ("HOSTLER_UPSTREAM_KEY", "sk-of-the-test"),
            ("HOSTLER_CLAUDE", bench.build),
        ];
        let mut command = bench.home.serve_command(&[], &env);
        let state = bench.home.path("state-of-another");
        command.env("XDG_STATE_HOME", &state);
        let host = Host::start(command, &state.join("hostler")).await;
        let peer = host.peer().await;
        Self { host, peer }
    }

    /// The chat of the bench's session, as this host shows it.
    pub(crate) async fn chat(&self, bench: &Bench) -> Value {
        self.peer.snapshot(&bench.uris.session).await;
        serde_json::to_value(self.peer.chat(&bench.uris.chat).await).unwrap()
    }
}

/// Continues the bench's conversation as a person at a terminal does.
pub(crate) async fn in_the_terminal(bench: &Bench, prompt: &str) -> String {
    let conversation = bench.uris.session.strip_prefix("claude:/").unwrap();
    let executable = executable(bench.build);
    let mut command = match bench.build {
        "js" => {
            let mut command = Command::new("node");
            command.arg(&executable);
            command
        }
        _ => Command::new(&executable),
    };
    command
        .args(["--print", "--resume", conversation, "--", prompt])
        .current_dir(bench.home.work())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", bench.home.path("home"))
        .env("TMPDIR", bench.home.path("run"))
        .env("CLAUDE_CONFIG_DIR", bench.home.path("claude"))
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("ANTHROPIC_BASE_URL", &bench.upstream.url)
        .env("ANTHROPIC_API_KEY", "sk-of-the-test");
    let output = finish(command).await;
    assert!(output.status.success(), "{}: {}{}", bench.build, text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}
