//! Permissions: what runs, what is asked, and the effect of an answer.

use ahp_types::StateAction;
use hostler_testkit::processes;
use serde_json::json;

use crate::common::BUILDS;
use crate::common::session_fixture::{SessionFixture, wait_until};

fn bash(command: &str) -> serde_json::Value {
    json!({ "command": command, "description": "for the test" })
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_need_no_approval_and_are_shown() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        std::fs::write(bench.home.work().join("notes.txt"), "treasure").unwrap();
        bench.prompt_tool_call("Read", &json!({ "file_path": bench.home.work().join("notes.txt") })).await;
        assert!(!bench.wait_for_turn_end().await, "{build}: no request is pending");
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
async fn deny_rule_blocks_reads() {
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
async fn file_is_written_after_approval_and_its_edit_is_shown() {
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
        assert_eq!(preview["after"], edit["after"], "{build}: the displayed input was executed");

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
            "{build}: the displayed input was executed"
        );
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn person_edits_the_input_before_it_is_written() {
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

        // The result shows the input that was run, not the requested one.
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
async fn denial_reaches_the_model_with_the_persons_message() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let file = bench.home.work().join("made.txt");
        bench.prompt_tool_call("Write", &json!({ "file_path": file, "content": "x" })).await;
        let waiting = bench.wait_for_approval_request().await;
        let reason = "Not there. Use another directory.";
        let no = json!({ "approved": false, "selectedOptionId": "deny-with-feedback", "reasonMessage": reason });
        bench.answer_approval(&waiting, no).await;
        bench.wait_for_turn_end().await;
        assert!(!file.exists(), "{build}");
        assert!(bench.last_tool_result().contains(reason), "{build}: {}", bench.last_tool_result());
        assert_eq!(bench.last_tool_call("Write").await["status"], "cancelled", "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_applies_once_for_the_session_or_always() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let command = bash("mkdir -p made");
        // Once: the next call asks again. Denied: it does not run.
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
        // For the session: not asked again, but asked in another session.
        bench.prompt_tool_call("Bash", &command).await;
        let waiting = bench.wait_for_approval_request().await;
        bench.answer_approval(&waiting, json!({ "approved": true, "selectedOptionId": "allow-session" })).await;
        bench.wait_for_turn_end().await;
        bench.prompt_tool_call("Bash", &command).await;
        assert!(!bench.wait_for_turn_end().await, "{build}: not asked again");
        bench.uris = bench.client.create_session(&bench.home.work()).await;
        bench.prompt_tool_call("Bash", &command).await;
        let waiting = bench.wait_for_approval_request().await;
        // Always: not asked again, not even by another host.
        bench.answer_approval(&waiting, json!({ "approved": true, "selectedOptionId": "allow-always-1" })).await;
        bench.wait_for_turn_end().await;
        let mut bench = bench.restart().await;
        bench.prompt_tool_call("Bash", &command).await;
        assert!(!bench.wait_for_turn_end().await, "{build}: allowed for ever");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_mode_changes_nothing() {
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
async fn permission_mode_changes_during_a_turn_in_the_same_process() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let (one, two) = (bench.home.work().join("one.txt"), bench.home.work().join("two.txt"));
        let write = |file: &std::path::Path| json!({ "file_path": file, "content": "x" });
        let script = format!("!tool Write {}\n!say then\n!tool Write {}\n!say done", write(&one), write(&two));
        bench.client.send_message(&bench.uris.chat, &script).await;
        bench.wait_for_approval_request().await;
        let agent = bench.host.only_agent().pid;
        // The mode decides pending calls, and later ones are not asked.
        bench.set_permission_mode("acceptEdits").await;
        assert!(!bench.wait_for_turn_end().await, "{build}");
        assert!(one.exists() && two.exists(), "{build}");
        assert_eq!(bench.host.only_agent().pid, agent, "{build}: the same process");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_ends_the_shell_and_its_children() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let marker = format!("9{}", std::process::id());
        // One build does not accept long sleeps.
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
async fn second_answer_to_a_request_is_rejected() {
    let mut bench = SessionFixture::start("native").await;
    let mut other = bench.host.connect().await;
    other.chat_state(&bench.uris.chat).await;
    bench.prompt_tool_call("Bash", &bash("mkdir made")).await;
    let waiting = bench.wait_for_approval_request().await;
    let confirmation = |approved: bool| {
        let action = json!({ "type": "chat/toolCallConfirmed", "turnId": waiting["turnId"],
            "toolCallId": waiting["toolCallId"], "approved": approved });
        serde_json::from_value::<StateAction>(action).unwrap()
    };
    let chat = bench.uris.chat.clone();
    tokio::join!(bench.client.dispatch(&chat, confirmation(false)), other.dispatch(&chat, confirmation(true)));
    let refused = other
        .wait_for(&chat, |envelope| {
            matches!(envelope.action, StateAction::ChatToolCallConfirmed(_)) && envelope.rejection_reason.is_some()
        })
        .await;
    let won = refused.iter().find_map(|envelope| match &envelope.action {
        StateAction::ChatToolCallConfirmed(action) if envelope.rejection_reason.is_none() => Some(action.approved),
        _ => None,
    });
    bench.wait_for_turn_end().await;
    assert_eq!(won, Some(bench.home.work().join("made").exists()), "the accepted answer applies");
    bench.stop().await;
}
