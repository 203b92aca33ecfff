//! Pages of turns and sessions, for clients of both versions.

use crate::common::{Raw, Rig, rig};
use ahp_types::state::{ChatState, SnapshotState};
use hostler_ahp::{AhpConnectionLimits, connect_in_memory};
use hostler_engine::default_chat_uri;
use hostler_testkit::fake_driver::FakeAgent;
use hostler_testkit::test_client::{MemoryTransport, TestClient, reduce_chat};
use serde_json::{Value, json};

const SESSION: &str = "claude:/0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a369f";

fn started(turn: usize) -> Value {
    json!({"type": "chat/turnStarted", "turnId": format!("t{turn}"), "startedAt": "2026-11-15T08:00:00.000Z",
           "message": {"text": format!("message {turn}"), "origin": {"kind": "user"}}})
}

async fn turns(raw: &mut Raw, chat: &str, agent: &mut FakeAgent, turns: std::ops::RangeInclusive<usize>) {
    for turn in turns {
        raw.dispatch(chat, started(turn)).await;
        agent.next_prompt().await;
        agent.emit_answer(turn as u64, "an ", "answer").await;
        raw.envelope("chat/turnComplete").await;
    }
}

/// A host whose session has `count` turns; only the last one is in memory.
async fn long(count: usize) -> (Rig, Raw, String, FakeAgent) {
    let mut rig = rig().await;
    let (mut raw, chat, mut agent) = Raw::begun(&mut rig, SESSION).await;
    agent.emit_answer(1, "an ", "answer").await;
    raw.envelope("chat/turnComplete").await;
    turns(&mut raw, &chat, &mut agent, 2..=count).await;
    (rig, raw, chat, agent)
}

fn ids(turns: &Value) -> Vec<String> {
    turns.as_array().unwrap().iter().map(|turn| turn["id"].as_str().unwrap().to_owned()).collect()
}

fn numbered(from: usize, until: usize) -> Vec<String> {
    (from..=until).map(|turn| format!("t{turn}")).collect()
}

async fn client(rig: &Rig, name: &str, version: &str) -> Raw {
    let mut raw = Raw::connect(rig);
    raw.call("initialize", json!({"protocolVersions": [version], "clientId": name})).await.unwrap();
    raw
}

async fn view(raw: &mut Raw, chat: &str, turns: Option<usize>) -> Value {
    let mut params = json!({"channel": chat});
    if let Some(turns) = turns {
        params["view"] = json!({"turns": turns});
    }
    raw.call("subscribe", params).await.unwrap()["snapshot"].take()
}

