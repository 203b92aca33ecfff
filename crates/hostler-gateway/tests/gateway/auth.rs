//! Authentication by bearers.

use std::sync::Arc;

use hostler_gateway::{Gateway, GatewayConfig, Upstreams};
use hostler_gateway_scripted::ScriptedUpstream;
use secrecy::ExposeSecret;

use crate::support::{Fixture, TestUpstream, client, error, lease, request};

#[tokio::test]
async fn only_a_complete_registered_bearer_is_accepted() {
    let upstream = TestUpstream::start([]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let (nonce, id) = fixture.bearer().split_once('.').unwrap();
    let wrong_nonce = "0".repeat(nonce.len());
    for path in ["/v1/messages", "/v1/messages?beta=true", "/no/such/route", "/v1"] {
        for (header, value) in [
            ("x-none", String::new()),
            ("authorization", format!("Bearer {wrong_nonce}.{id}")),
            ("authorization", format!("Bearer {nonce}")),
            ("authorization", format!("Bearer {nonce}.")),
            ("authorization", format!("Bearer {nonce}.unknown")),
            ("authorization", format!("Basic {nonce}.{id}")),
            ("x-api-key", fixture.bearer().to_owned()),
        ] {
            let sent = fixture.client.post(fixture.url(path)).header(header, &value).body(request("hi", true));
            let (status, kind, message) = error(sent.send().await.unwrap()).await;
            assert_eq!((status, kind.as_str()), (401, "authentication_error"), "{path} {header}: {value}");
            assert!(!message.contains(nonce));
        }
    }
    assert!(upstream.received().is_empty());
    assert!(fixture.log.requests().is_empty());
}

/// All existing routes, and some that do not exist.
const ROUTES: [(&str, &str); 10] = [
    ("POST", "/"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages?beta=true"),
    ("POST", "/v1/messages/count_tokens"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/claude-sonnet-4-5"),
    ("GET", "/metrics"),
    ("GET", "/healthz"),
    ("OPTIONS", "/v1/messages"),
    ("GET", "/no/such/route"),
];

#[tokio::test]
async fn no_route_answers_without_a_bearer() {
    let upstream = TestUpstream::start([]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    for (method, path) in ROUTES {
        let sent = fixture.client.request(method.parse().unwrap(), fixture.url(path)).body(request("hi", true));
        let (status, kind, _) = error(sent.send().await.unwrap()).await;
        assert_eq!((status, kind.as_str()), (401, "authentication_error"), "{method} {path}");
    }
    // A new route must be added to the table above, too: an authenticated request for an unknown route lists all
    // routes.
    let unknown = fixture.client.get(fixture.url("/no/such/route")).bearer_auth(fixture.bearer()).send().await.unwrap();
    let (_, _, message) = error(unknown).await;
    assert!(message.ends_with("POST /v1/messages, POST /v1/messages/count_tokens and GET /v1/models."), "{message}");
    assert!(upstream.received().is_empty());
}

/// Values from attacks on key checks: SQL, quotes, NUL and other bytes that are not text, and excessive length.
fn hostile_values(nonce: &str, id: &str) -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> = [
        "' OR '1'='1",
        "\" OR \"\"=\"",
        "'; DROP TABLE sessions; --",
        "x' UNION SELECT token FROM tokens --",
        "%",
        "_",
        "*",
        ".",
        "null",
        "undefined",
        "[object Object]",
    ]
    .iter()
    .flat_map(|value| {
        [value.to_string(), format!("{value}.{id}"), format!("{nonce}.{value}"), format!("{nonce}{value}.{id}")]
    })
    .map(String::into_bytes)
    .collect();
    values.push(b"\xff\xfe\x80.".to_vec());
    values.push([nonce.as_bytes(), b".\xff"].concat());
    values.push([nonce.as_bytes(), b"\x80.", id.as_bytes()].concat());
    values.push("a".repeat(30_000).into_bytes());
    values.push(format!("{nonce}.{}", "a".repeat(30_000)).into_bytes());
    values.push(format!("{}.{id}", nonce.to_uppercase()).into_bytes());
    values.push(format!("{nonce}.{id},{nonce}.{id}").into_bytes());
    values
}

#[tokio::test]
async fn bearers_with_sql_or_non_text_bytes_are_rejected() {
    let upstream = TestUpstream::start([]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let (nonce, id) = fixture.bearer().split_once('.').unwrap();
    for value in hostile_values(nonce, id) {
        let header = [b"Bearer ", value.as_slice()].concat();
        let header = http::HeaderValue::from_bytes(&header).unwrap();
        let sent = fixture.client.post(fixture.url("/v1/messages")).header("authorization", header);
        let refused = sent.body(request("hi", true)).send().await.unwrap();
        assert_eq!(error(refused).await.0, 401, "{}", String::from_utf8_lossy(&value));
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn a_bearer_with_a_nul_byte_is_a_bad_request() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let fixture = Fixture::scripted().await;
    let host = fixture.gateway.address();
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let bearer = fixture.bearer();
    let head = format!("GET /v1/models HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {bearer}\0x\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test]
async fn the_root_answers_without_a_bearer() {
    let fixture = Fixture::scripted().await;
    assert_eq!(fixture.client.get(fixture.url("/")).send().await.unwrap().status(), 200);
    assert_eq!(fixture.client.head(fixture.url("/")).send().await.unwrap().status(), 200);
    assert_eq!(fixture.client.post(fixture.url("/")).send().await.unwrap().status(), 401);
}

#[tokio::test]
async fn a_revoked_bearer_is_rejected() {
    let fixture = Fixture::scripted().await;
    let other = fixture.gateway.register(lease());
    let send = |bearer: String| {
        fixture.client.post(fixture.url("/v1/messages")).bearer_auth(bearer).body(request("hi", false)).send()
    };
    let bearer = other.bearer().expose_secret().to_owned();
    assert_eq!(send(bearer.clone()).await.unwrap().status(), 200);
    other.revoke();
    assert_eq!(send(bearer).await.unwrap().status(), 401);
    assert_eq!(fixture.whole("hi").await.status(), 200);
}

#[tokio::test]
async fn any_id_is_accepted_if_registration_is_not_required() {
    let config = GatewayConfig {
        accept_unregistered: true,
        ..GatewayConfig::new(Upstreams::single(Arc::new(ScriptedUpstream)))
    };
    let gateway = Gateway::start(config).await.unwrap();
    let registration = gateway.register(lease());
    let (nonce, _) = registration.bearer().expose_secret().split_once('.').unwrap();
    let send = |bearer: String| {
        client()
            .post(format!("{}/v1/messages", gateway.base_url()))
            .bearer_auth(bearer)
            .body(request("hi", false))
            .send()
    };
    assert_eq!(send(format!("{nonce}.unregistered")).await.unwrap().status(), 200);
    assert_eq!(send(format!("{nonce}.")).await.unwrap().status(), 401);
    assert_eq!(send("x.unregistered".to_owned()).await.unwrap().status(), 401);
    gateway.stop().await;
}

#[tokio::test]
async fn a_bearer_of_another_gateway_is_rejected() {
    let (one, two) = (Fixture::scripted().await, Fixture::scripted().await);
    let sent = one.client.post(one.url("/v1/messages")).bearer_auth(two.bearer()).body(request("hi", false));
    assert_eq!(sent.send().await.unwrap().status(), 401);
}
