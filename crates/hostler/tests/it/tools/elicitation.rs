//! Elicitations of an MCP server, through the real agent.

use ahp_types::StateAction;
use serde_json::{Value, json};

use crate::common::BUILDS;
use crate::common::session_fixture::SessionFixture;

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/elicitation_server.py");

/// The model calls the server's tool; returns the server's question.
async fn elicited(bench: &mut SessionFixture) -> Value {
    bench.prompt_tool_call("mcp__stable__book", &json!({})).await;
    let waiting = bench.wait_for_approval_request().await;
    assert_eq!(waiting["_meta"]["mcpServerName"], "stable", "{}: {waiting:#}", bench.build);
    bench.answer_approval(&waiting, json!({ "approved": true })).await;
    bench.wait_for_questions().await
}

/// Returns the answer that the server received, as it reported to the model.
fn received_answer(bench: &SessionFixture) -> Value {
    let result: Value = serde_json::from_str(&bench.last_tool_result()).unwrap();
    let text = result["content"][0]["content"][0]["text"].as_str().unwrap();
    serde_json::from_str(text.strip_prefix("The user said: ").unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_server_receives_answers_declines_and_cancellations() {
    for build in BUILDS {
        let servers = json!({ "mcpServers": { "stable": { "command": "python3", "args": [SERVER] } } });
        let mut bench = SessionFixture::with_mcp_servers(build, &servers).await;
        let asked = elicited(&mut bench).await;
        assert_eq!(asked["message"], "stable: Before the stall is booked", "{build}: {asked:#}");
        let questions = asked["questions"].as_array().unwrap();
        let kinds: Vec<_> = questions.iter().map(|question| question["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["text", "integer", "boolean", "single-select"], "{build}: in the server's order");
        assert_eq!(questions[3]["options"][1]["label"], "Right side", "{build}: {asked:#}");
        let submitted =
            |kind: &str, value: Value| json!({ "state": "submitted", "value": { "kind": kind, "value": value } });
        let answers = json!({
            "name": submitted("text", json!("Ada")), "stalls": submitted("number", json!(2)), "hay": submitted("boolean", json!(true)),
            "side": submitted("selected", json!("right")),
        });
        bench.dispatch(json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": "accept", "answers": answers })).await;
        bench.wait_for_turn_end().await;
        let content = json!({ "hay": true, "name": "Ada", "side": "right", "stalls": 2 });
        assert_eq!(received_answer(&bench), json!({ "action": "accept", "content": content }), "{build}");

        for response in ["decline", "cancel"] {
            let asked = elicited(&mut bench).await;
            let completed = json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": response });
            bench.dispatch(completed).await;
            bench.wait_for_turn_end().await;
            assert_eq!(received_answer(&bench), json!({ "action": response }), "{build}");
        }

        // A cancelled turn withdraws its question, and the session continues.
        elicited(&mut bench).await;
        let chat = bench.client.chat_state(&bench.uris.chat).await;
        bench.client.cancel_turn(&bench.uris.chat, &chat.active_turn.unwrap().id).await;
        let ended = bench.client.wait_for_turn_end(&bench.uris.chat).await;
        assert!(matches!(ended.last().unwrap().action, StateAction::ChatTurnCancelled(_)), "{build}");
        assert!(
            bench.client.send_and_wait(&bench.uris.chat, "!say still here").await.contains("still here"),
            "{build}"
        );
        let session = serde_json::to_value(bench.client.subscribe_snapshot(&bench.uris.session).await).unwrap();
        assert!(session["inputNeeded"].is_null(), "{build}: {session:#}");
        bench.stop().await;
    }
}
