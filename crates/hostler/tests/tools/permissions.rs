//! What runs, what is asked, and what an answer does.

use ahp_types::StateAction;
use hostler_testkit::processes;
use serde_json::json;

use crate::common::BUILDS;
use crate::common::bench::{Bench, eventually};

fn bash(command: &str) -> serde_json::Value {
    json!({ "command": command, "description": "for the test" })
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_asks_nothing_and_is_shown() {
    for build in BUILDS {
        let mut bench = Bench::start(build).await;
        std::fs::write(bench.home.work().join("notes.txt"), "treasure").unwrap();
        bench.use_tool("Read", &json!({ "file_path": bench.home.work().join("notes.txt") })).await;
        assert!(!bench.end().await, "{build}: nobody is asked");
        let call = bench.call("Read").await;
        assert_eq!(
            (&call["status"], &call["confirmed"]),
            (&json!("completed"), &json!("not-needed")),
            "{build}: {call:#}"
        );
        assert_eq!(call["pastTenseMessage"]["markdown"], "Read `notes.txt`", "{build}");
        assert_eq!(call["_meta"]["toolKind"], "read", "{build}");
        assert!(call["content"][0]["text"].as_str().unwrap().contains("treasure"), "{build}: {call:#}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_against_it_stops_reading_too() {
    let rules = "[global]\nversion = 1\nrules = [{ effect = \"deny\", scope = \"global\", rule = \"Read(*.txt)\" }]\n";
    for build in BUILDS {
        let mut bench = Bench::with_rules(build, rules).await;
        std::fs::write(bench.home.work().join("notes.txt"), "treasure").unwrap();
        bench.use_tool("Read", &json!({ "file_path": bench.home.work().join("notes.txt") })).await;
        bench.end().await;
        let call = bench.call("Read").await;
        assert_eq!((&call["status"], &call["reason"]), (&json!("cancelled"), &json!("denied")), "{build}: {call:#}");
        assert!(bench.told().contains("Read(*.txt)"), "{build}: the model knows why: {}", bench.told());
        assert!(!bench.told().contains("treasure"), "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_written_once_somebody_says_yes_and_its_edit_is_shown() {
    for build in BUILDS {
        let mut bench = Bench::start(build).await;
        let file = bench.home.work().join("made.txt");
        bench.use_tool("Write", &json!({ "file_path": file, "content": "one\ntwo\n" })).await;
        let waiting = bench.waiting().await;
        assert!(!file.exists(), "{build}");
        let preview = waiting["edits"]["items"][0].clone();
        assert_eq!(preview["diff"], json!({ "added": 2, "removed": 0 }), "{build}: {waiting:#}");
        bench.answer(&waiting, json!({ "approved": true })).await;
        bench.end().await;
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\ntwo\n", "{build}");
        let call = bench.call("Write").await;
        let edit = &call["content"][0];
        assert_eq!((&edit["type"], &edit["diff"]["added"]), (&json!("fileEdit"), &json!(2)), "{build}: {call:#}");
        let uri = &edit["after"]["content"]["uri"];
        let read: serde_json::Value =
            bench.peer.client.request("resourceRead", json!({ "channel": "ahp-root://", "uri": uri })).await.unwrap();
        assert_eq!(read["data"], "one\ntwo\n", "{build}");
        assert_eq!(preview["after"], edit["after"], "{build}: what was shown is what was done");

        let change = json!({ "file_path": file, "old_string": "two", "new_string": "2\n3" });
        let script = format!("!tool Read {}\n!say then\n!tool Edit {change}\n!say done", json!({ "file_path": file }));
        bench.peer.say(&bench.uris.chat, &script).await;
        let waiting = bench.waiting().await;
        let preview = waiting["edits"]["items"][0].clone();
        bench.answer(&waiting, json!({ "approved": true })).await;
        bench.end().await;
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\n2\n3\n", "{build}");
        let call = bench.call("Edit").await;
        let edit = &call["content"][0];
        assert_eq!(
            (&preview["before"], &preview["after"], &preview["diff"]),
            (&edit["before"], &edit["after"], &edit["diff"]),
            "{build}: what was shown is what was done"
        );
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_changes_what_is_written() {
    for build in BUILDS {
        let mut bench = Bench::start(build).await;
        let file = bench.home.work().join("made.txt");
        bench.use_tool("Write", &json!({ "file_path": file, "content": "theirs" })).await;
        let waiting = bench.waiting().await;
        let edited = json!({ "file_path": file, "content": "mine" }).to_string();
        bench.answer(&waiting, json!({ "approved": true, "editedToolInput": edited })).await;
        bench.end().await;
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine", "{build}");
        assert_eq!(bench.call("Write").await["toolInput"], edited, "{build}");

        // What is told of it afterwards is what was done, not what was asked for.
        bench.use_tool("Bash", &json!({ "command": "mkdir theirs" })).await;
        let waiting = bench.waiting().await;
        let edited = json!({ "command": "mkdir mine" }).to_string();
        bench.answer(&waiting, json!({ "approved": true, "editedToolInput": edited })).await;
        bench.end().await;
        let call = bench.call("Bash").await;
        assert_eq!(call["toolInput"], edited, "{build}");
        for sentence in ["invocationMessage", "pastTenseMessage"] {
            let sentence = call[sentence]["markdown"].as_str().unwrap();
            assert!(sentence.contains("mkdir mine") && !sentence.contains("theirs"), "{build}: {sentence}");
        }
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_reaches_the_model_in_the_persons_words() {
    for build in BUILDS {
        let mut bench = Bench::start(build).await;
        let file = bench.home.work().join("made.txt");
        bench.use_tool("Write", &json!({ "file_path": file, "content": "x" })).await;
        let waiting = bench.waiting().await;
        let words = "Not there. Use another directory.";
        let no = json!({ "approved": false, "selectedOptionId": "deny-tell", "reasonMessage": words });
        bench.answer(&waiting, no).await;
        bench.end().await;
        assert!(!file.exists(), "{build}");
        assert!(bench.told().contains(words), "{build}: {}", bench.told());
        assert_eq!(bench.call("Write").await["status"], "cancelled", "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_once_for_the_session_or_for_ever_as_was_chosen() {
    for build in BUILDS {
        let mut bench = Bench::start(build).await;
        let command = bash("mkdir -p made");
        // Once: the next one is asked again. No: it does not run.
        bench.use_tool("Bash", &command).await;
        let waiting = bench.waiting().await;
        bench.answer(&waiting, json!({ "approved": true, "selectedOptionId": "allow-once" })).await;
        bench.end().await;
        assert!(bench.home.work().join("made").is_dir(), "{build}");
        let call = bench.call("Bash").await;
        assert_eq!((&call["status"], &call["_meta"]["toolKind"]), (&json!("completed"), &json!("terminal")), "{build}");
        bench.use_tool("Bash", &bash("rmdir made")).await;
        let waiting = bench.waiting().await;
        bench.answer(&waiting, json!({ "approved": false, "selectedOptionId": "deny" })).await;
        bench.end().await;
        assert!(bench.home.work().join("made").is_dir(), "{build}");
        // For the session: not asked again, and asked again in another one.
        bench.use_tool("Bash", &command).await;
        let waiting = bench.waiting().await;
        bench.answer(&waiting, json!({ "approved": true, "selectedOptionId": "allow-session" })).await;
        bench.end().await;
        bench.use_tool("Bash", &command).await;
        assert!(!bench.end().await, "{build}: not asked again");
        bench.uris = bench.peer.create(&bench.home.work()).await;
        bench.use_tool("Bash", &command).await;
        let waiting = bench.waiting().await;
        // For ever: not asked again, not even by another host.
        bench.answer(&waiting, json!({ "approved": true, "selectedOptionId": "allow-always-1" })).await;
        bench.end().await;
        let mut bench = bench.restart().await;
        bench.use_tool("Bash", &command).await;
        assert!(!bench.end().await, "{build}: allowed for ever");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn planning_changes_nothing_whatever_the_model_tries() {
    for build in BUILDS {
        let mut bench = Bench::start(build).await;
        bench.change_mode("plan").await;
        let file = bench.home.work().join("made.txt");
        bench.use_tool("Write", &json!({ "file_path": file, "content": "x" })).await;
        assert!(!bench.end().await || bench.call("Write").await["status"] == "cancelled", "{build}");
        bench.use_tool("Bash", &bash("touch made.txt")).await;
        bench.end().await;
        assert!(!file.exists(), "{build}");
        assert_eq!(bench.call("Bash").await["status"], "cancelled", "{build}");
        bench.use_tool("Bash", &bash("ls")).await;
        assert!(!bench.end().await, "{build}: looking is planning");
        assert_eq!(bench.call("Bash").await["status"], "completed", "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_changes_in_mid_turn_without_another_process() {
    for build in BUILDS {
        let mut bench = Bench::start(build).await;
        let (one, two) = (bench.home.work().join("one.txt"), bench.home.work().join("two.txt"));
        let write = |file: &std::path::Path| json!({ "file_path": file, "content": "x" });
        let script = format!("!tool Write {}\n!say then\n!tool Write {}\n!say done", write(&one), write(&two));
        bench.peer.say(&bench.uris.chat, &script).await;
        bench.waiting().await;
        let agent = bench.host.agent().pid;
        // What waits is decided by it, and what comes after it is not asked.
        bench.change_mode("acceptEdits").await;
        assert!(!bench.end().await, "{build}");
        assert!(one.exists() && two.exists(), "{build}");
        assert_eq!(bench.host.agent().pid, agent, "{build}: the same process");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_the_shell_and_its_children() {
    for build in BUILDS {
        let mut bench = Bench::start(build).await;
        let marker = format!("9{}", std::process::id());
        // One build does not take long sleeps.
        let sleeps = format!("tail -s {marker} -f /dev/null");
        let turn = bench.use_tool("Bash", &bash(&format!("mkdir -p made; {sleeps} & {sleeps}"))).await;
        let waiting = bench.waiting().await;
        bench.answer(&waiting, json!({ "approved": true })).await;
        let sleepers =
            |host: u32| processes::descendants(host).into_iter().filter(|process| process.command == sleeps).count();
        let host = bench.host.pid;
        eventually("the shell runs", || sleepers(host) == 2).await;
        bench.peer.cancel(&bench.uris.chat, &turn).await;
        let ended = bench.peer.until_end(&bench.uris.chat).await;
        assert!(matches!(ended.last().unwrap().action, StateAction::ChatTurnCancelled(_)), "{build}");
        eventually("the shell and its child are gone", || sleepers(host) == 0).await;
        assert!(bench.peer.ask(&bench.uris.chat, "!say still here").await.contains("still here"), "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clients_see_one_answer_and_the_second_is_refused() {
    let mut bench = Bench::start("native").await;
    let mut other = bench.host.peer().await;
    other.chat(&bench.uris.chat).await;
    bench.use_tool("Bash", &bash("mkdir made")).await;
    let waiting = bench.waiting().await;
    let word = |approved: bool| {
        let action = json!({ "type": "chat/toolCallConfirmed", "turnId": waiting["turnId"],
            "toolCallId": waiting["toolCallId"], "approved": approved });
        serde_json::from_value::<StateAction>(action).unwrap()
    };
    let chat = bench.uris.chat.clone();
    tokio::join!(bench.peer.dispatch(&chat, word(false)), other.dispatch(&chat, word(true)));
    let refused = other
        .until(&chat, |envelope| {
            matches!(envelope.action, StateAction::ChatToolCallConfirmed(_)) && envelope.rejection_reason.is_some()
        })
        .await;
    let won = refused.iter().find_map(|envelope| match &envelope.action {
        StateAction::ChatToolCallConfirmed(word) if envelope.rejection_reason.is_none() => Some(word.approved),
        _ => None,
    });
    bench.end().await;
    assert_eq!(won, Some(bench.home.work().join("made").exists()), "what the first one said is what happened");
    bench.stop().await;
}
