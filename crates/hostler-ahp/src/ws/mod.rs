//! Server side of WebSocket (RFC 6455) with compression (RFC 7692).
//!
//! Many clients receive the same envelopes. An envelope becomes a wire frame once, plain or compressed, and all sockets
//! with the same [`FrameEncoding`] share its bytes; a socket writes many frames with one system call. Compression keeps
//! no context between messages, which makes sharing possible and bounds memory. A client that does not read fills its
//! own queue and is disconnected; a silent client is pinged and disconnected if it does not answer. Frames are never
//! delayed to be merged, so every `maxLatencyMs` is met.
//!
//! tokio-tungstenite has no compression, and it copies each message into a buffer of each connection.
//! `cargo xtask bench websocket` compares both servers.
//!
//! | module | content |
//! |---|---|
//! | `handshake` | whether a request is an upgrade, and its answer |
//! | `extension` | negotiation of compression |
//! | `frame_decoder` | a client's bytes become messages; pure |
//! | `deflate` | bounded inflate, deflate without context; pure |
//! | `encoding` | a text becomes a shareable frame; pure |
//! | `message_builder` | a long text becomes a message of several frames, in place; pure |
//! | `outbox` | frames to write and their order; pure |
//! | `close_reason` | why the host closes a connection |
//! | `socket` | the only part with I/O: reader, writer, liveness and close handshake |
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

/// Limits of the listener and of each of its sockets.
#[derive(Debug, Clone)]
pub struct SocketLimits {
    /// Maximum number of connections; further ones are answered with 503.
    pub max_connections: usize,
    /// Maximum number of connections that have presented neither token nor browser session; a new one evicts the
    /// oldest.
    pub max_unauthenticated: usize,
    /// Maximum time for a client to send the head of its request.
    pub request_head_timeout: Duration,
    /// Maximum size of a client's message in bytes, before and after inflating.
    pub max_message_bytes: usize,
    /// A client that is silent for this long is pinged.
    pub ping_after: Duration,
    /// A client that is silent for this long after a ping is disconnected.
    pub pong_timeout: Duration,
    /// A client that accepts no bytes for this long, although some are queued, is disconnected.
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
