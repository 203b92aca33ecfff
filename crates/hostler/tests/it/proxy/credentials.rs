//! Credentials: where they come from, how they change under a running proxy, and where they never appear.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Output, Stdio};

use nix::pty::openpty;
use tokio::io::AsyncWriteExt as _;

use super::ProxyProcess;
use crate::common::scripted_upstream::{KEY_PLACEHOLDER, ScriptedUpstreamServer};
use crate::common::{BUILDS, TEST_TIMEOUT, TestHome, list_files, run_to_end, text};

fn work(server: &ScriptedUpstreamServer, key: &str) -> String {
    format!("upstream = 'work'\n[upstreams.work]\nkind = 'anthropic'\nurl = '{}'\n{key}\n", server.url)
}

async fn start(home: &TestHome) -> ProxyProcess {
    let mut command = home.hostler_command(&["proxy", "--log-requests"]);
    command.env("HOSTLER_LOG", "trace").env("HOSTLER_CREDENTIAL_STORE", "file");
    ProxyProcess::start(command).await
}

/// Returns the key of the last request.
fn last_key(server: &ScriptedUpstreamServer) -> Option<String> {
    server.requests().last().unwrap().header("x-api-key").map(str::to_owned)
}

/// Runs a command that reads a key from stdin.
async fn with_stdin(home: &TestHome, args: &[&str], stdin: &str) -> Output {
    let mut command = home.hostler_command(args);
    command.env("HOSTLER_CREDENTIAL_STORE", "file").stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).await.unwrap();
    tokio::time::timeout(TEST_TIMEOUT, child.wait_with_output()).await.expect("the command ends").unwrap()
}

#[tokio::test]
async fn key_file_is_reloaded_without_a_restart_and_never_printed() {
    let home = TestHome::new();
    let server = ScriptedUpstreamServer::start().await;
    let file = home.path("config").join("hostler").join("work.key");
    home.write_config(&work(&server, "key-file = 'work.key'"));
    let proxy = start(&home).await;
    let (status, body) = proxy.send_message("m", "hi", false).await;
    assert!(status == 401 && body.contains("work.key"), "{body}");
    assert!(server.requests().is_empty(), "no server is called without the key");

    let keys = ["sk-planted-the-first-one", "sk-planted-the-second-key"];
    for key in keys {
        std::fs::write(&file, format!("{key}\n")).unwrap();
        proxy.answer_text("m", "hi").await;
        assert_eq!(last_key(&server).as_deref(), Some(key));
        for status in [400, 401, 500] {
            let (answered, body) =
                proxy.send_message("m", &format!("!error {status} Your key {KEY_PLACEHOLDER} is bad."), true).await;
            assert_eq!(answered, status);
            assert!(body.contains("[redacted]") && !body.contains(key), "{body}");
        }
    }
    proxy.wait_for_log("POST /v1/messages", 9).await;
    let log = proxy.stop().await;
    assert!(log.contains("DEBUG") || log.contains("INFO"), "this is the log: {log}");
    for key in keys {
        assert!(!log.contains(key), "{log}");
    }
}

#[tokio::test]
async fn login_and_logout_apply_at_once_and_the_key_is_in_a_private_file_only() {
    let home = TestHome::new();
    let server = ScriptedUpstreamServer::start().await;
    home.write_config(&work(&server, ""));
    let proxy = start(&home).await;
    proxy.answer_text("m", "hi").await;
    assert_eq!(last_key(&server), None);

    let key = "sk-planted-for-a-login";
    let output = with_stdin(&home, &["agents", "login", "work"], &format!("{key}\n")).await;
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    let file = home.path("state").join("hostler").join("credentials").join("work");
    assert!(printed.contains(file.to_str().unwrap()) && !printed.contains(key), "{printed}");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    proxy.answer_text("m", "hi").await;
    assert_eq!(last_key(&server).as_deref(), Some(key));

    let output = run_to_end(home.hostler_command(&["doctor"])).await;
    let report = text(&output.stdout);
    assert!(report.contains(&format!("has a key in {}.", file.display())) && !report.contains(key), "{report}");

    let output = with_stdin(&home, &["agents", "logout", "work"], "").await;
    assert!(text(&output.stderr).contains("Removed the key of work from"), "{output:?}");
    proxy.answer_text("m", "hi").await;
    assert_eq!(last_key(&server), None);
    proxy.wait_for_log("POST /v1/messages", 3).await;
    let log = proxy.stop().await;
    assert!(!log.contains(key), "{log}");
    for path in list_files(home.root()) {
        let bytes = std::fs::read(&path).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&bytes).contains(key), "{}", path.display());
    }
}

#[tokio::test]
async fn file_is_used_and_reported_without_a_keyring() {
    let home = TestHome::new();
    let mut command = home.hostler_command(&["agents", "login", "anthropic"]);
    // The runtime directory of this home has no D-Bus.
    command.env_remove("DBUS_SESSION_BUS_ADDRESS").env_remove("HOSTLER_CREDENTIAL_STORE").stdin(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"sk-planted").await.unwrap();
    let output = tokio::time::timeout(TEST_TIMEOUT, child.wait_with_output()).await.expect("it ends").unwrap();
    let printed = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(
        printed.starts_with("The system keyring is not available: ") && printed.contains("Using a file instead."),
        "{printed}"
    );
    assert!(home.path("state").join("hostler").join("credentials").join("anthropic").is_file());

    let mut strict = home.hostler_command(&["agents", "login", "openai"]);
    strict.env_remove("DBUS_SESSION_BUS_ADDRESS").env("HOSTLER_CREDENTIAL_STORE", "keyring").stdin(Stdio::piped());
    let mut child = strict.stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"sk-planted").await.unwrap();
    let output = tokio::time::timeout(TEST_TIMEOUT, child.wait_with_output()).await.expect("it ends").unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(!home.path("state").join("hostler").join("credentials").join("openai").exists());
}

