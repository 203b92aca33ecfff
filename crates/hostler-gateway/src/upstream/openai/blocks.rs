//! Writes the content blocks of a streamed message.
//!
//! The Messages API numbers its blocks and clients expect one after the other. Chat completions number tool calls
//! only, and may go back and forth between them. So a call's block is closed when another block begins, provided that
//! its arguments are whole; one whose arguments are not stays open beside the others.

use bytes::{Bytes, BytesMut};

use super::answer::{Block, Delta, NoInput, StreamEvent};
use super::arguments::Arguments;
use super::call_ids::CallIds;
use super::wire::CallDelta;
use crate::sse;
use crate::upstream::UpstreamError;

/// More tool calls in one message are not served.
pub(super) const MAX_CALLS: usize = 1024;
/// White space before a text is held back up to this length.
const MAX_SPACE: usize = 1024;

pub(super) struct Blocks {
    out: BytesMut,
    ids: CallIds,
    next: usize,
    /// The text or thinking that is being written.
    prose: Option<(Prose, usize)>,
    /// White space that no text has followed yet: a message has no blank texts.
    space: String,
    calls: Vec<Call>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prose {
    Text,
    Thinking,
}

struct Call {
    /// The server's number and id for it.
    number: Option<u64>,
    given_id: String,
    arguments: Arguments,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Its name has not come.
    Announced,
    /// Its block is being written.
    Open(usize),
    Closed,
}

impl Blocks {
    pub(super) fn new(ids: CallIds) -> Self {
        Self { out: BytesMut::new(), ids, next: 0, prose: None, space: String::new(), calls: Vec::new() }
    }

