//! `stream_event` messages: the events of the model's streamed answer.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::WireText;

/// A `stream_event` line.
#[derive(Debug)]
pub struct StreamLine<'a> {
    /// Whether it belongs to a sub-agent. No build sends this so far, but the field exists.
    pub is_sub_agent: bool,
    /// The event of the model's stream.
    pub event: ModelStreamEvent<'a>,
}

/// One event of the model's stream.
#[derive(Debug)]
pub enum ModelStreamEvent<'a> {
    /// An answer of the model starts. After a cut stream this restarts the same answer.
    MessageStart {
        /// The answer's id.
        id: WireText<'a>,
        /// The model that answers.
        model: Option<WireText<'a>>,
        /// Tokens so far.
        usage: WireTokenCounts,
    },
    /// A block starts.
    BlockStart {
        /// Its index in the answer.
        index: usize,
        /// Its kind.
        block: BlockStart<'a>,
    },
    /// A delta of a block.
    BlockDelta {
        /// Its index in the answer.
        index: usize,
        /// The delta.
        delta: BlockDelta<'a>,
    },
    /// A block ends.
    BlockStop {
        /// Its index in the answer.
        index: usize,
    },
    /// The answer's token counts.
    MessageDelta {
        /// All tokens of this answer.
        usage: WireTokenCounts,
    },
    /// The answer ends.
    MessageStop,
    /// Keep-alive.
    Ping,
}

/// The kind of a streamed block.
#[derive(Debug)]
pub enum BlockStart<'a> {
    /// Text, usually empty at the start.
    Text(WireText<'a>),
    /// Reasoning, usually empty at the start.
    Thinking(WireText<'a>),
    /// A tool call.
    ToolUse {
        /// The call.
        id: WireText<'a>,
        /// The tool.
        name: WireText<'a>,
    },
    /// A kind of block that is not used (server tools, redacted reasoning).
    Other,
}

/// A delta of a block.
#[derive(Debug)]
pub enum BlockDelta<'a> {
    /// Text.
    Text(WireText<'a>),
    /// Reasoning.
    Thinking(WireText<'a>),
    /// A piece of a tool call's input.
    InputJson(WireText<'a>),
    /// Signatures, citations and other kinds.
    Other,
}

/// Token counts in the API's form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct WireTokenCounts {
    /// Input tokens that were not cached.
    #[serde(default)]
    pub input_tokens: Option<u64>,
    /// Output tokens.
    #[serde(default)]
    pub output_tokens: Option<u64>,
    /// Input tokens read from the cache.
    #[serde(default)]
    pub cache_read_input_tokens: Option<u64>,
    /// Input tokens written to the cache.
    #[serde(default)]
    pub cache_creation_input_tokens: Option<u64>,
}

/// The event as on the wire: flat, so that serde needs no buffer to find the tag first.
#[derive(Deserialize)]
pub(super) struct RawStreamEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: WireText<'a>,
    #[serde(default)]
    index: Option<usize>,
    #[serde(borrow, default)]
    delta: Option<RawDelta<'a>>,
    #[serde(borrow, default)]
    content_block: Option<RawBlockStart<'a>>,
    #[serde(borrow, default)]
    message: Option<RawMessageStart<'a>>,
    #[serde(default)]
    usage: Option<WireTokenCounts>,
}

#[derive(Deserialize)]
struct RawDelta<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<WireText<'a>>,
    #[serde(borrow, default)]
    text: Option<WireText<'a>>,
    #[serde(borrow, default)]
    thinking: Option<WireText<'a>>,
    #[serde(borrow, default)]
    partial_json: Option<WireText<'a>>,
}

#[derive(Deserialize)]
struct RawBlockStart<'a> {
    #[serde(rename = "type", borrow)]
    kind: WireText<'a>,
    #[serde(borrow, default)]
    text: Option<WireText<'a>>,
    #[serde(borrow, default)]
    thinking: Option<WireText<'a>>,
    #[serde(borrow, default)]
    id: Option<WireText<'a>>,
    #[serde(borrow, default)]
    name: Option<WireText<'a>>,
}

#[derive(Deserialize)]
struct RawMessageStart<'a> {
    #[serde(borrow)]
    id: WireText<'a>,
    #[serde(borrow, default)]
    model: Option<WireText<'a>>,
    #[serde(default)]
    usage: Option<WireTokenCounts>,
}

/// What a line's `event` may contain.
pub(super) trait StreamPayload<'a>: Deserialize<'a> {
    /// The event by its name; `None` if it is unknown.
    fn into_event(self) -> Option<ModelStreamEvent<'a>>;
}

impl<'a> StreamPayload<'a> for IgnoredAny {
    fn into_event(self) -> Option<ModelStreamEvent<'a>> {
        None
    }
}

impl<'a> StreamPayload<'a> for RawStreamEvent<'a> {
    fn into_event(self) -> Option<ModelStreamEvent<'a>> {
        Some(match &*self.kind {
            "content_block_delta" => {
                ModelStreamEvent::BlockDelta { index: self.index?, delta: self.delta?.into_delta() }
            }
            "content_block_start" => {
                ModelStreamEvent::BlockStart { index: self.index?, block: self.content_block?.into_block_start() }
            }
            "content_block_stop" => ModelStreamEvent::BlockStop { index: self.index? },
            "message_start" => {
                let message = self.message?;
                ModelStreamEvent::MessageStart {
                    id: message.id,
                    model: message.model,
                    usage: message.usage.unwrap_or_default(),
                }
            }
            "message_delta" => ModelStreamEvent::MessageDelta { usage: self.usage.unwrap_or_default() },
            "message_stop" => ModelStreamEvent::MessageStop,
            "ping" => ModelStreamEvent::Ping,
            _ => return None,
        })
    }
}

impl<'a> RawDelta<'a> {
    fn into_delta(self) -> BlockDelta<'a> {
        match (self.kind.as_deref(), self.text, self.thinking, self.partial_json) {
            (Some("text_delta"), Some(text), ..) => BlockDelta::Text(text),
            (Some("thinking_delta"), _, Some(text), _) => BlockDelta::Thinking(text),
            (Some("input_json_delta"), _, _, Some(json)) => BlockDelta::InputJson(json),
            _ => BlockDelta::Other,
        }
    }
}

impl<'a> RawBlockStart<'a> {
    fn into_block_start(self) -> BlockStart<'a> {
        match (&*self.kind, self.id, self.name) {
            ("text", ..) => BlockStart::Text(self.text.unwrap_or_else(WireText::empty)),
            ("thinking", ..) => BlockStart::Thinking(self.thinking.unwrap_or_else(WireText::empty)),
            ("tool_use", Some(id), Some(name)) => BlockStart::ToolUse { id, name },
            _ => BlockStart::Other,
        }
    }
}

impl WireText<'_> {
    fn empty() -> Self {
        Self(std::borrow::Cow::Borrowed(""))
    }
}
