use hostler_driver::{PartId, PartKind};

/// What was streamed in the running turn, so that whole blocks add only what is missing.
#[derive(Debug, Default)]
pub(super) struct Streamed {
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
    kind: StreamedKind,
    /// Set with the first text.
    part: Option<PartId>,
    /// What was streamed; given back when the whole block has come.
    text: String,
    /// Whether the whole block has come.
    whole: bool,
}

/// What a streamed block is.
#[derive(Debug, PartialEq)]
pub(super) enum StreamedKind {
    /// Text or reasoning.
    Part(PartKind),
    /// A tool call.
    Tool(String),
}

/// What a whole block adds to what was streamed of it.
#[derive(Debug, PartialEq)]
pub(super) enum Missing<'a> {
    /// All of it was streamed.
    Nothing,
    /// The stream ended early.
    Rest {
        /// The part that grows.
        part: PartId,
        /// By what.
        text: &'a str,
    },
    /// Nothing of it was streamed.
    Everything,
}

/// What an abandoned stream leaves behind.
#[derive(Debug)]
pub(super) struct Cut {
    /// Whether anything of it was shown.
    pub(super) shown: bool,
    /// Calls whose input never became complete.
    pub(super) tools: Vec<String>,
}

impl Streamed {
    pub(super) fn message_started(&mut self, id: &str) {
        self.messages.push(StreamedMessage { id: id.to_owned(), blocks: Vec::new() });
    }

    pub(super) fn block_started(&mut self, index: usize, kind: StreamedKind) {
        if let Some(message) = self.messages.last_mut() {
            message.blocks.push(StreamedBlock { index, kind, part: None, text: String::new(), whole: false });
        }
    }

    /// The call at this place of the message that is being streamed.
    pub(super) fn tool_at(&self, index: usize) -> Option<&str> {
        let block = self.messages.last()?.blocks.iter().rfind(|block| block.index == index)?;
        match &block.kind {
            StreamedKind::Tool(id) => Some(id),
            StreamedKind::Part(_) => None,
        }
    }

    /// Appends to a block and gives its part's slot; `None` if there is no such block.
    pub(super) fn grow(&mut self, index: usize, kind: PartKind, text: &str) -> Option<&mut Option<PartId>> {
        let block = self.messages.last_mut()?.blocks.iter_mut().rfind(|block| block.index == index)?;
        if block.kind != StreamedKind::Part(kind) || block.whole {
            return None;
        }
        block.text.push_str(text);
        Some(&mut block.part)
    }

    /// A whole block has come: the first streamed block of its message and kind that still waits for one is it.
    pub(super) fn completed<'a>(&mut self, message: &str, kind: PartKind, whole: &'a str) -> Missing<'a> {
        let waiting =
            self.messages.iter_mut().rfind(|streamed| streamed.id == message).and_then(|streamed| {
                streamed.blocks.iter_mut().find(|b| !b.whole && b.kind == StreamedKind::Part(kind))
            });
        let Some(block) = waiting else {
            return Missing::Everything;
        };
        block.whole = true;
        let streamed = std::mem::take(&mut block.text);
        match (whole.strip_prefix(streamed.as_str()), block.part) {
            (Some(""), _) => Missing::Nothing,
            (Some(text), Some(part)) => Missing::Rest { part, text },
            // The agent may trim what it streamed.
            (None, _) if streamed.starts_with(whole) => Missing::Nothing,
            // Parts can only grow: a block that became another one is shown beside what was streamed.
            _ => Missing::Everything,
        }
    }

    /// A whole tool call has come.
    pub(super) fn tool_completed(&mut self, message: &str, id: &str) {
        let calls =
            self.messages.iter_mut().filter(|streamed| streamed.id == message).flat_map(|m| m.blocks.iter_mut());
        for block in calls {
            if matches!(&block.kind, StreamedKind::Tool(tool) if tool == id) {
                block.whole = true;
            }
        }
    }

    /// Gives up the message that is being streamed, unless the agent still speaks of it.
    /// `None` if every block of it became whole.
    pub(super) fn abandon_unless(&mut self, same_message: Option<&str>) -> Option<Cut> {
        let message = self.messages.last_mut()?;
        if same_message == Some(message.id.as_str()) {
            return None;
        }
        let mut cut = Cut { shown: false, tools: Vec::new() };
        for block in message.blocks.iter_mut().filter(|block| !block.whole) {
            block.whole = true;
            match &block.kind {
                StreamedKind::Part(_) => cut.shown |= block.part.is_some(),
                StreamedKind::Tool(id) => {
                    cut.shown = true;
                    cut.tools.push(id.clone());
                }
            }
        }
        cut.shown.then_some(cut)
    }
}
