//! Plants secrets, exercises all features, and then searches every place for them.

use crate::common;
use std::path::Path;
use std::process::Stdio;

use crate::common::scripted_upstream::{KEY_PLACEHOLDER, ScriptedUpstreamServer};
use crate::common::{BUILDS, HostProcess, TestHome, list_files, run_to_end, text};
use ahp_types::StateAction;
use hostler_testkit::processes;
use hostler_testkit::test_client::{SessionUris, TestClient, is_turn_end};
use rustix::thread::{CapabilitySet, capabilities, remove_capability_from_bounding_set, set_capabilities};
use serde_json::{Value, json};
use uuid::Uuid;

/// Texts that must not appear in other places.
struct Secrets {
    /// Key of the upstream.
    key: String,
    /// Token of the host.
    token: String,
    /// Bearer of the agent.
    bearer: String,
    /// Text of the user: private, but stored by the host.
    prompt: String,
}

impl Secrets {
    /// Asserts that a log or output contains none of them.
    fn are_not_in(&self, place: &str, text: &[u8]) {
        self.credentials_are_not_in(place, text);
        assert!(!contains(text, &self.prompt), "the user's prompt is in {place}: {}", around(text, &self.prompt));
    }

    /// Asserts that a journal or transcript contains no credential; the user's text is allowed.
    fn credentials_are_not_in(&self, place: &str, text: &[u8]) {
        for (what, secret) in [("upstream's key", &self.key), ("token", &self.token), ("bearer", &self.bearer)] {
            assert!(!contains(text, secret), "the {what} is in {place}: {}", around(text, secret));
        }
    }

    fn are_not_in_files(&self, home: &TestHome) {
        let token_file = home.path("state").join("hostler").join("token");
        let files = list_files(home.root());
        assert!(files.iter().any(|path| path.extension().is_some_and(|end| end == "jsonl")), "there is a transcript");
        let mut prompts = 0;
        for path in files {
            let Ok(bytes) = std::fs::read(&path) else { continue };
            prompts += usize::from(contains(&bytes, &self.prompt));
            if path == token_file {
                assert_eq!(text(&bytes).trim(), self.token);
                continue;
            }
            self.credentials_are_not_in(&path.display().to_string(), &bytes);
        }
        assert!(prompts >= 2, "the search works: journal and transcript contain the user's prompt");
    }

    /// Asserts that the bearer is in the agent's environment only.
    fn are_not_in_processes(&self, host: &HostProcess) {
        let agent = host.only_agent().pid;
        let tree = processes::descendants(host.pid);
        assert!(tree.len() >= 2, "a supervisor and an agent: {tree:#?}");
        for process in tree {
            let place = format!("the command line of {}", process.pid);
            self.are_not_in(&place, process.command.as_bytes());
            let environment = processes::read_environment(process.pid).join("\n");
            assert!(!contains(environment.as_bytes(), &self.key), "the key is in the environment of {process:?}");
            assert!(!contains(environment.as_bytes(), &self.token), "the token is in the environment of {process:?}");
            assert_eq!(process.pid == agent, environment.contains(&self.bearer), "the bearer and {process:?}");
        }
        let own = std::fs::read(format!("/proc/{}/cmdline", host.pid)).unwrap();
        self.are_not_in("the host's command line", &own);
    }
}

fn contains(text: &[u8], secret: &str) -> bool {
    assert!(secret.len() > 16, "a text that is found by chance proves nothing");
    String::from_utf8_lossy(text).contains(secret)
}

fn around(text: &[u8], secret: &str) -> String {
    let text = String::from_utf8_lossy(text);
    let (before, after) = text.split_once(secret).unwrap_or_default();
    let before: Vec<char> = before.chars().rev().take(300).collect();
    let after: String = after.chars().take(100).collect();
    format!("…{}SECRET{after}…", before.into_iter().rev().collect::<String>())
}

