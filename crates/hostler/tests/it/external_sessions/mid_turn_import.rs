//! Imported sessions equal the live ones, for events during and between turns: questions, plans, steers, a resumed
//! turn, background commands and sub-agents.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::import_fidelity::{AllowedDifference, RULES, assert_import_matches};
use super::second_host::SecondHost;
use crate::common::session_fixture::{SessionFixture, wait_until};
use crate::common::{BUILDS, TEST_TIMEOUT};

fn question() -> Value {
    let option = |label: &str| json!({ "label": label, "description": format!("the {label} one") });
    json!({ "questions": [
        { "question": "Which colour?", "header": "Colour", "multiSelect": false, "options": [option("red"), option("blue")] },
    ] })
}

fn chosen(value: &str) -> Value {
    json!({ "state": "submitted", "value": { "kind": "selected", "value": value } })
}

/// An answered question and a declined one; a rejected plan and an accepted one.
async fn answer_all_questions(bench: &mut SessionFixture) {
    bench.prompt_tool_call("AskUserQuestion", &question()).await;
    let asked = bench.wait_for_questions().await;
    let answers = json!({ asked["questions"][0]["id"].as_str().unwrap(): chosen("blue") });
    let answered =
        json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": "accept", "answers": answers });
    bench.dispatch(answered).await;
    bench.wait_for_turn_end().await;

    bench.prompt_tool_call("AskUserQuestion", &question()).await;
    let asked = bench.wait_for_questions().await;
    bench.dispatch(json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": "cancel" })).await;
    bench.wait_for_turn_end().await;

    bench.set_permission_mode("plan").await;
    let plan = json!({ "plan": "1. Write a file" });
    for answer in
        [json!({ "state": "submitted", "value": { "kind": "text", "value": "Two files" } }), chosen("accept-edits")]
    {
        bench.prompt_tool_call("ExitPlanMode", &plan).await;
        let asked = bench.wait_for_questions().await;
        let answered = json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": "accept",
            "answers": { "plan": answer } });
        bench.dispatch(answered).await;
        bench.wait_for_turn_end().await;
    }
    bench.client.send_and_wait(&bench.uris.chat, "!say The end.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_and_plans_are_imported_with_their_answers() {
    for build in BUILDS {
        let mut bench = SessionFixture::with_rules(build, RULES).await;
        answer_all_questions(&mut bench).await;
        let named: &[AllowedDifference] = match build {
            "js" => &[("chat[2].responseParts[0].toolCall.", "it does not write that a text answer was a denial")],
            _ => &[],
        };
        assert_import_matches(bench, named).await;
    }
}

