//! Replays captured traffic of two builds through the wire types and the mapping.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::event_order::OrderCheck;
use hostler_claude::mapping::EventMapper;
use hostler_claude::wire::{ControlRequestBody, MessageBlock, ModelStreamEvent, WireMessage};
use hostler_driver::{DriverEvent, PartId, PartKind, SubAgentEvent, SubAgentOutcome, ToolOutcome, TurnOutcome};
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

/// Marks where a string of a capture was truncated.
const CUT: &str = "…<";

#[derive(Deserialize)]
struct Record {
    dir: String,
    msg: Box<RawValue>,
}

fn captures() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/captures");
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    files
}

/// The processes of a capture.
fn processes(path: &Path) -> Vec<Vec<Record>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut processes = Vec::new();
    for line in text.lines() {
        let record: Record = serde_json::from_str(line).unwrap();
        if record.dir == "meta" && record.msg.get().starts_with("{\"argv\"") {
            processes.push(Vec::new());
        }
        processes.last_mut().unwrap().push(record);
    }
    processes
}

/// Replays everything that one process printed and checks the order of events.
#[derive(Default)]
struct Replay {
    order: OrderCheck,
    mapper: EventMapper,
    /// The message of each part.
    part_of: HashMap<PartId, String>,
    /// The whole blocks of each message: text and reasoning.
    whole: BTreeMap<(String, bool), String>,
    streaming: String,
    asked: HashMap<String, String>,
    denied: HashSet<String>,
    results: usize,
    counts: BTreeMap<&'static str, usize>,
}

impl Replay {
    fn of(process: &[Record], name: &str) -> Self {
        let mut replay = Self::default();
        for record in process {
            match record.dir.as_str() {
                "in" => replay.host_wrote(record.msg.get()),
                "out" => replay.agent_printed(record.msg.get(), name),
                _ => {}
            }
        }
        replay
    }

    fn host_wrote(&mut self, line: &str) {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        if message["type"] == "user" {
            let id = message["uuid"].as_str().and_then(|id| Uuid::parse_str(id).ok());
            self.mapper.prompt_sent(id.unwrap_or_else(Uuid::new_v4));
        }
        let answer = &message["response"]["response"];
        if answer["behavior"] == "deny" || answer["hookSpecificOutput"]["permissionDecision"] == "deny" {
            let request = message["response"]["request_id"].as_str().unwrap();
            let call = &self.asked[request];
            self.mapper.mark_denied(call);
            self.denied.insert(call.clone());
        }
    }

    fn agent_printed(&mut self, line: &str, name: &str) {
        let message = WireMessage::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
        let mut about = String::new();
        match &message {
            WireMessage::Unknown { kind, subtype } => panic!("{name}: {kind}/{subtype:?} has no name: {line}"),
            WireMessage::Stream(stream) if !stream.is_sub_agent => {
                if let ModelStreamEvent::MessageStart { id, .. } = &stream.event {
                    self.streaming = id.to_string();
                }
                about.clone_from(&self.streaming);
            }
            WireMessage::Assistant(whole) if whole.parent_call_id.is_none() => {
                about = whole.id.to_string();
                for block in &whole.blocks {
                    let (text, reasoning) = match block {
                        MessageBlock::Text(text) => (text, false),
                        MessageBlock::Thinking(text) => (text, true),
                        _ => continue,
                    };
                    self.whole.entry((about.clone(), reasoning)).or_default().push_str(text);
                }
            }
            WireMessage::Result(_) => self.results += 1,
            WireMessage::ControlRequest(ask) => {
                let id = match &ask.body {
                    ControlRequestBody::CanUseTool(tool) | ControlRequestBody::PreToolUse { request: tool, .. } => {
                        &tool.tool_use_id
                    }
                    // Hooks that the driver does not register.
                    ControlRequestBody::UnreadableTool { tool_use_id: Some(id), is_hook: true } => id,
                    ControlRequestBody::UnreadableTool { is_hook: false, .. } => panic!("{name}: not read: {line}"),
                    _ => return,
                };
                self.asked.insert(ask.request_id.to_string(), id.to_string());
                for event in self.mapper.on_hook(&ask.body) {
                    self.happened(&event, "");
                }
            }
            _ => {}
        }
        for event in self.mapper.on_message(&message) {
            self.happened(&event, &about);
        }
    }

