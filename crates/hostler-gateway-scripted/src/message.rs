//! Wire types of the Messages API's responses, as the scripted model writes them.

use serde::Serialize;
use serde_json::value::RawValue;

/// Source of a message's ids.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScriptedMessageId(pub(super) u64);

impl ScriptedMessageId {
    pub(super) fn message(self) -> String {
        format!("msg_scripted_{:016x}", self.0)
    }

    /// The id of a tool call, by its index in the message.
    pub(super) fn tool_use(self, index: usize) -> String {
        format!("toolu_scripted_{:016x}_{index}", self.0)
    }

    /// The signature of a thinking block, by its index in the message.
    pub(super) fn signature(self, index: usize) -> String {
        format!("c2NyaXB0ZWQ{:016x}{index}", self.0)
    }
}

/// A message, complete or (with empty content) at its start.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "message")]
pub(super) struct ScriptedMessage<'a> {
    pub(super) id: String,
    pub(super) role: &'static str,
    pub(super) model: &'a str,
    pub(super) content: &'a [ScriptedBlock],
    pub(super) stop_reason: Option<&'static str>,
    pub(super) stop_sequence: Option<String>,
    pub(super) usage: ScriptedUsage,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct ScriptedUsage {
    pub(super) input_tokens: u64,
    pub(super) cache_creation_input_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
    pub(super) output_tokens: u64,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ScriptedBlock {
    Text { text: String },
    Thinking { thinking: String, signature: String },
    ToolUse { id: String, name: String, input: Box<RawValue> },
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ScriptedStreamEvent<'a> {
    MessageStart { message: ScriptedMessage<'a> },
    ContentBlockStart { index: usize, content_block: &'a ScriptedBlock },
    Ping,
    ContentBlockDelta { index: usize, delta: ScriptedDelta<'a> },
    ContentBlockStop { index: usize },
    MessageDelta { delta: ScriptedMessageEnd, usage: ScriptedUsage },
    MessageStop,
}

impl ScriptedStreamEvent<'_> {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::Ping => "ping",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
        }
    }
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "type")]
pub(super) enum ScriptedDelta<'a> {
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'a str },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: &'a str },
}

#[derive(Debug, Serialize)]
pub(super) struct ScriptedMessageEnd {
    pub(super) stop_reason: &'static str,
    pub(super) stop_sequence: Option<String>,
}
