//! A stored turn, told once more: its records become the messages that the agent printed when it wrote them, and those go
//! through the same mapping as a live agent's. What is restored is what was seen.

use std::path::Path;

use hostler_driver::{DriverEvent, Said, TurnOutcome};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::mapping::{Mapper, local_command_output};
use crate::wire::{AssistantMessage, Block, SYNTHETIC, StreamEvent, StreamLine, Text, UserMessage, WireMessage};

use super::words::{self, between};
use super::{Chain, Index, Kind};

/// A turn, told once more.
#[derive(Debug)]
pub struct Replayed {
    /// What it was begun with.
    pub said: Said,
    /// When, as the agent wrote it (RFC 3339).
    pub began: Option<String>,
    /// When its last record was written.
    pub ended: Option<String>,
    /// What happened in it, as a live agent tells it; the last one is its end.
    pub events: Vec<DriverEvent>,
    /// Records that were passed over.
    pub skipped: usize,
}

/// What an agent that takes up a conversation writes where nothing was answered. Nobody said it.
const FILLER: &str = "No response requested.";

/// Finds a sub-agent; `None` if there is none, or nothing is known of it but the call.
pub type SubAgents<'a> = dyn Fn(Asked<'_>) -> Option<Own> + 'a;

/// Which sub-agent is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked<'a> {
    /// The one that the result of a call names.
    Named(&'a str),
    /// The one that a call has made that never came back, or came back without a word of it.
    MadeBy {
        /// The call.
        call: &'a str,
        /// What it was to do.
        prompt: &'a str,
        /// What the agent calls the message that the call is about.
        message: Option<&'a str>,
    },
}

/// A sub-agent with a transcript of its own.
#[derive(Debug)]
pub struct Own {
    /// Its id.
    pub id: String,
    /// All that it did, or why that cannot be read.
    pub transcript: Result<Vec<u8>, String>,
}

/// Tells a turn once more, from the lines of its records. One that goes on in the next turn was not cut off.
pub fn replay<L: AsRef<[u8]>>(
    directory: &Path,
    records: impl IntoIterator<Item = (Kind, L)>,
    goes_on: bool,
    sub_agents: &SubAgents<'_>,
) -> Replayed {
    let mut replay = Replay {
        sub_agents,
        mapper: Mapper::in_directory(directory),
        turn: Replayed {
            said: Said::Person { text: String::new(), attached: 0 },
            began: None,
            ended: None,
            events: Vec::new(),
            skipped: 0,
        },
        answer: None,
        message: None,
        wanted: Vec::new(),
        end: End::Unknown,
        is_command: false,
    };
    for (kind, line) in records {
        replay.record(kind, line.as_ref());
    }
    if goes_on {
        replay.end = End::Answered;
    }
    replay.finish()
}

struct Replay<'s> {
    sub_agents: &'s SubAgents<'s>,
    mapper: Mapper,
    turn: Replayed,
    answer: Option<String>,
    /// What the agent calls the message that the turn is about.
    message: Option<String>,
    /// What calls for sub-agents said of them. What they gave back may not repeat it.
    wanted: Vec<(String, Wanted)>,
    end: End,
    /// Nobody was to answer: a command was given, which may print nothing.
    is_command: bool,
}

/// A sub-agent, as the call says that makes it.
#[derive(Deserialize)]
struct Wanted {
    description: String,
    #[serde(default)]
    subagent_type: Option<String>,
    #[serde(default)]
    prompt: Option<String>,
    /// Whether it was told, or nothing is known of it.
    #[serde(skip)]
    settled: bool,
}

/// How the turn seems to have ended, by what was written last.
enum End {
    /// Nothing was answered, or a call never came back.
    Unknown,
    Answered,
    Interrupted,
    Failed {
        status: Option<u16>,
        text: String,
    },
}