    fn happened(&mut self, event: &DriverEvent, about: &str) {
        *self.counts.entry(name_of(event)).or_default() += 1;
        if let DriverEvent::PartStarted { part, .. } = event {
            self.part_of.insert(*part, about.to_owned());
        }
        self.order.see(event);
    }

    /// The displayed text of a message, all parts of one kind in order.
    fn shown(&self, message: &str, reasoning: bool) -> String {
        let kind = if reasoning { PartKind::Reasoning } else { PartKind::Text };
        let mut parts: Vec<PartId> =
            self.part_of.iter().filter(|(_, of)| *of == message).map(|(part, _)| *part).collect();
        parts.sort();
        parts
            .iter()
            .map(|part| &self.order.parts[part])
            .filter(|part| part.0 == kind)
            .map(|part| part.1.as_str())
            .collect()
    }
}

fn name_of(event: &DriverEvent) -> &'static str {
    match event {
        DriverEvent::TurnStarted(hostler_driver::TurnCause::Prompt) => "turn began",
        DriverEvent::TurnStarted(hostler_driver::TurnCause::Agent(_)) => "turn began unasked",
        DriverEvent::PartStarted { .. } => "part started",
        DriverEvent::PartDelta { .. } => "delta",
        DriverEvent::ToolStarted { .. } => "tool started",
        DriverEvent::ToolInputDelta { .. } => "tool input delta",
        DriverEvent::ToolReady { .. } => "tool ready",
        DriverEvent::ToolFinished { outcome: ToolOutcome::Succeeded, .. } => "tool succeeded",
        DriverEvent::ToolFinished { outcome: ToolOutcome::Failed, .. } => "tool failed",
        DriverEvent::ToolFinished { outcome: ToolOutcome::Denied, .. } => "tool denied",
        DriverEvent::Usage(_) => "usage",
        DriverEvent::ResumeToken(_) => "resume token",
        DriverEvent::PermissionModeChanged(_) => "permission mode changed",
        DriverEvent::Retrying { .. } => "retrying",
        DriverEvent::Notice(_) => "notice",
        DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false }) => "turn completed",
        DriverEvent::TurnEnded(TurnOutcome::Completed { empty: true }) => "turn completed empty",
        DriverEvent::TurnEnded(TurnOutcome::Interrupted) => "turn interrupted",
        DriverEvent::TurnEnded(TurnOutcome::Failed(_)) => "turn failed",
        DriverEvent::ToolDecided { .. } => "tool gated",
        DriverEvent::ToolProgress { .. } => "tool progress",
        DriverEvent::PermissionRequested(_) => "permission requested",
        DriverEvent::QuestionsAsked(_) => "questions asked",
        DriverEvent::PlanProposed(_) => "plan proposed",
        DriverEvent::RequestWithdrawn(_) => "request withdrawn",
        DriverEvent::MessageStarted => "message started",
        DriverEvent::SteerInjected(_) => "steer injected",
        DriverEvent::SteerUndelivered(_) => "steer undelivered",
        DriverEvent::CompactionStarted => "compaction started",
        DriverEvent::CompactionFinished { .. } => "compaction finished",
        DriverEvent::CompactionFailed(_) => "compaction failed",
        DriverEvent::BackgroundTaskChanged(_) => "background changed",
        DriverEvent::BackgroundTaskEnded { .. } => "background ended",
        DriverEvent::SubAgent { event, .. } => match event {
            SubAgentEvent::Started(_) => "sub-agent started",
            SubAgentEvent::Activity(did) => match **did {
                DriverEvent::PartStarted { .. } => "sub-agent part started",
                DriverEvent::PartDelta { .. } => "sub-agent delta",
                DriverEvent::ToolStarted { .. } => "sub-agent tool started",
                DriverEvent::ToolReady { .. } => "sub-agent tool ready",
                DriverEvent::ToolFinished { outcome: ToolOutcome::Succeeded, .. } => "sub-agent tool succeeded",
                DriverEvent::ToolFinished { outcome: ToolOutcome::Failed, .. } => "sub-agent tool failed",
                DriverEvent::ToolFinished { outcome: ToolOutcome::Denied, .. } => "sub-agent tool denied",
                DriverEvent::Usage(_) => "sub-agent usage",
                _ => panic!("a sub-agent does not do that: {did:?}"),
            },
            SubAgentEvent::Finished(SubAgentOutcome::Completed) => "sub-agent completed",
            SubAgentEvent::Finished(SubAgentOutcome::Failed(_)) => "sub-agent failed",
            SubAgentEvent::Finished(SubAgentOutcome::Stopped) => "sub-agent stopped",
        },
        DriverEvent::ProcessExited { .. } => "gone",
    }
}

