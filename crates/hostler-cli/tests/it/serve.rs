//! `hostler serve` with a scripted host.

use crate::support::host::FakeHostLauncher;
use crate::support::{CommandFixture, entry_names};
use hostler_cli::{Exit, LaunchError, Signal};
use secrecy::ExposeSecret as _;

const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

#[tokio::test]
async fn stdout_has_only_the_ready_line_and_a_signal_stops_the_host() {
    for signal in [Signal::Terminate, Signal::Interrupt] {
        let mut stage = CommandFixture::new();
        let launcher = FakeHostLauncher::new([]);
        let serving = tokio::spawn(stage.command(&SERVE, stage.wiring(&launcher)));
        stage.out.wait_for("\n").await;
        let port: u16 = stage.out.text().strip_prefix("READY:").unwrap().trim_end().parse().unwrap();
        let endpoint = std::fs::read_to_string(stage.state_dir().join("endpoint.json")).unwrap();
        assert!(endpoint.contains(&format!("\"port\": {port}")), "{endpoint}");

        stage.signal.send(signal).await.unwrap();
        assert_eq!(serving.await.unwrap(), Exit::Done);
        assert_eq!(stage.out.text(), format!("READY:{port}\n"));
        assert_eq!(*launcher.recorded.shut_down.lock().unwrap(), 1);
        assert_eq!(entry_names(&stage.state_dir()), ["host.lock", "token"]);
    }
}

#[tokio::test]
async fn token_is_printed_on_a_terminal_only() {
    for terminal in [true, false] {
        let mut stage = CommandFixture::new();
        stage.is_terminal = terminal;
        let launcher = FakeHostLauncher::new([]);
        let serving = tokio::spawn(stage.command(&SERVE, stage.wiring(&launcher)));
        stage.err.wait_for("\n").await;
        let token = launcher.recorded.options.lock().unwrap()[0].token.clone().unwrap();
        let text = stage.err.text();
        assert_eq!(text.contains(&format!("/?tkn={}", token.expose_secret())), terminal, "{text}");
        assert_eq!(text.contains(token.expose_secret()), terminal);
        assert_eq!(text.contains(&stage.state_dir().join("token").display().to_string()), !terminal);
        stage.signal.send(Signal::Terminate).await.unwrap();
        assert_eq!(serving.await.unwrap(), Exit::Done);
    }
}

#[tokio::test]
async fn given_token_is_used_and_stored_only_while_running() {
    let mut stage = CommandFixture::new();
    let launcher = FakeHostLauncher::new([]);
    let args = [&SERVE[..], &["--token", "given_token-1"]].concat();
    let serving = tokio::spawn(stage.command(&args, stage.wiring(&launcher)));
    stage.out.wait_for("\n").await;
    let token = launcher.recorded.options.lock().unwrap()[0].token.clone().unwrap();
    assert_eq!(token.expose_secret(), "given_token-1");
    assert_eq!(entry_names(&stage.state_dir()), ["endpoint-token", "endpoint.json", "host.lock"]);
    stage.signal.send(Signal::Terminate).await.unwrap();
    assert_eq!(serving.await.unwrap(), Exit::Done);
    assert_eq!(entry_names(&stage.state_dir()), ["host.lock"]);
}

#[tokio::test]
async fn exit_on_stdin_eof_stops_the_host() {
    let mut stage = CommandFixture::new();
    stage.stdin = b"noise".to_vec();
    let launcher = FakeHostLauncher::new([]);
    let args = [&SERVE[..], &["--exit-on-stdin-eof"]].concat();
    assert_eq!(stage.run(&args, &launcher).await, Exit::Done);
}

#[tokio::test]
async fn second_signal_does_not_wait_for_the_shutdown() {
    let mut stage = CommandFixture::new();
    let serving = tokio::spawn(stage.command(&SERVE, stage.wiring(&FakeHostLauncher::never_stopping())));
    stage.out.wait_for("\n").await;
    stage.signal.send(Signal::Interrupt).await.unwrap();
    stage.signal.send(Signal::Interrupt).await.unwrap();
    assert_eq!(serving.await.unwrap(), Exit::Interrupted);
}

#[tokio::test]
async fn second_host_on_the_same_state_is_refused_with_the_pid() {
    let mut first = CommandFixture::new();
    let launcher = FakeHostLauncher::new([]);
    let serving = tokio::spawn(first.command(&SERVE, first.wiring(&launcher)));
    first.out.wait_for("READY:").await;

    let mut second = CommandFixture::new();
    let state_dir = first.state_dir().display().to_string();
    let args = [&SERVE[..], &["--state-dir", &state_dir]].concat();
    assert_eq!(second.run(&args, &launcher).await, Exit::Failed);
    assert!(second.err.text().contains(&format!("(process {})", std::process::id())), "{}", second.err.text());
    assert!(first.state_dir().join("endpoint.json").exists());

    first.signal.send(Signal::Terminate).await.unwrap();
    assert_eq!(serving.await.unwrap(), Exit::Done);
}

#[tokio::test]
async fn invalid_settings_and_failed_launch_have_their_exit_codes() {
    let launcher = FakeHostLauncher::failing_to_start(LaunchError::AgentMissing("Install it.".into()));
    for (args, exit, text) in [
        (&["--no-token", "--listen", "0.0.0.0:0"][..], Exit::Usage, "loopback only"),
        (&["--upstream", "acme"], Exit::Usage, "--upstream must be one of"),
        (&["--config", "none.toml"], Exit::Usage, "Failed to read the configuration file"),
        (&["--unknown"], Exit::Usage, "--unknown"),
        (&["--listen", "127.0.0.1:0"], Exit::AgentMissing, "Install it."),
    ] {
        let mut stage = CommandFixture::new();
        let args = [&["serve"][..], args].concat();
        assert_eq!(stage.run(&args, &launcher).await, exit, "{args:?}");
        assert!(stage.err.text().contains(text), "{args:?}: {}", stage.err.text());
        assert_eq!(stage.out.text(), "");
    }
}

#[tokio::test]
async fn configuration_file_is_read_and_unknown_keys_are_reported() {
    let mut stage = CommandFixture::new();
    let directory = stage.scratch.path().join(".config/hostler");
    std::fs::create_dir_all(&directory).unwrap();
    let config = "upstream = 'scripted'\ncolour = 'blue'\n[agent.env]\nA = 'planted'\n\
        [upstreams.anthropic]\nurl = 'https://ada:planted@box.example/planted'\n";
    std::fs::write(directory.join("config.toml"), config).unwrap();
    let launcher = FakeHostLauncher::new([]);
    let serving = tokio::spawn(stage.command(&SERVE, stage.wiring(&launcher)));
    stage.out.wait_for("\n").await;
    stage.signal.send(Signal::Terminate).await.unwrap();
    assert_eq!(serving.await.unwrap(), Exit::Done);
    let options = launcher.recorded.options.lock().unwrap();
    assert_eq!(options[0].gateway.upstreams[0].name, "scripted");
    let [(name, value)] = &options[0].agent_env[..] else { panic!("{:?}", options[0].agent_env) };
    assert_eq!((name.as_str(), value.expose_secret()), ("A", "planted"));
    let shown = format!("{:?}", options[0]);
    assert!(shown.contains("https://box.example") && !shown.contains("planted"), "{shown}");
    assert!(stage.err.text().contains("config.toml line 2: `colour` is not a setting"), "{}", stage.err.text());
}
