//! The host dies, and the chat has more turns than it holds in memory.

use ahp_types::StateAction;
use ahp_types::actions::ActionEnvelope;
use ahp_types::state::SnapshotState;
use hostler_testkit::peer::reduced;
use serde_json::{Value, json};

use crate::common::bench::Bench;

/// More than the host holds.
const TURNS: usize = 56;

#[tokio::test]
async fn a_long_chat_is_whole_after_the_host_was_killed_and_goes_on() {
    let mut bench = Bench::at_ease("native").await;
    for turn in 1..=TURNS {
        bench.peer.ask(&bench.uris.chat, &format!("!say answer {turn}")).await;
    }
    let interrupted = bench.peer.say(&bench.uris.chat, "!say begun\n!hang").await;
    bench.until("chat/delta").await.unwrap();
    let before = bench.peer.chat(&bench.uris.chat).await;
    assert_eq!(before.turns.len(), TURNS);

    let mut bench = bench.kill_host().await;
    let whole = bench.peer.chat(&bench.uris.chat).await;
    assert_eq!(whole.turns[..TURNS], before.turns);
    assert_eq!((whole.turns.len(), &whole.turns[TURNS].id), (TURNS + 1, &interrupted));

    // The same in pieces.
    let chat = bench.uris.chat.clone();
    let view = json!({"channel": chat, "view": {"turns": 2}});
    let result: Value = bench.peer.client.request("subscribe", view).await.unwrap();
    let SnapshotState::Chat(mut state) = serde_json::from_value(result["snapshot"]["state"].clone()).unwrap() else {
        panic!("a chat")
    };
    assert_eq!(state.turns.len(), 2);
    while let Some(cursor) = state.turns_next_cursor.clone() {
        let _: Value =
            bench.peer.client.request("fetchTurns", json!({"channel": chat, "cursor": cursor})).await.unwrap();
        let loaded = |envelope: &ActionEnvelope| matches!(envelope.action, StateAction::ChatTurnsLoaded(_));
        let heard = bench.peer.until(&chat, loaded).await;
        *state = reduced(*state, &heard);
    }
    assert_eq!(state.turns, whole.turns);

    // An id of long ago is still taken, and the conversation goes on.
    let again = json!({"type": "chat/turnStarted", "turnId": before.turns[0].id, "startedAt": "2026-11-15T08:00:00.000Z",
        "message": {"text": "!say again", "origin": {"kind": "user"}}});
    bench.dispatch(again).await;
    assert!(bench.until("chat/turnStarted").await.unwrap_err().contains("used before"));
    assert_eq!(bench.peer.ask(&chat, "!say and on").await, "and on");
    assert_eq!(bench.peer.chat(&chat).await.turns.len(), TURNS + 2);
    bench.stop().await;
}
