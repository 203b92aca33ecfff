//! One socket: reads messages, writes frames, checks liveness, and performs the close handshake.
//!
//! Reader, writer and liveness monitor are futures of **one task**. They share the stream behind a mutex that is
//! therefore never contended, and the stream stores one waker only. Before one of them can move to another task, it
//! needs its own half of the stream.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::io::poll_read_buf;

use super::SocketLimits;
use super::close_reason::CloseReason;
use super::encoding::{self, FrameEncoding};
use super::frame_decoder::{FrameDecoder, FrameEvent};
use super::outbox::{MAX_WRITE_SLICES, Outbox};

/// Size of queued frames above which the writer applies backpressure.
const WRITE_HIGH_WATER_BYTES: usize = 256 * 1024;

/// Serves a socket: `exchange` receives both directions. The socket ends when `exchange` ends, or when the client is gone.
pub(crate) async fn run_socket<T, F>(
    stream: T,
    early: Bytes,
    encoding: FrameEncoding,
    limits: &SocketLimits,
    exchange: impl FnOnce(Inbound<T>, Outbound<T>) -> F,
) where
    T: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = CloseReason>,
{
    let socket = SharedSocket::new(stream);
    let decoder = FrameDecoder::new(encoding, limits.max_message_bytes, early);
    let exchange = exchange(Inbound { socket: socket.clone(), decoder }, Outbound { socket: socket.clone() });
    let close_reason = tokio::select! {
        // The monitor is polled second and so sees at once what reader and writer left for it.
        biased;
        close_reason = exchange => close_reason,
        loss = monitor_liveness(&socket, limits) => {
            tracing::debug!(%loss, "client connection lost");
            return;
        }
    };
    // `exchange` has dropped both directions: the stream has one owner again.
    if let Some(shared) = Arc::into_inner(socket.0) {
        close_handshake(shared.into_inner().unwrap_or_else(PoisonError::into_inner), close_reason).await;
    }
}

/// Why a client is gone without a close frame.
#[derive(Debug, thiserror::Error)]
enum DisconnectCause {
    #[error("no answer to a ping")]
    PongTimeout,
    #[error("the client does not read")]
    WriteStalled,
    #[error("connection failed: {0}")]
    Broken(io::Error),
}

/// How the exchange ended, if the reader or the writer knows.
enum SocketEnd {
    /// The stream is closed or broken; the client receives nothing more.
    Disconnected,
    /// The client has sent a close frame, and this is the answer.
    CloseReceived(Bytes),
    /// The client violated the protocol, and this close frame names the violation.
    ProtocolFault(Bytes),
}

/// The stream, and state that reader, writer and monitor share.
struct SocketState<T> {
    stream: T,
    outbox: Outbox,
    /// Whether the stream may still buffer written bytes: a TLS stream does so when the socket is full.
    unflushed: bool,
    end: Option<SocketEnd>,
    /// Since when the reader waits for bytes. `None` while it is busy: unread bytes may be waiting then.
    quiet_since: Option<Instant>,
    /// When the last ping was sent, if nothing has arrived since.
    pinged_at: Option<Instant>,
    /// Since when the client accepts no bytes.
    stalled_since: Option<Instant>,
}

struct SharedSocket<T>(Arc<Mutex<SocketState<T>>>);

