//! The host's permissions: their configuration, the permanent rules and the decisions about workspace trust.

pub(crate) mod diff_preview;
pub(crate) mod pending_requests;
pub(crate) mod session_gate;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostler_rules::RuleStore;
use hostler_trust::TrustStore;
use tokio::sync::watch;

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

/// The permissions of all sessions. Sessions are notified when rules or trust decisions change.
pub(crate) struct PermissionService {
    config: PermissionConfig,
    rules: Arc<RuleStore>,
    /// Decisions about workspace trust.
    trust: Arc<TrustStore>,
    /// Version of the rules that sessions were last notified of; they then evaluate pending calls again.
    rules_version: watch::Sender<u64>,
    /// Version of the trust decisions that sessions were last notified of.
    trust_version: watch::Sender<u64>,
}

impl PermissionService {
    pub(crate) fn new(config: PermissionConfig, rules: Arc<RuleStore>, trust: Arc<TrustStore>) -> Self {
        let rules_version = watch::Sender::new(rules.snapshot().version);
        let trust_version = watch::Sender::new(trust.version());
        Self { config, rules, trust, rules_version, trust_version }
    }

    pub(crate) fn config(&self) -> &PermissionConfig {
        &self.config
    }

    /// The permanent rules.
    pub(crate) fn rules(&self) -> &Arc<RuleStore> {
        &self.rules
    }

    /// The decisions about workspace trust.
    pub(crate) fn trust(&self) -> &Arc<TrustStore> {
        &self.trust
    }

    /// Notifies of changed rules.
    pub(crate) fn rule_changes(&self) -> watch::Receiver<u64> {
        self.rules_version.subscribe()
    }

    /// Notifies of changed trust decisions.
    pub(crate) fn trust_changes(&self) -> watch::Receiver<u64> {
        self.trust_version.subscribe()
    }

    /// Notifies all sessions if the rules have changed since the last notification.
    pub(crate) fn notify_rule_changes(&self) {
        let version = self.rules.snapshot().version;
        self.rules_version.send_if_modified(|notified| std::mem::replace(notified, version) != version);
    }

    /// Notifies all sessions if decisions about folders have changed since the last notification.
    pub(crate) fn notify_trust_changes(&self) {
        let version = self.trust.version();
        self.trust_version.send_if_modified(|notified| std::mem::replace(notified, version) != version);
    }
}
