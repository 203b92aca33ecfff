//! Replays a stored turn: its records become the messages that the agent printed when it wrote them, and go through
//! the same mapping as a live agent's. So a restored turn looks like the original one.

use std::path::Path;

use hostler_driver::{DriverEvent, TurnOrigin, TurnOutcome};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::mapping::{EventMapper, parse_local_command_output};
use crate::wire::{
    AssistantMessage, MessageBlock, ModelStreamEvent, SYNTHETIC_MODEL, StreamLine, UserMessage, WireMessage, WireText,
};

use super::message_tags::{self, tag_contents};
use super::sub_agent_files::SubAgentTranscriptError;
use super::{RecordChain, RecordKind, TranscriptIndex};

/// A replayed turn.
#[derive(Debug)]
pub struct TranscriptReplay {
    /// What started it.
    pub origin: TurnOrigin,
    /// When it was started, as the agent wrote it (RFC 3339).
    pub started_at: Option<String>,
    /// When its last record was written.
    pub ended_at: Option<String>,
    /// Its events, as from a live agent; the last one is its end.
    pub events: Vec<DriverEvent>,
    /// Records that were skipped.
    pub skipped_records: usize,
}

/// The text that an agent writes on resume if a prompt was not answered. It is no message of the model.
const NO_RESPONSE_TEXT: &str = "No response requested.";

/// Finds a sub-agent; `None` if there is none, or only its call is known.
pub type SubAgentLookup<'a> = dyn Fn(SubAgentQuery<'_>) -> Option<SubAgentTranscript> + 'a;

/// Which sub-agent to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubAgentQuery<'a> {
    /// The one that a call's result names.
    ById(&'a str),
    /// The one that was started by a call without a result, or with a result that does not name it.
    ByCall {
        /// The call.
        call: &'a str,
        /// Its prompt.
        prompt: &'a str,
        /// The agent's id of the turn's message.
        message: Option<&'a str>,
    },
}

/// A sub-agent with a transcript of its own.
#[derive(Debug)]
pub struct SubAgentTranscript {
    /// Its id.
    pub id: String,
    /// Its whole transcript, or why it cannot be read.
    pub transcript: Result<Vec<u8>, SubAgentTranscriptError>,
}

/// Replays a turn from the lines of its records. A turn that continues in the next one was not cut off.
pub fn replay_turn<L: AsRef<[u8]>>(
    directory: &Path,
    records: impl IntoIterator<Item = (RecordKind, L)>,
    goes_on: bool,
    sub_agents: &SubAgentLookup<'_>,
) -> TranscriptReplay {
    let mut replay = Replay {
        sub_agents,
        mapper: EventMapper::for_directory(directory),
        turn: TranscriptReplay {
            origin: TurnOrigin::User { text: String::new(), attachment_count: 0 },
            started_at: None,
            ended_at: None,
            events: Vec::new(),
            skipped_records: 0,
        },
        answer: None,
        message: None,
        sub_agent_calls: Vec::new(),
        end: InferredEnd::CutOff,
        is_command: false,
    };
    for (kind, line) in records {
        replay.replay_record(kind, line.as_ref());
    }
    if goes_on {
        replay.end = InferredEnd::Answered;
    }
    replay.finish()
}

struct Replay<'s> {
    sub_agents: &'s SubAgentLookup<'s>,
    mapper: EventMapper,
    turn: TranscriptReplay,
    answer: Option<String>,
    /// The agent's id of the turn's message.
    message: Option<String>,
    /// Descriptions from the calls that start sub-agents; results may not repeat them.
    sub_agent_calls: Vec<(String, SubAgentCall)>,
    end: InferredEnd,
    /// The turn is a command, which needs no answer and may print nothing.
    is_command: bool,
}

