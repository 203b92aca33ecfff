//! Translates the chunks of a streamed chat completion into the events of a streamed message.
//!
//! The translator stores no text: each chunk is translated as it arrives. Its state is an incomplete event (limited by
//! the splitter) and a few numbers per tool call (limited by
//! [`MAX_TOOL_CALLS`](crate::content_block_writer::MAX_TOOL_CALLS)).

use bytes::Bytes;
use hostler_gateway::UpstreamError;
use hostler_gateway::upstream_support::{SseEventSplitter, error_event};
use hostler_redact::redact_json_error;

use crate::chat_completions::{Completion, CompletionChoice, CompletionError, CompletionUsage};
use crate::content_block_writer::ContentBlockWriter;
use crate::finish_reason::FinishReason;
use crate::messages_response::{MessageResponse, MessageStreamEvent, MessageUsage, StopFields};
use crate::request::ResponseContext;
use crate::server_error;
use crate::tool_call_ids::ToolCallIds;

/// Translates one stream, in any chunking.
pub(super) struct StreamTranslator {
    splitter: SseEventSplitter,
    message: StreamedMessage,
    state: State,
}

enum State {
    Running,
    /// There is no further output.
    Finished,
    /// The failure to report after the output so far.
    Failed(UpstreamError),
}

impl StreamTranslator {
    /// `id` is the id of the new message and `model` the requested model.
    pub(super) fn new(id: String, model: String, expected: ResponseContext) -> Self {
        let message = StreamedMessage {
            blocks: ContentBlockWriter::new(ToolCallIds::new(&id, expected.call_ids)),
            id,
            model,
            include_reasoning: expected.include_reasoning,
            has_begun: false,
            has_refusal: false,
            finish: None,
            usage: CompletionUsage::default(),
        };
        Self { splitter: SseEventSplitter::default(), message, state: State::Running }
    }

    /// Takes the next bytes and returns the resulting events, often none.
    pub(super) fn push(&mut self, chunk: Bytes) -> Bytes {
        let Self { splitter, message, state } = self;
        let split = splitter.push(chunk, |event| {
            if matches!(state, State::Running) {
                *state = message.handle_event(&event.data()).unwrap_or_else(State::Failed);
            }
        });
        if let (Err(error), State::Running) = (split, &*state) {
            *state = State::Failed(UpstreamError::InvalidResponse { reason: error.to_string() });
        }
        self.message.blocks.take_output()
    }

    /// Handles the end of the upstream's bytes. A message with a finish reason is complete, even without the last
    /// marker.
    pub(super) fn finish(&mut self) -> Bytes {
        if matches!(self.state, State::Running) {
            self.state = self.message.finish().unwrap_or_else(State::Failed);
        }
        self.message.blocks.take_output()
    }

    /// Stops the output after the upstream's bytes were interrupted.
    pub(super) fn abort(&mut self) {
        self.state = State::Finished;
    }

    /// Whether the stream has ended, with the failure if there is one. The failure is returned once.
    pub(super) fn take_outcome(&mut self) -> Option<Result<(), UpstreamError>> {
        match std::mem::replace(&mut self.state, State::Finished) {
            State::Running => {
                self.state = State::Running;
                None
            }
            State::Finished => Some(Ok(())),
            State::Failed(error) => Some(Err(error)),
        }
    }
}

struct StreamedMessage {
    id: String,
    model: String,
    include_reasoning: bool,
    blocks: ContentBlockWriter,
    has_begun: bool,
    has_refusal: bool,
    finish: Option<FinishReason>,
    usage: CompletionUsage,
}

impl StreamedMessage {
    /// Translates the data of one event.
    fn handle_event(&mut self, data: &[u8]) -> Result<State, UpstreamError> {
        match data.trim_ascii() {
            b"[DONE]" => return self.finish(),
            // A ping, so that the client's connection stays open as well.
            b"" if self.has_begun => self.blocks.write(&MessageStreamEvent::Ping)?,
            b"" => {}
            json => {
                let chunk: Completion<'_> = serde_json::from_slice(json)
                    .map_err(|error| CompletionError::Malformed { reason: redact_json_error(&error) })?;
                return self.handle_chunk(&chunk);
            }
        }
        Ok(State::Running)
    }

    fn handle_chunk(&mut self, chunk: &Completion<'_>) -> Result<State, UpstreamError> {
        if let Some(error) = chunk.error {
            let error = server_error::parse_server_error(error);
            if !self.has_begun {
                return Err(error.into());
            }
            self.blocks.write_bytes(&error_event(error.kind, &error.message));
            return Ok(State::Finished);
        }
        if !self.has_begun {
            self.begin(chunk.model.as_deref().filter(|model| !model.is_empty()))?;
        }
        if let Some(usage) = chunk.usage {
            self.usage = usage;
        }
        for choice in chunk.choices.iter().flatten().filter(|choice| choice.is_first()) {
            self.handle_choice(choice)?;
        }
        Ok(State::Running)
    }

    fn begin(&mut self, model: Option<&str>) -> Result<(), UpstreamError> {
        self.has_begun = true;
        let message = MessageResponse {
            id: &self.id,
            role: "assistant",
            model: model.unwrap_or(&self.model),
            content: Vec::new(),
            stop: StopFields::default(),
            usage: MessageUsage::default(),
        };
        self.blocks.write(&MessageStreamEvent::MessageStart { message })
    }

    fn handle_choice(&mut self, choice: &CompletionChoice<'_>) -> Result<(), UpstreamError> {
        if let Some(delta) = choice.message_or_delta() {
            match delta.reasoning() {
                Some(reasoning) if self.include_reasoning => self.blocks.write_thinking(&reasoning)?,
                // A ping, so that the client does not take a long reasoning that it does not receive for a dead
                // connection.
                Some(_) => self.blocks.write(&MessageStreamEvent::Ping)?,
                None => {}
            }
            if let Some(text) = delta.text()? {
                self.blocks.write_text(&text)?;
            }
            if let Some(refusal) = delta.refusal() {
                self.has_refusal = true;
                self.blocks.write_text(&refusal)?;
            }
            for call in delta.tool_calls.iter().flatten() {
                self.blocks.write_call(call)?;
            }
        }
        if let Some(finish) = FinishReason::from_choice(choice) {
            self.finish = Some(finish);
        }
        Ok(())
    }

    /// Ends the message if it has a finish reason.
    fn finish(&mut self) -> Result<State, UpstreamError> {
        let finish = self.finish.take().ok_or_else(|| UpstreamError::Interrupted {
            reason: "the stream ended without a finish_reason".to_owned(),
        })?;
        let is_cut = finish.is_truncated();
        let stop = finish.into_stop_fields(self.blocks.has_calls(), self.has_refusal)?;
        self.blocks.close_all(is_cut)?;
        self.blocks.write(&MessageStreamEvent::MessageDelta { delta: stop, usage: MessageUsage::from(self.usage) })?;
        self.blocks.write(&MessageStreamEvent::MessageStop)?;
        Ok(State::Finished)
    }
}
