//! Errors of turns as clients see them: error type, message and stderr.

use ahp_types::StateAction;
use ahp_types::actions::ChatErrorAction;
use ahp_types::common::JsonObject;
use ahp_types::state::{ErrorInfo, ErrorResponsePart};
use hostler_driver::TurnFailure;

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnErrorDetails {
    /// The machine-readable kind.
    pub(crate) error_type: String,
    /// The message for a person.
    pub(crate) message: String,
    /// The redacted end of the agent's stderr.
    pub(crate) stderr: Option<String>,
}

impl TurnErrorDetails {
    /// The error of a failed sub-agent.
    pub(crate) fn from_sub_agent(message: String) -> Self {
        Self { error_type: "subAgent".to_owned(), message, stderr: None }
    }

    /// The error of a turn that is no longer awaited. It is not displayed.
    pub(crate) fn abandoned() -> Self {
        Self { error_type: "cancelled".to_owned(), message: "The turn has ended.".to_owned(), stderr: None }
    }
}

impl From<TurnFailure> for TurnErrorDetails {
    fn from(failure: TurnFailure) -> Self {
        let status = failure.status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
        Self {
            error_type: failure.category.as_str().to_owned(),
            message: format!("{}{status} {}", end_sentence(&failure.message), failure.category.advice()),
            stderr: None,
        }
    }
}

/// Ends the text with a full stop, so that another sentence can follow.
fn end_sentence(text: &str) -> String {
    let text = text.trim();
    match text.chars().last() {
        Some('.' | '!' | '?') => text.to_owned(),
        _ => format!("{text}."),
    }
}

/// `chat/error` with its part. A turn with an error can always be resumed.
pub(crate) fn chat_error_action(turn_id: String, duration: i64, failure: TurnErrorDetails) -> StateAction {
    let stderr = failure.stderr.filter(|text| !text.trim().is_empty());
    let meta = stderr.map(|text| {
        let mut hostler = JsonObject::new();
        hostler.insert("stderr".to_owned(), text.into());
        let mut meta = JsonObject::new();
        meta.insert("hostler".to_owned(), hostler.into());
        meta
    });
    let error = ErrorInfo { error_type: failure.error_type, message: failure.message, stack: None, meta };
    let part = ErrorResponsePart { error, resumable: Some(true) };
    StateAction::ChatError(ChatErrorAction { turn_id, duration, part, meta: None })
}

/// Marks an error as not resumable: a sub-agent is resumed only by its parent.
pub(crate) fn mark_not_resumable(mut action: StateAction) -> StateAction {
    if let StateAction::ChatError(error) = &mut action {
        error.part.resumable = Some(false);
    }
    action
}
