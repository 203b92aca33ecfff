//! WebSocket on the wire, valid and invalid: with a common client library, and with handmade bytes.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{Raw, Rig, open_server_config, rig};
use crate::raw_websocket::{Wire, client_frame, deflate, upgrade};
use futures::{SinkExt as _, StreamExt as _};
use hostler_ahp::{AhpConnectionLimits, Server, ServerConfig, SocketLimits};
use hostler_engine::default_chat_uri;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

const DEFLATE: &str = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";

struct Host {
    rig: Rig,
    server: Server,
    address: SocketAddr,
}

impl Host {
    async fn start() -> Self {
        Self::with(SocketLimits::default()).await
    }

    async fn with(socket: SocketLimits) -> Self {
        Self::bounded(AhpConnectionLimits { socket, ..AhpConnectionLimits::default() }).await
    }

    async fn bounded(limits: AhpConnectionLimits) -> Self {
        let rig = rig().await;
        let config = ServerConfig { limits, ..open_server_config() };
        let server = Server::start(rig.engine.clone(), config).await.unwrap();
        let address = server.local_addr();
        Self { rig, server, address }
    }

    async fn connect(&self) -> WebSocketStream<MaybeTlsStream<TcpStream>> {
        tokio_tungstenite::connect_async(format!("ws://{}", self.address)).await.unwrap().0
    }

    /// Waits until `count` clients are connected.
    async fn clients(&self, count: usize) {
        let mut clients = self.server.watch_client_count();
        tokio::time::timeout(Duration::from_secs(30), clients.wait_for(|now| *now == count)).await.unwrap().unwrap();
    }

    async fn stop(self) {
        self.server.stop().await;
        self.rig.engine.shutdown().await;
    }
}

fn call(id: u64, padding: usize) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping", "params": {"padding": "ü".repeat(padding / 2)}}).to_string()
}

fn id(message: &Message) -> u64 {
    let answer: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
    answer["id"].as_u64().unwrap()
}

#[tokio::test]
async fn text_binary_and_messages_of_every_size_are_answered() {
    let host = Host::start().await;
    let mut socket = host.connect().await;
    for (number, padding) in [0, 60, 125, 126, 4096, 65_535, 65_536, 1 << 20, 20 << 20].into_iter().enumerate() {
        let number = number as u64;
        socket.send(Message::text(call(number, padding))).await.unwrap();
        assert_eq!(id(&socket.next().await.unwrap().unwrap()), number);
        socket.send(Message::binary(call(number + 100, padding))).await.unwrap();
        assert_eq!(id(&socket.next().await.unwrap().unwrap()), number + 100);
    }
    host.stop().await;
}

#[tokio::test]
async fn a_fragmented_message_with_a_ping_inside_is_one_message() {
    let host = Host::start().await;
    let mut socket = host.connect().await;
    let call = call(7, 1000).into_bytes();
    // Some pieces split a character.
    let pieces: Vec<&[u8]> = call.chunks(67).collect();
    for (index, piece) in pieces.iter().enumerate() {
        let opcode = OpCode::Data(if index == 0 { Data::Text } else { Data::Continue });
        let piece = Frame::message(piece.to_vec(), opcode, index == pieces.len() - 1);
        socket.send(Message::Frame(piece)).await.unwrap();
        if index == 3 {
            socket.send(Message::Ping(Bytes::from_static(b"still there?"))).await.unwrap();
        }
    }
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong(Bytes::from_static(b"still there?")));
    assert_eq!(id(&socket.next().await.unwrap().unwrap()), 7);
    host.stop().await;
}

#[tokio::test]
async fn a_clients_close_code_is_echoed() {
    let host = Host::start().await;
    for code in [CloseCode::Normal, CloseCode::Away, CloseCode::Library(4321)] {
        let mut socket = host.connect().await;
        host.clients(1).await;
        let close = CloseFrame { code, reason: "enough".into() };
        socket.close(Some(close)).await.unwrap();
        let Some(Ok(Message::Close(Some(echo)))) = socket.next().await else { panic!("the close is answered") };
        assert_eq!(echo.code, code);
        assert!(socket.next().await.is_none());
        host.clients(0).await;
    }
    // Some clients disconnect without a close frame.
    drop(host.connect().await);
    host.clients(0).await;
    host.stop().await;
}

#[tokio::test]
async fn stopping_sends_a_close_frame_to_every_client() {
    let host = Host::start().await;
    let mut early = Wire::open(host.address).await;
    let mut late = Wire::open(host.address).await;
    let hello = json!({"id": 1, "method": "initialize", "params": {"protocolVersions": ["1.0.0"], "clientId": "c"}});
    late.send(&client_frame(0x81, hello.to_string().as_bytes())).await;
    assert_eq!(late.message().await.0["id"], 1);
    let (_, early, late) = tokio::join!(host.server.stop(), early.close(), late.close());
    assert_eq!((early.0, late.0), (1001, 1001));
    assert!(early.1.contains("stopping"), "{}", early.1);
    host.stop().await;
}

