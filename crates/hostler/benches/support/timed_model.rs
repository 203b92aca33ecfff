//! Model that writes numbered deltas and records when it wrote each of them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Interval of paced deltas.
const DELTA_INTERVAL: Duration = Duration::from_millis(5);

pub(crate) struct TimedModel {
    pub(crate) url: String,
    sent: Arc<Mutex<Vec<Instant>>>,
}

impl TimedModel {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let sent = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&sent);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&log)));
            }
        });
        Self { url, sent }
    }

    /// Returns when the delta with this number was written.
    pub(crate) fn sent(&self, number: usize) -> Instant {
        self.sent.lock().expect("the log")[number]
    }

    pub(crate) fn clear(&self) {
        self.sent.lock().expect("the log").clear();
    }
}

async fn serve(stream: TcpStream, log: Arc<Mutex<Vec<Instant>>>) {
    let _ = stream.set_nodelay(true);
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        if stream.read_exact(&mut body).await.is_err() {
            return;
        }
        if answer(stream.get_mut(), &String::from_utf8_lossy(&body), &log).await.is_err() {
            return;
        }
    }
}

/// Parses the last `@burst=N` or `@paced=N` in the request.
fn wanted(body: &str) -> (usize, bool) {
    let last = |key: &str| {
        let (before, after) = body.rsplit_once(key)?;
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        Some((before.len(), digits.parse().unwrap_or(1)))
    };
    match (last("@burst="), last("@paced=")) {
        (burst, Some((at, count))) if burst.is_none_or(|(other, _)| other < at) => (count, true),
        (Some((_, count)), _) => (count, false),
        _ => (1, false),
    }
}

async fn answer(stream: &mut TcpStream, body: &str, log: &Mutex<Vec<Instant>>) -> std::io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    let (count, paced) = wanted(body);
    let start = r#"{"type":"message_start","message":{"id":"msg_bench","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}"#;
    event(stream, "message_start", start).await?;
    event(
        stream,
        "content_block_start",
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    )
    .await?;
    for number in 0..count {
        if paced {
            tokio::time::sleep(DELTA_INTERVAL).await;
            log.lock().expect("the log").push(Instant::now());
        }
        let delta =
            format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{number} "}}}}"#);
        event(stream, "content_block_delta", &delta).await?;
    }
    event(stream, "content_block_stop", r#"{"type":"content_block_stop","index":0}"#).await?;
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}"#;
    event(stream, "message_delta", end).await?;
    event(stream, "message_stop", r#"{"type":"message_stop"}"#).await?;
    stream.write_all(b"0\r\n\r\n").await
}

async fn event(stream: &mut TcpStream, name: &str, data: &str) -> std::io::Result<()> {
    let text = format!("event: {name}\ndata: {data}\n\n");
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await
}
