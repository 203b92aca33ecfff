//! The wire form of a prompt: text first, then attachment blocks.

use std::borrow::Cow;

use hostler_attachments::{AttachmentBlock, MessagesApiBlock};
use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use super::outbound::{HostMessage, MessagePriority};

/// The message of a prompt.
#[derive(Debug, Serialize)]
pub struct PromptMessage<'a> {
    role: &'static str,
    content: PromptContent<'a>,
}

/// The text first, then the attachments in order. Its `Debug` shows no text: blocks print as sizes.
struct PromptContent<'a> {
    text: Cow<'a, str>,
    blocks: Vec<Cow<'a, AttachmentBlock>>,
}

#[derive(Serialize)]
struct TextBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

impl PromptContent<'_> {
    /// Models reject empty text, and an image needs none.
    fn has_text(&self) -> bool {
        self.blocks.is_empty() || !self.text.trim().is_empty()
    }
}

impl Serialize for PromptContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let has_text = self.has_text();
        let mut content = serializer.serialize_seq(Some(usize::from(has_text) + self.blocks.len()))?;
        if has_text {
            content.serialize_element(&TextBlock { kind: "text", text: &self.text })?;
        }
        for block in &self.blocks {
            content.serialize_element(&MessagesApiBlock(block))?;
        }
        content.end()
    }
}

impl std::fmt::Debug for PromptContent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PromptContent({} bytes, {:?})", self.text.len(), self.blocks)
    }
}

impl PromptMessage<'_> {
    /// The size of its contents in bytes, before encoding.
    pub(super) fn size_bytes(&self) -> usize {
        self.content.text.len() + self.content.blocks.iter().map(|block| block.content_bytes()).sum::<usize>()
    }
}

impl<'a> HostMessage<'a> {
    /// A user's message. The text is written unchanged; the caller has escaped it.
    pub fn user(
        text: Cow<'a, str>,
        blocks: Vec<Cow<'a, AttachmentBlock>>,
        uuid: Uuid,
        priority: MessagePriority,
    ) -> Self {
        let message = PromptMessage { role: "user", content: PromptContent { text, blocks } };
        Self::User { session_id: "", message, parent_tool_use_id: None, uuid, priority }
    }
}
