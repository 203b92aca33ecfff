//! The searchable texts of a turn: of a stored turn, and of a turn loaded from a transcript. Pure.

use std::collections::HashMap;

use ahp_types::state::{
    FileEditSide, MessageAttachment, ResponsePart, ToolCallState, ToolInput, ToolResultContent, Turn,
};
use hostler_driver::{DriverEvent, LoadedTurn, PartId, PartKind, SubAgentEvent, TurnOrigin};
use hostler_search::{TextKind, TextsByKind};
use serde_json::Value;
use url::Url;

/// Texts of a stored turn.
pub(super) fn turn_texts(turn: &Turn) -> TextsByKind {
    let mut texts = TextsByKind::default();
    texts.add(TextKind::User, &turn.message.text);
    for attachment in turn.message.attachments.iter().flatten() {
        if let MessageAttachment::Resource(file) = attachment {
            texts.add_once(TextKind::Files, &file.label);
        }
    }
    for part in &turn.response_parts {
        match part {
            ResponsePart::Markdown(text) => texts.add(TextKind::Answer, &text.content),
            ResponsePart::Reasoning(text) => texts.add(TextKind::Reasoning, &text.content),
            ResponsePart::SystemNotification(note) => texts.add(TextKind::Answer, note.content.as_text()),
            ResponsePart::ToolCall(call) => add_call(&call.tool_call, &mut texts),
            _ => {}
        }
    }
    texts
}

fn add_call(call: &ToolCallState, texts: &mut TextsByKind) {
    match call {
        ToolCallState::Completed(call) => {
            texts.add_once(TextKind::ToolName, &call.tool_name);
            add_input(call.tool_input.as_ref(), texts);
            call.content.iter().flatten().for_each(|content| add_result(content, texts));
        }
        ToolCallState::Cancelled(call) => {
            texts.add_once(TextKind::ToolName, &call.tool_name);
            add_input(call.tool_input.as_ref(), texts);
        }
        _ => {}
    }
}

fn add_input(input: Option<&ToolInput>, texts: &mut TextsByKind) {
    if let Some(ToolInput::Inline(input)) = input {
        add_input_texts(input, texts);
    }
}

fn add_result(content: &ToolResultContent, texts: &mut TextsByKind) {
    match content {
        ToolResultContent::Text(text) => texts.add(TextKind::ToolOutput, &text.text),
        ToolResultContent::Terminal(terminal) => {
            let preview = terminal.result.as_ref().and_then(|result| result.preview.as_deref());
            texts.add(TextKind::ToolOutput, preview.unwrap_or_default());
        }
        ToolResultContent::FileEdit(edit) => {
            for side in [&edit.before, &edit.after].into_iter().flatten() {
                texts.add_once(TextKind::Files, &side_path(side));
            }
        }
        _ => {}
    }
}

fn side_path(side: &FileEditSide) -> String {
    let path = Url::parse(&side.uri).ok().and_then(|url| url.to_file_path().ok());
    path.map_or_else(|| side.uri.clone(), |path| path.display().to_string())
}

/// Adds the texts in a tool's input, without the JSON around them; values of file keys are added as files.
fn add_input_texts(input: &str, texts: &mut TextsByKind) {
    match serde_json::from_str(input) {
        Ok(Value::Object(object)) => object.iter().for_each(|(name, value)| add_value(name, value, texts)),
        Ok(Value::Array(values)) => values.iter().for_each(|value| add_value("", value, texts)),
        // A command may be displayed without JSON.
        _ => texts.add(TextKind::ToolInput, input),
    }
}

fn add_value(name: &str, value: &Value, texts: &mut TextsByKind) {
    match value {
        Value::String(text) if is_file_key(name) && !text.contains('\n') => texts.add_once(TextKind::Files, text),
        Value::String(text) => texts.add(TextKind::ToolInput, text),
        Value::Array(values) => values.iter().for_each(|value| add_value(name, value, texts)),
        Value::Object(object) => object.iter().for_each(|(name, value)| add_value(name, value, texts)),
        _ => {}
    }
}

/// Agents use `path`, `file_path`, `filePath`, `notebook_path`, `file`.
fn is_file_key(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("path") || name.ends_with("paths") || name == "file" || name == "files"
}

/// Texts of a turn that was loaded from a transcript, including the work of its sub-agents.
pub(super) fn loaded_turn_texts(turn: &LoadedTurn) -> TextsByKind {
    let mut collector = TextCollector::default();
    match &turn.origin {
        TurnOrigin::User { text, .. } => collector.texts.add(TextKind::User, text),
        TurnOrigin::Agent(reason) => collector.texts.add(TextKind::Answer, reason),
    }
    turn.events.iter().for_each(|event| collector.collect_event(event));
    collector.finish_part();
    collector.texts
}

#[derive(Default)]
struct TextCollector {
    texts: TextsByKind,
    kinds: HashMap<PartId, PartKind>,
    /// The part that is still growing, and its text so far.
    part: Option<(PartId, String)>,
}

