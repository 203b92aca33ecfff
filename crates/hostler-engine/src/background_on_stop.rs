//! What becomes of background work when a turn is stopped.

use ahp_types::state::{SessionInputRequest, SessionState};

/// The name, among what a session waits for, of its question about work that goes on behind a stop.
pub(crate) const STOP_QUESTION_REQUEST_ID: &str = "background";

/// What a stop of a turn means for the work that goes on beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackgroundOnStop {
    /// Nothing: it goes on and stays listed.
    #[default]
    Keep,
    /// It is stopped too, one piece after the other.
    Stop,
    /// The session asks, and it goes on until somebody answers.
    Ask,
}

impl BackgroundOnStop {
    /// All of them, with the names that they have in configurations, and what they mean.
    pub(crate) const ALL: [(&str, Self, &str); 3] = [
        ("keep", Self::Keep, "It goes on"),
        ("stop", Self::Stop, "It is stopped with the turn"),
        ("ask", Self::Ask, "It goes on until somebody has said what is to be stopped"),
    ];

    /// The one of a name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, ..)| *known == name).map(|(_, policy, _)| *policy)
    }
}

/// Whether a session asks what is to be stopped besides a turn.
pub(crate) fn has_stop_question(session: &SessionState) -> bool {
    let mut needed = session.input_needed.iter().flatten();
    needed
        .any(|request| matches!(request, SessionInputRequest::ChatInput(asked) if asked.id == STOP_QUESTION_REQUEST_ID))
}
