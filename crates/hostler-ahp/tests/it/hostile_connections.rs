//! Connections of programs that are no clients: without a token, with garbage as token, with a foreign host name, or
//! half open.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{Rig, open_server_config, rig};
use hostler_ahp::{AccessPolicy, AhpConnectionLimits, Server, ServerConfig, SocketLimits};
use hostler_testkit::raw_client::RawClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

async fn serve(rig: &Rig, socket: SocketLimits) -> (Server, SocketAddr) {
    let access = AccessPolicy { token: Some(TOKEN.into()), ..AccessPolicy::default() };
    let limits = AhpConnectionLimits { socket, ..AhpConnectionLimits::default() };
    let server =
        Server::start(rig.engine.clone(), ServerConfig { access, limits, ..open_server_config() }).await.unwrap();
    let address = server.local_addr();
    (server, address)
}

/// The status of the answer to these bytes; empty if the connection ended without one.
async fn status(address: SocketAddr, head: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head).await.unwrap();
    let mut answer = Vec::new();
    let mut chunk = [0; 1024];
    while !answer.windows(2).any(|end| end == b"\r\n") {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(count) => answer.extend_from_slice(&chunk[..count]),
        }
    }
    String::from_utf8(answer).unwrap().split(' ').nth(1).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn half_open_connections_are_evicted_and_never_block_a_client() {
    let rig = rig().await;
    // No timeout is reached: connections are closed because there are too many.
    let hour = Duration::from_secs(3600);
    let socket = SocketLimits {
        max_connections: 64,
        max_unauthenticated: 8,
        request_head_timeout: hour,
        ..SocketLimits::default()
    };
    let (server, address) = serve(&rig, socket).await;
    let url = format!("ws://{address}/?tkn={TOKEN}");
    let mut first = RawClient::connect_and_initialize(&url).await;
    let mut half_open = Vec::new();
    for number in 0..1_100 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(["", "GET / HTTP/1.1\r\nHost: "][number % 2].as_bytes()).await.unwrap();
        half_open.push(stream);
        if number % 100 == 0 {
            RawClient::connect_and_initialize(&url).await.call("ping", serde_json::json!({})).await.unwrap();
        }
    }
    for stream in half_open.iter_mut().take(1_100 - 9) {
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap_or(0), 0, "it was closed without an answer");
    }
    first.call("ping", serde_json::json!({})).await.unwrap();
    server.stop().await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn tokens_with_sql_or_invalid_utf8_are_refused() {
    let rig = rig().await;
    let (server, address) = serve(&rig, SocketLimits::default()).await;
    let ask = async |path: &str, header: &[u8]| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{UPGRADE}");
        status(address, &[head.as_bytes(), header, b"\r\n"].concat()).await
    };
    assert_eq!(ask(&format!("/?tkn={TOKEN}"), b"").await, "101");
    assert_eq!(ask("/", format!("Authorization: Bearer {TOKEN}\r\n").as_bytes()).await, "101");
    for query in [
        "'%20OR%20'1'='1".to_owned(),
        "%22%20OR%20%22%22=%22".to_owned(),
        "';%20DROP%20TABLE%20tokens;--".to_owned(),
        format!("{TOKEN}'%20--"),
        format!("{TOKEN}%00"),
        format!("%00{TOKEN}"),
        format!("{TOKEN}%20"),
        format!("{TOKEN}%ff"),
        "%ff%fe%80".to_owned(),
        "%25".to_owned(),
        "*".to_owned(),
        String::new(),
        TOKEN.to_uppercase(),
        "a".repeat(8_000),
        format!("{TOKEN}{}", "a".repeat(8_000)),
        format!("{TOKEN}&tkn={TOKEN}"),
        format!("{TOKEN}&tkn='"),
    ] {
        assert_eq!(ask(&format!("/?tkn={query}"), b"").await, "403", "{query}");
    }
    for value in [
        b"' OR '1'='1".as_slice(),
        b"\" OR \"\"=\"",
        b"\xff\xfe\x80",
        &[TOKEN.as_bytes(), b"\xff"].concat(),
        &[TOKEN.as_bytes(), b"' --"].concat(),
        &[TOKEN.as_bytes(), b",", TOKEN.as_bytes()].concat(),
        "a".repeat(8_000).as_bytes(),
        b"",
    ] {
        let header = [b"Authorization: Bearer ", value, b"\r\n"].concat();
        assert_eq!(ask("/", &header).await, "403", "{}", String::from_utf8_lossy(value));
    }
    let nul = [b"Authorization: Bearer ", TOKEN.as_bytes(), b"\0\r\n"].concat();
    assert_eq!(ask("/", &nul).await, "400", "a NUL byte is in no header");
    server.stop().await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn every_method_and_path_requires_the_token_and_an_accepted_host() {
    let rig = rig().await;
    let (server, address) = serve(&rig, SocketLimits::default()).await;
    let port = address.port();
    for path in ["/", "/any/path", "/?x=1", "/sign-in", "/metrics", "/v1/messages", "/.well-known/x"] {
        for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"] {
            for upgrade in ["", UPGRADE] {
                let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n{upgrade}\r\n");
                assert_eq!(status(address, head.as_bytes()).await, "403", "{method} {path}");
            }
        }
    }
    for host in [
        format!("evil.example:{port}"),
        "evil.example".to_owned(),
        format!("127.0.0.1.evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("0.0.0.0:{port}"),
    ] {
        for upgrade in ["", UPGRADE] {
            let head = format!("GET /?tkn={TOKEN} HTTP/1.1\r\nHost: {host}\r\n{upgrade}\r\n");
            assert_eq!(status(address, head.as_bytes()).await, "403", "{host}");
        }
    }
    server.stop().await;
    rig.engine.shutdown().await;
}
