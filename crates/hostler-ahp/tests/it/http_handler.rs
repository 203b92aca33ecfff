//! Requests that are no upgrade: answers of the HTTP handler on keep-alive connections, which do not block others.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::common::{Rig, open_server_config, rig};
use crate::raw_websocket::{Wire, client_frame, upgrade};
use hostler_ahp::{AccessPolicy, AhpConnectionLimits, HttpHandler, Server, ServerConfig, SocketLimits};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use tokio::io::AsyncReadExt as _;
use tokio_tungstenite::tungstenite::Bytes;

/// Answers with the request's method and path.
struct Echo;

impl HttpHandler for Echo {
    fn respond(&self, request: &Parts) -> Response<Bytes> {
        let mut answer = Response::new(Bytes::from(format!("{} {}", request.method, request.uri)));
        answer.headers_mut().insert("x-page", HeaderValue::from_static("yes"));
        if request.method == "POST" {
            *answer.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        }
        answer
    }
}

struct Host {
    rig: Rig,
    server: Server,
    address: SocketAddr,
}

impl Host {
    async fn start(socket: SocketLimits) -> Self {
        let rig = rig().await;
        let config = ServerConfig {
            access: AccessPolicy { token: Some("t0ken".into()), ..AccessPolicy::default() },
            limits: AhpConnectionLimits { socket, ..AhpConnectionLimits::default() },
            http_handler: Some(Arc::new(Echo)),
            ..open_server_config()
        };
        let server = Server::start(rig.engine.clone(), config).await.unwrap();
        let address = server.local_addr();
        Self { rig, server, address }
    }

    async fn end(self) {
        self.server.stop().await;
        self.rig.engine.shutdown().await;
    }

    fn get(&self, path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address)
    }
}

/// An answer's head, and as many bytes of its body as the head announces.
async fn answer(wire: &mut Wire) -> (String, String) {
    let head = wire.read_head().await.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let mut body = vec![0; length.parse().unwrap()];
    wire.stream.read_exact(&mut body).await.unwrap();
    (head, String::from_utf8(body).unwrap())
}

#[tokio::test]
async fn page_requests_need_no_token_and_share_a_connection() {
    let host = Host::start(SocketLimits::default()).await;
    let mut wire = Wire::request(host.address, &host.get("/")).await;
    for path in ["/session/x", "/assets/a.js?b", "/last"] {
        let (head, body) = answer(&mut wire).await;
        assert!(head.starts_with("http/1.1 200") && head.contains("x-page: yes"), "{head}");
        assert!(!head.contains("connection: close") && body.starts_with("GET /"), "{head}{body}");
        wire.send(host.get(path).as_bytes()).await;
    }
    assert_eq!(answer(&mut wire).await.1, "GET /last");
    assert_eq!(*host.server.watch_client_count().borrow(), 0, "no client is connected");
    // The same connection can be upgraded.
    wire.send(upgrade(host.address).replace("GET / ", "GET /?tkn=t0ken ").as_bytes()).await;
    wire.send(b"\r\n").await;
    assert!(wire.read_head().await.starts_with("HTTP/1.1 101"));
    wire.send(&client_frame(0x81, br#"{"id":1,"method":"ping"}"#)).await;
    assert_eq!(wire.message().await.0["id"], 1);
    assert_eq!(*host.server.watch_client_count().borrow(), 1);
    host.end().await;
}

#[tokio::test]
async fn a_head_request_is_answered_without_a_body() {
    let host = Host::start(SocketLimits::default()).await;
    let mut wire = Wire::request(host.address, &host.get("/page").replace("GET", "HEAD")).await;
    let head = wire.read_head().await;
    assert!(head.contains("content-length: 10\r\n"), "{head}");
    wire.send(host.get("/next").as_bytes()).await;
    assert_eq!(answer(&mut wire).await.1, "GET /next", "there is no body between the answers");
    host.end().await;
}

#[tokio::test]
async fn page_requests_check_the_host_and_all_others_the_token() {
    let host = Host::start(SocketLimits::default()).await;
    let mut wire = Wire::request(host.address, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").await;
    let (head, body) = answer(&mut wire).await;
    assert!(head.starts_with("http/1.1 403") && body.contains("does not accept the name"), "{head}{body}");
    let mut wire = Wire::request(host.address, &format!("{}\r\n", upgrade(host.address))).await;
    let (head, body) = answer(&mut wire).await;
    assert!(head.starts_with("http/1.1 403") && body.contains("token"), "{head}{body}");
    let mut wire = Wire::request(host.address, &host.get("/").replace("GET", "POST")).await;
    assert!(answer(&mut wire).await.0.starts_with("http/1.1 405"));
    host.end().await;
}

#[tokio::test]
async fn keep_alive_connections_do_not_delay_a_stop() {
    let host = Host::start(SocketLimits::default()).await;
    let mut wires = Vec::new();
    for _ in 0..8 {
        let mut wire = Wire::request(host.address, &host.get("/")).await;
        answer(&mut wire).await;
        wires.push(wire);
    }
    host.end().await;
    for wire in wires {
        // It is closed by now; otherwise the read would block.
        let mut stream = wire.stream.into_std().unwrap();
        assert_eq!(std::io::Read::read(&mut stream, &mut [0; 8]).unwrap(), 0);
    }
}

#[tokio::test]
async fn keep_alive_connections_are_limited_and_all_requests_answered() {
    let host = Host::start(SocketLimits::default()).await;
    let mut wires = Vec::new();
    let mut closed = 0;
    for _ in 0..140 {
        let mut wire = Wire::request(host.address, &host.get("/")).await;
        let (head, _) = answer(&mut wire).await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
        if head.contains("connection: close") {
            assert_eq!(wire.stream.read(&mut [0; 8]).await.unwrap(), 0);
            closed += 1;
        }
        wires.push(wire);
    }
    assert_eq!(closed, 140 - 128);
    // Slots are released when their connections close.
    wires.clear();
    loop {
        let mut wire = Wire::request(host.address, &host.get("/")).await;
        if !answer(&mut wire).await.0.contains("connection: close") {
            break;
        }
    }
    host.end().await;
}
