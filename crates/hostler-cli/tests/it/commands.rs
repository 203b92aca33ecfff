//! `demo`, `agents`, `doctor`, `completions` and the help.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::support::host::{FakeHostLauncher, HostScriptStep, answer_steps, turn_complete, turn_error};
use crate::support::installer::FakeInstaller;
use crate::support::{CommandFixture, entry_names};
use futures::future::BoxFuture;
use hostler_cli::{CredentialSpec, DoctorCheck, DoctorFinding, Exit, Signal, Wiring};
use serde_json::{Value, json};

fn demo_script() -> Vec<HostScriptStep> {
    let usage = json!({ "type": "chat/usage", "usage": { "inputTokens": 12, "outputTokens": 3, "model": "scripted" } });
    answer_steps(&["Hello", " there.\nBye"]).into_iter().chain([HostScriptStep::Chat(usage), turn_complete()]).collect()
}

#[tokio::test]
async fn demo_prints_every_hop_and_cleans_up() {
    let mut stage =
        CommandFixture::new().with_var("HOSTLER_UPSTREAM", "anthropic").with_var("ANTHROPIC_API_KEY", "sk-planted");
    let launcher = FakeHostLauncher::new(demo_script());
    let mut wiring = stage.wiring(&launcher);
    wiring.installers = vec![Arc::new(FakeInstaller::missing(stage.scratch.path()))];
    assert_eq!(stage.run_with_wiring(&["demo", "--once"], wiring).await, Exit::Done);

    let text = stage.out.text();
    let mut rest = text.as_str();
    for hop in [
        "upstream: scripted",
        "host │ ready in ",
        "session │ claude:/",
        "no process yet",
        "you │ “hi”",
        "agent │ Claude Code 2.1.325 started in ",
        "(pid 4242)",
        "gateway │ first output after ",
        "claude │ Hello there.",
        "claude │ Bye",
        "gateway │ 1 request to the upstream",
        "usage │ 12 tokens in, 3 out (scripted)",
        "turn │ complete after ",
        "you │ “and once more”",
        "turn │ complete after ",
        "the second message went to the same process (pid 4242)",
    ] {
        let (_, after) = rest.split_once(hop).unwrap_or_else(|| panic!("no {hop:?} after the others in:\n{text}"));
        rest = after;
    }
    let installed = "claude 2.1.325 (native): downloading, 0%\nclaude 2.1.325 (native): downloading, 100%\n\
                     claude 2.1.325 (native): verifying\nclaude 2.1.325 (native) is installed: ";
    assert!(stage.err.text().starts_with(installed), "{}", stage.err.text());

    assert_eq!(entry_names(&stage.scratch.path().join("tmp")), Vec::<String>::new());
    assert!(!stage.state_dir().exists());
    let options = launcher.recorded.options.lock().unwrap();
    assert_eq!(options[0].gateway.upstreams.len(), 1);
    assert_eq!(options[0].gateway.upstreams[0].credential, CredentialSpec::None);
    assert!(options[0].agent_env.iter().any(|(name, _)| name == "CLAUDE_CONFIG_DIR"));
    assert_eq!(*launcher.recorded.shut_down.lock().unwrap(), 1);
}

#[tokio::test]
async fn demo_keeps_serving_until_interrupted() {
    let mut stage = CommandFixture::new();
    let launcher = FakeHostLauncher::new(demo_script());
    let demo = tokio::spawn(stage.command(&["demo"], stage.wiring(&launcher)));
    stage.err.wait_for("Press Ctrl-C to stop the demo.").await;
    let text = stage.err.text();
    assert!(text.contains("Listening on ws://127.0.0.1:") && text.contains("Try: hostler run --state-dir "), "{text}");
    stage.signal.send(Signal::Interrupt).await.unwrap();
    assert_eq!(demo.await.unwrap(), Exit::Done);
    assert_eq!(entry_names(&stage.scratch.path().join("tmp")), Vec::<String>::new());
}

#[tokio::test]
async fn failed_demo_reports_the_error_and_cleans_up() {
    let mut stage = CommandFixture::new();
    let launcher = FakeHostLauncher::new([turn_error("auth", "Refused.")]);
    assert_eq!(stage.run(&["demo", "--once"], &launcher).await, Exit::UpstreamRefused);
    assert!(stage.err.text().starts_with("Refused."), "{}", stage.err.text());
    assert_eq!(entry_names(&stage.scratch.path().join("tmp")), Vec::<String>::new());
    assert_eq!(*launcher.recorded.shut_down.lock().unwrap(), 1);
}

fn wiring(stage: &CommandFixture, installer: FakeInstaller) -> Wiring {
    Wiring { installers: vec![Arc::new(installer)], ..stage.wiring(&FakeHostLauncher::new([])) }
}

#[tokio::test]
async fn install_prints_steps_and_path() {
    let mut stage = CommandFixture::new();
    let installer = FakeInstaller::missing(stage.scratch.path());
    let wiring = wiring(&stage, installer);
    assert_eq!(stage.run_with_wiring(&["agents", "install", "claude", "--build", "js"], wiring).await, Exit::Done);
    let text = stage.err.text();
    assert!(text.contains("claude 2.1.325 (js): verifying\nclaude 2.1.325 (js) is installed: "), "{text}");
}

