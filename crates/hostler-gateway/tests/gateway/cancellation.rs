//! Cancellation by the client, the lease or the gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::future::{self, BoxFuture};
use futures::{FutureExt, StreamExt, stream};
use hostler_gateway::{
    BetaPolicy, UnknownModelPolicy, Upstream, UpstreamCapabilities, UpstreamError, UpstreamModel, UpstreamRequest,
    UpstreamResponse, UpstreamResponseBody,
};
use http::HeaderMap;
use secrecy::ExposeSecret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Fixture, Reply, TestUpstream, error, lease, names, parse, request, short_message};

#[tokio::test]
async fn a_client_disconnect_during_a_stream_cancels_the_upstream_call() {
    let (chunks, reply) = Reply::stream();
    let upstream = TestUpstream::start([reply]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    chunks.send(Ok(short_message().swap_remove(0))).await.unwrap();
    let response = fixture.stream("hi").await;
    drop(response);
    upstream.hung_up().await;
    fixture.gateway.wait_until_idle().await;
    // The lease is charged for the events until then.
    assert_eq!(fixture.registration.usage().input_tokens, 7);
}

#[tokio::test]
async fn a_client_disconnect_before_the_first_event_cancels_the_upstream_call() {
    let (_chunks, begun) = Reply::stream();
    for reply in [Reply::Silence, begun] {
        let upstream = TestUpstream::start([reply]).await;
        let fixture = Fixture::anthropic(&upstream).await;
        {
            let waiting = std::pin::pin!(fixture.stream("hi"));
            future::select(waiting, std::pin::pin!(upstream.arrived(1))).await;
        }
        // The client's pool retains the connection of a dropped request, so the whole client is dropped.
        drop(fixture.client);
        upstream.hung_up().await;
        fixture.gateway.wait_until_idle().await;
    }
}

#[tokio::test]
async fn revoking_a_lease_ends_only_its_own_requests() {
    let fixture = Fixture::scripted().await;
    let other = fixture.gateway.register(lease());
    let mut ending = fixture.stream("!say a\n!hang").await;
    let sent = fixture.client.post(fixture.url("/v1/messages"));
    let staying =
        sent.bearer_auth(other.bearer().expose_secret()).body(request("!say a\n!hang", true)).send().await.unwrap();
    let first = ending.chunk().await.unwrap().unwrap();
    let Fixture { gateway, registration, client: _client, .. } = fixture;
    drop(registration);
    let mut text = first.to_vec();
    while let Some(chunk) = ending.chunk().await.unwrap() {
        text.extend_from_slice(&chunk);
    }
    assert_eq!(names(&parse(std::str::from_utf8(&text).unwrap())).last(), Some(&"error"));
    assert_eq!(gateway.requests_in_flight(), 1);
    drop(staying);
    gateway.wait_until_idle().await;
}

#[tokio::test]
async fn stopping_ends_open_streams_with_an_error_event() {
    let fixture = Fixture::scripted().await;
    let responses = future::join_all((0..8).map(|_| fixture.stream("!say a b\n!hang"))).await;
    assert_eq!(fixture.gateway.requests_in_flight(), 8);
    fixture.gateway.stop().await;
    assert_eq!(fixture.gateway.requests_in_flight(), 0);
    for response in responses {
        let events = parse(&response.text().await.unwrap());
        assert_eq!(names(&events).last(), Some(&"error"));
        assert!(!names(&events).contains(&"message_stop"));
    }
    assert!(fixture.client.get(fixture.url("/")).send().await.unwrap_err().is_connect());
}

#[tokio::test]
async fn stopping_adds_no_error_to_a_complete_message() {
    let (chunks, reply) = Reply::stream();
    let upstream = TestUpstream::start([reply]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let message = Bytes::from(short_message().concat());
    chunks.send(Ok(message.clone())).await.unwrap();
    let response = fixture.stream("hi").await;
    fixture.gateway.stop().await;
    assert_eq!(response.bytes().await.unwrap(), message);
    upstream.hung_up().await;
}

#[tokio::test]
async fn stopping_answers_requests_that_wait_for_their_first_event() {
    let upstream = TestUpstream::start([Reply::Silence]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let (response, ()) = tokio::join!(fixture.stream("hi"), async {
        upstream.arrived(1).await;
        fixture.gateway.stop().await;
    });
    let (status, kind, _) = error(response).await;
    assert_eq!((status, kind.as_str()), (503, "api_error"));
    upstream.hung_up().await;
}

#[tokio::test]
async fn stopping_leaves_no_task_if_a_client_does_not_read() {
    let fixture = Fixture::scripted().await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let body = request("!huge 50000000", true);
    let mut stuck = TcpStream::connect(fixture.gateway.address()).await.unwrap();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
        fixture.bearer(),
        body.len()
    );
    stuck.write_all(head.as_bytes()).await.unwrap();
    stuck.write_all(body.as_bytes()).await.unwrap();
    assert_ne!(stuck.read(&mut [0; 16]).await.unwrap(), 0);
    let idle = TcpStream::connect(fixture.gateway.address()).await.unwrap();
    assert!(tasks() >= 2);
    fixture.gateway.stop().await;
    assert_eq!(tasks(), 0);
    assert_eq!(fixture.gateway.requests_in_flight(), 0);
    drop((stuck, idle));
}

/// An upstream with an endless stream, which counts the chunks that were read.
struct EndlessUpstream {
    taken: Arc<AtomicUsize>,
}

const ENDLESS_STREAM_BYTES: usize = 96 << 20;

impl Upstream for EndlessUpstream {
    fn kind(&self) -> &'static str {
        "chatterbox"
    }

    fn capabilities(&self) -> UpstreamCapabilities {
        UpstreamCapabilities { betas: BetaPolicy::All, unknown_models: UnknownModelPolicy::Forward }
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<UpstreamModel>, UpstreamError>> {
        future::ready(Ok(Vec::new())).boxed()
    }

    fn messages(&self, _: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamError>> {
        let event = Bytes::from(format!("event: filler\ndata: {}\n\n", "x".repeat(1 << 16)));
        let taken = self.taken.clone();
        let events = stream::repeat(event).take(ENDLESS_STREAM_BYTES >> 16).map(move |event| {
            taken.fetch_add(event.len(), Ordering::Relaxed);
            Ok(event)
        });
        let answer = UpstreamResponse { headers: HeaderMap::new(), body: UpstreamResponseBody::Events(events.boxed()) };
        future::ready(Ok(answer)).boxed()
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_applies_backpressure_to_the_upstream() {
    let taken = Arc::new(AtomicUsize::new(0));
    let fixture = Fixture::with(Arc::new(EndlessUpstream { taken: taken.clone() })).await;
    let response = fixture.stream("hi").await;
    // All tasks of this test run on one thread: a gateway that reads ahead would have read everything by then.
    for _ in 0..20_000 {
        tokio::task::yield_now().await;
    }
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken > 0 && taken < ENDLESS_STREAM_BYTES / 2, "{taken} bytes were taken though the client reads nothing");
    drop(response);
    fixture.gateway.wait_until_idle().await;
}

#[tokio::test]
async fn dropping_the_gateway_stops_it() {
    let fixture = Fixture::scripted().await;
    let response = fixture.stream("!say a\n!hang").await;
    drop(fixture.gateway);
    let events = parse(&response.text().await.unwrap());
    assert_eq!(names(&events).last(), Some(&"error"));
}
