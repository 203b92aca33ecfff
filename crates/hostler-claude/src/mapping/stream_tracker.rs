//! Tracks the streamed blocks of a turn.

use hostler_driver::{PartId, PartKind};

/// What was streamed in the running turn, so that whole blocks add only what is missing.
#[derive(Debug, Default)]
pub(super) struct StreamTracker {
    /// In the order of their start; the last one is being streamed.
    messages: Vec<StreamedMessage>,
}

#[derive(Debug)]
struct StreamedMessage {
    id: String,
    blocks: Vec<StreamedBlock>,
}

#[derive(Debug)]
struct StreamedBlock {
    index: usize,
    kind: StreamedBlockKind,
    /// Set with the first text.
    part: Option<PartId>,
    /// The streamed text; released when the whole block has arrived.
    text: String,
    /// Whether the whole block has arrived.
    is_complete: bool,
}

/// What a streamed block is.
#[derive(Debug, PartialEq)]
pub(super) enum StreamedBlockKind {
    /// Text or reasoning.
    Part(PartKind),
    /// A tool call.
    Tool(String),
}

/// What a whole block adds to what was streamed of it.
#[derive(Debug, PartialEq)]
pub(super) enum UnstreamedText<'a> {
    /// All of it was streamed.
    None,
    /// The stream ended early.
    Rest {
        /// The part that grows.
        part: PartId,
        /// The text to append.
        text: &'a str,
    },
    /// Nothing of it was streamed.
    All,
}

/// What an abandoned stream has produced.
#[derive(Debug)]
pub(super) struct AbandonedStream {
    /// Whether any of it was displayed.
    pub(super) had_output: bool,
    /// Calls whose input never became complete.
    pub(super) tools: Vec<String>,
}

impl StreamTracker {
    pub(super) fn start_message(&mut self, id: &str) {
        self.messages.push(StreamedMessage { id: id.to_owned(), blocks: Vec::new() });
    }

    pub(super) fn start_block(&mut self, index: usize, kind: StreamedBlockKind) {
        if let Some(message) = self.messages.last_mut() {
            message.blocks.push(StreamedBlock { index, kind, part: None, text: String::new(), is_complete: false });
        }
    }

    /// The call at this index of the streamed message.
    pub(super) fn tool_at(&self, index: usize) -> Option<&str> {
        let block = self.messages.last()?.blocks.iter().rfind(|block| block.index == index)?;
        match &block.kind {
            StreamedBlockKind::Tool(id) => Some(id),
            StreamedBlockKind::Part(_) => None,
        }
    }

    /// Appends to a block and returns its part's slot; `None` if there is no such block.
    pub(super) fn append(&mut self, index: usize, kind: PartKind, text: &str) -> Option<&mut Option<PartId>> {
        let block = self.messages.last_mut()?.blocks.iter_mut().rfind(|block| block.index == index)?;
        if block.kind != StreamedBlockKind::Part(kind) || block.is_complete {
            return None;
        }
        block.text.push_str(text);
        Some(&mut block.part)
    }

    /// A whole block has arrived: it completes the first streamed block of its message and kind that is incomplete.
    pub(super) fn complete_text<'a>(&mut self, message: &str, kind: PartKind, whole: &'a str) -> UnstreamedText<'a> {
        let waiting = self.messages.iter_mut().rfind(|streamed| streamed.id == message).and_then(|streamed| {
            streamed.blocks.iter_mut().find(|b| !b.is_complete && b.kind == StreamedBlockKind::Part(kind))
        });
        let Some(block) = waiting else {
            return UnstreamedText::All;
        };
        block.is_complete = true;
        let streamed = std::mem::take(&mut block.text);
        match (whole.strip_prefix(streamed.as_str()), block.part) {
            (Some(""), _) => UnstreamedText::None,
            (Some(text), Some(part)) => UnstreamedText::Rest { part, text },
            // The agent may trim streamed text.
            (None, _) if streamed.starts_with(whole) => UnstreamedText::None,
            // Parts can only grow: a block that differs from its stream becomes another part.
            _ => UnstreamedText::All,
        }
    }

    /// A whole tool call has arrived.
    pub(super) fn complete_tool(&mut self, message: &str, id: &str) {
        let calls =
            self.messages.iter_mut().filter(|streamed| streamed.id == message).flat_map(|m| m.blocks.iter_mut());
        for block in calls {
            if matches!(&block.kind, StreamedBlockKind::Tool(tool) if tool == id) {
                block.is_complete = true;
            }
        }
    }

    /// Abandons the streamed message, unless the agent continues it. `None` if all its blocks are complete.
    pub(super) fn abandon_unless(&mut self, same_message: Option<&str>) -> Option<AbandonedStream> {
        let message = self.messages.last_mut()?;
        if same_message == Some(message.id.as_str()) {
            return None;
        }
        let mut cut = AbandonedStream { had_output: false, tools: Vec::new() };
        for block in message.blocks.iter_mut().filter(|block| !block.is_complete) {
            block.is_complete = true;
            match &block.kind {
                StreamedBlockKind::Part(_) => cut.had_output |= block.part.is_some(),
                StreamedBlockKind::Tool(id) => {
                    cut.had_output = true;
                    cut.tools.push(id.clone());
                }
            }
        }
        cut.had_output.then_some(cut)
    }
}
