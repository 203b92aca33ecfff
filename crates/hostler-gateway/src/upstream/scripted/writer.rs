//! Writes a performance down: as a stream of events, or as one whole message.

use bytes::{Bytes, BytesMut};
use serde_json::value::RawValue;

use super::message::{Block, Delta, Message, MessageEnd, MessageId, StreamEvent, Usage};
use super::performance::Opening;
use crate::sse;

/// What both forms of an answer need to know about the request.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) id: MessageId,
    pub(super) model: String,
    pub(super) request_bytes: usize,
}

impl Head {
    fn message<'a>(
        &'a self,
        content: &'a [Block],
        stop_reason: Option<&'static str>,
        output_bytes: usize,
    ) -> Message<'a> {
        Message {
            id: self.id.message(),
            role: "assistant",
            model: &self.model,
            content,
            stop_reason,
            stop_sequence: None,
            usage: self.usage(output_bytes),
        }
    }

    fn usage(&self, output_bytes: usize) -> Usage {
        Usage {
            input_tokens: tokens(self.request_bytes),
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: 0,
            output_tokens: tokens(output_bytes),
        }
    }
}

/// A token is four bytes, rounded up: plausible, and everybody can check it.
pub(super) fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Tool,
}

/// Writes the events of a stream.
#[derive(Debug)]
pub(super) struct EventWriter {
    head: Head,
    begun: bool,
    index: usize,
    kind: Kind,
    output_bytes: usize,
}

impl EventWriter {
    pub(super) fn new(head: Head) -> Self {
        Self { head, begun: false, index: 0, kind: Kind::Text, output_bytes: 0 }
    }

    /// Whether the client has seen an event.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// The beginning of a block; before the first one, of the message.
    pub(super) fn open(&mut self, opening: Opening) -> Result<Bytes, serde_json::Error> {
        let mut events = Events::default();
        let first = !self.begun;
        if first {
            // Like the real API: at the start the output count is a placeholder of one token.
            events.add(&StreamEvent::MessageStart { message: self.head.message(&[], None, 1) })?;
            self.begun = true;
        }
        let (kind, block) = match opening {
            Opening::Text => (Kind::Text, Block::Text { text: String::new() }),
            Opening::Thinking => {
                (Kind::Thinking, Block::Thinking { thinking: String::new(), signature: String::new() })
            }
            Opening::Tool { name, .. } => {
                let id = self.head.id.tool_use(self.index);
                (Kind::Tool, Block::ToolUse { id, name, input: RawValue::from_string("{}".to_owned())? })
            }
        };
        self.kind = kind;
        events.add(&StreamEvent::ContentBlockStart { index: self.index, content_block: &block })?;
        if first {
            events.add(&StreamEvent::Ping)?;
        }
        Ok(events.bytes())
    }

    pub(super) fn piece(&mut self, piece: &str) -> Result<Bytes, serde_json::Error> {
        self.output_bytes += piece.len();
        let delta = match self.kind {
            Kind::Text => Delta::Text { text: piece },
            Kind::Thinking => Delta::Thinking { thinking: piece },
            Kind::Tool => Delta::InputJson { partial_json: piece },
        };
        let mut events = Events::default();
        events.add(&StreamEvent::ContentBlockDelta { index: self.index, delta })?;
        Ok(events.bytes())
    }

    pub(super) fn close(&mut self) -> Result<Bytes, serde_json::Error> {
        let mut events = Events::default();
        if self.kind == Kind::Thinking {
            let signature = self.head.id.signature(self.index);
            let delta = Delta::Signature { signature: &signature };
            events.add(&StreamEvent::ContentBlockDelta { index: self.index, delta })?;
        }
        events.add(&StreamEvent::ContentBlockStop { index: self.index })?;
        self.index += 1;
        Ok(events.bytes())
    }

    pub(super) fn end(&mut self, stop_reason: &'static str) -> Result<Bytes, serde_json::Error> {
        let mut events = Events::default();
        let delta = MessageEnd { stop_reason, stop_sequence: None };
        events.add(&StreamEvent::MessageDelta { delta, usage: self.head.usage(self.output_bytes) })?;
        events.add(&StreamEvent::MessageStop)?;
        Ok(events.bytes())
    }
}

/// Events that are written together.
#[derive(Default)]
struct Events(BytesMut);

impl Events {
    fn add(&mut self, event: &StreamEvent<'_>) -> Result<(), serde_json::Error> {
        self.0.extend_from_slice(&sse::frame(event.name(), &serde_json::to_vec(event)?));
        Ok(())
    }

    fn bytes(self) -> Bytes {
        self.0.freeze()
    }
}

/// Collects the whole message for a request without streaming.
#[derive(Debug)]
pub(super) struct WholeWriter {
    head: Head,
    content: Vec<Block>,
    output_bytes: usize,
}

impl WholeWriter {
    pub(super) fn new(head: Head) -> Self {
        Self { head, content: Vec::new(), output_bytes: 0 }
    }

    pub(super) fn open(&mut self, opening: Opening) {
        let index = self.content.len();
        self.content.push(match opening {
            Opening::Text => Block::Text { text: String::new() },
            Opening::Thinking => Block::Thinking { thinking: String::new(), signature: self.head.id.signature(index) },
            Opening::Tool { name, input } => Block::ToolUse { id: self.head.id.tool_use(index), name, input },
        });
    }

    pub(super) fn piece(&mut self, piece: &str) {
        self.output_bytes += piece.len();
        match self.content.last_mut() {
            Some(Block::Text { text }) => text.push_str(piece),
            Some(Block::Thinking { thinking, .. }) => thinking.push_str(piece),
            // The input of a tool is whole from the beginning.
            Some(Block::ToolUse { .. }) | None => {}
        }
    }

    pub(super) fn end(self, stop_reason: &'static str) -> Result<Bytes, serde_json::Error> {
        let message = self.head.message(&self.content, Some(stop_reason), self.output_bytes);
        serde_json::to_vec(&message).map(Bytes::from)
    }
}