#[tokio::test]
async fn older_turns_arrive_before_the_answer_in_both_versions() {
    let (rig, mut listener, chat, _agent) = long(120).await;
    let whole = view(&mut listener, &chat, None).await;
    assert_eq!(ids(&whole["state"]["turns"]), numbered(1, 120));
    for version in ["1.0.0", "0.9.0"] {
        let mut raw = client(&rig, version, version).await;
        let snapshot = view(&mut raw, &chat, Some(5)).await;
        assert_eq!(snapshot["resource"], *chat);
        assert_eq!(ids(&snapshot["state"]["turns"]), numbered(116, 120));
        let mut state: ChatState = serde_json::from_value(snapshot["state"].clone()).unwrap();
        let mut last = snapshot["fromSeq"].as_u64().unwrap();
        while let Some(cursor) = state.turns_next_cursor.clone() {
            raw.received.clear();
            let answer = raw.call("fetchTurns", json!({"channel": chat, "cursor": cursor})).await;
            assert_eq!(answer, Ok(json!({})));
            let [loaded, _answer] = &*raw.received else { panic!("one action, one answer: {:#?}", raw.received) };
            let params = &loaded["params"];
            assert_eq!((&loaded["method"], &params["channel"]), (&json!("action"), &json!(chat)));
            let seq = params["serverSeq"].as_u64().unwrap();
            assert!(seq > std::mem::replace(&mut last, seq), "sequence numbers increase");
            let action = serde_json::from_value(params["action"].clone()).unwrap();
            ahp::reducers::apply_action_to_chat(&mut state, &action);
        }
        assert_eq!(serde_json::to_value(&state).unwrap(), whole["state"]);
    }
    listener.call("ping", json!({})).await.unwrap();
    assert!(!listener.received.iter().any(|received| received["params"]["action"]["type"] == "chat/turnsLoaded"));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn the_reference_client_pages_a_chat_to_the_same_state() {
    let (rig, mut raw, chat, mut agent) = long(30).await;
    let connection = connect_in_memory(&rig.engine, AhpConnectionLimits::default());
    let transport = MemoryTransport { sender: connection.sender, receiver: connection.receiver };
    let mut peer = TestClient::connect_over(transport).await;
    let params = json!({"channel": chat, "view": {"turns": 3}});
    let result: Value = peer.client.request("subscribe", params).await.unwrap();
    let SnapshotState::Chat(mut state) = serde_json::from_value(result["snapshot"]["state"].clone()).unwrap() else {
        panic!("a chat")
    };
    assert_eq!(state.turns.len(), 3);
    turns(&mut raw, &chat, &mut agent, 31..=32).await;
    let cursor = state.turns_next_cursor.clone().unwrap();
    let params = json!({"channel": chat, "cursor": cursor});
    let _: Value = peer.client.request("fetchTurns", params).await.unwrap();
    let loaded = |envelope: &ahp_types::actions::ActionEnvelope| {
        matches!(envelope.action, ahp_types::StateAction::ChatTurnsLoaded(_))
    };
    let received = peer.wait_for(&chat, loaded).await;
    *state = reduce_chat(*state, &received);
    assert_eq!(state.turns_next_cursor, None);
    let mut whole = peer.chat_state(&chat).await;
    assert_eq!(whole.turns.len(), 32);
    // Between the end of the turn and its row in the list, the chat's time and status are still in transit.
    whole.status = state.status;
    assert_eq!(*state, whole);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn concurrent_page_requests_are_answered_in_order() {
    let (rig, raw, chat, agent) = long(250).await;
    drop((raw, agent));
    let mut raw = client(&rig, "hasty", "1.0.0").await;
    let snapshot = view(&mut raw, &chat, Some(1)).await;
    let mut state: ChatState = serde_json::from_value(snapshot["state"].clone()).unwrap();
    raw.received.clear();
    for id in 0..8 {
        raw.send(&json!({"id": format!("f{id}"), "method": "fetchTurns", "params": {"channel": chat}}).to_string())
            .await;
    }
    let mut answers = 0;
    while answers < 8 {
        let message = raw.receive().await.unwrap();
        match message.get("id") {
            Some(_) => {
                assert_eq!(message["result"], json!({}), "{message}");
                answers += 1;
            }
            None => {
                let action = serde_json::from_value(message["params"]["action"].clone()).unwrap();
                ahp::reducers::apply_action_to_chat(&mut state, &action);
            }
        }
    }
    let ids: Vec<_> = state.turns.iter().map(|turn| turn.id.clone()).collect();
    assert_eq!((ids, state.turns_next_cursor), (numbered(1, 250), None));

    // A client that disconnects in the middle of a page leaves no waiting task.
    view(&mut raw, &chat, Some(1)).await;
    for id in 0..8 {
        raw.send(&json!({"id": id, "method": "fetchTurns", "params": {"channel": chat}}).to_string()).await;
    }
    drop(raw);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn invalid_page_requests_are_refused_with_a_message() {
    let (rig, mut raw, chat, _agent) = long(4).await;
    let snapshot = view(&mut raw, &chat, Some(2)).await;
    let cursor = snapshot["state"]["turnsNextCursor"].clone();
    for (params, code) in [
        (json!({"channel": chat, "cursor": "garbage"}), -32602),
        (json!({"channel": chat, "cursor": 7}), -32602),
        (json!({"channel": "ahp-chat:/nowhere", "cursor": cursor}), -32001),
        (json!({"channel": SESSION, "cursor": cursor}), -32001),
        (json!({}), -32001),
    ] {
        assert_eq!(raw.code("fetchTurns", params.clone()).await, code, "{params}");
    }
    assert_eq!(raw.code("subscribe", json!({"channel": chat, "view": {"turns": -1}})).await, -32602);
    assert_eq!(raw.call("fetchTurns", json!({"channel": chat, "cursor": cursor})).await, Ok(json!({})));
    assert_eq!(raw.code("fetchTurns", json!({"channel": chat, "cursor": cursor})).await, -32602, "it was used");
    let mut stranger = client(&rig, "stranger", "1.0.0").await;
    assert_eq!(stranger.code("fetchTurns", json!({"channel": chat, "cursor": cursor})).await, -32602, "not subscribed");
    // A request for older turns directly after the subscription is answered.
    stranger
        .send(&json!({"id": "s", "method": "subscribe", "params": {"channel": chat, "view": {"turns": 1}}}).to_string())
        .await;
    stranger.send(&json!({"id": "f", "method": "fetchTurns", "params": {"channel": chat}}).to_string()).await;
    let mut order = Vec::new();
    while order.len() < 3 {
        let message = stranger.receive().await.unwrap();
        order.push(message.get("id").unwrap_or(&message["params"]["action"]["type"]).clone());
    }
    assert_eq!(order, ["s", "chat/turnsLoaded", "f"]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn evicted_turns_are_in_every_kind_of_snapshot() {
    let (rig, raw, chat, agent) = long(20).await;
    drop((raw, agent));
    let rig = rig.restart().await;
    let mut raw = Raw::connect(&rig);
    let channels = ["ahp-root://", SESSION, &chat, "ahp-chat:/gone"];
    let params = json!({"protocolVersions": ["1.0.0"], "clientId": "c", "initialSubscriptions": channels});
    let hello = raw.call("initialize", params).await.unwrap();
    assert_eq!(hello["protocolVersion"], "1.0.0");
    assert!(hello["serverSeq"].is_u64() && hello["serverInfo"]["name"] == "hostler");
    let [root, session, whole] = &**hello["snapshots"].as_array().unwrap() else { panic!("{hello:#}") };
    assert_eq!((&root["resource"], &session["resource"]), (&json!("ahp-root://"), &json!(SESSION)));
    assert_eq!(ids(&whole["state"]["turns"]), numbered(1, 20));
    assert_eq!(view(&mut raw, &chat, None).await["state"], whole["state"]);
    let read: SnapshotState = serde_json::from_value(whole["state"].clone()).unwrap();
    assert!(matches!(read, SnapshotState::Chat(_)), "the types parse it");

    // The client reconnects and gets snapshots, which reach as far back as it had loaded.
    view(&mut raw, &chat, Some(3)).await;
    raw.call("fetchTurns", json!({"channel": chat})).await.unwrap();
    view(&mut raw, &chat, Some(7)).await;
    drop(raw);
    let mut back = Raw::connect(&rig);
    let params = json!({"clientId": "c", "lastSeenServerSeq": i64::MAX, "subscriptions": [chat]});
    let answer = back.call("reconnect", params).await.unwrap();
    assert_eq!(answer["type"], "snapshot");
    let state = &answer["snapshots"][0]["state"];
    assert_eq!(ids(&state["turns"]), numbered(14, 20));
    let cursor = &state["turnsNextCursor"];
    assert_eq!(back.call("fetchTurns", json!({"channel": chat, "cursor": cursor})).await, Ok(json!({})));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn sessions_are_listed_in_pages() {
    let mut rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    for number in 0..7 {
        let session = format!("claude:/{number}");
        raw.call("createSession", json!({"channel": session})).await.unwrap();
        raw.dispatch(&default_chat_uri(&session), started(number)).await;
        let _agent = rig.starts.next_start().await.succeed();
        while raw.receive().await.unwrap()["method"] != "root/sessionAdded" {}
    }
    loop {
        let whole = raw.call("listSessions", json!({})).await.unwrap();
        assert!(whole.get("nextCursor").is_none() && whole["items"].as_array().unwrap().len() == 7);
        let (mut items, mut params) = (Vec::new(), json!({"limit": 3}));
        loop {
            let mut page = raw.call("listSessions", params.clone()).await.unwrap();
            items.append(page["items"].as_array_mut().unwrap());
            match page.get("nextCursor") {
                Some(cursor) => params["cursor"] = cursor.clone(),
                None => break,
            }
        }
        // Turns may have ended meanwhile, which moves their sessions to the front.
        if raw.call("listSessions", json!({})).await.unwrap() == whole {
            assert_eq!(json!(items), whole["items"]);
            break;
        }
    }
    rig.engine.shutdown().await;
}
