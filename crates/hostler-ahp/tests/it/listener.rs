//! The listener: access control, sockets, and the reference client of AHP.

use std::net::SocketAddr;

use crate::common::{open_server_config, rig};
use futures::{SinkExt as _, StreamExt as _};
use hostler_ahp::{AccessPolicy, Server, ServerConfig};
use hostler_engine::Engine;
use hostler_testkit::test_client::{TestClient, reduce_chat};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Error, Message};

async fn serve(engine: &Engine, token: Option<&str>) -> (Server, SocketAddr) {
    let access = AccessPolicy { token: token.map(Into::into), ..AccessPolicy::default() };
    let config = ServerConfig { access, ..open_server_config() };
    let server = Server::start(engine.clone(), config).await.unwrap();
    let address = server.local_addr();
    (server, address)
}

#[tokio::test]
async fn a_wrong_token_is_403_and_the_right_one_works_on_any_path() {
    let rig = rig().await;
    let (server, address) = serve(&rig.engine, Some("t0ken")).await;
    for url in [
        format!("ws://{address}"),
        format!("ws://{address}/?tkn=wrong"),
        format!("ws://{address}/?tkn=t0ken&tkn=t0ken"),
    ] {
        match tokio_tungstenite::connect_async(&url).await {
            Err(Error::Http(response)) => assert_eq!(response.status(), 403, "{url}"),
            other => panic!("{url}: {other:?}"),
        }
    }
    for url in [format!("ws://{address}/?tkn=t0ken"), format!("ws://{address}/any/path?x=1&tkn=t0ken")] {
        let (mut socket, _) = tokio_tungstenite::connect_async(&url).await.unwrap();
        // Binary frames are accepted too.
        socket.send(Message::Binary(br#"{"id":1,"method":"ping"}"#.to_vec().into())).await.unwrap();
        let Message::Text(answer) = socket.next().await.unwrap().unwrap() else { panic!("text is sent") };
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["result"], Value::Null);
    }
    server.stop().await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn foreign_hosts_and_origins_and_plain_requests_are_refused_with_a_message() {
    let rig = rig().await;
    let (server, address) = serve(&rig.engine, None).await;
    let request = async |head: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let upgrade = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let answer = request(&format!("GET / HTTP/1.1\r\nHost: evil.example\r\n{upgrade}")).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("does not accept the name"), "{answer}");
    let answer =
        request(&format!("GET / HTTP/1.1\r\nHost: {address}\r\nOrigin: https://evil.example\r\n{upgrade}")).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("origin"), "{answer}");
    let answer = request(&format!("GET / HTTP/1.1\r\nHost: {address}\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 426"), "{answer}");
    let answer = request("NONSENSE\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    server.stop().await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn the_reference_client_ends_a_turn_with_the_hosts_state() {
    let mut rig = rig().await;
    let work = tempfile::tempdir().unwrap();
    let (server, address) = serve(&rig.engine, Some("t")).await;
    let mut peer = TestClient::connect(&format!("ws://{address}/?tkn=t")).await;
    let uris = peer.create_session(work.path()).await;
    let before = peer.chat_state(&uris.chat).await;
    peer.send_message(&uris.chat, "hi").await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    agent.emit_answer(1, "hel", "lo").await;
    let envelopes = peer.wait_for_turn_end(&uris.chat).await;
    let mine = serde_json::to_value(reduce_chat(before, &envelopes)).unwrap();
    let theirs = serde_json::to_value(peer.chat_state(&uris.chat).await).unwrap();
    assert_eq!(mine, theirs);
    assert_eq!(theirs["turns"][0]["responseParts"][0]["content"], "hello");
    assert_eq!(*server.watch_client_count().borrow(), 1);
    peer.client.shutdown().await;
    let mut clients = server.watch_client_count();
    clients.wait_for(|clients| *clients == 0).await.unwrap();
    server.stop().await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn stopping_the_server_closes_all_connections() {
    let rig = rig().await;
    let (server, address) = serve(&rig.engine, None).await;
    let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}")).await.unwrap();
    let mut idle = TcpStream::connect(address).await.unwrap();
    tokio::join!(server.stop(), server.stop());
    assert!(!matches!(socket.next().await, Some(Ok(Message::Text(_)))));
    assert_eq!(idle.read(&mut [0; 8]).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(address).await.is_err());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn disconnected_clients_leave_no_tasks() {
    let (rig, work) = (rig().await, tempfile::tempdir().unwrap());
    let (server, address) = serve(&rig.engine, None).await;
    let url = format!("ws://{address}/");
    let visits = async |count: usize| {
        for _ in 0..count {
            let mut raw = hostler_testkit::raw_client::RawClient::connect_and_initialize(&url).await;
            let (session, _) = raw.create_session(work.path()).await;
            raw.call("disposeSession", serde_json::json!({"channel": session})).await.unwrap();
        }
        let mut clients = server.watch_client_count();
        clients.wait_for(|clients| *clients == 0).await.unwrap();
    };
    let metrics = tokio::runtime::Handle::current().metrics();
    visits(20).await;
    let before = metrics.num_alive_tasks();
    visits(200).await;
    // The task of the last connection may still be ending.
    while metrics.num_alive_tasks() > before {
        tokio::task::yield_now().await;
    }
    server.stop().await;
    rig.engine.shutdown().await;
}
