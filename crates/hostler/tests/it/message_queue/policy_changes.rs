//! Settings that change between two messages of a session.

use ahp_types::StateAction;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::common::BUILDS;
use crate::common::session_fixture::SessionFixture;

/// Sends a message for a model; returns the model's request.
async fn ask(bench: &mut SessionFixture, text: &str, model: Value) -> Value {
    let mut message = json!({ "text": format!("!say {text}"), "origin": { "kind": "user" } });
    if !model.is_null() {
        message["model"] = model;
    }
    let turn = json!({ "type": "chat/turnStarted", "turnId": Uuid::new_v4().to_string(),
        "startedAt": "2026-11-15T08:00:00.000Z", "message": message });
    bench.dispatch(turn).await;
    let envelopes = bench.client.wait_for_turn_end(&bench.uris.chat).await;
    let last = &envelopes.last().unwrap().action;
    assert!(matches!(last, StateAction::ChatTurnComplete(_)), "{}: {last:?}", bench.build);
    let asked = bench.upstream.requests().last().unwrap().body.clone();
    assert!(asked["messages"].to_string().contains(text), "{}: {asked:#}", bench.build);
    asked
}

#[tokio::test(flavor = "multi_thread")]
async fn model_effort_and_thinking_change_in_one_process() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let (opus, sonnet) = (json!({ "id": "claude-opus-4-6" }), json!({ "id": "claude-sonnet-4-5" }));
        let first = ask(&mut bench, "one", opus.clone()).await;
        assert_eq!(first["model"], "claude-opus-4-6", "{build}");
        let agent = bench.host.only_agent().pid;
        let second = ask(&mut bench, "two", sonnet).await;
        assert_eq!(second["model"], "claude-sonnet-4-5", "{build}");
        // A message without a model uses the last one.
        let third = ask(&mut bench, "three", Value::Null).await;
        assert_eq!(third["model"], "claude-sonnet-4-5", "{build}");

        bench.configure(json!({ "thinkingBudget": 4000 })).await;
        let fourth = ask(&mut bench, "four", Value::Null).await;
        assert_eq!(fourth["thinking"]["budget_tokens"], 4000, "{build}: {}", fourth["thinking"]);
        bench.configure(json!({ "effort": "low" })).await;
        let fifth = ask(&mut bench, "five", opus.clone()).await;
        assert_eq!(
            (&fifth["model"], &fifth["output_config"]["effort"]),
            (&json!("claude-opus-4-6"), &json!("low")),
            "{build}"
        );
        // The effort of a message overrides the session's.
        let hard = json!({ "id": "claude-opus-4-6", "config": { "effort": "medium" } });
        let sixth = ask(&mut bench, "six", hard).await;
        assert_eq!(sixth["output_config"]["effort"], "medium", "{build}");
        assert_eq!(bench.host.only_agent().pid, agent, "{build}: one process for all of it");

        // A running agent cannot return to its default effort, so another process resumes the conversation.
        bench.configure(json!({ "effort": "default" })).await;
        let seventh = ask(&mut bench, "seven", opus).await;
        let forgotten = &seventh["output_config"]["effort"];
        assert!(*forgotten != "medium" && *forgotten != "low", "{build}: {forgotten}");
        assert_ne!(bench.host.only_agent().pid, agent, "{build}");
        for prompt in ["one", "two", "three", "four", "five", "six"] {
            assert!(
                seventh["messages"].to_string().contains(&format!("!say {prompt}")),
                "{build}: {prompt} is remembered"
            );
        }
        bench.stop().await;
    }
}
