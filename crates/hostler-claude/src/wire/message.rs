use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Text, Tokens};

/// The model name of what the agent wrote itself.
pub const SYNTHETIC: &str = "<synthetic>";

/// An `assistant` line: usually one block of an answer, complete.
#[derive(Debug)]
pub struct AssistantMessage<'a> {
    /// The answer's id: the same for all of its blocks, and the id of its stream.
    pub id: Text<'a>,
    /// The model, `<synthetic>` for what the agent wrote itself.
    pub model: Option<Text<'a>>,
    /// The blocks.
    pub blocks: Vec<Block<'a>>,
    /// What the answer has used so far, as far as whole blocks tell it.
    pub usage: Tokens,
    /// The call that made the sub-agent that said it; absent for the agent itself.
    pub parent: Option<Text<'a>>,
    /// Whether the agent says with it that a call of the model has failed.
    pub failed: bool,
}

impl AssistantMessage<'_> {
    /// Whether the agent wrote it itself.
    pub fn is_synthetic(&self) -> bool {
        self.model.as_deref() == Some(SYNTHETIC)
    }

    /// What it says in words.
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Text(text) => Some(&**text),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// A `user` line: tool results, or text that the agent put there.
#[derive(Debug)]
pub struct UserMessage<'a> {
    /// What it holds.
    pub content: Content<'a>,
    /// What the tool did, in a shape of its own for each tool.
    pub tool_use_result: Option<&'a RawValue>,
    /// What the agent says about the tool results (newer builds).
    pub tool_results: Vec<ToolResultMeta<'a>>,
    /// Whether the call was refused before it ran, as transcripts of newer builds say it.
    pub refused: bool,
    /// The call that made the sub-agent that it belongs to; absent for the agent itself.
    pub parent: Option<Text<'a>>,
}

/// A message's content: some messages hold plain text.
#[derive(Debug)]
pub enum Content<'a> {
    /// Plain text (local commands, summaries, notifications).
    Plain(Text<'a>),
    /// Blocks.
    Blocks(Vec<Block<'a>>),
}

/// One block of a message.
#[derive(Debug)]
pub enum Block<'a> {
    /// Text.
    Text(Text<'a>),
    /// Reasoning.
    Thinking(Text<'a>),
    /// A tool call.
    ToolUse {
        /// The call.
        id: Text<'a>,
        /// The tool.
        name: Text<'a>,
        /// The whole input.
        input: &'a RawValue,
    },
    /// A tool's answer.
    ToolResult {
        /// The call.
        id: Text<'a>,
        /// Whether the tool failed or was refused.
        is_error: bool,
        /// What the model is told; [`tool_output`](Block::tool_output) reads it.
        content: Option<&'a RawValue>,
    },
    /// A kind of block that we have no use for.
    Other,
}

/// What newer builds say about a tool result.
#[derive(Debug, Deserialize)]
pub struct ToolResultMeta<'a> {
    /// The call.
    #[serde(borrow, default)]
    pub id: Option<Text<'a>>,
    /// Who decided, and how.
    #[serde(borrow, default)]
    permission_decision: Option<PermissionDecision<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PermissionDecision<'a> {
    #[serde(borrow, default)]
    decision: Option<Text<'a>>,
}

impl ToolResultMeta<'_> {
    /// Whether the call was refused before it ran.
    pub fn rejected(&self) -> bool {
        self.permission_decision.as_ref().is_some_and(PermissionDecision::rejects)
    }
}

impl PermissionDecision<'_> {
    pub(super) fn rejects(&self) -> bool {
        self.decision.as_deref() == Some("reject")
    }
}

#[derive(Deserialize)]
struct RawMessage<'a> {
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    content: &'a RawValue,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawBlock<'a> {
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
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_use_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(default)]
    is_error: Option<bool>,
}

pub(super) fn assistant<'a>(
    raw: &'a RawValue,
    parent: Option<Text<'a>>,
) -> Result<AssistantMessage<'a>, serde_json::Error> {
    let message: RawMessage<'a> = serde_json::from_str(raw.get())?;
    let blocks = match content(message.content)? {
        Content::Plain(text) => vec![Block::Text(text)],
        Content::Blocks(blocks) => blocks,
    };
    let id = message.id.unwrap_or_else(|| Text("".into()));
    // Counts in a shape that we do not know are as good as absent.
    let usage = message.usage.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    Ok(AssistantMessage { id, model: message.model, blocks, usage, parent, failed: false })
}

pub(super) fn user<'a>(
    raw: &'a RawValue,
    meta: Option<&'a RawValue>,
    parent: Option<Text<'a>>,
) -> Result<UserMessage<'a>, serde_json::Error> {
    let message: RawMessage<'a> = serde_json::from_str(raw.get())?;
    // The meta data is a convenience of newer builds: in a shape that we do not know it is as good as absent.
    let tool_results = meta.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    Ok(UserMessage { content: content(message.content)?, tool_use_result: None, tool_results, refused: false, parent })
}

pub(super) fn content(raw: &RawValue) -> Result<Content<'_>, serde_json::Error> {
    if raw.get().starts_with('"') {
        return Ok(Content::Plain(serde_json::from_str(raw.get())?));
    }
    let blocks: Vec<RawBlock<'_>> = serde_json::from_str(raw.get())?;
    Ok(Content::Blocks(blocks.into_iter().map(RawBlock::named).collect()))
}

impl<'a> RawBlock<'a> {
    fn named(self) -> Block<'a> {
        match &*self.kind {
            "text" => self.text.map_or(Block::Other, Block::Text),
            "thinking" => self.thinking.map_or(Block::Other, Block::Thinking),
            "tool_use" => match (self.id, self.name, self.input) {
                (Some(id), Some(name), Some(input)) => Block::ToolUse { id, name, input },
                _ => Block::Other,
            },
            "tool_result" => match self.tool_use_id {
                Some(id) => Block::ToolResult { id, is_error: self.is_error.unwrap_or(false), content: self.content },
                None => Block::Other,
            },
            _ => Block::Other,
        }
    }
}

impl Block<'_> {
    /// A tool result's text: its string, or the text blocks of its array.
    pub fn tool_output(content: Option<&RawValue>) -> String {
        let Some(content) = content.and_then(|raw| self::content(raw).ok()) else {
            return String::new();
        };
        match content {
            Content::Plain(text) => text.0.into_owned(),
            Content::Blocks(blocks) => {
                let texts: Vec<&str> = blocks
                    .iter()
                    .map(|block| if let Block::Text(text) = block { text } else { "[not text]" })
                    .collect();
                texts.join("\n")
            }
        }
    }
}
