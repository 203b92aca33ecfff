//! The chunks of a streamed chat completion become the events of a streamed message.
//!
//! The translator keeps no text: a chunk goes out as it came in. What it holds is the half of an event whose end has
//! not arrived (bounded by the splitter) and a few numbers per tool call (bounded by [`super::blocks::MAX_CALLS`]).

use bytes::Bytes;
use hostler_redact::json_fault;

use super::answer::{Message, Stop, StreamEvent, Usage};
use super::blocks::Blocks;
use super::call_ids::CallIds;
use super::failure;
use super::finish::Finish;
use super::request::Expected;
use super::wire::{Choice, Completion, CompletionUsage};
use crate::error;
use crate::sse::EventSplitter;
use crate::upstream::UpstreamError;

/// One stream's translation, however its bytes are chunked.
pub(super) struct StreamTranslator {
    splitter: EventSplitter,
    message: MessageInMaking,
    state: State,
}

enum State {
    Running,
    /// Nothing more will come out.
    Over,
    /// To be told after what has been written.
    Failed(UpstreamError),
}

impl StreamTranslator {
    /// `id` is the new message's and `model` the one that was asked for.
    pub(super) fn new(id: String, model: String, expected: Expected) -> Self {
        let message = MessageInMaking {
            blocks: Blocks::new(CallIds::new(&id, expected.call_ids)),
            id,
            model,
            shows_reasoning: expected.reasoning,
            begun: false,
            has_refusal: false,
            finish: None,
            usage: CompletionUsage::default(),
        };
        Self { splitter: EventSplitter::default(), message, state: State::Running }
    }

    /// Takes the next bytes and gives the events that follow from them, often none.
    pub(super) fn push(&mut self, chunk: Bytes) -> Bytes {
        let Self { splitter, message, state } = self;
        let split = splitter.push(chunk, |event| {
            if matches!(state, State::Running) {
                *state = message.see(&event.data()).unwrap_or_else(State::Failed);
            }
        });
        if let (Err(error), State::Running) = (split, &*state) {
            *state = State::Failed(UpstreamError::Unintelligible { reason: error.to_string() });
        }
        self.message.blocks.take()
    }

    /// The upstream's bytes have ended. A message with a finish reason is whole, even if the last marker is missing.
    pub(super) fn end(&mut self) -> Bytes {
        if matches!(self.state, State::Running) {
            self.state = self.message.conclude().unwrap_or_else(State::Failed);
        }
        self.message.blocks.take()
    }

    /// The upstream's bytes have broken off: nothing more comes out.
    pub(super) fn give_up(&mut self) {
        self.state = State::Over;
    }

    /// Whether the stream is over; if it failed, why. The reason is given once.
    pub(super) fn outcome(&mut self) -> Option<Result<(), UpstreamError>> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Running => {
                self.state = State::Running;
                None
            }
            State::Over => Some(Ok(())),
            State::Failed(error) => Some(Err(error)),
        }
    }
}

struct MessageInMaking {
    id: String,
    model: String,
    shows_reasoning: bool,
    blocks: Blocks,
    begun: bool,
    has_refusal: bool,
    finish: Option<Finish>,
    usage: CompletionUsage,
}

impl MessageInMaking {
    /// The data of one event.
    fn see(&mut self, data: &[u8]) -> Result<State, UpstreamError> {
        match data.trim_ascii() {
            b"[DONE]" => return self.conclude(),
            // A comment that keeps the connection alive does so on our side too.
            b"" if self.begun => self.blocks.write(&StreamEvent::Ping)?,
            b"" => {}
            json => {
                let chunk: Completion<'_> = serde_json::from_slice(json).map_err(|error| {
                    let reason = format!("a chunk is no chat completion: {}", json_fault(&error));
                    UpstreamError::Unintelligible { reason }
                })?;
                return self.chunk(&chunk);
            }
        }
        Ok(State::Running)
    }

    fn chunk(&mut self, chunk: &Completion<'_>) -> Result<State, UpstreamError> {
        if let Some(error) = chunk.error {
            let told = failure::told(error);
            if !self.begun {
                return Err(told.into());
            }
            self.blocks.write_bytes(&error::event(told.kind, &told.message));
            return Ok(State::Over);
        }
        if !self.begun {
            self.begin(chunk.model.as_deref().filter(|model| !model.is_empty()))?;
        }
        if let Some(usage) = chunk.usage {
            self.usage = usage;
        }
        for choice in chunk.choices.iter().flatten().filter(|choice| choice.is_first()) {
            self.choice(choice)?;
        }
        Ok(State::Running)
    }

    fn begin(&mut self, model: Option<&str>) -> Result<(), UpstreamError> {
        self.begun = true;
        let message = Message {
            id: &self.id,
            role: "assistant",
            model: model.unwrap_or(&self.model),
            content: Vec::new(),
            stop: Stop::default(),
            usage: Usage::default(),
        };
        self.blocks.write(&StreamEvent::MessageStart { message })
    }

    fn choice(&mut self, choice: &Choice<'_>) -> Result<(), UpstreamError> {
        if let Some(said) = choice.said() {
            match said.reasoning() {
                Some(reasoning) if self.shows_reasoning => self.blocks.thinking(&reasoning)?,
                // The client must not take a long thought that it does not see for a dead connection.
                Some(_) => self.blocks.write(&StreamEvent::Ping)?,
                None => {}
            }
            if let Some(text) = said.text().map_err(|reason| UpstreamError::Unintelligible { reason })? {
                self.blocks.text(&text)?;
            }
            if let Some(refusal) = said.refusal() {
                self.has_refusal = true;
                self.blocks.text(&refusal)?;
            }
            for call in said.tool_calls.iter().flatten() {
                self.blocks.call(call)?;
            }
        }
        if let Some(finish) = Finish::of(choice) {
            self.finish = Some(finish);
        }
        Ok(())
    }

    /// The end of the message, if it has one.
    fn conclude(&mut self) -> Result<State, UpstreamError> {
        let finish = self.finish.take().ok_or_else(|| UpstreamError::BrokenOff {
            reason: "the stream ended without a finish_reason".to_owned(),
        })?;
        let is_cut = finish.is_cut();
        let stop = finish.stop(self.blocks.has_calls(), self.has_refusal)?;
        self.blocks.close(is_cut)?;
        self.blocks.write(&StreamEvent::MessageDelta { delta: stop, usage: Usage::from(self.usage) })?;
        self.blocks.write(&StreamEvent::MessageStop)?;
        Ok(State::Over)
    }
}
