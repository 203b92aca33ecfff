//! Maps the agent's messages to [`DriverEvent`]s: a state machine without I/O, clock or channel.
//!
//! Guarantees:
//! * a part starts before its deltas, a tool call before everything about it, usage comes before the turn's end;
//! * a whole assistant block adds exactly what was not streamed under the same message id and block;
//! * a turn starts before and ends after everything in it, and no tool call stays open after its end;
//! * `is_error` decides whether a turn failed, not the result's subtype.
//!
//! **Architecture Invariant:** nothing here knows of processes, request ids or files.

mod background;
mod compaction;
mod file_edit;
mod host_actions;
mod resume_token;
mod steering;
mod stream_tracker;
mod sub_agents;
mod system_messages;
mod tool_calls;
mod turn_causes;
mod turn_outcome;
mod usage;

use std::path::{Path, PathBuf};

use hostler_driver::{DriverEvent, PartId, PartKind, TokenUsage, ToolOutcome, TurnCause};

use crate::tool_display;
use crate::wire::{
    AssistantMessage, BlockDelta, BlockStart, MessageBlock, MessageContent, ModelStreamEvent, StreamLine, TurnResult,
    UserMessage, WireMessage,
};

use self::background::BackgroundTasksState;
use self::compaction::CompactionTracker;
use self::resume_token::ResumeTracker;
use self::steering::SteeringQueue;
use self::stream_tracker::{StreamTracker, StreamedBlockKind, UnstreamedText};
use self::sub_agents::SubAgentTracker;
use self::tool_calls::ToolCallTracker;
use self::turn_causes::TurnCauses;
use self::usage::{TurnUsage, UsageMeter};

/// Emitted when a stream was cut and the agent starts its answer again.
pub const STREAM_INTERRUPTED_NOTICE: &str =
    "The connection to the model was interrupted. The agent is retrying its answer.";

/// Maps the messages of one conversation to events.
#[derive(Debug, Default)]
pub struct EventMapper {
    /// Paths are displayed relative to this directory.
    directory: PathBuf,
    turn: Option<MappedTurn>,
    streamed: StreamTracker,
    tools: ToolCallTracker,
    resume: ResumeTracker,
    steering: SteeringQueue,
    /// The model's answer that is being mapped.
    answer: Option<String>,
    meter: UsageMeter,
    /// Model changes that were sent and that the agent will echo as a command's output.
    pending_model_changes: u32,
    causes: TurnCauses,
    compaction: CompactionTracker,
    background: BackgroundTasksState,
    sub_agents: SubAgentTracker,
    last_part_id: u64,
    skipped: SkippedCounts,
}

/// Messages that were read and not mapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SkippedCounts {
    /// Messages of an unknown type or shape.
    pub unknown: u64,
    /// Messages of sub-agents that never started.
    pub sub_agent: u64,
    /// Tool results without a call, deltas without a block.
    pub orphaned: u64,
}

/// State of the running turn.
#[derive(Debug, Default)]
struct MappedTurn {
    /// Whether it has produced output.
    has_output: bool,
    /// The agent's text about a failed call of the model. If the turn ends with it, only the end reports it.
    failure: Option<String>,
    usage: TurnUsage,
}

type Events = Vec<DriverEvent>;

