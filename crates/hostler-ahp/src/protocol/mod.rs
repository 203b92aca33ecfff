//! The protocol as one table: all actions, commands and notifications, their version, their permitted senders, and
//! whether this host supports them. Dispatch checks, version filters and `docs/ahp.md` are derived from it.

mod action_limits;
pub(crate) mod actions;
pub(crate) mod commands;
pub(crate) mod deprecated;
mod dispatch_check;
pub(crate) mod notifications;
mod reference;
#[cfg(test)]
mod tests;

pub(crate) use dispatch_check::{DispatchError, check_dispatch};
pub use reference::protocol_reference;

/// The protocol version that introduced a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SinceVersion(pub(crate) u64, pub(crate) u64, pub(crate) u64);

/// The kinds of channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChannelKind {
    Root,
    Session,
    Chat,
    Terminal,
    Changeset,
    Annotations,
    ResourceWatch,
    Canvas,
    Automations,
    AutomationRun,
}

impl ChannelKind {
    /// The kind of a channel, by its URI.
    pub(crate) fn of(channel: &str) -> Option<Self> {
        const SCHEMES: &[(&str, ChannelKind)] = &[
            ("ahp-chat:", ChannelKind::Chat),
            ("ahp-resource-watch:", ChannelKind::ResourceWatch),
            ("ahp-canvas:", ChannelKind::Canvas),
            ("ahp-automations:", ChannelKind::Automations),
            ("ahp-automation-run:", ChannelKind::AutomationRun),
        ];
        if channel == hostler_engine::ROOT_CHANNEL_URI {
            return Some(Self::Root);
        }
        if hostler_engine::is_terminal_channel(channel) {
            return Some(Self::Terminal);
        }
        if let Some((_, kind)) = SCHEMES.iter().find(|(scheme, _)| channel.starts_with(scheme)) {
            return Some(*kind);
        }
        if hostler_engine::annotated_session(channel).is_some() {
            return Some(Self::Annotations);
        }
        if !hostler_engine::is_session_uri(channel) {
            return None;
        }
        Some(if channel.contains("/changeset/") { Self::Changeset } else { Self::Session })
    }

    /// Its name in messages and documentation.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Session => "session",
            Self::Chat => "chat",
            Self::Terminal => "terminal",
            Self::Changeset => "changeset",
            Self::Annotations => "annotations",
            Self::ResourceWatch => "resource watch",
            Self::Canvas => "canvas",
            Self::Automations => "automations",
            Self::AutomationRun => "automation run",
        }
    }
}

/// Who may dispatch an action. The host may dispatch all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllowedSender {
    Host,
    Client,
    /// Only the client that the action names.
    OwnClient,
    /// Only the client that owns the tool; this host lets no client run tools.
    ToolOwner,
}

/// Whether this host supports a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostSupport {
    Offered,
    /// The host does not offer it, and advertises nothing that implies it.
    NotOffered(&'static str),
}