/// Runs a plain turn, and one for every way in which the upstream can quote the key.
async fn run_turns_that_quote_the_key(peer: &mut TestClient, uris: &SessionUris, prompt: &str) {
    let answer = peer.send_and_wait(&uris.chat, &format!("please repeat: {prompt}")).await;
    assert!(answer.contains(prompt), "{answer}");
    for status in [400, 401, 403, 500] {
        peer.send_message(&uris.chat, &format!("!error {status} Your key {KEY_PLACEHOLDER} is not worth {prompt}."))
            .await;
        let envelopes = peer.wait_for(&uris.chat, is_turn_end).await;
        let StateAction::ChatError(_) = &envelopes.last().unwrap().action else { panic!("{:?}", envelopes.last()) };
    }
    // In the middle of a stream an error is an event; the agent decides how to continue.
    peer.send_message(&uris.chat, &format!("!say I was about to\n!error 400 when {KEY_PLACEHOLDER} came, {prompt}."))
        .await;
    peer.wait_for(&uris.chat, is_turn_end).await;
    let answer = peer.send_and_wait(&uris.chat, "well again").await;
    assert!(answer.contains("well again"), "{answer}");
}

/// Returns everything that a client can see.
async fn all_client_state(peer: &TestClient, uris: &SessionUris) -> String {
    let mut all = format!("{:?}", peer.received);
    for channel in ["ahp-root://", &uris.session, &uris.chat] {
        all.push_str(&serde_json::to_string(&peer.subscribe_snapshot(channel).await).unwrap());
    }
    let list: Value = peer.client.request("listSessions", json!({"channel": "ahp-root://"})).await.unwrap();
    all + &list.to_string()
}

