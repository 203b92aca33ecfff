//! A person's words in the middle of a turn of the real Claude Code, both builds, as clients and the model see it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;

use common::BUILDS;
use common::bench::Bench;
use serde_json::{Value, json};

const WORDS: &str = "in blue, please";

/// What each turn was asked, and all of its answer.
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

fn nothing_waits(chat: &Value) {
    assert!(chat["steeringMessage"].is_null(), "{chat:#}");
    assert!(chat["queuedMessages"].as_array().is_none_or(Vec::is_empty), "{chat:#}");
}

/// The agent was told, and works on: a second call of the same message runs. Answers the turn and what it was asked.
async fn told(bench: &Bench) -> (String, String) {
    let (one, two) = (bench.gate("one"), bench.gate("two"));
    let script = format!("!tool Bash {}\n!tool Bash {}\n!say blue it is", one.call(), two.call());
    let turn = bench.peer.say(&bench.uris.chat, &script).await;
    bench.pend("steering", "s", WORDS).await;
    one.reached().await;
    one.open();
    two.reached().await;
    (turn, script)
}

#[tokio::test(flavor = "multi_thread")]
async fn words_said_while_a_tool_runs_reach_the_model_once_and_the_answer_goes_on_in_a_turn_of_theirs() {
    for build in BUILDS {
        let mut bench = Bench::at_ease(build).await;
        let gate = bench.gate("look");
        let script = format!("!say let me look\n!tool Bash {}\n!say blue it is", gate.call());
        bench.peer.say(&bench.uris.chat, &script).await;
        gate.reached().await;
        bench.pend("steering", "s", WORDS).await;
        bench.until("chat/pendingMessageSet").await.unwrap();
        assert_eq!(bench.chat().await["steeringMessage"]["message"]["text"], WORDS, "{build}");
        assert!(bench.heard(WORDS).iter().all(|times| *times == 0), "{build}");
        gate.open();
        let complete = bench.until("chat/turnComplete").await.unwrap();
        let started = bench.until("chat/turnStarted").await.unwrap();
        assert_eq!(started["queuedMessageId"], "s", "{build}: {started:#}");
        assert_eq!(complete["_meta"]["hostler"]["continuedIn"], started["turnId"], "{build}: {complete:#}");
        assert_eq!(started["_meta"]["hostler"]["continues"], complete["turnId"], "{build}: {started:#}");
        bench.end().await;
        let chat = bench.chat().await;
        assert_eq!(turns(&chat), [pair(&script, "let me look [Bash]"), pair(WORDS, "blue it is")], "{build}");
        nothing_waits(&chat);
        assert_eq!(bench.heard(WORDS), [0, 1], "{build}: its next request has the words, once");

        // The model remembers them, still once.
        let answer = bench.peer.ask(&bench.uris.chat, "!say noted").await;
        assert_eq!((answer.as_str(), bench.heard(WORDS)), ("noted", vec![0, 1, 1]), "{build}");
        bench.stop().await;
    }
}

