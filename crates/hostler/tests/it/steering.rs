//! Steering of a turn of the real Claude Code, both builds, as clients and the model see it.

use crate::common::BUILDS;
use crate::common::session_fixture::SessionFixture;
use serde_json::{Value, json};

const STEER_TEXT: &str = "in blue, please";

/// Returns prompt and whole response of each turn.
fn turns(chat: &Value) -> Vec<(String, String)> {
    let turn = |turn: &Value| {
        (turn["message"]["text"].as_str().unwrap().to_owned(), turn["responseParts"].as_array().unwrap().clone())
    };
    let shown = |(asked, parts): (String, Vec<Value>)| {
        let parts: Vec<_> = parts
            .iter()
            .map(|part| match part["kind"].as_str() {
                Some("toolCall") => format!("[{}]", part["toolCall"]["toolName"].as_str().unwrap()),
                _ => part["content"].as_str().unwrap_or_default().to_owned(),
            })
            .collect();
        (asked, parts.join(" "))
    };
    chat["turns"].as_array().unwrap().iter().map(turn).map(shown).collect()
}

fn pair(asked: &str, answer: &str) -> (String, String) {
    (asked.to_owned(), answer.to_owned())
}

fn assert_nothing_pending(chat: &Value) {
    assert!(chat["steeringMessage"].is_null(), "{chat:#}");
    assert!(chat["queuedMessages"].as_array().is_none_or(Vec::is_empty), "{chat:#}");
}

/// Starts a turn with an injected steer whose second call is running. Returns the turn and its prompt.
async fn start_turn_with_injected_steer(bench: &SessionFixture) -> (String, String) {
    let (one, two) = (bench.blocking_command("one"), bench.blocking_command("two"));
    let script = format!("!tool Bash {}\n!tool Bash {}\n!say blue it is", one.bash_input(), two.bash_input());
    let turn = bench.client.send_message(&bench.uris.chat, &script).await;
    bench.set_pending_message("steering", "s", STEER_TEXT).await;
    one.wait_until_running().await;
    one.release();
    two.wait_until_running().await;
    (turn, script)
}

#[tokio::test(flavor = "multi_thread")]
async fn steer_during_a_tool_call_reaches_the_model_once_and_splits_the_turn() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let gate = bench.blocking_command("look");
        let script = format!("!say let me look\n!tool Bash {}\n!say blue it is", gate.bash_input());
        bench.client.send_message(&bench.uris.chat, &script).await;
        gate.wait_until_running().await;
        bench.set_pending_message("steering", "s", STEER_TEXT).await;
        bench.wait_for_action("chat/pendingMessageSet").await.unwrap();
        assert_eq!(bench.chat_state().await["steeringMessage"]["message"]["text"], STEER_TEXT, "{build}");
        assert!(bench.count_in_model_requests(STEER_TEXT).iter().all(|times| *times == 0), "{build}");
        gate.release();
        let complete = bench.wait_for_action("chat/turnComplete").await.unwrap();
        let started = bench.wait_for_action("chat/turnStarted").await.unwrap();
        assert_eq!(started["queuedMessageId"], "s", "{build}: {started:#}");
        assert_eq!(complete["_meta"]["hostler"]["continuedIn"], started["turnId"], "{build}: {complete:#}");
        assert_eq!(started["_meta"]["hostler"]["continues"], complete["turnId"], "{build}: {started:#}");
        bench.wait_for_turn_end().await;
        let chat = bench.chat_state().await;
        assert_eq!(turns(&chat), [pair(&script, "let me look [Bash]"), pair(STEER_TEXT, "blue it is")], "{build}");
        assert_nothing_pending(&chat);
        assert_eq!(
            bench.count_in_model_requests(STEER_TEXT),
            [0, 1],
            "{build}: its next request contains the steer once"
        );

        // The model's context contains the steer, still once.
        let answer = bench.client.send_and_wait(&bench.uris.chat, "!say noted").await;
        assert_eq!((answer.as_str(), bench.count_in_model_requests(STEER_TEXT)), ("noted", vec![0, 1, 1]), "{build}");
        bench.stop().await;
    }
}