/// A sub-agent, as described by the call that starts it.
#[derive(Deserialize)]
struct SubAgentCall {
    description: String,
    #[serde(default)]
    subagent_type: Option<String>,
    #[serde(default)]
    prompt: Option<String>,
    /// Whether it was replayed, or nothing is known of it.
    #[serde(skip)]
    is_resolved: bool,
}

/// How the turn ended, inferred from its last records.
enum InferredEnd {
    /// There was no answer, or a call has no result.
    CutOff,
    Answered,
    Interrupted,
    Failed {
        status: Option<u16>,
        text: String,
    },
}

#[derive(Deserialize)]
struct RecordFields<'a> {
    #[serde(borrow, default)]
    timestamp: Option<WireText<'a>>,
    #[serde(rename = "promptId", borrow, default)]
    about: Option<WireText<'a>>,
    #[serde(rename = "isApiErrorMessage", default)]
    failed: Option<bool>,
    #[serde(rename = "apiErrorStatus", default)]
    status: Option<u16>,
    #[serde(rename = "toolUseResult", borrow, default)]
    returned: Option<&'a RawValue>,
    #[serde(rename = "compactMetadata", default)]
    shortened: Option<CompactionSizes>,
    /// The output of a local command, if it is not a message.
    #[serde(rename = "content", borrow, default)]
    printed: Option<WireText<'a>>,
    #[serde(borrow, default)]
    attachment: Option<AttachmentFields<'a>>,
    #[serde(borrow, default)]
    message: Option<MessageFields<'a>>,
}

#[derive(Deserialize)]
struct AttachmentFields<'a> {
    #[serde(borrow, default)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct MessageFields<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CompactionSizes {
    #[serde(rename = "preTokens", default)]
    before: Option<u64>,
    #[serde(rename = "postTokens", default)]
    after: Option<u64>,
}

