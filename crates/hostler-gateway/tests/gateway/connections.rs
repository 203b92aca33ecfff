//! Connections that are inactive, too many, or made under another host name.

use std::sync::Arc;
use std::time::Duration;

use hostler_gateway::{Gateway, GatewayConfig, GatewayConnectionLimits, Registration, Upstreams};
use hostler_gateway_scripted::ScriptedUpstream;
use secrecy::ExposeSecret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{client, error, lease, request};

/// No timeout is reached in a test, so connections are closed for other reasons.
const LONG_TIMEOUTS: GatewayConnectionLimits = GatewayConnectionLimits {
    max_unauthenticated: 8,
    max_idle: 8,
    max_busy: 64,
    head_timeout: Duration::from_secs(3600),
    idle_timeout: Duration::from_secs(3600),
    body_timeout: Duration::from_secs(3600),
};

async fn start(connections: GatewayConnectionLimits) -> (Gateway, Registration) {
    start_with(GatewayConfig { connections, ..GatewayConfig::new(Upstreams::single(Arc::new(ScriptedUpstream))) }).await
}

async fn start_with(config: GatewayConfig) -> (Gateway, Registration) {
    let gateway = Gateway::start(config).await.unwrap();
    let registration = gateway.register(lease());
    (gateway, registration)
}

async fn connect(gateway: &Gateway, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    stream
}

/// A request in its wire format.
fn wire(gateway: &Gateway, head: &str, body: &str) -> String {
    let host = gateway.address();
    format!("{head} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn message(gateway: &Gateway, registration: &Registration, text: &str) -> String {
    let bearer = registration.bearer().expose_secret();
    let message = wire(gateway, "POST /v1/messages", &request(text, true));
    message.replacen("\r\n", &format!("\r\nauthorization: Bearer {bearer}\r\n"), 1)
}

/// Reads until the gateway closes the connection.
async fn to_the_end(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    // A reset ends the connection as well.
    let _ = stream.read_to_end(&mut read).await;
    String::from_utf8(read).unwrap()
}

/// Reads until a text has arrived.
async fn until(stream: &mut TcpStream, wanted: &str) {
    let mut read = String::new();
    while !read.contains(wanted) {
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).await.unwrap();
        assert!(count > 0, "the connection ended before {wanted:?}: {read}");
        read.push_str(std::str::from_utf8(&chunk[..count]).unwrap());
    }
}

#[tokio::test]
async fn half_open_connections_evict_each_other_and_never_lock_out_an_agent() {
    let (gateway, registration) = start(LONG_TIMEOUTS).await;
    // Both are older than all following connections, and would be evicted first.
    let mut streaming = connect(&gateway, &message(&gateway, &registration, "!say begun\n!hang")).await;
    until(&mut streaming, "begun").await;
    let mut idle = connect(&gateway, &message(&gateway, &registration, "hi")).await;
    until(&mut idle, "message_stop").await;

    let head = wire(&gateway, "POST /v1/messages", &"x".repeat(1_000));
    let unfinished = ["", "POST /v1/messages HTTP/1.1\r\nhost: ", head.strip_suffix('x').unwrap()];
    let mut half_open = Vec::new();
    for number in 0..1_100 {
        half_open.push(connect(&gateway, unfinished[number % 3]).await);
        assert!(gateway.unauthenticated_connections() <= 8);
        if number % 100 == 0 {
            let url = format!("{}/v1/messages", gateway.base_url());
            let sent = client().post(url).bearer_auth(registration.bearer().expose_secret());
            assert_eq!(sent.body(request("hi", true)).send().await.unwrap().status(), 200, "after {number}");
        }
    }
    // All but the last few were closed.
    for stream in half_open.iter_mut().take(1_100 - 9) {
        to_the_end(stream).await;
    }
    idle.write_all(message(&gateway, &registration, "hi").as_bytes()).await.unwrap();
    until(&mut idle, "message_stop").await;
    assert_eq!(gateway.requests_in_flight(), 1, "the stream was not touched");
    gateway.stop().await;
}

#[tokio::test]
async fn unauthenticated_responses_do_not_make_a_connection_authenticated() {
    let (gateway, _registration) = start(GatewayConnectionLimits { max_unauthenticated: 1, ..LONG_TIMEOUTS }).await;
    let mut first = connect(&gateway, &wire(&gateway, "GET /", "")).await;
    until(&mut first, "Hostler gateway").await;
    let mut second = connect(&gateway, &wire(&gateway, "POST /v1/messages", "{}")).await;
    until(&mut second, "401").await;
    to_the_end(&mut first).await;
    let mut third = connect(&gateway, &wire(&gateway, "GET /", "")).await;
    until(&mut third, "Hostler gateway").await;
    to_the_end(&mut second).await;
    gateway.stop().await;
}

