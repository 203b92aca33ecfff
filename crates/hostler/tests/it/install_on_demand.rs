//! A missing agent is installed when a session first needs it, and waiting clients receive its progress.

use std::path::Path;

use crate::common::session_fixture::wait_until;
use crate::common::{HostProcess, TestHome, run_to_end, text};
use hostler_testkit::processes;
use hostler_testkit::raw_client::RawClient;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use uuid::Uuid;

/// Home without Claude Code, and with an npm that the test controls.
fn home(behaviour: &str) -> TestHome {
    let home = TestHome::new();
    let bin = home.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hostler-claude/tests/it/install/fake-npm");
    std::os::unix::fs::symlink(fake, bin.join("npm")).unwrap();
    std::os::unix::fs::symlink("/bin/sh", bin.join("node")).unwrap();
    std::fs::write(bin.join("behaviour"), behaviour).unwrap();
    home
}

/// npm that installs the fake agent when the test releases it.
fn good() -> String {
    let agent = hostler_testkit::fake_agent::ensure_built().unwrap();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo '2.1.325 (Claude Code)' && exit\nexec {} \"$@\"",
        agent.display()
    );
    format!("until_exists go\npackage claude '{}'", script.replace('\'', "'\\''"))
}

async fn serve(home: &TestHome, env: &[(&str, &str)]) -> HostProcess {
    let mut command = home.serve_command(&["--upstream", "scripted"], env);
    let path = format!("{}:/usr/bin:/bin", home.path("bin").display());
    command.env("PATH", path).env("XDG_CACHE_HOME", home.path("cache"));
    HostProcess::start(command, &home.path("state").join("hostler")).await
}

/// Creates a session; also returns messages received before the answer.
async fn create(raw: &mut RawClient, home: &TestHome, token: &str) -> (String, Vec<Value>) {
    let session = format!("claude:/{}", Uuid::new_v4());
    let directory = format!("file://{}", home.work().display());
    let params = json!({"channel": session, "workingDirectories": [directory], "progressToken": token});
    raw.send(json!({"jsonrpc": "2.0", "id": session, "method": "createSession", "params": params}).to_string()).await;
    let mut received = Vec::new();
    loop {
        let message = raw.receive().await.expect("an answer");
        if message["id"] == session.as_str() {
            assert!(message.get("error").is_none(), "{message}");
            return (session, received);
        }
        received.push(message);
    }
}

/// Returns the progress steps up to the last one.
async fn steps(raw: &mut RawClient, received: Vec<Value>, token: &str) -> Vec<Value> {
    let mut steps: Vec<Value> = Vec::new();
    let mut received = received.into_iter();
    loop {
        let mut message = match received.next() {
            Some(message) => message,
            None => raw.receive().await.expect("a step"),
        };
        if message["method"] != "root/progress" {
            continue;
        }
        let step = message["params"].take();
        assert_eq!((&step["channel"], &step["progressToken"]), (&json!("ahp-root://"), &json!(token)));
        let before = steps.last().map_or(0, |step| step["progress"].as_i64().unwrap());
        assert!(step["progress"].as_i64().unwrap() >= before, "{step} after {steps:#?}");
        let over = step["progress"] == step["total"];
        steps.push(step);
        if over {
            return steps;
        }
    }
}

/// Returns all of a turn up to its end.
async fn turn(raw: &mut RawClient, chat: &str, prompt: &str) -> Value {
    raw.send_message(chat, prompt).await;
    loop {
        let mut message = raw.receive().await.expect("an envelope");
        let action = message["params"]["action"].take();
        if ["chat/turnComplete", "chat/error"].iter().any(|end| action["type"] == *end) {
            return action;
        }
    }
}

async fn chat(raw: &mut RawClient, session: &str) -> String {
    let state = raw.call("subscribe", json!({"channel": session})).await.unwrap();
    let chat = state["snapshot"]["state"]["defaultChat"].as_str().unwrap().to_owned();
    raw.call("subscribe", json!({"channel": chat})).await.unwrap();
    chat
}

/// Waits until npm has started and waits for its release.
async fn npm_runs(home: &TestHome) {
    let calls = home.path("bin").join("calls");
    wait_until("npm runs", || calls.exists()).await;
}

/// Returns the number of unfinished installs.
fn staged(home: &TestHome) -> usize {
    let names =
        std::fs::read_dir(home.path("cache/hostler/agents/claude")).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().starts_with(".staging-")).count()
}

const INSTALL_AGENTS_ENABLED: (&str, &str) = ("HOSTLER_INSTALL_AGENTS", "true");

