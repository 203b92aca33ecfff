//! Reconnecting clients: identity, replay, repeated dispatches, and changes that clients make outside of turns.

use crate::common::{Rig, SESSION, dispatch_json, started};
use ahp_types::StateAction;
use ahp_types::state::SessionStatus;
use hostler_driver::{DriverEvent, PartId, PartKind};
use hostler_engine::{Delivery, EngineError, ROOT_CHANNEL_URI, ReconnectOutcome, Subscriber, default_chat_uri};
use serde_json::{Value, json};

#[tokio::test]
async fn unknown_client_cannot_reconnect() {
    let rig = Rig::start().await;
    let (subscriber, _deliveries) = Subscriber::new(10);
    let result = rig.engine.reconnect("stranger", 0, &[], &subscriber, 1).await;
    assert!(matches!(result, Err(EngineError::ClientUnknown)));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn reconnect_replays_exactly_the_missed_envelopes() {
    let mut rig = Rig::start().await;
    let _me = rig.engine.connect_client("me", "").await;
    let before = rig.engine.current_seq();
    let listener = rig.run_first_turn().await;
    let chat = default_chat_uri(SESSION);
    let all = listener.numbers.clone();
    let (seqs, missing) =
        rig.missed(before, &[ROOT_CHANNEL_URI, SESSION, &chat, "claude:/gone", "nonsense"]).await.unwrap();
    assert_eq!(seqs, all, "every number on its channels, in order");
    assert_eq!(missing, ["claude:/gone", "nonsense"]);
    let middle = all[all.len() / 2];
    let (rest, _) = rig.missed(middle, &[SESSION, &chat]).await.unwrap();
    assert_eq!(rest, all.iter().copied().filter(|seq| *seq > middle).collect::<Vec<_>>());
    let current = rig.engine.current_seq();
    assert_eq!(rig.missed(current, &[SESSION]).await.unwrap().0, Vec::<u64>::new());
    assert_eq!(rig.missed(current + 1000, &[SESSION]).await, None, "numbers that were never given: snapshots");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn oversized_replay_becomes_snapshots() {
    let mut rig = Rig::start().await;
    let _me = rig.engine.connect_client("me", "").await;
    let before = rig.engine.current_seq();
    let (mut listener, agent) = rig.start_first_turn().await;
    agent.emit(DriverEvent::PartStarted { part: PartId(1), kind: PartKind::Text }).await;
    for _ in 0..20 {
        agent.emit(DriverEvent::PartDelta { part: PartId(1), text: "x".repeat(1 << 20) }).await;
    }
    agent.emit_answer(2, "a", "b").await;
    listener.until("chat/turnComplete").await;
    let (subscriber, mut deliveries) = Subscriber::new(10);
    let channels = [default_chat_uri(SESSION)];
    let back = rig.engine.reconnect("me", before, &channels, &subscriber, 9).await.unwrap();
    assert!(matches!(back, ReconnectOutcome::Replay { .. }));
    assert!(matches!(deliveries.recv().await, Some(Delivery::Replay { missed: None, .. })));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn after_a_restart_known_clients_get_replay_and_clients_ahead_get_snapshots() {
    let mut rig = Rig::start().await;
    let _me = rig.engine.connect_client("me", "").await;
    let before = rig.engine.current_seq();
    let listener = rig.run_first_turn().await;
    let all = listener.numbers.clone();
    let rig = rig.restart().await;
    let chat = default_chat_uri(SESSION);
    let (seqs, missing) = rig.missed(before, &[SESSION, &chat]).await.unwrap();
    assert_eq!(missing, Vec::<String>::new());
    let old: Vec<_> = seqs.iter().copied().filter(|seq| *seq <= *all.last().unwrap()).collect();
    assert_eq!(old, all, "actions of an earlier run are replayed under their old numbers");
    let last = *all.last().unwrap();
    assert_eq!(rig.missed(last + 40_000, &[SESSION]).await, None, "that number never became durable");
    let (subscriber, _deliveries) = Subscriber::new(10);
    assert!(matches!(rig.engine.reconnect("other", last, &[], &subscriber, 1).await, Err(EngineError::ClientUnknown)));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn repeated_dispatch_is_answered_by_its_first_envelope() {
    let mut rig = Rig::start().await;
    let _me = rig.engine.connect_client("me", "").await;
    rig.create(SESSION);
    let mut listener = rig.listen(SESSION).await;
    let chat = default_chat_uri(SESSION);
    let start = serde_json::to_value(StateAction::ChatTurnStarted(started("t1", "hi"))).unwrap();
    rig.engine.dispatch(dispatch_json(&chat, 5, start.clone(), None)).await;
    listener.until("chat/turnStarted").await;
    let first = *listener.numbers.last().unwrap();
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;

    let (asking, mut answers) = Subscriber::new(10);
    rig.engine.dispatch(dispatch_json(&chat, 5, start.clone(), Some(&asking))).await;
    let Delivery::Envelope(again) = answers.recv().await.unwrap() else { panic!("an envelope") };
    assert_eq!(again.seq, first);
    assert!(again.rejection.is_none());

    let rig = rig.restart().await;
    let _me = rig.engine.connect_client("me", "").await;
    rig.engine.dispatch(dispatch_json(&chat, 5, start.clone(), Some(&asking))).await;
    let Delivery::Envelope(again) = answers.recv().await.unwrap() else { panic!("an envelope") };
    assert_eq!(again.seq, first, "also after a restart");
    let rename =
        |seq| dispatch_json(SESSION, seq, json!({"type": "session/titleChanged", "title": "T"}), Some(&asking));
    rig.engine.dispatch(rename(6)).await;
    let mut listener = rig.listen(SESSION).await;
    rig.engine.dispatch(rename(7)).await;
    listener.until("session/titleChanged").await;
    rig.engine.dispatch(dispatch_json(&chat, 5, start, Some(&asking))).await;
    let Delivery::Envelope(again) = answers.recv().await.unwrap() else { panic!("an envelope") };
    assert_eq!(again.seq, first, "also after newer dispatches");
    let listener = rig.listen(SESSION).await;
    assert_eq!(listener.chat.unwrap().turns.len(), 1);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn different_dispatches_with_one_number_are_not_repetitions() {
    let rig = Rig::start().await;
    let _me = rig.engine.connect_client("me", "").await;
    let (subscriber, mut deliveries) = Subscriber::new(100);
    rig.engine.subscribe(ROOT_CHANNEL_URI, &subscriber, 1).await.unwrap();
    for (key, seq) in [("a", 0), ("b", 0), ("b", 0), ("c", 1)] {
        let change = json!({"type": "root/configChanged", "config": {key: true}});
        rig.engine.dispatch(dispatch_json(ROOT_CHANNEL_URI, seq, change, Some(&subscriber))).await;
    }
    let mut seqs = Vec::new();
    while seqs.len() < 4 {
        if let Delivery::Envelope(item) = deliveries.recv().await.unwrap() {
            seqs.push(item.seq);
        }
    }
    assert_eq!(seqs[1], seqs[2], "a repeated dispatch is answered with the same envelope");
    let rig = rig.restart().await;
    let values = rig.engine.root_state().await.config.clone().unwrap().values;
    assert_eq!(Value::Object(values), json!({"a": true, "b": true, "c": true}), "stored across restarts");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn title_flags_draft_clients_and_config_changes_are_stored() {
    let mut rig = Rig::start().await;
    let mut listener = rig.run_first_turn().await;
    let chat = default_chat_uri(SESSION);
    assert_eq!(
        listener.session.as_ref().unwrap().status & SessionStatus::IsRead.bits(),
        0,
        "there is something to read"
    );
    let draft = json!({"text": "half a", "origin": {"kind": "user"}});
    let client = json!({"clientId": "me", "displayName": "Me", "tools": []});
    for (channel, change) in [
        (SESSION, json!({"type": "session/titleChanged", "title": "Better"})),
        (SESSION, json!({"type": "session/isReadChanged", "isRead": true})),
        (SESSION, json!({"type": "session/isArchivedChanged", "isArchived": true})),
        (SESSION, json!({"type": "session/configChanged", "config": {"permissionMode": "plan"}})),
        (SESSION, json!({"type": "session/activeClientSet", "activeClient": client})),
        (&chat, json!({"type": "chat/draftChanged", "draft": draft})),
        (&chat, json!({"type": "session/titleChanged", "title": "The chat"})),
    ] {
        let kind = change["type"].as_str().unwrap().to_owned();
        rig.engine.dispatch(dispatch_json(channel, 0, change, None)).await;
        listener.until(&kind).await;
        assert!(!listener.events.last().unwrap().contains("rejected"), "{:?}", listener.events.last());
    }
    listener.until("changed").await;
    let rig = rig.restart().await;
    let listener = rig.listen(SESSION).await;
    let session = listener.session.unwrap();
    assert_eq!(session.title, "Better");
    assert_eq!(session.chats[0].title, "The chat");
    assert_eq!(session.config.unwrap().values["permissionMode"], "plan");
    assert_ne!(session.status & SessionStatus::IsArchived.bits(), 0);
    assert_eq!(session.active_clients.len(), 1);
    assert_eq!(listener.chat.unwrap().draft.unwrap().text, "half a");
    let item = rig.engine.list_sessions(None, None).unwrap().summaries().remove(0);
    assert_eq!(item.title, "Better");
    assert_ne!(item.status & SessionStatus::IsRead.bits(), 0);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn invalid_changes_are_refused() {
    let mut rig = Rig::start().await;
    let mut listener = rig.run_first_turn().await;
    for (change, reason) in [
        (json!({"type": "session/titleChanged", "title": " "}), "a title must have"),
        (json!({"type": "session/configChanged", "config": {"permissionMode": "bypassPermissions"}}), "cannot be"),
        (json!({"type": "session/configChanged", "config": {"branch": "x"}}), "cannot be changed"),
        (json!({"type": "session/configChanged", "config": {}, "replace": true}), "must contain"),
        (json!({"type": "session/activeClientRemoved", "clientId": "me"}), "not active"),
    ] {
        let kind = change["type"].as_str().unwrap().to_owned();
        rig.engine.dispatch(dispatch_json(SESSION, 0, change, None)).await;
        listener.until(&kind).await;
        let event = listener.events.last().unwrap();
        assert!(event.contains("rejected") && event.contains(reason), "{event}");
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn changed_permission_mode_applies_to_the_next_process() {
    let mut rig = Rig::start().await;
    let mut listener = rig.run_first_turn().await;
    let change = json!({"type": "session/configChanged", "config": {"permissionMode": "plan"}});
    rig.engine.dispatch(dispatch_json(SESSION, 0, change, None)).await;
    listener.until("session/configChanged").await;
    rig.send_message(SESSION, "t2", "next").await;
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.permission_mode, "plan");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn session_is_restored_unchanged() {
    let mut rig = Rig::start().await;
    rig.run_first_turn().await;
    let before = rig.listen(SESSION).await;
    let rig = rig.restart().await;
    let after = rig.listen(SESSION).await;
    assert_eq!(before.chat, after.chat);
    assert_eq!(before.session, after.session);
    // Again, without a turn since the restart: from the snapshot alone.
    let rig = rig.restart().await;
    assert_eq!(rig.listen(SESSION).await.chat, before.chat);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn active_clients_of_a_session_are_limited() {
    let (rig, mut listener) = Rig::with_session().await;
    let join = |client: usize| {
        let active = serde_json::json!({"clientId": format!("c{client}"), "tools": []});
        let action = serde_json::json!({"type": "session/activeClientSet", "activeClient": active});
        rig.engine.dispatch(dispatch_json(SESSION, 0, action, None))
    };
    for client in 0..64 {
        join(client).await;
        listener.until("session/activeClientSet").await;
    }
    join(64).await;
    listener.until("session/activeClientSet rejected: a session can have at most 64 active clients").await;
    join(63).await;
    listener.until("session/activeClientSet").await;
    assert!(!listener.events.last().unwrap().contains("rejected"), "a present client may send it again");
    assert_eq!(listener.session.unwrap().active_clients.len(), 64);
    rig.engine.shutdown().await;
}