#[derive(Deserialize)]
struct Facts<'a> {
    #[serde(borrow, default)]
    timestamp: Option<Text<'a>>,
    #[serde(rename = "promptId", borrow, default)]
    about: Option<Text<'a>>,
    #[serde(rename = "isApiErrorMessage", default)]
    failed: Option<bool>,
    #[serde(rename = "apiErrorStatus", default)]
    status: Option<u16>,
    #[serde(rename = "toolUseResult", borrow, default)]
    returned: Option<&'a RawValue>,
    #[serde(rename = "compactMetadata", default)]
    shortened: Option<Shortened>,
    /// What a command of the agent's own printed, where that is no message.
    #[serde(rename = "content", borrow, default)]
    printed: Option<Text<'a>>,
    #[serde(borrow, default)]
    attachment: Option<Words<'a>>,
    #[serde(borrow, default)]
    message: Option<Contents<'a>>,
}

#[derive(Deserialize)]
struct Words<'a> {
    #[serde(borrow, default)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Contents<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Shortened {
    #[serde(rename = "preTokens", default)]
    before: Option<u64>,
    #[serde(rename = "postTokens", default)]
    after: Option<u64>,
}

impl Replay<'_> {
    fn record(&mut self, kind: Kind, line: &[u8]) {
        let Ok(facts) = serde_json::from_slice::<Facts<'_>>(line) else {
            self.turn.skipped += 1;
            return;
        };
        if !matches!(kind, Kind::Hidden) {
            self.turn.ended = facts.timestamp.as_ref().map(|at| at.to_string()).or(self.turn.ended.take());
        }
        if let Some(about) = &facts.about {
            self.message = Some(about.to_string());
        }
        let content = facts.message.as_ref().and_then(|message| message.content);
        match kind {
            Kind::Prompt | Kind::Command | Kind::Notification => {
                self.turn.began = facts.timestamp.map(|at| at.to_string());
                self.turn.said = content.map_or_else(|| self.turn.said.clone(), |content| said(kind, content.get()));
            }
            Kind::Folded => {
                self.turn.began = facts.timestamp.map(|at| at.to_string());
                if let Some(words) = facts.attachment.and_then(|attachment| attachment.prompt) {
                    self.turn.said = said(kind, words.get());
                }
            }
            Kind::Steer => {
                self.turn.began = facts.timestamp.map(|at| at.to_string());
                let words = facts.attachment.and_then(|attachment| attachment.content).and_then(words::meanwhile);
                let text = words.unwrap_or_default().trim_end().to_owned();
                self.turn.said = Said::Person { text, attached: 0 };
            }
            Kind::Answer => self.answer(line, &facts),
            Kind::Results => {
                // A turn whose last word is a result was cut off.
                self.end = End::Unknown;
                let made = facts.returned.zip(content).and_then(|(returned, content)| Made::by(returned, content));
                match (&made, content) {
                    (Some(made), _) => self.named_sub_agent(made),
                    (None, Some(content)) if !self.wanted.is_empty() => {
                        calls(content).iter().for_each(|call| self.lost_sub_agent(call));
                    }
                    _ => {}
                }
                self.tell(line);
                if let Some(made) = made.filter(|made| made.is_async) {
                    // When it was over stands somewhere behind; it is over now.
                    self.say(&json!({
                        "type": "system",
                        "subtype": "task_notification",
                        "task_id": made.id,
                        "status": "completed",
                    }));
                }
            }
            Kind::CommandOutput => {
                (self.end, self.is_command) = (End::Answered, true);
                let text = content.and_then(|content| serde_json::from_str::<Text<'_>>(content.get()).ok());
                match (facts.printed, text.and_then(|text| words::shell_output(&text))) {
                    (Some(printed), _) => self.print(local_command_output(&printed).unwrap_or_default()),
                    (None, Some(output)) => self.print(&output),
                    (None, None) => {
                        // A live agent has begun the turn by now.
                        self.turn.events.extend(self.mapper.begin_turn());
                        self.tell(line);
                    }
                }
            }
            Kind::Interruption => self.end = End::Interrupted,
            Kind::Boundary => {
                let size = facts.shortened.unwrap_or(Shortened { before: None, after: None });
                self.say(&json!({
                    "type": "system",
                    "subtype": "compact_boundary",
                    "compact_metadata": {"pre_tokens": size.before, "post_tokens": size.after},
                }));
            }
            Kind::Summary | Kind::ApiError | Kind::Hidden => {}
        }
    }

    fn answer(&mut self, line: &[u8], facts: &Facts<'_>) {
        let Ok(WireMessage::Assistant(message)) = WireMessage::parse(line) else {
            self.turn.skipped += 1;
            return;
        };
        if facts.failed == Some(true) {
            self.end = End::Failed { status: facts.status, text: message.text() };
            self.hear(&WireMessage::Assistant(AssistantMessage { failed: true, ..message }));
            return;
        }
        if message.is_synthetic() && message.text() == FILLER {
            return;
        }
        let calls = message.blocks.iter().any(|block| matches!(block, Block::ToolUse { .. }));
        self.end = if calls { End::Unknown } else { End::Answered };
        for block in &message.blocks {
            if let Block::ToolUse { id, name, input } = block
                && matches!(&**name, "Agent" | "Task")
                && let Ok(wanted) = serde_json::from_str(input.get())
            {
                self.wanted.push((id.to_string(), wanted));
            }
        }
        let (id, usage) = (message.id.clone(), message.usage);
        if !message.is_synthetic() && self.answer.as_deref() != Some(&*id) {
            self.answer = Some(id.to_string());
            let model = message.model.clone();
            self.hear(&stream(StreamEvent::MessageStart { id, model, usage }));
        }
        let counted = !message.is_synthetic();
        self.hear(&WireMessage::Assistant(message));
        if counted {
            self.hear(&stream(StreamEvent::MessageDelta { usage }));
        }
    }

    /// A sub-agent that the result of a call names.
    fn named_sub_agent(&mut self, made: &Made) {
        if let Some((_, wanted)) = self.wanted.iter_mut().find(|(call, _)| *call == made.call) {
            wanted.settled = true;
        }
        if let Some(own) = (self.sub_agents)(Asked::Named(&made.id)) {
            self.sub_agent(made, own.transcript);
        }
    }

    /// A sub-agent of which no result tells: its call was interrupted.
    fn lost_sub_agent(&mut self, call: &str) {
        let wanted = self.wanted.iter_mut().find(|(wanted, about)| wanted == call && !about.settled);
        let Some((_, wanted)) = wanted else { return };
        wanted.settled = true;
        let Some(prompt) = wanted.prompt.clone() else { return };
        let asked = Asked::MadeBy { call, prompt: &prompt, message: self.message.as_deref() };
        let Some(Own { id, transcript }) = (self.sub_agents)(asked) else { return };
        let call = call.to_owned();
        let made = Made { id, call, is_async: false, kind: None, description: None, prompt: Some(prompt) };
        self.sub_agent(&made, transcript);
    }

    /// What a sub-agent did, as its own transcript tells it, before the call that made it returns.
    fn sub_agent(&mut self, made: &Made, transcript: Result<Vec<u8>, String>) {
        let read = transcript.and_then(|text| match Index::of(&mut text.as_slice()) {
            Ok(index) => Ok((text, index.of_a_sub_agent())),
            Err(error) => Err(error.to_string()),
        });
        let (transcript, index) = match read {
            Ok(read) => read,
            Err(why) => {
                let notice = format!("What a sub-agent did cannot be shown: its transcript {why}.");
                return self.turn.events.push(DriverEvent::Notice(notice));
            }
        };
        let wanted = self.wanted.iter().find(|(call, _)| *call == made.call).map(|(_, wanted)| wanted);
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
        self.say(&started);
        for at in Chain::of(&index).links {
            let Some(link) = index.links.get(at) else { continue };
            let (Ok(from), Ok(to)) = (usize::try_from(link.place.start), usize::try_from(link.place.end)) else {
                continue;
            };
            let Some(line) = transcript.get(from..to) else { continue };
            let parent = Some(Text(made.call.as_str().into()));
            match (link.kind, WireMessage::parse(line)) {
                (Kind::Answer, Ok(WireMessage::Assistant(message))) => {
                    self.hear(&WireMessage::Assistant(AssistantMessage { parent, ..message }));
                }
                (Kind::Results, Ok(WireMessage::User(message))) => {
                    self.hear(&WireMessage::User(UserMessage { parent, ..message }));
                }
                (Kind::Answer | Kind::Results, _) => self.turn.skipped += 1,
                _ => {}
            }
        }
    }

    /// What a command printed, which a live agent says in words of its own.
    fn print(&mut self, printed: &str) {
        if !printed.is_empty() {
            let content = [json!({"type": "text", "text": printed})];
            let message = json!({"id": "printed", "model": SYNTHETIC, "content": content});
            self.say(&json!({"type": "assistant", "message": message}));
        }
    }

    /// A record that is the message itself.
    fn tell(&mut self, line: &[u8]) {
        match WireMessage::parse(line) {
            Ok(message @ WireMessage::User(_)) => self.hear(&message),
            _ => self.turn.skipped += 1,
        }
    }

    fn say(&mut self, message: &serde_json::Value) {
        if let Ok(message) = WireMessage::parse(message.to_string().as_bytes()) {
            self.hear(&message);
        }
    }

    fn hear(&mut self, message: &WireMessage<'_>) {
        self.turn.events.extend(self.mapper.on_message(message));
    }

    fn finish(mut self) -> Replayed {
        let open: Vec<_> =
            self.wanted.iter().filter(|(_, about)| !about.settled).map(|(call, _)| call.clone()).collect();
        open.iter().for_each(|call| self.lost_sub_agent(call));
        let end = std::mem::replace(&mut self.end, End::Unknown);
        self.say(&match end {
            End::Answered => json!({"type": "result", "subtype": "success", "is_error": false}),
            End::Unknown | End::Interrupted => json!({
                "type": "result",
                "subtype": "error_during_execution",
                "is_error": true,
                "terminal_reason": "aborted_streaming",
            }),
            End::Failed { status, text } => json!({
                "type": "result",
                "subtype": "success",
                "is_error": true,
                "api_error_status": status,
                "result": text,
            }),
        });
        self.turn.events.retain(|event| !matches!(event, DriverEvent::TurnBegan(_) | DriverEvent::ResumeToken(_)));
        if let (true, Some(DriverEvent::TurnEnded(TurnOutcome::Completed { empty }))) =
            (self.is_command, self.turn.events.last_mut())
        {
            *empty = false;
        }
        self.turn
    }
}

