//! Wire types of the Messages API's responses, as this upstream writes them.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::chat_completions::CompletionUsage;

/// A message, complete or (with empty content) at its start.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "message")]
pub(super) struct MessageResponse<'a> {
    pub(super) id: &'a str,
    pub(super) role: &'static str,
    pub(super) model: &'a str,
    pub(super) content: Vec<ContentBlock<'a>>,
    #[serde(flatten)]
    pub(super) stop: StopFields,
    pub(super) usage: MessageUsage,
}

/// Why a message ended; empty at its start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct StopFields {
    pub(super) stop_reason: Option<&'static str>,
    pub(super) stop_sequence: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct MessageUsage {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
}

/// Chat completions include cached tokens in the prompt tokens; the Messages API counts them separately.
impl From<CompletionUsage> for MessageUsage {
    fn from(usage: CompletionUsage) -> Self {
        let prompt = usage.prompt_tokens.unwrap_or(0);
        let cached = usage.cached_tokens().min(prompt);
        Self {
            input_tokens: prompt - cached,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: cached,
            output_tokens: usage.completion_tokens.unwrap_or(0),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ContentBlock<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
        /// Empty, because this thinking is not signed; clients require the field.
        signature: &'static str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a RawValue,
    },
    /// The start of a tool use, whose input follows in deltas.
    #[serde(rename = "tool_use")]
    ToolUseStart {
        id: &'a str,
        name: &'a str,
        input: EmptyInput,
    },
}

/// An empty object.
#[derive(Debug, Serialize)]
pub(super) struct EmptyInput {}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum MessageStreamEvent<'a> {
    MessageStart { message: MessageResponse<'a> },
    ContentBlockStart { index: usize, content_block: ContentBlock<'a> },
    ContentBlockDelta { index: usize, delta: ContentDelta<'a> },
    ContentBlockStop { index: usize },
    Ping,
    MessageDelta { delta: StopFields, usage: MessageUsage },
    MessageStop,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "type")]
pub(super) enum ContentDelta<'a> {
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: &'a str },
}

impl MessageStreamEvent<'_> {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::Ping => "ping",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
        }
    }
}
