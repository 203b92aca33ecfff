//! A Messages API server that handles each request according to the request's plan. It is handwritten, because an HTTP
//! library would not misbehave.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

pub(crate) struct MockUpstream {
    pub(crate) url: url::Url,
    stop: CancellationToken,
    accepting: JoinHandle<()>,
}

impl MockUpstream {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let stop = CancellationToken::new();
        let accepting = tokio::spawn(accept(listener, stop.clone()));
        Self { url, stop, accepting }
    }

    /// Returns when all its tasks have ended.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.accepting.await.unwrap();
    }
}

async fn accept(listener: TcpListener, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                let (stream, _) = accepted.unwrap();
                // Callers that disconnect are expected in this test.
                connections.spawn(async move { serve(stream).await.is_ok() });
            }
        }
    }
    connections.shutdown().await;
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    loop {
        let plan = loop {
            if let Some((end, plan)) = request(&buffer) {
                buffer.drain(..end);
                break plan;
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        if !answer(&mut stream, &plan).await? {
            return Ok(());
        }
    }
}

/// The end of a complete request, and its plan.
fn request(buffer: &[u8]) -> Option<(usize, String)> {
    let head = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&buffer[..head]).to_ascii_lowercase();
    let length: usize = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())?;
    let body = buffer.get(head + 4..head + 4 + length)?;
    let body = String::from_utf8_lossy(body);
    let (_, plan) = body.split_once("\"plan\":\"")?;
    Some((head + 4 + length, plan.split_once('"')?.0.to_owned()))
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const ERROR: &str = r#"{"type":"error","error":{"type":"overloaded_error","message":"Too many horses."}}"#;

/// Returns whether the connection can be reused.
async fn answer(stream: &mut TcpStream, plan: &str) -> io::Result<bool> {
    let (fault, number) = plan.split_once(' ').unwrap();
    let number: usize = number.parse().unwrap();
    match fault {
        "none" => {
            begin(stream, number).await?;
            end(stream).await?;
        }
        "large" => {
            begin(stream, 1).await?;
            event(stream, "content_block_delta", &format!(r#"{{"text":"{}"}}"#, "x".repeat(number))).await?;
            end(stream).await?;
        }
        "whole" => {
            let body = r#"{"type":"message","model":"claude-sonnet-4.5","content":[],"usage":{"input_tokens":1,"output_tokens":1}}"#;
            whole(stream, 200, body).await?;
        }
        "refuse" => whole(stream, number, ERROR).await?,
        "hang-up" => return Ok(false),
        "no-http" => {
            stream.write_all(b"neigh\r\n\r\n").await?;
            return Ok(false);
        }
        "stall" => return silent(stream).await,
        "stall-within" => {
            begin(stream, number).await?;
            return silent(stream).await;
        }
        "cut" => {
            begin(stream, number).await?;
            stream.write_all(b"10\r\nevent: content_b\r\n").await?;
            return Ok(false);
        }
        "end-early" => {
            begin(stream, number).await?;
            stream.write_all(b"0\r\n\r\n").await?;
        }
        "error-first" => {
            stream.write_all(STREAM.as_bytes()).await?;
            event(stream, "error", ERROR).await?;
            stream.write_all(b"0\r\n\r\n").await?;
        }
        "error-within" => {
            begin(stream, number).await?;
            event(stream, "error", ERROR).await?;
            stream.write_all(b"0\r\n\r\n").await?;
        }
        "garbage" => {
            stream.write_all(STREAM.as_bytes()).await?;
            chunk(stream, "\u{1}<html>\r\r\n\n: hay\n\ndata: straw\n\n\n\nhalf").await?;
            stream.write_all(b"0\r\n\r\n").await?;
        }
        other => panic!("there is no plan {other:?}"),
    }
    Ok(true)
}

/// Sends nothing until the caller has disconnected.
async fn silent(stream: &mut TcpStream) -> io::Result<bool> {
    let mut nothing = [0; 64];
    while stream.read(&mut nothing).await? > 0 {}
    Ok(false)
}

async fn begin(stream: &mut TcpStream, deltas: usize) -> io::Result<()> {
    stream.write_all(STREAM.as_bytes()).await?;
    let start = r#"{"type":"message_start","message":{"model":"claude-sonnet-4.5","usage":{"input_tokens":1,"output_tokens":1}}}"#;
    event(stream, "message_start", start).await?;
    for _ in 0..deltas {
        event(stream, "content_block_delta", r#"{"type":"content_block_delta","index":0,"delta":{"text":"x"}}"#)
            .await?;
    }
    Ok(())
}

async fn end(stream: &mut TcpStream) -> io::Result<()> {
    event(stream, "message_delta", r#"{"type":"message_delta","usage":{"output_tokens":2}}"#).await?;
    event(stream, "message_stop", r#"{"type":"message_stop"}"#).await?;
    stream.write_all(b"0\r\n\r\n").await
}

async fn event(stream: &mut TcpStream, name: &str, data: &str) -> io::Result<()> {
    chunk(stream, &format!("event: {name}\ndata: {data}\n\n")).await
}

async fn chunk(stream: &mut TcpStream, text: &str) -> io::Result<()> {
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await
}

async fn whole(stream: &mut TcpStream, status: usize, body: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status} As planned\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all([head.as_str(), body].concat().as_bytes()).await
}
