//! From the agent's messages to [`DriverEvent`]s: a state machine without I/O, clock or channel.
//!
//! Rules that it keeps:
//! * a part starts before its deltas, a tool call before everything about it, usage comes before the turn's end;
//! * a whole assistant block adds exactly what was not streamed under the same message id and block;
//! * a turn begins before and ends after everything in it, and no tool call stays open behind its end;
//! * `is_error` decides whether a turn failed, not the result's subtype.
//!
//! **Architecture Invariant:** nothing here knows of processes, request ids or files.

mod background;
mod causes;
mod compaction;
mod edit;
mod host;
mod outcome;
mod resume;
mod steering;
mod streamed;
mod sub_agents;
mod system;
mod tools;
mod usage;

use std::path::{Path, PathBuf};

use hostler_driver::{DriverEvent, PartId, PartKind, TokenUsage, ToolOutcome, TurnCause};

use crate::display;
use crate::wire::{
    AssistantMessage, Block, BlockDelta, BlockStart, Content, StreamEvent, StreamLine, TurnResult, UserMessage,
    WireMessage,
};

use self::background::Background;
use self::causes::Causes;
use self::compaction::Compaction;
use self::resume::Resume;
use self::steering::Steering;
use self::streamed::{Missing, Streamed, StreamedKind};
use self::sub_agents::SubAgents;
use self::tools::Tools;
use self::usage::{Meter, TurnUsage};

/// Said when a stream was cut and the agent begins its answer again.
pub const CUT_NOTICE: &str = "The connection to the model was cut; the agent starts its answer again.";

/// Turns one conversation's messages into events.
#[derive(Debug, Default)]
pub struct Mapper {
    /// What paths are shown relative to.
    directory: PathBuf,
    turn: Option<Turn>,
    streamed: Streamed,
    tools: Tools,
    resume: Resume,
    steering: Steering,
    /// The model's answer that is being told.
    answer: Option<String>,
    meter: Meter,
    /// Changes of the model that the agent was told and will repeat as a command's output.
    model_changes: u32,
    causes: Causes,
    compaction: Compaction,
    background: Background,
    sub_agents: SubAgents,
    parts: u64,
    skipped: Skipped,
}

/// What was read and not shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Messages of a type or shape that we do not know.
    pub unknown: u64,
    /// Messages of sub-agents that never started.
    pub sub_agent: u64,
    /// Tool results without a call, deltas without a block.
    pub orphaned: u64,
}

/// What is known about the running turn.
#[derive(Debug, Default)]
struct Turn {
    /// Whether it has shown anything.
    produced: bool,
    /// What the agent said of a call of the model that failed. If it is the turn's end, the end says it.
    failure: Option<String>,
    usage: TurnUsage,
}

type Events = Vec<DriverEvent>;

