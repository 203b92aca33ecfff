//! The command line as people and scripts use it: the real binary, the real agent, the scripted model.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::common::{TEST_TIMEOUT, TestHome, list_files, run_to_end, text};
use ahp_types::StateAction;
use ahp_types::actions::ActionEnvelope;
use ahp_types::state::{SnapshotState, TurnState};
use hostler_testkit::processes;
use hostler_testkit::test_client::collect_text;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use uuid::Uuid;

/// Marks the processes of one test: agents inherit it.
const TEST_MARK_VARIABLE: &str = "MARK_OF_THE_TEST";

const HI_ANSWER: &str = "Hello from the scripted model. You said: hi";

/// Home directory whose commands run on the scripted model and clean up.
struct CliUser {
    home: TestHome,
    mark: String,
}

impl CliUser {
    fn new() -> Self {
        Self { home: TestHome::new(), mark: Uuid::new_v4().to_string() }
    }

    fn hostler(&self, args: &[&str]) -> Command {
        let mut command = self.home.hostler_command(args);
        command.env("HOSTLER_UPSTREAM", "scripted").env(TEST_MARK_VARIABLE, &self.mark);
        command
    }

    async fn run(&self, args: &[&str]) -> Output {
        run_to_end(self.hostler(args)).await
    }

    /// Runs a command that must end with an exit code.
    async fn run_expecting(&self, code: i32, args: &[&str]) -> (String, String) {
        let output = self.run(args).await;
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{err}");
        (out, err)
    }

    /// Asserts that no process, address or lock remains.
    fn assert_nothing_left(&self) {
        let marked =
            |process: &processes::ProcessInfo| processes::read_environment(process.pid).concat().contains(&self.mark);
        let left: Vec<_> = processes::list_processes().into_iter().filter(marked).collect();
        assert!(left.is_empty(), "{left:#?}");
        let endpoint = self.home.path("state").join("hostler").join("endpoint.json");
        assert!(!endpoint.exists());
        assert!(self.home.locks().is_empty(), "{:?}", self.home.locks());
    }
}

/// Reads a command's stdout until it contains a text.
async fn until_printed(child: &mut Child, wanted: &str) {
    let stdout = child.stdout.as_mut().unwrap();
    let mut printed = Vec::new();
    while !String::from_utf8_lossy(&printed).contains(wanted) {
        let read =
            tokio::time::timeout(TEST_TIMEOUT, stdout.read_buf(&mut printed)).await.expect("output comes").unwrap();
        assert_ne!(read, 0, "it ended after {:?}", String::from_utf8_lossy(&printed));
    }
}

fn interrupt(child: &Child) {
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGINT).unwrap();
}

async fn exit_code(child: &mut Child) -> Option<i32> {
    tokio::time::timeout(TEST_TIMEOUT, child.wait()).await.expect("it ends").unwrap().code()
}

#[tokio::test]
async fn run_without_a_host_starts_one_and_cleans_up() {
    let user = CliUser::new();
    let (out, err) = user.run_expecting(0, &["run", "hi"]).await;
    assert_eq!((out.as_str(), err.as_str()), (HI_ANSWER, ""));
    user.assert_nothing_left();
    // The first turn is stored, and the next command is another host on the same state.
    let (out, _) = user.run_expecting(0, &["run", "hi"]).await;
    assert_eq!(out, HI_ANSWER);
    user.assert_nothing_left();
}

#[tokio::test]
async fn run_uses_the_running_host() {
    let user = CliUser::new();
    let host = user.home.serve("native").await;
    let (out, _) = user.run_expecting(0, &["run", "hi"]).await;
    assert_eq!(out, HI_ANSWER);
    assert_eq!(host.agents().len(), 1, "the running host has started the agent");
    let peer = host.connect().await;
    let list: Value = peer.client.request("listSessions", json!({"channel": "ahp-root://"})).await.unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(list["items"][0]["title"], "hi");
    assert!(user.home.path("state").join("hostler").join("endpoint.json").exists());
    host.stop().await;
    user.assert_nothing_left();
}

