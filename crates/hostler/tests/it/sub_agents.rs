//! Sub-agents of the real Claude Code, both builds: they have chats of their own.

mod background_output;
mod lifecycle;
mod questions_refused;
mod stop_background_work;
mod usage_totals;

use std::time::{Duration, Instant};

use crate::common::session_fixture::SessionFixture;
use crate::common::{BUILDS, TEST_TIMEOUT};
use serde_json::{Value, json};

/// Returns the model's line that makes a sub-agent run a script.
fn helper(script: &str, background: bool) -> String {
    let input = json!({
        "description": "a helper", "prompt": script, "subagent_type": "general-purpose", "run_in_background": background,
    });
    format!("!tool Agent {input}")
}

fn makes(directory: &str) -> String {
    let input = json!({ "command": format!("mkdir {directory}"), "description": "for the test" });
    format!("!tool Bash {input}\n!say {directory} is made")
}

/// Returns the chats of the session's sub-agents from its state.
async fn sub_agent_chats(bench: &SessionFixture) -> Vec<Value> {
    let session = serde_json::to_value(bench.client.subscribe_snapshot(&bench.uris.session).await).unwrap();
    let mut chats = Vec::new();
    for line in session["chats"].as_array().unwrap() {
        let uri = line["resource"].as_str().unwrap();
        if uri != bench.uris.chat {
            assert_eq!(line["interactivity"], "read-only", "{}: {line:#}", bench.build);
            chats.push(serde_json::to_value(bench.client.chat_state(uri).await).unwrap());
        }
    }
    chats
}

/// Returns the only sub-agent's turn, once it is over.
async fn ended(bench: &SessionFixture) -> Value {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let chats = sub_agent_chats(bench).await;
        assert_eq!(chats.len(), 1, "{}: {chats:#?}", bench.build);
        if chats[0]["activeTurn"].is_null() {
            return chats[0]["turns"][0].clone();
        }
        assert!(Instant::now() < deadline, "{}: it still works: {:#}", bench.build, chats[0]);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn assert_no_pending_requests(bench: &SessionFixture) {
    let session = serde_json::to_value(bench.client.subscribe_snapshot(&bench.uris.session).await).unwrap();
    let needed = session["inputNeeded"].as_array().map_or(0, Vec::len);
    assert_eq!(needed, 0, "{}: {:#}", bench.build, session["inputNeeded"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agent_has_a_chat_that_its_call_refers_to() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let script = makes("made");
        bench.client.send_message(&bench.uris.chat, &format!("{}\n!say done", helper(&script, false))).await;
        let needed = bench.wait_for_session_request().await;
        bench.answer_session_request(&needed, json!({ "approved": true })).await;
        bench.wait_for_turn_end().await;
        let chats = sub_agent_chats(&bench).await;
        assert_eq!(chats.len(), 1, "{build}: {chats:#?}");
        let (chat, turn) = (&chats[0], &chats[0]["turns"][0]);
        assert_eq!(needed["chat"], chat["resource"], "{build}");
        assert_eq!(
            (&turn["state"], &turn["message"]["text"]),
            (&json!("complete"), &json!(script)),
            "{build}: {turn:#}"
        );
        let parts = turn["responseParts"].as_array().unwrap();
        let ran = parts.iter().find(|part| part["kind"] == "toolCall").unwrap();
        assert_eq!(
            (&ran["toolCall"]["toolName"], &ran["toolCall"]["status"]),
            (&json!("Bash"), &json!("completed")),
            "{build}"
        );
        assert_eq!(parts.last().unwrap()["content"], "made is made", "{build}: {turn:#}");
        assert!(turn["usage"]["inputTokens"].as_u64() > Some(0), "{build}: {turn:#}");
        let call = bench.last_tool_call("Agent").await;
        let link = json!({ "type": "subagent", "resource": chat["resource"], "title": "a helper" });
        for (key, value) in link.as_object().unwrap() {
            assert_eq!(&call["content"][0][key], value, "{build}: {call:#}");
        }
        assert_eq!(chat["origin"]["toolCallId"], call["toolCallId"], "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sub_agents_run_concurrently() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let script = format!("{}\n{}\n!say done", helper(&makes("one"), false), helper(&makes("two"), false));
        bench.client.send_message(&bench.uris.chat, &script).await;
        bench.wait_for_turn_end().await;
        let chats = sub_agent_chats(&bench).await;
        let last =
            |chat: &Value| chat["turns"][0]["responseParts"].as_array().unwrap().last().unwrap()["content"].clone();
        let mut texts: Vec<_> = chats.iter().map(|chat| last(chat).as_str().unwrap_or_default().to_owned()).collect();
        texts.sort();
        assert_eq!(texts, ["one is made", "two is made"], "{build}: {chats:#?}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn background_sub_agent_asks_and_ends_after_the_turn() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let made = bench.home.work().join("made");
        bench.client.send_message(&bench.uris.chat, &format!("{}\n!say launched", helper(&makes("made"), true))).await;
        let needed = bench.wait_for_session_request().await;
        // In one build the turn stays open while background work runs.
        if build == "native" {
            let over = async {
                while !bench.chat_state().await["activeTurn"].is_null() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::time::timeout(TEST_TIMEOUT, over).await.expect("the turn ends");
        }
        let work = &bench.chat_state().await["backgroundWork"][0];
        assert_eq!((&work["kind"], &work["chat"]), (&json!("subagent"), &needed["chat"]), "{build}");
        bench.answer_session_request(&needed, json!({ "approved": true })).await;
        let turn = ended(&bench).await;
        assert_eq!(turn["state"], "complete", "{build}: {turn:#}");
        assert!(made.is_dir(), "{build}");
        let call = &turn["responseParts"].as_array().unwrap().iter().find(|part| part["kind"] == "toolCall").unwrap()["toolCall"];
        assert_eq!(call["status"], "completed", "{build}: {turn:#}");
        assert_no_pending_requests(&bench).await;
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_ends_the_awaited_sub_agent() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let turn =
            bench.client.send_message(&bench.uris.chat, &format!("{}\n!say done", helper(&makes("made"), false))).await;
        bench.wait_for_session_request().await;
        bench.client.cancel_turn(&bench.uris.chat, &turn).await;
        assert_eq!(ended(&bench).await["state"], "cancelled", "{build}");
        assert_no_pending_requests(&bench).await;
        assert!(!bench.home.work().join("made").exists(), "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_or_host_crash_ends_running_sub_agents() {
    for build in BUILDS {
        for kill_host in [false, true] {
            let mut bench = SessionFixture::start(build).await;
            bench.client.send_message(&bench.uris.chat, &format!("{}\n!say done", helper(&makes("made"), false))).await;
            bench.wait_for_session_request().await;
            match kill_host {
                true => bench = bench.kill_host().await,
                false => bench.kill_agent().await,
            }
            let turn = ended(&bench).await;
            assert_eq!(turn["state"], "error", "{build}: {turn:#}");
            let error = turn["responseParts"].as_array().unwrap().last().unwrap();
            assert_eq!(
                (&error["error"]["errorType"], &error["resumable"]),
                (&json!("interrupted"), &json!(false)),
                "{build}"
            );
            assert_no_pending_requests(&bench).await;
            bench.stop().await;
        }
    }
}