/// They are told when the first of two calls is over, and then it is too late for second thoughts.
#[tokio::test(flavor = "multi_thread")]
async fn words_that_were_told_cannot_be_taken_back_and_what_is_said_after_them_waits_for_its_own_turn() {
    for build in BUILDS {
        let mut bench = Bench::at_ease(build).await;
        let script = told(&bench).await.1;
        bench.unpend("steering", "s").await;
        let refused = bench.until("chat/pendingMessageRemoved").await.unwrap_err();
        assert_eq!(refused, "the agent was told already", "{build}");
        bench.pend("steering", "s2", "!say and round").await;
        bench.until("chat/pendingMessageSet").await.unwrap();
        let chat = bench.chat().await;
        assert_eq!(chat["steeringMessage"]["message"]["text"], WORDS, "{build}");
        assert_eq!(chat["queuedMessages"][0]["id"], "s2", "{build}: {chat:#}");
        bench.gate("two").open();
        for _ in 0..3 {
            bench.end().await;
        }
        let chat = bench.chat().await;
        let expected = [pair(&script, "[Bash] [Bash]"), pair(WORDS, "blue it is"), pair("!say and round", "and round")];
        assert_eq!(turns(&chat), expected, "{build}");
        nothing_waits(&chat);
        assert_eq!(bench.heard(WORDS), [0, 1, 1], "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn words_that_no_call_follows_become_the_next_turn_before_all_that_waits() {
    for build in BUILDS {
        let mut bench = Bench::at_ease(build).await;
        bench.peer.say(&bench.uris.chat, "!say no tools here").await;
        bench.pend("queued", "q", "!say later").await;
        bench.pend("steering", "s", "!say sooner").await;
        for _ in 0..3 {
            bench.end().await;
        }
        let chat = bench.chat().await;
        let expected =
            [pair("!say no tools here", "no tools here"), pair("!say sooner", "sooner"), pair("!say later", "later")];
        assert_eq!(turns(&chat), expected, "{build}");
        nothing_waits(&chat);
        assert_eq!(bench.heard("!say sooner"), [0, 1, 1], "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn words_are_replaced_and_taken_back_while_nobody_has_heard_them() {
    for build in BUILDS {
        let mut bench = Bench::at_ease(build).await;
        let (one, two) = (bench.gate("one"), bench.gate("two"));
        let script = format!("!tool Bash {}\n!say on\n!tool Bash {}\n!say over", one.call(), two.call());
        bench.peer.say(&bench.uris.chat, &script).await;
        one.reached().await;
        bench.pend("steering", "s1", "in red").await;
        bench.until("chat/pendingMessageSet").await.unwrap();
        bench.unpend("steering", "s1").await;
        bench.until("chat/pendingMessageRemoved").await.unwrap();
        one.open();
        two.reached().await;
        bench.pend("steering", "s2", "in green").await;
        bench.pend("steering", "s3", WORDS).await;
        bench.until("chat/pendingMessageSet").await.unwrap();
        bench.until("chat/pendingMessageSet").await.unwrap();
        assert_eq!(bench.chat().await["steeringMessage"]["id"], "s3", "{build}");
        two.open();
        bench.end().await;
        bench.end().await;
        let chat = bench.chat().await;
        assert_eq!(turns(&chat), [pair(&script, "[Bash] on [Bash]"), pair(WORDS, "over")], "{build}");
        nothing_waits(&chat);
        assert_eq!(bench.heard(WORDS), [0, 0, 1], "{build}");
        let others: usize = ["in red", "in green"].iter().flat_map(|words| bench.heard(words)).sum();
        assert_eq!(others, 0, "{build}: nobody heard the others");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn words_said_while_a_sub_agent_works_are_for_the_agent_itself() {
    for build in BUILDS {
        let mut bench = Bench::at_ease(build).await;
        let gate = bench.gate("below");
        let task = format!("the task below\n!tool Bash {}\n!say done below", gate.call());
        // The native build lets agents work in the background unless it is told not to.
        let agent = json!({ "description": "a helper", "prompt": task, "subagent_type": "general-purpose",
            "run_in_background": false });
        let script = format!("!tool Agent {agent}\n!say blue it is");
        bench.peer.say(&bench.uris.chat, &script).await;
        gate.reached().await;
        bench.pend("steering", "s", WORDS).await;
        bench.until("chat/pendingMessageSet").await.unwrap();
        gate.open();
        bench.end().await;
        bench.end().await;
        let chat = bench.chat().await;
        assert_eq!(turns(&chat), [pair(&script, "[Agent]"), pair(WORDS, "blue it is")], "{build}");
        nothing_waits(&chat);
        let told: Vec<_> = bench
            .upstream
            .requests()
            .into_iter()
            .map(|request| request.body["messages"].to_string())
            .filter(|body| body.contains(WORDS))
            .collect();
        assert_eq!(told.len(), 1, "{build}: {told:#?}");
        assert!(told[0].contains("!say blue it is"), "{build}: it is the agent's own request");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_keeps_words_that_nobody_heard() {
    for build in BUILDS {
        let mut bench = Bench::at_ease(build).await;
        let gate = bench.gate("look");
        let turn = bench.peer.say(&bench.uris.chat, &format!("!tool Bash {}\n!say over", gate.call())).await;
        gate.reached().await;
        bench.pend("steering", "s", "!say kept").await;
        bench.until("chat/pendingMessageSet").await.unwrap();
        bench.peer.cancel(&bench.uris.chat, &turn).await;
        bench.until("chat/queuedMessagesReordered").await.unwrap();
        let chat = bench.chat().await;
        assert_eq!(chat["queuedMessages"][0]["id"], "s", "{build}: {chat:#}");
        assert_eq!(bench.peer.ask(&bench.uris.chat, "!say go on").await, "go on", "{build}");
        bench.end().await;
        let chat = bench.chat().await;
        let asked: Vec<_> = turns(&chat).into_iter().map(|(_, answer)| answer).collect();
        assert_eq!(asked, ["[Bash]", "go on", "kept"], "{build}");
        nothing_waits(&chat);
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn words_that_were_told_before_a_stop_are_shown_in_the_stopped_turn() {
    for build in BUILDS {
        let mut bench = Bench::at_ease(build).await;
        let turn = told(&bench).await.0;
        bench.peer.cancel(&bench.uris.chat, &turn).await;
        bench.until("chat/pendingMessageRemoved").await.unwrap();
        assert_eq!(bench.peer.ask(&bench.uris.chat, "!say go on").await, "go on", "{build}");
        let chat = bench.chat().await;
        let asked: Vec<_> = turns(&chat).into_iter().map(|(_, answer)| answer).collect();
        let told = format!("[Bash] [Bash] You said, while the agent was working: {WORDS}");
        assert_eq!(asked, [told.as_str(), "go on"], "{build}");
        nothing_waits(&chat);
        assert_eq!(bench.heard(WORDS), [0, 1], "{build}: the model knows them");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn words_said_while_a_person_is_asked_follow_the_answer() {
    for build in BUILDS {
        let mut bench = Bench::start(build).await;
        let write = json!({ "file_path": bench.home.work().join("made.txt"), "content": "x" });
        // A yes: they reach the model with the call's result.
        bench.use_tool("Write", &write).await;
        let waiting = bench.waiting().await;
        bench.pend("steering", "s1", WORDS).await;
        bench.until("chat/pendingMessageSet").await.unwrap();
        bench.answer(&waiting, json!({ "approved": true })).await;
        bench.end().await;
        bench.end().await;
        assert_eq!(bench.heard(WORDS), [0, 1], "{build}");
        // A no: nothing runs that they could go with.
        bench.use_tool("Bash", &json!({ "command": "mkdir made", "description": "for the test" })).await;
        let waiting = bench.waiting().await;
        bench.pend("steering", "s2", "!say then not").await;
        bench.until("chat/pendingMessageSet").await.unwrap();
        bench.answer(&waiting, json!({ "approved": false })).await;
        bench.end().await;
        bench.end().await;
        let chat = bench.chat().await;
        let answers: Vec<_> = turns(&chat).into_iter().map(|(_, answer)| answer).collect();
        assert_eq!(answers, ["[Write]", "done", "[Bash] done", "then not"], "{build}");
        nothing_waits(&chat);
        bench.stop().await;
    }
}
