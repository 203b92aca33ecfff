//! Calls that are pending while no client is connected.

use std::time::Duration;

use ahp_types::StateAction;
use serde_json::{Value, json};

use crate::common::BUILDS;
use crate::common::session_fixture::SessionFixture;

/// All clients disconnect while a call is pending, reconnect later and allow it.
async fn allowed_after(build: &'static str, away: impl Future<Output = ()>) {
    let mut bench = SessionFixture::start(build).await;
    let file = bench.home.work().join("made.txt");
    bench.prompt_tool_call("Write", &json!({ "file_path": file, "content": "x" })).await;
    let waiting = bench.wait_for_approval_request().await;
    let agent = bench.host.only_agent().pid;
    bench.client.client.shutdown().await;
    drop(bench.client);
    away.await;
    assert!(!file.exists(), "{build}: nothing ran meanwhile");
    bench.client = bench.host.connect().await;
    let session = serde_json::to_value(bench.client.subscribe_snapshot(&bench.uris.session).await).unwrap();
    let call = &session["inputNeeded"][0]["toolCall"];
    assert_eq!(
        (&call["status"], &call["toolCallId"]),
        (&json!("pending-confirmation"), &waiting["toolCallId"]),
        "{build}: {session:#}"
    );
    assert_eq!(bench.host.only_agent().pid, agent, "{build}: the same process waits");
    bench.client.chat_state(&bench.uris.chat).await;
    bench.answer_approval(&waiting, json!({ "approved": true })).await;
    let ended = bench.client.wait_for_turn_end(&bench.uris.chat).await;
    assert!(matches!(ended.last().unwrap().action, StateAction::ChatTurnComplete(_)), "{build}");
    assert!(file.exists(), "{build}");
    assert_eq!(bench.last_tool_call("Write").await["status"], Value::from("completed"), "{build}");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_stays_pending_while_no_client_is_connected() {
    for build in BUILDS {
        allowed_after(build, std::future::ready(())).await;
    }
}

/// Longer than any limit of the agent's hooks (ten minutes) or of its shell.
const LONG_ABSENCE: Duration = Duration::from_secs(17 * 60);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "waits for seventeen minutes"]
async fn call_stays_pending_for_seventeen_minutes() {
    let [native, js] = BUILDS;
    // The time starts when the clients have disconnected.
    let away = || async { tokio::time::sleep(LONG_ABSENCE).await };
    tokio::join!(allowed_after(native, away()), allowed_after(js, away()));
}
