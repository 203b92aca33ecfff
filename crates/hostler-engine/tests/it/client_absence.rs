//! Clients that were disconnected for long: retention of missed envelopes, and when they leave their sessions.

use std::time::{Duration, Instant};

use crate::common::{Listener, Options, Rig, SESSION, dispatch_json};
use hostler_engine::{JournalRetention, default_chat_uri};
use serde_json::json;

/// Checks for old rows after each commit, and finds none.
const UNLIMITED_RETENTION: JournalRetention = JournalRetention {
    max_age_ms: i64::MAX / 2,
    max_bytes: i64::MAX / 2,
    max_client_age_ms: i64::MAX / 2,
    sweep_interval: Duration::ZERO,
};

#[tokio::test]
async fn reconnect_replays_within_retention_and_snapshots_beyond_it() {
    let mut rig = Rig::start_with(Options { retention: UNLIMITED_RETENTION, ..Options::default() }).await;
    let me = rig.engine.connect_client("me", "").await;
    let long_ago = rig.engine.current_seq();
    let before = rig.run_first_turn().await;
    drop(me);
    rig.options.retention = JournalRetention { max_age_ms: 0, ..UNLIMITED_RETENTION };
    let mut rig = rig.restart().await;
    let chat = default_chat_uri(SESSION);
    let deadline = Instant::now() + Duration::from_secs(30);
    while rig.missed(long_ago, &[SESSION, &chat]).await.is_some() {
        assert!(Instant::now() < deadline, "expired rows are still replayed");
        // A commit triggers the check for old rows.
        drop(rig.engine.connect_client("me", "").await);
    }
    assert_eq!(rig.listen(SESSION).await.chat, before.chat, "the session is unchanged");

    rig.options.retention = UNLIMITED_RETENTION;
    let mut rig = rig.restart().await;
    let recently = rig.engine.current_seq();
    let mut listener = rig.listen(SESSION).await;
    assert_eq!(listener.chat, before.chat, "also when restored from snapshot and turns only");
    rig.send_message(SESSION, "t2", "more").await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    agent.emit_answer(2, "a", "b").await;
    listener.until("chat/turnComplete").await;
    for _ in 0..2 {
        let (replayed, _) = rig.missed(recently, &[&chat]).await.expect("a replay");
        assert_eq!(replayed, listener.chat_numbers, "all actions since, in this run and the next one");
        assert_eq!(rig.missed(long_ago, &[&chat]).await, None, "removed rows are not replayed");
        rig = rig.restart().await;
    }
    rig.engine.shutdown().await;
}

fn active(listener: &Listener) -> Vec<&str> {
    let session = listener.session.as_ref().unwrap();
    session.active_clients.iter().map(|client| client.client_id.as_str()).collect()
}

/// Adds active clients to the session.
async fn add_active_clients(rig: &Rig, listener: &mut Listener, clients: &[&str]) {
    for client in clients {
        let set = json!({"type": "session/activeClientSet", "activeClient": {"clientId": client, "tools": []}});
        rig.engine.dispatch(dispatch_json(SESSION, 0, set, None)).await;
        listener.until("session/activeClientSet").await;
    }
    assert_eq!(active(listener), clients);
}

#[tokio::test]
async fn after_a_restart_absent_clients_leave_and_returning_ones_stay() {
    let mut rig = Rig::start().await;
    let me = rig.engine.connect_client("me", "").await;
    let mut listener = rig.run_first_turn().await;
    add_active_clients(&rig, &mut listener, &["me", "you"]).await;
    drop(me);
    rig.options.absence = Duration::ZERO;
    let rig = rig.restart().await;
    let me = rig.engine.connect_client("me", "").await;
    let mut listener = rig.listen(SESSION).await;
    assert_eq!(active(&listener), ["me"], "the absence timeout of the other client has passed");
    drop(me);
    listener.until("session/activeClientRemoved").await;
    assert_eq!(active(&listener), Vec::<&str>::new());
    let rig = rig.restart().await;
    assert_eq!(active(&rig.listen(SESSION).await), Vec::<&str>::new(), "the absence is stored");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn clients_have_a_grace_period_after_a_restart() {
    let mut rig = Rig::start().await;
    let mut listener = rig.run_first_turn().await;
    add_active_clients(&rig, &mut listener, &["me"]).await;
    let rig = rig.restart().await;
    assert_eq!(active(&rig.listen(SESSION).await), ["me"]);
    let mut rig = rig.restart().await;
    assert_eq!(active(&rig.listen(SESSION).await), ["me"]);
    rig.options.absence = Duration::from_millis(300);
    let rig = rig.restart().await;
    let mut listener = rig.listen(SESSION).await;
    while !active(&listener).is_empty() {
        listener.next().await;
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn reconnect_without_a_subscription_removes_the_client_from_the_session() {
    let mut rig = Rig::start().await;
    let me = rig.engine.connect_client("me", "").await;
    let mut listener = rig.run_first_turn().await;
    add_active_clients(&rig, &mut listener, &["me"]).await;
    let now = rig.engine.current_seq();
    rig.missed(now, &[]).await.expect("a replay");
    drop(me);
    rig.missed(now, &[&default_chat_uri(SESSION)]).await.expect("a replay");
    rig.engine.dispatch(dispatch_json(SESSION, 0, json!({"type": "session/titleChanged", "title": "T"}), None)).await;
    listener.until("session/titleChanged").await;
    assert_eq!(active(&listener), ["me"], "the client was connected, and reconnected with the chat of the session");
    rig.missed(now, &[]).await.expect("a replay");
    listener.until("session/activeClientRemoved").await;
    assert_eq!(active(&listener), Vec::<&str>::new());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn client_metadata_survives_a_restart() {
    let rig = Rig::start().await;
    assert_eq!(rig.engine.client_metadata("me"), None);
    drop(rig.engine.connect_client("me", "first").await);
    drop(rig.engine.connect_client("me", "second").await);
    let rig = rig.restart().await;
    assert_eq!(rig.engine.client_metadata("me").as_deref(), Some("second"));
    rig.engine.shutdown().await;
}
