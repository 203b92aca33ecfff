//! Tests of a socket over an in-memory stream with a paused clock: liveness, order and close handshake.

use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::mpsc;

use std::time::Duration;

use super::*;
use crate::ws::test_frames::{MASK, client_frame};

/// The host's end of the socket.
struct Host {
    received: mpsc::Receiver<String>,
    outgoing: mpsc::Sender<Bytes>,
    end: tokio::task::JoinHandle<()>,
}

/// A socket whose host end passes everything on. It ends when the client does, or when `outgoing` is dropped.
fn open(buffer: usize, limits: SocketLimits) -> (DuplexStream, Host) {
    let (client, stream) = duplex(buffer);
    let (receive, received) = mpsc::channel(16);
    let (outgoing, mut frames) = mpsc::channel::<Bytes>(16);
    let exchange = move |mut inbound: Inbound<DuplexStream>, mut outbound: Outbound<DuplexStream>| async move {
        let reader = async {
            while let Some(text) = inbound.next().await {
                receive.send(text).await.unwrap();
            }
        };
        let writer = async {
            while let Some(frame) = frames.recv().await {
                outbound.send(frame).await.unwrap();
            }
            outbound.close().await.unwrap();
        };
        tokio::select! { () = reader => {}, () = writer => {} }
        CloseReason::Finished
    };
    let end =
        tokio::spawn(async move { run_socket(stream, Bytes::new(), FrameEncoding::Plain, &limits, exchange).await });
    (client, Host { received, outgoing, end })
}

async fn expect(client: &mut DuplexStream, bytes: &[u8]) {
    let mut read = vec![0; bytes.len()];
    client.read_exact(&mut read).await.unwrap();
    assert_eq!(read, bytes);
}

async fn rest(client: &mut DuplexStream) -> Vec<u8> {
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    rest
}

