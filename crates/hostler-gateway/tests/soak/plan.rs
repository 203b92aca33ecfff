//! What happens to one request, and how it has to end.

use crate::dice::Dice;

/// What the upstream does with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing bad: a stream of so many deltas.
    None { deltas: usize },
    /// Nothing bad: a message without streaming.
    Whole,
    /// An error status with an envelope.
    Refuse(u16),
    /// Hangs up without a word.
    HangUp,
    /// Says something that is no HTTP.
    NoHttp,
    /// Is silent.
    Stall,
    /// Begins and hangs up in the middle of an event.
    Cut { deltas: usize },
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
pub(crate) enum Manner {
    /// Reads to the end and keeps the connection for its next request.
    Stay,
    /// Reads to the end and closes the connection.
    LeaveAfter,
    /// Closes the connection within its own request.
    LeaveBefore,
    /// Sends its request and closes the connection.
    LeaveAtOnce,
    /// Closes the connection after so many bytes of the answer.
    LeaveWithin(usize),
    /// Has another's bearer.
    Stranger,
    /// Sends something that is no request of the Messages API.
    Nonsense,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) fault: Fault,
    pub(crate) manner: Manner,
}

impl Plan {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let deltas = dice.below(40);
        let bytes = 1_000 + dice.below(200_000);
        let status = dice.weighted(&[(4, 400), (4, 401), (4, 429), (4, 500), (1, 529)]);
        let fault = dice.weighted(&[
            (30, Fault::None { deltas }),
            (10, Fault::Whole),
            (10, Fault::Refuse(status)),
            (5, Fault::HangUp),
            (3, Fault::NoHttp),
            (5, Fault::Stall),
            (10, Fault::Cut { deltas }),
            (5, Fault::StallWithin { deltas }),
            (5, Fault::EndEarly { deltas }),
            (5, Fault::ErrorFirst),
            (5, Fault::ErrorWithin { deltas }),
            (4, Fault::Garbage),
            (3, Fault::Large { bytes }),
        ]);
        let within = dice.below(3_000);
        let manner = match fault {
            // Somebody has to go.
            Fault::Stall => Manner::LeaveAtOnce,
            Fault::StallWithin { .. } => Manner::LeaveWithin(1),
            _ => dice.weighted(&[
                (50, Manner::Stay),
                (10, Manner::LeaveAfter),
                (8, Manner::LeaveBefore),
                (8, Manner::LeaveAtOnce),
                (16, Manner::LeaveWithin(within)),
                (4, Manner::Stranger),
                (4, Manner::Nonsense),
            ]),
        };
        Self { fault, manner }
    }

    /// The request's body; the stand-in finds its part in it.
    pub(crate) fn body(&self) -> String {
        let stream = self.fault != Fault::Whole;
        let (word, number) = match self.fault {
            Fault::None { deltas } => ("none", deltas),
            Fault::Whole => ("whole", 0),
            Fault::Refuse(status) => ("refuse", status.into()),
            Fault::HangUp => ("hang-up", 0),
            Fault::NoHttp => ("no-http", 0),
            Fault::Stall => ("stall", 0),
            Fault::Cut { deltas } => ("cut", deltas),
            Fault::StallWithin { deltas } => ("stall-within", deltas),
            Fault::EndEarly { deltas } => ("end-early", deltas),
            Fault::ErrorFirst => ("error-first", 0),
            Fault::ErrorWithin { deltas } => ("error-within", deltas),
            Fault::Garbage => ("garbage", 0),
            Fault::Large { bytes } => ("large", bytes),
        };
        let model = if stream { "claude-sonnet-4-5" } else { "claude-sonnet-4-5-20250929" };
        format!(
            r#"{{"model":"{model}","max_tokens":9,"stream":{stream},"messages":[{{"role":"user","content":"hi"}}],"plan":"{word} {number}"}}"#
        )
    }

    /// Whether an answer that was read to its end is the right one.
    pub(crate) fn check(&self, status: u16, answer: &[u8]) -> Result<(), String> {
        let has = |word: &str| answer.windows(word.len()).any(|window| window == word.as_bytes());
        let (expected, whole, failed) = match (self.manner, self.fault) {
            (Manner::Stranger, _) => (401, false, true),
            (Manner::Nonsense, _) => (400, false, true),
            (_, Fault::None { .. } | Fault::Large { .. }) => (200, true, false),
            (_, Fault::Whole) => (200, false, false),
            (_, Fault::Refuse(status)) => (status, false, true),
            (_, Fault::HangUp | Fault::NoHttp | Fault::Garbage) => (502, false, true),
            (_, Fault::ErrorFirst) => (529, false, true),
            (_, Fault::Cut { .. } | Fault::EndEarly { .. } | Fault::ErrorWithin { .. }) => (200, false, true),
            (_, Fault::Stall | Fault::StallWithin { .. }) => return Err("this should not have ended".to_owned()),
        };
        let found = (status, has("event: message_stop"), has("\"type\":\"error\""));
        if found == (expected, whole, failed) {
            return Ok(());
        }
        let text = String::from_utf8_lossy(answer);
        Err(format!("(status, whole, error) is {found:?}, not {:?}: {text}", (expected, whole, failed)))
    }
}
