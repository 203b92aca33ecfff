//! Readers with minimal cost: they count frames without parsing them.
#![allow(dead_code, reason = "each benchmark uses its own part")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// Subscriber that never reads after its subscription, with a small receive buffer.
pub(crate) async fn connect_stalled_subscriber(url: &str, channel: &str) -> impl Sized {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    CountingReader::over(socket, url, channel, usize::MAX).await
}

/// Subscribers of one channel.
pub(crate) struct CountingReaders {
    expected_frames: Vec<mpsc::Sender<usize>>,
    reports: mpsc::Receiver<Instant>,
}

impl CountingReaders {
    pub(crate) async fn subscribe(url: &str, channel: &str, readers: usize) -> Self {
        let mut subscribed = Vec::new();
        for n in 0..readers {
            subscribed.push(CountingReader::connect(url, channel, n).await);
        }
        Self::from_readers(subscribed)
    }

    /// Connects readers to a server that sends without a request.
    pub(crate) async fn listen(address: SocketAddr, readers: usize) -> Self {
        let mut connected = Vec::new();
        for _ in 0..readers {
            connected.push(CountingReader::new(TcpStream::connect(address).await.expect("the server accepts")));
        }
        Self::from_readers(connected)
    }

    fn from_readers(readers: Vec<CountingReader>) -> Self {
        let (report, reports) = mpsc::channel(readers.len());
        let set_up = |reader: CountingReader| {
            let (order, wanted) = mpsc::channel(1);
            tokio::spawn(reader.count(wanted, report.clone()));
            order
        };
        Self { expected_frames: readers.into_iter().map(set_up).collect(), reports }
    }

    /// Returns when each reader had received this many more frames.
    pub(crate) async fn arrivals(&mut self, frames: usize) -> Vec<Instant> {
        self.expect(frames).await;
        self.collect().await
    }

    /// Makes each reader wait for this many more frames.
    pub(crate) async fn expect(&mut self, frames: usize) {
        for order in &self.expected_frames {
            order.send(frames).await.expect("the reader exists");
        }
    }

    /// Returns when each reader had received the expected frames.
    pub(crate) async fn collect(&mut self) -> Vec<Instant> {
        let mut arrivals = Vec::new();
        while arrivals.len() < self.expected_frames.len() {
            arrivals.push(self.reports.recv().await.expect("a report"));
        }
        arrivals
    }
}

struct CountingReader {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
}

impl CountingReader {
    async fn connect(url: &str, channel: &str, n: usize) -> Self {
        Self::over(tokio::net::TcpSocket::new_v4().expect("a socket"), url, channel, n).await
    }

    fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: vec![0; 1 << 18], filled: 0 }
    }

    async fn over(socket: tokio::net::TcpSocket, url: &str, channel: &str, n: usize) -> Self {
        let address = url.trim_start_matches("ws://").trim_end_matches('/');
        let stream = socket.connect(address.parse().expect("an address")).await.expect("the host accepts");
        let mut reader = Self::new(stream);
        let head = format!(
            "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        reader.stream.write_all(head.as_bytes()).await.expect("written");
        loop {
            reader.fill().await;
            let bytes = &reader.buffer[..reader.filled];
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                reader.buffer.copy_within(end + 4..reader.filled, 0);
                reader.filled -= end + 4;
                break;
            }
        }
        reader
            .send(&format!(
                r#"{{"id":1,"method":"initialize","params":{{"protocolVersions":["1.0.0"],"clientId":"lean-{n}"}}}}"#
            ))
            .await;
        reader.frames(1).await;
        reader.send(&format!(r#"{{"id":2,"method":"subscribe","params":{{"channel":"{channel}"}}}}"#)).await;
        reader.frames(1).await;
        reader
    }

    /// Sends a masked text frame; a mask of zeros leaves the text unchanged.
    async fn send(&mut self, text: &str) {
        let length = u16::try_from(text.len()).expect("short");
        let mut frame = vec![0x81, 0x80 | 126];
        frame.extend(length.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.stream.write_all(&frame).await.expect("written");
    }

    async fn fill(&mut self) {
        let count = self.stream.read(&mut self.buffer[self.filled..]).await.expect("read");
        assert!(count > 0, "the host hung up");
        self.filled += count;
    }

    /// Reads until this many whole frames have arrived.
    async fn frames(&mut self, mut wanted: usize) {
        while wanted > 0 {
            let mut at = 0;
            while wanted > 0 {
                let Some(length) = frame_length(&self.buffer[at..self.filled]) else { break };
                at += length;
                wanted -= 1;
            }
            self.buffer.copy_within(at..self.filled, 0);
            self.filled -= at;
            if wanted > 0 {
                self.fill().await;
            }
        }
    }

    async fn count(mut self, mut orders: mpsc::Receiver<usize>, reports: mpsc::Sender<Instant>) {
        while let Some(frames) = orders.recv().await {
            self.frames(frames).await;
            if reports.send(Instant::now()).await.is_err() {
                return;
            }
        }
    }
}

/// Returns the length of the first frame, if it is complete.
fn frame_length(bytes: &[u8]) -> Option<usize> {
    let (head, payload) = match *bytes.get(1)? {
        126 => (4, usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]))),
        127 => {
            let long: [u8; 8] = bytes.get(2..10)?.try_into().ok()?;
            (10, usize::try_from(u64::from_be_bytes(long)).ok()?)
        }
        short => (2, usize::from(short)),
    };
    (bytes.len() >= head + payload).then_some(head + payload)
}

/// Returns the processor time that a process has used.
pub(crate) fn processor_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the host is alive");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
