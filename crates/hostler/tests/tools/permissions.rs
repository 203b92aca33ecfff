//! What runs, what is asked, and what an answer does.

use ahp_types::StateAction;
use hostler_testkit::processes;
use serde_json::json;

use crate::common::BUILDS;
use crate::common::session_fixture::{SessionFixture, wait_until};

fn bash(command: &str) -> serde_json::Value {
    json!({ "command": command, "description": "for the test" })
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_asks_nothing_and_is_shown() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        std::fs::write(bench.home.work().join("notes.txt"), "treasure").unwrap();
        bench.prompt_tool_call("Read", &json!({ "file_path": bench.home.work().join("notes.txt") })).await;
        assert!(!bench.wait_for_turn_end().await, "{build}: nobody is asked");
        let call = bench.last_tool_call("Read").await;
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
        let mut bench = SessionFixture::with_rules(build, rules).await;
        std::fs::write(bench.home.work().join("notes.txt"), "treasure").unwrap();
        bench.prompt_tool_call("Read", &json!({ "file_path": bench.home.work().join("notes.txt") })).await;
        bench.wait_for_turn_end().await;
        let call = bench.last_tool_call("Read").await;
        assert_eq!((&call["status"], &call["reason"]), (&json!("cancelled"), &json!("denied")), "{build}: {call:#}");
        assert!(
            bench.last_tool_result().contains("Read(*.txt)"),
            "{build}: the model knows why: {}",
            bench.last_tool_result()
        );
        assert!(!bench.last_tool_result().contains("treasure"), "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_written_once_somebody_says_yes_and_its_edit_is_shown() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let file = bench.home.work().join("made.txt");
        bench.prompt_tool_call("Write", &json!({ "file_path": file, "content": "one\ntwo\n" })).await;
        let waiting = bench.wait_for_approval_request().await;
        assert!(!file.exists(), "{build}");
        let preview = waiting["edits"]["items"][0].clone();
        assert_eq!(preview["diff"], json!({ "added": 2, "removed": 0 }), "{build}: {waiting:#}");
        bench.answer_approval(&waiting, json!({ "approved": true })).await;
        bench.wait_for_turn_end().await;
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\ntwo\n", "{build}");
        let call = bench.last_tool_call("Write").await;
        let edit = &call["content"][0];
        assert_eq!((&edit["type"], &edit["diff"]["added"]), (&json!("fileEdit"), &json!(2)), "{build}: {call:#}");
        let uri = &edit["after"]["content"]["uri"];
        let read: serde_json::Value =
            bench.client.client.request("resourceRead", json!({ "channel": "ahp-root://", "uri": uri })).await.unwrap();
        assert_eq!(read["data"], "one\ntwo\n", "{build}");
        assert_eq!(preview["after"], edit["after"], "{build}: what was shown is what was done");

        let change = json!({ "file_path": file, "old_string": "two", "new_string": "2\n3" });
        let script = format!("!tool Read {}\n!say then\n!tool Edit {change}\n!say done", json!({ "file_path": file }));
        bench.client.send_message(&bench.uris.chat, &script).await;
        let waiting = bench.wait_for_approval_request().await;
        let preview = waiting["edits"]["items"][0].clone();
        bench.answer_approval(&waiting, json!({ "approved": true })).await;
        bench.wait_for_turn_end().await;
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\n2\n3\n", "{build}");
        let call = bench.last_tool_call("Edit").await;
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
        let mut bench = SessionFixture::start(build).await;
        let file = bench.home.work().join("made.txt");
        bench.prompt_tool_call("Write", &json!({ "file_path": file, "content": "theirs" })).await;
        let waiting = bench.wait_for_approval_request().await;
        let edited = json!({ "file_path": file, "content": "mine" }).to_string();
        bench.answer_approval(&waiting, json!({ "approved": true, "editedToolInput": edited })).await;
        bench.wait_for_turn_end().await;
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine", "{build}");
        assert_eq!(bench.last_tool_call("Write").await["toolInput"], edited, "{build}");

        // What is told of it afterwards is what was done, not what was asked for.
        bench.prompt_tool_call("Bash", &json!({ "command": "mkdir theirs" })).await;
        let waiting = bench.wait_for_approval_request().await;
        let edited = json!({ "command": "mkdir mine" }).to_string();
        bench.answer_approval(&waiting, json!({ "approved": true, "editedToolInput": edited })).await;
        bench.wait_for_turn_end().await;
        let call = bench.last_tool_call("Bash").await;
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
        let mut bench = SessionFixture::start(build).await;
        let file = bench.home.work().join("made.txt");
        bench.prompt_tool_call("Write", &json!({ "file_path": file, "content": "x" })).await;
        let waiting = bench.wait_for_approval_request().await;
        let words = "Not there. Use another directory.";
        let no = json!({ "approved": false, "selectedOptionId": "deny-tell", "reasonMessage": words });
        bench.answer_approval(&waiting, no).await;
        bench.wait_for_turn_end().await;
        assert!(!file.exists(), "{build}");
        assert!(bench.last_tool_result().contains(words), "{build}: {}", bench.last_tool_result());
        assert_eq!(bench.last_tool_call("Write").await["status"], "cancelled", "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_once_for_the_session_or_for_ever_as_was_chosen() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let command = bash("mkdir -p made");
        // Once: the next one is asked again. No: it does not run.
        bench.prompt_tool_call("Bash", &command).await;
        let waiting = bench.wait_for_approval_request().await;
        bench.answer_approval(&waiting, json!({ "approved": true, "selectedOptionId": "allow-once" })).await;
        bench.wait_for_turn_end().await;
        assert!(bench.home.work().join("made").is_dir(), "{build}");
        let call = bench.last_tool_call("Bash").await;
        assert_eq!((&call["status"], &call["_meta"]["toolKind"]), (&json!("completed"), &json!("terminal")), "{build}");
        bench.prompt_tool_call("Bash", &bash("rmdir made")).await;
        let waiting = bench.wait_for_approval_request().await;
        bench.answer_approval(&waiting, json!({ "approved": false, "selectedOptionId": "deny" })).await;
        bench.wait_for_turn_end().await;
        assert!(bench.home.work().join("made").is_dir(), "{build}");
        // For the session: not asked again, and asked again in another one.
        bench.prompt_tool_call("Bash", &command).await;
        let waiting = bench.wait_for_approval_request().await;
        bench.answer_approval(&waiting, json!({ "approved": true, "selectedOptionId": "allow-session" })).await;
        bench.wait_for_turn_end().await;
        bench.prompt_tool_call("Bash", &command).await;
        assert!(!bench.wait_for_turn_end().await, "{build}: not asked again");
        bench.uris = bench.client.create_session(&bench.home.work()).await;
        bench.prompt_tool_call("Bash", &command).await;
        let waiting = bench.wait_for_approval_request().await;
        // For ever: not asked again, not even by another host.
        bench.answer_approval(&waiting, json!({ "approved": true, "selectedOptionId": "allow-always-1" })).await;
        bench.wait_for_turn_end().await;
        let mut bench = bench.restart().await;
        bench.prompt_tool_call("Bash", &command).await;
        assert!(!bench.wait_for_turn_end().await, "{build}: allowed for ever");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn planning_changes_nothing_whatever_the_model_tries() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        bench.set_permission_mode("plan").await;
        let file = bench.home.work().join("made.txt");
        bench.prompt_tool_call("Write", &json!({ "file_path": file, "content": "x" })).await;
        assert!(
            !bench.wait_for_turn_end().await || bench.last_tool_call("Write").await["status"] == "cancelled",
            "{build}"
        );
        bench.prompt_tool_call("Bash", &bash("touch made.txt")).await;
        bench.wait_for_turn_end().await;
        assert!(!file.exists(), "{build}");
        assert_eq!(bench.last_tool_call("Bash").await["status"], "cancelled", "{build}");
        bench.prompt_tool_call("Bash", &bash("ls")).await;
        assert!(!bench.wait_for_turn_end().await, "{build}: looking is planning");
        assert_eq!(bench.last_tool_call("Bash").await["status"], "completed", "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_changes_in_mid_turn_without_another_process() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let (one, two) = (bench.home.work().join("one.txt"), bench.home.work().join("two.txt"));
        let write = |file: &std::path::Path| json!({ "file_path": file, "content": "x" });
        let script = format!("!tool Write {}\n!say then\n!tool Write {}\n!say done", write(&one), write(&two));
        bench.client.send_message(&bench.uris.chat, &script).await;
        bench.wait_for_approval_request().await;
        let agent = bench.host.only_agent().pid;
        // What waits is decided by it, and what comes after it is not asked.
        bench.set_permission_mode("acceptEdits").await;
        assert!(!bench.wait_for_turn_end().await, "{build}");
        assert!(one.exists() && two.exists(), "{build}");
        assert_eq!(bench.host.only_agent().pid, agent, "{build}: the same process");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_the_shell_and_its_children() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let marker = format!("9{}", std::process::id());
        // One build does not take long sleeps.
        let sleeps = format!("tail -s {marker} -f /dev/null");
        let turn = bench.prompt_tool_call("Bash", &bash(&format!("mkdir -p made; {sleeps} & {sleeps}"))).await;
        let waiting = bench.wait_for_approval_request().await;
        bench.answer_approval(&waiting, json!({ "approved": true })).await;
        let sleepers =
            |host: u32| processes::descendants(host).into_iter().filter(|process| process.command == sleeps).count();
        let host = bench.host.pid;
        wait_until("the shell runs", || sleepers(host) == 2).await;
        bench.client.cancel_turn(&bench.uris.chat, &turn).await;
        let ended = bench.client.wait_for_turn_end(&bench.uris.chat).await;
        assert!(matches!(ended.last().unwrap().action, StateAction::ChatTurnCancelled(_)), "{build}");
        wait_until("the shell and its child are gone", || sleepers(host) == 0).await;
        assert!(
            bench.client.send_and_wait(&bench.uris.chat, "!say still here").await.contains("still here"),
            "{build}"
        );
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clients_see_one_answer_and_the_second_is_refused() {
    let mut bench = SessionFixture::start("native").await;
    let mut other = bench.host.connect().await;
    other.chat_state(&bench.uris.chat).await;
    bench.prompt_tool_call("Bash", &bash("mkdir made")).await;
    let waiting = bench.wait_for_approval_request().await;
    let word = |approved: bool| {
        let action = json!({ "type": "chat/toolCallConfirmed", "turnId": waiting["turnId"],
            "toolCallId": waiting["toolCallId"], "approved": approved });
        serde_json::from_value::<StateAction>(action).unwrap()
    };
    let chat = bench.uris.chat.clone();
    tokio::join!(bench.client.dispatch(&chat, word(false)), other.dispatch(&chat, word(true)));
    let refused = other
        .wait_for(&chat, |envelope| {
            matches!(envelope.action, StateAction::ChatToolCallConfirmed(_)) && envelope.rejection_reason.is_some()
        })
        .await;
    let won = refused.iter().find_map(|envelope| match &envelope.action {
        StateAction::ChatToolCallConfirmed(word) if envelope.rejection_reason.is_none() => Some(word.approved),
        _ => None,
    });
    bench.wait_for_turn_end().await;
    assert_eq!(won, Some(bench.home.work().join("made").exists()), "what the first one said is what happened");
    bench.stop().await;
}
