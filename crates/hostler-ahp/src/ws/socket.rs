//! One socket: what the client says, what it is told, whether it is still there, and how it ends.
//!
//! Reader, writer and keeper are futures of **one task**. They share the stream behind a mutex that is therefore never
//! contended, and the stream has to remember one waker only. Whoever moves one of them to another task must give it
//! its own half of the stream first.

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
use super::encoding::{self, Encoding};
use super::frame::{Decoder, Event};
use super::goodbye::Goodbye;
use super::outbox::{Outbox, SLICES};

/// So many bytes of frames wait before the writer is asked to be patient.
const HIGH_WATER: usize = 256 * 1024;

/// Serves a socket: `talk` is given both directions, and the socket ends when it ends, or when the client is gone.
pub(crate) async fn run<T, F>(
    stream: T,
    early: Bytes,
    encoding: Encoding,
    limits: &SocketLimits,
    talk: impl FnOnce(Inbound<T>, Outbound<T>) -> F,
) where
    T: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Goodbye>,
{
    let line = Line::new(stream);
    let decoder = Decoder::new(encoding, limits.message, early);
    let talk = talk(Inbound { line: line.clone(), decoder }, Outbound { line: line.clone() });
    let goodbye = tokio::select! {
        // The keeper comes second and so sees at once what the others left for it.
        biased;
        goodbye = talk => goodbye,
        loss = keep(&line, limits) => {
            tracing::debug!(%loss, "a client is gone");
            return;
        }
    };
    // Both directions are gone with `talk`: the stream has one owner again.
    if let Some(shared) = Arc::into_inner(line.0) {
        farewell(shared.into_inner().unwrap_or_else(PoisonError::into_inner), goodbye).await;
    }
}

/// Why a client is gone that has not said so.
#[derive(Debug, thiserror::Error)]
enum Loss {
    #[error("it did not answer a ping")]
    Silent,
    #[error("it took no more bytes")]
    Stalled,
    #[error("the connection broke: {0}")]
    Broken(io::Error),
}

/// How the conversation ended, if the reader or the writer knows.
enum Ending {
    /// The stream is closed or broken; nobody hears us.
    Gone,
    /// The client has said goodbye, and this is the answer.
    Left(Bytes),
    /// The client broke the protocol, and this tells it how.
    Fault(Bytes),
}

/// The stream, and what its users know about each other.
struct Shared<T> {
    stream: T,
    outbox: Outbox,
    /// Whether the stream may still hold what it was given: one with TLS does so when the socket is full.
    unflushed: bool,
    ending: Option<Ending>,
    /// Since when the reader waits for bytes. None while it is busy: unread bytes may be waiting for it.
    quiet_since: Option<Instant>,
    /// When a ping went out that nothing has followed yet.
    pinged: Option<Instant>,
    /// Since when the client takes nothing.
    stalled_since: Option<Instant>,
}

struct Line<T>(Arc<Mutex<Shared<T>>>);

