//! Upstream with minimal cost: prepared bytes, written at the pace that the prompt requests.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const RESPONSE_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
const MESSAGE_START_EVENT: &str = r#"{"type":"message_start","message":{"id":"msg_01","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}"#;
const DELTA_EVENT: &str = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" horses"}}"#;
/// Events per write without a pace: as much as a socket accepts.
const EVENTS_PER_WRITE: usize = 256;

/// Runs on its own thread until the program ends.
pub(super) struct BenchmarkUpstream {
    pub(super) address: SocketAddr,
}

impl BenchmarkUpstream {
    pub(super) fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        listener.set_nonblocking(true).expect("a listener for tokio");
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async { accept(TcpListener::from_std(listener).expect("a listener")).await });
        });
        Self { address }
    }
}

async fn accept(listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        tokio::spawn(async move { serve(stream).await.is_ok() });
    }
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    loop {
        let (end, load_request) = loop {
            if let Some(found) = request(&buffer) {
                break found;
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        buffer.drain(..end);
        match load_request {
            Some(load_request) => answer(&mut stream, load_request).await?,
            // Peers send other requests too, such as for models.
            None => stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}").await?,
        }
    }
}

#[derive(Clone, Copy)]
struct LoadRequest {
    deltas: usize,
    pace: Duration,
}

/// Returns where a complete request ends, and what its prompt requests: `bench:<deltas>:<milliseconds>:`.
fn request(buffer: &[u8]) -> Option<(usize, Option<LoadRequest>)> {
    let head = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(buffer.get(..head)?).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok()).unwrap_or(0);
    let end = head + 4 + length;
    let body = String::from_utf8_lossy(buffer.get(head + 4..end)?).into_owned();
    let load_request = body.split_once("bench:").and_then(|(_, rest)| {
        let mut numbers = rest.split(':').map(|number| number.parse::<usize>().ok());
        let (deltas, pace) = (numbers.next()??, numbers.next()??);
        Some(LoadRequest { deltas, pace: Duration::from_millis(pace.try_into().ok()?) })
    });
    Some((end, load_request))
}

async fn answer(stream: &mut TcpStream, load_request: LoadRequest) -> io::Result<()> {
    let begin = [
        RESPONSE_HEAD,
        &event("message_start", MESSAGE_START_EVENT),
        &event(
            "content_block_start",
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        ),
    ];
    let end = [
        event("content_block_stop", r#"{"type":"content_block_stop","index":0}"#),
        event(
            "message_delta",
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}"#,
        ),
        event("message_stop", r#"{"type":"message_stop"}"#),
        "0\r\n\r\n".to_owned(),
    ];
    let delta = event("content_block_delta", DELTA_EVENT);
    if load_request.pace.is_zero() {
        stream.write_all(begin.concat().as_bytes()).await?;
        let many = delta.repeat(EVENTS_PER_WRITE.min(load_request.deltas));
        let mut left = load_request.deltas;
        while left > 0 {
            let now = left.min(EVENTS_PER_WRITE);
            stream.write_all(many.as_bytes().get(..now * delta.len()).unwrap_or_default()).await?;
            left -= now;
        }
    } else {
        let mut ticks = tokio::time::interval(load_request.pace);
        ticks.tick().await;
        ticks.tick().await;
        stream.write_all(begin.concat().as_bytes()).await?;
        for _ in 0..load_request.deltas {
            stream.write_all(delta.as_bytes()).await?;
            ticks.tick().await;
        }
    }
    stream.write_all(end.concat().as_bytes()).await
}

/// Formats an event in a chunk of its own, as servers send them.
fn event(name: &str, data: &str) -> String {
    let event = format!("event: {name}\ndata: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}
