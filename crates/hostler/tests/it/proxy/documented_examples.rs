//! Examples of `docs/gateway.md`, each run as a reader would.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use super::{ProxyProcess, scripted};
use crate::common::{TestHome, cache_home, run_to_end, text};

const GATEWAY_DOC: &str = include_str!("../../../../../docs/gateway.md");
const HELLO: &str = "Hello from the scripted model. You said: hi";

/// Returns the only block of a language.
fn block(language: &str) -> &'static str {
    let fence = format!("```{language}\n");
    let mut blocks = GATEWAY_DOC.split(&fence).skip(1).map(|rest| rest.split_once("\n```").unwrap().0);
    let block = blocks.next().unwrap();
    assert_eq!(blocks.next(), None, "one block of {language}");
    block
}

/// Returns a program with an environment of only the two documented variables.
fn reader(program: &str, argument: &str, home: &TestHome, proxy: &ProxyProcess) -> Command {
    let log = proxy.stderr_text();
    let variables = log.lines().filter_map(|line| line.strip_prefix("  export ")?.split_once('='));
    let mut command = Command::new(program);
    command
        .args(["-c", argument])
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "TEST_RUN"))
        .env("HOME", home.path("home"))
        .envs(variables)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

#[tokio::test]
async fn curl_and_sdk_examples_get_an_answer() {
    let home = TestHome::new();
    let proxy = scripted(&home, &[]).await;
    proxy.wait_for_log("export ANTHROPIC_AUTH_TOKEN=", 1).await;
    let mut command = reader("sh", block("sh"), &home, &proxy);
    if std::process::Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_err() {
        command.env("PATH", path_with_stand_in(&home));
    }
    let output = run_to_end(command).await;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert_eq!(answer["content"][0]["text"], HELLO);

    let mut command = reader("python3", block("python"), &home, &proxy);
    command.env("PYTHONPATH", sdk()).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = run_to_end(command).await;
    assert_eq!(text(&output.stdout).trim_end(), HELLO, "{}", text(&output.stderr));
    proxy.stop().await;
}

/// Substitute for the parts of curl that the page uses, for machines without it.
const CURL_SUBSTITUTE: &str = "#!/usr/bin/env python3
import sys, urllib.request
arguments = iter(sys.argv[1:])
url, headers, body = None, {}, None
for argument in arguments:
    if argument == '-H':
        name, value = next(arguments).split(': ', 1)
        headers[name] = value
    elif argument == '-d':
        body = next(arguments).encode()
    elif argument != '-s':
        url = argument
answer = urllib.request.urlopen(urllib.request.Request(url, body, headers))
sys.stdout.write(answer.read().decode())
";

fn path_with_stand_in(home: &TestHome) -> OsString {
    let bin = home.path("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("curl"), CURL_SUBSTITUTE).unwrap();
    std::fs::set_permissions(bin.join("curl"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut path = bin.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    path
}

/// Returns the directory of the Python SDK, installed by `cargo xtask setup`.
fn sdk() -> PathBuf {
    let tools = cache_home().join("hostler").join("tools");
    let found = std::fs::read_dir(&tools).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = found.filter(|path| path.join("anthropic").is_dir()).collect();
    found.sort();
    found.pop().unwrap_or_else(|| panic!("the Python SDK is not below {}; run `cargo xtask setup`", tools.display()))
}

#[tokio::test]
async fn documented_configuration_is_valid() {
    let home = TestHome::new();
    home.write_config(block("toml"));
    std::fs::write(home.path("config").join("hostler").join("cloud.key"), "sk-cloud").unwrap();
    let mut command = home.hostler_command(&["proxy"]);
    command.env("WORK_KEY", "sk-work");
    let proxy = ProxyProcess::start(command).await;
    assert_eq!(proxy.answer_text("@toy:claude-sonnet-4-5", "hi").await, HELLO);
    let log = proxy.stop().await;
    assert!(log.contains("Upstreams: work, cloud, toy.") && !log.contains("not a setting"), "{log}");
    let mut command = home.hostler_command(&["doctor"]);
    command.env("WORK_KEY", "sk-work");
    let report = text(&run_to_end(command).await.stdout);
    for part in ["work (anthropic, default) has a key in the variable WORK_KEY", "cloud.key"] {
        assert!(report.contains(part), "{part}: {report}");
    }
}

#[test]
fn every_upstream_key_is_documented() {
    for key in [
        "kind",
        "url",
        "bearer",
        "max-tokens-field",
        "github-url",
        "github-api-url",
        "api-url",
        "client-id",
        "integration-id",
        "mode",
        "key-env",
        "key-file",
        "key-keyring",
        "allowed-betas",
        "credential-store",
        "concurrent",
        "requests-per-minute",
        "session-requests",
        "session-tokens",
        "session-dollars",
        "day-requests",
        "day-tokens",
        "day-dollars",
        "cache-read",
        "cache-write",
        "input",
        "output",
    ] {
        assert!(GATEWAY_DOC.contains(&format!("`{key}`")), "{key}");
    }
}
