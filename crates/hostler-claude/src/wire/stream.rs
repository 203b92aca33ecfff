use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Text;

/// A `stream_event` line.
#[derive(Debug)]
pub struct StreamLine<'a> {
    /// Whether a sub-agent's model is speaking. Not seen so far, but the field exists.
    pub sub_agent: bool,
    /// The event of the model's stream.
    pub event: StreamEvent<'a>,
}

/// One event of the model's stream.
#[derive(Debug)]
pub enum StreamEvent<'a> {
    /// An answer of the model begins. After a cut stream this begins the same answer anew.
    MessageStart {
        /// The answer's id.
        id: Text<'a>,
        /// The model that answers.
        model: Option<Text<'a>>,
        /// Tokens so far.
        usage: Tokens,
    },
    /// A block begins.
    BlockStart {
        /// Its place in the answer.
        index: usize,
        /// What it is.
        block: BlockStart<'a>,
    },
    /// A block grows.
    BlockDelta {
        /// Its place in the answer.
        index: usize,
        /// By what.
        delta: BlockDelta<'a>,
    },
    /// A block ends.
    BlockStop {
        /// Its place in the answer.
        index: usize,
    },
    /// The answer's tokens are known.
    MessageDelta {
        /// All tokens of this answer.
        usage: Tokens,
    },
    /// The answer ends.
    MessageStop,
    /// Sign of life.
    Ping,
}

/// What a streamed block is.
#[derive(Debug)]
pub enum BlockStart<'a> {
    /// Text, usually empty at first.
    Text(Text<'a>),
    /// Reasoning, usually empty at first.
    Thinking(Text<'a>),
    /// A tool call.
    ToolUse {
        /// The call.
        id: Text<'a>,
        /// The tool.
        name: Text<'a>,
    },
    /// A kind of block that we have no use for (server tools, redacted reasoning).
    Other,
}

/// What a block grows by.
#[derive(Debug)]
pub enum BlockDelta<'a> {
    /// Text.
    Text(Text<'a>),
    /// Reasoning.
    Thinking(Text<'a>),
    /// A piece of a tool call's input.
    InputJson(Text<'a>),
    /// Signatures, citations and what else may come.
    Other,
}

/// Token counts as the API gives them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Tokens {
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

/// The event as it stands on the wire: flat, so that serde needs no buffer to find the tag first.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    #[serde(default)]
    index: Option<usize>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    content_block: Option<StartedBlock<'a>>,
    #[serde(borrow, default)]
    message: Option<StartedMessage<'a>>,
    #[serde(default)]
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    partial_json: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct StartedBlock<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct StartedMessage<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow, default)]
    model: Option<Text<'a>>,
    #[serde(default)]
    usage: Option<Tokens>,
}

/// What may stand under a line's `event`.
pub(super) trait StreamPayload<'a>: Deserialize<'a> {
    /// The event by its name; `None` if we do not know it.
    fn named(self) -> Option<StreamEvent<'a>>;
}

impl<'a> StreamPayload<'a> for IgnoredAny {
    fn named(self) -> Option<StreamEvent<'a>> {
        None
    }
}

impl<'a> StreamPayload<'a> for Event<'a> {
    fn named(self) -> Option<StreamEvent<'a>> {
        Some(match &*self.kind {
            "content_block_delta" => StreamEvent::BlockDelta { index: self.index?, delta: self.delta?.named() },
            "content_block_start" => StreamEvent::BlockStart { index: self.index?, block: self.content_block?.named() },
            "content_block_stop" => StreamEvent::BlockStop { index: self.index? },
            "message_start" => {
                let message = self.message?;
                StreamEvent::MessageStart {
                    id: message.id,
                    model: message.model,
                    usage: message.usage.unwrap_or_default(),
                }
            }
            "message_delta" => StreamEvent::MessageDelta { usage: self.usage.unwrap_or_default() },
            "message_stop" => StreamEvent::MessageStop,
            "ping" => StreamEvent::Ping,
            _ => return None,
        })
    }
}

impl<'a> Delta<'a> {
    fn named(self) -> BlockDelta<'a> {
        match (self.kind.as_deref(), self.text, self.thinking, self.partial_json) {
            (Some("text_delta"), Some(text), ..) => BlockDelta::Text(text),
            (Some("thinking_delta"), _, Some(text), _) => BlockDelta::Thinking(text),
            (Some("input_json_delta"), _, _, Some(json)) => BlockDelta::InputJson(json),
            _ => BlockDelta::Other,
        }
    }
}

impl<'a> StartedBlock<'a> {
    fn named(self) -> BlockStart<'a> {
        match (&*self.kind, self.id, self.name) {
            ("text", ..) => BlockStart::Text(self.text.unwrap_or_else(Text::empty)),
            ("thinking", ..) => BlockStart::Thinking(self.thinking.unwrap_or_else(Text::empty)),
            ("tool_use", Some(id), Some(name)) => BlockStart::ToolUse { id, name },
            _ => BlockStart::Other,
        }
    }
}

impl Text<'_> {
    fn empty() -> Self {
        Self(std::borrow::Cow::Borrowed(""))
    }
}
