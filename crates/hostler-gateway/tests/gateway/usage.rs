//! Metering of tokens and dollars.

use hostler_gateway::{Dollars, UsageTotals};
use serde_json::json;

use crate::support::{Fixture, Reply, TestUpstream, event, lease, short_message};

/// At 3, 15, 0.3 and 3.75 dollars per million tokens.
const SHORT: UsageTotals = UsageTotals {
    requests: 1,
    input_tokens: 7,
    output_tokens: 11,
    cache_read_tokens: 5,
    cache_write_tokens: 3,
    dollars: Dollars::from_nanos(198_750),
    unpriced_tokens: 0,
};

#[tokio::test]
async fn a_stream_is_metered_once() {
    let upstream = TestUpstream::start([Reply::events(short_message())]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let bystander = fixture.gateway.register(lease());
    fixture.stream("hi").await.bytes().await.unwrap();
    assert_eq!(fixture.registration.usage(), SHORT);
    assert_eq!(bystander.usage(), UsageTotals::default());
}

#[tokio::test]
async fn a_complete_message_is_metered() {
    let body = r#"{"type":"message","usage":{"input_tokens":7,"output_tokens":11,"cache_read_input_tokens":5,"cache_creation_input_tokens":3}}"#;
    let upstream = TestUpstream::start([Reply::Whole(200, &[], body.to_owned())]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    fixture.whole("hi").await;
    assert_eq!(fixture.registration.usage(), SHORT);
}

#[tokio::test]
async fn a_running_stream_is_metered_as_events_pass() {
    let (chunks, reply) = Reply::stream();
    let upstream = TestUpstream::start([reply]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let message = short_message();
    chunks.send(Ok(message[0].clone())).await.unwrap();
    let mut response = fixture.stream("hi").await;
    assert_eq!(
        fixture.registration.usage(),
        UsageTotals { output_tokens: 1, dollars: Dollars::from_nanos(48_750), ..SHORT }
    );
    response.chunk().await.unwrap();
    chunks.send(Ok(message[2].clone())).await.unwrap();
    response.chunk().await.unwrap();
    assert_eq!(fixture.registration.usage(), SHORT);
}

#[tokio::test]
async fn events_with_invalid_counts_are_forwarded() {
    let strange = "event: message_start\ndata: {\"message\":{\"usage\":\"much\"}}\n\nevent: message_delta\ndata: not json\n\nevent: message_stop\ndata: {}\n\n";
    let upstream = TestUpstream::start([Reply::events(vec![strange.into()])]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    assert_eq!(fixture.stream("hi").await.text().await.unwrap(), strange);
    assert_eq!(fixture.registration.usage(), UsageTotals { requests: 1, ..UsageTotals::default() });
}

#[tokio::test]
async fn counts_that_shrink_and_grow_again_are_charged_once() {
    let delta = |output: u64| event("message_delta", json!({"delta": {}, "usage": {"output_tokens": output}}));
    let events = vec![delta(10), delta(5), delta(10), delta(12), event("message_stop", json!({}))];
    let upstream = TestUpstream::start([Reply::events(events)]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    fixture.stream("hi").await.bytes().await.unwrap();
    let usage = fixture.registration.usage();
    assert_eq!((usage.output_tokens, usage.dollars), (12, Dollars::from_nanos(12 * 15_000)));
}

#[tokio::test]
async fn cache_writes_for_an_hour_cost_more() {
    let usage = json!({
        "input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    });
    let body = json!({"type": "message", "usage": usage}).to_string();
    let upstream = TestUpstream::start([Reply::Whole(200, &[], body)]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    fixture.whole("hi").await;
    let usage = fixture.registration.usage();
    assert_eq!((usage.cache_write_tokens, usage.dollars), (30, Dollars::from_nanos(10 * 3_750 + 20 * 6_000)));
}
