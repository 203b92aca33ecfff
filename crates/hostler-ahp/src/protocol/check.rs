//! Whether a client may dispatch something: form, place, permission, identity and size. State is the engine's business.

use ahp_types::StateAction;
use ahp_types::state::{Message, MessageKind};
use hostler_engine::Dispatch;
use hostler_redact::json_fault;

use super::bounds;
use super::{By, ChannelKind, Here, actions};

/// Checks a dispatch of the action with this name. The error is the reason of the rejection.
pub(crate) fn check(kind: ChannelKind, name: &str, dispatch: &Dispatch) -> Result<(), String> {
    let Some(row) = actions::named(name) else {
        return Err(format!("this host does not know the action {:?}", short(name)));
    };
    if row.by == By::Host {
        return Err(format!("this host does not take {name:?} from clients: only hosts say it"));
    }
    if !row.channels.contains(&kind) {
        let home = row.channels.first().map_or("", |home| home.name());
        return Err(format!("the action {name:?} does not belong on this channel; its channel is a {home}'s"));
    }
    if row.by == By::ToolOwner {
        return Err("this host does not offer tools that clients run".to_owned());
    }
    if let Here::Lacks(what) = row.here {
        return Err(format!("this host does not offer {what}"));
    }
    if let StateAction::Unknown(value) = &dispatch.action {
        let why = row.malformation(value.clone()).map(|error| json_fault(&error)).unwrap_or_default();
        return Err(format!("the action {name:?} is malformed: {}", short(&why)));
    }
    if row.by == By::Itself && speaks_for(&dispatch.action) != Some(&dispatch.client_id) {
        return Err("a client can speak for itself only".to_owned());
    }
    if message(&dispatch.action).is_some_and(|message| message.origin.kind != MessageKind::User) {
        return Err("a client can only send messages of its user".to_owned());
    }
    bounds::check(&dispatch.action)
}

/// The client that an action speaks for.
fn speaks_for(action: &StateAction) -> Option<&String> {
    match action {
        StateAction::SessionActiveClientSet(action) => Some(&action.active_client.client_id),
        StateAction::SessionActiveClientRemoved(action) => Some(&action.client_id),
        _ => None,
    }
}

/// The message that an action carries.
pub(super) fn message(action: &StateAction) -> Option<&Message> {
    match action {
        StateAction::ChatTurnStarted(action) => Some(&action.message),
        StateAction::ChatPendingMessageSet(action) => Some(&action.message),
        StateAction::ChatDraftChanged(action) => action.draft.as_ref(),
        _ => None,
    }
}

/// The beginning of a text that a client chose, for a sentence.
fn short(text: &str) -> String {
    const SHORT: usize = 160;
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
