//! A stalled disk beside other work on the same connection: what needs no disk is answered meanwhile.

use crate::common::{Raw, Rig, rig};
use hostler_engine::default_chat_uri;
use hostler_testkit::fake_driver::FakeAgent;
use hostler_testkit::stalled_disk::{StalledDisk, run_with_stallable_disk};
use serde_json::{Value, json};

const BUSY: &str = "claude:/11111111-8f2b-4a36-9f61-0e8f2b4a369f";
const IDLE: &str = "claude:/22222222-8f2b-4a36-9f61-0e8f2b4a369f";
const UNLOADED: &str = "claude:/33333333-8f2b-4a36-9f61-0e8f2b4a369f";

fn started(turn: &str) -> Value {
    json!({"type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-11-15T08:00:00Z",
           "message": {"text": "hi", "origin": {"kind": "user"}}})
}

/// A request without waiting for its answer.
async fn request(raw: &mut Raw, id: &str, method: &str, params: Value) {
    raw.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
}

/// Whether the client has received an answer to this request.
fn is_answered(raw: &Raw, id: &str) -> bool {
    raw.received.iter().any(|message| message["id"] == id)
}

/// Waits for the answer to a request, and returns the position among all messages.
async fn answer(raw: &mut Raw, id: &str) -> usize {
    while !is_answered(raw, id) {
        raw.receive().await.expect("an answer");
    }
    raw.received.iter().position(|message| message["id"] == id).unwrap()
}

/// A host whose three sessions have a completed turn, and a client that has opened two of them. The agent of one works
/// on turn `t2`.
async fn host() -> (Rig, Raw, FakeAgent) {
    let mut rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    for session in [BUSY, IDLE, UNLOADED] {
        raw.call("createSession", json!({"channel": session})).await.unwrap();
        let chat = default_chat_uri(session);
        raw.call("subscribe", json!({"channel": chat})).await.unwrap();
        raw.dispatch(&chat, started("t1")).await;
        let mut agent = rig.starts.next_start().await.succeed();
        agent.next_prompt().await;
        agent.emit_answer(1, "a", "b").await;
        raw.envelope("chat/turnComplete").await;
    }
    let mut rig = rig.restart().await;
    let mut raw = Raw::initialized(&rig).await;
    for session in [BUSY, IDLE] {
        raw.call("subscribe", json!({"channel": default_chat_uri(session)})).await.unwrap();
    }
    raw.seq = 100;
    raw.dispatch(&default_chat_uri(BUSY), started("t2")).await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    raw.envelope("chat/turnStarted").await;
    (rig, raw, agent)
}

#[test]
fn stalled_session_delays_neither_a_steer_nor_a_cancel_nor_another_session() {
    run_with_stallable_disk(async {
        let (rig, mut raw, agent) = host().await;
        let [busy, idle, unloaded] = [BUSY, IDLE, UNLOADED].map(default_chat_uri);
        let stall = StalledDisk::start().await;
        request(&mut raw, "load", "subscribe", json!({"channel": unloaded})).await;
        request(&mut raw, "older", "fetchTurns", json!({"channel": unloaded})).await;
        request(&mut raw, "create", "createSession", json!({"channel": "claude:/new"})).await;
        request(&mut raw, "created", "subscribe", json!({"channel": "claude:/new"})).await;
        raw.dispatch(&unloaded, started("t2")).await;

        assert_eq!(raw.call("ping", json!({})).await, Ok(Value::Null));
        let message = json!({"text": "in blue", "origin": {"kind": "user"}});
        let steer = json!({"type": "chat/pendingMessageSet", "kind": "steering", "id": "s", "message": message});
        raw.dispatch(&busy, steer).await;
        assert_eq!(raw.envelope("chat/pendingMessageSet").await["channel"], busy);
        assert_eq!(agent.wait_steered().await.prompt.expose(), "in blue");
        raw.dispatch(&idle, started("t2")).await;
        assert_eq!(raw.envelope("chat/turnStarted").await["channel"], idle);
        raw.call("subscribe", json!({"channel": IDLE})).await.unwrap();
        raw.dispatch(&busy, json!({"type": "chat/turnCancelled", "turnId": "t2", "duration": 1})).await;
        assert_eq!(raw.envelope("chat/turnCancelled").await["channel"], busy);
        agent.wait_interrupted().await;
        for id in ["load", "older", "create", "created"] {
            assert!(!is_answered(&raw, id), "{id} waits for the disk");
        }

        drop(stall);
        let (loaded, created) = (answer(&mut raw, "load").await, answer(&mut raw, "create").await);
        assert!(raw.received[loaded].get("result").is_some() && raw.received[created].get("result").is_some());
        let subscribed = answer(&mut raw, "created").await;
        assert!(raw.received[subscribed].get("result").is_some(), "it waited for the session");
        answer(&mut raw, "older").await;
        let is_turn = |message: &Value| {
            message["params"]["channel"] == unloaded && message["params"]["action"]["type"] == "chat/turnStarted"
        };
        while !raw.received.iter().any(is_turn) {
            raw.receive().await.expect("an envelope");
        }
        let turn = raw.received.iter().position(is_turn).unwrap();
        assert!(loaded < turn, "a dispatch behind a subscription is answered behind its snapshot");
        rig.engine.shutdown().await;
    });
}

