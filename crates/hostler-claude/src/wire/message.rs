//! `assistant` and `user` messages and their blocks.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{WireText, WireTokenCounts};

/// The model name of messages that the agent generated itself.
pub const SYNTHETIC_MODEL: &str = "<synthetic>";

/// An `assistant` line: usually one block of an answer, complete.
#[derive(Debug)]
pub struct AssistantMessage<'a> {
    /// The answer's id: the same for all of its blocks, and the id of its stream.
    pub id: WireText<'a>,
    /// The model, `<synthetic>` for messages that the agent generated itself.
    pub model: Option<WireText<'a>>,
    /// The blocks.
    pub blocks: Vec<MessageBlock<'a>>,
    /// The usage of the answer so far, as far as whole blocks report it.
    pub usage: WireTokenCounts,
    /// The call that started the sub-agent that wrote it; absent for the agent itself.
    pub parent_call_id: Option<WireText<'a>>,
    /// Whether it reports a failed call of the model.
    pub is_api_error: bool,
}

impl AssistantMessage<'_> {
    /// Whether the agent generated it itself.
    pub fn is_synthetic(&self) -> bool {
        self.model.as_deref() == Some(SYNTHETIC_MODEL)
    }

    /// Its text.
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            MessageBlock::Text(text) => Some(&**text),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// A `user` line: tool results, or text that the agent inserted.
#[derive(Debug)]
pub struct UserMessage<'a> {
    /// Its content.
    pub content: MessageContent<'a>,
    /// The tool's structured result; its shape depends on the tool.
    pub tool_use_result: Option<&'a RawValue>,
    /// Metadata of the tool results (newer builds).
    pub tool_results: Vec<ToolResultMeta<'a>>,
    /// Whether the call was denied before it ran, as in transcripts of newer builds.
    pub is_refused: bool,
    /// The call that started the sub-agent that it belongs to; absent for the agent itself.
    pub parent_call_id: Option<WireText<'a>>,
}

/// A message's content: text or blocks.
#[derive(Debug)]
pub enum MessageContent<'a> {
    /// Plain text (local commands, summaries, notifications).
    Text(WireText<'a>),
    /// Blocks.
    Blocks(Vec<MessageBlock<'a>>),
}

/// One block of a message.
#[derive(Debug)]
pub enum MessageBlock<'a> {
    /// Text.
    Text(WireText<'a>),
    /// Reasoning.
    Thinking(WireText<'a>),
    /// A tool call.
    ToolUse {
        /// The call.
        id: WireText<'a>,
        /// The tool.
        name: WireText<'a>,
        /// The whole input.
        input: &'a RawValue,
    },
    /// A tool's result.
    ToolResult {
        /// The call.
        id: WireText<'a>,
        /// Whether the tool failed or was denied.
        is_error: bool,
        /// The output for the model; [`tool_output`](MessageBlock::tool_output) parses it.
        content: Option<&'a RawValue>,
    },
    /// A kind of block that is not used.
    Other,
}

/// Metadata of a tool result (newer builds).
#[derive(Debug, Deserialize)]
pub struct ToolResultMeta<'a> {
    /// The call.
    #[serde(borrow, default)]
    pub id: Option<WireText<'a>>,
    /// The decision and its source.
    #[serde(borrow, default)]
    permission_decision: Option<PermissionDecision<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PermissionDecision<'a> {
    #[serde(borrow, default)]
    decision: Option<WireText<'a>>,
}

impl ToolResultMeta<'_> {
    /// Whether the call was denied before it ran.
    pub fn is_rejected(&self) -> bool {
        self.permission_decision.as_ref().is_some_and(PermissionDecision::is_rejection)
    }
}

impl PermissionDecision<'_> {
    pub(super) fn is_rejection(&self) -> bool {
        self.decision.as_deref() == Some("reject")
    }
}

#[derive(Deserialize)]
struct RawMessage<'a> {
    #[serde(borrow, default)]
    id: Option<WireText<'a>>,
    #[serde(borrow, default)]
    model: Option<WireText<'a>>,
    #[serde(borrow)]
    content: &'a RawValue,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawBlock<'a> {
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
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_use_id: Option<WireText<'a>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(default)]
    is_error: Option<bool>,
}

pub(super) fn parse_assistant<'a>(
    raw: &'a RawValue,
    parent: Option<WireText<'a>>,
) -> Result<AssistantMessage<'a>, serde_json::Error> {
    let message: RawMessage<'a> = serde_json::from_str(raw.get())?;
    let blocks = match parse_content(message.content)? {
        MessageContent::Text(text) => vec![MessageBlock::Text(text)],
        MessageContent::Blocks(blocks) => blocks,
    };
    let id = message.id.unwrap_or_else(|| WireText("".into()));
    // Counts in an unknown shape count as absent.
    let usage = message.usage.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    Ok(AssistantMessage { id, model: message.model, blocks, usage, parent_call_id: parent, is_api_error: false })
}

pub(super) fn parse_user<'a>(
    raw: &'a RawValue,
    meta: Option<&'a RawValue>,
    parent: Option<WireText<'a>>,
) -> Result<UserMessage<'a>, serde_json::Error> {
    let message: RawMessage<'a> = serde_json::from_str(raw.get())?;
    // The metadata exists only in newer builds; in an unknown shape it counts as absent.
    let tool_results = meta.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    Ok(UserMessage {
        content: parse_content(message.content)?,
        tool_use_result: None,
        tool_results,
        is_refused: false,
        parent_call_id: parent,
    })
}

pub(super) fn parse_content(raw: &RawValue) -> Result<MessageContent<'_>, serde_json::Error> {
    if raw.get().starts_with('"') {
        return Ok(MessageContent::Text(serde_json::from_str(raw.get())?));
    }
    let blocks: Vec<RawBlock<'_>> = serde_json::from_str(raw.get())?;
    Ok(MessageContent::Blocks(blocks.into_iter().map(RawBlock::into_block).collect()))
}

impl<'a> RawBlock<'a> {
    fn into_block(self) -> MessageBlock<'a> {
        match &*self.kind {
            "text" => self.text.map_or(MessageBlock::Other, MessageBlock::Text),
            "thinking" => self.thinking.map_or(MessageBlock::Other, MessageBlock::Thinking),
            "tool_use" => match (self.id, self.name, self.input) {
                (Some(id), Some(name), Some(input)) => MessageBlock::ToolUse { id, name, input },
                _ => MessageBlock::Other,
            },
            "tool_result" => match self.tool_use_id {
                Some(id) => {
                    MessageBlock::ToolResult { id, is_error: self.is_error.unwrap_or(false), content: self.content }
                }
                None => MessageBlock::Other,
            },
            _ => MessageBlock::Other,
        }
    }
}

impl MessageBlock<'_> {
    /// A tool result's text: its string, or the text blocks of its array.
    pub fn tool_output(content: Option<&RawValue>) -> String {
        let Some(content) = content.and_then(|raw| self::parse_content(raw).ok()) else {
            return String::new();
        };
        match content {
            MessageContent::Text(text) => text.0.into_owned(),
            MessageContent::Blocks(blocks) => {
                let texts: Vec<&str> = blocks
                    .iter()
                    .map(|block| if let MessageBlock::Text(text) = block { text } else { "[not text]" })
                    .collect();
                texts.join("\n")
            }
        }
    }
}