    /// What has been written since the last time.
    pub(super) fn take(&mut self) -> Bytes {
        self.out.split().freeze()
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(super) fn write(&mut self, event: &StreamEvent<'_>) -> Result<(), UpstreamError> {
        let json = serde_json::to_vec(event)
            .map_err(|error| UpstreamError::Internal { reason: format!("an event could not be written: {error}") })?;
        self.write_bytes(&sse::frame(event.name(), &json));
        Ok(())
    }

    pub(super) fn write_bytes(&mut self, event: &[u8]) {
        self.out.extend_from_slice(event);
    }

    pub(super) fn thinking(&mut self, piece: &str) -> Result<(), UpstreamError> {
        self.prose(Prose::Thinking, piece)
    }

    pub(super) fn text(&mut self, piece: &str) -> Result<(), UpstreamError> {
        if self.prose.is_some_and(|(prose, _)| prose == Prose::Text) {
            return self.prose(Prose::Text, piece);
        }
        self.space.push_str(piece);
        if piece.trim().is_empty() && self.space.len() <= MAX_SPACE {
            return Ok(());
        }
        let piece = std::mem::take(&mut self.space);
        self.prose(Prose::Text, &piece)
    }

    fn prose(&mut self, prose: Prose, piece: &str) -> Result<(), UpstreamError> {
        let index = match self.prose {
            Some((open, index)) if open == prose => index,
            _ => {
                self.close_whole()?;
                let content_block = match prose {
                    Prose::Text => Block::Text { text: "" },
                    Prose::Thinking => Block::Thinking { thinking: "", signature: "" },
                };
                let index = self.open(content_block)?;
                self.prose = Some((prose, index));
                index
            }
        };
        let delta = match prose {
            Prose::Text => Delta::Text { text: piece },
            Prose::Thinking => Delta::Thinking { thinking: piece },
        };
        self.write(&StreamEvent::ContentBlockDelta { index, delta })
    }

    /// A tool call or a piece of one.
    pub(super) fn call(&mut self, piece: &CallDelta<'_>) -> Result<(), UpstreamError> {
        let at = match self.known(piece) {
            Some(at) => at,
            None => self.announce(piece)?,
        };
        let arguments = piece.arguments();
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        if call.progress == Progress::Announced && !piece.name().is_empty() {
            let given_id = call.given_id.clone();
            self.close_whole()?;
            let id = self.ids.choose(&given_id);
            let index = self.open(Block::ToolUseStart { id: &id, name: piece.name(), input: NoInput {} })?;
            if let Some(call) = self.calls.get_mut(at) {
                call.progress = Progress::Open(index);
            }
        }
        if arguments.is_empty() {
            return Ok(());
        }
        self.arguments(at, &arguments)
    }

    fn arguments(&mut self, at: usize, piece: &str) -> Result<(), UpstreamError> {
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        call.arguments.push(piece).map_err(|_| unintelligible("the arguments of a tool call are not a JSON object"))?;
        match call.progress {
            Progress::Announced => Err(unintelligible("a tool call has arguments before it has a name")),
            // Only white space can still come, or the push above had failed.
            Progress::Closed => Ok(()),
            Progress::Open(index) => {
                self.close_prose()?;
                self.write(&StreamEvent::ContentBlockDelta { index, delta: Delta::InputJson { partial_json: piece } })
            }
        }
    }

    /// The call that a piece belongs to. Servers number calls, but some give all of them the same number and some give
    /// none, and then a new name begins a new call.
    fn known(&self, piece: &CallDelta<'_>) -> Option<usize> {
        let at = match piece.index {
            Some(number) => self.calls.iter().rposition(|call| call.number == Some(number))?,
            None => self.calls.len().checked_sub(1)?,
        };
        let call = self.calls.get(at)?;
        if piece.name().is_empty() || call.progress == Progress::Announced {
            return Some(at);
        }
        let is_another = if piece.id().is_empty() || call.given_id.is_empty() {
            call.arguments == Arguments::Complete && !piece.arguments().trim().is_empty()
        } else {
            piece.id() != call.given_id
        };
        (!is_another).then_some(at)
    }

    fn announce(&mut self, piece: &CallDelta<'_>) -> Result<usize, UpstreamError> {
        if self.calls.len() >= MAX_CALLS {
            return Err(unintelligible("it calls more than 1024 tools at once"));
        }
        self.calls.push(Call {
            number: piece.index,
            given_id: piece.id().to_owned(),
            arguments: Arguments::default(),
            progress: Progress::Announced,
        });
        Ok(self.calls.len() - 1)
    }

    fn open(&mut self, content_block: Block<'_>) -> Result<usize, UpstreamError> {
        let index = self.next;
        self.next += 1;
        self.write(&StreamEvent::ContentBlockStart { index, content_block })?;
        Ok(index)
    }

    fn close_prose(&mut self) -> Result<(), UpstreamError> {
        self.space.clear();
        match self.prose.take() {
            Some((_, index)) => self.write(&StreamEvent::ContentBlockStop { index }),
            None => Ok(()),
        }
    }

    /// Closes the blocks that nothing can be added to.
    fn close_whole(&mut self) -> Result<(), UpstreamError> {
        self.close_prose()?;
        self.close_calls(|arguments| arguments == Arguments::Complete)
    }

    /// Closes all blocks at the end of the message. Arguments may be cut where the message itself is.
    pub(super) fn close(&mut self, is_cut: bool) -> Result<(), UpstreamError> {
        let is_whole = |call: &Call| {
            call.progress != Progress::Announced && matches!(call.arguments, Arguments::Empty | Arguments::Complete)
        };
        if !is_cut && !self.calls.iter().all(is_whole) {
            return Err(UpstreamError::BrokenOff {
                reason: "the stream ended in the middle of a tool call".to_owned(),
            });
        }
        self.close_prose()?;
        self.close_calls(|_| true)
    }

    fn close_calls(&mut self, which: impl Fn(Arguments) -> bool) -> Result<(), UpstreamError> {
        let mut closed = Vec::new();
        for call in &mut self.calls {
            if let Progress::Open(index) = call.progress
                && which(call.arguments)
            {
                call.progress = Progress::Closed;
                closed.push(index);
            }
        }
        closed.into_iter().try_for_each(|index| self.write(&StreamEvent::ContentBlockStop { index }))
    }
}

fn unintelligible(reason: &str) -> UpstreamError {
    UpstreamError::Unintelligible { reason: reason.to_owned() }
}