#[tokio::test]
async fn typed_key_is_not_echoed() {
    let home = TestHome::new();
    let pty = openpty(None, None).unwrap();
    let mut command = home.hostler_command(&["agents", "login", "anthropic"]);
    let slave = || Stdio::from(pty.slave.try_clone().unwrap());
    command.env("HOSTLER_CREDENTIAL_STORE", "file").stdin(slave()).stdout(slave()).stderr(slave());
    let mut child = command.spawn().unwrap();
    drop(command);
    drop(pty.slave);
    let terminal = std::fs::File::from(pty.master);
    let typing = terminal.try_clone().unwrap();
    let key = "sk-typed-in-secret";
    let shown = tokio::task::spawn_blocking(move || {
        use std::io::{Read as _, Write as _};
        let (mut terminal, mut typing) = (terminal, typing);
        let mut shown = String::new();
        let mut bytes = [0_u8; 1024];
        let mut typed = false;
        // Linux ends a terminal that no process has open with an error.
        while let Ok(count @ 1..) = terminal.read(&mut bytes) {
            shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
            if shown.contains("(hidden): ") && !typed {
                typed = true;
                typing.write_all(format!("{key}\n").as_bytes()).unwrap();
            }
        }
        shown
    });
    let status = tokio::time::timeout(TEST_TIMEOUT, child.wait()).await.expect("it ends").unwrap();
    let shown = tokio::time::timeout(TEST_TIMEOUT, shown).await.expect("the terminal ends").unwrap();
    assert_eq!(status.code(), Some(0), "{shown}");
    assert!(shown.contains("Saved the key of anthropic in ") && !shown.contains(key), "{shown}");
    let stored = std::fs::read_to_string(home.path("state").join("hostler").join("credentials").join("anthropic"));
    assert_eq!(stored.unwrap(), key);
}

#[tokio::test]
async fn missing_key_is_reported_with_a_fix_before_any_request() {
    let home = TestHome::new();
    let proxy = ProxyProcess::start(home.hostler_command(&["proxy"])).await;
    let (status, body) = proxy.send_message("claude-sonnet-4-5", "hi", true).await;
    assert_eq!(status, 401);
    assert!(body.contains("authentication_error") && body.contains("hostler agents login anthropic"), "{body}");
    proxy.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_key_ends_a_turn_with_a_fix_and_exit_code_4() {
    for build in BUILDS {
        let home = TestHome::new();
        let mut command = home.hostler_command(&["run", "hi"]);
        command.env("HOSTLER_CLAUDE", build).env("HOSTLER_LOG", "off");
        let output = run_to_end(command).await;
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{build}: {printed}");
        assert!(printed.contains("hostler agents login anthropic"), "{build}: {printed}");
    }
}

/// Mock of GitHub's device login; the code counts as entered at the second poll.
async fn github() -> (String, tokio::task::JoinHandle<()>) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let asked = std::sync::Arc::new(AtomicUsize::new(0));
    let json = [("content-type", "application/json")];
    let begin = async move || {
        let code = r#"{"device_code":"dc","user_code":"WDJB-MJHT","verification_uri":"https://github.example/device","expires_in":900,"interval":1}"#;
        (json, code)
    };
    let token = move || {
        let answer = match asked.fetch_add(1, Ordering::SeqCst) {
            0 => r#"{"error":"authorization_pending"}"#,
            _ => r#"{"access_token":"gho_planted_by_the_test","token_type":"bearer","scope":"read:user"}"#,
        };
        async move { (json, answer) }
    };
    let app = axum::Router::new()
        .route("/login/device/code", axum::routing::post(begin))
        .route("/login/oauth/access_token", axum::routing::post(token));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (url, tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }))
}

#[tokio::test]
async fn copilot_login_prints_the_code_and_saves_the_token() {
    let home = TestHome::new();
    let (url, server) = github().await;
    home.write_config(&format!("[upstreams.copilot]\ngithub-url = '{url}'\nclient-id = 'Iv1.test'\n"));
    let output = with_stdin(&home, &["agents", "login", "copilot"], "").await;
    let printed = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(printed.contains("https://github.example/device") && printed.contains("WDJB-MJHT"), "{printed}");
    assert!(printed.contains("Saved the GitHub token of copilot in ") && !printed.contains("gho_"), "{printed}");
    let credential_file = home.path("state").join("hostler").join("credentials").join("copilot");
    assert_eq!(std::fs::read_to_string(credential_file).unwrap(), "gho_planted_by_the_test");
    server.abort();

    let other = TestHome::new();
    let output = with_stdin(&other, &["agents", "login", "copilot"], "").await;
    let printed = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("client-id") && printed.contains("GITHUB_TOKEN"), "{printed}");
}
