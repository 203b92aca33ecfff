//! `hostler run` against a scripted host.

use std::sync::Arc;

use crate::support::host::{FakeHostLauncher, HostScriptStep, answer_steps, turn_complete, turn_error};
use crate::support::{CapturedOutput, CommandFixture, entry_names};
use hostler_cli::{Exit, LaunchError, Signal};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

fn gate() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(0))
}

async fn pass(gate: &Semaphore) {
    gate.acquire().await.unwrap().forget();
}

#[tokio::test]
async fn response_streams_to_stdout_and_nothing_else_does() {
    let mut stage = CommandFixture::new();
    let mut script = answer_steps(&["Hello", ", ", "world"]);
    script.insert(
        1,
        HostScriptStep::Chat(
            json!({ "type": "chat/responsePart", "part": { "kind": "reasoning", "id": "r", "content": "hmm" } }),
        ),
    );
    script.push(turn_complete());
    let launcher = FakeHostLauncher::new(script);

    assert_eq!(stage.run(&["run", "hi"], &launcher).await, Exit::Done);
    assert_eq!(stage.out.text(), "Hello, world");
    assert_eq!(stage.err.text(), "");
}

#[tokio::test]
async fn session_is_created_in_the_folder_with_the_users_message() {
    let mut stage = CommandFixture::new();
    let launcher = FakeHostLauncher::new(answer_steps(&["ok"]).into_iter().chain([turn_complete()]));
    let args = ["run", "--cwd", "..", "--model", "m-1", "--permission-mode", "plan", "what is this?"];
    assert_eq!(stage.run(&args, &launcher).await, Exit::Done);

    let created = &launcher.recorded.params("createSession")[0];
    let session = created["channel"].as_str().unwrap();
    uuid::Uuid::parse_str(session.strip_prefix("claude:/").unwrap()).unwrap();
    let folder = created["workingDirectories"][0].as_str().unwrap();
    assert!(folder.starts_with("file:///") && !folder.ends_with('/'), "{folder}");
    assert_eq!(created["config"], json!({ "permissionMode": "plan" }));

    let dispatched = &launcher.recorded.params("dispatchAction")[0];
    assert_eq!(dispatched["channel"], format!("ahp-chat://fake/{session}"));
    let message = json!({ "text": "what is this?", "origin": { "kind": "user" }, "model": { "id": "m-1" } });
    assert_eq!(dispatched["action"]["message"], message);
    let started = dispatched["action"]["startedAt"].as_str().unwrap();
    assert!(started.ends_with('Z') && started.len() == "2026-01-01T00:00:00.000Z".len(), "{started}");
    let subscribed: Vec<_> =
        launcher.recorded.params("subscribe").iter().map(|params| params["channel"].clone()).collect();
    assert_eq!(subscribed, [json!(session), json!(format!("ahp-chat://fake/{session}"))]);
}

#[tokio::test]
async fn terminal_shows_dim_reasoning_and_ends_with_a_line_break() {
    let mut stage = CommandFixture::new().on_terminal();
    let script = [
        HostScriptStep::Chat(
            json!({ "type": "chat/responsePart", "part": { "kind": "reasoning", "id": "r", "content": "" } }),
        ),
        HostScriptStep::Chat(json!({ "type": "chat/reasoning", "partId": "r", "content": "hmm" })),
        HostScriptStep::Chat(
            json!({ "type": "chat/responsePart", "part": { "kind": "markdown", "id": "m", "content": "an\u{1b}[2Jswer" } }),
        ),
        turn_complete(),
    ];
    assert_eq!(stage.run(&["run", "hi"], &FakeHostLauncher::new(script.clone())).await, Exit::Done);
    assert_eq!(stage.out.text(), "\u{1b}[2mhmm\u{1b}[0m\n\nan[2Jswer\n");

    let mut plain = CommandFixture::new().on_terminal().with_var("NO_COLOR", "1");
    assert_eq!(plain.run(&["run", "hi"], &FakeHostLauncher::new(script)).await, Exit::Done);
    assert_eq!(plain.out.text(), "hmm\n\nan[2Jswer\n");
}

