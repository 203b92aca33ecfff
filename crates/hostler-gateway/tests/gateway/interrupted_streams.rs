//! Streams that end before they report their usage, on every kind of upstream: they are metered by their deltas.

use std::sync::Arc;

use bytes::Bytes;
use hostler_gateway::FixedCredential;
use hostler_gateway_openai::{OpenAiConfig, OpenAiUpstream};
use serde_json::{Value, json};

use crate::mock_copilot::{MESSAGES, MockCopilot};
use crate::support::{Fixture, KEY, Reply, TestUpstream, event, parse};

fn start() -> Bytes {
    event("message_start", json!({"message": {"id": "m", "usage": {"input_tokens": 7, "output_tokens": 1}}}))
}

fn content(delta: Value) -> Bytes {
    event("content_block_delta", json!({"index": 0, "delta": delta}))
}

fn text(text: &str) -> Bytes {
    content(json!({"type": "text_delta", "text": text}))
}

fn report(output: u64) -> Bytes {
    event("message_delta", json!({"delta": {}, "usage": {"output_tokens": output}}))
}

/// The output tokens that a stream of these chunks is charged for.
async fn charged(chunks: Vec<Bytes>) -> u64 {
    let upstream = TestUpstream::start([Reply::events(vec![chunks.concat().into()])]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    fixture.stream("hi").await.bytes().await.unwrap();
    let usage = fixture.registration.usage();
    assert_eq!(usage.dollars.nanos(), usage.input_tokens * 3_000 + usage.output_tokens * 15_000);
    usage.output_tokens
}

#[tokio::test]
async fn a_stream_interrupted_at_ninety_two_percent_is_charged_for_its_deltas() {
    let mut chunks = vec![start()];
    chunks.extend((0..92_000).map(|_| text("word")));
    assert_eq!(charged(chunks).await, 92_000);
}

#[tokio::test]
async fn all_content_of_the_model_counts_and_nothing_else() {
    let chunks = vec![
        start(),
        text(""),
        text("€".repeat(40).as_str()),
        content(json!({"type": "thinking_delta", "thinking": "12345678"})),
        content(json!({"type": "input_json_delta", "partial_json": "{\"a\":\"\n\"}"})),
        content(json!({"type": "signature_delta", "signature": "x".repeat(4_000)})),
        event("ping", json!({})),
        event("content_block_stop", json!({"index": 0})),
    ];
    assert_eq!(charged(chunks).await, (40 * 3 + 8 + 9_u64).div_ceil(4));
}

#[tokio::test]
async fn reported_output_is_a_minimum_and_only_later_content_is_estimated() {
    assert_eq!(charged(vec![start(), text("abcd"), report(500)]).await, 500);
    assert_eq!(charged(vec![start(), text("abcd"), report(500), text("12345678")]).await, 502);
    let big =
        event("message_start", json!({"message": {"id": "m", "usage": {"input_tokens": 7, "output_tokens": 90}}}));
    assert_eq!(charged(vec![big, text("abcd")]).await, 90);
    // A report of zero does not count as a report.
    assert_eq!(charged(vec![start(), text("12345678"), report(0), event("message_stop", json!({}))]).await, 2);
    let whole = vec![start(), text(&"word ".repeat(1_000)), report(3), event("message_stop", json!({}))];
    assert_eq!(charged(whole).await, 3, "an upstream that reports knows better");
}

#[tokio::test]
async fn a_disconnected_client_is_charged_for_what_it_was_sent() {
    let (chunks, reply) = Reply::stream();
    let upstream = TestUpstream::start([reply]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    chunks.send(Ok(start())).await.unwrap();
    let mut response = fixture.stream("hi").await;
    chunks.send(Ok(text(&"word".repeat(1_000)))).await.unwrap();
    let mut read = 0;
    while read < 4_000 {
        read += response.chunk().await.unwrap().unwrap().len();
    }
    drop(response);
    upstream.hung_up().await;
    fixture.gateway.wait_until_idle().await;
    assert_eq!(fixture.registration.usage().output_tokens, 1_000);
    assert_eq!(fixture.gateway.usage_today().output_tokens, 1_000);
}

#[tokio::test]
async fn the_openai_upstream_is_metered_by_its_deltas_too() {
    let piece = |text: &str| {
        let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": null});
        Bytes::from(format!("data: {}\n\n", json!({"id": "c", "model": "m", "choices": [choice]})))
    };
    let upstream = TestUpstream::start([Reply::events(vec![piece(&"word".repeat(50)), piece("word")])]).await;
    let credential = Arc::new(FixedCredential(Some(KEY.into())));
    let config = OpenAiConfig { credential, ..OpenAiConfig::new(upstream.url.clone()) };
    let fixture = Fixture::with(Arc::new(OpenAiUpstream::new(config))).await;
    let cut = parse(&fixture.stream("hi").await.text().await.unwrap());
    assert_eq!(cut.last().unwrap().0, "error");
    assert_eq!(fixture.registration.usage().output_tokens, 51);
}

#[tokio::test]
async fn the_copilot_upstream_is_metered_by_its_deltas_too() {
    let stand_in = MockCopilot::start().await;
    let cut = [start(), text(&"word".repeat(50))].concat();
    stand_in.answer(MESSAGES, 200, String::from_utf8(cut).unwrap());
    let fixture = Fixture::with(Arc::new(stand_in.upstream())).await;
    let cut = parse(&fixture.stream("hi").await.text().await.unwrap());
    assert_eq!(cut.last().unwrap().0, "error");
    assert_eq!(fixture.registration.usage().output_tokens, 50);
}

#[tokio::test]
async fn the_scripted_upstream_is_metered_by_its_deltas_too() {
    let fixture = Fixture::scripted().await;
    let text = "word".repeat(50);
    let cut = parse(&fixture.stream(&format!("!say {text}\n!cut")).await.text().await.unwrap());
    assert_eq!(cut.last().unwrap().0, "error");
    assert!(fixture.registration.usage().output_tokens >= 50);
}
