//! Writes a playback as a stream of events or as one complete message.

use bytes::{Bytes, BytesMut};
use hostler_gateway::upstream_support::encode_event;
use serde_json::value::RawValue;

use crate::message::{
    ScriptedBlock, ScriptedDelta, ScriptedMessage, ScriptedMessageEnd, ScriptedMessageId, ScriptedStreamEvent,
    ScriptedUsage,
};
use crate::playback::NewBlock;

/// What both forms of a response need from the request.
#[derive(Debug)]
pub(super) struct MessageHead {
    pub(super) id: ScriptedMessageId,
    pub(super) model: String,
    pub(super) request_bytes: usize,
}

impl MessageHead {
    fn message<'a>(
        &'a self,
        content: &'a [ScriptedBlock],
        stop_reason: Option<&'static str>,
        output_bytes: usize,
    ) -> ScriptedMessage<'a> {
        ScriptedMessage {
            id: self.id.message(),
            role: "assistant",
            model: &self.model,
            content,
            stop_reason,
            stop_sequence: None,
            usage: self.usage(output_bytes),
        }
    }

    fn usage(&self, output_bytes: usize) -> ScriptedUsage {
        ScriptedUsage {
            input_tokens: estimate_tokens(self.request_bytes),
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: 0,
            output_tokens: estimate_tokens(output_bytes),
        }
    }
}

/// Four bytes per token, rounded up: plausible and easy to verify.
pub(super) fn estimate_tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
    Tool,
}

/// Writes the events of a stream.
#[derive(Debug)]
pub(super) struct ScriptedEventWriter {
    head: MessageHead,
    has_begun: bool,
    index: usize,
    kind: BlockKind,
    output_bytes: usize,
}

impl ScriptedEventWriter {
    pub(super) fn new(head: MessageHead) -> Self {
        Self { head, has_begun: false, index: 0, kind: BlockKind::Text, output_bytes: 0 }
    }

    /// Whether an event has been written.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Starts a block; before the first one, the message.
    pub(super) fn open_block(&mut self, opening: NewBlock) -> Result<Bytes, serde_json::Error> {
        let mut events = EventBuffer::default();
        let first = !self.has_begun;
        if first {
            // Like the real API: at the start the output count is a placeholder of one token.
            events.add(&ScriptedStreamEvent::MessageStart { message: self.head.message(&[], None, 1) })?;
            self.has_begun = true;
        }
        let (kind, block) = match opening {
            NewBlock::Text => (BlockKind::Text, ScriptedBlock::Text { text: String::new() }),
            NewBlock::Thinking => {
                (BlockKind::Thinking, ScriptedBlock::Thinking { thinking: String::new(), signature: String::new() })
            }
            NewBlock::Tool { name, .. } => {
                let id = self.head.id.tool_use(self.index);
                (BlockKind::Tool, ScriptedBlock::ToolUse { id, name, input: RawValue::from_string("{}".to_owned())? })
            }
        };
        self.kind = kind;
        events.add(&ScriptedStreamEvent::ContentBlockStart { index: self.index, content_block: &block })?;
        if first {
            events.add(&ScriptedStreamEvent::Ping)?;
        }
        Ok(events.into_bytes())
    }

    pub(super) fn write_chunk(&mut self, piece: &str) -> Result<Bytes, serde_json::Error> {
        self.output_bytes += piece.len();
        let delta = match self.kind {
            BlockKind::Text => ScriptedDelta::Text { text: piece },
            BlockKind::Thinking => ScriptedDelta::Thinking { thinking: piece },
            BlockKind::Tool => ScriptedDelta::InputJson { partial_json: piece },
        };
        let mut events = EventBuffer::default();
        events.add(&ScriptedStreamEvent::ContentBlockDelta { index: self.index, delta })?;
        Ok(events.into_bytes())
    }

    pub(super) fn close_block(&mut self) -> Result<Bytes, serde_json::Error> {
        let mut events = EventBuffer::default();
        if self.kind == BlockKind::Thinking {
            let signature = self.head.id.signature(self.index);
            let delta = ScriptedDelta::Signature { signature: &signature };
            events.add(&ScriptedStreamEvent::ContentBlockDelta { index: self.index, delta })?;
        }
        events.add(&ScriptedStreamEvent::ContentBlockStop { index: self.index })?;
        self.index += 1;
        Ok(events.into_bytes())
    }

    pub(super) fn end_message(&mut self, stop_reason: &'static str) -> Result<Bytes, serde_json::Error> {
        let mut events = EventBuffer::default();
        let delta = ScriptedMessageEnd { stop_reason, stop_sequence: None };
        events.add(&ScriptedStreamEvent::MessageDelta { delta, usage: self.head.usage(self.output_bytes) })?;
        events.add(&ScriptedStreamEvent::MessageStop)?;
        Ok(events.into_bytes())
    }
}

/// Collects events that are written together.
#[derive(Default)]
struct EventBuffer(BytesMut);

impl EventBuffer {
    fn add(&mut self, event: &ScriptedStreamEvent<'_>) -> Result<(), serde_json::Error> {
        self.0.extend_from_slice(&encode_event(event.name(), &serde_json::to_vec(event)?));
        Ok(())
    }

    fn into_bytes(self) -> Bytes {
        self.0.freeze()
    }
}

/// Collects the complete message for a request without streaming.
#[derive(Debug)]
pub(super) struct ScriptedMessageWriter {
    head: MessageHead,
    content: Vec<ScriptedBlock>,
    output_bytes: usize,
}

impl ScriptedMessageWriter {
    pub(super) fn new(head: MessageHead) -> Self {
        Self { head, content: Vec::new(), output_bytes: 0 }
    }

    pub(super) fn open_block(&mut self, opening: NewBlock) {
        let index = self.content.len();
        self.content.push(match opening {
            NewBlock::Text => ScriptedBlock::Text { text: String::new() },
            NewBlock::Thinking => {
                ScriptedBlock::Thinking { thinking: String::new(), signature: self.head.id.signature(index) }
            }
            NewBlock::Tool { name, input } => ScriptedBlock::ToolUse { id: self.head.id.tool_use(index), name, input },
        });
    }

    pub(super) fn add_chunk(&mut self, piece: &str) {
        self.output_bytes += piece.len();
        match self.content.last_mut() {
            Some(ScriptedBlock::Text { text }) => text.push_str(piece),
            Some(ScriptedBlock::Thinking { thinking, .. }) => thinking.push_str(piece),
            // The input of a tool is complete from the start.
            Some(ScriptedBlock::ToolUse { .. }) | None => {}
        }
    }

    pub(super) fn finish(self, stop_reason: &'static str) -> Result<Bytes, serde_json::Error> {
        let message = self.head.message(&self.content, Some(stop_reason), self.output_bytes);
        serde_json::to_vec(&message).map(Bytes::from)
    }
}
