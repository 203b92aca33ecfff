//! Translates finish reasons of chat completions into stop reasons of the Messages API.

use hostler_gateway::UpstreamError;

use crate::chat_completions;
use crate::chat_completions::CompletionChoice;
use crate::messages_response::StopFields;

/// A server's reason for the end of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FinishReason {
    reason: String,
    /// The stop sequence that was met, if the server reports it.
    stop_sequence: Option<String>,
}

impl FinishReason {
    /// The finish reason of a choice, if it has one.
    pub(super) fn from_choice(choice: &CompletionChoice<'_>) -> Option<Self> {
        let reason = choice.finish_reason.as_deref().filter(|reason| !reason.is_empty())?.to_ascii_lowercase();
        let sequence = choice.stop_reason.and_then(chat_completions::as_string).map(|sequence| sequence.into_owned());
        Some(Self { reason, stop_sequence: sequence })
    }

    /// Whether the response reached its token limit, so that its last part may be incomplete.
    pub(super) fn is_truncated(&self) -> bool {
        matches!(self.reason.as_str(), "length" | "max_tokens")
    }

    /// The stop reason for the Messages API. Servers often report `stop` together with tool calls, so the presence of
    /// calls decides; unknown reasons mean that the response is complete.
    pub(super) fn into_stop_fields(self, has_calls: bool, has_refusal: bool) -> Result<StopFields, UpstreamError> {
        let stop_reason = match self.reason.as_str() {
            "error" | "abort" | "insufficient_system_resource" => {
                let reason = format!("the server stopped with finish_reason {:?}", self.reason);
                return Err(UpstreamError::Interrupted { reason });
            }
            "content_filter" => "refusal",
            _ if self.is_truncated() => "max_tokens",
            _ if has_calls => "tool_use",
            _ if has_refusal => "refusal",
            _ if self.stop_sequence.is_some() => {
                return Ok(StopFields { stop_reason: Some("stop_sequence"), stop_sequence: self.stop_sequence });
            }
            _ => "end_turn",
        };
        Ok(StopFields { stop_reason: Some(stop_reason), stop_sequence: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finish_reasons_map_to_stop_reasons() {
        for (choice, has_calls, has_refusal, expected) in [
            (r#"{"finish_reason":"stop"}"#, false, false, "end_turn"),
            (r#"{"finish_reason":"stop"}"#, true, false, "tool_use"),
            (r#"{"finish_reason":"stop"}"#, false, true, "refusal"),
            (r#"{"finish_reason":"STOP"}"#, false, false, "end_turn"),
            (r#"{"finish_reason":"stop","stop_reason":null}"#, false, false, "end_turn"),
            (r#"{"finish_reason":"stop","stop_reason":151645}"#, false, false, "end_turn"),
            (r#"{"finish_reason":"stop","stop_reason":"END"}"#, false, false, "stop_sequence"),
            (r#"{"finish_reason":"length"}"#, false, false, "max_tokens"),
            (r#"{"finish_reason":"length"}"#, true, false, "max_tokens"),
            (r#"{"finish_reason":"tool_calls"}"#, true, false, "tool_use"),
            (r#"{"finish_reason":"tool_calls"}"#, false, false, "end_turn"),
            (r#"{"finish_reason":"content_filter"}"#, false, false, "refusal"),
            (r#"{"finish_reason":"content_filter"}"#, true, false, "refusal"),
            (r#"{"finish_reason":"something_new"}"#, false, false, "end_turn"),
        ] {
            let finish = FinishReason::from_choice(&serde_json::from_str(choice).unwrap()).unwrap();
            let stop = finish.into_stop_fields(has_calls, has_refusal).unwrap();
            assert_eq!(stop.stop_reason, Some(expected), "{choice}");
            assert_eq!(stop.stop_sequence.is_some(), expected == "stop_sequence", "{choice}");
        }
        for choice in [r#"{"finish_reason":"error"}"#, r#"{"finish_reason":"insufficient_system_resource"}"#] {
            let finish = FinishReason::from_choice(&serde_json::from_str(choice).unwrap()).unwrap();
            assert!(
                matches!(finish.into_stop_fields(false, false), Err(UpstreamError::Interrupted { .. })),
                "{choice}"
            );
        }
        for choice in [r#"{}"#, r#"{"finish_reason":null}"#, r#"{"finish_reason":""}"#] {
            assert_eq!(FinishReason::from_choice(&serde_json::from_str(choice).unwrap()), None, "{choice}");
        }
    }
}
