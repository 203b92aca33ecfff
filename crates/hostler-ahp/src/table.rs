//! Who may dispatch what: the one list that validation is made from.

use ahp_types::StateAction;
use hostler_engine::Dispatch;

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
const CLIENT_ACTIONS: &[(&str, &[ChannelKind])] = &[
    ("root/configChanged", &[ChannelKind::Root]),
    // VS Code renames a chat by saying this on the chat's channel.
    ("session/titleChanged", &[ChannelKind::Session, ChannelKind::Chat]),
    ("session/isReadChanged", &[ChannelKind::Session]),
    ("session/isArchivedChanged", &[ChannelKind::Session]),
    ("session/activeClientSet", &[ChannelKind::Session]),
    ("session/activeClientRemoved", &[ChannelKind::Session]),
    ("session/configChanged", &[ChannelKind::Session]),
    ("session/workingDirectorySet", &[ChannelKind::Session]),
    ("session/workingDirectoryRemoved", &[ChannelKind::Session]),
    ("chat/turnStarted", &[ChannelKind::Chat]),
    ("chat/turnCancelled", &[ChannelKind::Chat]),
    ("chat/turnResume", &[ChannelKind::Chat]),
    ("chat/pendingMessageSet", &[ChannelKind::Chat]),
    ("chat/pendingMessageRemoved", &[ChannelKind::Chat]),
    ("chat/queuedMessagesReordered", &[ChannelKind::Chat]),
    ("chat/toolCallConfirmed", &[ChannelKind::Chat]),
    ("chat/inputAnswerChanged", &[ChannelKind::Chat]),
    ("chat/inputCompleted", &[ChannelKind::Chat]),
    ("chat/draftChanged", &[ChannelKind::Chat]),
    ("chat/isReadChanged", &[ChannelKind::Chat]),
    ("chat/isArchivedChanged", &[ChannelKind::Chat]),
];

/// Checks form, permission and identity of a dispatch. The error is the reason of the rejection.
pub(crate) fn check(kind: ChannelKind, name: &str, dispatch: &Dispatch) -> Result<(), String> {
    let Some((_, homes)) = CLIENT_ACTIONS.iter().find(|(known, _)| *known == name) else {
        return Err(match dispatch.action {
            StateAction::Unknown(_) => format!("this host does not know the action {name:?}"),
            _ => format!("this host does not take {name:?} from clients"),
        });
    };
    if !homes.contains(&kind) {
        return Err(format!("the action {name:?} does not belong on this channel"));
    }
    let subject = match &dispatch.action {
        StateAction::Unknown(_) => return Err(format!("the action {name:?} is malformed")),
        StateAction::SessionActiveClientSet(action) => Some(&action.active_client.client_id),
        StateAction::SessionActiveClientRemoved(action) => Some(&action.client_id),
        _ => None,
    };
    if subject.is_some_and(|subject| *subject != dispatch.client_id) {
        return Err("a client can speak for itself only".to_owned());
    }
    Ok(())
}
