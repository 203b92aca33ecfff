//! Conversation in the agent's own interactive interface, on a terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use ahp_types::state::SnapshotState;
use nix::pty::{Winsize, openpty};
use serde_json::json;

use super::second_host::agent_command;
use crate::common::session_fixture::{SessionFixture, wait_until};
use crate::common::{BUILDS, TEST_TIMEOUT, list_files};

const PROMPT: &str = "greet the horses";
const ANSWER: &str = "Hello, horses.";

/// Sequence that enables bracketed paste: the agent reads input.
const INPUT_READY_SEQUENCE: &str = "\u{1b}[?2004h";

/// Color of the input field in shell mode.
const SHELL_MODE_COLOR: &str = "\u{1b}[38;5;211m";

/// Output of the command.
const COMMAND_OUTPUT: &str = "fetlock";

/// Response of the model about it, with builds that pass it on.
const COMMAND_COMMENT: &str = "So I see.";

/// Starts the agent in the fixture's working directory, sends a prompt, waits for the response, runs a shell
/// command, and exits.
async fn run_interactive_conversation(bench: &SessionFixture) {
    let projects = json!({ bench.home.work().to_str().unwrap(): { "hasTrustDialogAccepted": true } });
    let known = json!({ "hasCompletedOnboarding": true, "theme": "dark", "projects": projects });
    let claude = bench.home.path("claude");
    std::fs::write(claude.join(".claude.json"), known.to_string()).unwrap();

    let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None).unwrap();
    let slave = || Stdio::from(pty.slave.try_clone().unwrap());
    let mut command = agent_command(bench);
    command.env("TERM", "xterm-256color").stdin(slave()).stdout(slave()).stderr(slave());
    let mut child = command.spawn().unwrap();
    drop(command);
    drop(pty.slave);
    let mut terminal = File::from(pty.master);
    let screen = Arc::new(Mutex::new(String::new()));
    let reader = tokio::task::spawn_blocking({
        let (screen, mut terminal) = (Arc::clone(&screen), terminal.try_clone().unwrap());
        move || {
            let mut bytes = [0_u8; 4096];
            while let Ok(count @ 1..) = terminal.read(&mut bytes) {
                screen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        }
    });
    let shows = |part: &str| screen.lock().unwrap().contains(part);
    wait_until("the agent reads what is typed", || shows(INPUT_READY_SEQUENCE)).await;
    terminal.write_all(PROMPT.as_bytes()).unwrap();
    // Between the parts of a text it only moves the cursor. Keys that arrive together with the text count as pasted text.
    wait_until("the text is on the screen", || shows("greet")).await;
    terminal.write_all(b"\r").unwrap();
    let has = |path: &PathBuf, kind: &str, part: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().any(|line| line.contains(&format!("\"type\":\"{kind}\"")) && line.contains(part))
    };
    let has_in_transcript = |kind: &str, part: &str| list_files(&claude).iter().any(|path| has(path, kind, part));
    wait_until("the transcript has the answer", || has_in_transcript("assistant", ANSWER)).await;

    screen.lock().unwrap().clear();
    terminal.write_all(b"!").unwrap();
    wait_until("it reads a command for the shell", || shows(SHELL_MODE_COLOR)).await;
    terminal.write_all(format!("echo {COMMAND_OUTPUT}").as_bytes()).unwrap();
    wait_until("the command is on the screen", || shows(COMMAND_OUTPUT)).await;
    terminal.write_all(b"\r").unwrap();
    let (kind, part) = if bench.build == "js" { ("user", "<bash-stdout>") } else { ("assistant", COMMAND_COMMENT) };
    wait_until("the transcript has the output", || has_in_transcript(kind, part)).await;
    terminal.write_all(b"/exit\r").unwrap();
    let status = tokio::time::timeout(TEST_TIMEOUT, child.wait()).await.expect("it exits").unwrap();
    assert!(status.success(), "{}: {status}", bench.build);
    reader.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn interactive_cli_session_is_listed_imported_and_continued() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        bench.upstream.map_prompt_to_script(PROMPT, Some(&format!("!say {ANSWER}")));
        bench.upstream.map_prompt_to_script("<bash-stdout>", Some(&format!("!say {COMMAND_COMMENT}\n")));
        run_interactive_conversation(&bench).await;
        let session = loop {
            let found = bench.client.list_sessions().await.into_iter().find(|uri| *uri != bench.uris.session);
            match found {
                Some(found) => break found,
                None => drop(bench.client.next_event().await),
            }
        };
        let SnapshotState::Session(state) = bench.client.subscribe_snapshot(&session).await else {
            panic!("a session")
        };
        // Some builds record the last prompt when they exit.
        assert!([PROMPT, &format!("! echo {COMMAND_OUTPUT}")].contains(&&*state.title), "{build}: {}", state.title);
        let chat = state.default_chat.unwrap();
        let turns = serde_json::to_value(bench.client.chat_state(&chat).await).unwrap()["turns"].clone();
        let typed: Vec<_> =
            turns.as_array().unwrap().iter().map(|turn| turn["message"]["text"].as_str().unwrap()).collect();
        // The process may exit before the transcript is complete.
        let (messages, end) = typed.split_at(2);
        assert_eq!(messages, [PROMPT, &format!("!echo {COMMAND_OUTPUT}")], "{build}: {turns:#}");
        assert!(matches!(end, [] | ["/exit"]), "{build}: {turns:#}");
        assert_eq!((&turns[0]["message"]["text"], &turns[0]["state"]), (&json!(PROMPT), &json!("complete")), "{build}");
        assert_eq!(turns[0]["responseParts"][0]["content"], ANSWER, "{build}: {turns:#}");
        assert_eq!(turns[1]["responseParts"][0]["content"], format!("    {COMMAND_OUTPUT}"), "{build}: {turns:#}");

        assert_eq!(bench.client.send_and_wait(&chat, "!say on we go").await, "on we go", "{build}");
        let asked = bench.upstream.requests().last().unwrap().body["messages"].to_string();
        assert!(
            asked.contains(PROMPT) && asked.contains(ANSWER),
            "{build}: the model receives the whole conversation: {asked}"
        );
        bench.stop().await;
    }
}