impl<T> Clone for SharedSocket<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> SharedSocket<T> {
    fn new(stream: T) -> Self {
        Self(Arc::new(Mutex::new(SocketState {
            stream,
            outbox: Outbox::default(),
            unflushed: false,
            end: None,
            quiet_since: None,
            pinged_at: None,
            stalled_since: None,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, SocketState<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> SocketState<T> {
    /// Writes until at most `rest` bytes of frames are queued.
    fn poll_write(&mut self, context: &mut Context<'_>, rest: usize) -> Poll<io::Result<()>> {
        while !self.outbox.is_empty() && (rest == 0 || self.outbox.queued_bytes() > rest) {
            let mut slices = [IoSlice::new(&[]); MAX_WRITE_SLICES];
            let count = self.outbox.fill_slices(&mut slices);
            let slices = slices.get(..count).unwrap_or_default();
            match Pin::new(&mut self.stream).poll_write_vectored(context, slices) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(self.record_failure(io::ErrorKind::WriteZero.into()))),
                Poll::Ready(Ok(written)) => {
                    self.outbox.advance(written);
                    self.unflushed = true;
                    self.stalled_since = None;
                    // A ping waits behind the frames being written, and so does its answer.
                    if self.pinged_at.is_some() {
                        self.pinged_at = Some(Instant::now());
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.record_failure(error))),
                Poll::Pending => {
                    self.stalled_since.get_or_insert_with(Instant::now);
                    return Poll::Pending;
                }
            }
        }
        if rest == 0 && self.unflushed {
            match Pin::new(&mut self.stream).poll_flush(context) {
                Poll::Ready(Ok(())) => (self.unflushed, self.stalled_since) = (false, None),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.record_failure(error))),
                Poll::Pending => {
                    self.stalled_since.get_or_insert_with(Instant::now);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn record_failure(&mut self, error: io::Error) -> io::Error {
        self.end = Some(SocketEnd::Disconnected);
        error
    }

    /// Reads more bytes for the decoder. `false` at the end of the stream.
    fn poll_read(&mut self, context: &mut Context<'_>, decoder: &mut FrameDecoder) -> Poll<bool> {
        match poll_read_buf(Pin::new(&mut self.stream), context, decoder.read_buffer()) {
            Poll::Ready(Ok(bytes @ 1..)) => {
                decoder.record_read(bytes);
                (self.quiet_since, self.pinged_at) = (None, None);
                Poll::Ready(true)
            }
            Poll::Ready(end) => {
                if let Err(error) = end {
                    tracing::debug!(%error, "socket failed");
                }
                self.end = Some(SocketEnd::Disconnected);
                Poll::Ready(false)
            }
            Poll::Pending => {
                decoder.shrink_buffer();
                self.quiet_since.get_or_insert_with(Instant::now);
                Poll::Pending
            }
        }
    }
}

/// The client's messages. Pings are answered on the way. Ends when the client closes or violates the protocol. A caller
/// that has started to wait for a message must keep polling: meanwhile the client's silence counts against it.
pub(crate) struct Inbound<T> {
    socket: SharedSocket<T>,
    decoder: FrameDecoder,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for Inbound<T> {
    type Item = String;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<String>> {
        let this = self.get_mut();
        let mut socket = this.socket.lock();
        while socket.end.is_none() {
            match this.decoder.next() {
                Ok(Some(FrameEvent::Text(text))) => return Poll::Ready(Some(text)),
                // The monitor writes it.
                Ok(Some(FrameEvent::Ping(payload))) => socket.outbox.set_pong(encoding::pong_frame(&payload)),
                Ok(Some(FrameEvent::Pong)) => {}
                Ok(Some(FrameEvent::Close(code))) => {
                    let echo =
                        code.map_or_else(encoding::close_frame_without_code, |code| encoding::close_frame(code, ""));
                    socket.end = Some(SocketEnd::CloseReceived(echo));
                }
                Ok(None) => {
                    ready!(socket.poll_read(context, &mut this.decoder));
                }
                Err(error) => {
                    tracing::debug!(%error, "client violated the WebSocket protocol");
                    socket.end =
                        Some(SocketEnd::ProtocolFault(encoding::close_frame(error.code(), &error.to_string())));
                }
            }
        }
        Poll::Ready(None)
    }
}

/// Frames to the client, written unchanged. Closing it sends the close frame.
pub(crate) struct Outbound<T> {
    socket: SharedSocket<T>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Sink<Bytes> for Outbound<T> {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.lock().poll_write(context, WRITE_HIGH_WATER_BYTES)
    }

    fn start_send(self: Pin<&mut Self>, frame: Bytes) -> io::Result<()> {
        self.socket.lock().outbox.push(frame);
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.lock().poll_write(context, 0)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut socket = self.socket.lock();
        socket.outbox.close(CloseReason::GoingAway.close_frame());
        socket.poll_write(context, 0)
    }
}

/// Writes control frames while the writer is idle, pings a silent client, and ends when the client is gone.
async fn monitor_liveness<T: AsyncRead + AsyncWrite + Unpin>(
    socket: &SharedSocket<T>,
    limits: &SocketLimits,
) -> DisconnectCause {
    let mut timer = pin!(sleep_until(Instant::now() + limits.ping_after));
    poll_fn(|context| {
        loop {
            let mut socket = socket.lock();
            let due = match socket.check_liveness(Instant::now(), limits) {
                Ok(due) => due,
                Err(loss) => return Poll::Ready(loss),
            };
            // A writer with further frames also flushes the stream; otherwise it is flushed here.
            if (socket.outbox.is_urgent() || (socket.unflushed && socket.outbox.is_empty()))
                && let Poll::Ready(Err(error)) = socket.poll_write(context, 0)
            {
                return Poll::Ready(DisconnectCause::Broken(error));
            }
            // Every message moves the deadline; a timer that fires early is cheaper than resetting it each time.
            if due < timer.deadline() || timer.is_elapsed() {
                timer.as_mut().reset(due);
            }
            ready!(timer.as_mut().poll(context));
        }
    })
    .await
}

impl<T> SocketState<T> {
    /// Sends a ping if it is due; returns when to check again.
    fn check_liveness(&mut self, now: Instant, limits: &SocketLimits) -> Result<Instant, DisconnectCause> {
        let stalled = self.stalled_since.map(|since| since + limits.write_stall_timeout);
        if stalled.is_some_and(|end| end <= now) {
            return Err(DisconnectCause::WriteStalled);
        }
        let silent = match (self.quiet_since, self.pinged_at) {
            (None, _) => now + limits.ping_after,
            (Some(_), Some(pinged)) => pinged + limits.pong_timeout,
            (Some(since), None) if since + limits.ping_after > now => since + limits.ping_after,
            (Some(_), None) => {
                self.outbox.set_ping(encoding::ping_frame());
                self.pinged_at = Some(now);
                now + limits.pong_timeout
            }
        };
        if silent <= now {
            return Err(DisconnectCause::PongTimeout);
        }
        Ok(stalled.map_or(silent, |stalled| stalled.min(silent)))
    }
}

/// Sends the close frame and waits a moment for the client to close the connection.
async fn close_handshake<T: AsyncRead + AsyncWrite + Unpin>(mut socket: SocketState<T>, close_reason: CloseReason) {
    let ending = socket.end.take();
    if ending.is_some() || !close_reason.should_flush() {
        socket.outbox.discard_queued();
    }
    let has_closed = matches!(ending, Some(SocketEnd::CloseReceived(_)));
    let close = match ending {
        Some(SocketEnd::Disconnected) => return,
        Some(SocketEnd::CloseReceived(close) | SocketEnd::ProtocolFault(close)) => close,
        None => close_reason.close_frame(),
    };
    let close_timeout = close_reason.close_timeout();
    socket.outbox.close(close);
    let sent = timeout(close_timeout, poll_fn(|context| socket.poll_write(context, 0))).await;
    if matches!(sent, Ok(Ok(()))) && !has_closed {
        // A client that does not close, or breaks the connection, has received the close frame anyway.
        let _ = timeout(close_timeout, shut_down_and_drain(&mut socket.stream)).await;
    }
}

/// Shuts down the write direction and discards input until the client closes too: closing a socket with unread bytes
/// would reset the connection, and the client would lose the last frames.
///
/// # Errors
/// If the connection breaks before.
pub(crate) async fn shut_down_and_drain<T: AsyncRead + AsyncWrite + Unpin>(stream: &mut T) -> io::Result<()> {
    stream.shutdown().await?;
    tokio::io::copy(stream, &mut tokio::io::sink()).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
