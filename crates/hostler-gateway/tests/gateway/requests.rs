//! Routes, validation, size limits and observers.

use bytes::Bytes;
use futures::stream;

use crate::support::{Fixture, error, request};

#[tokio::test]
async fn unknown_routes_are_not_found() {
    let fixture = Fixture::scripted().await;
    for (method, path) in
        [("GET", "/v1/messages"), ("POST", "/v1/messages/"), ("GET", "/v2"), ("DELETE", "/"), ("POST", "/v1/complete")]
    {
        let sent = fixture.client.request(method.parse().unwrap(), fixture.url(path)).bearer_auth(fixture.bearer());
        let (status, kind, message) = error(sent.send().await.unwrap()).await;
        assert_eq!((status, kind.as_str()), (404, "not_found_error"), "{method} {path}");
        assert!(message.contains(path));
    }
}

#[tokio::test]
async fn an_invalid_body_is_rejected() {
    let fixture = Fixture::scripted().await;
    for body in ["", "no json", "[]", r#"{"messages":[]}"#, r#"{"model":"m"}"#, r#"{"model":"","messages":[]}"#] {
        let (status, kind, _) = error(fixture.post(body).await).await;
        assert_eq!((status, kind.as_str()), (400, "invalid_request_error"), "{body}");
    }
    assert_eq!(fixture.registration.usage().requests, 0);
}

#[tokio::test]
async fn a_body_over_the_limit_is_rejected_with_and_without_a_length() {
    let fixture = Fixture::scripted().await;
    const MEGABYTE: usize = 1024 * 1024;
    let announced = error(fixture.post(vec![b' '; 32 * MEGABYTE + 1]).await).await;
    assert_eq!((announced.0, announced.1.as_str()), (413, "request_too_large"));
    let chunks = (0..33).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; MEGABYTE])));
    let chunked = error(fixture.post(reqwest::Body::wrap_stream(stream::iter(chunks))).await).await;
    assert_eq!((chunked.0, chunked.1.as_str()), (413, "request_too_large"));
    let mut allowed = request("hi", false);
    allowed.push_str(&" ".repeat(32 * MEGABYTE - allowed.len()));
    assert_eq!(fixture.post(allowed).await.status(), 200);
}

#[tokio::test]
async fn an_observer_receives_the_request_without_credentials() {
    let fixture = Fixture::scripted().await;
    let body = request("planted-prompt", false);
    let sent = fixture
        .client
        .post(fixture.url("/v1/messages?beta=true"))
        .bearer_auth(fixture.bearer())
        .header("x-api-key", "planted-key")
        .header("anthropic-version", "2023-06-01")
        .body(body.clone());
    assert_eq!(sent.send().await.unwrap().status(), 200);
    fixture.log.wait_for(1).await;
    let [seen] = fixture.log.requests().try_into().unwrap();
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/v1/messages?beta=true"));
    assert_eq!(seen.lease, fixture.registration.id());
    assert_eq!(seen.body, body);
    assert_eq!(seen.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(seen.header("authorization"), Some("[redacted]"));
    assert_eq!(seen.header("x-api-key"), Some("[redacted]"));
    assert!(!format!("{seen:?}").contains("planted"));
}

#[tokio::test]
async fn the_request_log_evicts_its_oldest_requests() {
    let fixture = Fixture::scripted().await;
    for number in 0..10 {
        fixture.whole(&format!("number {number}")).await;
    }
    let logged = fixture.log.requests();
    assert_eq!(logged.len(), 8);
    assert!(String::from_utf8_lossy(&logged[0].body).contains("number 2"));
}

#[tokio::test]
async fn models_are_never_empty_and_start_with_the_default() {
    let fixture = Fixture::scripted().await;
    assert_eq!(fixture.gateway.models()[0].id, "claude-sonnet-4-5");
}
