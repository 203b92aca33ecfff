//! Logs never contain text of people or contents of files: neither for unreadable data, nor for printed values that
//! contain them.

use crate::common::log::Log;
use crate::common::{Rig, SESSION, turn_started};
use hostler_engine::{Delivery, ResourceContents, StoredContent, Subscriber, WriteResource, default_chat_uri};

/// A text that a person has written.
const PLANTED: &str = "planted-text";

/// Damages a store, starts a host on it and opens the session; returns the log.
async fn logged_after(damage: impl FnOnce(&Rig)) -> String {
    let mut rig = Rig::start().await;
    rig.run_first_turn().await;
    rig.engine.shutdown().await;
    damage(&rig);
    let (log, _guard) = Log::begin();
    let rig = rig.crash().await;
    let (subscriber, _deliveries) = Subscriber::new(100);
    // Whether the session can still be opened does not matter here.
    let _opened = rig.engine.subscribe(&default_chat_uri(SESSION), &subscriber, 1).await;
    rig.engine.shutdown().await;
    log.text()
}

#[tokio::test]
async fn unreadable_rows_are_logged_without_their_text() {
    let planted = format!("'\"{PLANTED}\"'");
    let journaled = |kind: u8, body: &str| {
        format!(
            "INSERT INTO journal (seq, channel, kind, body)
             SELECT max(seq) + 1, (SELECT id FROM channels WHERE uri = '{SESSION}'), {kind}, {body} FROM journal"
        )
    };
    for (statement, expected) in [
        (format!("UPDATE sessions SET summary = {planted}"), "failed to read a stored session summary"),
        (format!("UPDATE snapshots SET body = {planted}"), "failed to read a session snapshot"),
        (format!("UPDATE turns SET body = {planted}"), "failed to read a stored turn"),
        // Every JSON is an action, at least an unknown one.
        (journaled(0, &format!("'{{{PLANTED}'")), "failed to read an action from the journal"),
        (journaled(1, &planted), "failed to read a host record"),
    ] {
        let damage = |rig: &Rig| {
            let store = rusqlite::Connection::open(rig.state.join("hostler.db")).unwrap();
            assert!(store.execute(&statement, []).unwrap() > 0, "{statement}");
        };
        let logged = logged_after(damage).await;
        assert!(logged.contains(expected) && !logged.contains(PLANTED), "{statement}: {logged}");
    }
}

#[tokio::test]
async fn unreadable_grants_are_logged_without_their_paths() {
    let damage = |rig: &Rig| std::fs::write(rig.state.join("grants.json"), format!("[\"{PLANTED}\"]")).unwrap();
    let logged = logged_after(damage).await;
    assert!(logged.contains("failed to read the grants file") && !logged.contains(PLANTED), "{logged}");
}

#[tokio::test]
async fn debug_output_omits_texts_and_contents() {
    let (rig, listener) = Rig::with_session().await;
    rig.send_message(SESSION, "t1", PLANTED).await;
    let (subscriber, mut deliveries) = Subscriber::new(100);
    rig.engine.subscribe(&default_chat_uri(SESSION), &subscriber, 1).await.unwrap();
    let snapshot = deliveries.recv().await.unwrap();
    assert!(matches!(snapshot, Delivery::Snapshot { .. }));
    let body = || PLANTED.as_bytes().to_vec();
    for shown in [
        format!("{snapshot:?}"),
        format!("{:?}", turn_started(SESSION, "t1", PLANTED)),
        format!("{:?}", StoredContent { content_type: "text/plain".into(), body: body() }),
        format!("{:?}", ResourceContents { content_type: None, body: body() }),
        format!("{:?}", WriteResource { data: body(), ..WriteResource::default() }),
    ] {
        let as_bytes = format!("{:?}", body());
        assert!(!shown.contains(PLANTED) && !shown.contains(as_bytes.trim_matches(['[', ']'])), "{shown}");
    }
    drop(listener);
    rig.engine.shutdown().await;
}
