//! Successful responses.

use serde_json::{Value, json};

use crate::sdk::Sdk;
use crate::support::{Fixture, Reply, TestUpstream};

/// The content without fields that differ between two responses.
fn content(message: &Value) -> Vec<(String, Value)> {
    let field = |block: &Value| match block["type"].as_str().unwrap() {
        "tool_use" => json!([block["name"], block["input"]]),
        kind => block[kind].clone(),
    };
    message["content"].as_array().unwrap().iter().map(|block| (block["type"].to_string(), field(block))).collect()
}

pub(crate) async fn complete_and_streamed_messages_are_equal(sdk: Sdk) {
    let fixture = Fixture::scripted().await;
    let prompt = "!think Let me see.\n!say Grüße, 🐎!\\nTwo lines.\n!tool horse {\"name\":\"Bella\"}";
    let facts = sdk.run(&fixture, json!([{"do": "whole", "prompt": prompt}, {"do": "stream", "prompt": prompt}])).await;
    for seen in &facts {
        assert_eq!(seen["error"], Value::Null, "{seen}");
        let message = &seen["message"];
        assert_eq!(
            content(message),
            [
                ("\"thinking\"".to_owned(), json!("Let me see.")),
                ("\"text\"".to_owned(), json!("Grüße, 🐎!\nTwo lines.")),
                ("\"tool_use\"".to_owned(), json!(["horse", {"name": "Bella"}])),
            ]
        );
        assert_eq!(message["model"], "claude-sonnet-4-5");
        assert_eq!(message["role"], "assistant");
        assert_eq!(message["stop_reason"], "tool_use");
        assert!(message["usage"]["input_tokens"].as_u64().unwrap() > 0);
    }
    assert_eq!(facts[1]["text"], "Grüße, 🐎!\nTwo lines.");
    assert_eq!(facts[0]["message"]["usage"]["output_tokens"], facts[1]["message"]["usage"]["output_tokens"]);
}

pub(crate) async fn raw_events_arrive_in_order(sdk: Sdk) {
    let fixture = Fixture::scripted().await;
    let facts = sdk.run(&fixture, json!([{"do": "raw", "prompt": "!say one two"}])).await;
    assert_eq!(facts[0]["error"], Value::Null, "{facts:?}");
    let events = facts[0]["events"].as_array().unwrap();
    let names: Vec<&str> =
        events.iter().map(|event| event["type"].as_str().unwrap()).filter(|name| *name != "ping").collect();
    assert_eq!(
        names,
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    let text: String = events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert_eq!(text, "one two");
}

pub(crate) async fn thinking_and_tools_survive_a_round_trip(sdk: Sdk) {
    let fixture = Fixture::scripted().await;
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let parameters = json!({
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "tools": [{"name": "horse", "description": "Asks how a horse is.", "input_schema": schema}],
    });
    let prompt = "!think Whom shall I ask for?\n!tool horse {\"name\":\"Bella\"}\n!tool horse {\"name\":\"Ännchen\"}\n!say All are well.";
    let facts = sdk.run(&fixture, json!([{"do": "tools", "prompt": prompt, "parameters": parameters}])).await;
    assert_eq!(facts[0]["error"], Value::Null, "{facts:?}");
    let rounds = facts[0]["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 2);
    assert_eq!(content(&rounds[1]), [("\"text\"".to_owned(), json!("All are well."))]);

    // The second request contains everything: the thinking with its signature, and a result for each call.
    let requests = fixture.log.requests();
    assert_eq!(requests.len(), 2);
    let sent: Value = serde_json::from_slice(&requests[1].body).unwrap();
    assert_eq!(sent["thinking"], parameters["thinking"]);
    let blocks = sent["messages"][1]["content"].as_array().unwrap();
    let answered = rounds[0]["content"].as_array().unwrap();
    assert_eq!(blocks.len(), 3);
    assert_eq!(blocks[0]["thinking"], "Whom shall I ask for?");
    assert!(!blocks[0]["signature"].as_str().unwrap().is_empty());
    assert_eq!(blocks[0]["signature"], answered[0]["signature"]);
    let results = sent["messages"][2]["content"].as_array().unwrap();
    for (at, name) in ["Bella", "Ännchen"].into_iter().enumerate() {
        assert_eq!(results[at]["tool_use_id"], answered[at + 1]["id"]);
        assert_eq!(results[at]["content"], format!("{name} is well"));
    }
}

pub(crate) async fn tokens_are_counted(sdk: Sdk) {
    let jobs = json!([{"do": "count", "prompt": "How many are these?"}]);
    let scripted = Fixture::scripted().await;
    let facts = sdk.run(&scripted, jobs.clone()).await;
    assert!(facts[0]["count"]["input_tokens"].as_u64().unwrap() > 0, "{facts:?}");

    let upstream = TestUpstream::start([Reply::Whole(200, &[], r#"{"input_tokens":12345}"#.to_owned())]).await;
    let passed = Fixture::anthropic(&upstream).await;
    let facts = sdk.run(&passed, jobs).await;
    assert_eq!(facts[0]["count"]["input_tokens"], 12345, "{facts:?}");
    assert!(upstream.received()[0].path.starts_with("/base/v1/messages/count_tokens"));
}

pub(crate) async fn models_are_listed_and_found(sdk: Sdk) {
    let page = json!({"data": [
        {"type": "model", "id": "claude-opus-4-6", "display_name": "Opus", "created_at": "2026-01-01T00:00:00Z"},
        {"type": "model", "id": "claude-haiku-4-5-20251001", "display_name": "Haiku", "created_at": "2025-10-01T00:00:00Z"},
    ], "has_more": false, "first_id": "claude-opus-4-6", "last_id": "claude-haiku-4-5-20251001"});
    let upstream = TestUpstream::start([Reply::Whole(200, &[], page.to_string())]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let facts = sdk
        .run(
            &fixture,
            json!([
                {"do": "models"},
                {"do": "model", "model": "claude-haiku-4-5"},
                {"do": "model", "model": "claude-none-1", "max_retries": 0},
            ]),
        )
        .await;
    assert_eq!(facts[0]["error"], Value::Null, "{facts:?}");
    let ids: Vec<&Value> = facts[0]["models"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, ["claude-opus-4-6", "claude-haiku-4-5-20251001"]);
    assert_eq!(facts[1]["model"]["display_name"], "Haiku", "{facts:?}");
    assert_eq!(facts[2]["error"]["class"], "NotFoundError", "{facts:?}");
}

pub(crate) async fn concurrent_streams_are_not_mixed_up(sdk: Sdk) {
    let fixture = Fixture::scripted().await;
    let prompts: Vec<String> = (0..32).map(|number| format!("!deltas 60 {number}/")).collect();
    let facts = sdk.run(&fixture, json!([{"do": "crowd", "prompts": prompts}])).await;
    let streams = facts[0].as_array().unwrap();
    assert_eq!(streams.len(), 32);
    for (number, stream) in streams.iter().enumerate() {
        assert_eq!(stream["error"], Value::Null, "{stream}");
        let text = format!("{number}/").repeat(60);
        assert_eq!(stream["text"], text);
        assert_eq!(stream["message"]["content"][0]["text"], text);
    }
    fixture.gateway.wait_until_idle().await;
}