#[tokio::test]
async fn running_host_follows_rules_added_by_the_command_line() {
    let user = CliUser::new();
    let host = user.home.serve("native").await;
    let made = user.home.work().join("made");
    let script = "!tool Bash {\"command\":\"touch made\",\"description\":\"x\"}\n!say done";
    let (effect, rule, work) = ("allow", "Bash(touch made)", user.home.work().display().to_string());
    let (out, _) = user.run_expecting(0, &["rules", "test", rule]).await;
    assert!(out.starts_with("Requires approval: no rule matches `touch made`.\n"), "{out}");
    let (out, _) = user.run_expecting(0, &["rules", "test", rule, "--json"]).await;
    let asked: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&asked["decision"], &asked["rule"]), (&json!("ask"), &Value::Null));
    assert!(asked["reason"].as_str().unwrap().starts_with("Requires approval: no rule matches `touch made`."), "{out}");

    let (_, err) = user.run_expecting(0, &["rules", "add", effect, rule, "--workspace", &work]).await;
    assert_eq!(err, format!("Added: allow Bash(touch made), for sessions in {work}.\n"));
    let (out, _) = user.run_expecting(0, &["rules", "list"]).await;
    assert!(out.lines().nth(1).is_some_and(|line| line.starts_with("allow") && line.ends_with(&work)), "{out}");
    let (out, _) = user.run_expecting(0, &["rules", "test", rule]).await;
    let allowed = "Allowed: the workspace rule `Bash(touch made)` allows `touch made`.";
    assert_eq!(out, format!("{allowed}\n"));
    let (out, _) = user.run_expecting(0, &["rules", "test", rule, "--json"]).await;
    let decision: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(decision, json!({"decision": "allow", "reason": allowed, "rule": "Bash(touch made)"}));
    let token = format!("Read({})", user.home.path("state").join("hostler").join("token").display());
    let (out, _) =
        user.run_expecting(0, &["rules", "test", &token, "--mode", "acceptEdits", "--cwd", "/", "--json"]).await;
    assert!(out.contains(r#""decision":"ask""#) && out.contains("Hostler's own files"), "{out}");
    user.run_expecting(0, &["run", script]).await;
    assert!(made.exists(), "the host allows it");

    std::fs::remove_file(&made).unwrap();
    user.run_expecting(0, &["rules", "remove", effect, rule, "--workspace", &work]).await;
    user.run_expecting(0, &["run", script]).await;
    assert!(!made.exists(), "no person can be asked, and no rule allows it any more");
    let (_, err) = user.run_expecting(2, &["rules", "add", effect, "Bash(touch"]).await;
    assert!(err.contains("the closing parenthesis is missing (at character "), "{err}");
    host.stop().await;
    user.assert_nothing_left();
}

/// Runs a command on a terminal; types each text once the other one of its pair was shown.
async fn on_a_terminal(mut command: Command, typed: Vec<(&'static str, &'static str)>) -> (Option<i32>, String) {
    let pty = nix::pty::openpty(None, None).unwrap();
    let slave = || Stdio::from(pty.slave.try_clone().unwrap());
    let mut child = command.stdin(slave()).stdout(slave()).stderr(slave()).spawn().unwrap();
    drop(command);
    drop(pty.slave);
    let terminal = std::fs::File::from(pty.master);
    let shown = tokio::task::spawn_blocking(move || {
        use std::io::{Read as _, Write as _};
        let (mut typing, mut terminal) = (terminal.try_clone().unwrap(), terminal);
        let (mut shown, mut fresh) = (String::new(), String::new());
        let mut typed = typed.into_iter().peekable();
        let mut bytes = [0_u8; 1024];
        // Linux ends a terminal that no process has open with an error.
        while let Ok(count @ 1..) = terminal.read(&mut bytes) {
            let part = String::from_utf8_lossy(&bytes[..count]);
            shown.push_str(&part);
            fresh.push_str(&part);
            if let Some((_, after)) = typed.peek().and_then(|(prompt, _)| fresh.split_once(prompt)) {
                fresh = after.to_owned();
                typing.write_all(typed.next().unwrap().1.as_bytes()).unwrap();
            }
        }
        shown
    });
    let code = exit_code(&mut child).await;
    (code, tokio::time::timeout(TEST_TIMEOUT, shown).await.expect("the terminal ends").unwrap())
}

#[tokio::test]
async fn run_prompts_for_tool_approval_on_a_terminal() {
    let user = CliUser::new();
    let made = user.home.work().join("made");
    let script = "!tool Bash {\"command\":\"touch made\",\"description\":\"x\"}\n!say done";
    let prompt = "denies the call: ";
    let (code, shown) = on_a_terminal(user.hostler(&["run", script]), vec![(prompt, "not today\n")]).await;
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("touch made") && shown.contains("1  Allow once") && shown.contains("done"), "{shown}");
    assert!(shown.contains("denied: not today") && !made.exists(), "{shown}");

    let (code, shown) = on_a_terminal(user.hostler(&["run", script]), vec![(prompt, "1\n")]).await;
    assert_eq!(code, Some(0), "{shown}");
    assert!(made.exists(), "{shown}");
    user.assert_nothing_left();
}

