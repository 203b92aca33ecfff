//! Errors as users of the SDKs see them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::sdk::Sdk;
use crate::support::{Fixture, Reply, TestUpstream, event};

/// Status, type in the envelope, and the class that both SDKs map it to.
const ERRORS: [(u16, &str, &str); 8] = [
    (400, "invalid_request_error", "BadRequestError"),
    (401, "authentication_error", "AuthenticationError"),
    (403, "permission_error", "PermissionDeniedError"),
    (404, "not_found_error", "NotFoundError"),
    (413, "request_too_large", "ContentTooLargeError"),
    (429, "rate_limit_error", "RateLimitError"),
    (500, "api_error", "InternalServerError"),
    (529, "overloaded_error", "OverloadedError"),
];

fn refusal(status: u16, kind: &str) -> Reply {
    let envelope = json!({"type": "error", "error": {"type": kind, "message": format!("Sorry, {status}.")}});
    Reply::Whole(status, &[("content-type", "application/json"), ("request-id", "req_011CS")], envelope.to_string())
}

/// A complete message.
fn message() -> Reply {
    let content = json!([{"type": "text", "text": "At last."}]);
    let usage = json!({"input_tokens": 3, "output_tokens": 2});
    let message = json!({
        "type": "message", "id": "msg_1", "role": "assistant", "model": "claude-sonnet-4-5", "content": content,
        "stop_reason": "end_turn", "stop_sequence": null, "usage": usage,
    });
    Reply::Whole(200, &[("content-type", "application/json")], message.to_string())
}

pub(crate) async fn upstream_errors_have_their_types(sdk: Sdk) {
    let mut replies = Vec::new();
    let mut jobs = Vec::new();
    for (status, kind, _) in ERRORS {
        for way in ["whole", "stream"] {
            // The gateway retries twice where that may help.
            let tries = if status == 529 { 3 } else { 1 };
            replies.extend((0..tries).map(|_| refusal(status, kind)));
            jobs.push(json!({"do": way, "prompt": "hi", "max_retries": 0}));
        }
    }
    let expected = replies.len();
    let upstream = TestUpstream::start(replies).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let facts = sdk.run(&fixture, jobs.into()).await;
    for (seen, (status, kind, class)) in facts.iter().zip(ERRORS.iter().flat_map(|row| [row, row])) {
        assert_eq!(seen["message"], Value::Null);
        let error = &seen["error"];
        assert_eq!(error["class"], *class, "{seen}");
        assert_eq!(error["status"], *status);
        assert_eq!(error["type"], *kind);
        assert_eq!(error["message"], format!("Sorry, {status}."));
        assert_eq!(error["request_id"], "req_011CS");
    }
    assert_eq!(upstream.received().len(), expected);
    assert_eq!(fixture.gateway.requests_accepted(), 16, "a client without retries calls once");
}

pub(crate) async fn gateway_errors_have_their_types(sdk: Sdk) {
    let fixture = Fixture::scripted().await;
    let facts = sdk
        .run(
            &fixture,
            json!([
                {"do": "whole", "prompt": "hi", "model": "", "max_retries": 0},
                {"do": "stream", "prompt": "hi", "model": "@nowhere:claude-sonnet-4-5", "max_retries": 0},
                // 33 MB of text.
                {"do": "whole", "prompt": "horses ", "times": 5_000_000, "max_retries": 0},
                {"do": "stream", "prompt": "!cut", "max_retries": 0},
            ]),
        )
        .await;
    let classes: Vec<&Value> = facts.iter().map(|seen| &seen["error"]["class"]).collect();
    assert_eq!(
        classes,
        ["BadRequestError", "PermissionDeniedError", "ContentTooLargeError", "InternalServerError"],
        "{facts:?}"
    );
    assert_eq!(facts[0]["error"]["message"], "model: a non-empty string is required.");
    assert_eq!(facts[3]["error"]["status"], 502);

    let bearers = ["nonsense".to_owned(), format!("{}x", fixture.bearer())];
    for bearer in bearers {
        let facts = sdk.run_as(&fixture, &bearer, json!([{"do": "whole", "prompt": "hi"}, {"do": "models"}])).await;
        for seen in facts {
            assert_eq!(seen["error"]["class"], "AuthenticationError", "{seen}");
            assert!(!seen.to_string().contains(&bearer), "{seen}");
        }
    }
}

pub(crate) async fn a_clients_retry_succeeds(sdk: Sdk) {
    let upstream = TestUpstream::start([refusal(500, "api_error"), message()]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let facts = sdk.run(&fixture, json!([{"do": "whole", "prompt": "hi"}])).await;
    assert_eq!(facts[0]["message"]["content"][0]["text"], "At last.", "{facts:?}");
    let retries: Vec<String> = fixture
        .log
        .requests()
        .iter()
        .map(|request| request.header("x-stainless-retry-count").unwrap_or_default().to_owned())
        .collect();
    assert_eq!(retries, ["0", "1"]);
    assert_eq!(upstream.received().len(), 2);
}

pub(crate) async fn an_interrupted_stream_is_an_error(sdk: Sdk) {
    // By an error event of the upstream, by an early end, by a closed connection.
    let mut failing = begun();
    failing.push(event("error", json!({"error": {"type": "overloaded_error", "message": "Too many horses."}})));
    let (cut, cutting) = Reply::stream();
    for chunk in begun() {
        cut.try_send(Ok(chunk)).unwrap();
    }
    cut.try_send(Ok(event("message_delta", json!({"delta": {"stop_reason": null}, "usage": {"output_tokens": 99}}))))
        .unwrap();
    let upstream = TestUpstream::start([Reply::events(failing), Reply::events(begun()), cutting]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let jobs = json!([{"do": "stream", "prompt": "1"}, {"do": "raw", "prompt": "2"}, {"do": "stream", "prompt": "3"}]);
    let cut_when_passed = async {
        // The connection is closed only after its content has passed.
        while fixture.registration.usage().output_tokens < 99 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        cut.send(Err(std::io::Error::other("cut"))).await.unwrap();
    };
    let (facts, ()) = tokio::join!(sdk.run(&fixture, jobs), cut_when_passed);
    for (seen, kind) in facts.iter().zip(["overloaded_error", "api_error", "api_error"]) {
        assert_eq!(seen["error"]["type"], kind, "{seen}");
        assert_eq!(seen["error"]["is_api_error"], true, "{seen}");
        assert!(seen["message"].is_null(), "half a message was taken as a whole one: {seen}");
    }
    assert_eq!(facts[0]["error"]["message"], "Too many horses.");
    assert_eq!(facts[1]["events"].as_array().unwrap().len(), 3);
    assert_eq!(facts[2]["text"], "half a");
    // A client does not retry a response that it has started to read.
    assert_eq!(upstream.received().len(), 3);
    fixture.gateway.wait_until_idle().await;
}

/// The first half of a message.
pub(crate) fn begun() -> Vec<bytes::Bytes> {
    let usage = json!({"input_tokens": 7, "output_tokens": 1});
    let message = json!({
        "type": "message", "id": "msg_1", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    vec![
        event("message_start", json!({"message": message})),
        event("content_block_start", json!({"index": 0, "content_block": {"type": "text", "text": ""}})),
        event("content_block_delta", json!({"index": 0, "delta": {"type": "text_delta", "text": "half a"}})),
    ]
}
