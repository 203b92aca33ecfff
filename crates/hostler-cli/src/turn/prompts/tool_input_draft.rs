//! Draft of a call's input: JSON that is changed in an editor, or typed anew without one.

use ahp_types::actions::ChatToolCallReadyAction;
use ahp_types::state::ToolInput;
use serde_json::Value;

/// Maximum size of an input; hosts accept no more.
const MAX_INPUT_BYTES: usize = 4 * 1024 * 1024;

/// Why an edited input is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ToolInputError {
    #[error("The input is longer than 4 MiB.")]
    TooLong,
    #[error("The input must be a JSON object.")]
    NotAnObject,
    #[error("The input is not valid JSON: {0}.")]
    InvalidJson(String),
}

/// Original input, the last edited text, and the input that replaces the original.
pub(super) struct ToolInputDraft {
    original: Value,
    text: String,
    changed: Option<Value>,
    typed_text: Option<String>,
}

impl ToolInputDraft {
    /// Returns the draft of a call's input, if it can be changed.
    pub(super) fn from_call(ready: &ChatToolCallReadyAction) -> Option<Self> {
        let Some(ToolInput::Inline(input)) = ready.tool_input.as_ref().filter(|_| ready.editable == Some(true)) else {
            return None;
        };
        let original: Value = serde_json::from_str(input).ok().filter(Value::is_object)?;
        Some(Self { text: format!("{original:#}\n"), original, changed: None, typed_text: None })
    }

    /// Returns the text to edit: the input, or the text of the last attempt.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the input that replaces the agent's.
    pub(super) fn changed(&self) -> Option<&Value> {
        self.changed.as_ref()
    }

    /// Applies an edited text. An invalid text is retained for the next attempt.
    pub(super) fn apply(&mut self, text: String) -> Result<(), ToolInputError> {
        if text.len() > MAX_INPUT_BYTES {
            return Err(ToolInputError::TooLong);
        }
        self.text = text;
        match serde_json::from_str(&self.text) {
            Ok(value @ Value::Object(_)) => {
                self.changed = (value != self.original).then_some(value);
                Ok(())
            }
            Ok(_) => Err(ToolInputError::NotAnObject),
            Err(error) => Err(ToolInputError::InvalidJson(error.to_string())),
        }
    }

    pub(super) fn begin_typing(&mut self) {
        self.typed_text = Some(String::new());
    }

    pub(super) fn is_typing(&self) -> bool {
        self.typed_text.is_some()
    }

    /// Adds a typed line; returns the whole text once it is complete. An empty text leaves the input unchanged.
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