#[test]
fn client_that_disconnects_during_a_stall_leaves_no_task_behind() {
    run_with_stallable_disk(async {
        let (rig, mut raw, _agent) = host().await;
        let chat = default_chat_uri(UNLOADED);
        let stall = StalledDisk::start().await;
        request(&mut raw, "load", "subscribe", json!({"channel": chat})).await;
        raw.call("ping", json!({})).await.unwrap();
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let before = tasks();
        let mut other = Raw::connect(&rig);
        other.call("initialize", json!({"protocolVersions": ["1.0.0"], "clientId": "other"})).await.unwrap();
        for id in 0..40 {
            request(&mut other, &id.to_string(), "subscribe", json!({"channel": chat})).await;
            request(&mut other, &format!("older {id}"), "fetchTurns", json!({"channel": chat})).await;
        }
        other.call("ping", json!({})).await.unwrap();
        assert!(tasks() > before);
        drop(other);
        while tasks() > before {
            tokio::task::yield_now().await;
        }
        drop(stall);
        answer(&mut raw, "load").await;
        rig.engine.shutdown().await;
    });
}

#[test]
fn client_with_too_many_unanswered_requests_is_not_read_until_the_stall_ends() {
    run_with_stallable_disk(async {
        let (rig, mut raw, _agent) = host().await;
        let chat = default_chat_uri(UNLOADED);
        let stall = StalledDisk::start().await;
        for id in 0..256 {
            request(&mut raw, &id.to_string(), "subscribe", json!({"channel": chat})).await;
        }
        request(&mut raw, "beyond", "ping", json!({})).await;
        let mut other = Raw::initialized(&rig).await;
        other.call("subscribe", json!({"channel": default_chat_uri(IDLE)})).await.unwrap();
        assert!(raw.received.iter().all(|message| message["id"] != "beyond"));
        drop(stall);
        answer(&mut raw, "beyond").await;
        for id in 0..256 {
            answer(&mut raw, &id.to_string()).await;
        }
        rig.engine.shutdown().await;
    });
}

#[test]
fn handshake_that_waits_for_a_stalled_session_reads_on() {
    run_with_stallable_disk(async {
        let (rig, mut raw, _agent) = host().await;
        let [idle, unloaded] = [IDLE, UNLOADED].map(default_chat_uri);
        raw.call("ping", json!({})).await.unwrap();
        let stall = StalledDisk::start().await;
        let params =
            json!({"protocolVersions": ["1.0.0"], "clientId": "late", "initialSubscriptions": [unloaded, idle]});
        let mut late = Raw::connect(&rig);
        request(&mut late, "initialize", "initialize", params).await;
        request(&mut late, "ping", "ping", json!({})).await;
        request(&mut late, "subscribe", "subscribe", json!({"channel": BUSY})).await;
        answer(&mut late, "ping").await;
        assert!(!is_answered(&late, "initialize"), "its first chat waits for the disk");
        drop(stall);
        let initialized = answer(&mut late, "initialize").await;
        let snapshots = late.received[initialized]["result"]["snapshots"].as_array().unwrap().clone();
        let channels: Vec<_> = snapshots.iter().map(|snapshot| snapshot["resource"].as_str().unwrap()).collect();
        assert_eq!(channels, [unloaded, idle], "in the order of the request");
        assert!(answer(&mut late, "subscribe").await > initialized);
        rig.engine.shutdown().await;
    });
}

#[test]
fn client_that_disconnects_during_its_handshake_is_not_served() {
    run_with_stallable_disk(async {
        let (rig, mut raw, _agent) = host().await;
        raw.call("ping", json!({})).await.unwrap();
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let stall = StalledDisk::start().await;
        // The session's actor, which waits for the disk, stays.
        request(&mut raw, "load", "subscribe", json!({"channel": UNLOADED})).await;
        raw.call("ping", json!({})).await.unwrap();
        let before = tasks();
        let mut late = Raw::connect(&rig);
        let params = json!({"protocolVersions": ["1.0.0"], "clientId": "late", "initialSubscriptions": [UNLOADED]});
        request(&mut late, "initialize", "initialize", params).await;
        request(&mut late, "ping", "ping", json!({})).await;
        answer(&mut late, "ping").await;
        assert!(tasks() > before);
        drop(late);
        while tasks() > before {
            tokio::task::yield_now().await;
        }
        drop(stall);
        answer(&mut raw, "load").await;
        rig.engine.shutdown().await;
    });
}