impl<T> Clone for Line<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Line<T> {
    fn new(stream: T) -> Self {
        Self(Arc::new(Mutex::new(Shared {
            stream,
            outbox: Outbox::default(),
            unflushed: false,
            ending: None,
            quiet_since: None,
            pinged: None,
            stalled_since: None,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Shared<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Shared<T> {
    /// Writes until at most `rest` bytes of frames wait.
    fn poll_write(&mut self, context: &mut Context<'_>, rest: usize) -> Poll<io::Result<()>> {
        while !self.outbox.is_empty() && (rest == 0 || self.outbox.queued() > rest) {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = self.outbox.slices(&mut slices);
            let slices = slices.get(..count).unwrap_or_default();
            match Pin::new(&mut self.stream).poll_write_vectored(context, slices) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(self.broken(io::ErrorKind::WriteZero.into()))),
                Poll::Ready(Ok(written)) => {
                    self.outbox.advance(written);
                    self.unflushed = true;
                    self.stalled_since = None;
                    // A ping waits behind what is being written, and so does its answer.
                    if self.pinged.is_some() {
                        self.pinged = Some(Instant::now());
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.broken(error))),
                Poll::Pending => {
                    self.stalled_since.get_or_insert_with(Instant::now);
                    return Poll::Pending;
                }
            }
        }
        if rest == 0 && self.unflushed {
            match Pin::new(&mut self.stream).poll_flush(context) {
                Poll::Ready(Ok(())) => (self.unflushed, self.stalled_since) = (false, None),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.broken(error))),
                Poll::Pending => {
                    self.stalled_since.get_or_insert_with(Instant::now);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn broken(&mut self, error: io::Error) -> io::Error {
        self.ending = Some(Ending::Gone);
        error
    }

    /// Reads more bytes for the decoder. `false` at the end of the stream.
    fn poll_read(&mut self, context: &mut Context<'_>, decoder: &mut Decoder) -> Poll<bool> {
        match poll_read_buf(Pin::new(&mut self.stream), context, decoder.buffer()) {
            Poll::Ready(Ok(bytes @ 1..)) => {
                decoder.arrived(bytes);
                (self.quiet_since, self.pinged) = (None, None);
                Poll::Ready(true)
            }
            Poll::Ready(end) => {
                if let Err(error) = end {
                    tracing::debug!(%error, "a socket failed");
                }
                self.ending = Some(Ending::Gone);
                Poll::Ready(false)
            }
            Poll::Pending => {
                decoder.rest();
                self.quiet_since.get_or_insert_with(Instant::now);
                Poll::Pending
            }
        }
    }
}

/// What the client says: its messages. Pings are answered on the way. Ends when the client leaves or breaks the
/// protocol. Whoever has begun to wait for a message must go on: the client is judged by its silence meanwhile.
pub(crate) struct Inbound<T> {
    line: Line<T>,
    decoder: Decoder,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for Inbound<T> {
    type Item = String;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<String>> {
        let this = self.get_mut();
        let mut line = this.line.lock();
        while line.ending.is_none() {
            match this.decoder.next() {
                Ok(Some(Event::Text(text))) => return Poll::Ready(Some(text)),
                // The keeper writes it.
                Ok(Some(Event::Ping(payload))) => line.outbox.pong(encoding::pong(&payload)),
                Ok(Some(Event::Pong)) => {}
                Ok(Some(Event::Close(code))) => {
                    let echo = code.map_or_else(encoding::close_without_code, |code| encoding::close(code, ""));
                    line.ending = Some(Ending::Left(echo));
                }
                Ok(None) => {
                    ready!(line.poll_read(context, &mut this.decoder));
                }
                Err(error) => {
                    tracing::debug!(%error, "a client broke the protocol");
                    line.ending = Some(Ending::Fault(encoding::close(error.code(), &error.to_string())));
                }
            }
        }
        Poll::Ready(None)
    }
}

/// What the client is told: whole frames, written as they are. Closing it says that the host goes away.
pub(crate) struct Outbound<T> {
    line: Line<T>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Sink<Bytes> for Outbound<T> {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.line.lock().poll_write(context, HIGH_WATER)
    }

    fn start_send(self: Pin<&mut Self>, frame: Bytes) -> io::Result<()> {
        self.line.lock().outbox.push(frame);
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.line.lock().poll_write(context, 0)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut line = self.line.lock();
        line.outbox.close(Goodbye::GoingAway.frame());
        line.poll_write(context, 0)
    }
}

/// Writes control frames when nobody else writes, pings a silent client, and ends when the client is gone.
async fn keep<T: AsyncRead + AsyncWrite + Unpin>(line: &Line<T>, limits: &SocketLimits) -> Loss {
    let mut timer = pin!(sleep_until(Instant::now() + limits.ping_after));
    poll_fn(|context| {
        loop {
            let mut line = line.lock();
            let due = match line.check(Instant::now(), limits) {
                Ok(due) => due,
                Err(loss) => return Poll::Ready(loss),
            };
            // Whoever has more to say will push what is left in the stream, too; else it is done here.
            if (line.outbox.is_urgent() || (line.unflushed && line.outbox.is_empty()))
                && let Poll::Ready(Err(error)) = line.poll_write(context, 0)
            {
                return Poll::Ready(Loss::Broken(error));
            }
            // Every message moves the time; a timer that fires early is cheaper than one that is always moved.
            if due < timer.deadline() || timer.is_elapsed() {
                timer.as_mut().reset(due);
            }
            ready!(timer.as_mut().poll(context));
        }
    })
    .await
}

impl<T> Shared<T> {
    /// Pings if it is time to; says when to look again.
    fn check(&mut self, now: Instant, limits: &SocketLimits) -> Result<Instant, Loss> {
        let stalled = self.stalled_since.map(|since| since + limits.write_stall);
        if stalled.is_some_and(|end| end <= now) {
            return Err(Loss::Stalled);
        }
        let silent = match (self.quiet_since, self.pinged) {
            (None, _) => now + limits.ping_after,
            (Some(_), Some(pinged)) => pinged + limits.pong_within,
            (Some(since), None) if since + limits.ping_after > now => since + limits.ping_after,
            (Some(_), None) => {
                self.outbox.ping(encoding::ping());
                self.pinged = Some(now);
                now + limits.pong_within
            }
        };
        if silent <= now {
            return Err(Loss::Silent);
        }
        Ok(stalled.map_or(silent, |stalled| stalled.min(silent)))
    }
}

/// Says goodbye, and waits a moment for the client to hang up.
async fn farewell<T: AsyncRead + AsyncWrite + Unpin>(mut line: Shared<T>, goodbye: Goodbye) {
    let ending = line.ending.take();
    if ending.is_some() || !goodbye.waits() {
        line.outbox.discard();
    }
    let has_left = matches!(ending, Some(Ending::Left(_)));
    let close = match ending {
        Some(Ending::Gone) => return,
        Some(Ending::Left(close) | Ending::Fault(close)) => close,
        None => goodbye.frame(),
    };
    let patience = goodbye.patience();
    line.outbox.close(close);
    let told = timeout(patience, poll_fn(|context| line.poll_write(context, 0))).await;
    if matches!(told, Ok(Ok(()))) && !has_left {
        // A client that does not hang up, or breaks the connection, has heard us all the same.
        let _ = timeout(patience, hang_up(&mut line.stream)).await;
    }
}

/// Says that nothing follows, and ignores what the client still sends until it hangs up, too: to close a socket that
/// has unread bytes in it would take our last words away from the client.
///
/// # Errors
/// If the connection breaks before.
pub(crate) async fn hang_up<T: AsyncRead + AsyncWrite + Unpin>(stream: &mut T) -> io::Result<()> {
    stream.shutdown().await?;
    tokio::io::copy(stream, &mut tokio::io::sink()).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
