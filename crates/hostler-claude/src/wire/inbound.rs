//! Parses one line of the agent's output into a [`WireMessage`].

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::control::{AgentControlRequest, AgentControlResponse};
use super::message::{self, AssistantMessage, PermissionDecision, UserMessage};
use super::stream::{RawStreamEvent, StreamLine, StreamPayload};
use super::system::SystemMessage;
use super::turn_result::TurnResult;
use super::{CommandLifecycle, WireText};

/// One line that Claude Code printed.
#[derive(Debug)]
pub enum WireMessage<'a> {
    /// A piece of the model's stream.
    Stream(StreamLine<'a>),
    /// A whole block of the model's answer.
    Assistant(AssistantMessage<'a>),
    /// Tool results, and texts that the agent put into the conversation itself.
    User(UserMessage<'a>),
    /// The end of a turn.
    Result(Box<TurnResult<'a>>),
    /// A message about the session.
    System(SystemMessage<'a>),
    /// A request of the agent.
    ControlRequest(AgentControlRequest<'a>),
    /// An answer of the agent to one of our requests.
    ControlResponse(AgentControlResponse<'a>),
    /// The agent withdraws a request.
    ControlCancel {
        /// Which one.
        request_id: WireText<'a>,
    },
    /// What happened to one of our prompts (newer builds).
    Lifecycle(CommandLifecycle<'a>),
    /// A message that is known by name and not used.
    Ignored(IgnoredMessage),
    /// An unknown type, or a known one in an unknown shape.
    Unknown {
        /// The type.
        kind: String,
        /// The subtype, if there is one.
        subtype: Option<String>,
    },
}

/// Messages that are known by name only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoredMessage {
    /// Keep-alive.
    KeepAlive,
    /// A copy of what was appended to the transcript.
    TranscriptMirror,
    /// A tool call, or a hook of ours, is still running.
    ToolProgress,
    /// State of a sign-in.
    AuthStatus,
    /// State of a subscription's limit.
    RateLimit,
    /// A suggestion for the user's next prompt.
    PromptSuggestion,
    /// A summary of tool calls.
    ToolUseSummary,
    /// `/clear` started a new conversation; the next `init` names it.
    ConversationReset,
}

/// A line that is not a message. Never displays the line, which may contain the user's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON message of {length} bytes (column {column})")]
pub struct WireError {
    length: usize,
    column: usize,
}

/// Every field that decides what a line is, parsed in one pass; the stream's event completely, because it is the hot
/// path.
#[derive(Deserialize)]
struct LineFields<'a, E> {
    #[serde(rename = "type", borrow)]
    kind: WireText<'a>,
    #[serde(default = "none")]
    event: Option<E>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_id: Option<WireText<'a>>,
    #[serde(default)]
    error: Option<IgnoredAny>,
    #[serde(borrow, default)]
    parent_tool_use_id: Option<WireText<'a>>,
    #[serde(borrow, default)]
    tool_result_meta: Option<&'a RawValue>,
    // Only transcripts have it.
    #[serde(rename = "permissionDecision", borrow, default)]
    permission_decision: Option<&'a RawValue>,
    // Transcripts use another spelling.
    #[serde(borrow, default, alias = "toolUseResult")]
    tool_use_result: Option<&'a RawValue>,
}

fn none<E>() -> Option<E> {
    None
}

/// The fallback for a line of unknown shape.
#[derive(Deserialize)]
struct MessageType {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    subtype: Option<String>,
}

impl<'a> WireMessage<'a> {
    /// Parses one line.
    pub fn parse(line: &'a [u8]) -> Result<Self, WireError> {
        let known = match Self::parse_known::<RawStreamEvent<'a>>(line) {
            // Other messages have other values under `event`.
            Err(error) if error.is_data() => Self::parse_known::<IgnoredAny>(line),
            known => known,
        };
        match known {
            Ok(Some(message)) => Ok(message),
            Ok(None) => Self::unknown(line),
            Err(error) if error.is_data() => Self::unknown(line),
            Err(error) => Err(WireError::new(line, &error)),
        }
    }

    /// `None` for an unknown type.
    fn parse_known<E: StreamPayload<'a>>(line: &'a [u8]) -> Result<Option<Self>, serde_json::Error> {
        let fields: LineFields<'a, E> = serde_json::from_slice(line)?;
        let parent = fields.parent_tool_use_id;
        Ok(Some(match (&*fields.kind, fields.event, fields.message) {
            ("stream_event", Some(event), _) => match event.into_event() {
                Some(event) => Self::Stream(StreamLine { is_sub_agent: parent.is_some(), event }),
                None => return Ok(None),
            },
            ("assistant", _, Some(raw)) => {
                let mut message = message::parse_assistant(raw, parent)?;
                message.is_api_error = fields.error.is_some() && message.is_synthetic();
                Self::Assistant(message)
            }
            ("user", _, Some(raw)) => {
                let mut message = message::parse_user(raw, fields.tool_result_meta, parent)?;
                message.tool_use_result = fields.tool_use_result;
                let decision = fields.permission_decision.and_then(|raw| serde_json::from_str(raw.get()).ok());
                message.is_refused = decision.is_some_and(|decision: PermissionDecision<'_>| decision.is_rejection());
                Self::User(message)
            }
            ("result", ..) => Self::Result(Box::new(serde_json::from_slice(line)?)),
            ("system", ..) => match SystemMessage::parse(line)? {
                Some(system) => Self::System(system),
                None => return Ok(None),
            },
            ("control_request", ..) => match (fields.request_id, fields.request) {
                (Some(id), Some(raw)) => Self::ControlRequest(AgentControlRequest::parse(id, raw)),
                _ => return Ok(None),
            },
            ("control_response", ..) => match fields.response {
                Some(raw) => Self::ControlResponse(AgentControlResponse::parse(raw)?),
                None => return Ok(None),
            },
            ("control_cancel_request", ..) => match fields.request_id {
                Some(request_id) => Self::ControlCancel { request_id },
                None => return Ok(None),
            },
            ("command_lifecycle", ..) => Self::Lifecycle(serde_json::from_slice(line)?),
            (kind, ..) => match IgnoredMessage::from_kind(kind) {
                Some(named) => Self::Ignored(named),
                None => return Ok(None),
            },
        }))
    }

    fn unknown(line: &[u8]) -> Result<Self, WireError> {
        let label: MessageType = serde_json::from_slice(line).map_err(|error| WireError::new(line, &error))?;
        Ok(Self::Unknown { kind: label.kind, subtype: label.subtype })
    }
}

impl IgnoredMessage {
    fn from_kind(kind: &str) -> Option<Self> {
        Some(match kind {
            "keep_alive" => Self::KeepAlive,
            "transcript_mirror" => Self::TranscriptMirror,
            "tool_progress" => Self::ToolProgress,
            "auth_status" => Self::AuthStatus,
            "rate_limit_event" => Self::RateLimit,
            "prompt_suggestion" => Self::PromptSuggestion,
            "tool_use_summary" => Self::ToolUseSummary,
            "conversation_reset" => Self::ConversationReset,
            _ => return None,
        })
    }
}

impl WireError {
    fn new(line: &[u8], error: &serde_json::Error) -> Self {
        Self { length: line.len(), column: error.column() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<WireMessage<'_>, WireError> {
        WireMessage::parse(line.as_bytes())
    }

    #[test]
    fn unknown_type_is_reported_and_not_an_error() {
        let message = parse(r#"{"type":"brand_new","subtype":"x","event":7}"#);
        assert!(
            matches!(message, Ok(WireMessage::Unknown { kind, subtype: Some(s) }) if kind == "brand_new" && s == "x")
        );
    }

    #[test]
    fn known_type_in_an_unknown_shape_is_unknown() {
        for line in [
            r#"{"type":"stream_event","event":{"type":"content_block_delta","index":"zero"}}"#,
            r#"{"type":"assistant","message":"a string"}"#,
            r#"{"type":"result","usage":3}"#,
            r#"{"type":"control_request"}"#,
            r#"{"type":"system"}"#,
        ] {
            assert!(matches!(parse(line), Ok(WireMessage::Unknown { .. })), "{line}");
        }
    }

    #[test]
    fn invalid_json_is_an_error_without_the_line() {
        for line in ["", "secret text", "{\"type\":\"user\"", "[1]", "\u{7f}{}", "{}"] {
            let text = match parse(line) {
                Err(error) => error.to_string(),
                Ok(message) => format!("parsed as {message:?}"),
            };
            assert!(text.starts_with("invalid JSON message of "), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn text_delta_borrows_from_its_line() {
        use crate::wire::{BlockDelta, ModelStreamEvent};
        use std::borrow::Cow;
        let line = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}},"session_id":"s","parent_tool_use_id":null}"#;
        let Ok(WireMessage::Stream(StreamLine { is_sub_agent: false, event })) = parse(line) else {
            unreachable!("a stream event")
        };
        assert!(matches!(
            event,
            ModelStreamEvent::BlockDelta { index: 0, delta: BlockDelta::Text(WireText(Cow::Borrowed("hello"))) }
        ));
    }

    #[test]
    fn event_field_may_have_other_shapes_in_other_messages() {
        let line = r#"{"type":"system","subtype":"ui_invalidate","event":"ui.render"}"#;
        assert!(matches!(parse(line), Ok(WireMessage::System(_))));
    }

    #[test]
    fn key_order_does_not_matter() {
        let line = r#"{"is_error":false,"usage":{},"subtype":"success","result":"x","type":"result"}"#;
        assert!(matches!(parse(line), Ok(WireMessage::Result(_))));
    }
}