#[tokio::test]
async fn a_client_that_never_initializes_is_closed_with_a_reason() {
    let limits =
        AhpConnectionLimits { initialize_timeout: Duration::from_millis(100), ..AhpConnectionLimits::default() };
    let host = Host::bounded(limits).await;
    let (code, reason) = Wire::open(host.address).await.close().await;
    assert_eq!((code, reason.as_str()), (1008, "the client did not initialize in time"));
    host.stop().await;
}

#[tokio::test]
async fn a_protocol_violation_closes_only_its_own_connection_with_a_reason() {
    let host = Host::with(SocketLimits { max_message_bytes: 1 << 20, ..SocketLimits::default() }).await;
    let mut witness = Wire::open(host.address).await;
    let bomb = client_frame(0xc1, &deflate(&vec![b' '; 2 << 20]));
    assert!(bomb.len() < 10_000);
    for (what, bytes, code) in [
        ("an unmasked frame", vec![0x81, 2, b'h', b'i'], 1002),
        ("a reserved bit", client_frame(0xa1, b"{}"), 1002),
        ("a reserved opcode", client_frame(0x87, b"{}"), 1002),
        ("a fragmented ping", client_frame(0x09, b""), 1002),
        ("a long ping", client_frame(0x89, &[0; 126]), 1002),
        ("a continuation of nothing", client_frame(0x80, b"{}"), 1002),
        ("a message inside of another", [client_frame(0x01, b"{"), client_frame(0x81, b"{}")].concat(), 1002),
        ("a forbidden close code", client_frame(0x88, &1006u16.to_be_bytes()), 1002),
        ("half a close code", client_frame(0x88, b"\x03"), 1002),
        ("text that is none", client_frame(0x81, b"\xc3\x28"), 1007),
        ("text that is none, in pieces", [client_frame(0x01, b"\xc3"), client_frame(0x80, b"\x28")].concat(), 1007),
        ("bytes that do not inflate", client_frame(0xc1, &[0xff; 9]), 1007),
        ("an oversized message", client_frame(0x81, &vec![b' '; (1 << 20) + 1]), 1009),
        ("an oversized announcement", client_frame(0x81, &vec![b' '; 2 << 20])[..14].to_vec(), 1009),
        ("an oversized sum", [client_frame(0x01, &vec![b' '; 1 << 20]), client_frame(0x80, b" ")].concat(), 1009),
        ("a bomb", bomb, 1009),
    ] {
        let mut culprit = Wire::open_with(host.address, DEFLATE).await;
        // The host may close the connection before it has read all of this.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut culprit.stream, &bytes).await;
        let (close_code, reason) = culprit.close().await;
        assert_eq!(close_code, code, "{what}: {reason}");
        assert!(!reason.is_empty());
        witness.is_served().await;
    }
    drop(witness);
    host.clients(0).await;
    host.stop().await;
}

#[tokio::test]
async fn compression_without_context_is_used_in_both_directions() {
    let mut host = Host::start().await;
    let session = "claude:/0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a369f";
    let chat = default_chat_uri(session);
    let mut memory = Raw::initialized(&host.rig).await;
    memory.call("createSession", json!({"channel": session})).await.unwrap();
    memory.call("subscribe", json!({"channel": chat})).await.unwrap();

    let hello = |client: &str| {
        let params = json!({"protocolVersions": ["1.0.0"], "clientId": client, "initialSubscriptions": [chat]});
        json!({"id": 1, "method": "initialize", "params": params}).to_string().into_bytes()
    };
    let mut plain = Wire::open(host.address).await;
    assert!(!plain.head.to_lowercase().contains("sec-websocket-extensions"));
    plain.send(&client_frame(0x81, &hello("plain"))).await;
    assert!(plain.message().await.0.get("result").is_some());
    let mut squeezed = Wire::open_with(host.address, DEFLATE).await;
    let agreed = "permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n";
    assert!(squeezed.head.contains(agreed), "{}", squeezed.head);
    // In two frames; only the first one is marked as compressed.
    let message = deflate(&hello("squeezed"));
    let (first, second) = message.split_at(10);
    squeezed.send(&[client_frame(0x41, first), client_frame(0x80, second)].concat()).await;
    assert!(squeezed.message().await.0.get("result").is_some());

    let text = "as long as it is dull ".repeat(500);
    let message = json!({"text": text, "origin": {"kind": "user"}});
    let action =
        json!({"type": "chat/turnStarted", "turnId": "t1", "startedAt": "2026-11-15T08:00:00Z", "message": message});
    memory.dispatch(&chat, action).await;
    let expected = memory.envelope("chat/turnStarted").await;
    assert_eq!(expected["action"]["message"]["text"], text);
    for (wire, deflated) in [(&mut plain, false), (&mut squeezed, true)] {
        let started = loop {
            let (message, deflated) = wire.message().await;
            if message["params"]["action"]["type"] == "chat/turnStarted" {
                break (message["params"].clone(), deflated);
            }
        };
        assert_eq!(started, (expected.clone(), deflated));
    }
    let _agent = host.rig.starts.next_start().await.succeed();
    host.stop().await;
}