impl Replay<'_> {
    fn replay_record(&mut self, kind: RecordKind, line: &[u8]) {
        let Ok(facts) = serde_json::from_slice::<RecordFields<'_>>(line) else {
            self.turn.skipped_records += 1;
            return;
        };
        if !matches!(kind, RecordKind::Hidden) {
            self.turn.ended_at = facts.timestamp.as_ref().map(|at| at.to_string()).or(self.turn.ended_at.take());
        }
        if let Some(about) = &facts.about {
            self.message = Some(about.to_string());
        }
        let content = facts.message.as_ref().and_then(|message| message.content);
        match kind {
            RecordKind::Prompt | RecordKind::Command | RecordKind::Notification => {
                self.turn.started_at = facts.timestamp.map(|at| at.to_string());
                self.turn.origin =
                    content.map_or_else(|| self.turn.origin.clone(), |content| turn_origin(kind, content.get()));
            }
            RecordKind::QueuedPrompt => {
                self.turn.started_at = facts.timestamp.map(|at| at.to_string());
                if let Some(content) = facts.attachment.and_then(|attachment| attachment.prompt) {
                    self.turn.origin = turn_origin(kind, content.get());
                }
            }
            RecordKind::Steer => {
                self.turn.started_at = facts.timestamp.map(|at| at.to_string());
                let content =
                    facts.attachment.and_then(|attachment| attachment.content).and_then(message_tags::steering_text);
                let text = content.unwrap_or_default().trim_end().to_owned();
                self.turn.origin = TurnOrigin::User { text, attachment_count: 0 };
            }
            RecordKind::Answer => self.replay_answer(line, &facts),
            RecordKind::ToolResults => {
                // A turn that ends with a tool result was cut off.
                self.end = InferredEnd::CutOff;
                let made = facts
                    .returned
                    .zip(content)
                    .and_then(|(returned, content)| SpawnedSubAgent::from_result(returned, content));
                match (&made, content) {
                    (Some(made), _) => self.replay_referenced_sub_agent(made),
                    (None, Some(content)) if !self.sub_agent_calls.is_empty() => {
                        result_call_ids(content).iter().for_each(|call| self.replay_unreferenced_sub_agent(call));
                    }
                    _ => {}
                }
                self.map_line(line);
                if let Some(made) = made.filter(|made| made.is_async) {
                    // The time of its end is in a later record; here it counts as over.
                    self.map_json(&json!({
                        "type": "system",
                        "subtype": "task_notification",
                        "task_id": made.id,
                        "status": "completed",
                    }));
                }
            }
            RecordKind::CommandOutput => {
                (self.end, self.is_command) = (InferredEnd::Answered, true);
                let text = content.and_then(|content| serde_json::from_str::<WireText<'_>>(content.get()).ok());
                match (facts.printed, text.and_then(|text| message_tags::format_shell_output(&text))) {
                    (Some(printed), _) => self.emit_output(parse_local_command_output(&printed).unwrap_or_default()),
                    (None, Some(output)) => self.emit_output(&output),
                    (None, None) => {
                        // A live agent has started the turn by now.
                        self.turn.events.extend(self.mapper.ensure_turn());
                        self.map_line(line);
                    }
                }
            }
            RecordKind::Interruption => self.end = InferredEnd::Interrupted,
            RecordKind::CompactBoundary => {
                let size = facts.shortened.unwrap_or(CompactionSizes { before: None, after: None });
                self.map_json(&json!({
                    "type": "system",
                    "subtype": "compact_boundary",
                    "compact_metadata": {"pre_tokens": size.before, "post_tokens": size.after},
                }));
            }
            RecordKind::CompactSummary | RecordKind::ApiError | RecordKind::Hidden => {}
        }
    }

    fn replay_answer(&mut self, line: &[u8], facts: &RecordFields<'_>) {
        let Ok(WireMessage::Assistant(message)) = WireMessage::parse(line) else {
            self.turn.skipped_records += 1;
            return;
        };
        if facts.failed == Some(true) {
            self.end = InferredEnd::Failed { status: facts.status, text: message.text() };
            self.map_message(&WireMessage::Assistant(AssistantMessage { is_api_error: true, ..message }));
            return;
        }
        if message.is_synthetic() && message.text() == NO_RESPONSE_TEXT {
            return;
        }
        let calls = message.blocks.iter().any(|block| matches!(block, MessageBlock::ToolUse { .. }));
        self.end = if calls { InferredEnd::CutOff } else { InferredEnd::Answered };
        for block in &message.blocks {
            if let MessageBlock::ToolUse { id, name, input } = block
                && matches!(&**name, "Agent" | "Task")
                && let Ok(wanted) = serde_json::from_str(input.get())
            {
                self.sub_agent_calls.push((id.to_string(), wanted));
            }
        }
        let (id, usage) = (message.id.clone(), message.usage);
        if !message.is_synthetic() && self.answer.as_deref() != Some(&*id) {
            self.answer = Some(id.to_string());
            let model = message.model.clone();
            self.map_message(&stream_message(ModelStreamEvent::MessageStart { id, model, usage }));
        }
        let counted = !message.is_synthetic();
        self.map_message(&WireMessage::Assistant(message));
        if counted {
            self.map_message(&stream_message(ModelStreamEvent::MessageDelta { usage }));
        }
    }

    /// A sub-agent that a call's result names.
    fn replay_referenced_sub_agent(&mut self, made: &SpawnedSubAgent) {
        if let Some((_, wanted)) = self.sub_agent_calls.iter_mut().find(|(call, _)| *call == made.call) {
            wanted.is_resolved = true;
        }
        if let Some(own) = (self.sub_agents)(SubAgentQuery::ById(&made.id)) {
            self.replay_sub_agent(made, own.transcript);
        }
    }

    /// A sub-agent that no result names: its call was interrupted.
    fn replay_unreferenced_sub_agent(&mut self, call: &str) {
        let wanted = self.sub_agent_calls.iter_mut().find(|(wanted, about)| wanted == call && !about.is_resolved);
        let Some((_, wanted)) = wanted else { return };
        wanted.is_resolved = true;
        let Some(prompt) = wanted.prompt.clone() else { return };
        let asked = SubAgentQuery::ByCall { call, prompt: &prompt, message: self.message.as_deref() };
        let Some(SubAgentTranscript { id, transcript }) = (self.sub_agents)(asked) else { return };
        let call = call.to_owned();
        let made = SpawnedSubAgent { id, call, is_async: false, kind: None, description: None, prompt: Some(prompt) };
        self.replay_sub_agent(&made, transcript);
    }

    /// Replays a sub-agent's own transcript, before the call that started it returns.
    fn replay_sub_agent(&mut self, made: &SpawnedSubAgent, transcript: Result<Vec<u8>, SubAgentTranscriptError>) {
        let read = transcript.and_then(|text| match TranscriptIndex::read(&mut text.as_slice()) {
            Ok(index) => Ok((text, index.into_sub_agent_index())),
            Err(error) => Err(error.into()),
        });
        let (transcript, index) = match read {
            Ok(read) => read,
            Err(error) => {
                let notice = format!("The work of a sub-agent cannot be shown: {error}.");
                return self.turn.events.push(DriverEvent::Notice(notice));
            }
        };
        let wanted = self.sub_agent_calls.iter().find(|(call, _)| *call == made.call).map(|(_, wanted)| wanted);
        let description = made.description.as_ref().or(wanted.map(|wanted| &wanted.description));
        let kind = made.kind.as_ref().or(wanted.and_then(|wanted| wanted.subagent_type.as_ref()));
        let started = json!({
            "type": "system",
            "subtype": "task_started",
            "task_id": made.id,
            "tool_use_id": made.call,
            "task_type": "local_agent",
            "description": description,
            "subagent_type": kind,
            "prompt": made.prompt,
        });
        self.map_json(&started);
        for at in RecordChain::from_index(&index).positions {
            let Some(link) = index.records.get(at) else { continue };
            let (Ok(from), Ok(to)) = (usize::try_from(link.byte_range.start), usize::try_from(link.byte_range.end))
            else {
                continue;
            };
            let Some(line) = transcript.get(from..to) else { continue };
            let parent = Some(WireText(made.call.as_str().into()));
            match (link.kind, WireMessage::parse(line)) {
                (RecordKind::Answer, Ok(WireMessage::Assistant(message))) => {
                    self.map_message(&WireMessage::Assistant(AssistantMessage { parent_call_id: parent, ..message }));
                }
                (RecordKind::ToolResults, Ok(WireMessage::User(message))) => {
                    self.map_message(&WireMessage::User(UserMessage { parent_call_id: parent, ..message }));
                }
                (RecordKind::Answer | RecordKind::ToolResults, _) => self.turn.skipped_records += 1,
                _ => {}
            }
        }
    }

    /// Emits the output of a command, for which a live agent has a message of its own.
    fn emit_output(&mut self, printed: &str) {
        if !printed.is_empty() {
            let content = [json!({"type": "text", "text": printed})];
            let message = json!({"id": "printed", "model": SYNTHETIC_MODEL, "content": content});
            self.map_json(&json!({"type": "assistant", "message": message}));
        }
    }

    /// Maps a record that is itself a message.
    fn map_line(&mut self, line: &[u8]) {
        match WireMessage::parse(line) {
            Ok(message @ WireMessage::User(_)) => self.map_message(&message),
            _ => self.turn.skipped_records += 1,
        }
    }

    fn map_json(&mut self, message: &serde_json::Value) {
        if let Ok(message) = WireMessage::parse(message.to_string().as_bytes()) {
            self.map_message(&message);
        }
    }

    fn map_message(&mut self, message: &WireMessage<'_>) {
        self.turn.events.extend(self.mapper.on_message(message));
    }

    fn finish(mut self) -> TranscriptReplay {
        let open: Vec<_> =
            self.sub_agent_calls.iter().filter(|(_, about)| !about.is_resolved).map(|(call, _)| call.clone()).collect();
        open.iter().for_each(|call| self.replay_unreferenced_sub_agent(call));
        let end = std::mem::replace(&mut self.end, InferredEnd::CutOff);
        self.map_json(&match end {
            InferredEnd::Answered => json!({"type": "result", "subtype": "success", "is_error": false}),
            InferredEnd::CutOff | InferredEnd::Interrupted => json!({
                "type": "result",
                "subtype": "error_during_execution",
                "is_error": true,
                "terminal_reason": "aborted_streaming",
            }),
            InferredEnd::Failed { status, text } => json!({
                "type": "result",
                "subtype": "success",
                "is_error": true,
                "api_error_status": status,
                "result": text,
            }),
        });
        self.turn.events.retain(|event| !matches!(event, DriverEvent::TurnStarted(_) | DriverEvent::ResumeToken(_)));
        if let (true, Some(DriverEvent::TurnEnded(TurnOutcome::Completed { empty }))) =
            (self.is_command, self.turn.events.last_mut())
        {
            *empty = false;
        }
        self.turn
    }
}

