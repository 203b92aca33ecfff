//! The agent crashes during a turn.

use ahp_types::StateAction;
use hostler_testkit::processes;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::common::BUILDS;
use crate::common::session_fixture::{SessionFixture, wait_until};

/// Prompt of a resumed turn that the agent already knows.
const RESUME_PROMPT: &str = "Continue where you left off.";

/// What the agent is doing when it crashes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum CrashPoint {
    /// Its handshake is not finished.
    Starting,
    /// The model has received the prompt and has not answered.
    Waiting,
    /// The model is in the middle of a response.
    Speaking,
    /// A command runs.
    Working,
    /// A permission request is pending.
    Asking,
}

const CRASH_POINTS: [CrashPoint; 5] =
    [CrashPoint::Starting, CrashPoint::Waiting, CrashPoint::Speaking, CrashPoint::Working, CrashPoint::Asking];

/// Message that maps to another script after the agent's crash.
const REMAPPED_PROMPT: &str = "what has the horse in its mouth";

/// Sets the model's script for the resumed turn: also for an agent that crashed before it stored the message and
/// receives it again.
fn set_resume_script(bench: &SessionFixture, script: &str) {
    bench.upstream.map_prompt_to_script(RESUME_PROMPT, Some(script));
    bench.upstream.map_prompt_to_script(REMAPPED_PROMPT, Some(script));
}

impl CrashPoint {
    /// Brings the agent to this point; returns the turn.
    async fn bring_agent_to(self, bench: &mut SessionFixture) -> String {
        let gate = bench.blocking_command("work");
        let script = match self {
            Self::Starting => "!say the rest".to_owned(),
            Self::Waiting => "!hang".to_owned(),
            Self::Speaking => "!say begun\n!hang".to_owned(),
            Self::Working => format!("!tool Bash {}", gate.bash_input()),
            Self::Asking => format!("!tool Write {}", letter(bench)),
        };
        bench.upstream.map_prompt_to_script(REMAPPED_PROMPT, Some(&script));
        let turn = bench.client.send_message(&bench.uris.chat, REMAPPED_PROMPT).await;
        match self {
            Self::Starting => {
                let host = bench.host.pid;
                let runs =
                    || processes::agent_processes(host).iter().any(|agent| agent.command.contains("stream-json"));
                wait_until("the agent's process has started", runs).await;
            }
            Self::Waiting => wait_until("the model was asked", || !bench.upstream.requests().is_empty()).await,
            Self::Speaking => drop(bench.wait_for_action("chat/delta").await.unwrap()),
            Self::Working => gate.wait_until_running().await,
            Self::Asking => drop(bench.wait_for_approval_request().await),
        }
        turn
    }

    /// Text of the turn after it was resumed.
    fn expected_text(self) -> &'static str {
        if self == Self::Speaking { "begun the rest" } else { "the rest" }
    }
}

fn letter(bench: &SessionFixture) -> Value {
    json!({ "file_path": bench.home.work().join("letter.txt"), "content": "Dear," })
}

/// Returns the text of the last turn, its parts joined by spaces.
fn response_text(chat: &Value) -> String {
    let turn = chat["turns"].as_array().unwrap().last().unwrap();
    let parts = turn["responseParts"].as_array().unwrap().iter();
    let texts = parts.filter(|part| part["kind"] == "markdown").map(|part| part["content"].as_str().unwrap());
    texts.collect::<Vec<_>>().join(" ")
}

async fn crash_agent(bench: &mut SessionFixture, doing: CrashPoint) -> String {
    let context = format!("{} {doing:?}", bench.build);
    let turn = doing.bring_agent_to(bench).await;
    bench.kill_agent().await;
    let error = bench.wait_for_turn_error().await;
    assert_eq!(error["errorType"], "agentExited", "{context}: {error:#}");
    let sentence = error["message"].as_str().unwrap();
    assert!(sentence.contains("signal 9"), "{context}: {sentence}");
    assert_eq!(sentence.contains("before it was ready"), doing == CrashPoint::Starting, "{context}: {sentence}");
    let chat = bench.chat_state().await;
    assert_eq!(chat["turns"][0]["state"], "error", "{context}: {chat:#}");
    let session = serde_json::to_value(bench.client.subscribe_snapshot(&bench.uris.session).await).unwrap();
    assert!(session["inputNeeded"].as_array().is_none_or(Vec::is_empty), "{context}: no request is pending any more");
    assert_eq!(bench.host.process_tree(), Vec::<u32>::new(), "{context}");
    set_resume_script(bench, "!say the rest");
    turn
}

