//! The agent cannot be started.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use hostler_claude::Executable;
use serde_json::json;

use crate::common::session_fixture::{SessionFixture, wait_until};
use crate::common::{self, BUILDS, TestHome, list_files};

/// Returns Claude Code's transcripts.
fn transcripts(bench: &SessionFixture) -> Vec<PathBuf> {
    let all = list_files(&bench.home.path("claude").join("projects")).into_iter();
    all.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_transcript_is_an_error_and_never_an_empty_conversation() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        bench.client.send_and_wait(&bench.uris.chat, "!say remember this").await;
        let mut bench = bench.restart_host().await;
        let [transcript] = transcripts(&bench).try_into().unwrap();
        let away = bench.home.path("away");
        std::fs::rename(&transcript, &away).unwrap();
        let asked = bench.upstream.requests().len();
        for _ in 0..2 {
            bench.client.send_message(&bench.uris.chat, "!say what was it?").await;
            let error = bench.wait_for_turn_error().await;
            assert_eq!(error["errorType"], "conversationMissing", "{build}: {error:#}");
            let sentence = error["message"].as_str().unwrap();
            assert!(sentence.contains("start a new session"), "{build}: {sentence}");
            assert_eq!(bench.upstream.requests().len(), asked, "{build}: the model is not asked without its memory");
            assert_eq!(bench.host.process_tree(), Vec::<u32>::new(), "{build}");
        }
        // Turns stay readable, and a restored transcript is continued.
        let chat = bench.chat_state().await;
        assert_eq!(chat["turns"][0]["responseParts"][0]["content"], "remember this", "{build}: {chat:#}");
        std::fs::rename(&away, &transcript).unwrap();
        let turn = chat["turns"][2]["id"].as_str().unwrap().to_owned();
        bench.resume_turn(&turn).await;
        bench.wait_for_turn_end().await;
        assert_eq!(bench.count_in_model_requests("!say remember this").last(), Some(&1), "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_working_directory_is_reported_and_works_again_when_restored() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        bench.client.send_and_wait(&bench.uris.chat, "!say remember this").await;
        let work = bench.home.work();
        let away = bench.home.path("away");
        let mut bench = bench.restart_host().await;
        std::fs::rename(&work, &away).unwrap();
        bench.client.send_message(&bench.uris.chat, "!say where am I?").await;
        let error = bench.wait_for_turn_error().await;
        assert_eq!(error["errorType"], "workingDirectoryMissing", "{build}: {error:#}");
        assert!(error["message"].as_str().unwrap().contains(work.to_str().unwrap()), "{build}: {error:#}");
        std::fs::rename(&away, &work).unwrap();
        assert_eq!(bench.client.send_and_wait(&bench.uris.chat, "!say at home").await, "at home", "{build}");
        assert_eq!(bench.count_in_model_requests("!say remember this").last(), Some(&1), "{build}");
        bench.stop().await;
    }
}

/// The native build continues in the removed directory; the other one accepts no prompt, which is reported.
#[tokio::test(flavor = "multi_thread")]
async fn working_directory_removed_under_a_running_agent_is_reported() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        bench.client.send_and_wait(&bench.uris.chat, "!say hello").await;
        let (work, away) = (bench.home.work(), bench.home.path("away"));
        std::fs::rename(&work, &away).unwrap();
        bench.client.send_message(&bench.uris.chat, "!say where am I?").await;
        match build {
            "js" => {
                let error = bench.wait_for_turn_error().await;
                assert_eq!(error["errorType"], "workingDirectoryMissing", "{error:#}");
                assert!(error["message"].as_str().unwrap().contains(work.to_str().unwrap()), "{error:#}");
            }
            _ => assert!(!bench.wait_for_turn_end().await, "{build}"),
        }
        std::fs::rename(&away, &work).unwrap();
        assert_eq!(bench.client.send_and_wait(&bench.uris.chat, "!say at home").await, "at home", "{build}");
        assert_eq!(bench.count_in_model_requests("!say hello").last(), Some(&1), "{build}: it knows the conversation");
        bench.stop().await;
    }
}

/// Returns the executable of a build, as a person would run it.
fn executable(build: &str) -> (OsString, Vec<OsString>) {
    match Executable::from_path(common::claude_executable(build)) {
        Executable::Native(path) => (path.into(), Vec::new()),
        Executable::Js { node, cli } => (node.into(), vec![cli.into()]),
    }
}

/// A person runs Claude Code with the conversation's id before it has started here.
#[tokio::test(flavor = "multi_thread")]
async fn existing_conversation_is_resumed_and_not_started_anew() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        bench.client.send_message(&bench.uris.chat, "!say too early").await;
        let host = bench.host.pid;
        let started = || {
            hostler_testkit::processes::agent_processes(host)
                .into_iter()
                .find(|agent| agent.command.contains("--session-id="))
        };
        wait_until("the agent's process has started", || started().is_some()).await;
        let command = started().unwrap().command;
        let id = command.split("--session-id=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        bench.kill_agent().await;
        bench.wait_for_turn_error().await;

        let (program, mut args) = executable(build);
        args.extend(["-p", "!say by hand", "--session-id", &id].map(OsString::from));
        let by_hand = tokio::process::Command::new(program)
            .args(args)
            .current_dir(bench.home.work())
            .env("HOME", bench.home.path("home"))
            .env("TMPDIR", bench.home.path("run"))
            .env("CLAUDE_CONFIG_DIR", bench.home.path("claude"))
            .env("ANTHROPIC_BASE_URL", &bench.upstream.url)
            .env("ANTHROPIC_API_KEY", "sk-by-hand")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let by_hand = tokio::time::timeout(crate::common::TEST_TIMEOUT, by_hand).await.unwrap().unwrap();
        assert!(by_hand.status.success(), "{build}: {by_hand:?}");

        assert_eq!(bench.client.send_and_wait(&bench.uris.chat, "!say and here").await, "and here", "{build}");
        assert_eq!(
            bench.count_in_model_requests("!say by hand").last(),
            Some(&1),
            "{build}: the agent's own text is continued, not replaced"
        );
        bench.stop().await;
    }
}

/// Claude Code refuses bypass mode to root. Hostler's gate implements that mode, so Claude Code is never asked for
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn bypass_mode_works_for_every_user() {
    for build in BUILDS {
        let home = TestHome::new();
        home.write_config("allow-bypass-permissions = true\n");
        let mut bench = SessionFixture::in_home(build, home, "").await;
        bench.set_permission_mode("bypassPermissions").await;
        let file = bench.home.work().join("made.txt");
        bench.prompt_tool_call("Write", &json!({ "file_path": file, "content": "x" })).await;
        assert!(!bench.wait_for_turn_end().await, "{build}: no request is pending");
        assert!(file.exists(), "{build}");
        assert!(!bench.host.only_agent().command.contains("bypassPermissions"), "{build}");
        bench.stop().await;
    }
}
