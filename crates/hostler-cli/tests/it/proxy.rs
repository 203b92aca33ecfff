//! `hostler proxy` and `hostler agents login` with fakes behind the ports.

use std::time::Duration;

use crate::support::CommandFixture;
use crate::support::gateway::NONCE;
use crate::support::host::FakeHostLauncher;
use hostler_cli::{Exit, FinishedRequestRecord, Signal, UpstreamKind};

fn launcher() -> FakeHostLauncher {
    FakeHostLauncher::new([])
}

#[tokio::test]
async fn stdout_has_port_and_nonce_and_stderr_has_instructions() {
    for signal in [Signal::Terminate, Signal::Interrupt] {
        let mut stage = CommandFixture::new();
        let running = tokio::spawn(stage.command(&["proxy", "--upstream", "scripted"], stage.wiring(&launcher())));
        stage.err.wait_for("Press Ctrl-C to stop.").await;
        let text = stage.out.text();
        let port = text.strip_prefix("READY:").unwrap().split('\n').next().unwrap().to_owned();
        assert_eq!(text, format!("READY:{port}\nNONCE:{NONCE}\n"));
        let text = stage.err.text();
        assert!(text.contains(&format!("export ANTHROPIC_BASE_URL=http://127.0.0.1:{port}\n")), "{text}");
        assert!(text.contains(&format!("export ANTHROPIC_AUTH_TOKEN={NONCE}.")), "{text}");
        assert!(text.contains("Upstreams: scripted."), "{text}");

        stage.signal.send(signal).await.unwrap();
        assert_eq!(running.await.unwrap(), Exit::Done);
        assert_eq!(*stage.proxy_launcher.shut_down.lock().unwrap(), 1);
        assert!(!stage.state_dir().exists(), "it needs no state directory");
        let options = stage.proxy_launcher.launched.lock().unwrap();
        assert!(options[0].request_sink.is_none() && !options[0].serve_metrics && options[0].ledger_dir.is_none());
    }
}

#[tokio::test]
async fn exit_on_stdin_eof_stops_the_proxy() {
    let mut stage = CommandFixture::new();
    assert_eq!(stage.run(&["proxy", "--exit-on-stdin-eof"], &launcher()).await, Exit::Done);
}

#[tokio::test]
async fn non_loopback_address_prints_a_warning() {
    let mut stage = CommandFixture::new();
    let args = ["proxy", "--listen", "0.0.0.0:0"];
    let running = tokio::spawn(stage.command(&args, stage.wiring(&launcher())));
    stage.err.wait_for("Press Ctrl-C to stop.").await;
    stage.signal.send(Signal::Terminate).await.unwrap();
    assert_eq!(running.await.unwrap(), Exit::Done);
    let text = stage.err.text();
    assert!(
        text.starts_with("Anyone who can connect to 0.0.0.0:") && text.contains("BASE_URL=http://127.0.0.1:"),
        "{text}"
    );
}

#[tokio::test]
async fn each_request_is_logged_on_one_line() {
    let mut stage = CommandFixture::new();
    let running = tokio::spawn(stage.command(&["proxy", "--log-requests"], stage.wiring(&launcher())));
    stage.err.wait_for("Press Ctrl-C to stop.").await;
    let sink = stage.proxy_launcher.launched.lock().unwrap()[0].request_sink.clone().unwrap();
    sink(FinishedRequestRecord {
        method: "POST".into(),
        path: "/v1/messages".into(),
        model: Some("claude-x".into()),
        upstream: Some("anthropic".into()),
        status: Some(200),
        duration: Duration::from_millis(7),
        tokens: (12, 3),
        outcome: "answered",
    });
    let line = "POST /v1/messages model=claude-x upstream=anthropic status=200 ms=7 in=12 out=3 answered\n";
    stage.err.wait_for(line).await;
    stage.signal.send(Signal::Terminate).await.unwrap();
    assert_eq!(running.await.unwrap(), Exit::Done);
    assert_eq!(stage.out.text().lines().count(), 2);
}

