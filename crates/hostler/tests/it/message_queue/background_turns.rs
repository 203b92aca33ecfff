//! Background work, and the turns that follow from it.

use ahp_types::StateAction;
use ahp_types::actions::ActionEnvelope;
use hostler_testkit::processes;
use serde_json::{Value, json};

use crate::common::BUILDS;
use crate::common::session_fixture::{SessionFixture, wait_until};

/// Starts a command that outlives its turn; returns the id of its list entry.
async fn begin(bench: &mut SessionFixture, name: &str) -> String {
    let gate = bench.blocking_command(name);
    bench.prompt_tool_call("Bash", &gate.background_bash_input()).await;
    let set = bench.wait_for_action("chat/backgroundWorkSet").await.unwrap();
    assert_eq!(
        (&set["work"]["kind"], &set["work"]["label"]),
        (&json!("shell"), &json!(name)),
        "{}: {set:#}",
        bench.build
    );
    bench.wait_for_turn_end().await;
    gate.wait_until_running().await;
    set["work"]["id"].as_str().unwrap().to_owned()
}

fn work(chat: &Value) -> Vec<String> {
    let work = chat["backgroundWork"].as_array().cloned().unwrap_or_default();
    work.iter().map(|work| work["id"].as_str().unwrap().to_owned()).collect()
}

fn shells(host: u32, name: &str) -> usize {
    let mark = format!("{name}.running");
    processes::descendants(host).iter().filter(|process| process.command.contains(&mark)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn background_command_end_starts_an_agent_turn_with_a_reason() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let id = begin(&mut bench, "job").await;
        let chat = bench.chat_state().await;
        assert_eq!((work(&chat), chat["activeTurn"].is_null()), (vec![id], true), "{build}: {chat:#}");
        // It continues beside other turns.
        assert_eq!(bench.client.send_and_wait(&bench.uris.chat, "!say meanwhile").await, "meanwhile", "{build}");
        assert_eq!(work(&bench.chat_state().await).len(), 1, "{build}");
        bench.blocking_command("job").release();
        let started = bench.wait_for_action("chat/turnStarted").await.unwrap();
        let message = &started["message"];
        assert_eq!(message["origin"]["kind"], "systemNotification", "{build}: {started:#}");
        assert_eq!(message["text"], "Background command \"job\" completed (exit code 0)", "{build}");
        bench.wait_for_turn_end().await;
        let chat = bench.chat_state().await;
        assert_eq!((work(&chat), chat["turns"].as_array().unwrap().len()), (Vec::new(), 3), "{build}: {chat:#}");
        assert!(!chat["turns"][2]["responseParts"].as_array().unwrap().is_empty(), "{build}: {chat:#}");
        assert_eq!(bench.client.send_and_wait(&bench.uris.chat, "!say and on").await, "and on", "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn message_at_the_end_of_background_work_is_answered_once() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        begin(&mut bench, "job").await;
        bench.blocking_command("job").release();
        let turn = bench.client.send_message(&bench.uris.chat, "!say the answer").await;
        // Either it was accepted, or an agent-initiated turn was faster; then it is sent again.
        let chat = bench.uris.chat.clone();
        let mine = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::ChatTurnStarted(started) if started.turn_id == turn);
        let refused = bench.client.wait_for(&chat, mine).await.last().unwrap().rejection_reason.is_some();
        let turn = match refused {
            true => {
                bench.set_pending_message("queued", "q", "!say the answer").await;
                bench.wait_for_action("chat/turnStarted").await.unwrap()["turnId"].as_str().unwrap().to_owned()
            }
            false => turn,
        };
        let ends = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::ChatTurnComplete(end) if end.turn_id == turn);
        bench.client.wait_for(&chat, ends).await;
        // The agent's response about its work comes before, in or after that turn.
        let is_reported = |bench: &SessionFixture| {
            bench.count_in_model_requests("<task-notification>").iter().any(|times| *times > 0)
        };
        wait_until("the model receives the result of the work", || is_reported(&bench)).await;
        // An agent that turns to its work at the same time answers that; then it is asked again.
        let mut answer = bench.client.send_and_wait(&chat, "!say last").await;
        if answer.contains("<task-notification>") {
            answer = bench.client.send_and_wait(&chat, "!say last").await;
        }
        assert!(answer.ends_with("last"), "{build}: {answer}");
        let chat = bench.chat_state().await;
        let turns = chat["turns"].as_array().unwrap();
        let answers = turns.iter().flat_map(|turn| turn["responseParts"].as_array().unwrap());
        let answers = answers.filter(|part| part["content"] == "the answer").count();
        assert_eq!(answers, 1, "{build}: {chat:#}");
        assert!(turns.iter().all(|turn| turn["state"] == "complete"), "{build}: {chat:#}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_stops_background_work_and_its_processes_end() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let (one, two) = (begin(&mut bench, "one").await, begin(&mut bench, "two").await);
        let host = bench.host.pid;
        assert!(shells(host, "one") > 0 && shells(host, "two") > 0, "{build}");
        let params = |id: &str| json!({ "channel": bench.uris.chat, "id": id });
        let _: Value = bench.client.client.request("hostler/stopBackgroundWork", params(&one)).await.unwrap();
        let removed = bench.wait_for_action("chat/backgroundWorkRemoved").await.unwrap();
        assert_eq!(removed["id"], one, "{build}");
        assert_eq!(work(&bench.chat_state().await), [two.as_str()], "{build}");
        wait_until("its shell is gone", || shells(host, "one") == 0).await;
        assert!(shells(host, "two") > 0, "{build}: the other one continues");
        let params = json!({ "channel": bench.uris.chat, "id": one });
        let again = bench.client.client.request::<_, Value>("hostler/stopBackgroundWork", params).await;
        assert!(again.unwrap_err().to_string().contains(&one), "{build}");
        // The model is not called because of it.
        assert_eq!(bench.client.send_and_wait(&bench.uris.chat, "!say still here").await, "still here", "{build}");
        bench.stop().await;
    }
}