fn replays() -> Vec<(String, Replay)> {
    let mut replays = Vec::new();
    for path in captures() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        for process in processes(&path) {
            replays.push((name.clone(), Replay::of(&process, &name)));
        }
    }
    replays
}

#[test]
fn all_messages_are_known_and_events_are_ordered() {
    let replays = replays();
    assert_eq!(replays.len(), 156, "processes in the captures");
    for build in ["js", "native"] {
        let of_build: Vec<&Replay> = replays.iter().filter(|(name, _)| name.contains(build)).map(|(_, r)| r).collect();
        assert!(of_build.len() > 50);
        let mut counts = BTreeMap::<&str, usize>::new();
        for replay in of_build {
            assert_eq!(replay.order.outcomes.len(), replay.results, "every result ends a turn");
            for (name, count) in &replay.counts {
                *counts.entry(name).or_default() += count;
            }
        }
        let counts: Vec<String> = counts.into_iter().map(|(name, count)| format!("{count} {name}")).collect();
        insta::assert_snapshot!(format!("replayed_{build}"), counts.join("\n"));
    }
}

#[test]
fn whole_block_adds_exactly_what_was_not_streamed() {
    let (mut compared, mut cut, mut failures) = (0, 0, 0);
    for (name, replay) in replays() {
        for ((message, reasoning), whole) in &replay.whole {
            let shown = replay.shown(message, *reasoning);
            if let Some((start, _)) = whole.split_once(CUT) {
                assert!(shown.starts_with(start), "{name}: {message}");
                cut += 1;
            } else if shown.is_empty() && name.contains("errors") {
                // The turn's end reports the failure.
                failures += 1;
            } else {
                assert_eq!(shown, *whole, "{name}: {message}");
                compared += 1;
            }
        }
    }
    assert!(compared > 300, "{compared} messages compared");
    assert!(cut < 10, "{cut} messages were cut");
    assert_eq!(failures, 10, "five in each build");
}

#[test]
fn denied_calls_are_shown_as_denied() {
    let mut refused = 0;
    for (name, replay) in replays() {
        for call in &replay.denied {
            if let Some(outcome) = replay.order.tool_outcomes.get(call) {
                assert_eq!(*outcome, ToolOutcome::Denied, "{name}: {call}");
                refused += 1;
            }
        }
    }
    assert!(refused >= 10, "{refused} refused calls");
}

#[test]
fn cut_stream_is_noticed_on_both_builds() {
    let notices = |wanted: &str| {
        let of_file = |(name, _): &(String, Replay)| name == wanted;
        let notices = replays().into_iter().filter(of_file).flat_map(|(_, replay)| replay.order.notices);
        notices.filter(|notice| notice == hostler_claude::mapping::STREAM_INTERRUPTED_NOTICE).count()
    };
    // The native build streams again seven times; the JavaScript build falls back to an answer that was empty here.
    assert_eq!(notices("13-errors-native"), 7);
    assert_eq!(notices("13-errors-js"), 0);
}
