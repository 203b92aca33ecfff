//! Our own server side of WebSocket (RFC 6455) with compression (RFC 7692).
//!
//! A host tells many clients the same thing. So a frame is built once, header and compression included, and its bytes
//! are shared by all sockets that speak the same [`Encoding`]; a socket writes many of them with one system call.
//!
//! | module | idea |
//! |---|---|
//! | `handshake` | is this request an upgrade, and what is answered |
//! | `extension` | which compression is agreed on |
//! | `frame` | bytes of a client become messages; pure |
//! | `deflate` | bounded inflating, deflating without memory of earlier messages; pure |
//! | `encoding` | text becomes a frame that can be shared; pure |
//! | `room` | a long text becomes a message of several frames, in place; pure |
//! | `outbox` | what is still to be written, in which order; pure |
//! | `goodbye` | the host's last word |
//! | `socket` | the only part that does I/O: reader, writer, liveness and farewell |
//!
//! **Architecture Invariant:** nothing here knows JSON, AHP or the engine.

mod deflate;
mod encoding;
mod extension;
mod frame;
mod goodbye;
pub(crate) mod handshake;
mod outbox;
mod room;
#[cfg(test)]
mod sample;
mod socket;

use std::time::Duration;

pub(crate) use encoding::{Encoding, text};
pub(crate) use goodbye::Goodbye;
pub(crate) use room::Room;
pub(crate) use socket::{hang_up, run};

/// Bounds of the listener and of each of its sockets.
#[derive(Debug, Clone)]
pub struct SocketLimits {
    /// How many connections there may be at a time; more are answered with 503.
    pub connections: usize,
    /// How many of them may have shown no token or browser session yet; the oldest is closed for the next one.
    pub unauthenticated: usize,
    /// How long a client may take to send the head of its request.
    pub head: Duration,
    /// The largest message that a client may send, in bytes, also after inflating.
    pub message: usize,
    /// A client that was silent for so long is pinged.
    pub ping_after: Duration,
    /// A client that stays silent for so long after a ping is gone.
    pub pong_within: Duration,
    /// A client that takes no bytes for so long, although there are some, is gone.
    pub write_stall: Duration,
}

impl Default for SocketLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            unauthenticated: 256,
            head: Duration::from_secs(10),
            message: 64 * 1024 * 1024,
            ping_after: Duration::from_secs(20),
            pong_within: Duration::from_secs(20),
            write_stall: Duration::from_secs(30),
        }
    }
}