impl EventMapper {
    /// A mapper for a new connection, whose agent works in this directory.
    pub fn for_directory(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), ..Self::default() }
    }

    /// What was skipped so far.
    pub fn skipped(&self) -> SkippedCounts {
        self.skipped
    }

    /// Maps a message to events.
    pub fn on_message(&mut self, message: &WireMessage<'_>) -> Vec<DriverEvent> {
        let mut out = Events::new();
        match message {
            // Messages of sub-agents also arrive as whole blocks.
            WireMessage::Stream(StreamLine { is_sub_agent: true, .. }) => self.skipped.sub_agent += 1,
            WireMessage::Assistant(message @ AssistantMessage { parent_call_id: Some(call), .. }) => {
                self.on_sub_agent_message(call, message, &mut out);
            }
            WireMessage::User(message @ UserMessage { parent_call_id: Some(call), .. }) => {
                self.on_sub_agent_results(call, message, &mut out);
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
            | WireMessage::Ignored(_) => {}
        }
        out
    }

    fn on_stream(&mut self, event: &ModelStreamEvent<'_>, out: &mut Events) {
        self.flush_failure(out);
        match event {
            ModelStreamEvent::BlockDelta { index, delta } => self.on_delta(*index, delta, out),
            ModelStreamEvent::MessageStart { id, model, usage } => {
                self.abandon_stream_unless(None, out);
                self.start_answer(id, out);
                let turn = self.current_turn(out);
                turn.usage.start_message(*usage, model.as_deref());
                self.streamed.start_message(id);
            }
            ModelStreamEvent::BlockStart { index, block } => {
                self.current_turn(out);
                match block {
                    BlockStart::Text(text) => {
                        self.streamed.start_block(*index, StreamedBlockKind::Part(PartKind::Text));
                        self.append_text(*index, PartKind::Text, text, out);
                    }
                    BlockStart::Thinking(text) => {
                        self.streamed.start_block(*index, StreamedBlockKind::Part(PartKind::Reasoning));
                        self.append_text(*index, PartKind::Reasoning, text, out);
                    }
                    BlockStart::ToolUse { id, name } => {
                        self.streamed.start_block(*index, StreamedBlockKind::Tool(id.to_string()));
                        self.start_tool(id, name, out);
                    }
                    BlockStart::Other => {}
                }
            }
            ModelStreamEvent::MessageDelta { usage } => {
                self.current_turn(out).usage.update_counts(*usage);
                if let Some(turn) = &self.turn {
                    let context = self.meter.context(&turn.usage);
                    out.push(DriverEvent::Usage(TokenUsage { context_tokens: context, ..turn.usage.so_far() }));
                }
            }
            ModelStreamEvent::BlockStop { .. } | ModelStreamEvent::MessageStop | ModelStreamEvent::Ping => {}
        }
    }

    fn on_delta(&mut self, index: usize, delta: &BlockDelta<'_>, out: &mut Events) {
        match delta {
            BlockDelta::Text(text) => self.append_text(index, PartKind::Text, text, out),
            BlockDelta::Thinking(text) => self.append_text(index, PartKind::Reasoning, text, out),
            BlockDelta::InputJson(json) => match self.streamed.tool_at(index) {
                Some(id) if self.tools.is_streaming_input(id) && !json.is_empty() => {
                    out.push(DriverEvent::ToolInputDelta { id: id.to_owned(), json: json.to_string() });
                }
                Some(_) => {}
                None => self.skipped.orphaned += 1,
            },
            BlockDelta::Other => {}
        }
    }

    /// Appends streamed text. A part starts with its first text, so that empty blocks display nothing.
    fn append_text(&mut self, index: usize, kind: PartKind, text: &str, out: &mut Events) {
        if text.is_empty() {
            return;
        }
        match self.streamed.append(index, kind, text) {
            None => self.skipped.orphaned += 1,
            Some(slot) => {
                let part = *slot.get_or_insert_with(|| {
                    self.last_part_id += 1;
                    let part = PartId(self.last_part_id);
                    out.push(DriverEvent::PartStarted { part, kind });
                    part
                });
                out.push(DriverEvent::PartDelta { part, text: text.to_owned() });
                self.current_turn(out).has_output = true;
            }
        }
    }

    /// Emits the last reported failure, because the turn did not end with it.
    fn flush_failure(&mut self, out: &mut Events) {
        if let Some(failure) = self.turn.as_mut().and_then(|turn| turn.failure.take()) {
            self.emit_part(PartKind::Text, &failure, out);
        }
    }

    fn on_assistant(&mut self, message: &AssistantMessage<'_>, out: &mut Events) {
        self.flush_failure(out);
        self.abandon_stream_unless(Some(&message.id), out);
        if message.is_api_error {
            self.current_turn(out).failure = Some(message.text());
            return;
        }
        if !message.is_synthetic() {
            self.start_answer(&message.id, out);
        }
        let turn = self.current_turn(out);
        turn.usage.set_model(message.model.as_deref());
        for block in &message.blocks {
            match block {
                MessageBlock::Text(text) => self.on_whole_text(&message.id, PartKind::Text, text, out),
                MessageBlock::Thinking(text) => self.on_whole_text(&message.id, PartKind::Reasoning, text, out),
                MessageBlock::ToolUse { id, name, input } => {
                    self.streamed.complete_tool(&message.id, id);
                    self.start_tool(id, name, out);
                    if self.tools.mark_ready(id) {
                        let display = tool_display::display_tool_call(name, Some(input), &self.directory);
                        let input = (*input).to_owned().into();
                        out.push(DriverEvent::ToolReady { id: id.to_string(), input, display });
                    }
                }
                MessageBlock::ToolResult { .. } | MessageBlock::Other => {}
            }
        }
    }

    fn on_whole_text(&mut self, message: &str, kind: PartKind, whole: &str, out: &mut Events) {
        match self.streamed.complete_text(message, kind, whole) {
            UnstreamedText::None => {}
            UnstreamedText::Rest { part, text } => out.push(DriverEvent::PartDelta { part, text: text.to_owned() }),
            UnstreamedText::All => self.emit_part(kind, whole, out),
        }
    }

    fn on_user(&mut self, message: &UserMessage<'_>, out: &mut Events) {
        for meta in &message.tool_results {
            if let (true, Some(id)) = (meta.is_rejected(), &meta.id) {
                self.tools.mark_denied(id);
            }
        }
        match &message.content {
            MessageContent::Text(text) => {
                let repeated =
                    |output: &&str| self.compaction.is_repeated_by(output) || self.is_model_change_echo(output);
                let output = parse_local_command_output(text).filter(|output| !repeated(output));
                if let Some(output) = output {
                    self.emit_notice(output, out);
                }
            }
            MessageContent::Blocks(blocks) => {
                if let Some(result) = message.tool_use_result {
                    let goes_on = self.background.on_call_returned(result);
                    self.sub_agents.move_to_background(goes_on.as_slice());
                    out.extend(goes_on);
                    self.on_sub_agent_returned(result, out);
                }
                let mut edit = message.tool_use_result.and_then(file_edit::parse_file_edit);
                for block in blocks {
                    if let MessageBlock::ToolResult { id, is_error, content } = block {
                        if message.is_refused {
                            self.tools.mark_denied(id);
                        }
                        let edit = edit.take().filter(|_| !is_error);
                        if *is_error {
                            self.on_sub_agent_call_failed(
                                id,
                                tool_calls::strip_error_markup(&MessageBlock::tool_output(*content)),
                                out,
                            );
                        }
                        let output = MessageBlock::tool_output(*content);
                        self.background.on_tool_result(&output);
                        match self.tools.finish_with_result(id, *is_error, output, edit) {
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
        self.flush_failure(out);
        let produced = self.current_turn(out).has_output;
        // Some local commands answer only in the result.
        if let (false, false, Some(text)) =
            (produced, result.is_error, result.result.as_deref().filter(|t| !t.is_empty()))
        {
            self.emit_part(PartKind::Text, text, out);
        }
        for denial in result.permission_denials.iter().flatten() {
            if let Some(id) = &denial.tool_use_id {
                self.tools.mark_denied(id);
            }
        }
        self.stop_sub_agents_of_turn(out);
        out.extend(self.tools.finish_all("The turn ended before the tool call finished."));
        out.extend(self.compaction.end_turn());
        let turn = self.turn.take().unwrap_or_default();
        let (context, cost) = (self.meter.context(&turn.usage), self.meter.turn_cost(result));
        out.push(DriverEvent::Usage(TokenUsage {
            context_tokens: context,
            cost_usd: cost,
            ..turn.usage.final_usage(result)
        }));
        self.causes.on_prompts_answered(result.user_message_uuids.as_deref());
        self.resume.set_session(result.session_id.as_deref());
        out.extend(self.resume.token_at_turn_end());
        out.extend(self.steering.on_turn_end());
        out.push(DriverEvent::TurnEnded(turn_outcome::turn_outcome(result, turn.has_output)));
        self.answer = None;
        self.streamed = StreamTracker::default();
        self.tools = ToolCallTracker::default();
    }

    /// The running turn; starts one if the agent has not announced it.
    fn current_turn(&mut self, out: &mut Events) -> &mut MappedTurn {
        if self.turn.is_none() {
            let cause = self.causes.start_turn(None);
            self.start_turn(cause, out);
        }
        self.turn.get_or_insert_default()
    }

    /// Emits the start of an answer once, streamed or not.
    fn start_answer(&mut self, id: &str, out: &mut Events) {
        self.current_turn(out);
        if self.answer.as_deref() != Some(id) {
            self.answer = Some(id.to_owned());
            out.extend(self.steering.on_answer());
            out.push(DriverEvent::MessageStarted);
        }
    }

    fn start_turn(&mut self, cause: TurnCause, out: &mut Events) {
        self.turn = Some(MappedTurn::default());
        out.push(DriverEvent::TurnStarted(cause));
    }

    /// Emits a notice if the streamed answer is abandoned for another message.
    fn abandon_stream_unless(&mut self, same_message: Option<&str>, out: &mut Events) {
        let Some(cut) = self.streamed.abandon_unless(same_message) else {
            return;
        };
        for id in cut.tools {
            out.extend(self.tools.finish_as(
                &id,
                ToolOutcome::Failed,
                "The tool call was cut off before it was complete.".to_owned(),
            ));
        }
        if cut.had_output {
            self.emit_notice(STREAM_INTERRUPTED_NOTICE, out);
        }
    }

    fn start_tool(&mut self, id: &str, name: &str, out: &mut Events) {
        if self.tools.start(id) {
            let display = tool_display::display_tool_call(name, None, &self.directory);
            out.push(DriverEvent::ToolStarted { id: id.to_owned(), name: name.to_owned(), display });
            self.current_turn(out).has_output = true;
        }
    }

    /// Emits a complete part.
    fn emit_part(&mut self, kind: PartKind, text: &str, out: &mut Events) {
        if text.is_empty() {
            return;
        }
        self.last_part_id += 1;
        let part = PartId(self.last_part_id);
        out.push(DriverEvent::PartStarted { part, kind });
        out.push(DriverEvent::PartDelta { part, text: text.to_owned() });
        self.current_turn(out).has_output = true;
    }

    /// Notices belong to a turn; outside of one they are dropped.
    fn emit_notice(&mut self, text: &str, out: &mut Events) {
        if let Some(turn) = &mut self.turn {
            turn.has_output = true;
            out.push(DriverEvent::Notice(text.to_owned()));
        }
    }
}

/// The output of a local command, if the text is one.
pub(crate) fn parse_local_command_output(text: &str) -> Option<&str> {
    let inner = |tag: &str| {
        let rest = text.trim().strip_prefix('<')?.strip_prefix(tag)?.strip_prefix('>')?;
        rest.strip_suffix('>')?.strip_suffix(tag)?.strip_suffix("</")
    };
    let inner = inner("local-command-stdout").or_else(|| inner("local-command-stderr"))?.trim();
    (!inner.is_empty()).then_some(inner)
}
