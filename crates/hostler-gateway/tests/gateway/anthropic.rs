//! The `anthropic` upstream against a server on loopback.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hostler_gateway::{AnthropicConfig, AnthropicUpstream, CredentialHeader, FixedCredential, UpstreamTimeouts};
use serde_json::json;

use crate::support::{Fixture, KEY, Reply, TestUpstream, error, event, events, names, parse, request, short_message};

const OVERLOADED: &str = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
const MESSAGE: &str = r#"{"id":"m","type":"message","content":[],"usage":{"input_tokens":3,"output_tokens":4}}"#;

fn json_reply(status: u16, body: &str) -> Reply {
    Reply::Whole(status, &[("content-type", "application/json"), ("request-id", "req_1")], body.to_owned())
}

#[tokio::test]
async fn an_upstream_request_has_only_forwarded_and_own_headers() {
    let upstream = TestUpstream::start([json_reply(200, MESSAGE)]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let body = request("hi", false);
    let response = fixture
        .client
        .post(fixture.url("/v1/messages?beta=true&x=y"))
        .bearer_auth(fixture.bearer())
        .header("x-api-key", "the client's own")
        .header("anthropic-version", "2023-06-01")
        .header("anthropic-beta", "one-2025-01-01, two")
        .header("anthropic-beta", "three")
        .header("x-app", "cli")
        .header("cookie", "a=b")
        .header("user-agent", "claude-cli/1")
        .body(body.clone())
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["request-id"], "req_1");
    assert_eq!(response.text().await.unwrap(), MESSAGE);

    let [received] = upstream.received().try_into().unwrap();
    assert_eq!(received.path, "/base/v1/messages?beta=true");
    assert_eq!(received.body, body);
    let mut headers: Vec<(&str, &str)> =
        received.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    headers.retain(|(name, _)| !["host", "content-length", "accept"].contains(name));
    headers.sort_unstable();
    assert_eq!(
        headers,
        [
            ("anthropic-beta", "one-2025-01-01,two,three"),
            ("anthropic-version", "2023-06-01"),
            ("content-type", "application/json"),
            ("user-agent", concat!("hostler-gateway/", env!("CARGO_PKG_VERSION"))),
            ("x-api-key", KEY),
        ]
    );
}

#[tokio::test]
async fn a_bearer_credential_is_sent_in_the_authorization_header() {
    let upstream = TestUpstream::start([json_reply(200, MESSAGE)]).await;
    let config = AnthropicConfig { credential_header: CredentialHeader::Bearer, ..upstream.config() };
    let fixture = Fixture::with(Arc::new(AnthropicUpstream::new(config))).await;
    fixture.whole("hi").await;
    let [received] = upstream.received().try_into().unwrap();
    assert_eq!(received.headers["authorization"], format!("Bearer {KEY}"));
    assert!(!received.headers.contains_key("x-api-key"));
}

#[tokio::test]
async fn a_stream_passes_byte_for_byte_in_any_chunking() {
    let mut bytes = b": a comment at the beginning\n\n".to_vec();
    bytes.extend(short_message().concat());
    bytes.extend_from_slice(b": a comment at the end\n\n");
    for size in [1, 7, 64, bytes.len()] {
        let (chunks, reply) = Reply::stream();
        let upstream = TestUpstream::start([reply]).await;
        let fixture = Fixture::anthropic(&upstream).await;
        let sent = bytes.clone();
        let sender = tokio::spawn(async move {
            for chunk in sent.chunks(size) {
                chunks.send(Ok(Bytes::copy_from_slice(chunk))).await.unwrap();
            }
        });
        assert_eq!(fixture.stream("hi").await.bytes().await.unwrap(), bytes, "chunks of {size}");
        sender.await.unwrap();
    }
}

#[tokio::test]
async fn each_event_passes_as_soon_as_it_arrives() {
    let (chunks, reply) = Reply::stream();
    let upstream = TestUpstream::start([reply]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let message = short_message();
    chunks.send(Ok(message[0].clone())).await.unwrap();
    let mut response = fixture.stream("hi").await;
    assert_eq!(response.chunk().await.unwrap().unwrap(), message[0]);
    for event in &message[1..] {
        chunks.send(Ok(event.clone())).await.unwrap();
        assert_eq!(response.chunk().await.unwrap().unwrap(), event);
    }
    assert_eq!(fixture.gateway.requests_in_flight(), 1);
    drop(chunks);
    assert_eq!(response.chunk().await.unwrap(), None);
    fixture.gateway.wait_until_idle().await;
}

#[tokio::test]
async fn errors_pass_with_status_envelope_and_retry_after() {
    for (status, kind) in [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
    ] {
        let body = json!({"type": "error", "error": {"type": kind, "message": "no"}, "request_id": "r"}).to_string();
        let reply = Reply::Whole(status, &[("retry-after", "77"), ("x-internal", "secret")], body.clone());
        let upstream = TestUpstream::start([reply]).await;
        let fixture = Fixture::anthropic(&upstream).await;
        let response = fixture.stream("hi").await;
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.headers()["retry-after"], "77");
        assert!(!response.headers().contains_key("x-internal"));
        assert_eq!(response.text().await.unwrap(), body);
    }
}

