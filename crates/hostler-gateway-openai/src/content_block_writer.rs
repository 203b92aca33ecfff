//! Writes the content blocks of a streamed message.
//!
//! The Messages API numbers its blocks, and clients expect them one after the other. Chat completions number only tool
//! calls, and may alternate between them. So a call's block is closed when another block starts, if its arguments are
//! complete; otherwise it stays open beside the others.

use bytes::{Bytes, BytesMut};
use hostler_gateway::UpstreamError;
use hostler_gateway::upstream_support::encode_event;

use crate::arguments_scanner::ArgumentsScanner;
use crate::chat_completions::{CompletionError, ToolCallDelta};
use crate::messages_response::{ContentBlock, ContentDelta, EmptyInput, MessageStreamEvent};
use crate::tool_call_ids::ToolCallIds;

/// Maximum number of tool calls in one message.
pub(super) const MAX_TOOL_CALLS: usize = 1024;
/// Maximum length of white space that is held back before a text.
const MAX_LEADING_SPACE_BYTES: usize = 1024;

pub(super) struct ContentBlockWriter {
    output: BytesMut,
    ids: ToolCallIds,
    next_index: usize,
    /// The open text or thinking block.
    open_text: Option<(TextKind, usize)>,
    /// White space without following text, held back because a message contains no blank texts.
    leading_space: String,
    calls: Vec<ToolCallState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextKind {
    Text,
    Thinking,
}

struct ToolCallState {
    /// The server's index and id of the call.
    index: Option<u64>,
    server_id: String,
    arguments: ArgumentsScanner,
    progress: CallProgress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallProgress {
    /// Its name has not arrived.
    Announced,
    /// Its block is open.
    Open(usize),
    Closed,
}

impl ContentBlockWriter {
    pub(super) fn new(ids: ToolCallIds) -> Self {
        Self {
            output: BytesMut::new(),
            ids,
            next_index: 0,
            open_text: None,
            leading_space: String::new(),
            calls: Vec::new(),
        }
    }

