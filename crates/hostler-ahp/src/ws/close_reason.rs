//! Why the host closes a connection, and the close frame for each reason.

use std::time::Duration;

use bytes::Bytes;

use super::encoding;

/// Why the host ends a connection, sent in the close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// The exchange is complete.
    Finished,
    /// The host stops.
    GoingAway,
    /// The client did not initialize in time.
    NeverInitialized,
    /// The browser was signed out.
    SignedOut,
    /// The client read too slowly and missed deliveries.
    TooSlow,
}

impl CloseReason {
    /// The close frame.
    pub(crate) fn close_frame(self) -> Bytes {
        match self {
            Self::Finished => encoding::close_frame(1000, ""),
            Self::GoingAway => encoding::close_frame(1001, "the host is stopping"),
            Self::NeverInitialized => encoding::close_frame(1008, "the client did not initialize in time"),
            Self::SignedOut => encoding::close_frame(4001, "signed out; sign in with another link"),
            Self::TooSlow => encoding::close_frame(1013, "the client did not read fast enough; reconnect"),
        }
    }

    /// Whether queued frames are sent first.
    pub(crate) fn should_flush(self) -> bool {
        self == Self::Finished
    }

    /// Maximum time for the client to receive the frame, and then to close the connection.
    pub(crate) fn close_timeout(self) -> Duration {
        match self {
            // The shutdown of the host waits for it.
            Self::GoingAway => Duration::from_millis(250),
            Self::Finished | Self::NeverInitialized | Self::SignedOut | Self::TooSlow => Duration::from_secs(2),
        }
    }
}