#[tokio::test]
async fn idle_connections_evict_each_other() {
    let (gateway, registration) = start(GatewayConnectionLimits { max_idle: 2, ..LONG_TIMEOUTS }).await;
    let mut connections = Vec::new();
    for _ in 0..5 {
        let mut stream = connect(&gateway, &message(&gateway, &registration, "hi")).await;
        until(&mut stream, "message_stop").await;
        connections.push(stream);
    }
    for stream in connections.iter_mut().take(3) {
        to_the_end(stream).await;
    }
    gateway.stop().await;
}

#[tokio::test]
async fn requests_over_the_concurrency_limit_are_rejected() {
    let (gateway, registration) = start(GatewayConnectionLimits { max_busy: 1, ..LONG_TIMEOUTS }).await;
    let mut streaming = connect(&gateway, &message(&gateway, &registration, "!say begun\n!hang")).await;
    until(&mut streaming, "begun").await;
    let url = format!("{}/v1/messages", gateway.base_url());
    let ask =
        || client().post(&url).bearer_auth(registration.bearer().expose_secret()).body(request("hi", true)).send();
    let (status, kind, _) = error(ask().await.unwrap()).await;
    assert_eq!((status, kind.as_str()), (503, "overloaded_error"));
    drop(streaming);
    gateway.wait_until_idle().await;
    while ask().await.unwrap().status() != 200 {}
    gateway.stop().await;
}

#[tokio::test]
async fn a_connection_without_a_request_head_is_closed_after_the_timeout() {
    let moment = Duration::from_millis(1);
    let (gateway, _registration) = start(GatewayConnectionLimits { head_timeout: moment, ..LONG_TIMEOUTS }).await;
    for bytes in ["", "G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: "] {
        let mut stream = connect(&gateway, bytes).await;
        assert_eq!(to_the_end(&mut stream).await, "", "{bytes:?}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_the_timeout_and_a_stream_is_not() {
    let moment = Duration::from_millis(1);
    let limits =
        GatewayConnectionLimits { idle_timeout: moment, head_timeout: Duration::from_millis(500), ..LONG_TIMEOUTS };
    let (gateway, registration) = start(limits).await;
    let mut streaming = connect(&gateway, &message(&gateway, &registration, "!say begun\n!hang")).await;
    until(&mut streaming, "begun").await;
    for _ in 0..3 {
        let mut idle = connect(&gateway, &message(&gateway, &registration, "hi")).await;
        assert!(to_the_end(&mut idle).await.contains("message_stop"));
    }
    assert_eq!(gateway.requests_in_flight(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn an_incomplete_body_is_answered_with_408() {
    let (gateway, registration) =
        start(GatewayConnectionLimits { body_timeout: Duration::from_millis(1), ..LONG_TIMEOUTS }).await;
    let whole = message(&gateway, &registration, "hi");
    let (head, _) = whole.split_once("\r\n\r\n").unwrap();
    let mut stream = connect(&gateway, &format!("{head}\r\n\r\n{{\"model\"")).await;
    until(&mut stream, "408").await;
    gateway.stop().await;
}

/// Routes requested under another name: those that need no bearer, and those that do.
const ROUTES: [&str; 8] = [
    "GET /",
    "HEAD /",
    "GET /healthz",
    "GET /metrics",
    "POST /v1/messages",
    "POST /v1/messages/count_tokens",
    "GET /v1/models",
    "GET /v1/models/claude-sonnet-4-5",
];

#[tokio::test]
async fn a_rebound_name_reaches_no_route_even_with_a_bearer() {
    let config = GatewayConfig {
        diagnostics_endpoints: true,
        allowed_hosts: vec!["box.example".to_owned()],
        ..GatewayConfig::new(Upstreams::single(Arc::new(ScriptedUpstream)))
    };
    let (gateway, registration) = start_with(config).await;
    let (port, bearer) = (gateway.address().port(), registration.bearer().expose_secret());
    let body = request("hi", false);
    let ask = async |route: &str, hosts: &str| {
        let rest = format!("authorization: Bearer {bearer}\r\nconnection: close\r\ncontent-length: {}", body.len());
        let sent = format!("{route} HTTP/1.1\r\n{hosts}{rest}\r\n\r\n{body}");
        let answer = to_the_end(&mut connect(&gateway, &sent).await).await;
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    for route in ROUTES {
        for hosts in [
            format!("host: evil.example:{port}\r\n"),
            format!("host: 127.0.0.1.evil.example:{port}\r\n"),
            format!("host: 0.0.0.0:{port}\r\n"),
            "host: localhost:1\r\n".to_owned(),
            format!("host: localhost:{port}\r\nhost: evil.example\r\n"),
        ] {
            assert_eq!(ask(route, &hosts).await, "403", "{route} {hosts}");
        }
        for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}"), "box.example".to_owned()] {
            assert_eq!(ask(route, &format!("host: {host}\r\n")).await, "200", "{route} {host}");
        }
    }
    gateway.stop().await;
}