#[tokio::test]
async fn failed_install_prints_the_installers_error_and_exits_with_3() {
    let mut stage = CommandFixture::new();
    let wiring = wiring(&stage, FakeInstaller::failing("The registry cannot be reached: check the network."));
    assert_eq!(stage.run_with_wiring(&["agents", "install", "claude"], wiring).await, Exit::AgentMissing);
    assert!(stage.err.text().ends_with("The registry cannot be reached: check the network.\n"));
}

#[tokio::test]
async fn interrupted_install_is_stopped_before_the_command_ends() {
    let mut stage = CommandFixture::new();
    let installer = FakeInstaller::hanging(stage.scratch.path());
    let wiring = wiring(&stage, installer.clone());
    let installing = tokio::spawn(stage.command(&["agents", "install", "claude"], wiring));
    stage.signal.send(Signal::Interrupt).await.unwrap();
    assert_eq!(installing.await.unwrap(), Exit::Interrupted);
    assert!(installer.stopped.load(Ordering::Relaxed));
}

#[tokio::test]
async fn unknown_agent_or_build_is_a_usage_error() {
    for args in [&["agents", "install", "codex"][..], &["agents", "install", "claude", "--build", "wasm"]] {
        let mut stage = CommandFixture::new();
        let wiring = wiring(&stage, FakeInstaller::missing(stage.scratch.path()));
        assert_eq!(stage.run_with_wiring(args, wiring).await, Exit::Usage);
        assert!(stage.err.text().contains("Choose one of: "), "{}", stage.err.text());
    }
}

#[tokio::test]
async fn agents_list_shows_each_build_and_its_path() {
    let mut stage = CommandFixture::new();
    let installer = FakeInstaller::installed(stage.scratch.path());
    let wiring = wiring(&stage, installer);
    assert_eq!(stage.run_with_wiring(&["agents", "list"], wiring).await, Exit::Done);
    let text = stage.out.text();
    let path = stage.scratch.path().join("claude").display().to_string();
    let columns: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(columns[1], ["claude", "native", "2.1.325", &path]);
    assert_eq!(columns[2], ["claude", "js", "2.1.325", "no"]);
}

struct Broken;

impl DoctorCheck for Broken {
    fn name(&self) -> &str {
        "store"
    }

    fn run(&self) -> BoxFuture<'_, Vec<DoctorFinding>> {
        Box::pin(async { vec![DoctorFinding::problem("The journal is damaged.", "Restore it.")] })
    }
}

#[tokio::test]
async fn doctor_passes_with_an_installed_agent_and_prints_no_key() {
    let mut stage = CommandFixture::new().with_var("HOSTLER_UPSTREAM_KEY", "sk-planted");
    let launcher = FakeHostLauncher::new([]);
    assert_eq!(stage.run(&["doctor"], &launcher).await, Exit::Done);
    let text = stage.out.text();
    assert!(text.contains("claude 2.1.325 (native) is installed."), "{text}");
    assert!(text.contains("anthropic has a key in the variable HOSTLER_UPSTREAM_KEY."), "{text}");
    assert!(text.contains("npm is not on the PATH."), "{text}");
    assert!(!text.contains("sk-planted") && !text.contains('\u{1b}'), "{text}");
    assert!(!stage.state_dir().exists(), "doctor changes nothing");
}

#[tokio::test]
async fn doctor_exit_code_distinguishes_a_missing_agent() {
    let mut stage = CommandFixture::new();
    let missing = wiring(&stage, FakeInstaller::missing(stage.scratch.path()));
    assert_eq!(stage.run_with_wiring(&["doctor"], missing).await, Exit::AgentMissing);
    assert!(stage.out.text().contains("→ Run `hostler agents install claude --build native`."));

    let mut stage = CommandFixture::new();
    let mut broken = stage.wiring(&FakeHostLauncher::new([]));
    broken.doctor_checks = vec![Arc::new(Broken)];
    assert_eq!(stage.run_with_wiring(&["doctor", "--json"], broken).await, Exit::Failed);
    let report: Vec<Value> = serde_json::from_str(&stage.out.text()).unwrap();
    let last = json!({ "check": "store", "level": "problem", "text": "The journal is damaged.", "fix": "Restore it." });
    assert_eq!(report.last(), Some(&last));
}

#[tokio::test]
async fn doctor_finds_the_running_host() {
    let mut server = CommandFixture::new();
    let launcher = FakeHostLauncher::new([]);
    let serving = tokio::spawn(server.command(&["serve", "--listen", "127.0.0.1:0"], server.wiring(&launcher)));
    server.out.wait_for("READY:").await;
    let mut stage = CommandFixture::new();
    let state_dir = server.state_dir().display().to_string();
    assert_eq!(stage.run(&["doctor", "--state-dir", &state_dir], &launcher).await, Exit::Done);
    let text = stage.out.text();
    assert!(text.contains("A host is running at 127.0.0.1:"), "{text}");
    assert!(text.contains(&format!("(process {}, since ", std::process::id())), "{text}");
    server.signal.send(Signal::Terminate).await.unwrap();
    assert_eq!(serving.await.unwrap(), Exit::Done);
}

#[tokio::test]
async fn completions_and_help_go_to_stdout() {
    for (args, part) in [
        (&["completions", "bash"][..], "complete -F _hostler"),
        (&["--help"], "hostler demo"),
        (&["--version"], concat!("hostler ", env!("CARGO_PKG_VERSION"))),
    ] {
        let mut stage = CommandFixture::new();
        assert_eq!(stage.run(args, &FakeHostLauncher::new([])).await, Exit::Done);
        assert!(stage.out.text().contains(part), "{}", stage.out.text());
        assert_eq!(stage.err.text(), "");
    }
}
