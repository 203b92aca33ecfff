use hostler_gateway::UsageTotals;

use crate::support::{Fixture, Reply, TestUpstream, lease, short_message};

const SHORT: UsageTotals =
    UsageTotals { requests: 1, input_tokens: 7, output_tokens: 11, cache_read_tokens: 5, cache_write_tokens: 3 };

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
async fn a_whole_message_is_metered() {
    let body = r#"{"type":"message","usage":{"input_tokens":7,"output_tokens":11,"cache_read_input_tokens":5,"cache_creation_input_tokens":3}}"#;
    let upstream = TestUpstream::start([Reply::Whole(200, &[], body.to_owned())]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    fixture.whole("hi").await;
    assert_eq!(fixture.registration.usage(), SHORT);
}

#[tokio::test]
async fn a_running_stream_is_metered_as_it_passes() {
    let (chunks, reply) = Reply::stream();
    let upstream = TestUpstream::start([reply]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let message = short_message();
    chunks.send(Ok(message[0].clone())).await.unwrap();
    let mut response = fixture.stream("hi").await;
    assert_eq!(fixture.registration.usage(), UsageTotals { output_tokens: 1, ..SHORT });
    response.chunk().await.unwrap();
    chunks.send(Ok(message[2].clone())).await.unwrap();
    response.chunk().await.unwrap();
    assert_eq!(fixture.registration.usage(), SHORT);
}

#[tokio::test]
async fn events_whose_counts_cannot_be_read_pass_all_the_same() {
    let strange = "event: message_start\ndata: {\"message\":{\"usage\":\"much\"}}\n\nevent: message_delta\ndata: not json\n\nevent: message_stop\ndata: {}\n\n";
    let upstream = TestUpstream::start([Reply::events(vec![strange.into()])]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    assert_eq!(fixture.stream("hi").await.text().await.unwrap(), strange);
    assert_eq!(fixture.registration.usage(), UsageTotals { requests: 1, ..UsageTotals::default() });
}
