//! `BackgroundOnStop`: what happens to background work when a turn is stopped.

use ahp_types::state::{SessionInputRequest, SessionState};

/// The id, in the session's `inputNeeded`, of its question about background work after a stop.
pub(crate) const STOP_QUESTION_REQUEST_ID: &str = "background";

/// What stopping a turn means for background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackgroundOnStop {
    /// It continues and stays listed.
    #[default]
    Keep,
    /// It is stopped too, one piece after the other.
    Stop,
    /// The session asks; the work continues until there is an answer.
    Ask,
}

impl BackgroundOnStop {
    /// All values: name in configurations, value, description.
    pub(crate) const ALL: [(&str, Self, &str); 3] = [
        ("keep", Self::Keep, "It continues"),
        ("stop", Self::Stop, "It stops with the turn"),
        ("ask", Self::Ask, "The session asks; the work continues until there is an answer"),
    ];

    /// The value with this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, ..)| *known == name).map(|(_, policy, _)| *policy)
    }
}

/// Whether a session asks what to stop besides a turn.
pub(crate) fn has_stop_question(session: &SessionState) -> bool {
    let mut needed = session.input_needed.iter().flatten();
    needed
        .any(|request| matches!(request, SessionInputRequest::ChatInput(asked) if asked.id == STOP_QUESTION_REQUEST_ID))
}
