//! Checks whether a client may dispatch an action: form, channel, permission, identity and size. The engine checks
//! state.

use ahp_types::StateAction;
use ahp_types::state::{Message, MessageKind};
use hostler_engine::{Dispatch, PublishedRejection};
use hostler_redact::redact_json_error;

use super::action_limits::{self, ActionLimitError};
use super::{AllowedSender, ChannelKind, HostSupport, actions};

/// Why a dispatch is rejected before the engine sees it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DispatchError {
    /// The action is unknown.
    #[error("this host does not know the action {action:?}")]
    UnknownAction {
        /// The start of its name.
        action: String,
    },
    /// Only hosts send the action.
    #[error("clients cannot dispatch {action:?}; only hosts send it")]
    HostOnly {
        /// Its name.
        action: &'static str,
    },
    /// The action belongs on another kind of channel.
    #[error("the action {action:?} does not belong on this channel; dispatch it on the channel of a {channel}")]
    WrongChannel {
        /// Its name.
        action: &'static str,
        /// The kind of channel that it belongs on.
        channel: &'static str,
    },
    /// The host does not support the feature.
    #[error("this host does not offer {feature}")]
    NotOffered {
        /// The feature.
        feature: &'static str,
    },
    /// The action cannot be parsed.
    #[error("the action {action:?} is malformed: {problem}")]
    Malformed {
        /// Its name.
        action: &'static str,
        /// The parser's error.
        problem: String,
    },
    /// The action names another client as its actor.
    #[error("a client can only act for itself")]
    OtherClient,
    /// The message is not the user's.
    #[error("a client can only send messages of its user")]
    NotUserMessage,
    /// The action exceeds a limit.
    #[error(transparent)]
    Limit(#[from] ActionLimitError),
    /// Too many dispatches of the client are queued.
    #[error(
        "too many actions of this client wait for its attachments; dispatch again when the attachments are prepared"
    )]
    QueueFull,
}

impl DispatchError {
    /// The stable code for programs.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::UnknownAction { .. } => "unknownAction",
            Self::HostOnly { .. } => "hostOnlyAction",
            Self::WrongChannel { .. } => "wrongChannel",
            Self::NotOffered { .. } => "notOffered",
            Self::Malformed { .. } => "malformedAction",
            Self::OtherClient => "otherClient",
            Self::NotUserMessage => "notUserMessage",
            Self::Limit(error) => error.code(),
            Self::QueueFull => "dispatchQueueFull",
        }
    }
}

impl From<DispatchError> for PublishedRejection {
    fn from(error: DispatchError) -> Self {
        Self { code: error.code(), message: error.to_string() }
    }
}

/// Checks a dispatch of the action with this name.
pub(crate) fn check_dispatch(kind: ChannelKind, name: &str, dispatch: &Dispatch) -> Result<(), DispatchError> {
    let Some(row) = actions::find_by_name(name) else {
        return Err(DispatchError::UnknownAction { action: truncate(name) });
    };
    if row.allowed_sender == AllowedSender::Host {
        return Err(DispatchError::HostOnly { action: row.name });
    }
    if !row.channels.contains(&kind) {
        let channel = row.channels.first().map_or("", |channel| channel.name());
        return Err(DispatchError::WrongChannel { action: row.name, channel });
    }
    if row.allowed_sender == AllowedSender::ToolOwner {
        return Err(DispatchError::NotOffered { feature: "tools that clients run" });
    }
    if let HostSupport::NotOffered(feature) = row.support {
        return Err(DispatchError::NotOffered { feature });
    }
    if let StateAction::Unknown(value) = &dispatch.action {
        let problem = row.parse_error(value.clone()).map(|error| redact_json_error(&error)).unwrap_or_default();
        return Err(DispatchError::Malformed { action: row.name, problem: truncate(&problem) });
    }
    if row.allowed_sender == AllowedSender::OwnClient
        && represented_client(&dispatch.action) != Some(&dispatch.client_id)
    {
        return Err(DispatchError::OtherClient);
    }
    if carried_message(&dispatch.action).is_some_and(|message| message.origin.kind != MessageKind::User) {
        return Err(DispatchError::NotUserMessage);
    }
    Ok(action_limits::check_limits(&dispatch.action)?)
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
