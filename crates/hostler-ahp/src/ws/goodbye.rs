//! The host's last word to a client that has not left by itself.

use std::time::Duration;

use bytes::Bytes;

use super::encoding;

/// Why the host ends a connection. The client finds it in the close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goodbye {
    /// All is said.
    Done,
    /// The host stops.
    GoingAway,
    /// The client did not say who it is in time.
    NeverInitialized,
    /// The browser was signed out.
    SignedOut,
    /// The client did not read fast enough and has missed something.
    TooSlow,
}

impl Goodbye {
    /// The close frame.
    pub(crate) fn frame(self) -> Bytes {
        match self {
            Self::Done => encoding::close(1000, ""),
            Self::GoingAway => encoding::close(1001, "the host is going away"),
            Self::NeverInitialized => encoding::close(1008, "the client did not initialize in time"),
            Self::SignedOut => encoding::close(4001, "signed out; open another link"),
            Self::TooSlow => encoding::close(1013, "the client did not read fast enough; reconnect"),
        }
    }

    /// Whether what still waits is to be sent before.
    pub(crate) fn waits(self) -> bool {
        self == Self::Done
    }

    /// How long the client may take to receive it, and then to hang up.
    pub(crate) fn patience(self) -> Duration {
        match self {
            // The whole host waits.
            Self::GoingAway => Duration::from_millis(250),
            Self::Done | Self::NeverInitialized | Self::SignedOut | Self::TooSlow => Duration::from_secs(2),
        }
    }
}
