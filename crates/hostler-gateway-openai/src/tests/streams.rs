//! Translation of streams.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use bytes::Bytes;
use futures::{StreamExt, stream};
use hostler_gateway::UpstreamError;
use serde_json::{Value, json};

use crate::request::ResponseContext;
use crate::stream::StreamTranslator;
use crate::{OpenAiConfig, OpenAiUpstream};

pub(super) fn translator(reasoning: bool) -> StreamTranslator {
    let expected = ResponseContext { include_reasoning: reasoning, call_ids: HashSet::from(["call_0".to_owned()]) };
    StreamTranslator::new("msg_1".to_owned(), "asked-model".to_owned(), expected)
}

/// Translates these bytes; returns the output and how it ends.
pub(super) fn translated<'a>(
    mut translator: StreamTranslator,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (String, Result<(), UpstreamError>) {
    let mut written = Vec::new();
    for chunk in chunks {
        written.extend_from_slice(&translator.push(Bytes::copy_from_slice(chunk)));
        if let Some(outcome) = translator.take_outcome() {
            return (String::from_utf8(written).unwrap(), outcome);
        }
    }
    written.extend_from_slice(&translator.finish());
    (String::from_utf8(written).unwrap(), translator.take_outcome().expect("over at the end"))
}

/// The bytes of a stream with these chunks.
pub(super) fn sse(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

pub(super) fn delta(delta: Value) -> Value {
    json!({"id": "chatcmpl-1", "model": "real-model", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

pub(super) fn finish(reason: &str) -> Value {
    json!({"id": "chatcmpl-1", "model": "real-model", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn piece(index: u64, id: &str, name: &str, arguments: &str) -> Value {
    json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn more(index: u64, arguments: &str) -> Value {
    json!({"index": index, "function": {"arguments": arguments}})
}

fn calls(pieces: Value) -> Value {
    delta(json!({"tool_calls": pieces}))
}

fn done(chunks: &[Value]) -> String {
    sse(chunks) + "data: [DONE]\n\n"
}

pub(super) fn cases() -> Vec<(&'static str, String)> {
    let text = |text: &str| delta(json!({"content": text}));
    let reasoning = |text: &str| delta(json!({"reasoning_content": text}));
    let usage = json!({"prompt_tokens": 20, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 12}});
    vec![
        (
            "text, with the counts in a last chunk of their own",
            done(&[
                delta(json!({"role": "assistant", "content": ""})),
                text("hel"),
                text(""),
                delta(json!({"content": null})),
                text("lo\n\n"),
                finish("stop"),
                json!({"choices": [], "usage": usage}),
            ]),
        ),
        (
            "counts in every chunk, of which the last are right",
            done(&[
                json!({"model": "m", "choices": [{"delta": {"content": "a"}}], "usage": {"prompt_tokens": 20, "completion_tokens": 1}}),
                json!({"choices": [{"delta": {"content": "b"}, "finish_reason": "length"}], "usage": {"prompt_tokens": 20, "completion_tokens": 2}}),
            ]),
        ),
        ("no last marker, but a finish reason", sse(&[text("hello"), finish("stop")])),
        (
            "comments and line ends of all sorts",
            format!(
                ": processing\n\ndata: {}\r\n\r\n: still here\n\nevent: chunk\ndata:{}\r\rdata: {}\n\ndata: [DONE]\n\nnonsense",
                text("a"),
                text("b"),
                finish("stop")
            ),
        ),
        (
            "reasoning, blank text and a tool call",
            done(&[
                reasoning("h"),
                delta(json!({"reasoning": "m"})),
                text("\n"),
                text("\n"),
                calls(json!([piece(0, "call_1", "Read", "")])),
                calls(json!([more(0, "{\"path\"")])),
                calls(json!([more(0, ": \"/a\"}")])),
                finish("tool_calls"),
            ]),
        ),
        ("blank text before text", done(&[text("\n"), text(" a"), finish("stop")])),
        (
            "parallel calls, one after the other",
            done(&[
                text("I read both."),
                calls(json!([piece(0, "call_1", "Read", "{\"n\"")])),
                calls(json!([more(0, ":1}")])),
                calls(json!([piece(1, "call_2", "Read", "")])),
                calls(json!([more(1, "{\"n\":2}")])),
                finish("tool_calls"),
            ]),
        ),
        (
            "parallel calls, mixed",
            done(&[
                calls(json!([piece(0, "call_1", "Read", "{\"n\""), piece(1, "call_2", "Read", "{\"n\"")])),
                calls(json!([more(1, ":2"), more(0, ":1")])),
                calls(json!([more(0, "}"), more(1, "}")])),
                finish("tool_calls"),
            ]),
        ),
        (
            "whole calls in one chunk, all with the same number, and stop as the reason",
            done(&[
                calls(json!([piece(0, "call_1", "Read", "{\"n\":1}"), piece(0, "call_2", "List", "{}")])),
                calls(json!([piece(0, "", "Read", "{\"n\":3}")])),
                finish("stop"),
            ]),
        ),
        (
            "calls without numbers, with arguments as objects",
            done(&[
                calls(json!([
                    {"id": "call_1", "function": {"name": "Read", "arguments": {"n": 1}}},
                    {"id": "call_2", "function": {"name": "Read", "arguments": {"n": 2}}},
                ])),
                finish("tool_calls"),
            ]),
        ),
        (
            "a call whose pieces all have a name, and one whose pieces have ids of their own",
            done(&[
                calls(json!([piece(0, "call_1", "Read", "{\"n\"")])),
                calls(json!([piece(0, "call_1", "Read", ":1}")])),
                calls(json!([piece(0, "call_1", "Read", "")])),
                calls(json!([piece(1, "call_2", "Read", "{\"n\"")])),
                calls(json!([{"index": 1, "id": "call_3", "function": {"arguments": ":2}"}}])),
                finish("tool_calls"),
            ]),
        ),
        (
            "ids that will not do, arguments that are none, a name that comes late",
            done(&[
                calls(json!([piece(0, "call_0", "Read", "")])),
                calls(json!([{"index": 1, "id": "call_1"}])),
                calls(json!([{"index": 1, "function": {"name": "List"}}])),
                calls(json!([more(1, "{}")])),
                calls(json!([{"index": 2, "id": null, "function": {"name": "List", "arguments": "{}"}}])),
                finish("tool_calls"),
            ]),
        ),
        (
            "text between calls",
            done(&[
                calls(json!([piece(0, "call_1", "Read", "{}")])),
                text("and"),
                calls(json!([more(0, " \n"), piece(1, "call_2", "Read", "{}")])),
                finish("tool_calls"),
            ]),
        ),
        (
            "a call that the limit has cut",
            done(&[calls(json!([piece(0, "call_1", "Read", "{\"pa")])), finish("length")]),
        ),
        ("a refusal", done(&[delta(json!({"refusal": "I won't."})), finish("stop")])),
        ("a filter", done(&[text("Well"), finish("content_filter")])),
        (
            "a second choice is not ours",
            done(&[
                json!({"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]}),
                finish("stop"),
            ]),
        ),
        (
            "an error in the middle",
            sse(&[text("a"), json!({"error": {"message": "Out of memory", "code": 503}})]) + "data: [DONE]\n\n",
        ),
        ("an error at once", sse(&[json!({"error": {"message": "Slow down", "code": 429}})])),
        ("an end without a reason", sse(&[text("a")])),
        ("a marker without a reason", done(&[text("a")])),
        ("nothing at all", String::new()),
        ("a server that gives up", done(&[text("a"), finish("error")])),
        ("half a chunk", sse(&[text("a")]) + "data: {\"choices\""),
        ("a chunk that is no JSON", sse(&[text("a")]) + "data: {\"choices\"\n\n"),
        ("a chunk of another shape", sse(&[text("a"), json!({"choices": {"planted": 1}})])),
        (
            "arguments that end too soon",
            done(&[calls(json!([piece(0, "call_1", "Read", "{\"pa")])), finish("tool_calls")]),
        ),
        (
            "arguments that are no object",
            done(&[calls(json!([piece(0, "call_1", "Read", "null")])), finish("tool_calls")]),
        ),
        ("arguments without a name", done(&[calls(json!([more(0, "{}")])), finish("tool_calls")])),
        ("a call without a name", done(&[calls(json!([{"index": 0, "id": "call_1"}])), finish("tool_calls")])),
        (
            "more for a call that is whole",
            done(&[calls(json!([piece(0, "call_1", "Read", "{}")])), text("a"), calls(json!([more(0, "{}")]))]),
        ),
    ]
}

/// Each event on one line, without the fields that every event repeats.
fn shown(written: &str) -> String {
    let mut lines = String::new();
    for event in written.split_terminator("\n\n") {
        let (name, data) = event.split_once('\n').unwrap();
        let name = name.strip_prefix("event: ").unwrap();
        let mut data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(data.as_object_mut().unwrap().remove("type").unwrap(), name);
        lines.push_str(&format!("{name} {data}\n"));
    }
    lines
}

fn describe_outcome(outcome: Result<(), UpstreamError>) -> String {
    match outcome {
        Ok(()) => "over".to_owned(),
        Err(UpstreamError::ErrorResponse(refusal)) => {
            format!("refused: {} {}", refusal.status, String::from_utf8_lossy(&refusal.body))
        }
        Err(error) => format!("failed: {error}"),
    }
}

#[test]
fn streams_are_translated() {
    let mut page = String::new();
    for (title, bytes) in cases() {
        let (written, outcome) = translated(translator(true), [bytes.as_bytes()]);
        page.push_str(&format!("# {title}\n{}{}\n\n", shown(&written), describe_outcome(outcome)));
    }
    insta::assert_snapshot!(page);
}

#[test]
fn every_block_is_opened_and_closed_once_and_in_order() {
    for (title, bytes) in cases() {
        let (written, outcome) = translated(translator(true), [bytes.as_bytes()]);
        let (mut next, mut open) = (0, HashSet::new());
        for line in shown(&written).lines() {
            let (name, data) = line.split_once(' ').unwrap();
            let index = serde_json::from_str::<Value>(data).unwrap()["index"].as_u64();
            match name {
                "content_block_start" => {
                    assert_eq!(index, Some(next), "{title}");
                    assert!(open.insert(index));
                    next += 1;
                }
                "content_block_delta" => assert!(open.contains(&index), "{title}"),
                "content_block_stop" => assert!(open.remove(&index), "{title}"),
                "message_delta" => assert!(open.is_empty(), "{title}"),
                _ => {}
            }
        }
        assert_eq!(
            outcome.is_ok(),
            written.contains("event: message_stop") || written.contains("event: error"),
            "{title}"
        );
    }
}

#[test]
fn reasoning_that_was_not_requested_keeps_the_stream_alive() {
    let bytes = done(&[delta(json!({"reasoning_content": "hm"})), delta(json!({"content": "hello"})), finish("stop")]);
    let (written, _) = translated(translator(false), [bytes.as_bytes()]);
    let names: Vec<String> = shown(&written).lines().map(|line| line.split_once(' ').unwrap().0.to_owned()).collect();
    assert_eq!(
        names,
        [
            "message_start",
            "ping",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
}

#[test]
fn the_message_starts_with_the_first_chunk() {
    let mut translator = translator(true);
    let first = sse(&[delta(json!({"role": "assistant"}))]);
    let written = translator.push(Bytes::from(first));
    assert_eq!(shown(std::str::from_utf8(&written).unwrap()).lines().count(), 1);
    assert!(translator.take_outcome().is_none());
}

#[tokio::test]
async fn a_finished_stream_is_read_to_its_end() {
    let ended = Arc::new(AtomicBool::new(false));
    let sees_the_end = ended.clone();
    let end = stream::poll_fn(move |_| {
        sees_the_end.store(true, Ordering::Relaxed);
        Poll::Ready(None)
    });
    let bytes = done(&[delta(json!({"content": "hello"})), finish("stop")]);
    let chunks = stream::iter([Ok(Bytes::from(bytes))]).chain(end).boxed();
    let upstream = OpenAiUpstream::new(OpenAiConfig::new("http://127.0.0.1:1".parse().unwrap()));
    let events: Vec<_> = upstream.translate_stream(chunks, translator(true)).collect().await;
    assert!(events.last().unwrap().as_ref().unwrap().ends_with(b"data: {\"type\":\"message_stop\"}\n\n"));
    assert!(ended.load(Ordering::Relaxed));
}

#[test]
fn a_stream_with_too_many_tool_calls_fails() {
    let chunks: Vec<Value> = (0..2000).map(|n| calls(json!([piece(n, "", "Read", "{}")]))).collect();
    let (_, outcome) = translated(translator(true), [done(&chunks).as_bytes()]);
    assert!(matches!(outcome, Err(UpstreamError::InvalidResponse { .. })));
}