#[tokio::test]
async fn tool_calls_are_printed_on_stderr_with_denials() {
    let mut stage = CommandFixture::new();
    let start = |id: &str, name: &str| {
        HostScriptStep::Chat(
            json!({ "type": "chat/toolCallStart", "toolCallId": id, "toolName": name, "displayName": name }),
        )
    };
    let script = [
        start("a", "Read"),
        HostScriptStep::Chat(
            json!({ "type": "chat/toolCallReady", "toolCallId": "a", "invocationMessage": "Reading x", "confirmed": "not-needed" }),
        ),
        HostScriptStep::Chat(
            json!({ "type": "chat/toolCallComplete", "toolCallId": "a", "result": { "success": true, "pastTenseMessage": "Read x" } }),
        ),
        start("b", "Bash"),
        HostScriptStep::Chat(json!({ "type": "chat/toolCallReady", "toolCallId": "b", "invocationMessage": "rm" })),
        HostScriptStep::Chat(
            json!({ "type": "chat/toolCallConfirmed", "toolCallId": "b", "approved": false, "reason": "denied", "reasonMessage": "not allowed here" }),
        ),
        start("c", "Edit"),
        HostScriptStep::Chat(
            json!({ "type": "chat/toolCallComplete", "toolCallId": "c", "result": { "success": false, "pastTenseMessage": "Edited", "error": { "message": "no such file" } } }),
        ),
        turn_complete(),
    ];
    assert_eq!(stage.run(&["run", "hi"], &FakeHostLauncher::new(script)).await, Exit::Done);
    assert_eq!(stage.err.text(), "• Read: Reading x\n✗ Bash: denied: not allowed here\n✗ Edit: failed: no such file\n");
    assert_eq!(stage.out.text(), "");
}

/// Returns a host that asks about a command and accepts any answer.
fn asking() -> FakeHostLauncher {
    let start = json!({ "type": "chat/toolCallStart", "toolCallId": "a", "toolName": "Bash", "displayName": "Bash" });
    let ready = json!({ "type": "chat/toolCallReady", "toolCallId": "a", "invocationMessage": "Run `touch made`",
        "options": [{ "id": "allow-once", "label": "Allow once", "kind": "approve" },
            { "id": "deny", "label": "Deny", "kind": "deny" }] });
    FakeHostLauncher::new([
        HostScriptStep::Chat(start),
        HostScriptStep::Chat(ready),
        HostScriptStep::EchoNextAction,
        turn_complete(),
    ])
}

fn confirmation(launcher: &FakeHostLauncher) -> Value {
    let frames = launcher.recorded.frames.lock().unwrap();
    let mut actions = frames.iter().map(|frame| &frame["params"]["action"]);
    actions.find(|action| action["type"] == "chat/toolCallConfirmed").unwrap().clone()
}

#[tokio::test]
async fn terminal_user_is_prompted_and_the_answer_is_dispatched() {
    let mut stage = CommandFixture::new().on_terminal();
    stage.stdin = b"7\n1\n".to_vec();
    let launcher = asking();
    assert_eq!(stage.run(&["run", "hi"], &launcher).await, Exit::Done);
    let action = confirmation(&launcher);
    assert_eq!((&action["approved"], &action["selectedOptionId"]), (&json!(true), &json!("allow-once")));
    let expected = "\n? Bash: Run `touch made`\n  1  Allow once\n  2  Deny\nEnter a number, or a message that denies \
                    the call: Enter a number from 1 to 2, or a message: ";
    assert!(stage.err.text().contains(expected), "{}", stage.err.text());
}

