//! What can be found of a turn: of one that this host ran, and of one that an agent's record tells. Pure.

use std::collections::HashMap;

use ahp_types::state::{
    FileEditSide, MessageAttachment, ResponsePart, ToolCallState, ToolInput, ToolResultContent, Turn,
};
use hostler_driver::{DriverEvent, PartId, PartKind, Said, SubAgentEvent, ToldTurn};
use hostler_search::{Kind, Texts};
use serde_json::Value;
use url::Url;

/// Of a turn of the store.
pub(super) fn of_turn(turn: &Turn) -> Texts {
    let mut texts = Texts::default();
    texts.add(Kind::Person, &turn.message.text);
    for attachment in turn.message.attachments.iter().flatten() {
        if let MessageAttachment::Resource(file) = attachment {
            texts.add_once(Kind::Files, &file.label);
        }
    }
    for part in &turn.response_parts {
        match part {
            ResponsePart::Markdown(text) => texts.add(Kind::Answer, &text.content),
            ResponsePart::Reasoning(text) => texts.add(Kind::Reasoning, &text.content),
            ResponsePart::SystemNotification(note) => texts.add(Kind::Answer, note.content.as_text()),
            ResponsePart::ToolCall(call) => of_call(&call.tool_call, &mut texts),
            _ => {}
        }
    }
    texts
}

fn of_call(call: &ToolCallState, texts: &mut Texts) {
    match call {
        ToolCallState::Completed(call) => {
            texts.add_once(Kind::Tool, &call.tool_name);
            of_input(call.tool_input.as_ref(), texts);
            call.content.iter().flatten().for_each(|content| of_result(content, texts));
        }
        ToolCallState::Cancelled(call) => {
            texts.add_once(Kind::Tool, &call.tool_name);
            of_input(call.tool_input.as_ref(), texts);
        }
        _ => {}
    }
}

fn of_input(input: Option<&ToolInput>, texts: &mut Texts) {
    if let Some(ToolInput::Inline(input)) = input {
        told_input(input, texts);
    }
}

fn of_result(content: &ToolResultContent, texts: &mut Texts) {
    match content {
        ToolResultContent::Text(text) => texts.add(Kind::Output, &text.text),
        ToolResultContent::Terminal(terminal) => {
            let preview = terminal.result.as_ref().and_then(|result| result.preview.as_deref());
            texts.add(Kind::Output, preview.unwrap_or_default());
        }
        ToolResultContent::FileEdit(edit) => {
            for side in [&edit.before, &edit.after].into_iter().flatten() {
                texts.add_once(Kind::Files, &path(side));
            }
        }
        _ => {}
    }
}

fn path(side: &FileEditSide) -> String {
    let path = Url::parse(&side.uri).ok().and_then(|url| url.to_file_path().ok());
    path.map_or_else(|| side.uri.clone(), |path| path.display().to_string())
}

/// The texts in a tool's input, without the JSON around them; those that name files are files.
fn told_input(input: &str, texts: &mut Texts) {
    match serde_json::from_str(input) {
        Ok(Value::Object(object)) => object.iter().for_each(|(name, value)| value_of(name, value, texts)),
        Ok(Value::Array(values)) => values.iter().for_each(|value| value_of("", value, texts)),
        // A command may be shown as it is.
        _ => texts.add(Kind::Input, input),
    }
}

fn value_of(name: &str, value: &Value, texts: &mut Texts) {
    match value {
        Value::String(text) if names_file(name) && !text.contains('\n') => texts.add_once(Kind::Files, text),
        Value::String(text) => texts.add(Kind::Input, text),
        Value::Array(values) => values.iter().for_each(|value| value_of(name, value, texts)),
        Value::Object(object) => object.iter().for_each(|(name, value)| value_of(name, value, texts)),
        _ => {}
    }
}

/// Agents call it `path`, `file_path`, `filePath`, `notebook_path`, `file`.
fn names_file(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("path") || name.ends_with("paths") || name == "file" || name == "files"
}

/// Of a turn that an agent's record tells. What its sub-agents did is part of it.
pub(super) fn of_told(told: &ToldTurn) -> Texts {
    let mut telling = Telling::default();
    match &told.said {
        Said::Person { text, .. } => telling.texts.add(Kind::Person, text),
        Said::Agent(reason) => telling.texts.add(Kind::Answer, reason),
    }
    told.events.iter().for_each(|event| telling.hear(event));
    telling.end_part();
    telling.texts
}

#[derive(Default)]
struct Telling {
    texts: Texts,
    kinds: HashMap<PartId, PartKind>,
    /// The part that grows, and how far it has come.
    part: Option<(PartId, String)>,
}

impl Telling {
    fn hear(&mut self, event: &DriverEvent) {
        match event {
            DriverEvent::PartStarted { part, kind } => {
                self.kinds.insert(*part, *kind);
            }
            DriverEvent::Delta { part, text } => self.grow(*part, text),
            DriverEvent::ToolStarted { name, .. } => self.texts.add_once(Kind::Tool, name),
            DriverEvent::ToolReady { input, .. } => told_input(input.get(), &mut self.texts),
            DriverEvent::ToolFinished { output, edit, .. } => {
                self.texts.add(Kind::Output, output);
                if let Some(edit) = edit {
                    self.texts.add_once(Kind::Files, &edit.path);
                }
            }
            DriverEvent::SubAgent { event: SubAgentEvent::Did(event), .. } => self.hear(event),
            _ => {}
        }
    }

    fn grow(&mut self, part: PartId, text: &str) {
        match &mut self.part {
            Some((growing, so_far)) if *growing == part => so_far.push_str(text),
            _ => {
                self.end_part();
                self.part = Some((part, text.to_owned()));
            }
        }
    }

    fn end_part(&mut self) {
        if let Some((part, text)) = self.part.take() {
            let kind = match self.kinds.get(&part) {
                Some(PartKind::Reasoning) => Kind::Reasoning,
                _ => Kind::Answer,
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
    fn of_a_turn_of_the_store_everything_is_found_by_its_kind() {
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
        let texts = of_turn(&turn);
        let found: Vec<_> = Kind::ALL.iter().map(|kind| texts.of(*kind)).collect();
        let files = "/w/src/main.rs\n/w/a b.rs";
        assert_eq!(
            found,
            ["", "Please look", "Here **it** is.", files, "Bash", "grep -rn\nneedle", "two lines", "Hm."]
        );
    }

    #[test]
    fn of_a_told_turn_the_same_is_found_and_words_are_not_cut_where_they_were_streamed() {
        let (a, b) = (PartId(1), PartId(2));
        let sub = |event| DriverEvent::SubAgent {
            agent: hostler_driver::SubAgentId("s".to_owned()),
            event: SubAgentEvent::Did(Box::new(event)),
        };
        let told = ToldTurn {
            id: uuid::Uuid::nil(),
            said: Said::Person { text: "Please look".to_owned(), attached: 0 },
            began: None,
            ended: None,
            events: vec![
                DriverEvent::PartStarted { part: a, kind: PartKind::Reasoning },
                DriverEvent::Delta { part: a, text: "Hm.".to_owned() },
                DriverEvent::PartStarted { part: b, kind: PartKind::Text },
                DriverEvent::Delta { part: b, text: "nee".to_owned() },
                DriverEvent::Delta { part: b, text: "dle".to_owned() },
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
        let texts = of_told(&told);
        let found: Vec<_> = Kind::ALL.iter().map(|kind| texts.of(*kind)).collect();
        assert_eq!(found, ["", "Please look", "needle", "/w/x.rs", "Read", "", "printed", "Hm."]);
    }
}