#[tokio::test(start_paused = true)]
async fn messages_pass_in_both_directions_and_a_ping_is_answered_at_once() {
    let (mut client, mut host) = open(1024, SocketLimits::default());
    client.write_all(&[client_frame(0x81, b"hello"), client_frame(0x89, b"?")].concat()).await.unwrap();
    assert_eq!(host.received.recv().await.as_deref(), Some("hello"));
    expect(&mut client, b"\x8a\x01?").await;
    host.outgoing.send(FrameEncoding::Plain.frame(b"hi")).await.unwrap();
    expect(&mut client, b"\x81\x02hi").await;
    client.write_all(&client_frame(0x88, &1000u16.to_be_bytes())).await.unwrap();
    assert_eq!(rest(&mut client).await, b"\x88\x02\x03\xe8");
    drop(client);
    host.end.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_pinged_and_disconnected_without_an_answer() {
    let (mut client, host) = open(1024, SocketLimits::default());
    let start = Instant::now();
    for round in 1..4 {
        expect(&mut client, b"\x89\x00").await;
        assert_eq!(start.elapsed().as_secs(), 20 * round);
        client.write_all(&client_frame(0x8a, b"")).await.unwrap();
    }
    assert!(!host.end.is_finished());
    // No answers any more: one further ping, then the end without a close frame.
    assert_eq!(rest(&mut client).await, b"\x89\x00");
    assert_eq!(start.elapsed().as_secs(), 100);
    host.end.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_active_client_is_not_pinged() {
    let (mut client, mut host) = open(1024, SocketLimits::default());
    for _ in 0..10 {
        tokio::time::advance(Duration::from_secs(15)).await;
        client.write_all(&client_frame(0x81, b"x")).await.unwrap();
        host.received.recv().await.unwrap();
    }
    client.write_all(&client_frame(0x88, b"")).await.unwrap();
    assert_eq!(rest(&mut client).await, b"\x88\x00");
}

#[tokio::test(start_paused = true)]
async fn a_busy_host_does_not_count_as_client_silence() {
    let (mut client, stream) = duplex(1024);
    let limits = SocketLimits::default();
    let exchange = |mut inbound: Inbound<DuplexStream>, _outbound| async move {
        inbound.next().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1000)).await;
        assert_eq!(inbound.next().await.as_deref(), Some("two"));
        CloseReason::Finished
    };
    client.write_all(&[client_frame(0x81, b"one"), client_frame(0x81, b"two")].concat()).await.unwrap();
    let socket = run_socket(stream, Bytes::new(), FrameEncoding::Plain, &limits, exchange);
    let (bytes, ()) = tokio::join!(rest(&mut client), socket);
    assert_eq!(bytes, b"\x88\x02\x03\xe8");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_accepts_no_bytes_is_disconnected() {
    let limits = SocketLimits { ping_after: Duration::from_secs(3600), ..SocketLimits::default() };
    let (client, host) = open(64, limits);
    let start = Instant::now();
    host.outgoing.send(FrameEncoding::Plain.frame(&[b'x'; 1000])).await.unwrap();
    host.end.await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 30);
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_stays_connected() {
    let (mut client, host) = open(64, SocketLimits::default());
    host.outgoing.send(FrameEncoding::Plain.frame(&[b'x'; 640])).await.unwrap();
    let mut read = 0;
    while read < 644 {
        tokio::time::advance(Duration::from_secs(10)).await;
        read += client.read(&mut [0; 64]).await.unwrap();
        client.write_all(&client_frame(0x8a, b"")).await.unwrap();
    }
    assert!(!host.end.is_finished());
}

#[tokio::test(start_paused = true)]
async fn only_the_last_ping_is_answered_after_the_current_frame() {
    let (mut client, stream) = duplex(64);
    let (receive, mut received) = mpsc::channel(1);
    let large = FrameEncoding::Plain.frame(&[b'x'; 100]);
    let (frame_under_way, next) = (large.clone(), FrameEncoding::Plain.frame(b"next"));
    let exchange = |mut inbound: Inbound<DuplexStream>, mut outbound: Outbound<DuplexStream>| async move {
        let reader = async {
            while let Some(text) = inbound.next().await {
                receive.send(text).await.unwrap();
            }
        };
        let writer = async {
            outbound.feed(frame_under_way).await.unwrap();
            outbound.send(next).await.unwrap();
        };
        tokio::join!(reader, writer);
        CloseReason::Finished
    };
    let limits = SocketLimits::default();
    let socket = run_socket(stream, Bytes::new(), FrameEncoding::Plain, &limits, exchange);
    let client = async {
        expect(&mut client, &large[..1]).await;
        let pings: Vec<u8> = [b"1", b"2", b"3"].into_iter().flat_map(|payload| client_frame(0x89, payload)).collect();
        client.write_all(&pings).await.unwrap();
        client.write_all(&client_frame(0x81, b"after the pings")).await.unwrap();
        assert_eq!(received.recv().await.as_deref(), Some("after the pings"));
        expect(&mut client, &[&large[1..], b"\x8a\x013\x81\x04next"].concat()).await;
        drop(client);
    };
    tokio::join!(client, socket);
}

#[tokio::test(start_paused = true)]
async fn a_protocol_violation_ends_with_a_close_frame_and_reason() {
    for (bytes, code, word) in [
        (client_frame(0x83, b""), 1002u16, "opcode"),
        (client_frame(0x81, b"\xff"), 1007, "UTF-8"),
        ([&[0x81, 0xff][..], &[0; 3], &[1; 5], &MASK].concat(), 1009, "larger"),
    ] {
        let (mut client, host) = open(4096, SocketLimits::default());
        // Bytes after the violation are ignored, however many there are.
        client.write_all(&[bytes, vec![7; 2000]].concat()).await.unwrap();
        let last = rest(&mut client).await;
        assert_eq!(last[0], 0x88);
        assert_eq!(last[2..4], code.to_be_bytes());
        let reason = std::str::from_utf8(&last[4..]).unwrap();
        assert!(reason.contains(word), "{reason}");
        drop(client);
        host.end.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn closing_the_writer_sends_the_close_frame_last() {
    let (mut client, host) = open(1024, SocketLimits::default());
    host.outgoing.send(FrameEncoding::Plain.frame(b"last")).await.unwrap();
    drop(host.outgoing);
    let bytes = rest(&mut client).await;
    let bytes = bytes.strip_prefix(b"\x81\x04last").unwrap();
    assert_eq!(bytes[2..4], 1001u16.to_be_bytes());
    // The client never closes; the socket ends anyway.
    host.end.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_too_slow_client_receives_the_close_frame_instead_of_queued_frames() {
    let (mut client, stream) = duplex(64);
    let exchange = |_inbound, mut outbound: Outbound<DuplexStream>| async move {
        for _ in 0..10 {
            outbound.feed(FrameEncoding::Plain.frame(&[b'x'; 38])).await.unwrap();
        }
        // The stream accepts one and a half frames.
        let _ = timeout(Duration::from_secs(1), outbound.flush()).await;
        CloseReason::TooSlow
    };
    let limits = SocketLimits::default();
    let socket = run_socket(stream, Bytes::new(), FrameEncoding::Plain, &limits, exchange);
    let client = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let bytes = rest(&mut client).await;
        drop(client);
        bytes
    };
    let (bytes, ()) = tokio::join!(client, socket);
    assert_eq!(bytes[80..], CloseReason::TooSlow.close_frame());
}
