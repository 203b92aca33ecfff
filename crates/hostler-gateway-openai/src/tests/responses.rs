//! Translation of complete responses and error bodies.

use std::collections::HashSet;

use bytes::Bytes;
use hostler_gateway::{UpstreamError, UpstreamErrorResponse};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use crate::request::ResponseContext;
use crate::response::translate_response;
use crate::server_error;

fn expected(reasoning: bool) -> ResponseContext {
    ResponseContext { include_reasoning: reasoning, call_ids: HashSet::from(["call_0".to_owned()]) }
}

fn translated(completion: &Value, reasoning: bool) -> Result<Value, UpstreamError> {
    translate_response(completion.to_string().as_bytes(), "msg_1", "asked-model", expected(reasoning))
        .map(|body| serde_json::from_slice(&body).unwrap())
}

/// A completion with this message.
fn saying(message: Value, finish_reason: &str) -> Value {
    let choice = json!({"index": 0, "message": message, "finish_reason": finish_reason});
    json!({"id": "chatcmpl-1", "object": "chat.completion", "model": "real-model", "choices": [choice]})
}

fn call(id: &str, name: &str, arguments: Value) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn with_usage(usage: Value) -> Value {
    let mut completion = saying(json!({"role": "assistant", "content": "hello"}), "stop");
    completion["usage"] = usage;
    completion
}

