//! Text types whose `Debug` shows only sizes: prompts and the end of an agent's stderr.

use std::fmt;

use hostler_attachments::AttachmentBlock;
use uuid::Uuid;

/// A user's message for the agent. Its `Debug` shows sizes only.
#[derive(Clone, PartialEq, Eq)]
pub struct Prompt {
    text: String,
    blocks: Vec<AttachmentBlock>,
    id: Option<Uuid>,
}

impl Prompt {
    /// Wraps a message's text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), blocks: Vec::new(), id: None }
    }

    /// Adds attachments, in the user's order.
    #[must_use]
    pub fn with_blocks(mut self, blocks: Vec<AttachmentBlock>) -> Self {
        self.blocks = blocks;
        self
    }

    /// Sets the message id, which the agent stores in its transcript. Without one the driver creates it.
    #[must_use]
    pub fn with_id(mut self, id: Uuid) -> Self {
        self.id = Some(id);
        self
    }

    /// The message id, if one was set.
    pub fn id(&self) -> Option<Uuid> {
        self.id
    }

    /// The text, for the code that writes it to the agent.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// The attachments, which follow the text.
    pub fn blocks(&self) -> &[AttachmentBlock] {
        &self.blocks
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prompt({} bytes, {:?})", self.text.len(), self.blocks)
    }
}

/// The bounded, redacted end of an agent's stderr.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StderrTail(String);

impl StderrTail {
    /// Wraps text that is already bounded and redacted.
    pub fn from_redacted(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text; empty if the agent wrote nothing.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether there is anything to show.
    pub fn is_empty(&self) -> bool {
        self.0.trim().is_empty()
    }
}