async fn planted(variable: &str) {
    for build in BUILDS {
        let upstream = ScriptedUpstreamServer::start().await;
        let home = TestHome::new();
        // The agent retries for minutes by default; one retry is enough here.
        home.write_config("[agent.env]\nCLAUDE_CODE_MAX_RETRIES = \"1\"\n");
        let key = format!("sk-planted-{}", Uuid::new_v4());
        let prompt = format!("my-own-prompt-{}", Uuid::new_v4());
        let env = [
            (variable, key.as_str()),
            ("HOSTLER_LOG", "trace"),
            ("HOSTLER_UPSTREAM", "anthropic"),
            ("HOSTLER_UPSTREAM_URL", upstream.url.as_str()),
            ("HOSTLER_CLAUDE", build),
        ];
        let host = home.serve_with(&[], &env).await;
        let mut peer = host.connect().await;
        let uris = peer.create_session(&home.work()).await;
        run_turns_that_quote_the_key(&mut peer, &uris, &prompt).await;
        for request in upstream.requests() {
            assert_eq!(request.header("x-api-key"), Some(key.as_str()), "{build}: the upstream knows its caller");
            assert_eq!(request.header("authorization"), None, "{build}: the agent's bearer stays here");
        }

        let environment = processes::read_environment(host.only_agent().pid);
        let bearer = environment.iter().find_map(|entry| entry.strip_prefix("ANTHROPIC_AUTH_TOKEN=")).unwrap();
        let secrets = Secrets { key: key.clone(), token: host.token().to_owned(), bearer: bearer.to_owned(), prompt };
        secrets.are_not_in_processes(&host);
        let seen = all_client_state(&peer, &uris).await;
        assert!(seen.contains("[redacted]"), "{build}: the upstream did quote the key");
        secrets.credentials_are_not_in("what clients see", seen.as_bytes());

        // Other commands, on this host and on a host of their own.
        let private = home.path("private");
        let of_this_host = home.path("state");
        for (state, args, code) in [
            (&of_this_host, &["doctor", "--json"][..], 0),
            (&of_this_host, &["doctor"], 0),
            (&of_this_host, &["agents", "list"], 0),
            (&of_this_host, &["run", "!say fine"], 0),
            (&of_this_host, &["run", "--json", &format!("!error 401 Your key {KEY_PLACEHOLDER} is bad.")], 4),
            (&private, &["run", &format!("!error 401 Your key {KEY_PLACEHOLDER} is bad.")], 4),
            (&private, &["run", &format!("!think {}\n!say fine", secrets.prompt)], 0),
        ] {
            let mut command = home.hostler_command(args);
            command.envs(env).env("XDG_STATE_HOME", state);
            let output = run_to_end(command).await;
            assert_eq!(output.status.code(), Some(code), "{build} {args:?}: {}", text(&output.stderr));
            secrets.are_not_in(&format!("stderr of {args:?}"), &output.stderr);
            secrets.credentials_are_not_in(&format!("stdout of {args:?}"), &output.stdout);
        }
        let private_token = std::fs::read_to_string(private.join("hostler").join("token")).unwrap();
        assert_ne!(private_token.trim(), secrets.token);

        secrets.are_not_in_files(&home);
        let log = host.stop().await;
        assert!(log.contains("INFO") && log.contains("upstream request failed"), "{build}: this is the log");
        secrets.are_not_in("the host's log", log.as_bytes());
        secrets.are_not_in_files(&home);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn key_from_hostler_variable_reaches_only_the_upstream() {
    planted("HOSTLER_UPSTREAM_KEY").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn key_from_provider_variable_reaches_only_the_upstream() {
    planted("ANTHROPIC_API_KEY").await;
}

/// A process that may trace others can read everything. This thread and its children give up that capability; an
/// ordinary user has none.
fn drop_trace_capability() {
    let mut own = capabilities(None).unwrap();
    for right in [CapabilitySet::SYS_PTRACE, CapabilitySet::PERFMON, CapabilitySet::SYS_ADMIN] {
        if own.effective.contains(right) {
            remove_capability_from_bounding_set(right).unwrap();
        }
        own.effective.remove(right);
        own.permitted.remove(right);
    }
    set_capabilities(None, own).unwrap();
}

// Single-threaded: capabilities belong to a thread, and this one starts the host.
#[tokio::test(flavor = "current_thread")]
async fn host_environment_is_not_readable_by_other_programs_of_the_user() {
    drop_trace_capability();
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let mut peer = host.connect().await;
    let uris = peer.create_session(&home.work()).await;
    peer.send_and_wait(&uris.chat, "hi").await;
    let file = |pid: u32, name: &str| Path::new("/proc").join(pid.to_string()).join(name);
    let agent = std::fs::read(file(host.only_agent().pid, "environ")).unwrap();
    assert!(!agent.is_empty(), "an ordinary process can be read");
    let environment = std::fs::read(file(host.pid, "environ")).unwrap_err();
    assert_eq!(environment.kind(), std::io::ErrorKind::PermissionDenied);
    let memory = std::fs::File::open(file(host.pid, "mem")).unwrap_err();
    assert_eq!(memory.kind(), std::io::ErrorKind::PermissionDenied);
    host.stop().await;
}

// Single-threaded: capabilities belong to a thread, and this one starts the command.
#[tokio::test(flavor = "current_thread")]
async fn client_command_environment_is_not_readable_by_other_programs_of_the_user() {
    drop_trace_capability();
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    // It waits for its message.
    let mut command = home.hostler_command(&["run", "-"]);
    let quiet = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let mut client = quiet.spawn().unwrap();
    let environ = Path::new("/proc").join(client.id().unwrap().to_string()).join("environ");
    let hidden = || std::fs::read(&environ).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
    let started = std::time::Instant::now();
    while !hidden() {
        assert!(client.try_wait().unwrap().is_none(), "it ended before it hid its environment");
        assert!(started.elapsed() < common::TEST_TIMEOUT, "its environment stays readable");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    client.kill().await.unwrap();
    host.stop().await;
}