/// A sub-agent that a call has started.
struct SpawnedSubAgent {
    id: String,
    call: String,
    is_async: bool,
    kind: Option<String>,
    description: Option<String>,
    prompt: Option<String>,
}

impl SpawnedSubAgent {
    fn from_result(returned: &RawValue, content: &RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Returned {
            agent_id: String,
            #[serde(default)]
            is_async: bool,
            #[serde(default)]
            agent_type: Option<String>,
            #[serde(default)]
            description: Option<String>,
            #[serde(default)]
            prompt: Option<String>,
        }
        let returned: Returned = serde_json::from_str(returned.get()).ok()?;
        Some(Self {
            id: returned.agent_id,
            call: result_call_ids(content).into_iter().next()?,
            is_async: returned.is_async,
            kind: returned.agent_type,
            description: returned.description,
            prompt: returned.prompt,
        })
    }
}

/// The calls that results belong to.
fn result_call_ids(content: &RawValue) -> Vec<String> {
    #[derive(Deserialize)]
    struct Block {
        #[serde(default)]
        tool_use_id: Option<String>,
    }
    let blocks: Vec<Block> = serde_json::from_str(content.get()).unwrap_or_default();
    blocks.into_iter().filter_map(|block| block.tool_use_id).collect()
}

fn stream_message(event: ModelStreamEvent<'_>) -> WireMessage<'_> {
    WireMessage::Stream(StreamLine { is_sub_agent: false, event })
}

fn turn_origin(kind: RecordKind, content: &str) -> TurnOrigin {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow, default)]
        text: Option<WireText<'a>>,
    }
    let (text, attached) = match serde_json::from_str(content) {
        Ok(WireText(text)) => (text.into_owned(), 0),
        Err(_) => {
            let blocks: Vec<Block<'_>> = serde_json::from_str(content).unwrap_or_default();
            let texts: Vec<&str> = blocks.iter().filter_map(|block| block.text.as_deref()).collect();
            (texts.join("\n"), blocks.len() - texts.len())
        }
    };
    if kind == RecordKind::Notification {
        let summary = tag_contents(&text, "summary").unwrap_or("A background task ended");
        return TurnOrigin::Agent(summary.trim().to_owned());
    }
    let typed = match (message_tags::slash_command(&text), message_tags::shell_command(&text)) {
        (Some(name), _) => [name, tag_contents(&text, "command-args").unwrap_or_default()].map(str::trim).join(" "),
        (None, Some(command)) => format!("!{}", command.trim()),
        (None, None) => text,
    };
    TurnOrigin::User { text: typed.trim_end().to_owned(), attachment_count: attached }
}

#[cfg(test)]
mod tests;
