//! Checks whether a client may dispatch an action: form, channel, permission, identity and size. The engine checks
//! state.

use ahp_types::StateAction;
use ahp_types::state::{Message, MessageKind};
use hostler_engine::Dispatch;
use hostler_redact::redact_json_error;

use super::action_limits;
use super::{AllowedSender, ChannelKind, HostSupport, actions};

/// Checks a dispatch of the action with this name. The error is the reason of the rejection.
pub(crate) fn check_dispatch(kind: ChannelKind, name: &str, dispatch: &Dispatch) -> Result<(), String> {
    let Some(row) = actions::find_by_name(name) else {
        return Err(format!("this host does not know the action {:?}", truncate(name)));
    };
    if row.allowed_sender == AllowedSender::Host {
        return Err(format!("this host does not take {name:?} from clients: only hosts say it"));
    }
    if !row.channels.contains(&kind) {
        let home = row.channels.first().map_or("", |home| home.name());
        return Err(format!("the action {name:?} does not belong on this channel; its channel is a {home}'s"));
    }
    if row.allowed_sender == AllowedSender::ToolOwner {
        return Err("this host does not offer tools that clients run".to_owned());
    }
    if let HostSupport::NotOffered(what) = row.support {
        return Err(format!("this host does not offer {what}"));
    }
    if let StateAction::Unknown(value) = &dispatch.action {
        let why = row.parse_error(value.clone()).map(|error| redact_json_error(&error)).unwrap_or_default();
        return Err(format!("the action {name:?} is malformed: {}", truncate(&why)));
    }
    if row.allowed_sender == AllowedSender::OwnClient
        && represented_client(&dispatch.action) != Some(&dispatch.client_id)
    {
        return Err("a client can speak for itself only".to_owned());
    }
    if carried_message(&dispatch.action).is_some_and(|message| message.origin.kind != MessageKind::User) {
        return Err("a client can only send messages of its user".to_owned());
    }
    action_limits::check_limits(&dispatch.action)
}

/// The client that an action names as its actor.
fn represented_client(action: &StateAction) -> Option<&String> {
    match action {
        StateAction::SessionActiveClientSet(action) => Some(&action.active_client.client_id),
        StateAction::SessionActiveClientRemoved(action) => Some(&action.client_id),
        _ => None,
    }
}

/// The message that an action carries.
pub(super) fn carried_message(action: &StateAction) -> Option<&Message> {
    match action {
        StateAction::ChatTurnStarted(action) => Some(&action.message),
        StateAction::ChatPendingMessageSet(action) => Some(&action.message),
        StateAction::ChatDraftChanged(action) => action.draft.as_ref(),
        _ => None,
    }
}

/// The start of a text that a client chose, for an error message.
fn truncate(text: &str) -> String {
    const SHORT: usize = 160;
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
