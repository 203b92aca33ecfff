//! The host's configuration of permissions.

use std::path::PathBuf;
use std::time::Duration;

/// The host's configuration of permissions.
#[derive(Debug, Clone, Default)]
pub struct PermissionConfig {
    /// Whether a session may skip permission checks. A client still has to choose that mode explicitly.
    pub allow_bypass: bool,
    /// What happens to requests that no client answers.
    pub unattended: UnattendedPolicy,
    /// The user's home directory, for `~` in rules.
    pub home_directory: Option<PathBuf>,
    /// The host's own directories: state, cache and configuration. Every mode except bypass asks before touching them.
    pub host_directories: Vec<PathBuf>,
}

/// What happens to requests that no client answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum UnattendedPolicy {
    /// They wait without a limit.
    #[default]
    Wait,
    /// They are denied after this time.
    DenyAfter(Duration),
    /// They are answered at once, without asking a person.
    Answer(UnattendedAnswer),
}

/// The automatic answer to every request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnattendedAnswer {
    /// Calls that no rule denies run; plans are carried out; questions are returned to the agent unanswered.
    Allow,
    /// Every request is denied, with this message to the agent.
    Deny(String),
}
