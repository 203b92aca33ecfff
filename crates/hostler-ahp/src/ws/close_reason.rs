//! The host's last word to a client that has not left by itself.

use std::time::Duration;

use bytes::Bytes;

use super::encoding;

/// Why the host ends a connection. The client finds it in the close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// All is said.
    Finished,
    /// The host stops.
    GoingAway,
    /// The client did not say who it is in time.
    NeverInitialized,
    /// The browser was signed out.
    SignedOut,
    /// The client did not read fast enough and has missed something.
    TooSlow,
}

impl CloseReason {
    /// The close frame.
    pub(crate) fn close_frame(self) -> Bytes {
        match self {
            Self::Finished => encoding::close_frame(1000, ""),
            Self::GoingAway => encoding::close_frame(1001, "the host is going away"),
            Self::NeverInitialized => encoding::close_frame(1008, "the client did not initialize in time"),
            Self::SignedOut => encoding::close_frame(4001, "signed out; open another link"),
            Self::TooSlow => encoding::close_frame(1013, "the client did not read fast enough; reconnect"),
        }
    }

    /// Whether what still waits is to be sent before.
    pub(crate) fn should_flush(self) -> bool {
        self == Self::Finished
    }

    /// How long the client may take to receive it, and then to hang up.
    pub(crate) fn close_timeout(self) -> Duration {
        match self {
            // The whole host waits.
            Self::GoingAway => Duration::from_millis(250),
            Self::Finished | Self::NeverInitialized | Self::SignedOut | Self::TooSlow => Duration::from_secs(2),
        }
    }
}
