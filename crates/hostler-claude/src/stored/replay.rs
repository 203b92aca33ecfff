//! A stored turn, told once more: its records become the messages that the agent printed when it wrote them, and those go
//! through the same mapping as a live agent's. What is restored is what was seen.

use std::collections::HashMap;
use std::path::Path;

use hostler_driver::{DriverEvent, Said};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::mapping::Mapper;
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

/// Gives the whole transcript of a sub-agent, by its id; `None` if there is none.
pub type SubAgents<'a> = dyn Fn(&str) -> Option<Vec<u8>> + 'a;

/// Tells a turn once more, from the lines of its records. One that goes on in the next turn was not cut off.
pub fn replay<'a>(
    directory: &Path,
    records: impl IntoIterator<Item = (Kind, &'a [u8])>,
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
        wanted: HashMap::new(),
        end: End::Unknown,
    };
    for (kind, line) in records {
        replay.record(kind, line);
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
    /// What calls for sub-agents said of them. What they gave back may not repeat it.
    wanted: HashMap<String, Wanted>,
    end: End,
}

/// A sub-agent, as the call says that makes it.
#[derive(Deserialize)]
struct Wanted {
    description: String,
    #[serde(default)]
    subagent_type: Option<String>,
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
                if let Some(made) = &made {
                    self.sub_agent(made);
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
                self.end = End::Answered;
                match facts.printed {
                    Some(printed) => self.print(&printed),
                    None => self.tell(line),
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
        self.end = End::Answered;
        for block in &message.blocks {
            if let Block::ToolUse { id, name, input } = block
                && matches!(&**name, "Agent" | "Task")
                && let Ok(wanted) = serde_json::from_str(input.get())
            {
                self.wanted.insert(id.to_string(), wanted);
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

    /// What a sub-agent did, as its own transcript tells it, before the call that made it returns.
    fn sub_agent(&mut self, made: &Made) {
        let Some(transcript) = (self.sub_agents)(&made.id) else { return };
        let Ok(index) = Index::of(&mut transcript.as_slice()) else { return };
        let index = index.of_a_sub_agent();
        let wanted = self.wanted.get(&made.call);
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

    /// What a command of the agent's own printed, which a live agent says in words of its own.
    fn print(&mut self, printed: &str) {
        let printed = between(printed, "local-command-stdout").map(str::trim).filter(|printed| !printed.is_empty());
        if let Some(printed) = printed {
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
        #[derive(Deserialize)]
        struct Block {
            #[serde(default)]
            tool_use_id: Option<String>,
        }
        let returned: Returned = serde_json::from_str(returned.get()).ok()?;
        let blocks: Vec<Block> = serde_json::from_str(content.get()).ok()?;
        Some(Self {
            id: returned.agent_id,
            call: blocks.into_iter().find_map(|block| block.tool_use_id)?,
            is_async: returned.is_async,
            kind: returned.agent_type,
            description: returned.description,
            prompt: returned.prompt,
        })
    }
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
mod tests {
    use std::fmt::Write as _;
    use std::io::Cursor;

    use hostler_driver::TurnOutcome;

    use super::*;

    fn turns(text: &str) -> Vec<Replayed> {
        turns_with(text, &|_| None)
    }

    fn turns_with(text: &str, sub_agents: &SubAgents<'_>) -> Vec<Replayed> {
        let index = Index::of(&mut Cursor::new(text)).unwrap();
        let chain = Chain::of(&index);
        let line = |at: usize| {
            let link = &index.links[chain.links[at]];
            let place = usize::try_from(link.place.start).unwrap()..usize::try_from(link.place.end).unwrap();
            (link.kind, text.get(place).unwrap().as_bytes())
        };
        let spans = chain.spans(&index);
        spans.into_iter().map(|span| replay(Path::new("/p"), span.links.map(line), span.goes_on, sub_agents)).collect()
    }

    /// What a person would see of it.
    fn seen(turn: &Replayed) -> String {
        let mut seen = format!("{:?}", turn.said);
        for event in &turn.events {
            let _ = match event {
                DriverEvent::Delta { text, .. } => write!(seen, " | {text}"),
                DriverEvent::ToolReady { id, .. } => write!(seen, " | call {id}"),
                DriverEvent::ToolFinished { id, outcome, .. } => write!(seen, " | {id} {outcome:?}"),
                DriverEvent::CompactionFinished { before, after } => write!(seen, " | shortened {before:?} {after:?}"),
                DriverEvent::Notice(text) => write!(seen, " | note {text}"),
                DriverEvent::TurnEnded(outcome) => write!(seen, " | {outcome:?}"),
                _ => Ok(()),
            };
        }
        seen
    }

    fn prompt(name: &str, parent: &str, text: &str) -> String {
        json!({"type": "user", "uuid": name, "parentUuid": parent, "timestamp": "2026-01-01T00:00:00Z",
            "message": {"content": text}})
        .to_string()
    }

    fn answer(name: &str, parent: &str, message: &str, block: &serde_json::Value) -> String {
        json!({"type": "assistant", "uuid": name, "parentUuid": parent, "timestamp": "2026-01-01T00:00:05Z",
            "message": {"id": message, "model": "m", "content": [block], "usage": {"input_tokens": 10, "output_tokens": 3}}})
        .to_string()
    }

    fn text(text: &str) -> serde_json::Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn a_turn_is_told_with_its_usage_and_its_end() {
        let turns = turns(&[prompt("a", "", "hi"), answer("b", "a", "1", &text("hello"))].join("\n"));
        let [turn] = &turns[..] else { panic!("one turn") };
        assert_eq!(seen(turn), r#"Person { text: "hi", attached: 0 } | hello | Completed { empty: false }"#);
        assert_eq!(turn.began.as_deref(), Some("2026-01-01T00:00:00Z"));
        assert_eq!(turn.ended.as_deref(), Some("2026-01-01T00:00:05Z"));
        let usage = turn.events.iter().rev().find_map(|event| match event {
            DriverEvent::Usage(usage) => Some((usage.input, usage.output, usage.context, usage.model.clone())),
            _ => None,
        });
        assert_eq!(usage, Some((10, 3, Some(13), Some("m".to_owned()))));
    }

    #[test]
    fn calls_come_back_and_those_that_never_did_are_cut_off() {
        let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "ls"}});
        let result = |name: &str, parent: &str, id: &str, error: bool| {
            json!({"type": "user", "uuid": name, "parentUuid": parent,
                "message": {"content": [{"type": "tool_result", "tool_use_id": id, "is_error": error, "content": "x"}]}})
            .to_string()
        };
        let lines = [
            prompt("a", "", "go"),
            answer("b", "a", "1", &call("t1")),
            answer("c", "b", "1", &call("t2")),
            result("d", "c", "t2", true),
            result("e", "b", "t1", false),
            answer("f", "e", "2", &call("t3")),
        ];
        let turns = turns(&lines.join("\n"));
        let seen = seen(&turns[0]);
        let told = "| call t1 | call t2 | t2 Failed | t1 Succeeded | call t3 | t3 Failed |";
        assert!(seen.contains(told), "{seen}");
    }

    #[test]
    fn interrupted_failed_and_silent_turns_end_as_they_did() {
        let interrupted = prompt("c", "b", "[Request interrupted by user]");
        let lines = [prompt("a", "", "hi"), answer("b", "a", "1", &text("hel")), interrupted];
        assert!(matches!(
            turns(&lines.join("\n"))[0].events.last(),
            Some(DriverEvent::TurnEnded(TurnOutcome::Interrupted))
        ));
        let failed = json!({"type": "assistant", "uuid": "b", "parentUuid": "a", "isApiErrorMessage": true, "apiErrorStatus": 529,
            "message": {"id": "x", "model": "<synthetic>", "content": [text("API Error: overloaded")]}});
        let turn = &turns(&[prompt("a", "", "hi"), failed.to_string()].join("\n"))[0];
        let Some(DriverEvent::TurnEnded(TurnOutcome::Failed(failure))) = turn.events.last() else {
            panic!("{}", seen(turn))
        };
        assert_eq!((failure.status, failure.message.as_str()), (Some(529), "API Error: overloaded"));
        let turn = &turns(&prompt("a", "", "hi"))[0];
        assert!(matches!(turn.events.last(), Some(DriverEvent::TurnEnded(TurnOutcome::Interrupted))), "{}", seen(turn));
    }

    #[test]
    fn an_order_to_shorten_is_a_turn_of_its_own() {
        let boundary = json!({"type": "system", "subtype": "compact_boundary", "uuid": "c", "logicalParentUuid": "b",
            "compactMetadata": {"preTokens": 100, "postTokens": 7}});
        let summary = json!({"type": "user", "uuid": "d", "parentUuid": "c", "isCompactSummary": true, "message": {"content": "long ago"}});
        let lines = [
            prompt("a", "", "hi"),
            answer("b", "a", "1", &text("hello")),
            boundary.to_string(),
            summary.to_string(),
            prompt("e", "d", "<command-name>/compact</command-name>\n<command-args>briefly</command-args>"),
            prompt("f", "e", "<local-command-stdout>Compacted </local-command-stdout>"),
            prompt("g", "f", "on"),
            answer("h", "g", "2", &text("yes")),
        ];
        let turns: Vec<String> = turns(&lines.join("\n")).iter().map(seen).collect();
        assert_eq!(turns.len(), 3, "{turns:#?}");
        assert!(turns[0].ends_with("| hello | Completed { empty: false }"), "{turns:#?}");
        assert!(
            turns[1].starts_with(r#"Person { text: "/compact briefly", attached: 0 } | shortened Some(100) Some(7)"#),
            "{turns:#?}"
        );
        assert!(turns[2].ends_with("| yes | Completed { empty: false }"), "{turns:#?}");
    }

    #[test]
    fn what_the_agent_began_by_itself_says_why() {
        let told =
            prompt("a", "", "<task-notification>\n<summary>Agent \"look\" finished</summary>\n</task-notification>");
        assert_eq!(turns(&told)[0].said, Said::Agent("Agent \"look\" finished".to_owned()));
        let words = prompt("a", "", "what is <bash-input>ls</bash-input>?");
        let said = Said::Person { text: "what is <bash-input>ls</bash-input>?".to_owned(), attached: 0 };
        assert_eq!(turns(&words)[0].said, said);
        let shell = prompt("a", "", "<bash-input>ls -l</bash-input>");
        assert_eq!(turns(&shell)[0].said, Said::Person { text: "!ls -l".to_owned(), attached: 0 });
    }

    #[test]
    fn words_that_came_beside_a_call_begin_a_turn_behind_all_calls_of_that_answer() {
        let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "ls"}});
        let result = |name: &str, parent: &str, id: &str| {
            json!({"type": "user", "uuid": name, "parentUuid": parent,
                "message": {"content": [{"type": "tool_result", "tool_use_id": id, "content": "x"}]}})
            .to_string()
        };
        let beside = |words: &str| {
            json!({"type": "attachment", "uuid": "e", "parentUuid": "d", "timestamp": "2026-01-01T00:00:03Z",
                "attachment": {"type": "hook_additional_context", "content": [words]}})
            .to_string()
        };
        let lines = |words: &str| {
            let lines = [
                prompt("a", "", "go"),
                answer("b", "a", "1", &call("t1")),
                answer("c", "b", "1", &call("t2")),
                result("d", "c", "t1"),
                beside(words),
                result("f", "e", "t2"),
                answer("g", "f", "2", &text("blue it is")),
            ];
            lines.join("\n")
        };
        let told: Vec<_> = turns(&lines(&crate::prompt::said_meanwhile("in blue"))).iter().map(seen).collect();
        let expected = [
            r#"Person { text: "go", attached: 0 } | call t1 | call t2 | t1 Succeeded | t2 Succeeded | Completed { empty: false }"#,
            r#"Person { text: "in blue", attached: 0 } | blue it is | Completed { empty: false }"#,
        ];
        assert_eq!(told, expected);
        assert_eq!(turns(&lines("in blue")).len(), 1, "what another hook says is nobody's words");
    }

    #[test]
    fn a_sub_agent_is_told_by_its_own_transcript() {
        use hostler_driver::SubAgentEvent;
        let call = json!({"type": "tool_use", "id": "t1", "name": "Agent", "input": {"prompt": "look"}});
        for is_async in [false, true] {
            let result = json!({"type": "user", "uuid": "c", "parentUuid": "b",
                "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]},
                "toolUseResult": {"agentId": "a1", "isAsync": is_async, "status": if is_async { "async_launched" } else { "completed" },
                    "agentType": "general-purpose", "prompt": "look", "content": [{"type": "text", "text": "found"}]}});
            let lines = [
                prompt("a", "", "go"),
                answer("b", "a", "1", &call),
                result.to_string(),
                answer("d", "c", "2", &text("ok")),
            ];
            let own = [prompt("x", "", "look"), answer("y", "x", "s", &text("found"))]
                .join("\n")
                .replace("\"uuid\"", "\"isSidechain\":true,\"uuid\"");
            let turns = turns_with(&lines.join("\n"), &|id| (id == "a1").then(|| own.clone().into_bytes()));
            let mut told = Vec::new();
            for event in &turns[0].events {
                if let DriverEvent::SubAgent { agent, event } = event {
                    told.push(match event {
                        SubAgentEvent::Started(start) => {
                            format!("{} by {}: {}", agent.0, start.call, start.prompt.expose())
                        }
                        SubAgentEvent::Did(event) => match &**event {
                            DriverEvent::Delta { text, .. } => text.clone(),
                            _ => continue,
                        },
                        SubAgentEvent::Finished(outcome) => format!("{outcome:?}"),
                    });
                }
            }
            assert_eq!(told, ["a1 by t1: look", "found", "Completed"], "{is_async}");
            assert!(
                seen(&turns[0]).ends_with("| t1 Succeeded | ok | Completed { empty: false }"),
                "{}",
                seen(&turns[0])
            );
            // Without its transcript there is still the call.
            assert!(
                turns_with(&lines.join("\n"), &|_| None)[0]
                    .events
                    .iter()
                    .all(|e| !matches!(e, DriverEvent::SubAgent { .. }))
            );
        }
    }
}
