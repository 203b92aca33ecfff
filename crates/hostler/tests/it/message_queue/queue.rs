//! Queue of messages.

use ahp_types::StateAction;
use serde_json::{Value, json};

use crate::common::BUILDS;
use crate::common::session_fixture::SessionFixture;

fn waiting(chat: &Value) -> Vec<String> {
    let queue = chat["queuedMessages"].as_array().cloned().unwrap_or_default();
    queue.iter().map(|message| message["message"]["text"].as_str().unwrap().to_owned()).collect()
}

fn asked(chat: &Value) -> Vec<String> {
    let turns = chat["turns"].as_array().unwrap();
    turns.iter().map(|turn| turn["message"]["text"].as_str().unwrap().to_owned()).collect()
}

/// Starts a turn that runs until the file exists; returns the turn and its prompt.
async fn work(bench: &SessionFixture, gate: &str) -> (String, String) {
    let gate = bench.blocking_command(gate);
    let script = format!("!tool Bash {}\n!say worked", gate.bash_input());
    let turn = bench.client.send_message(&bench.uris.chat, &script).await;
    gate.wait_until_running().await;
    (turn, script)
}

async fn is_paused(bench: &SessionFixture) -> bool {
    let session = serde_json::to_value(bench.client.subscribe_snapshot(&bench.uris.session).await).unwrap();
    session["_meta"]["hostler"]["queuePaused"].as_bool().unwrap_or(false)
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_messages_are_edited_reordered_removed_and_run_in_order() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let (_, script) = work(&bench, "work").await;
        for (id, text) in [("q1", "!say one"), ("q2", "!say two"), ("q3", "!say three"), ("q2", "!say second")] {
            bench.set_pending_message("queued", id, text).await;
            bench.wait_for_action("chat/pendingMessageSet").await.unwrap();
        }
        bench.dispatch(json!({ "type": "chat/queuedMessagesReordered", "order": ["q3", "q1", "q2"] })).await;
        bench.wait_for_action("chat/queuedMessagesReordered").await.unwrap();
        bench.remove_pending_message("queued", "q1").await;
        bench.wait_for_action("chat/pendingMessageRemoved").await.unwrap();
        assert_eq!(waiting(&bench.chat_state().await), ["!say three", "!say second"], "{build}");
        let agent = bench.host.only_agent().pid;
        bench.blocking_command("work").release();
        for _ in 0..3 {
            bench.wait_for_turn_end().await;
        }
        let chat = bench.chat_state().await;
        assert_eq!(asked(&chat), [&script, "!say three", "!say second"], "{build}");
        assert_eq!(chat["turns"][2]["responseParts"][0]["content"], "second", "{build}: {chat:#}");
        assert_eq!(waiting(&chat), [""; 0], "{build}");
        assert_eq!(bench.host.only_agent().pid, agent, "{build}: the same process");
        for (prompt, times) in
            [("!say three", vec![0, 0, 1, 1]), ("!say second", vec![0, 0, 0, 1]), ("!say two", vec![0; 4])]
        {
            assert_eq!(bench.count_in_model_requests(prompt), times, "{build}: {prompt}: never two prompts at once");
        }
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_pauses_the_queue_until_the_next_message_has_run() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let (turn, script) = work(&bench, "work").await;
        bench.set_pending_message("queued", "q1", "!say one").await;
        bench.wait_for_action("chat/pendingMessageSet").await.unwrap();
        bench.client.cancel_turn(&bench.uris.chat, &turn).await;
        let ended = bench.client.wait_for_turn_end(&bench.uris.chat).await;
        assert!(matches!(ended.last().unwrap().action, StateAction::ChatTurnCancelled(_)), "{build}");
        let chat = bench.chat_state().await;
        assert_eq!((waiting(&chat), chat["activeTurn"].is_null()), (vec!["!say one".to_owned()], true), "{build}");
        assert!(is_paused(&bench).await, "{build}");
        assert_eq!(bench.client.send_and_wait(&bench.uris.chat, "!say next").await, "next", "{build}");
        bench.wait_for_turn_end().await;
        let chat = bench.chat_state().await;
        assert_eq!(asked(&chat), [&script, "!say next", "!say one"], "{build}");
        assert!(!is_paused(&bench).await, "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_survives_a_killed_host_and_does_not_start_by_itself() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let (_, script) = work(&bench, "work").await;
        bench.set_pending_message("queued", "q1", "!say one").await;
        bench.set_pending_message("queued", "q2", "!say two").await;
        bench.set_pending_message("steering", "s", "!say steer").await;
        for _ in 0..3 {
            bench.wait_for_action("chat/pendingMessageSet").await.unwrap();
        }
        let mut bench = bench.kill_host().await;
        let chat = bench.chat_state().await;
        assert_eq!(waiting(&chat), ["!say steer", "!say one", "!say two"], "{build}");
        assert!(chat["activeTurn"].is_null() && chat["steeringMessage"].is_null(), "{build}: {chat:#}");
        assert!(
            is_paused(&bench).await && bench.host.agents().is_empty(),
            "{build}: no queued message starts automatically"
        );
        assert_eq!(bench.client.send_and_wait(&bench.uris.chat, "!say back").await, "back", "{build}");
        for _ in 0..3 {
            bench.wait_for_turn_end().await;
        }
        let chat = bench.chat_state().await;
        assert_eq!(asked(&chat), [&script, "!say back", "!say steer", "!say one", "!say two"], "{build}");
        assert_eq!(waiting(&chat), [""; 0], "{build}");
        bench.stop().await;
    }
}
