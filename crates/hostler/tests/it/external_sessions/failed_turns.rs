//! Imported sessions equal the live ones after failures during a turn.

use std::path::PathBuf;

use ahp_types::StateAction;
use ahp_types::actions::ActionEnvelope;
use serde_json::Value;

use super::import_fidelity::{AllowedDifference, RULES, assert_import_matches};
use super::second_host::SecondHost;
use crate::common::session_fixture::{SessionFixture, wait_until};
use crate::common::{BUILDS, list_files};

#[tokio::test(flavor = "multi_thread")]
async fn retried_response_is_imported() {
    for build in BUILDS {
        let mut bench = SessionFixture::with_rules(build, RULES).await;
        bench.upstream.reject_requests_containing("stumble", 529, "Too many horses.");
        bench.client.send_message(&bench.uris.chat, "!say stumble and rise").await;
        let retries = |envelope: &ActionEnvelope| {
            matches!(&envelope.action, StateAction::ChatActivityChanged(now)
                if now.activity.as_ref().is_some_and(|activity| activity.starts_with("Retrying")))
        };
        bench.client.wait_for(&bench.uris.chat, retries).await;
        bench.upstream.reject_requests_containing("no request contains this", 529, "");
        bench.wait_for_turn_end().await;
        bench.client.send_and_wait(&bench.uris.chat, "!say on we go").await;
        bench.client.send_and_wait(&bench.uris.chat, "!say The end.").await;
        assert_import_matches(bench, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_response_is_imported_up_to_the_cancel() {
    for build in BUILDS {
        let mut bench = SessionFixture::with_rules(build, RULES).await;
        let turn = bench.client.send_message(&bench.uris.chat, "!say begun\n!hang").await;
        bench.wait_for_action("chat/delta").await.unwrap();
        bench.client.cancel_turn(&bench.uris.chat, &turn).await;
        bench.client.wait_for_turn_end(&bench.uris.chat).await;
        bench.client.send_and_wait(&bench.uris.chat, "!say The end.").await;
        assert_import_matches(bench, &[("chat[0].usage:", "a live agent does not report the usage of a stopped turn")])
            .await;
    }
}

/// What the agent does when it is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum CrashPoint {
    Speaking,
    Working,
}

/// Kills the agent in its second turn; returns the turn.
async fn crash_in_second_turn(bench: &mut SessionFixture, doing: CrashPoint) -> String {
    bench.client.send_and_wait(&bench.uris.chat, "!say The beginning.").await;
    let gate = bench.blocking_command("work");
    let script = match doing {
        CrashPoint::Speaking => "!say begun\n!hang".to_owned(),
        CrashPoint::Working => format!("!say begun\n!tool Bash {}", gate.bash_input()),
    };
    let turn = bench.client.send_message(&bench.uris.chat, &script).await;
    match doing {
        CrashPoint::Speaking => drop(bench.wait_for_action("chat/delta").await.unwrap()),
        CrashPoint::Working => gate.wait_until_running().await,
    }
    // The agent writes its transcript with a delay.
    let mark = if doing == CrashPoint::Speaking { "!say begun" } else { "\"type\":\"tool_use\"" };
    let has_mark = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().any(|line| line.contains("\"parentUuid\"") && line.contains(mark))
    };
    let claude = bench.home.path("claude");
    wait_until("the transcript has it", || list_files(&claude).iter().any(has_mark)).await;
    bench.kill_agent().await;
    bench.wait_for_turn_error().await;
    turn
}

const KILLED_AGENT_DIFFERENCES: [AllowedDifference; 3] = [
    ("chat[1].state:", "a crash is not in the transcript; its turn is interrupted"),
    ("chat[1].responseParts:", "the same, and neither is an unfinished sentence"),
    ("chat[1].usage", "a live agent does not report the usage of an unfinished turn"),
];

/// The next message continues without that turn.
#[tokio::test(flavor = "multi_thread")]
async fn crashed_turn_is_imported_as_far_as_it_was_written() {
    for build in BUILDS {
        for doing in [CrashPoint::Speaking, CrashPoint::Working] {
            let mut bench = SessionFixture::with_rules(build, RULES).await;
            crash_in_second_turn(&mut bench, doing).await;
            bench.client.send_and_wait(&bench.uris.chat, "!say The end.").await;
            assert_import_matches(bench, &KILLED_AGENT_DIFFERENCES).await;
        }
    }
}

/// Prompt of a resumed turn that the agent already knows.
const RESUME_PROMPT: &str = "Continue where you left off.";

/// The live session has one turn; the transcript has the resume prompt as a second turn.
#[tokio::test(flavor = "multi_thread")]
async fn resumed_turn_is_imported_as_two_turns() {
    for build in BUILDS {
        for doing in [CrashPoint::Speaking, CrashPoint::Working] {
            let mut bench = SessionFixture::with_rules(build, RULES).await;
            let turn = crash_in_second_turn(&mut bench, doing).await;
            bench.upstream.map_prompt_to_script(RESUME_PROMPT, Some("!say the rest"));
            bench.resume_turn(&turn).await;
            bench.wait_for_turn_end().await;
            bench.client.send_and_wait(&bench.uris.chat, "!say The end.").await;
            bench = bench.restart_host().await;
            let second = SecondHost::start(&bench).await;
            let chat = second.chat(&bench).await;
            let turns: Vec<_> = chat["turns"].as_array().unwrap().iter().map(shown).collect();
            let begun = if doing == CrashPoint::Speaking { "" } else { "begun, Bash completed" };
            let expected = [
                "complete: The beginning.".to_owned(),
                format!("cancelled: {begun}"),
                "complete: the rest".to_owned(),
                "complete: The end.".to_owned(),
            ];
            assert_eq!(turns, expected, "{build} {doing:?}: {chat:#}");
            assert_eq!(chat["turns"][2]["message"]["text"], RESUME_PROMPT, "{build} {doing:?}");
            second.host.stop().await;
            bench.stop().await;
        }
    }
}

/// The agent writes with a delay: the transcript may still be empty at that time.
#[tokio::test(flavor = "multi_thread")]
async fn message_of_a_crashed_turn_reaches_the_model_once_on_resume() {
    for build in BUILDS {
        for is_first in [true, false] {
            let mut bench = SessionFixture::with_rules(build, RULES).await;
            if !is_first {
                bench.client.send_and_wait(&bench.uris.chat, "!say The beginning.").await;
            }
            bench.upstream.map_prompt_to_script("heliotrope", Some("!say begun\n!hang"));
            let turn = bench.client.send_message(&bench.uris.chat, "heliotrope").await;
            bench.wait_for_action("chat/delta").await.unwrap();
            bench.kill_agent().await;
            bench.wait_for_turn_error().await;
            bench.upstream.map_prompt_to_script("heliotrope", Some("!say the rest"));
            bench.upstream.map_prompt_to_script(RESUME_PROMPT, Some("!say the rest"));
            bench.resume_turn(&turn).await;
            bench.wait_for_turn_end().await;
            let last = bench.count_in_model_requests("heliotrope").pop();
            let messages = bench.upstream.requests().pop().map(|request| request.body["messages"].to_string());
            assert_eq!(last, Some(1), "{build}, first: {is_first}: {messages:?}");
            bench.stop().await;
        }
    }
}

/// An agent that is killed at its first prompt leaves records without a message, or a partial message.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_resumes_after_the_agent_wrote_no_whole_message() {
    for build in BUILDS {
        for written in ["notes only", "half a message"] {
            let mut bench = SessionFixture::with_rules(build, RULES).await;
            bench.upstream.map_prompt_to_script("heliotrope", Some("!say begun\n!hang"));
            let turn = bench.client.send_message(&bench.uris.chat, "heliotrope").await;
            bench.wait_for_action("chat/delta").await.unwrap();
            let conversation = bench.uris.session.strip_prefix("claude:/").unwrap();
            let name = format!("{conversation}.jsonl");
            let directory = bench.home.path("claude");
            let transcript = || list_files(&directory).into_iter().find(|path| path.ends_with(&name));
            let message_start = || {
                let text = std::fs::read_to_string(transcript()?).ok()?;
                let is_message = |line: &&str| line.contains(r#""type":"user""#) && line.contains("heliotrope");
                let message = text.split_inclusive('\n').find(is_message).filter(|line| line.ends_with('\n'))?;
                text.find(message)
            };
            wait_until("the message is in the transcript", || message_start().is_some()).await;
            bench.kill_agent().await;
            bench.wait_for_turn_error().await;
            let cut = message_start().unwrap() + if written == "notes only" { 0 } else { 40 };
            let file = std::fs::File::options().write(true).open(transcript().unwrap()).unwrap();
            file.set_len(u64::try_from(cut).unwrap()).unwrap();
            bench.upstream.map_prompt_to_script("heliotrope", Some("!say the rest"));
            bench.resume_turn(&turn).await;
            bench.wait_for_turn_end().await;
            assert_eq!(bench.count_in_model_requests("heliotrope").pop(), Some(1), "{build}, {written}");
            bench.stop().await;
        }
    }
}

/// Returns how a turn ended, with its text and calls.
fn shown(turn: &Value) -> String {
    let part = |part: &Value| match part["toolCall"]["toolName"].as_str() {
        Some(name) => format!("{name} {}", part["toolCall"]["status"].as_str().unwrap()),
        None => part["content"].as_str().unwrap_or_default().to_owned(),
    };
    let parts: Vec<_> = turn["responseParts"].as_array().unwrap().iter().map(part).collect();
    format!("{}: {}", turn["state"].as_str().unwrap(), parts.join(", "))
}
