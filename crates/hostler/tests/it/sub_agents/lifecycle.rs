//! Events around sub-agents of the real agent while they start, work and end.

use ahp_types::StateAction;
use ahp_types::actions::ActionEnvelope;

use super::*;
use crate::common::session_fixture::wait_until;

/// Returns a script that works until the test releases it.
fn works(bench: &SessionFixture, name: &str) -> String {
    format!("!tool Bash {}\n!say {name} is done", bench.blocking_command(name).bash_input())
}

fn state_of(chat: &Value) -> (&Value, &Value) {
    let turn = &chat["turns"][0];
    let parts = turn["responseParts"].as_array();
    (&turn["state"], parts.and_then(|parts| parts.last()).map_or(&Value::Null, |part| &part["error"]["errorType"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agent_starts_a_nested_sub_agent() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let inner = format!("{}\n!say outer is done", helper(&makes("made"), false));
        bench.client.send_message(&bench.uris.chat, &format!("{}\n!say done", helper(&inner, false))).await;
        bench.wait_for_turn_end().await;
        let chats = sub_agent_chats(&bench).await;
        let outer = &chats[0]["turns"][0];
        let last = |turn: &Value| turn["responseParts"].as_array().unwrap().last().unwrap()["content"].clone();
        assert_eq!((&outer["state"], last(outer)), (&json!("complete"), json!("outer is done")), "{build}: {outer:#}");
        let call = &outer["responseParts"][0]["toolCall"];
        match build {
            "native" => {
                assert_eq!(chats.len(), 2);
                let origin = json!({ "kind": "tool", "chat": chats[0]["resource"], "toolCallId": call["toolCallId"] });
                assert_eq!(chats[1]["origin"], origin);
                let inner = &chats[1]["turns"][0];
                assert_eq!((&inner["state"], last(inner)), (&json!("complete"), json!("made is made")), "{inner:#}");
            }
            // The older build does not allow nested sub-agents.
            _ => {
                assert_eq!((chats.len(), &call["success"]), (1, &json!(false)), "{call:#}");
                let sentence = call["error"]["message"].as_str().unwrap();
                assert!(sentence.starts_with("No such tool available: Agent."), "{sentence}");
            }
        }
        bench.stop().await;
    }
}

/// Returns whether the sub-agent's model has received its call's result and is asked for its last response.
fn helper_received_its_result(bench: &SessionFixture) -> bool {
    let requests = bench.upstream.requests();
    let last = requests.iter().map(|request| request.body["messages"].to_string());
    last.filter(|messages| messages.contains("made is made") && messages.contains("tool_result")).any(|messages| {
        // The parent's own requests contain the call that created it.
        !messages.contains("front")
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn background_sub_agent_ends_during_the_turn_that_started_it() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let front = bench.blocking_command("front");
        let script = format!("{}\n!tool Bash {}\n!say done", helper(&makes("made"), true), front.bash_input());
        bench.client.send_message(&bench.uris.chat, &script).await;
        front.wait_until_running().await;
        // The older build reports the end when its own call is over, if the sub-agent has ended by then.
        if build == "js" {
            wait_until("the sub-agent's last answer", || helper_received_its_result(&bench)).await;
            front.release();
        }
        let turn = ended(&bench).await;
        assert_eq!(turn["state"], "complete", "{build}: {turn:#}");
        if build == "native" {
            assert!(!bench.chat_state().await["activeTurn"].is_null(), "its parent continues");
            front.release();
        }
        bench.wait_for_turn_end().await;
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_ends_starting_and_working_sub_agents() {
    for build in BUILDS {
        for at_work in [false, true] {
            let mut bench = SessionFixture::allowing_commands(build).await;
            let inner = works(&bench, "inner");
            let turn =
                bench.client.send_message(&bench.uris.chat, &format!("{}\n!say done", helper(&inner, false))).await;
            let begins = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::SessionChatAdded(_));
            bench.client.wait_for(&bench.uris.session.clone(), begins).await;
            if at_work {
                bench.blocking_command("inner").wait_until_running().await;
            }
            bench.client.cancel_turn(&bench.uris.chat, &turn).await;
            bench.wait_for_action("chat/turnCancelled").await.unwrap();
            assert_eq!(ended(&bench).await["state"], "cancelled", "{build}");
            assert_no_pending_requests(&bench).await;
            let runs = || {
                let processes = hostler_testkit::processes::descendants(bench.host.pid);
                processes.iter().any(|process| process.command.contains("inner.running"))
            };
            wait_until("its shell is gone", || !runs()).await;
            bench.set_pending_message("queued", "q", "!say still here").await;
            bench.wait_for_turn_end().await;
            bench.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn background_sub_agent_survives_a_cancel() {
    // The older build does not end the turn before its sub-agents end, and is killed for that.
    let mut bench = SessionFixture::allowing_commands("native").await;
    let (front, inner) = (bench.blocking_command("front"), works(&bench, "inner"));
    let script = format!("{}\n!tool Bash {}\n!say done", helper(&inner, true), front.bash_input());
    let turn = bench.client.send_message(&bench.uris.chat, &script).await;
    front.wait_until_running().await;
    bench.blocking_command("inner").wait_until_running().await;
    bench.client.cancel_turn(&bench.uris.chat, &turn).await;
    bench.wait_for_action("chat/turnCancelled").await.unwrap();
    bench.blocking_command("inner").release();
    let turn = ended(&bench).await;
    assert_eq!(turn["state"], "complete", "{turn:#}");
    assert!(turn["responseParts"].to_string().contains("inner is done"), "{turn:#}");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn background_sub_agent_is_stopped_in_its_chat() {
    let mut bench = SessionFixture::allowing_commands("native").await;
    let inner = works(&bench, "inner");
    bench.client.send_message(&bench.uris.chat, &format!("{}\n!say launched", helper(&inner, true))).await;
    bench.blocking_command("inner").wait_until_running().await;
    bench.wait_for_turn_end().await;
    let chat = &sub_agent_chats(&bench).await[0];
    let (uri, turn) = (chat["resource"].as_str().unwrap(), chat["activeTurn"]["id"].as_str().unwrap());
    bench.client.cancel_turn(uri, turn).await;
    bench.wait_for_action("chat/backgroundWorkRemoved").await.unwrap();
    assert_eq!(ended(&bench).await["state"], "cancelled");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agent_chats_stay_readable_after_agent_and_host_end() {
    for build in BUILDS {
        for how in ["agent", "SIGTERM", "SIGKILL"] {
            let mut bench = SessionFixture::allowing_commands(build).await;
            let script = [helper(&works(&bench, "beside"), true), helper(&works(&bench, "inner"), false)].join("\n");
            bench.client.send_message(&bench.uris.chat, &script).await;
            bench.blocking_command("beside").wait_until_running().await;
            bench.blocking_command("inner").wait_until_running().await;
            match how {
                "agent" => bench.kill_agent().await,
                "SIGTERM" => bench = bench.restart_host().await,
                _ => bench = bench.kill_host().await,
            }
            let deadline = Instant::now() + TEST_TIMEOUT;
            let chats = loop {
                let chats = sub_agent_chats(&bench).await;
                if chats.iter().all(|chat| chat["activeTurn"].is_null()) {
                    break chats;
                }
                assert!(Instant::now() < deadline, "{build} {how}: {chats:#?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            };
            let ends: Vec<_> = chats.iter().map(state_of).collect();
            let interrupted = (&json!("error"), &json!("interrupted"));
            // A host that is stopped cancels the turn, and with it the sub-agents that the turn waits for.
            let cancelled = (&json!("cancelled"), &Value::Null);
            let waited_for = if how == "SIGTERM" { cancelled } else { interrupted };
            assert_eq!(ends, [interrupted, waited_for], "{build} {how}: {chats:#?}");
            assert!(chats[0]["turns"].to_string().contains("beside.running"), "{build} {how}: {chats:#?}");
            assert_no_pending_requests(&bench).await;
            bench.stop().await;
        }
    }
}
