//! The host is killed, and the chat has more turns than it holds in memory.

use ahp_types::StateAction;
use ahp_types::actions::ActionEnvelope;
use ahp_types::state::SnapshotState;
use hostler_testkit::test_client::reduce_chat;
use serde_json::{Value, json};

use crate::common::session_fixture::SessionFixture;

/// More turns than the host holds in memory.
const TURN_COUNT: usize = 56;

#[tokio::test]
async fn long_chat_is_complete_after_a_kill_and_continues() {
    let mut bench = SessionFixture::allowing_commands("native").await;
    for turn in 1..=TURN_COUNT {
        bench.client.send_and_wait(&bench.uris.chat, &format!("!say answer {turn}")).await;
    }
    let interrupted = bench.client.send_message(&bench.uris.chat, "!say begun\n!hang").await;
    bench.wait_for_action("chat/delta").await.unwrap();
    let before = bench.client.chat_state(&bench.uris.chat).await;
    assert_eq!(before.turns.len(), TURN_COUNT);

    let mut bench = bench.kill_host().await;
    let whole = bench.client.chat_state(&bench.uris.chat).await;
    assert_eq!(whole.turns[..TURN_COUNT], before.turns);
    assert_eq!((whole.turns.len(), &whole.turns[TURN_COUNT].id), (TURN_COUNT + 1, &interrupted));

    // The same chat by pages.
    let chat = bench.uris.chat.clone();
    let view = json!({"channel": chat, "view": {"turns": 2}});
    let result: Value = bench.client.client.request("subscribe", view).await.unwrap();
    let SnapshotState::Chat(mut state) = serde_json::from_value(result["snapshot"]["state"].clone()).unwrap() else {
        panic!("a chat")
    };
    assert_eq!(state.turns.len(), 2);
    while let Some(cursor) = state.turns_next_cursor.clone() {
        let _: Value =
            bench.client.client.request("fetchTurns", json!({"channel": chat, "cursor": cursor})).await.unwrap();
        let loaded = |envelope: &ActionEnvelope| matches!(envelope.action, StateAction::ChatTurnsLoaded(_));
        let count_in_model_requests = bench.client.wait_for(&chat, loaded).await;
        *state = reduce_chat(*state, &count_in_model_requests);
    }
    assert_eq!(state.turns, whole.turns);

    // The id of an old turn is still in use, and the conversation continues.
    let again = json!({"type": "chat/turnStarted", "turnId": before.turns[0].id, "startedAt": "2026-11-15T08:00:00.000Z",
        "message": {"text": "!say again", "origin": {"kind": "user"}}});
    bench.dispatch(again).await;
    assert!(bench.wait_for_action("chat/turnStarted").await.unwrap_err().contains("already in use"));
    assert_eq!(bench.client.send_and_wait(&chat, "!say and on").await, "and on");
    assert_eq!(bench.client.chat_state(&chat).await.turns.len(), TURN_COUNT + 2);
    bench.stop().await;
}