#[tokio::test]
async fn closed_or_missing_stdin_denies_requests() {
    for mut stage in [CommandFixture::new().on_terminal(), CommandFixture::new()] {
        let asked = stage.is_terminal;
        if !asked {
            stage.stdin = b"1\n".to_vec();
        }
        let launcher = asking();
        assert_eq!(stage.run(&["run", "hi"], &launcher).await, Exit::Done);
        let action = confirmation(&launcher);
        assert_eq!(action["approved"], false);
        assert!(action["reasonMessage"].as_str().unwrap().starts_with("Denied: not running in a terminal"), "{action}");
        let text = stage.err.text();
        assert_eq!(text.contains("Allow once"), asked, "{text}");
        assert!(text.contains("Bash: denied: Denied: not running in a terminal"), "{text}");
    }
}

#[tokio::test]
async fn json_output_prints_each_envelope_on_one_line() {
    let mut stage = CommandFixture::new();
    let launcher = FakeHostLauncher::new(answer_steps(&["two\nlines"]).into_iter().chain([turn_complete()]));
    assert_eq!(stage.run(&["run", "--json", "hi"], &launcher).await, Exit::Done);
    let envelopes: Vec<Value> = stage.out.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = envelopes.iter().map(|envelope| envelope["action"]["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["chat/turnStarted", "session/ready", "chat/responsePart", "chat/delta", "chat/turnComplete"]);
    let seqs: Vec<_> = envelopes.iter().map(|envelope| envelope["serverSeq"].as_u64().unwrap()).collect();
    assert!(seqs.is_sorted(), "{seqs:?}");
}

#[tokio::test]
async fn turn_errors_print_cause_and_fix_with_their_exit_code() {
    for (kind, exit, hint) in [
        ("auth", Exit::UpstreamRefused, "HOSTLER_UPSTREAM_KEY"),
        ("agentMissing", Exit::AgentMissing, "hostler agents install claude"),
        ("agentExited", Exit::Failed, "line of stderr"),
    ] {
        let mut stage = CommandFixture::new();
        let launcher = FakeHostLauncher::new([turn_error(kind, "It went wrong.")]);
        assert_eq!(stage.run(&["run", "hi"], &launcher).await, exit, "{kind}");
        let text = stage.err.text();
        assert!(text.starts_with("It went wrong.\nOutput of the agent:\n  line of stderr\n"), "{text}");
        assert!(text.contains(hint), "{text}");
        assert_eq!(stage.out.text(), "");
    }
}

/// Runs a command with `--json`; returns its exit and the lines on stdout.
async fn run_json(stage: &mut CommandFixture, args: &[&str], launcher: &FakeHostLauncher) -> (Exit, Vec<Value>) {
    let exit = stage.run(args, launcher).await;
    (exit, stage.out.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[tokio::test]
async fn json_output_ends_with_one_error_line_if_the_turn_fails() {
    let script = || answer_steps(&["half"]).into_iter();
    for (launcher, exit, code, message) in [
        (
            FakeHostLauncher::new(script().chain([turn_error("auth", "It went wrong.")])),
            Exit::UpstreamRefused,
            "auth",
            "It went wrong.\nOutput of the agent:\n",
        ),
        (
            FakeHostLauncher::new(script().chain([HostScriptStep::HangUp])),
            Exit::Failed,
            "connectionClosed",
            "The connection to the host was closed: ",
        ),
        (
            FakeHostLauncher::new([HostScriptStep::Reject("a turn is running")]),
            Exit::Failed,
            "turnActive",
            "The host rejected the message: a turn is running",
        ),
    ] {
        let mut stage = CommandFixture::new();
        let (ended, lines) = run_json(&mut stage, &["run", "--json", "hi"], &launcher).await;
        assert_eq!(ended, exit, "{}", stage.err.text());
        let (error, envelopes) = lines.split_last().unwrap();
        assert_eq!(error["error"]["code"], code, "{error}");
        assert!(error["error"]["message"].as_str().unwrap().starts_with(message), "{error}");
        assert!(!envelopes.is_empty() && envelopes.iter().all(|line| line["action"].is_object()), "{envelopes:?}");
        assert!(stage.err.text().starts_with(message), "the sentence is on stderr too: {}", stage.err.text());
    }
}

#[tokio::test]
async fn json_error_line_is_printed_for_usage_and_settings_errors() {
    for (args, variable, code) in [
        (&["run", "--json", " "][..], None, "emptyMessage"),
        (&["run", "--json", "--cwd", "nowhere", "hi"], None, "notADirectory"),
        (&["run", "--json", "hi"], Some(("HOSTLER_LISTEN", "8137")), "invalidSetting"),
        (&["run", " "], Some(("HOSTLER_JSON", "1")), "emptyMessage"),
        (&["sessions", "show", "--json", "beef"], None, "sessionNotFound"),
        (&["link", "--json"], None, "hostNotRunning"),
    ] {
        let mut stage = CommandFixture::new();
        if let Some((name, value)) = variable {
            stage = stage.with_var(name, value);
        }
        let (exit, lines) = run_json(&mut stage, args, &FakeHostLauncher::new([])).await;
        assert_ne!(exit, Exit::Done);
        let [line] = &lines[..] else { panic!("{args:?}: {lines:?}") };
        assert_eq!(line["error"]["code"], code, "{args:?}");
        assert_eq!(line["error"]["message"].as_str().unwrap(), stage.err.text().trim_end(), "{args:?}");
    }
    // Without --json, stdout stays empty.
    let mut stage = CommandFixture::new();
    assert_eq!(stage.run(&["run", " "], &FakeHostLauncher::new([])).await, Exit::Usage);
    assert_eq!(stage.out.text(), "");
}

#[tokio::test]
async fn interrupts_and_closed_pipes_print_no_json_error() {
    let mut stage = CommandFixture::new();
    let script = [HostScriptStep::Signal(stage.signal.clone(), Signal::Interrupt), HostScriptStep::WaitForCancel];
    let (exit, lines) = run_json(&mut stage, &["run", "--json", "hi"], &FakeHostLauncher::new(script)).await;
    assert_eq!(exit, Exit::Interrupted);
    assert!(lines.iter().all(|line| line.get("error").is_none()), "{lines:?}");

    let mut stage = CommandFixture::new();
    stage.out = CapturedOutput::with_broken_pipe();
    assert_eq!(stage.run(&["doctor", "--json"], &FakeHostLauncher::new([])).await, Exit::Done);
    assert_eq!(stage.err.text(), "");
}

#[tokio::test]
async fn rejected_message_fails_with_the_hosts_reason() {
    let mut stage = CommandFixture::new();
    let launcher = FakeHostLauncher::new([HostScriptStep::Reject("a turn is running")]);
    assert_eq!(stage.run(&["run", "hi"], &launcher).await, Exit::Failed);
    assert_eq!(stage.err.text(), "The host rejected the message: a turn is running\n");
}

#[tokio::test]
async fn lost_connection_is_a_failure() {
    let mut stage = CommandFixture::new();
    let launcher = FakeHostLauncher::new(answer_steps(&["half"]).into_iter().chain([HostScriptStep::HangUp]));
    assert_eq!(stage.run(&["run", "hi"], &launcher).await, Exit::Failed);
    assert_eq!(stage.out.text(), "half");
    assert!(stage.err.text().starts_with("The connection to the host was closed: "), "{}", stage.err.text());
}

#[tokio::test]
async fn ctrl_c_cancels_the_turn_and_waits_for_its_end() {
    let mut stage = CommandFixture::new();
    let script = answer_steps(&["half"])
        .into_iter()
        .chain([HostScriptStep::Signal(stage.signal.clone(), Signal::Interrupt), HostScriptStep::WaitForCancel]);
    let launcher = FakeHostLauncher::new(script);
    assert_eq!(stage.run(&["run", "hi"], &launcher).await, Exit::Interrupted);
    assert_eq!(launcher.recorded.actions(), ["chat/turnStarted", "chat/turnCancelled"]);
    assert_eq!(*launcher.recorded.shut_down.lock().unwrap(), 1);
}

#[tokio::test]
async fn second_ctrl_c_does_not_wait() {
    let mut stage = CommandFixture::new();
    let interrupt = || HostScriptStep::Signal(stage.signal.clone(), Signal::Interrupt);
    let launcher =
        FakeHostLauncher::new([interrupt(), HostScriptStep::IgnoreCancel, interrupt(), HostScriptStep::IgnoreCancel]);
    assert_eq!(stage.run(&["run", "hi"], &launcher).await, Exit::Interrupted);
    assert_eq!(*launcher.recorded.shut_down.lock().unwrap(), 0);
    assert!(!stage.state_dir().join("endpoint.json").exists());
}

#[tokio::test]
async fn closed_stdout_cancels_the_turn_without_output() {
    let mut stage = CommandFixture::new();
    stage.out = CapturedOutput::with_broken_pipe();
    let launcher = FakeHostLauncher::new(answer_steps(&["lost"]).into_iter().chain([HostScriptStep::WaitForCancel]));
    assert_eq!(stage.run(&["run", "hi"], &launcher).await, Exit::Done);
    assert_eq!(stage.err.text(), "");
    assert_eq!(launcher.recorded.actions(), ["chat/turnStarted", "chat/turnCancelled"]);
}

#[tokio::test]
async fn dash_reads_the_message_from_stdin() {
    let mut stage = CommandFixture::new();
    stage.stdin = b"from a pipe\n".to_vec();
    let launcher = FakeHostLauncher::new([turn_complete()]);
    assert_eq!(stage.run(&["run", "-"], &launcher).await, Exit::Done);
    assert_eq!(launcher.recorded.params("dispatchAction")[0]["action"]["message"]["text"], "from a pipe\n");

    let mut empty = CommandFixture::new();
    assert_eq!(empty.run(&["run", "-"], &launcher).await, Exit::Usage);
    assert_eq!(empty.err.text(), "The message is empty.\n");
}

#[tokio::test]
async fn failed_host_start_sets_the_exit_code() {
    for (failure, exit) in [
        (LaunchError::AgentMissing("No agent.".into()), Exit::AgentMissing),
        (LaunchError::Other("No port.".into()), Exit::Failed),
    ] {
        let mut stage = CommandFixture::new();
        assert_eq!(stage.run(&["run", "hi"], &FakeHostLauncher::failing_to_start(failure)).await, exit);
        assert_eq!(entry_names(&stage.state_dir()), ["host.lock", "token"]);
    }
}

#[tokio::test]
async fn host_request_is_answered() {
    let mut stage = CommandFixture::new();
    let launcher = FakeHostLauncher::new([HostScriptStep::SendRequest("resourceRead"), turn_complete()]);
    assert_eq!(stage.run(&["run", "hi"], &launcher).await, Exit::Done);
    let frames = launcher.recorded.frames.lock().unwrap();
    assert!(frames.iter().any(|frame| frame["id"] == "q1" && frame["error"]["code"] == -32601));
}

#[tokio::test]
async fn started_host_is_published_with_a_token_and_removed_afterwards() {
    let (reached, go_on) = (gate(), gate());
    let mut stage = CommandFixture::new().with_var("HOSTLER_UPSTREAM", "scripted").with_var("HOSTLER_NO_TOKEN", "1");
    let launcher =
        FakeHostLauncher::new([HostScriptStep::Synchronize(reached.clone(), go_on.clone()), turn_complete()]);
    let command = tokio::spawn(stage.command(&["run", "hi"], stage.wiring(&launcher)));
    pass(&reached).await;
    assert_eq!(entry_names(&stage.state_dir()), ["endpoint.json", "host.lock", "token"]);
    {
        let options = launcher.recorded.options.lock().unwrap();
        assert!(options[0].listen.ip().is_loopback() && options[0].listen.port() == 0);
        assert!(options[0].token.is_some());
        assert_eq!(options[0].gateway.upstreams[0].name, "scripted");
    }
    go_on.add_permits(1);
    assert_eq!(command.await.unwrap(), Exit::Done);
    assert_eq!(entry_names(&stage.state_dir()), ["host.lock", "token"]);
    assert_eq!(*launcher.recorded.shut_down.lock().unwrap(), 1);
}

#[tokio::test]
async fn second_command_shares_the_host_of_the_first_which_waits_for_it() {
    let (reached, go_on) = (gate(), gate());
    let mut first = CommandFixture::new();
    let launcher =
        FakeHostLauncher::new([HostScriptStep::Synchronize(reached.clone(), go_on.clone()), turn_complete()]);
    let first_run = tokio::spawn(first.command(&["run", "one"], first.wiring(&launcher)));
    pass(&reached).await;

    let mut second = CommandFixture::new();
    let unused = FakeHostLauncher::failing_to_start(LaunchError::Other("must not be launched".into()));
    let state_dir = first.state_dir().display().to_string();
    let second_run = tokio::spawn(second.command(&["run", "--state-dir", &state_dir, "two"], second.wiring(&unused)));
    pass(&reached).await;

    // Both turns wait; only the first one is released.
    go_on.add_permits(1);
    first.err.wait_for("Other clients are connected").await;
    assert_eq!(*launcher.recorded.shut_down.lock().unwrap(), 0);

    go_on.add_permits(1);
    assert_eq!(second_run.await.unwrap(), Exit::Done);
    assert_eq!(first_run.await.unwrap(), Exit::Done);
    assert_eq!(*launcher.recorded.shut_down.lock().unwrap(), 1);
}

#[tokio::test]
async fn wrong_token_is_reported() {
    let mut server = CommandFixture::new();
    let launcher = FakeHostLauncher::new([]);
    let serving = tokio::spawn(server.command(&["serve", "--listen", "127.0.0.1:0"], server.wiring(&launcher)));
    server.out.wait_for("READY:").await;
    std::fs::write(server.state_dir().join("token"), "another-one").unwrap();

    let mut client = CommandFixture::new();
    let state_dir = server.state_dir().display().to_string();
    assert_eq!(client.run(&["run", "--state-dir", &state_dir, "hi"], &launcher).await, Exit::Failed);
    assert_eq!(client.err.text(), "The host rejected the connection with status 403. Check the token.\n");

    server.signal.send(Signal::Terminate).await.unwrap();
    assert_eq!(serving.await.unwrap(), Exit::Done);
}

#[tokio::test]
async fn two_commands_at_once_start_one_host() {
    let (reached, go_on) = (gate(), gate());
    let launcher =
        FakeHostLauncher::new([HostScriptStep::Synchronize(reached.clone(), go_on.clone()), turn_complete()]);
    let (mut one, mut two) = (CommandFixture::new(), CommandFixture::new());
    let state_dir = one.state_dir().display().to_string();
    let args = ["run", "--state-dir", &state_dir, "hi"];
    let one = tokio::spawn(one.command(&args, one.wiring(&launcher)));
    let two = tokio::spawn(two.command(&args, two.wiring(&launcher)));
    // Both turns run before either may end.
    pass(&reached).await;
    pass(&reached).await;
    assert_eq!(launcher.recorded.options.lock().unwrap().len(), 1);
    go_on.add_permits(1);
    go_on.add_permits(1);
    assert_eq!((one.await.unwrap(), two.await.unwrap()), (Exit::Done, Exit::Done));
    assert_eq!(*launcher.recorded.shut_down.lock().unwrap(), 1);
}