#[test]
fn complete_responses_are_translated() {
    let cases = [
        ("text", with_usage(json!({"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}))),
        (
            "the cached part of the prompt is counted apart",
            with_usage(
                json!({"prompt_tokens": 20, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 12}}),
            ),
        ),
        (
            "the same by another name",
            with_usage(json!({"prompt_tokens": 20, "completion_tokens": 5, "prompt_cache_hit_tokens": 30})),
        ),
        (
            "no model and no counts",
            json!({"choices": [{"message": {"content": "hello"}, "finish_reason": "length"}], "usage": null}),
        ),
        (
            "text in parts",
            saying(json!({"content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]}), "stop"),
        ),
        ("nothing", saying(json!({"content": null}), "stop")),
        ("reasoning", saying(json!({"reasoning_content": "hm", "content": "\n\nhello"}), "stop")),
        (
            "reasoning by both names",
            saying(json!({"reasoning_content": "", "reasoning": "hm", "content": "hello"}), "stop"),
        ),
        ("a refusal", saying(json!({"content": null, "refusal": "No."}), "stop")),
        ("a filter", saying(json!({"content": "Well"}), "content_filter")),
        (
            "tool calls: with arguments, without, as an object, with ids that will not do",
            saying(
                json!({"content": "\n", "tool_calls": [
                    call("call_1", "Read", json!("{\"path\": \"/a\"}")),
                    call("call_1", "List", json!("")),
                    call("", "Write", json!({"path": "/b"})),
                    call("call_0", "Write", json!(" {} ")),
                ]}),
                "stop",
            ),
        ),
        (
            "a call that the limit has cut",
            saying(
                json!({"content": "I write.", "tool_calls": [call("c", "Read", json!("{}")), call("d", "Write", json!("{\"path\": \"/"))]}),
                "length",
            ),
        ),
    ];
    let mut page = String::new();
    for (title, completion) in cases {
        let message = translated(&completion, true).unwrap_or_else(|error| panic!("{title}: {error}"));
        page.push_str(&format!("# {title}\n{message:#}\n\n"));
    }
    insta::assert_snapshot!(page);
}

#[test]
fn reasoning_is_returned_only_if_thinking_was_requested() {
    let completion = saying(json!({"reasoning_content": "hm", "content": "hello"}), "stop");
    let kinds = |reasoning| {
        let message = translated(&completion, reasoning).unwrap();
        let content = message["content"].as_array().unwrap().clone();
        content.iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(true), ["thinking", "text"]);
    assert_eq!(kinds(false), ["text"]);
}

#[test]
fn errors_of_invalid_responses_do_not_contain_them() {
    let bodies = [
        json!({}),
        json!([]),
        json!({"choices": []}),
        json!({"choices": "planted"}),
        json!({"choices": [{"finish_reason": "stop"}]}),
        json!({"choices": [{"message": {"content": "planted"}}]}),
        saying(json!({"content": 5}), "stop"),
        saying(json!({"content": [{"type": "audio", "data": "planted"}]}), "stop"),
        saying(json!({"tool_calls": [call("c", "", json!("{}"))]}), "tool_calls"),
        saying(json!({"tool_calls": [call("c", "Read", json!("{\"planted"))]}), "tool_calls"),
        saying(json!({"tool_calls": [call("c", "Read", json!("[\"planted\"]"))]}), "tool_calls"),
        saying(json!({"tool_calls": "planted"}), "tool_calls"),
    ];
    for body in bodies {
        let error = translated(&body, true).unwrap_err();
        assert!(matches!(error, UpstreamError::InvalidResponse { .. }), "{body}: {error:?}");
        assert!(!error.to_string().contains("planted"), "{error}");
    }
    assert!(translate_response(b"<html>", "msg_1", "m", expected(true)).is_err());
}

fn refused(error: UpstreamError) -> (u16, Value) {
    match error {
        UpstreamError::ErrorResponse(refusal) => {
            (refusal.status.as_u16(), serde_json::from_slice(&refusal.body).unwrap())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_error_with_a_success_status_is_an_error() {
    for (error, status, kind, message) in [
        (json!({"message": "Slow down", "code": 429}), 429, "rate_limit_error", "Slow down"),
        (json!({"message": "No", "code": "401"}), 401, "authentication_error", "No"),
        (json!({"message": "Odd", "code": "server_error"}), 500, "api_error", "Odd"),
        (json!({"message": "Odd", "code": 200}), 500, "api_error", "Odd"),
        (json!("Odd"), 500, "api_error", "Odd"),
        (json!({"oops": 1}), 500, "api_error", "The upstream returned an error without a message."),
    ] {
        let (got, envelope) = refused(translated(&json!({"error": error}), true).unwrap_err());
        let expected = json!({"type": "error", "error": {"type": kind, "message": message}});
        assert_eq!((got, envelope), (status, expected), "{error}");
    }
}

#[test]
fn error_bodies_are_translated() {
    let too_long = "This model's maximum context length is 8192 tokens.";
    for (status, body, kind, message) in [
        (
            401,
            json!({"error": {"message": "Incorrect API key", "type": "invalid_request_error", "code": "invalid_api_key"}}),
            "authentication_error",
            "Incorrect API key",
        ),
        (
            403,
            json!({"error": {"message": "Not for you", "type": null, "code": null}}),
            "permission_error",
            "Not for you",
        ),
        (404, json!({"object": "error", "message": "No such model", "code": 404}), "not_found_error", "No such model"),
        (413, json!({"error": "Too large"}), "request_too_large", "Too large"),
        (422, json!({"detail": "Extra fields"}), "invalid_request_error", "Extra fields"),
        (
            429,
            json!({"error": {"message": "Slow down", "code": "rate_limit_exceeded"}}),
            "rate_limit_error",
            "Slow down",
        ),
        (500, json!({"error": {"message": "Oops", "code": 500}}), "api_error", "Oops"),
        (
            503,
            json!({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}),
            "api_error",
            "Loading model",
        ),
        (
            400,
            json!({"error": {"message": "Too much", "code": "context_length_exceeded"}}),
            "invalid_request_error",
            "prompt is too long: Too much",
        ),
        (
            400,
            json!({"error": {"message": "Too much", "type": "exceed_context_size_error", "code": 400}}),
            "invalid_request_error",
            "prompt is too long: Too much",
        ),
        (
            400,
            json!({"object": "error", "message": too_long}),
            "invalid_request_error",
            &format!("prompt is too long: {too_long}"),
        ),
    ] {
        let refusal = UpstreamErrorResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::from_iter([(http::header::RETRY_AFTER, "7".parse().unwrap())]),
            body: body.to_string().into(),
        };
        let enveloped = server_error::wrap_error_body(refusal);
        assert_eq!(enveloped.status.as_u16(), status);
        assert_eq!(enveloped.headers["retry-after"], "7");
        let envelope: Value = serde_json::from_slice(&enveloped.body).unwrap();
        assert_eq!(envelope, json!({"type": "error", "error": {"type": kind, "message": message}}), "{body}");
    }
}

#[test]
fn an_error_body_without_a_message_is_unchanged() {
    for body in
        ["", "<html>", "{}", "[]", r#"{"error":{}}"#, r#"{"error":{"message":""}}"#, r#"{"detail":[{"msg":"x"}]}"#]
    {
        let refusal = UpstreamErrorResponse {
            status: StatusCode::BAD_GATEWAY,
            headers: HeaderMap::new(),
            body: Bytes::from(body),
        };
        assert_eq!(server_error::wrap_error_body(refusal).body, body);
    }
}
