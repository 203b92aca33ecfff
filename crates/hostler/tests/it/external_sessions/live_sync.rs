//! External sync of an open session while another process continues its conversation.

use ahp::client::{ClientEvent, SubscriptionEvent};
use ahp_types::StateAction;
use hostler_testkit::test_client::TestClient;
use serde_json::{Value, json};

use super::second_host::{SecondHost, continue_in_terminal, rename_in_terminal, terminal_command};
use crate::common::BUILDS;
use crate::common::session_fixture::SessionFixture;
use crate::common::{run_to_end, text};

/// Waits for a matching event among those received since; returns its conversion.
async fn wait_for_event<T>(peer: &mut TestClient, since: usize, fits: impl Fn(&ClientEvent) -> Option<T>) -> T {
    loop {
        if let Some(found) = peer.received.iter().skip(since).find_map(&fits) {
            return found;
        }
        peer.next_event().await;
    }
}

fn action<'a>(event: &'a ClientEvent, channel: &str) -> Option<&'a StateAction> {
    match &event.event {
        SubscriptionEvent::Action(envelope) if event.channel == channel => Some(&envelope.action),
        _ => None,
    }
}

/// Returns the change of a session's list entry, if the event is one.
fn summary_change(event: &ClientEvent, session: &str) -> Option<Value> {
    match &event.event {
        SubscriptionEvent::SessionSummaryChanged(change) if change.session == session => {
            Some(serde_json::to_value(&change.changes).unwrap())
        }
        _ => None,
    }
}

/// Returns the last turn of a chat as its subscriber knows it: the snapshot plus received envelopes.
async fn last_turn(second: &mut SecondHost, bench: &SessionFixture, since: usize) -> Value {
    let ended = |event: &ClientEvent| match action(event, &bench.uris.chat)? {
        StateAction::ChatTurnComplete(over) => Some(over.turn_id.clone()),
        _ => None,
    };
    let turn = wait_for_event(&mut second.peer, since, ended).await;
    let started = |event: &ClientEvent| match action(event, &bench.uris.chat)? {
        StateAction::ChatTurnStarted(began) if began.turn_id == turn => Some(began.message.text.clone()),
        _ => None,
    };
    let message = wait_for_event(&mut second.peer, since, started).await;
    let chat = serde_json::to_value(second.peer.chat_state(&bench.uris.chat).await).unwrap();
    let last = chat["turns"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["id"], &last["message"]["text"]), (&turn.into(), &message.into()), "the state is the same");
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn terminal_turns_are_synced_to_an_open_session() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        bench.client.send_and_wait(&bench.uris.chat, "!say one").await;
        bench = bench.restart_host().await;
        let mut second = SecondHost::start(&bench).await;
        let session = bench.uris.session.clone();
        assert_eq!(second.chat(&bench).await["turns"].as_array().unwrap().len(), 1, "{build}");

        let since = second.peer.received.len();
        continue_in_terminal(&bench, "!say two").await;
        let turn = last_turn(&mut second, &bench, since).await;
        assert_eq!(turn["message"]["text"], "!say two", "{build}");
        assert_eq!(turn["responseParts"][0]["content"], "two", "{build}");
        let modified = |event: &ClientEvent| summary_change(event, &session)?["modifiedAt"].as_str().map(str::to_owned);
        wait_for_event(&mut second.peer, since, modified).await;

        let since = second.peer.received.len();
        rename_in_terminal(&bench, "Horses");
        let named = |event: &ClientEvent| match action(event, &session)? {
            StateAction::SessionTitleChanged(named) => Some(named.title.clone()),
            _ => None,
        };
        assert_eq!(wait_for_event(&mut second.peer, since, named).await, "Horses", "{build}");
        let named = |event: &ClientEvent| summary_change(event, &session)?["title"].as_str().map(str::to_owned);
        assert_eq!(wait_for_event(&mut second.peer, since, named).await, "Horses", "{build}");
        second.host.stop().await;
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_rejected_while_another_process_runs_a_turn() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        bench.client.send_and_wait(&bench.uris.chat, "!say one").await;
        bench = bench.restart_host().await;
        let mut second = SecondHost::start(&bench).await;
        second.chat(&bench).await;

        let since = second.peer.received.len();
        let gate = bench.blocking_command("there");
        let script = format!("!tool Bash {}\n!say two", gate.bash_input());
        let there = tokio::spawn(run_to_end(terminal_command(&bench, &script)));
        gate.wait_until_running().await;
        let activity = |event: &ClientEvent| match action(event, &bench.uris.chat)? {
            StateAction::ChatActivityChanged(now) => now.activity.clone(),
            _ => None,
        };
        assert_eq!(wait_for_event(&mut second.peer, since, activity).await, "Continued elsewhere", "{build}");

        let since = second.peer.received.len();
        second.peer.send_message(&bench.uris.chat, "!say three").await;
        let refused = |event: &ClientEvent| match &event.event {
            SubscriptionEvent::Action(envelope) => envelope.rejection_reason.clone(),
            _ => None,
        };
        let reason = wait_for_event(&mut second.peer, since, refused).await;
        assert_eq!(
            reason, "another process is running a turn in this conversation; wait until it has ended",
            "{build}"
        );
        assert!(second.host.agents().is_empty(), "{build}: no agent is started for it");

        let since = second.peer.received.len();
        gate.release();
        let output = there.await.unwrap();
        assert!(output.status.success(), "{build}: {}{}", text(&output.stdout), text(&output.stderr));
        let turn = last_turn(&mut second, &bench, since).await;
        assert_eq!(turn["message"]["text"], script, "{build}");
        assert_eq!(second.chat(&bench).await["activity"], Value::Null, "{build}: the external turn has ended");
        second.peer.send_and_wait(&bench.uris.chat, "!say four").await;
        assert_eq!(
            bench.count_in_model_requests("!say three").last(),
            Some(&0),
            "{build}: the model does not receive the refused message"
        );
        assert_eq!(
            bench.count_in_model_requests("!say two").last(),
            Some(&1),
            "{build}: the model receives the external turn"
        );
        second.host.stop().await;
        bench.stop().await;
    }
}

