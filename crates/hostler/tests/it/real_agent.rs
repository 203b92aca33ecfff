//! Whole path of a message with the real Claude Code, both builds, through the real gateway on the scripted model.

use crate::common::{BUILDS, TestHome};
use ahp_types::StateAction;
use ahp_types::actions::ActionEnvelope;
use ahp_types::state::{ResponsePart, TurnState};
use hostler_testkit::processes;
use hostler_testkit::raw_client::RawClient;
use hostler_testkit::test_client::{TestClient, collect_text, is_turn_end, reduce_chat};
use serde_json::{Value, json};

/// Returns the types of a chat's envelopes, with runs of deltas folded into one.
fn kinds(envelopes: &[ActionEnvelope]) -> Vec<String> {
    let mut kinds: Vec<String> = envelopes
        .iter()
        .map(|envelope| {
            let json = serde_json::to_value(&envelope.action).unwrap();
            let kind = json["type"].as_str().unwrap();
            match json["part"]["kind"].as_str() {
                Some(part) => format!("{kind} {part}"),
                None => kind.to_owned(),
            }
        })
        .filter(|kind| kind != "chat/activityChanged")
        .collect();
    kinds.dedup();
    kinds
}

#[tokio::test(flavor = "multi_thread")]
async fn message_streams_through_the_real_agent_and_the_next_one_reuses_its_process() {
    for build in BUILDS {
        let home = TestHome::new();
        let host = home.serve(build).await;
        let mut peer = host.connect().await;
        let uris = peer.create_session(&home.work()).await;
        assert!(host.agents().is_empty(), "{build}: createSession starts no process");
        let before = peer.chat_state(&uris.chat).await;

        peer.send_message(&uris.chat, "!think Let me see.\n!say Hello, streamed world").await;
        let first = peer.wait_for_turn_end(&uris.chat).await;
        let action_types = kinds(&first);
        let expected = [
            "chat/turnStarted",
            "chat/responsePart reasoning",
            "chat/reasoning",
            "chat/responsePart markdown",
            "chat/delta",
            "chat/usage",
            "chat/turnComplete",
        ];
        // Usage may be reported more than once, but always last before the end.
        let mut folded = action_types.clone();
        folded.retain(|action_type| action_type != "chat/usage");
        folded.insert(folded.len() - 1, "chat/usage".to_owned());
        assert_eq!(folded, expected, "{build}");
        assert_eq!(
            action_types.get(action_types.len().wrapping_sub(2)).map(String::as_str),
            Some("chat/usage"),
            "{build}: {action_types:?}"
        );
        assert_eq!(collect_text(&first), "Hello, streamed world", "{build}");
        let agent = host.only_agent();

        peer.send_message(&uris.chat, "and again").await;
        let second = peer.wait_for_turn_end(&uris.chat).await;
        assert!(collect_text(&second).contains("and again"), "{build}: {}", collect_text(&second));
        assert_eq!(host.only_agent().pid, agent.pid, "{build}: the same process");

        // Microsoft's reducers over our envelopes give our snapshot.
        let all: Vec<_> = first.into_iter().chain(second).collect();
        let mine = serde_json::to_value(reduce_chat(before, &all)).unwrap();
        let theirs = serde_json::to_value(peer.chat_state(&uris.chat).await).unwrap();
        assert_eq!(mine, theirs, "{build}");
        let usage = &theirs["turns"][0]["usage"];
        assert!(usage["inputTokens"].as_i64().unwrap() > 0 && usage["outputTokens"].as_i64().unwrap() > 0, "{usage}");
        assert_eq!(theirs["turns"][0]["state"], "complete");
        host.stop().await;
        assert_eq!(home.locks(), Vec::<std::path::PathBuf>::new(), "{build}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_is_announced_once_after_the_handshake_and_survives_a_restart() {
    let home = TestHome::new();
    let host = home.serve("native").await;
    let mut peer = host.connect().await;
    let uris = peer.create_session(&home.work()).await;
    let list: Value = peer.client.request("listSessions", json!({"channel": "ahp-root://"})).await.unwrap();
    assert_eq!(list["items"], json!([]));
    peer.send_and_wait(&uris.chat, "!say My name is Zebra").await;
    peer.send_and_wait(&uris.chat, "again").await;
    let added = |peer: &TestClient| {
        let added =
            |event: &&ahp::client::ClientEvent| matches!(event.event, ahp::client::SubscriptionEvent::SessionAdded(_));
        peer.received.iter().filter(added).count()
    };
    assert_eq!(added(&peer), 1);
    host.stop().await;

    let host = home.serve("native").await;
    let mut peer = host.connect().await;
    let list: Value = peer.client.request("listSessions", json!({"channel": "ahp-root://"})).await.unwrap();
    assert_eq!(list["items"][0]["resource"], uris.session);
    assert_eq!(list["items"][0]["title"], "!say My name is Zebra");
    let chat = peer.chat_state(&uris.chat).await;
    assert_eq!(chat.turns.len(), 2);
    assert!(host.agents().is_empty(), "looking at a session starts nothing");
    let text = peer.send_and_wait(&uris.chat, "still there?").await;
    assert!(text.contains("still there?"), "{text}");
    assert!(host.only_agent().command.contains("--resume="), "{}", host.only_agent().command);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unattended_deny_refuses_requests_visibly() {
    for build in BUILDS {
        let home = TestHome::new();
        std::fs::write(home.work().join("notes.txt"), "treasure").unwrap();
        let host = home.serve(build).await;
        let mut peer = host.connect().await;
        let uris = peer.create_session(&home.work()).await;
        let change = json!({"type": "session/configChanged", "config": {"permissionMode": "dontAsk"}});
        peer.dispatch(&uris.session, serde_json::from_value(change).unwrap()).await;
        let read = json!({"file_path": home.work().join("notes.txt")});
        let prompt =
            format!("!tool Bash {{\"command\":\"touch made\",\"description\":\"x\"}}\n!tool Read {read}\n!say done");
        peer.send_message(&uris.chat, &prompt).await;
        let envelopes = peer.wait_for_turn_end(&uris.chat).await;
        assert!(matches!(envelopes.last().unwrap().action, StateAction::ChatTurnComplete(_)), "{build}");
        assert!(collect_text(&envelopes).contains("done"), "{build}");
        let chat = serde_json::to_value(peer.chat_state(&uris.chat).await).unwrap();
        let parts = chat["turns"][0]["responseParts"].as_array().unwrap();
        let calls: Vec<_> =
            parts.iter().filter(|part| part["kind"] == "toolCall").map(|part| &part["toolCall"]).collect();
        assert_eq!(calls.len(), 2, "{build}: {parts:#?}");
        assert_eq!((&calls[0]["status"], &calls[0]["reason"]), (&json!("cancelled"), &json!("denied")), "{build}");
        assert_eq!(calls[1]["status"], "completed", "{build}: {:#}", calls[1]);
        assert!(!home.work().join("made").exists(), "{build}: the command did not run");
        host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_and_process_of_a_cancelled_turn_remain() {
    for build in BUILDS {
        let home = TestHome::new();
        let host = home.serve(build).await;
        let mut peer = host.connect().await;
        let uris = peer.create_session(&home.work()).await;
        let turn = peer.send_message(&uris.chat, "!say begun\n!hang").await;
        peer.wait_for(&uris.chat, |envelope| matches!(envelope.action, StateAction::ChatDelta(_))).await;
        let agent = host.only_agent();
        peer.cancel_turn(&uris.chat, &turn).await;
        peer.wait_for_turn_end(&uris.chat).await;
        let text = peer.send_and_wait(&uris.chat, "next").await;
        assert!(text.contains("next"), "{build}: {text}");
        assert_eq!(host.only_agent().pid, agent.pid, "{build}: the process survives an interrupt");
        let chat = peer.chat_state(&uris.chat).await;
        assert_eq!(chat.turns[0].state, TurnState::Cancelled, "{build}");
        let Some(ResponsePart::Markdown(part)) = chat.turns[0].response_parts.last() else { panic!("{build}: text") };
        assert!("begun".starts_with(&part.content) && !part.content.is_empty(), "{build}: {:?}", part.content);
        assert_eq!(chat.turns[1].state, TurnState::Complete, "{build}");
        host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn upstream_error_ends_the_turn_with_its_type_and_a_fix() {
    for build in BUILDS {
        let home = TestHome::new();
        let host = home.serve(build).await;
        let mut peer = host.connect().await;
        let uris = peer.create_session(&home.work()).await;
        for (directive, kind) in [("!error 401", "auth"), ("!error 403", "auth"), ("!error 400", "invalidRequest")] {
            peer.send_message(&uris.chat, directive).await;
            let envelopes = peer.wait_for(&uris.chat, is_turn_end).await;
            let StateAction::ChatError(error) = &envelopes.last().unwrap().action else {
                panic!("{build} {directive}: {:?}", envelopes.last())
            };
            assert_eq!(error.part.error.error_type, kind, "{build} {directive}: {}", error.part.error.message);
            assert!(error.part.error.message.contains(' '), "a sentence");
        }
        let text = peer.send_and_wait(&uris.chat, "well again").await;
        assert!(text.contains("well again"), "{build}: {text}");
        host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dispose_during_a_stream_leaves_no_process_and_no_session() {
    for build in BUILDS {
        let home = TestHome::new();
        let host = home.serve(build).await;
        let mut peer = host.connect().await;
        let uris = peer.create_session(&home.work()).await;
        peer.send_message(&uris.chat, "!say begun\n!hang").await;
        peer.wait_for(&uris.chat, |envelope| matches!(envelope.action, StateAction::ChatDelta(_))).await;
        let tree: Vec<_> = processes::descendants(host.pid).into_iter().map(|process| process.pid).collect();
        assert!(tree.len() >= 2, "{build}: a supervisor and an agent");
        let _: Value = peer.client.request("disposeSession", json!({"channel": uris.session})).await.unwrap();
        let left = processes::wait_for_exit(&tree).await;
        assert!(left.is_empty(), "{build}: {left:#?}");
        let list: Value = peer.client.request("listSessions", json!({"channel": "ahp-root://"})).await.unwrap();
        assert_eq!(list["items"], json!([]), "{build}");
        assert_eq!(home.locks(), Vec::<std::path::PathBuf>::new(), "{build}");
        host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clients_and_a_raw_client_agree_at_every_sequence_number() {
    let home = TestHome::new();
    let host = home.serve("native").await;
    let (mut one, mut two) = (host.connect().await, host.connect().await);
    let uris = one.create_session(&home.work()).await;
    two.subscribe_snapshot(&uris.chat).await;
    let mut raw = RawClient::connect_and_initialize(&host.url()).await;
    raw.call("subscribe", json!({"channel": uris.chat})).await.unwrap();
    one.send_message(&uris.chat, "!deltas 200").await;
    let (first, second) = (one.wait_for_turn_end(&uris.chat).await, two.wait_for_turn_end(&uris.chat).await);
    let first = serde_json::to_value(&first).unwrap();
    assert_eq!(first, serde_json::to_value(&second).unwrap());
    for envelope in first.as_array().unwrap() {
        assert_eq!(raw.receive().await.unwrap()["params"], *envelope);
    }
    // The other client may continue, and the first one sees it.
    two.send_message(&uris.chat, "from the other").await;
    assert!(collect_text(&one.wait_for_turn_end(&uris.chat).await).contains("from the other"));
    host.stop().await;
}
