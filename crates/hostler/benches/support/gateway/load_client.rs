//! Client with minimal parsing: it detects when the body starts and when it ends.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::measured_systems::MeasuredSystem;

/// End of a chunked body.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

/// Prompt that makes the mock send this many deltas.
pub(super) fn load_prompt(deltas: usize, pace: Duration) -> String {
    format!("bench:{deltas}:{}:", pace.as_millis())
}

/// Timing of one request.
pub(super) struct RequestTiming {
    /// Time to the first byte of the first event.
    pub(super) first: Duration,
    /// Time to the last byte.
    pub(super) total: Duration,
}

pub(super) struct LoadClient {
    stream: TcpStream,
    head: String,
    buffer: Vec<u8>,
}

impl LoadClient {
    pub(super) async fn connect(system: &MeasuredSystem) -> Self {
        Self::connect_to(system.address, system.head.clone()).await
    }

    pub(super) async fn connect_to(address: SocketAddr, head: String) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Self { stream, head, buffer: vec![0; 256 * 1024] }
    }

    pub(super) async fn run(&mut self, prompt: &str) -> RequestTiming {
        self.read_all(prompt, |_| ()).await
    }

    async fn read_all(&mut self, prompt: &str, mut see: impl FnMut(&[u8])) -> RequestTiming {
        let request = request(&self.head, prompt);
        let started = Instant::now();
        self.stream.write_all(request.as_bytes()).await.expect("a request");
        let (mut first, mut begun) = (None, Vec::new());
        let mut tail = [0; LAST_CHUNK.len()];
        loop {
            let length = self.stream.read(&mut self.buffer).await.expect("an answer");
            let read = self.buffer.get(..length).unwrap_or_default();
            assert!(length > 0, "the answer to {prompt:?} broke off: {:?}", String::from_utf8_lossy(&begun));
            see(read);
            if first.is_none() {
                begun.extend_from_slice(read);
                if has_event(&begun) {
                    first = Some(started.elapsed());
                }
            }
            // Last bytes so far, which may have arrived in pieces.
            let retained = LAST_CHUNK.len().saturating_sub(length);
            tail.rotate_right(retained);
            let new = read.len().min(LAST_CHUNK.len());
            let (_, newest) = read.split_at(length - new);
            if let Some(place) = tail.get_mut(retained..) {
                place.copy_from_slice(newest);
            }
            if tail == LAST_CHUNK {
                return RequestTiming { first: first.expect("an event"), total: started.elapsed() };
            }
        }
    }
}

/// Returns whether the first event has arrived; panics on an error response.
fn has_event(begun: &[u8]) -> bool {
    assert!(begun.len() < 12 || begun.starts_with(b"HTTP/1.1 200"), "a bad answer: {}", String::from_utf8_lossy(begun));
    begun.windows(6).any(|window| window == b"event:")
}

fn request(head: &str, prompt: &str) -> String {
    let body = format!(
        r#"{{"model":"claude-sonnet-4-5","max_tokens":8000,"stream":true,"messages":[{{"role":"user","content":"{prompt}"}}]}}"#
    );
    format!("{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Counts the deltas of a stream that arrive.
pub(super) async fn count_deltas(system: &MeasuredSystem, deltas: usize) -> usize {
    let mut all = Vec::new();
    let mut client = LoadClient::connect(system).await;
    client.read_all(&load_prompt(deltas, Duration::ZERO), |read| all.extend_from_slice(read)).await;
    String::from_utf8_lossy(&all).matches("text_delta").count()
}
