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

mod close_reason;
mod deflate;
mod encoding;
mod extension;
mod frame_decoder;
pub(crate) mod handshake;
mod message_builder;
mod outbox;
mod socket;
#[cfg(test)]
mod test_frames;

use std::time::Duration;

pub(crate) use close_reason::CloseReason;
pub(crate) use encoding::{FrameEncoding, message_text};
pub(crate) use message_builder::MessageBuilder;
pub(crate) use socket::{run_socket, shut_down_and_drain};

/// Bounds of the listener and of each of its sockets.
#[derive(Debug, Clone)]
pub struct SocketLimits {
    /// How many connections there may be at a time; more are answered with 503.
    pub max_connections: usize,
    /// How many of them may have shown no token or browser session yet; the oldest is closed for the next one.
    pub max_unauthenticated: usize,
    /// How long a client may take to send the head of its request.
    pub request_head_timeout: Duration,
    /// The largest message that a client may send, in bytes, also after inflating.
    pub max_message_bytes: usize,
    /// A client that was silent for so long is pinged.
    pub ping_after: Duration,
    /// A client that stays silent for so long after a ping is gone.
    pub pong_timeout: Duration,
    /// A client that takes no bytes for so long, although there are some, is gone.
    pub write_stall_timeout: Duration,
}

impl Default for SocketLimits {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            max_unauthenticated: 256,
            request_head_timeout: Duration::from_secs(10),
            max_message_bytes: 64 * 1024 * 1024,
            ping_after: Duration::from_secs(20),
            pong_timeout: Duration::from_secs(20),
            write_stall_timeout: Duration::from_secs(30),
        }
    }
}