impl Mapper {
    /// A mapper for a new connection, whose agent works in this directory.
    pub fn in_directory(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), ..Self::default() }
    }

    /// What was skipped so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// What a message means.
    pub fn on_message(&mut self, message: &WireMessage<'_>) -> Vec<DriverEvent> {
        let mut out = Events::new();
        match message {
            // Their blocks come whole.
            WireMessage::Stream(StreamLine { sub_agent: true, .. }) => self.skipped.sub_agent += 1,
            WireMessage::Assistant(message @ AssistantMessage { parent: Some(call), .. }) => {
                self.on_sub_assistant(call, message, &mut out);
            }
            WireMessage::User(message @ UserMessage { parent: Some(call), .. }) => {
                self.on_sub_user(call, message, &mut out);
            }
            WireMessage::Stream(line) => self.on_stream(&line.event, &mut out),
            WireMessage::Assistant(message) => self.on_assistant(message, &mut out),
            WireMessage::User(message) => self.on_user(message, &mut out),
            WireMessage::Result(result) => self.on_result(result, &mut out),
            WireMessage::System(message) => self.on_system(message, &mut out),
            WireMessage::Lifecycle(news) => {
                self.causes.on_lifecycle(news);
                out.extend(self.steering.on_lifecycle(news));
            }
            WireMessage::Unknown { .. } => self.skipped.unknown += 1,
            WireMessage::ControlRequest(_)
            | WireMessage::ControlResponse(_)
            | WireMessage::ControlCancel { .. }
            | WireMessage::Named(_) => {}
        }
        out
    }

    fn on_stream(&mut self, event: &StreamEvent<'_>, out: &mut Events) {
        self.went_on(out);
        match event {
            StreamEvent::BlockDelta { index, delta } => self.on_delta(*index, delta, out),
            StreamEvent::MessageStart { id, model, usage } => {
                self.cut_unless(None, out);
                self.answer_started(id, out);
                let turn = self.turn(out);
                turn.usage.message_started(*usage, model.as_deref());
                self.streamed.message_started(id);
            }
            StreamEvent::BlockStart { index, block } => {
                self.turn(out);
                match block {
                    BlockStart::Text(text) => {
                        self.streamed.block_started(*index, StreamedKind::Part(PartKind::Text));
                        self.grow(*index, PartKind::Text, text, out);
                    }
                    BlockStart::Thinking(text) => {
                        self.streamed.block_started(*index, StreamedKind::Part(PartKind::Reasoning));
                        self.grow(*index, PartKind::Reasoning, text, out);
                    }
                    BlockStart::ToolUse { id, name } => {
                        self.streamed.block_started(*index, StreamedKind::Tool(id.to_string()));
                        self.tool_started(id, name, out);
                    }
                    BlockStart::Other => {}
                }
            }
            StreamEvent::MessageDelta { usage } => {
                self.turn(out).usage.message_counted(*usage);
                if let Some(turn) = &self.turn {
                    let context = self.meter.context(&turn.usage);
                    out.push(DriverEvent::Usage(TokenUsage { context, ..turn.usage.so_far() }));
                }
            }
            StreamEvent::BlockStop { .. } | StreamEvent::MessageStop | StreamEvent::Ping => {}
        }
    }

    fn on_delta(&mut self, index: usize, delta: &BlockDelta<'_>, out: &mut Events) {
        match delta {
            BlockDelta::Text(text) => self.grow(index, PartKind::Text, text, out),
            BlockDelta::Thinking(text) => self.grow(index, PartKind::Reasoning, text, out),
            BlockDelta::InputJson(json) => match self.streamed.tool_at(index) {
                Some(id) if self.tools.is_open(id) && !json.is_empty() => {
                    out.push(DriverEvent::ToolInputDelta { id: id.to_owned(), json: json.to_string() });
                }
                Some(_) => {}
                None => self.skipped.orphaned += 1,
            },
            BlockDelta::Other => {}
        }
    }

    /// Appends streamed text. A part begins with its first text, so that empty blocks show nothing.
    fn grow(&mut self, index: usize, kind: PartKind, text: &str, out: &mut Events) {
        if text.is_empty() {
            return;
        }
        match self.streamed.grow(index, kind, text) {
            None => self.skipped.orphaned += 1,
            Some(slot) => {
                let part = *slot.get_or_insert_with(|| {
                    self.parts += 1;
                    let part = PartId(self.parts);
                    out.push(DriverEvent::PartStarted { part, kind });
                    part
                });
                out.push(DriverEvent::Delta { part, text: text.to_owned() });
                self.turn(out).produced = true;
            }
        }
    }

    /// The turn did not end with the failure that was told last.
    fn went_on(&mut self, out: &mut Events) {
        if let Some(failure) = self.turn.as_mut().and_then(|turn| turn.failure.take()) {
            self.show(PartKind::Text, &failure, out);
        }
    }

    fn on_assistant(&mut self, message: &AssistantMessage<'_>, out: &mut Events) {
        self.went_on(out);
        self.cut_unless(Some(&message.id), out);
        if message.failed {
            self.turn(out).failure = Some(message.text());
            return;
        }
        if !message.is_synthetic() {
            self.answer_started(&message.id, out);
        }
        let turn = self.turn(out);
        turn.usage.answered_by(message.model.as_deref());
        for block in &message.blocks {
            match block {
                Block::Text(text) => self.on_whole_text(&message.id, PartKind::Text, text, out),
                Block::Thinking(text) => self.on_whole_text(&message.id, PartKind::Reasoning, text, out),
                Block::ToolUse { id, name, input } => {
                    self.streamed.tool_completed(&message.id, id);
                    self.tool_started(id, name, out);
                    if self.tools.ready(id) {
                        let display = display::display(name, Some(input), &self.directory);
                        let input = (*input).to_owned().into();
                        out.push(DriverEvent::ToolReady { id: id.to_string(), input, display });
                    }
                }
                Block::ToolResult { .. } | Block::Other => {}
            }
        }
    }

    fn on_whole_text(&mut self, message: &str, kind: PartKind, whole: &str, out: &mut Events) {
        match self.streamed.completed(message, kind, whole) {
            Missing::Nothing => {}
            Missing::Rest { part, text } => out.push(DriverEvent::Delta { part, text: text.to_owned() }),
            Missing::Everything => self.show(kind, whole, out),
        }
    }

    fn on_user(&mut self, message: &UserMessage<'_>, out: &mut Events) {
        for meta in &message.tool_results {
            if let (true, Some(id)) = (meta.rejected(), &meta.id) {
                self.tools.deny(id);
            }
        }
        match &message.content {
            Content::Plain(text) => {
                let repeated = |output: &&str| self.compaction.says_the_same(output) || self.is_model_change(output);
                let output = local_command_output(text).filter(|output| !repeated(output));
                if let Some(output) = output {
                    self.notice(output, out);
                }
            }
            Content::Blocks(blocks) => {
                if let Some(result) = message.tool_use_result {
                    let goes_on = self.background.returned(result);
                    self.sub_agents.go_on(goes_on.as_slice());
                    out.extend(goes_on);
                    self.agent_returned(result, out);
                }
                let mut edit = message.tool_use_result.and_then(edit::of);
                for block in blocks {
                    if let Block::ToolResult { id, is_error, content } = block {
                        if message.refused {
                            self.tools.deny(id);
                        }
                        let edit = edit.take().filter(|_| !is_error);
                        if *is_error {
                            self.call_failed(id, tools::sentence(&Block::tool_output(*content)), out);
                        }
                        let output = Block::tool_output(*content);
                        self.background.told(&output);
                        match self.tools.finish(id, *is_error, output, edit) {
                            Some(finished) => out.push(finished),
                            None => self.skipped.orphaned += 1,
                        }
                    }
                }
            }
        }
    }

    fn on_result(&mut self, result: &TurnResult<'_>, out: &mut Events) {
        if let Some(turn) = &mut self.turn
            && result.is_error
            && turn.failure.as_deref() == result.result.as_deref()
        {
            turn.failure = None;
        }
        self.went_on(out);
        let produced = self.turn(out).produced;
        // Some local commands answer in the result alone.
        if let (false, false, Some(text)) =
            (produced, result.is_error, result.result.as_deref().filter(|t| !t.is_empty()))
        {
            self.show(PartKind::Text, text, out);
        }
        for denial in result.permission_denials.iter().flatten() {
            if let Some(id) = &denial.tool_use_id {
                self.tools.deny(id);
            }
        }
        self.sub_agents_of_turn_over(out);
        out.extend(self.tools.finish_all("The turn ended before the call was finished."));
        out.extend(self.compaction.turn_ended());
        let turn = self.turn.take().unwrap_or_default();
        let (context, cost) = (self.meter.context(&turn.usage), self.meter.cost(result));
        out.push(DriverEvent::Usage(TokenUsage { context, cost, ..turn.usage.at_the_end(result) }));
        self.causes.answered(result.user_message_uuids.as_deref());
        self.resume.session_named(result.session_id.as_deref());
        out.extend(self.resume.at_end());
        out.extend(self.steering.turn_over());
        out.push(DriverEvent::TurnEnded(outcome::of(result, turn.produced)));
        self.answer = None;
        self.streamed = Streamed::default();
        self.tools = Tools::default();
    }

    /// The running turn; begins one if the agent speaks without having said so.
    fn turn(&mut self, out: &mut Events) -> &mut Turn {
        if self.turn.is_none() {
            let cause = self.causes.begin(None);
            self.begin(cause, out);
        }
        self.turn.get_or_insert_default()
    }

    /// The model answers: said once per answer, whether it is streamed or not.
    fn answer_started(&mut self, id: &str, out: &mut Events) {
        self.turn(out);
        if self.answer.as_deref() != Some(id) {
            self.answer = Some(id.to_owned());
            out.extend(self.steering.answered());
            out.push(DriverEvent::MessageStarted);
        }
    }

    fn begin(&mut self, cause: TurnCause, out: &mut Events) {
        self.turn = Some(Turn::default());
        out.push(DriverEvent::TurnBegan(cause));
    }

    /// Says so if the answer that was being streamed is abandoned for another message.
    fn cut_unless(&mut self, same_message: Option<&str>, out: &mut Events) {
        let Some(cut) = self.streamed.abandon_unless(same_message) else {
            return;
        };
        for id in cut.tools {
            out.extend(self.tools.finish_with(
                &id,
                ToolOutcome::Failed,
                "The call was cut off before it was complete.".to_owned(),
            ));
        }
        if cut.shown {
            self.notice(CUT_NOTICE, out);
        }
    }

    fn tool_started(&mut self, id: &str, name: &str, out: &mut Events) {
        if self.tools.start(id) {
            let display = display::display(name, None, &self.directory);
            out.push(DriverEvent::ToolStarted { id: id.to_owned(), name: name.to_owned(), display });
            self.turn(out).produced = true;
        }
    }

    /// A part of its own.
    fn show(&mut self, kind: PartKind, text: &str, out: &mut Events) {
        if text.is_empty() {
            return;
        }
        self.parts += 1;
        let part = PartId(self.parts);
        out.push(DriverEvent::PartStarted { part, kind });
        out.push(DriverEvent::Delta { part, text: text.to_owned() });
        self.turn(out).produced = true;
    }

    /// A notice belongs to a turn; outside of one there is nobody to tell.
    fn notice(&mut self, text: &str, out: &mut Events) {
        if let Some(turn) = &mut self.turn {
            turn.produced = true;
            out.push(DriverEvent::Notice(text.to_owned()));
        }
    }
}

/// What a command of the agent's own printed, if that is what the text is.
pub(crate) fn local_command_output(text: &str) -> Option<&str> {
    let inner = |tag: &str| {
        let rest = text.trim().strip_prefix('<')?.strip_prefix(tag)?.strip_prefix('>')?;
        rest.strip_suffix('>')?.strip_suffix(tag)?.strip_suffix("</")
    };
    let inner = inner("local-command-stdout").or_else(|| inner("local-command-stderr"))?.trim();
    (!inner.is_empty()).then_some(inner)
}