#[tokio::test]
async fn limits_are_counted_in_a_locked_state_directory() {
    let mut stage = CommandFixture::new();
    stage.write_config("[limits]\nday-requests = 5\n");
    let running = tokio::spawn(stage.command(&["proxy"], stage.wiring(&launcher())));
    stage.err.wait_for("Press Ctrl-C to stop.").await;
    assert_eq!(stage.proxy_launcher.launched.lock().unwrap()[0].ledger_dir, Some(stage.state_dir()));
    let mut second = CommandFixture::new();
    let state_dir = stage.state_dir().display().to_string();
    second.write_config("[limits]\nday-requests = 5\n");
    assert_eq!(second.run(&["proxy", "--state-dir", &state_dir], &launcher()).await, Exit::Failed);
    assert!(second.err.text().contains("uses the state directory"), "{}", second.err.text());
    stage.signal.send(Signal::Terminate).await.unwrap();
    assert_eq!(running.await.unwrap(), Exit::Done);
}

#[tokio::test]
async fn changed_config_is_applied_and_invalid_config_is_reported() {
    let mut stage = CommandFixture::new();
    let path = stage.write_config("upstream = 'scripted'\n");
    let running = tokio::spawn(stage.command(&["proxy"], stage.wiring(&launcher())));
    stage.err.wait_for("Press Ctrl-C to stop.").await;
    let mut configured = stage.proxy_launcher.configured.subscribe();
    std::fs::write(&path, "upstream = 'toy'\n[upstreams.toy]\nkind = 'scripted'\n").unwrap();
    configured.wait_for(|all| all.len() == 1).await.unwrap();
    stage.err.wait_for("config.toml. Upstreams: toy.").await;
    std::fs::write(&path, "upstream = \n").unwrap();
    stage.err.wait_for("The configuration is unchanged.").await;
    // SIGHUP reloads at once; another error gives another message.
    std::fs::write(&path, "upstream = 'unknown'\n").unwrap();
    stage.signal.send(Signal::Hangup).await.unwrap();
    stage.err.wait_for("`upstream` must be one of").await;
    assert_eq!(configured.borrow().len(), 1);
    stage.signal.send(Signal::Terminate).await.unwrap();
    assert_eq!(running.await.unwrap(), Exit::Done);
}

#[tokio::test]
async fn host_reloads_its_config_and_stops_on_terminal_hangup() {
    let mut stage = CommandFixture::new();
    stage.is_terminal = true;
    let path = stage.write_config("upstream = 'scripted'\n");
    let launcher = launcher();
    let args = ["serve", "--listen", "127.0.0.1:0"];
    let running = tokio::spawn(stage.command(&args, stage.wiring(&launcher)));
    stage.out.wait_for("READY:").await;
    let mut configured = launcher.recorded.configured.subscribe();
    std::fs::write(&path, "upstream = 'toy'\nclaude = 'js'\n[upstreams.toy]\nkind = 'scripted'\n").unwrap();
    configured.wait_for(|all| all.len() == 1).await.unwrap();
    stage.err.wait_for("Restart to apply changes of: claude.").await;
    stage.signal.send(Signal::Hangup).await.unwrap();
    assert_eq!(running.await.unwrap(), Exit::Done);
}

#[tokio::test]
async fn login_reads_key_from_stdin_saves_it_and_does_not_print_it() {
    let mut stage = CommandFixture::new();
    stage.stdin = b"sk-planted\n".to_vec();
    stage.write_config("[upstreams.work]\nkind = 'anthropic'\n");
    assert_eq!(stage.run(&["agents", "login", "work"], &launcher()).await, Exit::Done);
    assert_eq!(stage.credential_vault.stored.lock().unwrap().get("work").unwrap(), "sk-planted");
    assert_eq!(stage.credential_vault.settings.lock().unwrap()[0].directory, stage.state_dir().join("credentials"));
    let text = stage.err.text();
    assert_eq!(text, "Saved the key of work in the system keyring. Running hosts use it from now on.\n");
    assert_eq!(stage.out.text(), "");
}

#[tokio::test]
async fn login_without_keyring_prints_the_file_and_overriding_sources() {
    let mut stage = CommandFixture::new().with_var("OPENAI_API_KEY", "sk-other");
    stage.stdin = b"sk-planted".to_vec();
    stage.credential_vault.refusal = Some("the system keyring is not available: no keyring service is running");
    assert_eq!(stage.run(&["agents", "login", "openai"], &launcher()).await, Exit::Done);
    let text = stage.err.text();
    let file = stage.state_dir().join("credentials").join("openai");
    assert!(
        text.starts_with("The system keyring is not available: no keyring service is running. Using a file instead.\n"),
        "{text}"
    );
    assert!(text.contains(&format!("in {}.", file.display())), "{text}");
    assert!(text.contains("The settings override it: the variable OPENAI_API_KEY."), "{text}");
    assert!(!text.contains("sk-"), "{text}");
}