/// A sub-agent that a call has made.
struct Made {
    id: String,
    call: String,
    is_async: bool,
    kind: Option<String>,
    description: Option<String>,
    prompt: Option<String>,
}

impl Made {
    fn by(returned: &RawValue, content: &RawValue) -> Option<Self> {
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
            call: calls(content).into_iter().next()?,
            is_async: returned.is_async,
            kind: returned.agent_type,
            description: returned.description,
            prompt: returned.prompt,
        })
    }
}

/// The calls that results belong to.
fn calls(content: &RawValue) -> Vec<String> {
    #[derive(Deserialize)]
    struct Block {
        #[serde(default)]
        tool_use_id: Option<String>,
    }
    let blocks: Vec<Block> = serde_json::from_str(content.get()).unwrap_or_default();
    blocks.into_iter().filter_map(|block| block.tool_use_id).collect()
}

fn stream(event: StreamEvent<'_>) -> WireMessage<'_> {
    WireMessage::Stream(StreamLine { sub_agent: false, event })
}

fn said(kind: Kind, content: &str) -> Said {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow, default)]
        text: Option<Text<'a>>,
    }
    let (text, attached) = match serde_json::from_str(content) {
        Ok(Text(text)) => (text.into_owned(), 0),
        Err(_) => {
            let blocks: Vec<Block<'_>> = serde_json::from_str(content).unwrap_or_default();
            let texts: Vec<&str> = blocks.iter().filter_map(|block| block.text.as_deref()).collect();
            (texts.join("\n"), blocks.len() - texts.len())
        }
    };
    if kind == Kind::Notification {
        let summary = between(&text, "summary").unwrap_or("Something in the background was over");
        return Said::Agent(summary.trim().to_owned());
    }
    let typed = match (words::command(&text), words::shell(&text)) {
        (Some(name), _) => [name, between(&text, "command-args").unwrap_or_default()].map(str::trim).join(" "),
        (None, Some(command)) => format!("!{}", command.trim()),
        (None, None) => text,
    };
    Said::Person { text: typed.trim_end().to_owned(), attached }
}

#[cfg(test)]
mod tests;
