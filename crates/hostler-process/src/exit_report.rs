//! How an agent exited: exit code or signal.

use std::fmt;

/// The agent's own exit: an exit code or the signal that killed it. Both are absent only if the exit was not
/// observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitReport {
    /// The exit code, if the agent exited by itself.
    pub code: Option<i32>,
    /// The signal, if one ended the agent.
    pub signal: Option<i32>,
}

impl ExitReport {
    pub(crate) const UNKNOWN: Self = Self { code: None, signal: None };

    pub(crate) fn from_code(code: i32) -> Self {
        Self { code: Some(code), signal: None }
    }

    pub(crate) fn from_signal(signal: i32) -> Self {
        Self { code: None, signal: Some(signal) }
    }

    /// Whether the agent exited with code 0.
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }
}

impl fmt::Display for ExitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (None, Some(signal)) => write!(f, "signal {signal}"),
            (None, None) => f.write_str("unknown exit status"),
        }
    }
}