/// Returns an editor that writes the given texts, one per call, and expects the input.
fn editor(user: &CliUser, texts: &[&str]) -> String {
    let (script, left) = (user.home.path("editor.sh"), user.home.path("texts"));
    std::fs::write(&left, texts.iter().map(|text| format!("{text}\n")).collect::<String>()).unwrap();
    let left = left.display();
    let body = format!(
        "[ \"$1\" = --wait ] && [ -s \"$2\" ] && [ -t 0 ] && [ -t 1 ] || exit 7\nhead -n 1 {left} > \"$2\"\nsed -i 1d {left}\n"
    );
    std::fs::write(&script, body).unwrap();
    format!("sh {} --wait", script.display())
}

#[tokio::test]
async fn tool_input_can_be_edited_before_it_runs() {
    let user = CliUser::new();
    let (made, other) = (user.home.work().join("made"), user.home.work().join("other"));
    let script = "!tool Bash {\"command\":\"touch made\",\"description\":\"x\"}\n!say done";
    let prompt = "denies the call: ";
    let editor = editor(&user, &["{ \"command\": ", "{\"command\":\"touch other\",\"description\":\"y\"}"]);
    let mut command = user.hostler(&["run", script]);
    command.env("VISUAL", &editor).env("EDITOR", "false");
    let (code, shown) = on_a_terminal(command, vec![(prompt, "e\n"), (prompt, "e\n"), (prompt, "1\n")]).await;
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("not valid JSON: ") && shown.contains("Allow with the changed input"), "{shown}");
    assert!(other.exists() && !made.exists(), "{shown}");
    let left = list_files(&user.home.path("run"));
    assert!(!left.iter().any(|file| file.ends_with("input.json")), "{left:?}");

    std::fs::remove_file(&other).unwrap();
    let mut command = user.hostler(&["run", script]);
    command.env_remove("VISUAL").env("EDITOR", "false");
    let (code, shown) = on_a_terminal(command, vec![(prompt, "e\n"), (prompt, "n\n")]).await;
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("The editor `false` failed") && !made.exists(), "{shown}");

    let mut command = user.hostler(&["run", script]);
    command.env_remove("VISUAL").env_remove("EDITOR");
    let typed = "{\"command\":\"touch other\",\n\"description\":\"y\"}\n.\n";
    let steps = vec![(prompt, "e\n"), ("changes nothing.", typed), (prompt, "1\n")];
    let (code, shown) = on_a_terminal(command, steps).await;
    assert_eq!(code, Some(0), "{shown}");
    assert!(other.exists() && !made.exists(), "{shown}");
    user.assert_nothing_left();
}