#[tokio::test]
async fn invalid_upstreams_and_keys_are_usage_errors() {
    for (name, stdin, part) in [
        ("acme", "sk", "Choose one of: anthropic, copilot, openai"),
        ("scripted", "sk", "does not need a key"),
        ("anthropic", "", "The key is empty."),
        ("anthropic", "two words", "white space"),
    ] {
        let mut stage = CommandFixture::new();
        stage.stdin = stdin.into();
        assert_eq!(stage.run(&["agents", "login", name], &launcher()).await, Exit::Usage, "{name}");
        assert!(stage.err.text().contains(part), "{}", stage.err.text());
        assert!(stage.credential_vault.stored.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn copilot_login_prints_a_device_code_and_waits() {
    let mut stage = CommandFixture::new();
    let running = tokio::spawn(stage.command(&["agents", "login", "copilot"], stage.wiring(&launcher())));
    stage.err.wait_for("https://github.example/login").await;
    stage.err.wait_for("ABCD-1234").await;
    stage.device_login.code_entered.notify_one();
    assert_eq!(running.await.unwrap(), Exit::Done);
    assert_eq!(stage.credential_vault.stored.lock().unwrap().get("copilot").unwrap(), "gho_planted");
    assert_eq!(stage.device_login.requested.lock().unwrap()[0].kind(), UpstreamKind::Copilot);
    assert!(!stage.err.text().contains("gho_"), "{}", stage.err.text());
}

#[tokio::test]
async fn interrupt_cancels_login() {
    let mut stage = CommandFixture::new();
    let running = tokio::spawn(stage.command(&["agents", "login", "copilot"], stage.wiring(&launcher())));
    stage.err.wait_for("ABCD-1234").await;
    stage.signal.send(Signal::Interrupt).await.unwrap();
    assert_eq!(running.await.unwrap(), Exit::Interrupted);
    assert!(stage.credential_vault.stored.lock().unwrap().is_empty());
}

#[tokio::test]
async fn logout_removes_the_key_and_prints_its_location() {
    let mut stage = CommandFixture::new();
    stage.credential_vault.stored.lock().unwrap().insert("anthropic".into(), "sk".into());
    assert_eq!(stage.run(&["agents", "logout", "anthropic"], &launcher()).await, Exit::Done);
    assert_eq!(stage.err.text(), "Removed the key of anthropic from the system keyring.\n");
    let mut again = CommandFixture::new();
    assert_eq!(again.run(&["agents", "logout", "anthropic"], &launcher()).await, Exit::Done);
    assert_eq!(again.err.text(), "There is no saved key for anthropic.\n");
}

#[tokio::test]
async fn doctor_prints_key_locations_and_never_keys() {
    let mut stage = CommandFixture::new().with_var("WORK_KEY", "sk-planted");
    let config = stage.write_config(
        "upstream = 'work'\n[upstreams.work]\nkind = 'anthropic'\nkey-env = 'WORK_KEY'\n\
         [upstreams.file]\nkind = 'anthropic'\nkey-file = 'open.key'\n[upstreams.gone]\nkind = 'openai'\nkey-file = 'gone'\n\
         [upstreams.local]\nkind = 'openai'\nurl = 'http://user:pw@127.0.0.1:9/v1'\n[upstreams.copilot]\n",
    );
    let open = config.with_file_name("open.key");
    std::fs::write(&open, "sk-planted-too").unwrap();
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    stage.credential_vault.stored.lock().unwrap().insert("copilot".into(), "gho".into());
    assert_eq!(stage.run(&["doctor"], &launcher()).await, Exit::Done);
    let text = stage.out.text();
    for part in [
        "work (anthropic, default) has a key in the variable WORK_KEY.",
        &format!("file (anthropic) has a key in {}, which other users can read.", open.display()),
        "gone (openai) has no key: ",
        "local (openai, at 127.0.0.1:9) is used without a key.",
        "copilot has a GitHub token in the system keyring.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("sk-planted") && !text.contains("user:pw"), "{text}");
}