#[tokio::test]
async fn only_a_client_that_answers_pings_stays_connected() {
    let limits = SocketLimits {
        ping_after: Duration::from_millis(100),
        pong_timeout: Duration::from_secs(2),
        ..SocketLimits::default()
    };
    let host = Host::with(limits).await;
    // This client answers pings as long as it is polled.
    let mut polite = host.connect().await;
    let mut dead = Wire::open(host.address).await;
    host.clients(2).await;
    let politeness = async {
        loop {
            assert!(!matches!(polite.next().await, None | Some(Err(_))));
        }
    };
    let death = async {
        assert_eq!(dead.receive().await, Some((0x89, vec![])));
        assert_eq!(dead.receive().await, None);
        host.clients(1).await;
    };
    tokio::select! { () = death => {}, () = politeness => {} }
    host.stop().await;
}

#[tokio::test]
async fn a_slow_request_is_answered_with_408_while_others_are_served() {
    let host =
        Host::with(SocketLimits { request_head_timeout: Duration::from_secs(1), ..SocketLimits::default() }).await;
    let mut loris = Wire::request(host.address, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ").await;
    let mut silent = Wire::request(host.address, "").await;
    Wire::open(host.address).await.is_served().await;
    for slow in [&mut loris, &mut silent] {
        let answer = slow.rest().await;
        assert!(answer.starts_with("HTTP/1.1 408 ") && answer.ends_with("did not arrive in time. Try again.\n"));
    }
    host.stop().await;
}

#[tokio::test]
async fn connections_over_the_limit_are_refused_until_a_slot_is_free() {
    let host = Host::with(SocketLimits { max_connections: 2, ..SocketLimits::default() }).await;
    let (mut one, two) = (Wire::open(host.address).await, Wire::open(host.address).await);
    let answer = Wire::request(host.address, &format!("{}\r\n", upgrade(host.address))).await.rest().await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("try again later"), "{answer}");
    one.is_served().await;
    drop(two);
    host.clients(1).await;
    // The slot is released a moment after the client count drops.
    loop {
        let mut wire = Wire::request(host.address, &format!("{}\r\n", upgrade(host.address))).await;
        let mut first = [0; 12];
        tokio::io::AsyncReadExt::read_exact(&mut wire.stream, &mut first).await.unwrap();
        if &first == b"HTTP/1.1 101" {
            break;
        }
    }
    host.stop().await;
}

#[tokio::test]
async fn frames_in_the_same_packet_as_the_upgrade_are_read() {
    let host = Host::start().await;
    let mut head = format!("{}\r\n", upgrade(host.address)).into_bytes();
    head.extend(client_frame(0x81, call(5, 3000).as_bytes()));
    let mut stream = TcpStream::connect(host.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, &head).await.unwrap();
    let mut wire = Wire { stream, head: String::new() };
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(tokio::io::AsyncReadExt::read_u8(&mut wire.stream).await.unwrap());
    }
    assert_eq!(wire.message().await.0["id"], 5);
    host.stop().await;
}

#[tokio::test]
async fn invalid_upgrades_are_refused_with_a_message() {
    let host = Host::start().await;
    let good = upgrade(host.address);
    for (from, to, status, text) in [
        ("Version: 13", "Version: 12", "426", "version 13"),
        ("Connection: Upgrade", "Connection: close", "400", "Connection: Upgrade"),
        ("dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ=", "400", "16 bytes"),
        ("GET", "POST", "405", "GET"),
        ("HTTP/1.1", "HTTP/1.0", "405", "HTTP/1.1"),
        ("Upgrade: websocket", "Upgrade: h2c", "426", "AHP client"),
    ] {
        let request = format!("{}\r\n", good.replace(from, to));
        let answer = Wire::request(host.address, &request).await.rest().await;
        assert_eq!(answer.split(' ').nth(1), Some(status), "{answer}");
        assert!(answer.contains(text), "{answer}");
    }
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(100_000));
    let answer = Wire::request(host.address, &long).await.rest().await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    host.stop().await;
}
