//! Claude Code, both builds, as a client of the proxy, configured by two variables only.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::{ProxyProcess, scripted};
use crate::common::{BUILDS, TEST_TIMEOUT, TestHome, claude_executable, text};

/// Output of Claude Code for one prompt.
struct ClaudeOutput {
    lines: Vec<Value>,
}

impl ClaudeOutput {
    fn result(&self) -> &Value {
        self.lines.iter().rev().find(|line| line["type"] == "result").unwrap_or_else(|| panic!("{:#?}", self.lines))
    }

    /// Returns the joined deltas of a type.
    fn streamed(&self, kind: &str, field: &str) -> String {
        let deltas = self.lines.iter().map(|line| &line["event"]["delta"]).filter(|delta| delta["type"] == kind);
        deltas.filter_map(|delta| delta[field].as_str()).collect()
    }

    fn retries(&self) -> usize {
        self.lines.iter().filter(|line| line["subtype"] == "api_retry").count()
    }
}

/// Runs `claude -p` with the two variables that the proxy prints.
async fn claude(build: &str, home: &TestHome, proxy: &ProxyProcess, prompt: &str) -> ClaudeOutput {
    let mut command = claude_command(build, home, proxy, prompt);
    let output = tokio::time::timeout(TEST_TIMEOUT, command.output()).await.expect("claude ends").unwrap();
    let printed = text(&output.stdout);
    let lines = printed.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")));
    ClaudeOutput { lines: lines.collect() }
}

fn claude_command(build: &str, home: &TestHome, proxy: &ProxyProcess, prompt: &str) -> Command {
    let path = claude_executable(build);
    let mut command = if build == "js" {
        let mut command = Command::new("node");
        command.arg(path);
        command
    } else {
        Command::new(path)
    };
    command
        .args(["-p", prompt, "--output-format", "stream-json", "--verbose", "--include-partial-messages"])
        .args(["--model", "claude-sonnet-4-5", "--allowedTools", "Bash,Read"])
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "TEST_RUN"))
        .env("HOME", home.path("home"))
        .env("CLAUDE_CONFIG_DIR", home.path("claude"))
        .env("TMPDIR", home.path("run"))
        .env("ANTHROPIC_BASE_URL", proxy.base_url())
        .env("ANTHROPIC_AUTH_TOKEN", proxy.bearer())
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_AUTOUPDATER", "1")
        .env("CLAUDE_CODE_MAX_RETRIES", "1")
        .current_dir(home.work())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_streams_thinks_and_uses_tools() {
    for build in BUILDS {
        let home = TestHome::new();
        let proxy = scripted(&home, &["--log-requests"]).await;
        let answer = claude(build, &home, &proxy, "!think Let me see.\n!say Hello, streamed world").await;
        assert_eq!(answer.result()["is_error"], false, "{build}: {}", answer.result());
        assert_eq!(answer.result()["result"], "Hello, streamed world", "{build}");
        assert_eq!(answer.streamed("text_delta", "text"), "Hello, streamed world", "{build}");
        assert_eq!(answer.streamed("thinking_delta", "thinking"), "Let me see.", "{build}");

        std::fs::write(home.work().join("note.txt"), "treasure").unwrap();
        let prompt = format!(
            "!tool Bash {{\"command\":\"echo made > made.txt\",\"description\":\"x\"}}\n!tool Read {{\"file_path\":\"{}\"}}\n!say done",
            home.work().join("note.txt").display()
        );
        let answer = claude(build, &home, &proxy, &prompt).await;
        assert_eq!(answer.result()["result"], "done", "{build}: {}", answer.result());
        assert_eq!(std::fs::read_to_string(home.work().join("made.txt")).unwrap(), "made\n", "{build}");
        assert!(
            answer.lines.iter().any(|line| line["type"] == "user" && line.to_string().contains("treasure")),
            "{build}"
        );
        proxy.wait_for_log(" answered\n", 3).await;
        let log = proxy.stop().await;
        assert!(
            log.contains("POST /v1/messages model=claude-sonnet-4-5 upstream=scripted status=200"),
            "{build}: {log}"
        );
        assert!(!log.contains("treasure") && !log.contains("streamed world"), "{build}: {log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_retried_as_with_the_provider() {
    for build in BUILDS {
        let home = TestHome::new();
        let proxy = scripted(&home, &["--log-requests"]).await;
        for (status, tried_again) in [(401, true), (429, true), (529, true), (500, true), (403, false)] {
            let answer = claude(build, &home, &proxy, &format!("!error {status} No, sir.")).await;
            assert_eq!(answer.result()["is_error"], true, "{build} {status}: {}", answer.result());
            assert_eq!(answer.result()["api_error_status"], status, "{build} {status}: {}", answer.result());
            assert_eq!(answer.retries(), usize::from(tried_again), "{build} {status}");
            let log = proxy.wait_for_log(&format!(" status={status} "), 1 + usize::from(tried_again)).await;
            assert!(!log.contains("No, sir."), "{build}: {log}");
        }
        proxy.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_request_itself_reach_the_user() {
    for build in BUILDS {
        let home = TestHome::new();
        let proxy = scripted(&home, &["--log-requests"]).await;
        for status in [400, 404, 413] {
            let answer = claude(build, &home, &proxy, &format!("!error {status} No, sir.")).await;
            assert_eq!(answer.result()["is_error"], true, "{build} {status}: {}", answer.result());
            proxy.wait_for_log(&format!(" status={status} "), 1).await;
        }
        proxy.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_agent_ends_its_request() {
    for build in BUILDS {
        let home = TestHome::new();
        let proxy = scripted(&home, &["--log-requests"]).await;
        let mut command = claude_command(build, &home, &proxy, "!say begun\n!hang");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let begun = async { while !lines.next_line().await.unwrap().expect("the turn continues").contains("begun") {} };
        tokio::time::timeout(TEST_TIMEOUT, begun).await.expect("it begins to answer");
        child.kill().await.unwrap();
        proxy.wait_for_log(" client-left\n", 1).await;
        proxy.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_stream_is_an_error_that_each_build_handles() {
    for build in BUILDS {
        let home = TestHome::new();
        let proxy = scripted(&home, &["--log-requests"]).await;
        let answer = claude(build, &home, &proxy, "!say begun\n!cut").await;
        assert!(answer.streamed("text_delta", "text").starts_with("begun"), "{build}");
        proxy.wait_for_log(" broken-off\n", 1).await;
        let result = answer.result();
        if build == "js" {
            assert_eq!(result["is_error"], true, "{build}: {result}");
            assert!(result["result"].as_str().unwrap().contains("the response was interrupted"), "{build}: {result}");
        } else {
            // It asks the model to continue where it stopped.
            proxy.wait_for_log(" answered\n", 1).await;
            assert_eq!(result["is_error"], false, "{build}: {result}");
        }
        proxy.stop().await;
    }
}