/// The steer is injected when the first of two calls is over, and cannot be withdrawn then.
#[tokio::test(flavor = "multi_thread")]
async fn injected_steer_cannot_be_withdrawn_and_a_second_one_waits_for_its_own_turn() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let script = start_turn_with_injected_steer(&bench).await.1;
        bench.remove_pending_message("steering", "s").await;
        let refused = bench.wait_for_action("chat/pendingMessageRemoved").await.unwrap_err();
        assert_eq!(refused, "the agent has already received the message", "{build}");
        bench.set_pending_message("steering", "s2", "!say and round").await;
        bench.wait_for_action("chat/pendingMessageSet").await.unwrap();
        let chat = bench.chat_state().await;
        assert_eq!(chat["steeringMessage"]["message"]["text"], STEER_TEXT, "{build}");
        assert_eq!(chat["queuedMessages"][0]["id"], "s2", "{build}: {chat:#}");
        bench.blocking_command("two").release();
        for _ in 0..3 {
            bench.wait_for_turn_end().await;
        }
        let chat = bench.chat_state().await;
        let expected =
            [pair(&script, "[Bash] [Bash]"), pair(STEER_TEXT, "blue it is"), pair("!say and round", "and round")];
        assert_eq!(turns(&chat), expected, "{build}");
        assert_nothing_pending(&chat);
        assert_eq!(bench.count_in_model_requests(STEER_TEXT), [0, 1, 1], "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn undelivered_steer_becomes_the_head_of_the_queue() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        bench.client.send_message(&bench.uris.chat, "!say no tools here").await;
        bench.set_pending_message("queued", "q", "!say later").await;
        bench.set_pending_message("steering", "s", "!say sooner").await;
        for _ in 0..3 {
            bench.wait_for_turn_end().await;
        }
        let chat = bench.chat_state().await;
        let expected =
            [pair("!say no tools here", "no tools here"), pair("!say sooner", "sooner"), pair("!say later", "later")];
        assert_eq!(turns(&chat), expected, "{build}");
        assert_nothing_pending(&chat);
        assert_eq!(bench.count_in_model_requests("!say sooner"), [0, 1, 1], "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_steer_can_be_replaced_and_withdrawn() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let (one, two) = (bench.blocking_command("one"), bench.blocking_command("two"));
        let script = format!("!tool Bash {}\n!say on\n!tool Bash {}\n!say over", one.bash_input(), two.bash_input());
        bench.client.send_message(&bench.uris.chat, &script).await;
        one.wait_until_running().await;
        bench.set_pending_message("steering", "s1", "in red").await;
        bench.wait_for_action("chat/pendingMessageSet").await.unwrap();
        bench.remove_pending_message("steering", "s1").await;
        bench.wait_for_action("chat/pendingMessageRemoved").await.unwrap();
        one.release();
        two.wait_until_running().await;
        bench.set_pending_message("steering", "s2", "in green").await;
        bench.set_pending_message("steering", "s3", STEER_TEXT).await;
        bench.wait_for_action("chat/pendingMessageSet").await.unwrap();
        bench.wait_for_action("chat/pendingMessageSet").await.unwrap();
        assert_eq!(bench.chat_state().await["steeringMessage"]["id"], "s3", "{build}");
        two.release();
        bench.wait_for_turn_end().await;
        bench.wait_for_turn_end().await;
        let chat = bench.chat_state().await;
        assert_eq!(turns(&chat), [pair(&script, "[Bash] on [Bash]"), pair(STEER_TEXT, "over")], "{build}");
        assert_nothing_pending(&chat);
        assert_eq!(bench.count_in_model_requests(STEER_TEXT), [0, 0, 1], "{build}");
        let others: usize = ["in red", "in green"].iter().flat_map(|text| bench.count_in_model_requests(text)).sum();
        assert_eq!(others, 0, "{build}: no request contains the others");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steer_during_sub_agent_work_goes_to_the_main_agent() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let gate = bench.blocking_command("below");
        let task = format!("the task below\n!tool Bash {}\n!say done below", gate.bash_input());
        // The native build runs agents in the background unless configured otherwise.
        let agent = json!({ "description": "a helper", "prompt": task, "subagent_type": "general-purpose",
            "run_in_background": false });
        let script = format!("!tool Agent {agent}\n!say blue it is");
        bench.client.send_message(&bench.uris.chat, &script).await;
        gate.wait_until_running().await;
        bench.set_pending_message("steering", "s", STEER_TEXT).await;
        bench.wait_for_action("chat/pendingMessageSet").await.unwrap();
        gate.release();
        bench.wait_for_turn_end().await;
        bench.wait_for_turn_end().await;
        let chat = bench.chat_state().await;
        assert_eq!(turns(&chat), [pair(&script, "[Agent]"), pair(STEER_TEXT, "blue it is")], "{build}");
        assert_nothing_pending(&chat);
        let matching: Vec<_> = bench
            .upstream
            .requests()
            .into_iter()
            .map(|request| request.body["messages"].to_string())
            .filter(|body| body.contains(STEER_TEXT))
            .collect();
        assert_eq!(matching.len(), 1, "{build}: {matching:#?}");
        assert!(matching[0].contains("!say blue it is"), "{build}: it is the agent's own request");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_queues_an_undelivered_steer() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let gate = bench.blocking_command("look");
        let turn =
            bench.client.send_message(&bench.uris.chat, &format!("!tool Bash {}\n!say over", gate.bash_input())).await;
        gate.wait_until_running().await;
        bench.set_pending_message("steering", "s", "!say retained").await;
        bench.wait_for_action("chat/pendingMessageSet").await.unwrap();
        bench.client.cancel_turn(&bench.uris.chat, &turn).await;
        bench.wait_for_action("chat/queuedMessagesReordered").await.unwrap();
        let chat = bench.chat_state().await;
        assert_eq!(chat["queuedMessages"][0]["id"], "s", "{build}: {chat:#}");
        assert_eq!(bench.client.send_and_wait(&bench.uris.chat, "!say go on").await, "go on", "{build}");
        bench.wait_for_turn_end().await;
        let chat = bench.chat_state().await;
        let asked: Vec<_> = turns(&chat).into_iter().map(|(_, answer)| answer).collect();
        assert_eq!(asked, ["[Bash]", "go on", "retained"], "{build}");
        assert_nothing_pending(&chat);
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steer_injected_before_a_cancel_is_shown_in_the_cancelled_turn() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let turn = start_turn_with_injected_steer(&bench).await.0;
        bench.client.cancel_turn(&bench.uris.chat, &turn).await;
        bench.wait_for_action("chat/pendingMessageRemoved").await.unwrap();
        assert_eq!(bench.client.send_and_wait(&bench.uris.chat, "!say go on").await, "go on", "{build}");
        let chat = bench.chat_state().await;
        let asked: Vec<_> = turns(&chat).into_iter().map(|(_, answer)| answer).collect();
        let expected = format!("[Bash] [Bash] You said, while the agent was working: {STEER_TEXT}");
        assert_eq!(asked, [expected.as_str(), "go on"], "{build}");
        assert_nothing_pending(&chat);
        assert_eq!(bench.count_in_model_requests(STEER_TEXT), [0, 1], "{build}: the model knows them");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steer_during_a_pending_request_follows_the_answer() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let write = json!({ "file_path": bench.home.work().join("made.txt"), "content": "x" });
        // Approved: the steer reaches the model with the call's result.
        bench.prompt_tool_call("Write", &write).await;
        let waiting = bench.wait_for_approval_request().await;
        bench.set_pending_message("steering", "s1", STEER_TEXT).await;
        bench.wait_for_action("chat/pendingMessageSet").await.unwrap();
        bench.answer_approval(&waiting, json!({ "approved": true })).await;
        bench.wait_for_turn_end().await;
        bench.wait_for_turn_end().await;
        assert_eq!(bench.count_in_model_requests(STEER_TEXT), [0, 1], "{build}");
        // Denied: no call runs that could carry the steer.
        bench.prompt_tool_call("Bash", &json!({ "command": "mkdir made", "description": "for the test" })).await;
        let waiting = bench.wait_for_approval_request().await;
        bench.set_pending_message("steering", "s2", "!say then not").await;
        bench.wait_for_action("chat/pendingMessageSet").await.unwrap();
        bench.answer_approval(&waiting, json!({ "approved": false })).await;
        bench.wait_for_turn_end().await;
        bench.wait_for_turn_end().await;
        let chat = bench.chat_state().await;
        let answers: Vec<_> = turns(&chat).into_iter().map(|(_, answer)| answer).collect();
        assert_eq!(answers, ["[Write]", "done", "[Bash] done", "then not"], "{build}");
        assert_nothing_pending(&chat);
        bench.stop().await;
    }
}
