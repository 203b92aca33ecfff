//! Size limits of dispatched actions. Attachments have limits of their own, where they are planned.

use ahp_types::StateAction;
use ahp_types::common::JsonObject;
use serde::Serialize;

use super::dispatch_check::carried_message;

/// Maximum length of the id of a turn, message, tool call or request.
pub(super) const MAX_ID_BYTES: usize = 256;
/// Maximum length of a message or an answer.
pub(super) const MAX_MESSAGE_TEXT_BYTES: usize = 1024 * 1024;
/// Maximum size of a client's `_meta` on a message.
pub(super) const MAX_META_BYTES: usize = 64 * 1024;
/// Maximum size of an action, without attachments.
pub(super) const MAX_ACTION_BYTES: usize = 2 * 1024 * 1024;
/// Maximum number of messages in a reorder action.
pub(super) const MAX_REORDERED_MESSAGES: usize = 1_000;

/// Why an action exceeds a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ActionLimitError {
    /// An id is empty or too long.
    #[error("the ID of a {of} must have 1 to {MAX_ID_BYTES} bytes")]
    InvalidId {
        /// What the id identifies.
        of: &'static str,
    },
    /// The text of a message is too long.
    #[error("a message can have at most {MAX_MESSAGE_TEXT_BYTES} bytes; attach longer text as a file")]
    MessageTooLong,
    /// The client's metadata of a message is too large.
    #[error("the `_meta` of a message can have at most {MAX_META_BYTES} bytes")]
    MetaTooLarge,
    /// The action is too large.
    #[error("an action can have at most {MAX_ACTION_BYTES} bytes")]
    ActionTooLarge,
    /// A reorder action names too many messages.
    #[error("an order can name at most {MAX_REORDERED_MESSAGES} messages")]
    TooManyMessages,
}

impl ActionLimitError {
    /// The stable code for programs.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::InvalidId { .. } => "invalidId",
            Self::MessageTooLong => "messageTooLong",
            Self::MetaTooLarge => "metaTooLarge",
            Self::ActionTooLarge => "actionTooLarge",
            Self::TooManyMessages => "tooManyMessages",
        }
    }
}

/// Checks the sizes in an action.
pub(super) fn check_limits(action: &StateAction) -> Result<(), ActionLimitError> {
    match action {
        StateAction::ChatTurnStarted(action) => {
            check_id("turn", &action.turn_id)?;
            action.queued_message_id.as_deref().map_or(Ok(()), |queued| check_id("queued message", queued))?;
            check_meta(action.meta.as_ref())?;
        }
        StateAction::ChatTurnCancelled(action) => check_id("turn", &action.turn_id)?,
        StateAction::ChatTurnResume(action) => check_id("turn", &action.turn_id)?,
        StateAction::ChatPendingMessageSet(action) => check_id("message", &action.id)?,
        StateAction::ChatPendingMessageRemoved(action) => check_id("message", &action.id)?,
        StateAction::ChatQueuedMessagesReordered(action) => {
            if action.order.len() > MAX_REORDERED_MESSAGES {
                return Err(ActionLimitError::TooManyMessages);
            }
            action.order.iter().try_for_each(|message| check_id("message", message))?;
        }
        StateAction::ChatToolCallConfirmed(action) => {
            check_id("turn", &action.turn_id)?;
            check_id("tool call", &action.tool_call_id)?;
            action.selected_option_id.as_deref().map_or(Ok(()), |option| check_id("option", option))?;
        }
        StateAction::ChatInputAnswerChanged(action) => {
            check_id("request", &action.request_id)?;
            check_id("question", &action.question_id)?;
        }
        StateAction::ChatInputCompleted(action) => check_id("request", &action.request_id)?,
        _ => {}
    }
    match carried_message(action) {
        Some(message) => {
            if message.text.len() > MAX_MESSAGE_TEXT_BYTES {
                return Err(ActionLimitError::MessageTooLong);
            }
            message.model.as_ref().map_or(Ok(()), |model| check_id("model", &model.id))?;
            check_meta(message.meta.as_ref())
        }
        None if json_bytes(action) > MAX_ACTION_BYTES => Err(ActionLimitError::ActionTooLarge),
        None => Ok(()),
    }
}

fn check_id(of: &'static str, id: &str) -> Result<(), ActionLimitError> {
    match id.len() {
        1..=MAX_ID_BYTES => Ok(()),
        _ => Err(ActionLimitError::InvalidId { of }),
    }
}

fn check_meta(meta: Option<&JsonObject>) -> Result<(), ActionLimitError> {
    match meta.map_or(0, json_bytes) {
        0..=MAX_META_BYTES => Ok(()),
        _ => Err(ActionLimitError::MetaTooLarge),
    }
}

/// The length of a value's JSON.
fn json_bytes(value: &impl Serialize) -> usize {
    // A value that cannot be serialized counts as too large. A writer that only counts would take less memory, but the
    // code of all actions would be compiled once more for it.
    serde_json::to_vec(value).map_or(usize::MAX, |json| json.len())
}
