//! What the host's configuration says about permissions.

use std::path::PathBuf;
use std::time::Duration;

/// How the host treats permissions.
#[derive(Debug, Clone, Default)]
pub struct PermissionConfig {
    /// Whether a session may skip permissions altogether. Never silently: a client still has to choose it.
    pub allow_bypass: bool,
    /// What becomes of requests that nobody answers.
    pub unattended: UnattendedPolicy,
    /// The user's home directory: what `~` in rules stands for.
    pub home_directory: Option<PathBuf>,
    /// The host's own directories: state, cache and configuration. No mode but bypass touches them without a question.
    pub host_directories: Vec<PathBuf>,
}

/// What becomes of requests that nobody answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum UnattendedPolicy {
    /// They wait for as long as it takes.
    #[default]
    Wait,
    /// They are denied after a time.
    DenyAfter(Duration),
    /// They are answered at once, without asking anybody.
    Answer(UnattendedAnswer),
}

/// The answer to every request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnattendedAnswer {
    /// Calls that no rule denies run; plans are carried out; questions are left to the agent.
    Allow,
    /// No, in these words to the agent.
    Deny(String),
}
