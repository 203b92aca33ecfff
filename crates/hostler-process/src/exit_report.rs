//! How an agent ended.

use std::fmt;

/// The agent's own end: an exit code or the signal that killed it. Both are absent only when nobody was left to see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitReport {
    /// The exit code, if the agent ended by itself.
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

    /// Whether the agent ended by itself with exit code 0.
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
