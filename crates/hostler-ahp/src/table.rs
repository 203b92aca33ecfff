//! Who may dispatch what: the one list that validation is made from.

use ahp_types::StateAction;

/// The kinds of channels that actions live on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChannelKind {
    Root,
    Session,
    Chat,
}

impl ChannelKind {
    pub(crate) fn of(channel: &str) -> Option<Self> {
        if channel == hostler_engine::ROOT {
            Some(Self::Root)
        } else if channel.starts_with("ahp-chat:") {
            Some(Self::Chat)
        } else {
            hostler_engine::is_session_uri(channel).then_some(Self::Session)
        }
    }
}

/// The actions that clients may dispatch on this host today, and where.
const CLIENT_ACTIONS: &[(&str, ChannelKind)] =
    &[("chat/turnStarted", ChannelKind::Chat), ("chat/turnCancelled", ChannelKind::Chat)];

/// Checks form and permission of a dispatch. The error is the reason of the rejection.
pub(crate) fn check(kind: ChannelKind, name: &str, action: &StateAction) -> Result<(), String> {
    let Some((_, home)) = CLIENT_ACTIONS.iter().find(|(known, _)| *known == name) else {
        return Err(match action {
            StateAction::Unknown(_) => format!("this host does not know the action {name:?}"),
            _ => format!("this host does not take {name:?} from clients"),
        });
    };
    if matches!(action, StateAction::Unknown(_)) {
        return Err(format!("the action {name:?} is malformed"));
    }
    if *home != kind {
        return Err(format!("the action {name:?} does not belong on this channel"));
    }
    Ok(())
}
