//! What is restored is what was seen, where something went wrong in the middle of a turn.

use std::path::PathBuf;

use ahp_types::StateAction;
use ahp_types::actions::ActionEnvelope;
use serde_json::Value;

use super::golden::{Named, RULES, compare};
use super::second::Second;
use crate::common::bench::{Bench, eventually};
use crate::common::{BUILDS, files};

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_took_a_second_try_is_taken_in() {
    for build in BUILDS {
        let mut bench = Bench::with_rules(build, RULES).await;
        bench.upstream.refuses("stumble", 529, "Too many horses.");
        bench.peer.say(&bench.uris.chat, "!say stumble and rise").await;
        let retries = |envelope: &ActionEnvelope| {
            matches!(&envelope.action, StateAction::ChatActivityChanged(now)
                if now.activity.as_ref().is_some_and(|activity| activity.starts_with("Retrying")))
        };
        bench.peer.until(&bench.uris.chat, retries).await;
        bench.upstream.refuses("nobody says this", 529, "");
        bench.end().await;
        bench.peer.ask(&bench.uris.chat, "!say on we go").await;
        bench.peer.ask(&bench.uris.chat, "!say The end.").await;
        compare(bench, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_stopped_in_mid_sentence_is_taken_in_as_far_as_it_went() {
    for build in BUILDS {
        let mut bench = Bench::with_rules(build, RULES).await;
        let turn = bench.peer.say(&bench.uris.chat, "!say begun\n!hang").await;
        bench.until("chat/delta").await.unwrap();
        bench.peer.cancel(&bench.uris.chat, &turn).await;
        bench.peer.until_end(&bench.uris.chat).await;
        bench.peer.ask(&bench.uris.chat, "!say The end.").await;
        compare(bench, &[("chat[0].usage:", "a live agent does not tell the use of a turn that was stopped")]).await;
    }
}

/// What the agent does when it is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Doing {
    Speaking,
    Working,
}

/// The agent is killed in its second turn; answers the turn.
async fn dies(bench: &mut Bench, doing: Doing) -> String {
    bench.peer.ask(&bench.uris.chat, "!say The beginning.").await;
    let gate = bench.gate("work");
    let script = match doing {
        Doing::Speaking => "!say begun\n!hang".to_owned(),
        Doing::Working => format!("!say begun\n!tool Bash {}", gate.call()),
    };
    let turn = bench.peer.say(&bench.uris.chat, &script).await;
    match doing {
        Doing::Speaking => drop(bench.until("chat/delta").await.unwrap()),
        Doing::Working => gate.reached().await,
    }
    // The agent writes behind its words.
    let mark = if doing == Doing::Speaking { "!say begun" } else { "\"type\":\"tool_use\"" };
    let has_mark = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().any(|line| line.contains("\"parentUuid\"") && line.contains(mark))
    };
    let claude = bench.home.path("claude");
    eventually("the record has it", || files(&claude).iter().any(has_mark)).await;
    bench.kill_agent().await;
    bench.fails().await;
    turn
}

const KILLED: [Named; 3] = [
    ("chat[1].state:", "that an agent died is not written down; its turn was cut off"),
    ("chat[1].responseParts:", "the same, and neither is a sentence that it did not finish"),
    ("chat[1].usage", "a live agent does not tell the use of a turn that it did not finish"),
];

/// The next message goes on without that turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_whose_agent_was_killed_is_taken_in_as_far_as_it_was_written_down() {
    for build in BUILDS {
        for doing in [Doing::Speaking, Doing::Working] {
            let mut bench = Bench::with_rules(build, RULES).await;
            dies(&mut bench, doing).await;
            bench.peer.ask(&bench.uris.chat, "!say The end.").await;
            compare(bench, &KILLED).await;
        }
    }
}

/// What the agent is told when a turn is taken up again that it knows of.
const GO_ON: &str = "Continue where you left off.";

/// Here it is one turn; the agent was told to go on, and its record has that as a turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_whose_agent_was_killed_is_taken_in_as_the_beginning_and_the_rest() {
    for build in BUILDS {
        for doing in [Doing::Speaking, Doing::Working] {
            let mut bench = Bench::with_rules(build, RULES).await;
            let turn = dies(&mut bench, doing).await;
            bench.upstream.takes(GO_ON, Some("!say the rest"));
            bench.resume(&turn).await;
            bench.end().await;
            bench.peer.ask(&bench.uris.chat, "!say The end.").await;
            bench = bench.restart_host().await;
            let second = Second::start(&bench).await;
            let chat = second.chat(&bench).await;
            let turns: Vec<_> = chat["turns"].as_array().unwrap().iter().map(shown).collect();
            let begun = if doing == Doing::Speaking { "" } else { "begun, Bash completed" };
            let expected = [
                "complete: The beginning.".to_owned(),
                format!("cancelled: {begun}"),
                "complete: the rest".to_owned(),
                "complete: The end.".to_owned(),
            ];
            assert_eq!(turns, expected, "{build} {doing:?}: {chat:#}");
            assert_eq!(chat["turns"][2]["message"]["text"], GO_ON, "{build} {doing:?}");
            second.host.stop().await;
            bench.stop().await;
        }
    }
}

/// The agent writes behind its words: it may have written nothing at all by then.
#[tokio::test(flavor = "multi_thread")]
async fn the_model_hears_a_message_whose_agent_was_killed_at_its_first_word() {
    for build in BUILDS {
        for is_first in [true, false] {
            let mut bench = Bench::with_rules(build, RULES).await;
            if !is_first {
                bench.peer.ask(&bench.uris.chat, "!say The beginning.").await;
            }
            bench.upstream.takes("heliotrope", Some("!say begun\n!hang"));
            let turn = bench.peer.say(&bench.uris.chat, "heliotrope").await;
            bench.until("chat/delta").await.unwrap();
            bench.kill_agent().await;
            bench.fails().await;
            bench.upstream.takes("heliotrope", Some("!say the rest"));
            bench.upstream.takes(GO_ON, Some("!say the rest"));
            bench.resume(&turn).await;
            bench.end().await;
            let last = bench.heard("heliotrope").pop();
            let told = bench.upstream.requests().pop().map(|request| request.body["messages"].to_string());
            assert_eq!(last, Some(1), "{build}, first: {is_first}: {told:?}");
            bench.stop().await;
        }
    }
}

/// How a turn ended, and what was said and called in it.
fn shown(turn: &Value) -> String {
    let part = |part: &Value| match part["toolCall"]["toolName"].as_str() {
        Some(name) => format!("{name} {}", part["toolCall"]["status"].as_str().unwrap()),
        None => part["content"].as_str().unwrap_or_default().to_owned(),
    };
    let parts: Vec<_> = turn["responseParts"].as_array().unwrap().iter().map(part).collect();
    format!("{}: {}", turn["state"].as_str().unwrap(), parts.join(", "))
}
