//! A WebSocket client that sends exactly the bytes of a test, valid or not.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses only a part")]

#[path = "../../../src/ws/test_frames.rs"]
mod test_frames;

use std::net::SocketAddr;
use std::time::Duration;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) use test_frames::client_frame;

/// Maximum time that a test waits for a condition.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection with handmade bytes.
pub struct Wire {
    pub stream: TcpStream,
    /// The head of the host's answer to the upgrade.
    pub head: String,
}

impl Wire {
    /// Upgrades a connection.
    pub async fn open(address: SocketAddr) -> Self {
        Self::open_with(address, "").await
    }

    /// Upgrades a connection with further header lines.
    pub async fn open_with(address: SocketAddr, lines: &str) -> Self {
        let mut wire = Self::request(address, &format!("{}{lines}\r\n", upgrade(address))).await;
        wire.head = wire.read_head().await;
        assert!(wire.head.starts_with("HTTP/1.1 101 "), "{}", wire.head);
        wire
    }

    /// Connects and sends these bytes.
    pub async fn request(address: SocketAddr, bytes: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        Self { stream, head: String::new() }
    }

    pub async fn read_head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(tokio::time::timeout(ANSWER_TIMEOUT, self.stream.read_u8()).await.expect("an answer").unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next frame's first byte and payload; `None` when the host has closed the connection.
    pub async fn receive(&mut self) -> Option<(u8, Vec<u8>)> {
        tokio::time::timeout(ANSWER_TIMEOUT, self.receive_frame()).await.expect("a frame")
    }

    async fn receive_frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let first = self.stream.read_u8().await.ok()?;
        let length = match self.stream.read_u8().await.unwrap() {
            126 => u64::from(self.stream.read_u16().await.unwrap()),
            127 => self.stream.read_u64().await.unwrap(),
            length => u64::from(length),
        };
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut payload).await.unwrap();
        Some((first, payload))
    }

    /// The next message, inflated if needed, and whether it was compressed. Pings are skipped.
    pub async fn message(&mut self) -> (Value, bool) {
        loop {
            match self.receive().await.expect("a message") {
                (0x81, payload) => return (serde_json::from_slice(&payload).unwrap(), false),
                (0xc1, payload) => return (serde_json::from_slice(&inflate(&payload)).unwrap(), true),
                (0x89, _) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Checks that the host still answers on this connection.
    pub async fn is_served(&mut self) {
        self.send(&client_frame(0x81, br#"{"id":"alive","method":"ping"}"#)).await;
        while self.message().await.0["id"] != "alive" {}
    }

    /// The code and reason of the host's close frame, after which it closes the connection.
    pub async fn close(&mut self) -> (u16, String) {
        loop {
            let (first, payload) = self.receive().await.expect("a close frame");
            if first == 0x88 {
                let (code, reason) = payload.split_first_chunk().expect("a code");
                assert_eq!(self.receive().await, None, "nothing follows a close");
                return (u16::from_be_bytes(*code), String::from_utf8(reason.to_vec()).unwrap());
            }
        }
    }

    /// Everything until the host closes the connection.
    pub async fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        tokio::time::timeout(ANSWER_TIMEOUT, self.stream.read_to_end(&mut rest)).await.expect("an end").unwrap();
        String::from_utf8(rest).unwrap()
    }
}

/// The head of an upgrade, without the empty line that ends it.
pub fn upgrade(address: SocketAddr) -> String {
    let key = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{key}")
}

pub fn deflate(message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.len() + 1024);
    Compress::new(Compression::best(), false).compress_vec(message, &mut bytes, FlushCompress::Sync).unwrap();
    bytes.strip_suffix(&[0, 0, 0xff, 0xff]).expect("a flushed block").to_vec()
}

pub fn inflate(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 << 20);
    let payload = [payload, &[0, 0, 0xff, 0xff]].concat();
    Decompress::new(false).decompress_vec(&payload, &mut bytes, FlushDecompress::Sync).unwrap();
    assert!(bytes.len() < bytes.capacity());
    bytes
}