    /// Takes the output since the last call.
    pub(super) fn take_output(&mut self) -> Bytes {
        self.output.split().freeze()
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(super) fn write(&mut self, event: &MessageStreamEvent<'_>) -> Result<(), UpstreamError> {
        let json = serde_json::to_vec(event)
            .map_err(|error| UpstreamError::Internal { reason: format!("failed to serialize an event: {error}") })?;
        self.write_bytes(&encode_event(event.name(), &json));
        Ok(())
    }

    pub(super) fn write_bytes(&mut self, event: &[u8]) {
        self.output.extend_from_slice(event);
    }

    pub(super) fn write_thinking(&mut self, piece: &str) -> Result<(), UpstreamError> {
        self.write_text_delta(TextKind::Thinking, piece)
    }

    pub(super) fn write_text(&mut self, piece: &str) -> Result<(), UpstreamError> {
        if self.open_text.is_some_and(|(prose, _)| prose == TextKind::Text) {
            return self.write_text_delta(TextKind::Text, piece);
        }
        self.leading_space.push_str(piece);
        if piece.trim().is_empty() && self.leading_space.len() <= MAX_LEADING_SPACE_BYTES {
            return Ok(());
        }
        let piece = std::mem::take(&mut self.leading_space);
        self.write_text_delta(TextKind::Text, &piece)
    }

    fn write_text_delta(&mut self, prose: TextKind, piece: &str) -> Result<(), UpstreamError> {
        let index = match self.open_text {
            Some((open, index)) if open == prose => index,
            _ => {
                self.close_complete()?;
                let content_block = match prose {
                    TextKind::Text => ContentBlock::Text { text: "" },
                    TextKind::Thinking => ContentBlock::Thinking { thinking: "", signature: "" },
                };
                let index = self.open_block(content_block)?;
                self.open_text = Some((prose, index));
                index
            }
        };
        let delta = match prose {
            TextKind::Text => ContentDelta::Text { text: piece },
            TextKind::Thinking => ContentDelta::Thinking { thinking: piece },
        };
        self.write(&MessageStreamEvent::ContentBlockDelta { index, delta })
    }

    /// Writes a tool call or a part of one.
    pub(super) fn write_call(&mut self, piece: &ToolCallDelta<'_>) -> Result<(), UpstreamError> {
        let at = match self.find_call(piece) {
            Some(at) => at,
            None => self.add_call(piece)?,
        };
        let arguments = piece.arguments();
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        if call.progress == CallProgress::Announced && !piece.name().is_empty() {
            let given_id = call.server_id.clone();
            self.close_complete()?;
            let id = self.ids.choose(&given_id);
            let index =
                self.open_block(ContentBlock::ToolUseStart { id: &id, name: piece.name(), input: EmptyInput {} })?;
            if let Some(call) = self.calls.get_mut(at) {
                call.progress = CallProgress::Open(index);
            }
        }
        if arguments.is_empty() {
            return Ok(());
        }
        self.write_arguments(at, &arguments)
    }

    fn write_arguments(&mut self, at: usize, piece: &str) -> Result<(), UpstreamError> {
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        call.arguments.push(piece).map_err(|_| CompletionError::InvalidStreamedArguments)?;
        match call.progress {
            CallProgress::Announced => Err(CompletionError::ArgumentsBeforeName.into()),
            // Only white space can follow, otherwise the push above fails.
            CallProgress::Closed => Ok(()),
            CallProgress::Open(index) => {
                self.close_text()?;
                self.write(&MessageStreamEvent::ContentBlockDelta {
                    index,
                    delta: ContentDelta::InputJson { partial_json: piece },
                })
            }
        }
    }

    /// Finds the call that a piece belongs to. Servers number calls, but some use the same number for all of them and
    /// some use none; then a new name starts a new call.
    fn find_call(&self, piece: &ToolCallDelta<'_>) -> Option<usize> {
        let at = match piece.index {
            Some(number) => self.calls.iter().rposition(|call| call.index == Some(number))?,
            None => self.calls.len().checked_sub(1)?,
        };
        let call = self.calls.get(at)?;
        if piece.name().is_empty() || call.progress == CallProgress::Announced {
            return Some(at);
        }
        let is_another = if piece.id().is_empty() || call.server_id.is_empty() {
            call.arguments == ArgumentsScanner::Complete && !piece.arguments().trim().is_empty()
        } else {
            piece.id() != call.server_id
        };
        (!is_another).then_some(at)
    }

    fn add_call(&mut self, piece: &ToolCallDelta<'_>) -> Result<usize, UpstreamError> {
        if self.calls.len() >= MAX_TOOL_CALLS {
            return Err(CompletionError::TooManyToolCalls { most: MAX_TOOL_CALLS }.into());
        }
        self.calls.push(ToolCallState {
            index: piece.index,
            server_id: piece.id().to_owned(),
            arguments: ArgumentsScanner::default(),
            progress: CallProgress::Announced,
        });
        Ok(self.calls.len() - 1)
    }

    fn open_block(&mut self, content_block: ContentBlock<'_>) -> Result<usize, UpstreamError> {
        let index = self.next_index;
        self.next_index += 1;
        self.write(&MessageStreamEvent::ContentBlockStart { index, content_block })?;
        Ok(index)
    }

    fn close_text(&mut self) -> Result<(), UpstreamError> {
        self.leading_space.clear();
        match self.open_text.take() {
            Some((_, index)) => self.write(&MessageStreamEvent::ContentBlockStop { index }),
            None => Ok(()),
        }
    }

    /// Closes the blocks that are complete.
    fn close_complete(&mut self) -> Result<(), UpstreamError> {
        self.close_text()?;
        self.close_calls(|arguments| arguments == ArgumentsScanner::Complete)
    }

    /// Closes all blocks at the end of the message. Arguments may be incomplete only if the message is truncated.
    pub(super) fn close_all(&mut self, is_cut: bool) -> Result<(), UpstreamError> {
        let is_whole = |call: &ToolCallState| {
            call.progress != CallProgress::Announced
                && matches!(call.arguments, ArgumentsScanner::Empty | ArgumentsScanner::Complete)
        };
        if !is_cut && !self.calls.iter().all(is_whole) {
            return Err(UpstreamError::Interrupted {
                reason: "the stream ended in the middle of a tool call".to_owned(),
            });
        }
        self.close_text()?;
        self.close_calls(|_| true)
    }

    fn close_calls(&mut self, which: impl Fn(ArgumentsScanner) -> bool) -> Result<(), UpstreamError> {
        let mut closed = Vec::new();
        for call in &mut self.calls {
            if let CallProgress::Open(index) = call.progress
                && which(call.arguments)
            {
                call.progress = CallProgress::Closed;
                closed.push(index);
            }
        }
        closed.into_iter().try_for_each(|index| self.write(&MessageStreamEvent::ContentBlockStop { index }))
    }
}