#[tokio::test]
async fn requesting_client_receives_install_progress_and_the_first_message_works() {
    let home = home(&good());
    let host = serve(&home, &[INSTALL_AGENTS_ENABLED]).await;
    let mut raw = RawClient::connect_and_initialize(&host.url()).await;
    let mut other = RawClient::connect_and_initialize(&host.url()).await;
    let (session, received) = create(&mut raw, &home, "my-own-token").await;
    std::fs::write(home.path("bin").join("go"), "").unwrap();
    let steps = steps(&mut raw, received, "my-own-token").await;
    let last = steps.last().unwrap();
    assert_eq!(last["message"], "Claude Code is installed", "{steps:#?}");
    assert!(steps.iter().any(|step| step["message"] == "Verifying Claude Code"), "{steps:#?}");
    let chat = chat(&mut raw, &session).await;
    assert_eq!(turn(&mut raw, &chat, "hi").await["type"], "chat/turnComplete");

    // Nothing is left to install: there is no progress, and other clients never received any.
    let (_, received) = create(&mut raw, &home, "another-token").await;
    assert!(received.iter().all(|message| message["method"] != "root/progress"), "{received:#?}");
    for raw in [&mut raw, &mut other] {
        raw.send(json!({"jsonrpc": "2.0", "id": "last", "method": "ping", "params": {}}).to_string()).await;
        loop {
            let message = raw.receive().await.unwrap();
            assert_ne!(message["method"], "root/progress", "{message}");
            if message["id"] == "last" {
                break;
            }
        }
    }
    let calls = std::fs::read_to_string(home.path("bin").join("calls")).unwrap();
    assert_eq!(calls.lines().count(), 1, "{calls}");
    host.stop().await;
}

#[tokio::test]
async fn failed_install_is_reported_and_retried_by_the_next_message() {
    let home = home("echo 'npm error code ENOTFOUND' >&2\necho 'npm error network request failed' >&2\nexit 1");
    let host = serve(&home, &[INSTALL_AGENTS_ENABLED]).await;
    let mut raw = RawClient::connect_and_initialize(&host.url()).await;
    let (session, received) = create(&mut raw, &home, "t").await;
    let steps = steps(&mut raw, received, "t").await;
    let message = steps.last().unwrap()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("install") || message.contains("registry"), "{message}");
    let chat = chat(&mut raw, &session).await;
    let failed = turn(&mut raw, &chat, "hi").await;
    assert_eq!(
        (&failed["type"], &failed["part"]["error"]["errorType"]),
        (&json!("chat/error"), &json!("agentMissing"))
    );
    std::fs::write(home.path("bin").join("behaviour"), good()).unwrap();
    std::fs::write(home.path("bin").join("go"), "").unwrap();
    assert_eq!(turn(&mut raw, &chat, "hi").await["type"], "chat/turnComplete");
    host.stop().await;
}

#[tokio::test]
async fn install_survives_a_client_disconnect_and_ends_with_the_host() {
    let home = home(&good());
    let host = serve(&home, &[INSTALL_AGENTS_ENABLED]).await;
    let mut raw = RawClient::connect_and_initialize(&host.url()).await;
    create(&mut raw, &home, "t").await;
    npm_runs(&home).await;
    drop(raw);
    let mut raw = RawClient::connect_and_initialize(&host.url()).await;
    // The second install waits for the lock of the first one.
    let (_, mut received) = create(&mut raw, &home, "u").await;
    while !received.iter().any(|message| message["params"]["progressToken"] == "u") {
        received.push(raw.receive().await.unwrap());
    }
    let message = received.last().unwrap()["params"]["message"].as_str().unwrap();
    assert!(message.starts_with("Waiting"), "{message}");
    // npm is never released; `stop` asserts that nothing of it remains.
    host.stop().await;
    assert_eq!(staged(&home), 0);
}

#[tokio::test]
async fn install_processes_end_when_the_host_is_killed() {
    let home = home(&good());
    let mut host = serve(&home, &[INSTALL_AGENTS_ENABLED]).await;
    let mut raw = RawClient::connect_and_initialize(&host.url()).await;
    create(&mut raw, &home, "t").await;
    npm_runs(&home).await;
    let tree = processes::descendants(host.pid);
    assert!(tree.iter().any(|process| process.command.contains("bin/npm")), "{tree:#?}");
    host.signal(Signal::SIGKILL);
    host.wait_for_exit().await;
    let tree: Vec<_> = tree.into_iter().map(|process| process.pid).collect();
    let left = processes::wait_for_exit(&tree).await;
    assert!(left.is_empty(), "remaining: {left:#?}");

    // The next host installs it, and removes the unfinished install of the killed one.
    std::fs::write(home.path("bin").join("go"), "").unwrap();
    let host = serve(&home, &[INSTALL_AGENTS_ENABLED]).await;
    let mut raw = RawClient::connect_and_initialize(&host.url()).await;
    let (_, received) = create(&mut raw, &home, "u").await;
    let steps = steps(&mut raw, received, "u").await;
    assert_eq!(steps.last().unwrap()["message"], "Claude Code is installed", "{steps:#?}");
    assert_eq!(staged(&home), 0);
    host.stop().await;
}

#[tokio::test]
async fn host_without_an_agent_does_not_start_without_the_setting() {
    let home = home(&good());
    let mut command = home.serve_command(&["--upstream", "scripted"], &[]);
    command.env("PATH", home.path("bin")).env("XDG_CACHE_HOME", home.path("cache"));
    let output = run_to_end(command).await;
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}
