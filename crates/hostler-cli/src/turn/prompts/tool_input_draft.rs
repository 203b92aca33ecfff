//! A call's input in the hands of a person: JSON that is changed in an editor, or typed anew where there is none.

use ahp_types::actions::ChatToolCallReadyAction;
use ahp_types::state::ToolInput;
use serde_json::Value;

/// As long as hosts take; nobody types more.
const MAX_INPUT_BYTES: usize = 4 * 1024 * 1024;

/// The input as it came, as it was left, and what is to run instead.
pub(super) struct ToolInputDraft {
    original: Value,
    text: String,
    changed: Option<Value>,
    typed_text: Option<String>,
}

impl ToolInputDraft {
    /// The input of a call, if it can be changed.
    pub(super) fn from_call(ready: &ChatToolCallReadyAction) -> Option<Self> {
        let Some(ToolInput::Inline(input)) = ready.tool_input.as_ref().filter(|_| ready.editable == Some(true)) else {
            return None;
        };
        let original: Value = serde_json::from_str(input).ok().filter(Value::is_object)?;
        Some(Self { text: format!("{original:#}\n"), original, changed: None, typed_text: None })
    }

    /// What is to be changed: the input, or what was left of it by the last attempt.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The input that is to run instead of the agent's.
    pub(super) fn changed(&self) -> Option<&Value> {
        self.changed.as_ref()
    }

    /// Takes what a person made of it. The error is a sentence; the text is kept for the next attempt.
    pub(super) fn apply(&mut self, text: String) -> Result<(), String> {
        if text.len() > MAX_INPUT_BYTES {
            return Err("That is too long.".to_owned());
        }
        self.text = text;
        match serde_json::from_str(&self.text) {
            Ok(value @ Value::Object(_)) => {
                self.changed = (value != self.original).then_some(value);
                Ok(())
            }
            Ok(_) => Err("The input must be a JSON object, in braces.".to_owned()),
            Err(error) => Err(format!("That is not JSON: {error}.")),
        }
    }

    pub(super) fn begin_typing(&mut self) {
        self.typed_text = Some(String::new());
    }

    pub(super) fn is_typing(&self) -> bool {
        self.typed_text.is_some()
    }

    /// A typed line; the whole text once it is at its end. Nothing at all leaves the input as it is.
    pub(super) fn push_line(&mut self, line: &str) -> Option<String> {
        let typed = self.typed_text.as_mut()?;
        if line.is_empty() || line == "." || typed.len() > MAX_INPUT_BYTES {
            return self.typed_text.take().map(|typed| if typed.is_empty() { self.text.clone() } else { typed });
        }
        typed.push_str(line);
        typed.push('\n');
        None
    }

    pub(super) fn stop_typing(&mut self) {
        self.typed_text = None;
    }
}