#[tokio::test]
async fn run_prompts_for_the_agents_questions_on_a_terminal() {
    let user = CliUser::new();
    let question = json!({ "questions": [{ "question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [{ "label": "Red", "description": "warm" }, { "label": "Blue", "description": "cold" }] }] });
    let script = format!("!tool AskUserQuestion {question}\n!say done");
    let (code, shown) = on_a_terminal(user.hostler(&["run", &script]), vec![("line to skip: ", "2\n")]).await;
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("? Which colour?") && shown.contains("2  Blue: cold") && shown.contains("done"), "{shown}");
    let (sessions, _) = user.run_expecting(0, &["sessions", "list", "--json"]).await;
    let sessions: Value = serde_json::from_str(&sessions).unwrap();
    let (session, _) =
        user.run_expecting(0, &["sessions", "show", "--json", sessions[0]["resource"].as_str().unwrap()]).await;
    let session: Value = serde_json::from_str(&session).unwrap();
    let parts = session["chat"]["turns"][0]["responseParts"].as_array().unwrap();
    let asked = parts.iter().find(|part| part["kind"] == "inputRequest").unwrap_or_else(|| panic!("{parts:#?}"));
    let answers = asked["request"]["answers"].as_object().unwrap_or_else(|| panic!("{asked:#}"));
    assert!(answers.values().all(|answer| answer["value"]["value"] == "Blue") && answers.len() == 1, "{asked:#}");
    user.assert_nothing_left();
}

#[tokio::test]
async fn terminal_prompt_is_withdrawn_when_another_client_answers_first() {
    let user = CliUser::new();
    let host = user.home.serve("native").await;
    let mut peer = host.connect().await;
    let uris = peer.create_session(&user.home.work()).await;
    peer.send_and_wait(&uris.chat, "hi").await;
    let script = "!tool Bash {\"command\":\"touch made\",\"description\":\"x\"}\n!say done";
    let run = tokio::spawn(on_a_terminal(user.hostler(&["run", "--session", &uris.session, script]), Vec::new()));
    let asks = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::ChatToolCallReady(ready) if ready.confirmed.is_none());
    let envelopes = peer.wait_for(&uris.chat, asks).await;
    let waiting = serde_json::to_value(&envelopes.last().unwrap().action).unwrap();
    let answer = json!({ "type": "chat/toolCallConfirmed", "turnId": waiting["turnId"],
        "toolCallId": waiting["toolCallId"], "approved": true });
    peer.dispatch(&uris.chat, serde_json::from_value(answer).unwrap()).await;
    let (code, shown) = run.await.unwrap();
    assert_eq!(code, Some(0), "{shown}");
    let (_, after) = shown.split_once("denies the call: ").unwrap_or_else(|| panic!("it was asked: {shown}"));
    assert!(after.contains("Answered by another client.") && after.contains("done"), "{shown}");
    assert!(user.home.work().join("made").exists(), "{shown}");
    host.stop().await;
    user.assert_nothing_left();
}

#[tokio::test]
async fn run_with_json_prints_one_envelope_per_line_up_to_the_turns_end() {
    let user = CliUser::new();
    let (out, err) = user.run_expecting(0, &["run", "--json", "!think Hm.\n!say one two"]).await;
    assert_eq!(err, "");
    let envelopes: Vec<ActionEnvelope> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(collect_text(&envelopes), "one two");
    let numbers: Vec<_> = envelopes.iter().map(|envelope| envelope.server_seq).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    assert!(matches!(envelopes.last().unwrap().action, StateAction::ChatTurnComplete(_)), "{envelopes:#?}");
}

#[tokio::test]
async fn run_with_a_dash_reads_the_message_from_stdin() {
    let user = CliUser::new();
    let mut command = user.hostler(&["run", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all("!say from a pipe\n".as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "from a pipe"));
}

#[tokio::test]
async fn run_uses_the_given_working_directory() {
    let user = CliUser::new();
    let project = user.home.path("home").join("a project");
    std::fs::create_dir(&project).unwrap();
    let host = user.home.serve("native").await;
    user.run_expecting(0, &["run", "--cwd", project.to_str().unwrap(), "hi"]).await;
    let agent = std::fs::read_link(format!("/proc/{}/cwd", host.only_agent().pid)).unwrap();
    assert_eq!(agent, project.canonicalize().unwrap());
    host.stop().await;
}

#[tokio::test]
async fn one_interrupt_cancels_the_turn_for_all_clients() {
    let user = CliUser::new();
    let host = user.home.serve("native").await;
    let mut child = user.hostler(&["run", "!say begun\n!hang"]).stdout(Stdio::piped()).spawn().unwrap();
    until_printed(&mut child, "begun").await;
    interrupt(&child);
    assert_eq!(exit_code(&mut child).await, Some(130));

    let peer = host.connect().await;
    let list: Value = peer.client.request("listSessions", json!({"channel": "ahp-root://"})).await.unwrap();
    let session = list["items"][0]["resource"].as_str().unwrap();
    let SnapshotState::Session(session) = peer.subscribe_snapshot(session).await else { panic!("a session") };
    let chat = peer.chat_state(&session.default_chat.unwrap()).await;
    assert!(chat.active_turn.is_none());
    assert_eq!(chat.turns[0].state, TurnState::Cancelled);
    assert_eq!(host.agents().len(), 1, "the agent survives an interrupt");
    host.stop().await;
}

#[tokio::test]
async fn interrupted_command_with_its_own_host_cleans_up() {
    let user = CliUser::new();
    let mut child = user.hostler(&["run", "!say begun\n!hang"]).stdout(Stdio::piped()).spawn().unwrap();
    until_printed(&mut child, "begun").await;
    interrupt(&child);
    assert_eq!(exit_code(&mut child).await, Some(130));
    user.assert_nothing_left();
}

#[tokio::test]
async fn upstream_rejection_exits_with_4() {
    let user = CliUser::new();
    let (out, err) = user.run_expecting(4, &["run", "!error 401 Who are you?"]).await;
    assert_eq!(out, "");
    assert!(err.contains("HOSTLER_UPSTREAM_KEY"), "{err}");
    user.run_expecting(1, &["run", "!error 400 What?"]).await;
    user.assert_nothing_left();
}

#[tokio::test]
async fn missing_agent_exits_with_3_and_explains_the_install() {
    let user = CliUser::new();
    for args in [&["run", "hi"][..], &["serve", "--listen", "127.0.0.1:0"], &["doctor"]] {
        let mut command = user.hostler(args);
        command.env("XDG_CACHE_HOME", user.home.path("cache")).env("PATH", user.home.path("bin"));
        let output = run_to_end(command).await;
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {printed}");
        assert!(printed.contains("hostler agents install claude"), "{args:?}: {printed}");
    }
    user.assert_nothing_left();
}

#[tokio::test]
async fn invalid_command_line_exits_with_2_and_explains_the_error() {
    let user = CliUser::new();
    for (args, part) in [
        (&["run"][..], "PROMPT"),
        (&["run", " "], "empty"),
        (&["run", "--cwd", "nowhere", "hi"], "nowhere"),
        (&["run", "--colour", "hi"], "--colour"),
        (&["serve", "--listen", "everywhere"], "--listen"),
        (&["serve", "--listen", "0.0.0.0:0", "--no-token"], "loopback"),
        (&["serve", "--token", "a", "--no-token"], "cannot be used together"),
        (&["serve", "--upstream", "abacus"], "anthropic"),
        (&["--config", "nowhere.toml", "doctor"], "nowhere.toml"),
        (&["agents", "install", "unknown"], "unknown"),
        (&["dance"], "dance"),
    ] {
        let (out, err) = user.run_expecting(2, args).await;
        assert_eq!(out, "", "{args:?}");
        assert!(err.contains(part), "{args:?}: {err}");
    }
    assert!(list_files(&user.home.path("state")).is_empty());
}

#[tokio::test]
async fn token_and_state_directory_of_serve_are_private() {
    let user = CliUser::new();
    let host = user.home.serve("native").await;
    let token = host.token().to_owned();
    let state = user.home.path("state").join("hostler");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&state), mode(&state.join("token")), mode(&state.join("endpoint.json"))), (0o700, 0o600, 0o600));

    let (out, err) = user.run_expecting(1, &["serve", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(out, "");
    assert!(err.contains(&host.pid.to_string()) && err.trim_end().ends_with('.'), "{err}");

    let log = host.stop().await;
    assert!(log.contains(state.join("token").to_str().unwrap()) && !log.contains(&token), "{log}");
    let again = user.home.serve("native").await;
    assert_eq!(again.token(), token, "the token is made once");
    again.stop().await;
    user.assert_nothing_left();
}

#[tokio::test]
async fn serve_rejects_clients_without_the_token() {
    let user = CliUser::new();
    let host = user.home.serve("native").await;
    let address = format!("ws://127.0.0.1:{}/", host.port);
    for url in [address.clone(), format!("{address}?tkn=wrong"), format!("{address}?tkn=")] {
        let refusal = tokio_tungstenite::connect_async(&url).await.unwrap_err();
        let tokio_tungstenite::tungstenite::Error::Http(answer) = refusal else { panic!("{url}: {refusal}") };
        assert_eq!(answer.status(), 403, "{url}");
    }
    host.connect().await;
    host.stop().await;
}

#[tokio::test]
async fn serve_stops_when_stdin_ends() {
    let user = CliUser::new();
    let args = ["serve", "--listen", "127.0.0.1:0", "--exit-on-stdin-eof"];
    let mut command = user.hostler(&args);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    until_printed(&mut child, "READY:").await;
    drop(child.stdin.take());
    assert_eq!(exit_code(&mut child).await, Some(0));
    user.assert_nothing_left();
}

#[tokio::test]
async fn demo_prints_every_hop_in_order_and_cleans_up() {
    let user = CliUser::new();
    let (out, err) = user.run_expecting(0, &["demo", "--once"]).await;
    assert_eq!(err, "");
    let mut hops: Vec<&str> = out.lines().filter_map(|line| Some(line.split_once('│')?.0.trim())).collect();
    hops.dedup();
    let first = ["you", "agent", "gateway", "claude", "gateway", "usage", "turn"];
    let second = ["you", "gateway", "claude", "gateway", "usage", "turn"];
    let expected = [&["host", "client", "session"][..], &first, &second, &["agent"]].concat();
    assert_eq!(hops, expected, "{out}");
    assert!(out.contains("the same process"), "{out}");
    user.assert_nothing_left();
    let left: Vec<_> =
        ["state", "claude", "work", "home"].iter().flat_map(|name| list_files(&user.home.path(name))).collect();
    assert!(left.is_empty(), "the demo does not change the user's files: {left:?}");
    let scratch = std::fs::read_dir(user.home.path("run")).unwrap().flatten().map(|entry| entry.file_name());
    let scratch: Vec<_> = scratch.filter(|name| name.to_string_lossy().starts_with("hostler-demo-")).collect();
    assert!(scratch.is_empty(), "{scratch:?}");
}

#[tokio::test]
async fn agents_and_doctor_report_installed_builds() {
    let user = CliUser::new();
    let (out, _) = user.run_expecting(0, &["agents", "list"]).await;
    for build in ["native", "js"] {
        assert!(out.lines().any(|line| line.starts_with("claude") && line.contains(build)), "{out}");
    }
    let (out, _) = user.run_expecting(0, &["doctor"]).await;
    assert!(out.contains("scripted needs no key"), "{out}");
    let (out, _) = user.run_expecting(0, &["doctor", "--json"]).await;
    let report: Vec<Value> = serde_json::from_str(&out).unwrap();
    let checks: Vec<_> = report.iter().filter_map(|finding| finding["check"].as_str()).collect();
    for check in ["agent", "programs", "upstream", "state", "runtime", "token", "host", "disk"] {
        assert!(checks.contains(&check), "{check}: {checks:?}");
    }
    assert!(list_files(&user.home.path("state")).is_empty(), "looking changes nothing");
}

#[tokio::test]
async fn completions_are_printed_for_common_shells() {
    let user = CliUser::new();
    for (shell, part) in
        [("bash", "complete -F _hostler"), ("zsh", "#compdef hostler"), ("fish", "complete -c hostler")]
    {
        let (out, _) = user.run_expecting(0, &["completions", shell]).await;
        assert!(out.contains(part) && out.contains("exit-on-stdin-eof"), "{shell}");
    }
    user.run_expecting(2, &["completions", "abacus"]).await;
}

/// Returns the commands of a page's console blocks. A block that cannot run here is marked `console,ignore`.
fn console_commands(page: &str) -> Vec<&str> {
    let mut commands = Vec::new();
    let mut runs = false;
    for line in page.lines().map(str::trim_start) {
        match line.strip_prefix("```") {
            Some(language) => runs = language == "console",
            None if runs => commands.extend(line.strip_prefix("$ ").filter(|command| command.starts_with("hostler "))),
            None => {}
        }
    }
    commands
}

#[tokio::test]
async fn commands_in_the_documentation_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    pages.extend(
        list_files(&root.join("docs")).into_iter().filter(|path| path.extension().is_some_and(|end| end == "md")),
    );
    let mut ran = 0;
    for page in pages {
        for line in console_commands(&std::fs::read_to_string(&page).unwrap()) {
            // Each one in a separate home, on the scripted model; `serve` ends at once.
            let user = CliUser::new();
            let command = format!("{}{}", env!("CARGO_BIN_EXE_hostler"), line.trim_start_matches("hostler"));
            let template = user.hostler(&[]);
            let mut shell = Command::new("sh");
            shell.args(["-c", &command]).current_dir(user.home.work()).stdin(Stdio::null()).kill_on_drop(true);
            for (name, value) in template.as_std().get_envs() {
                match value {
                    Some(value) => shell.env(name, value),
                    None => shell.env_remove(name),
                };
            }
            shell.env("HOSTLER_LISTEN", "127.0.0.1:0").env("HOSTLER_EXIT_ON_STDIN_EOF", "1");
            let output = run_to_end(shell).await;
            assert_eq!(output.status.code(), Some(0), "{}: {line}: {}", page.display(), text(&output.stderr));
            user.assert_nothing_left();
            ran += 1;
        }
    }
    assert!(ran >= 3, "the README shows commands: {ran}");
}