/// Steers a turn while a command runs.
pub(crate) async fn run_steered_turn(bench: &mut SessionFixture) {
    let gate = bench.blocking_command("look");
    let script = format!("!say let me look\n!tool Bash {}\n!say blue it is", gate.bash_input());
    bench.client.send_message(&bench.uris.chat, &script).await;
    gate.wait_until_running().await;
    bench.set_pending_message("steering", "s", "in blue, please").await;
    bench.wait_for_action("chat/pendingMessageSet").await.unwrap();
    gate.release();
    bench.wait_for_action("chat/turnComplete").await.unwrap();
    bench.wait_for_turn_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn steer_is_imported_at_its_position() {
    for build in BUILDS {
        let mut bench = SessionFixture::with_rules(build, RULES).await;
        run_steered_turn(&mut bench).await;
        bench.client.send_and_wait(&bench.uris.chat, "!say The end.").await;
        assert_import_matches(bench, &[]).await;
    }
}

/// The agent receives the message again, so that its transcript has two turns for one live turn.
#[tokio::test(flavor = "multi_thread")]
async fn resumed_turn_is_imported_as_failure_and_response() {
    for build in BUILDS {
        let mut bench = SessionFixture::with_rules(build, RULES).await;
        bench.upstream.reject_requests_containing("!say at last", 400, "Not now.");
        let turn = bench.client.send_message(&bench.uris.chat, "!say at last").await;
        let error = bench.wait_for_turn_error().await;
        bench.upstream.reject_requests_containing("no request contains this", 400, "");
        bench.resume_turn(&turn).await;
        bench.wait_for_turn_end().await;
        bench = bench.restart_host().await;
        assert_eq!(bench.chat_state().await["turns"].as_array().unwrap().len(), 1, "{build}: here it is one");
        let second = SecondHost::start(&bench).await;
        let chat = second.chat(&bench).await;
        let turns = chat["turns"].as_array().unwrap();
        assert_eq!(turns.len(), 2, "{build}: {chat:#}");
        assert!(turns.iter().all(|turn| turn["message"]["text"] == "!say at last"), "{build}: {chat:#}");
        let [failed] = &turns[0]["responseParts"].as_array().unwrap()[..] else { panic!("{build}: {chat:#}") };
        assert_eq!(failed["error"]["message"], error["message"], "{build}");
        assert_eq!(turns[1]["responseParts"][0]["content"], "at last", "{build}");
        second.host.stop().await;
        bench.stop().await;
    }
}

const JS_SUB_AGENT_DIFFERENCES: [AllowedDifference; 4] = [
    (".subagentAgentName:", "it does not report the kind while it works; the call in the transcript does"),
    (".content[0].agentName:", "the same"),
    (
        "subAgentChat[0].responseParts:",
        "it does not print the text of a sub-agent in the background; the transcript has it",
    ),
    ("subAgentChat[0].usage", "the same"),
];

fn helper(script: &str) -> String {
    let input = json!({ "description": "a helper", "prompt": script, "subagent_type": "general-purpose",
        "run_in_background": true });
    format!("!tool Agent {input}")
}

/// Waits until the only sub-agent's turn is over.
async fn wait_until_sub_agent_ends(bench: &SessionFixture) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let session = serde_json::to_value(bench.client.subscribe_snapshot(&bench.uris.session).await).unwrap();
        let mut lines = session["chats"].as_array().unwrap().iter().map(|line| line["resource"].as_str().unwrap());
        if let Some(worker) = lines.find(|uri| *uri != bench.uris.chat) {
            let chat = bench.client.chat_state(worker).await;
            if chat.active_turn.is_none() && !chat.turns.is_empty() {
                return;
            }
        }
        assert!(Instant::now() < deadline, "{}: the worker still works", bench.build);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn background_sub_agent_is_imported_with_its_work() {
    for build in BUILDS {
        let mut bench = SessionFixture::with_rules(build, RULES).await;
        let front = bench.blocking_command("front");
        let script = format!("{}\n!tool Bash {}\n!say done", helper("!say it is made"), front.bash_input());
        bench.client.send_message(&bench.uris.chat, &script).await;
        front.wait_until_running().await;
        match build {
            // The older build reports the end when its own call is over.
            "js" => wait_until("the sub-agent is asked", || bench.upstream.requests().len() >= 2).await,
            _ => wait_until_sub_agent_ends(&bench).await,
        }
        front.release();
        bench.wait_for_turn_end().await;
        wait_until_sub_agent_ends(&bench).await;
        bench.client.send_and_wait(&bench.uris.chat, "!say The end.").await;
        let named: &[AllowedDifference] = match build {
            "js" => &JS_SUB_AGENT_DIFFERENCES,
            _ => &[(
                "subAgentChat[0].usage.outputTokens:",
                "its message may come before its answer was counted to the end",
            )],
        };
        assert_import_matches(bench, named).await;
    }
}

/// The end of the command starts an agent-initiated turn.
#[tokio::test(flavor = "multi_thread")]
async fn background_command_is_imported_with_the_turn_that_its_end_started() {
    for build in BUILDS {
        let mut bench = SessionFixture::with_rules(build, RULES).await;
        let gate = bench.blocking_command("job");
        bench.prompt_tool_call("Bash", &gate.background_bash_input()).await;
        bench.wait_for_turn_end().await;
        gate.wait_until_running().await;
        gate.release();
        bench.wait_for_turn_end().await;
        bench.client.send_and_wait(&bench.uris.chat, "!say The end.").await;
        assert_import_matches(bench, &[]).await;
    }
}