async fn assert_next_message_is_answered(build: &'static str) {
    for doing in CRASH_POINTS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        crash_agent(&mut bench, doing).await;
        assert_eq!(
            bench.client.send_and_wait(&bench.uris.chat, "!say here I am").await,
            "here I am",
            "{build} {doing:?}"
        );
        let chat = bench.chat_state().await;
        assert_eq!(chat["turns"].as_array().unwrap().len(), 2, "{build} {doing:?}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn next_message_starts_a_new_native_agent_after_a_crash() {
    assert_next_message_is_answered(BUILDS[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn next_message_starts_a_new_js_agent_after_a_crash() {
    assert_next_message_is_answered(BUILDS[1]).await;
}

async fn assert_turn_resumes(build: &'static str) {
    for doing in CRASH_POINTS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let turn = crash_agent(&mut bench, doing).await;
        bench.resume_turn(&turn).await;
        bench.wait_for_action("chat/turnResume").await.unwrap();
        bench.wait_for_turn_end().await;
        let chat = bench.chat_state().await;
        let turns = chat["turns"].as_array().unwrap();
        assert_eq!((turns.len(), &turns[0]["state"]), (1, &json!("complete")), "{build} {doing:?}: {chat:#}");
        assert_eq!(response_text(&chat), doing.expected_text(), "{build} {doing:?}: {chat:#}");
        // The model knows the message. A message that was never answered is sent unchanged, whether the agent
        // stored it or not.
        let times = |text: &str| bench.count_in_model_requests(text).last().copied();
        match doing {
            CrashPoint::Starting => {
                assert_eq!((times(RESUME_PROMPT), times(REMAPPED_PROMPT)), (Some(0), Some(1)), "{build}")
            }
            CrashPoint::Waiting => {
                assert_eq!((times(RESUME_PROMPT), times(REMAPPED_PROMPT) > Some(0)), (Some(0), true), "{build}")
            }
            _ => assert_eq!(times(REMAPPED_PROMPT), Some(1), "{build} {doing:?}"),
        }
        assert_eq!(bench.client.send_and_wait(&bench.uris.chat, "!say and on").await, "and on", "{build} {doing:?}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resume_continues_a_turn_after_a_native_agent_crash() {
    assert_turn_resumes(BUILDS[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resume_continues_a_turn_after_a_js_agent_crash() {
    assert_turn_resumes(BUILDS[1]).await;
}

/// The agent receives a steer, and crashes before the model does.
#[tokio::test(flavor = "multi_thread")]
async fn steer_lost_in_a_crash_reaches_the_model_on_resume() {
    const STEER_TEXT: &str = "in blue, please";
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let (one, two) = (bench.blocking_command("one"), bench.blocking_command("two"));
        bench.upstream.map_prompt_to_script(
            REMAPPED_PROMPT,
            Some(&format!("!tool Bash {}\n!tool Bash {}", one.bash_input(), two.bash_input())),
        );
        let turn = bench.client.send_message(&bench.uris.chat, REMAPPED_PROMPT).await;
        bench.set_pending_message("steering", "s", STEER_TEXT).await;
        one.wait_until_running().await;
        one.release();
        two.wait_until_running().await;
        // The steer is injected after the first call, and the model is called after the second one only.
        bench.kill_agent().await;
        bench.wait_for_turn_error().await;
        assert_eq!(bench.count_in_model_requests(STEER_TEXT), [0], "{build}");
        set_resume_script(&bench, "!say the rest");
        bench.resume_turn(&turn).await;
        bench.wait_for_turn_end().await;
        let chat = bench.chat_state().await;
        // Sent again, because the host does not know how much of it the agent has stored.
        assert!(
            bench.count_in_model_requests(STEER_TEXT)[1] > 0,
            "{build}: {:?}",
            bench.count_in_model_requests(STEER_TEXT)
        );
        assert_eq!(response_text(&chat), "the rest", "{build}: {chat:#}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_request_is_asked_again_on_resume_after_a_crash() {
    for build in BUILDS {
        for host_dies in [false, true] {
            let mut bench = SessionFixture::start(build).await;
            let letter = letter(&bench);
            bench.upstream.map_prompt_to_script(REMAPPED_PROMPT, Some(&format!("!tool Write {letter}")));
            let turn = bench.client.send_message(&bench.uris.chat, REMAPPED_PROMPT).await;
            let first = bench.wait_for_approval_request().await;
            let bench = if host_dies {
                bench.kill_host().await
            } else {
                bench.kill_agent().await;
                bench.wait_for_turn_error().await;
                bench
            };
            let mut bench = bench;
            let chat = bench.chat_state().await;
            let parts = chat["turns"][0]["responseParts"].as_array().unwrap();
            let kind = if host_dies { "interrupted" } else { "agentExited" };
            assert_eq!(parts.last().unwrap()["error"]["errorType"], kind, "{build}: {chat:#}");
            assert_eq!(parts[0]["toolCall"]["status"], "cancelled", "{build}: {chat:#}");
            // A withdrawn request cannot be answered.
            bench.answer_approval(&first, json!({ "approved": true })).await;
            bench.wait_for_action("chat/toolCallConfirmed").await.unwrap_err();

            set_resume_script(&bench, &format!("!tool Write {letter}\n!say written"));
            bench.resume_turn(&turn).await;
            let second = bench.wait_for_approval_request().await;
            assert_eq!(second["turnId"], turn.as_str(), "{build}");
            assert_ne!(second["toolCallId"], first["toolCallId"], "{build}: a new request");
            let session = serde_json::to_value(bench.client.subscribe_snapshot(&bench.uris.session).await).unwrap();
            assert_eq!(session["inputNeeded"].as_array().unwrap().len(), 1, "{build}: {session:#}");
            assert!(!bench.home.work().join("letter.txt").exists(), "{build}");
            bench.answer_approval(&second, json!({ "approved": true })).await;
            bench.wait_for_turn_end().await;
            assert!(bench.home.work().join("letter.txt").exists(), "{build}");
            assert_eq!(response_text(&bench.chat_state().await), "written", "{build}");
            bench.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_while_interrupting_does_not_block_the_next_message() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let turn = CrashPoint::Speaking.bring_agent_to(&mut bench).await;
        let agent = Pid::from_raw(i32::try_from(bench.host.only_agent().pid).unwrap());
        // A stopped process does not receive the interrupt.
        kill(agent, Signal::SIGSTOP).unwrap();
        bench.client.cancel_turn(&bench.uris.chat, &turn).await;
        let ended = bench.client.wait_for_turn_end(&bench.uris.chat).await;
        assert!(matches!(ended.last().unwrap().action, StateAction::ChatTurnCancelled(_)), "{build}");
        bench.client.send_message(&bench.uris.chat, "!say next").await;
        bench.wait_for_action("chat/turnStarted").await.unwrap();
        kill(agent, Signal::SIGKILL).unwrap();
        bench.wait_for_turn_end().await;
        let chat = bench.chat_state().await;
        assert_eq!(
            (&chat["turns"][0]["state"], response_text(&chat).as_str()),
            (&json!("cancelled"), "next"),
            "{build}: {chat:#}"
        );
        assert_ne!(bench.host.only_agent().pid, agent.as_raw().unsigned_abs(), "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_between_turns_adds_no_turn_and_the_next_message_works() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let gate = bench.blocking_command("job");
        bench.prompt_tool_call("Bash", &gate.background_bash_input()).await;
        bench.wait_for_turn_end().await;
        gate.wait_until_running().await;
        bench.kill_agent().await;
        bench.wait_for_action("chat/backgroundWorkRemoved").await.unwrap();
        let chat = bench.chat_state().await;
        assert_eq!(
            (chat["turns"].as_array().unwrap().len(), &chat["turns"][0]["state"]),
            (1, &json!("complete")),
            "{build}"
        );
        assert_eq!(bench.client.send_and_wait(&bench.uris.chat, "!say next").await, "next", "{build}");
        assert!(
            bench.count_in_model_requests("job.running").last().is_some_and(|times| *times > 0),
            "{build}: it knows the conversation"
        );
        bench.stop().await;
    }
}