impl TextCollector {
    fn collect_event(&mut self, event: &DriverEvent) {
        match event {
            DriverEvent::PartStarted { part, kind } => {
                self.kinds.insert(*part, *kind);
            }
            DriverEvent::PartDelta { part, text } => self.append_delta(*part, text),
            DriverEvent::ToolStarted { name, .. } => self.texts.add_once(TextKind::ToolName, name),
            DriverEvent::ToolReady { input, .. } => add_input_texts(input.get(), &mut self.texts),
            DriverEvent::ToolFinished { output, edit, .. } => {
                self.texts.add(TextKind::ToolOutput, output);
                if let Some(edit) = edit {
                    self.texts.add_once(TextKind::Files, &edit.path);
                }
            }
            DriverEvent::SubAgent { event: SubAgentEvent::Activity(event), .. } => self.collect_event(event),
            _ => {}
        }
    }

    fn append_delta(&mut self, part: PartId, text: &str) {
        match &mut self.part {
            Some((growing, so_far)) if *growing == part => so_far.push_str(text),
            _ => {
                self.finish_part();
                self.part = Some((part, text.to_owned()));
            }
        }
    }

    fn finish_part(&mut self) {
        if let Some((part, text)) = self.part.take() {
            let kind = match self.kinds.get(&part) {
                Some(PartKind::Reasoning) => TextKind::Reasoning,
                _ => TextKind::Answer,
            };
            self.texts.add(kind, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    fn raw(value: &Value) -> Arc<serde_json::value::RawValue> {
        Arc::from(serde_json::value::to_raw_value(value).unwrap())
    }

    #[test]
    fn stored_turn_yields_texts_by_kind() {
        let call = json!({
            "kind": "toolCall",
            "toolCall": {
                "status": "completed", "toolCallId": "c1", "toolName": "Bash", "displayName": "Run",
                "invocationMessage": "Running", "pastTenseMessage": "Ran", "success": true, "confirmed": "not-needed",
                "toolInput": "{\"command\":\"grep -rn\\nneedle\",\"file_path\":\"/w/src/main.rs\",\"limit\":3}",
                "content": [
                    {"type": "text", "text": "two lines"},
                    {"type": "fileEdit", "after": {"uri": "file:///w/a%20b.rs", "content": {"uri": "x:/y"}}},
                ],
            },
        });
        let turn: Turn = serde_json::from_value(json!({
            "id": "t1", "state": "complete",
            "message": {"text": "Please look", "origin": {"kind": "user"}},
            "responseParts": [
                {"kind": "reasoning", "id": "1", "content": "Hm."},
                call,
                {"kind": "markdown", "id": "2", "content": "Here **it** is."},
            ],
        }))
        .unwrap();
        let texts = turn_texts(&turn);
        let found: Vec<_> = TextKind::ALL.iter().map(|kind| texts.of(*kind)).collect();
        let files = "/w/src/main.rs\n/w/a b.rs";
        assert_eq!(
            found,
            ["", "Please look", "Here **it** is.", files, "Bash", "grep -rn\nneedle", "two lines", "Hm."]
        );
    }

    #[test]
    fn loaded_turn_yields_texts_by_kind_and_joins_streamed_deltas() {
        let (a, b) = (PartId(1), PartId(2));
        let sub = |event| DriverEvent::SubAgent {
            agent: hostler_driver::SubAgentId("s".to_owned()),
            event: SubAgentEvent::Activity(Box::new(event)),
        };
        let turn = LoadedTurn {
            id: uuid::Uuid::nil(),
            origin: TurnOrigin::User { text: "Please look".to_owned(), attachment_count: 0 },
            started_at: None,
            ended_at: None,
            events: vec![
                DriverEvent::PartStarted { part: a, kind: PartKind::Reasoning },
                DriverEvent::PartDelta { part: a, text: "Hm.".to_owned() },
                DriverEvent::PartStarted { part: b, kind: PartKind::Text },
                DriverEvent::PartDelta { part: b, text: "nee".to_owned() },
                DriverEvent::PartDelta { part: b, text: "dle".to_owned() },
                DriverEvent::ToolStarted { id: "c".to_owned(), name: "Read".to_owned(), display: Default::default() },
                DriverEvent::ToolReady {
                    id: "c".to_owned(),
                    input: raw(&json!({"file_path": "/w/x.rs"})),
                    display: Default::default(),
                },
                sub(DriverEvent::ToolFinished {
                    id: "d".to_owned(),
                    outcome: hostler_driver::ToolOutcome::Succeeded,
                    output: "printed".to_owned(),
                    edit: None,
                }),
            ],
        };
        let texts = loaded_turn_texts(&turn);
        let found: Vec<_> = TextKind::ALL.iter().map(|kind| texts.of(*kind)).collect();
        assert_eq!(found, ["", "Please look", "needle", "/w/x.rs", "Read", "", "printed", "Hm."]);
    }
}
