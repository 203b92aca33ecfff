//! The chunking of an upstream's bytes does not change what the client receives.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use hostler_gateway::{
    BetaPolicy, UnknownModelPolicy, Upstream, UpstreamCapabilities, UpstreamError, UpstreamModel, UpstreamRequest,
    UpstreamResponse, UpstreamResponseBody,
};
use http::HeaderMap;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

use crate::support::{Fixture, Reply, TestUpstream, event, short_message};

/// An upstream that answers each request with a list of chunks.
#[derive(Default)]
struct ChunkedUpstream(Mutex<VecDeque<Vec<Bytes>>>);

impl Upstream for ChunkedUpstream {
    fn kind(&self) -> &'static str {
        "chunked"
    }

    fn capabilities(&self) -> UpstreamCapabilities {
        UpstreamCapabilities { betas: BetaPolicy::None, unknown_models: UnknownModelPolicy::Forward }
    }

    fn messages(&self, _call: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamError>> {
        let chunks = self.0.lock().unwrap().pop_front().unwrap();
        let events = stream::iter(chunks.into_iter().map(Ok)).boxed();
        async { Ok(UpstreamResponse { headers: HeaderMap::new(), body: UpstreamResponseBody::Events(events) }) }.boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<UpstreamModel>, UpstreamError>> {
        async { Ok(Vec::new()) }.boxed()
    }
}

/// Sends chunks through a gateway repeatedly.
struct RelayFixture {
    upstream: Arc<ChunkedUpstream>,
    fixture: Fixture,
}

impl RelayFixture {
    async fn new() -> Self {
        let upstream = Arc::new(ChunkedUpstream::default());
        let fixture = Fixture::with(upstream.clone()).await;
        Self { upstream, fixture }
    }

    /// The bytes that the client receives.
    async fn pass<'a>(&self, chunks: impl IntoIterator<Item = &'a [u8]>) -> Bytes {
        let chunks = chunks.into_iter().map(Bytes::copy_from_slice).collect();
        self.upstream.0.lock().unwrap().push_back(chunks);
        let response = self.fixture.stream("hi").await;
        assert_eq!(response.status(), 200);
        response.bytes().await.unwrap()
    }
}

/// A message with a model's id, all kinds of line ends, and bytes that a wrong split would corrupt.
fn message(model: &str) -> Vec<u8> {
    let start = json!({"message": {"id": "m", "model": model, "usage": {"input_tokens": 7, "output_tokens": 1}}});
    let delta = json!({"index": 0, "delta": {"type": "text_delta", "text": "Grüße 🐎"}});
    let end = json!({"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 11}});
    [
        &b": a comment\n\n"[..],
        &event("message_start", start),
        &event("content_block_delta", delta),
        b"event: something_new\r\ndata: 1\r\ndata: 2\r\n\r\n",
        &event("message_delta", end),
        &event("message_stop", json!({})),
    ]
    .concat()
}

#[tokio::test]
async fn splitting_the_upstreams_bytes_anywhere_gives_the_client_equal_bytes() {
    let relayed = RelayFixture::new().await;
    // The first model has another id for the client and is renamed; the second is not.
    for (model, expected) in
        [("claude-sonnet-4.5", message("claude-sonnet-4-5")), ("claude-sonnet-4-5", message("claude-sonnet-4-5"))]
    {
        let bytes = message(model);
        for at in 0..=bytes.len() {
            let (left, right) = bytes.split_at(at);
            assert_eq!(relayed.pass([left, right]).await, expected, "{model} cut at {at}");
        }
        assert_eq!(relayed.pass(bytes.chunks(1)).await, expected, "{model} byte by byte");
    }
    let usage = relayed.fixture.registration.usage();
    assert_eq!(usage.input_tokens, 7 * usage.requests);
    assert_eq!(usage.output_tokens, 11 * usage.requests);
}

#[tokio::test]
async fn every_event_reaches_the_client_before_the_next_one_is_sent() {
    let (chunks, reply) = Reply::stream();
    let upstream = TestUpstream::start([reply]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let mut sent = short_message();
    let last = sent.pop().unwrap();
    chunks.send(Ok(sent.remove(0))).await.unwrap();
    let mut response = fixture.stream("hi").await;
    response.chunk().await.unwrap().unwrap();
    for event in sent.iter().cycle().take(20).chain([&last]) {
        chunks.send(Ok(event.clone())).await.unwrap();
        // The upstream sends nothing until this has arrived.
        assert_eq!(response.chunk().await.unwrap().unwrap(), event);
    }
}

#[test]
fn any_chunking_of_the_upstreams_bytes_gives_the_client_equal_bytes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let relayed = runtime.block_on(RelayFixture::new());
    let (bytes, expected) = (message("claude-sonnet-4.5"), message("claude-sonnet-4-5"));
    let lengths = prop::collection::vec(0..60_usize, 0..40);
    // No persistence: the failure message contains what is needed to repeat it.
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    runner
        .run(&lengths, |lengths| {
            let mut rest = bytes.as_slice();
            let mut chunks = Vec::new();
            for length in lengths {
                let (chunk, behind) = rest.split_at(length.min(rest.len()));
                chunks.push(chunk);
                rest = behind;
            }
            chunks.push(rest);
            prop_assert_eq!(runtime.block_on(relayed.pass(chunks)), &expected[..]);
            Ok(())
        })
        .unwrap();
}
