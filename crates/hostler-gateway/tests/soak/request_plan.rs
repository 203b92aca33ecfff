//! What happens to one request, and how it has to end.

use crate::seeded_rng::SeededRng;

/// What the upstream does with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpstreamFault {
    /// Nothing bad: a stream of so many deltas.
    None { deltas: usize },
    /// Nothing bad: a message without streaming.
    Whole,
    /// An error status with an envelope.
    ErrorStatus(u16),
    /// Hangs up without a word.
    HangUp,
    /// Says something that is no HTTP.
    NoHttp,
    /// Is silent.
    Stall,
    /// Begins and hangs up in the middle of an event.
    CutMidEvent { deltas: usize },
    /// Begins and is silent.
    StallWithin { deltas: usize },
    /// Begins and ends without the last event.
    EndEarly { deltas: usize },
    /// An `error` event instead of the first one.
    ErrorFirst,
    /// Begins, then an `error` event.
    ErrorWithin { deltas: usize },
    /// A stream of bytes that are no events.
    Garbage,
    /// One event of this size among the others.
    Large { bytes: usize },
}

/// What the client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientBehavior {
    /// Reads to the end and keeps the connection for its next request.
    KeepAlive,
    /// Reads to the end and closes the connection.
    CloseAfterResponse,
    /// Closes the connection within its own request.
    CloseMidRequest,
    /// Sends its request and closes the connection.
    CloseAfterRequest,
    /// Closes the connection after so many bytes of the answer.
    CloseMidResponse(usize),
    /// Has another's bearer.
    WrongBearer,
    /// Sends something that is no request of the Messages API.
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
            // Somebody has to go.
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

    /// The request's body; the stand-in finds its part in it.
    pub(crate) fn body(&self) -> String {
        let stream = self.fault != UpstreamFault::Whole;
        let (word, number) = match self.fault {
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
            r#"{{"model":"{model}","max_tokens":9,"stream":{stream},"messages":[{{"role":"user","content":"hi"}}],"plan":"{word} {number}"}}"#
        )
    }

    /// Whether an answer that was read to its end is the right one.
    pub(crate) fn check(&self, status: u16, answer: &[u8]) -> Result<(), String> {
        let has = |word: &str| answer.windows(word.len()).any(|window| window == word.as_bytes());
        let (expected, whole, failed) = match (self.client_behavior, self.fault) {
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
                return Err("this should not have ended".to_owned());
            }
        };
        let found = (status, has("event: message_stop"), has("\"type\":\"error\""));
        if found == (expected, whole, failed) {
            return Ok(());
        }
        let text = String::from_utf8_lossy(answer);
        Err(format!("(status, whole, error) is {found:?}, not {:?}: {text}", (expected, whole, failed)))
    }
}
