//! The outcome of a turn, from its result message.

use hostler_driver::{ApiErrorCategory, TurnFailure, TurnOutcome};
use serde::Deserialize;

use crate::wire::TurnResult;

/// Maximum length of a failure's text, in bytes.
const MAX_MESSAGE_BYTES: usize = 2_000;

/// The outcome of a turn.
pub(super) fn turn_outcome(result: &TurnResult<'_>, produced: bool) -> TurnOutcome {
    if !result.is_error {
        return TurnOutcome::Completed { empty: !produced };
    }
    let aborted = result.terminal_reason.as_deref().is_some_and(|reason| reason.starts_with("aborted_"));
    if aborted && result.subtype.as_deref() == Some("error_during_execution") {
        return TurnOutcome::Interrupted;
    }
    TurnOutcome::Failed(TurnFailure {
        category: error_category(result),
        message: error_message(result),
        status: result.api_error_status,
    })
}

fn error_category(result: &TurnResult<'_>) -> ApiErrorCategory {
    if result.api_error_status == Some(400) && names_attachment(result) {
        return ApiErrorCategory::AttachmentRejected;
    }
    if let Some(status) = result.api_error_status {
        return ApiErrorCategory::from_status(status);
    }
    match (result.subtype.as_deref(), result.terminal_reason.as_deref(), result.result.as_deref()) {
        (Some("error_max_turns" | "error_max_budget_usd"), ..) => ApiErrorCategory::Limit,
        (_, Some("prompt_too_long"), _) => ApiErrorCategory::TooLarge,
        (Some("success"), Some("api_error"), _) => ApiErrorCategory::Network,
        (_, _, Some(text)) if text.starts_with("API Error") => ApiErrorCategory::Network,
        _ => ApiErrorCategory::Agent,
    }
}

/// Whether the provider's reason is an image or a document: it names the block, or the agent has its own wording for
/// it.
fn names_attachment(result: &TurnResult<'_>) -> bool {
    let words = result.result.as_deref().unwrap_or_default().split(|letter: char| !letter.is_alphanumeric());
    let mut names = words.map(str::to_ascii_lowercase);
    result.terminal_reason.as_deref() == Some("image_error")
        || names.any(|word| matches!(&*word, "image" | "images" | "pdf" | "document" | "documents"))
}

fn error_message(result: &TurnResult<'_>) -> String {
    let errors = result.errors.iter().flatten().map(|error| &**error);
    let reported = result.result.as_deref().into_iter().chain(errors).find(|text| !text.is_empty());
    match reported {
        // An internal diagnostic of the agent without meaning for a person.
        Some(text) if text.starts_with("[ede_diagnostic]") => "The agent could not finish its answer.".to_owned(),
        Some(text) => truncate_message(extract_error_message(text)),
        None => "The agent ended the turn with an error and gave no reason.".to_owned(),
    }
}

/// Some builds print the API's whole error body after the status; only its message is useful.
fn extract_error_message(text: &str) -> String {
    #[derive(Deserialize)]
    struct Body {
        error: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        message: String,
    }
    let Some((before, body)) = text.find('{').and_then(|at| text.split_at_checked(at)) else {
        return text.to_owned();
    };
    let mut bodies = serde_json::Deserializer::from_str(body).into_iter::<Body>();
    let Some(Ok(parsed)) = bodies.next() else {
        return text.to_owned();
    };
    let after = body.split_at_checked(bodies.byte_offset()).map_or("", |(_, after)| after);
    format!("{before}{}{after}", parsed.error.message)
}

fn truncate_message(mut text: String) -> String {
    if text.len() > MAX_MESSAGE_BYTES {
        text.truncate(text.floor_char_boundary(MAX_MESSAGE_BYTES));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::WireText;

    #[test]
    fn attachment_rejection_requires_a_named_attachment() {
        let rejected = ApiErrorCategory::AttachmentRejected;
        for (status, text, reason, expected) in [
            (400, "messages.2.content.1.image.source.base64: Could not process image", "completed", rejected),
            (400, "Image was too large. Try resizing the image.", "completed", rejected),
            (400, "The PDF file was not valid.", "completed", rejected),
            (400, "API Error: a document could not be processed and was removed.", "api_error", rejected),
            (400, "it went away", "image_error", rejected),
            (400, "see the documentation of imagery", "api_error", ApiErrorCategory::InvalidRequest),
            (401, "no key for this image", "api_error", ApiErrorCategory::Auth),
            (413, "the image is too large", "api_error", ApiErrorCategory::TooLarge),
            (529, "image", "api_error", ApiErrorCategory::Overloaded),
        ] {
            let text_of = |text: &'static str| Some(WireText(text.into()));
            let result = TurnResult {
                is_error: true,
                api_error_status: Some(status),
                result: text_of(text),
                terminal_reason: text_of(reason),
                ..TurnResult::default()
            };
            assert_eq!(error_category(&result), expected, "{status} {text}");
        }
        assert_eq!(rejected.as_str(), "attachment_provider_rejected");
    }
}