/// Waits until the chat matches.
async fn wait_for_chat(bench: &mut SessionFixture, fits: impl Fn(&Value) -> bool) -> Value {
    loop {
        let chat = bench.chat_state().await;
        if fits(&chat) {
            return chat;
        }
        bench.client.next_event().await;
    }
}

/// Waits until a turn is the only one that is not on the active branch.
async fn wait_for_abandoned(bench: &mut SessionFixture, turn: &Value) {
    loop {
        let session = bench.client.subscribe_snapshot(&bench.uris.session).await;
        let session = serde_json::to_value(session).unwrap();
        if session["_meta"]["hostler"]["abandonedTurns"] == json!([turn]) {
            return;
        }
        bench.client.next_event().await;
    }
}

fn turns(chat: &Value) -> usize {
    chat["turns"].as_array().map_or(0, Vec::len)
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_messages_wait_for_the_external_turn_to_end() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        bench.client.send_and_wait(&bench.uris.chat, "!say one").await;
        let (here, there) = (bench.blocking_command("here"), bench.blocking_command("there"));
        bench.client.send_message(&bench.uris.chat, &format!("!tool Bash {}\n!say two", here.bash_input())).await;
        here.wait_until_running().await;
        bench.set_pending_message("queued", "q", "!say four").await;
        bench.wait_for_action("chat/pendingMessageSet").await.unwrap();
        // Another process starts a turn during ours, and ours ends first.
        let script = format!("!tool Bash {}\n!say three", there.bash_input());
        let terminal = tokio::spawn(run_to_end(terminal_command(&bench, &script)));
        there.wait_until_running().await;
        here.release();
        let chat =
            wait_for_chat(&mut bench, |chat| turns(chat) == 2 && chat["activity"] == "Continued elsewhere").await;
        assert_eq!(chat["queuedMessages"].as_array().map(Vec::len), Some(1), "{build}: {chat:#}");
        there.release();
        let output = terminal.await.unwrap();
        assert!(output.status.success(), "{build}: {}{}", text(&output.stdout), text(&output.stderr));
        let chat = wait_for_chat(&mut bench, |chat| turns(chat) == 4).await;
        let message = |turn: usize| chat["turns"][turn]["message"]["text"].as_str().unwrap();
        assert_eq!((message(2), message(3)), (script.as_str(), "!say four"), "{build}: {chat:#}");
        if build == "native" {
            // The other build may write the end of our turn after theirs, and continues from the last message.
            assert_eq!(
                bench.count_in_model_requests("!say three").last(),
                Some(&1),
                "{build}: the model receives the external turn"
            );
        }
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn external_turn_during_our_turn_is_kept_and_the_agent_continues_from_ours() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        bench.client.send_and_wait(&bench.uris.chat, "!say one").await;
        let here = bench.blocking_command("here");
        bench.client.send_message(&bench.uris.chat, &format!("!tool Bash {}\n!say two", here.bash_input())).await;
        here.wait_until_running().await;
        continue_in_terminal(&bench, "!say three").await;
        here.release();
        let chat = wait_for_chat(&mut bench, |chat| turns(chat) == 3).await;
        let theirs = &chat["turns"][2];
        assert_eq!(theirs["message"]["text"], "!say three", "{build}");
        let note = theirs["responseParts"][0]["content"].to_string();
        assert!(note.contains("abandoned branch"), "{build}: {theirs:#}");
        wait_for_abandoned(&mut bench, &theirs["id"]).await;
        bench.client.send_and_wait(&bench.uris.chat, "!say four").await;
        let count = |text: &str| *bench.count_in_model_requests(text).last().unwrap();
        assert_eq!((count("!say two"), count("!say three")), (1, 0), "{build}: the notice is true");
        bench.stop().await;
    }
}

/// One build records it as a command, with an id of its own.
#[tokio::test(flavor = "multi_thread")]
async fn model_change_does_not_count_as_an_external_command() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        bench.client.send_and_wait(&bench.uris.chat, "!say one").await;
        let root = serde_json::to_value(bench.client.subscribe_snapshot(ahp_types::ROOT_RESOURCE_URI).await).unwrap();
        let model = root["agents"][0]["models"].as_array().unwrap().last().unwrap()["id"].clone();
        let agent = bench.host.only_agent().pid;
        bench.configure(json!({ "model": model, "effort": "low" })).await;
        for prompt in ["!say two", "!say three"] {
            bench.client.send_and_wait(&bench.uris.chat, prompt).await;
        }
        let chat = bench.chat_state().await;
        assert_eq!((turns(&chat), bench.host.only_agent().pid), (3, agent), "{build}: {chat:#}");
        assert_eq!(chat["turns"][2]["usage"]["model"], model, "{build}");
        bench.stop().await;
    }
}
