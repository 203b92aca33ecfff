//! Plan of one request: the faults, and how it must end.

use crate::client::SoakError;
use crate::seeded_rng::SeededRng;

/// What the upstream does with the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpstreamFault {
    /// No fault: a stream with this number of deltas.
    None { deltas: usize },
    /// No fault: a complete message.
    Whole,
    /// An error status with an envelope.
    ErrorStatus(u16),
    /// Closes the connection without a response.
    HangUp,
    /// Sends bytes that are not HTTP.
    NoHttp,
    /// Sends nothing.
    Stall,
    /// Starts a stream and closes the connection in the middle of an event.
    CutMidEvent { deltas: usize },
    /// Starts a stream and then sends nothing.
    StallWithin { deltas: usize },
    /// Starts a stream and ends it without the last event.
    EndEarly { deltas: usize },
    /// An `error` event instead of the first one.
    ErrorFirst,
    /// Starts a stream, then sends an `error` event.
    ErrorWithin { deltas: usize },
    /// A stream of bytes that are not events.
    Garbage,
    /// One event of this size in a stream.
    Large { bytes: usize },
}

/// What the client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientBehavior {
    /// Reads to the end and reuses the connection for its next request.
    KeepAlive,
    /// Reads to the end and closes the connection.
    CloseAfterResponse,
    /// Closes the connection in the middle of its request.
    CloseMidRequest,
    /// Sends its request and closes the connection.
    CloseAfterRequest,
    /// Closes the connection after this many bytes of the response.
    CloseMidResponse(usize),
    /// Sends an invalid bearer.
    WrongBearer,
    /// Sends an invalid Messages request.
    InvalidRequest,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestPlan {
    pub(crate) fault: UpstreamFault,
    pub(crate) client_behavior: ClientBehavior,
}

impl RequestPlan {
    pub(crate) fn draw(dice: &mut SeededRng) -> Self {
        let deltas = dice.below(40);
        let bytes = 1_000 + dice.below(200_000);
        let status = dice.weighted(&[(4, 400), (4, 401), (4, 429), (4, 500), (1, 529)]);
        let fault = dice.weighted(&[
            (30, UpstreamFault::None { deltas }),
            (10, UpstreamFault::Whole),
            (10, UpstreamFault::ErrorStatus(status)),
            (5, UpstreamFault::HangUp),
            (3, UpstreamFault::NoHttp),
            (5, UpstreamFault::Stall),
            (10, UpstreamFault::CutMidEvent { deltas }),
            (5, UpstreamFault::StallWithin { deltas }),
            (5, UpstreamFault::EndEarly { deltas }),
            (5, UpstreamFault::ErrorFirst),
            (5, UpstreamFault::ErrorWithin { deltas }),
            (4, UpstreamFault::Garbage),
            (3, UpstreamFault::Large { bytes }),
        ]);
        let within = dice.below(3_000);
        let client_behavior = match fault {
            // One side has to close the connection.
            UpstreamFault::Stall => ClientBehavior::CloseAfterRequest,
            UpstreamFault::StallWithin { .. } => ClientBehavior::CloseMidResponse(1),
            _ => dice.weighted(&[
                (50, ClientBehavior::KeepAlive),
                (10, ClientBehavior::CloseAfterResponse),
                (8, ClientBehavior::CloseMidRequest),
                (8, ClientBehavior::CloseAfterRequest),
                (16, ClientBehavior::CloseMidResponse(within)),
                (4, ClientBehavior::WrongBearer),
                (4, ClientBehavior::InvalidRequest),
            ]),
        };
        Self { fault, client_behavior }
    }

    /// The request's body; it contains the plan for the mock upstream.
    pub(crate) fn body(&self) -> String {
        let stream = self.fault != UpstreamFault::Whole;
        let (fault, number) = match self.fault {
            UpstreamFault::None { deltas } => ("none", deltas),
            UpstreamFault::Whole => ("whole", 0),
            UpstreamFault::ErrorStatus(status) => ("refuse", status.into()),
            UpstreamFault::HangUp => ("hang-up", 0),
            UpstreamFault::NoHttp => ("no-http", 0),
            UpstreamFault::Stall => ("stall", 0),
            UpstreamFault::CutMidEvent { deltas } => ("cut", deltas),
            UpstreamFault::StallWithin { deltas } => ("stall-within", deltas),
            UpstreamFault::EndEarly { deltas } => ("end-early", deltas),
            UpstreamFault::ErrorFirst => ("error-first", 0),
            UpstreamFault::ErrorWithin { deltas } => ("error-within", deltas),
            UpstreamFault::Garbage => ("garbage", 0),
            UpstreamFault::Large { bytes } => ("large", bytes),
        };
        let model = if stream { "claude-sonnet-4-5" } else { "claude-sonnet-4-5-20250929" };
        format!(
            r#"{{"model":"{model}","max_tokens":9,"stream":{stream},"messages":[{{"role":"user","content":"hi"}}],"plan":"{fault} {number}"}}"#
        )
    }

    /// Checks a response that was read to its end.
    pub(crate) fn check(&self, status: u16, answer: &[u8]) -> Result<(), SoakError> {
        let has = |text: &str| answer.windows(text.len()).any(|window| window == text.as_bytes());
        let expected = match (self.client_behavior, self.fault) {
            (ClientBehavior::WrongBearer, _) => (401, false, true),
            (ClientBehavior::InvalidRequest, _) => (400, false, true),
            (_, UpstreamFault::None { .. } | UpstreamFault::Large { .. }) => (200, true, false),
            (_, UpstreamFault::Whole) => (200, false, false),
            (_, UpstreamFault::ErrorStatus(status)) => (status, false, true),
            (_, UpstreamFault::HangUp | UpstreamFault::NoHttp | UpstreamFault::Garbage) => (502, false, true),
            (_, UpstreamFault::ErrorFirst) => (529, false, true),
            (
                _,
                UpstreamFault::CutMidEvent { .. } | UpstreamFault::EndEarly { .. } | UpstreamFault::ErrorWithin { .. },
            ) => (200, false, true),
            (_, UpstreamFault::Stall | UpstreamFault::StallWithin { .. }) => {
                return Err(SoakError::NotStalled);
            }
        };
        let found = (status, has("event: message_stop"), has("\"type\":\"error\""));
        if found == expected {
            return Ok(());
        }
        Err(SoakError::Unexpected { found, expected, text: String::from_utf8_lossy(answer).into_owned() })
    }
}