#[tokio::test]
async fn an_error_without_an_envelope_gets_one() {
    let upstream =
        TestUpstream::start([Reply::Whole(500, &[("content-type", "text/html")], "<html>oops".to_owned())]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let (status, kind, message) = error(fixture.stream("hi").await).await;
    assert_eq!((status, kind.as_str()), (500, "api_error"));
    assert_eq!(message, "Upstream request failed: the upstream returned status 500 Internal Server Error.");
}

#[tokio::test]
async fn invalid_responses_become_502() {
    for reply in [
        Reply::Whole(302, &[("location", "http://127.0.0.1:1/")], String::new()),
        Reply::Whole(200, &[("content-type", "text/html")], "<html>".to_owned()),
        Reply::events(vec![]),
        Reply::events(vec![Bytes::from_static(b"event: message_start\ndata: {")]),
    ] {
        let upstream = TestUpstream::start([reply]).await;
        let fixture = Fixture::anthropic(&upstream).await;
        assert_eq!(error(fixture.stream("hi").await).await.0, 502);
        assert_eq!(upstream.received().len(), 1);
    }
}

#[tokio::test]
async fn an_error_event_in_first_place_becomes_an_error_response() {
    let first = event("error", json!({"error": {"type": "overloaded_error", "message": "Overloaded"}}));
    let upstream = TestUpstream::start([Reply::events(vec![first])]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let expected = (529, "overloaded_error".to_owned(), "Overloaded".to_owned());
    assert_eq!(error(fixture.stream("hi").await).await, expected);
}

#[tokio::test]
async fn an_interrupted_stream_ends_with_one_error_event_and_no_partial_event() {
    let cut = || Err(std::io::Error::other("cut"));
    let half = Bytes::from_static(b"event: content_block_delta\ndata: {\"type\":\"content");
    let start = short_message().swap_remove(0);
    for (chunks, clean_end) in [
        (vec![Ok(start.clone()), Ok(half.clone()), cut()], false),
        (vec![Ok(start.clone()), Ok(half.clone())], true),
        (vec![Ok(start.clone()), cut()], false),
        (vec![Ok(start.clone())], true),
    ] {
        let (sender, reply) = Reply::stream();
        let upstream = TestUpstream::start([reply]).await;
        let fixture = Fixture::anthropic(&upstream).await;
        let mut chunks = chunks.into_iter();
        sender.send(chunks.next().unwrap()).await.unwrap();
        // The stream starts before it is interrupted: unread bytes may be lost together with the connection.
        let mut response = fixture.stream("hi").await;
        let mut text = response.chunk().await.unwrap().unwrap().to_vec();
        for chunk in chunks {
            sender.send(chunk).await.unwrap();
        }
        drop(sender);
        while let Some(chunk) = response.chunk().await.unwrap() {
            text.extend_from_slice(&chunk);
        }
        let events = parse(std::str::from_utf8(&text).unwrap());
        assert_eq!(names(&events), ["message_start", "error"], "clean end: {clean_end}");
        assert_eq!(events[1].1["error"]["type"], "api_error");
    }
}

#[tokio::test]
async fn an_error_event_of_the_upstream_is_not_duplicated() {
    let mut chunks = short_message();
    chunks.truncate(1);
    chunks.push(event("error", json!({"error": {"type": "overloaded_error", "message": "Overloaded"}})));
    let upstream = TestUpstream::start([Reply::events(chunks)]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let events = events(fixture.stream("hi").await).await;
    assert_eq!(names(&events), ["message_start", "error"]);
    assert_eq!(events[1].1["error"]["type"], "overloaded_error");
}

#[tokio::test]
async fn a_temporary_overload_is_retried() {
    let overloaded = || json_reply(529, OVERLOADED);
    let upstream = TestUpstream::start([overloaded(), overloaded(), Reply::events(short_message())]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    assert_eq!(names(&events(fixture.stream("hi").await).await).last(), Some(&"message_stop"));
    assert_eq!(upstream.received().len(), 3);
    assert_eq!(fixture.registration.usage().requests, 1);
}

#[tokio::test]
async fn a_lasting_overload_is_reported_after_two_retries() {
    let upstream = TestUpstream::start((0..3).map(|_| json_reply(529, OVERLOADED))).await;
    let fixture = Fixture::anthropic(&upstream).await;
    assert_eq!(error(fixture.stream("hi").await).await.0, 529);
    assert_eq!(upstream.received().len(), 3);
}

#[tokio::test]
async fn an_unreachable_upstream_becomes_502() {
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let config = AnthropicConfig::new(format!("http://user:planted-password@{gone}").parse().unwrap());
    assert!(!format!("{config:?}").contains("planted"));
    let fixture = Fixture::with(Arc::new(AnthropicUpstream::new(config))).await;
    let (status, kind, message) = error(fixture.stream("hi").await).await;
    assert_eq!((status, kind.as_str()), (502, "api_error"));
    assert!(message.contains("failed to connect") && !message.contains("planted"), "{message}");
}

#[tokio::test]
async fn an_upstream_without_a_response_becomes_504() {
    let upstream = TestUpstream::start([Reply::Silence]).await;
    let config = AnthropicConfig {
        // Long enough for the request to arrive on a busy machine.
        timeouts: UpstreamTimeouts { read: Duration::from_secs(1), ..UpstreamTimeouts::default() },
        ..upstream.config()
    };
    let fixture = Fixture::with(Arc::new(AnthropicUpstream::new(config))).await;
    let (status, kind, _) = error(fixture.stream("hi").await).await;
    assert_eq!((status, kind.as_str()), (504, "timeout_error"));
    upstream.arrived(1).await;
    assert_eq!(upstream.received().len(), 1, "a timeout is not retried");
}

#[tokio::test]
async fn an_internal_error_is_reported_by_its_id_only() {
    let upstream = TestUpstream::start([]).await;
    let config =
        AnthropicConfig { credential: Arc::new(FixedCredential(Some("planted\nkey".into()))), ..upstream.config() };
    let fixture = Fixture::with(Arc::new(AnthropicUpstream::new(config))).await;
    let (status, kind, message) = error(fixture.stream("hi").await).await;
    assert_eq!((status, kind.as_str()), (500, "api_error"));
    assert!(message.starts_with("Internal error of the gateway. The host's log has the cause under "), "{message}");
}
