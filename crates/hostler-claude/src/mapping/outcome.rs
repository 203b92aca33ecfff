use hostler_driver::{ApiErrorCategory, TurnFailure, TurnOutcome};
use serde::Deserialize;

use crate::wire::TurnResult;

/// How much of a failure's text is passed on, in bytes.
const MAX_MESSAGE: usize = 2_000;

/// How a turn ended.
pub(super) fn of(result: &TurnResult<'_>, produced: bool) -> TurnOutcome {
    if !result.is_error {
        return TurnOutcome::Completed { empty: !produced };
    }
    let aborted = result.terminal_reason.as_deref().is_some_and(|reason| reason.starts_with("aborted_"));
    if aborted && result.subtype.as_deref() == Some("error_during_execution") {
        return TurnOutcome::Interrupted;
    }
    TurnOutcome::Failed(TurnFailure {
        category: category(result),
        message: message(result),
        status: result.api_error_status,
    })
}

fn category(result: &TurnResult<'_>) -> ApiErrorCategory {
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

fn message(result: &TurnResult<'_>) -> String {
    let errors = result.errors.iter().flatten().map(|error| &**error);
    let told = result.result.as_deref().into_iter().chain(errors).find(|text| !text.is_empty());
    match told {
        // An internal note of the agent that says nothing to a person.
        Some(text) if text.starts_with("[ede_diagnostic]") => "The agent could not finish its answer.".to_owned(),
        Some(text) => bounded(readable(text)),
        None => "The agent ended the turn with an error and gave no reason.".to_owned(),
    }
}

/// Some builds print the API's whole error body behind the status; a person needs its message only.
fn readable(text: &str) -> String {
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

fn bounded(mut text: String) -> String {
    if text.len() > MAX_MESSAGE {
        text.truncate(text.floor_char_boundary(MAX_MESSAGE));
        text.push('…');
    }
    text
}
