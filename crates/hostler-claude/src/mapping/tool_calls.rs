//! The tool calls of the running turn: state, result and outcome.

use std::collections::{HashMap, HashSet};

use hostler_driver::{DriverEvent, FileEdit, ToolOutcome};

/// Maximum length of a tool's output, in bytes.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// The running turn's tool calls.
#[derive(Debug, Default)]
pub(super) struct ToolCallTracker {
    calls: HashMap<String, CallState>,
    /// In the order of their start.
    order: Vec<String>,
    denied: HashSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum CallState {
    /// The model is writing its input.
    Started,
    /// Its input is complete.
    Ready,
    /// It has ended; retained so that it is not started or ended twice.
    Finished,
}

impl ToolCallTracker {
    /// Starts a call; returns whether it is new.
    pub(super) fn start(&mut self, id: &str) -> bool {
        if self.calls.contains_key(id) {
            return false;
        }
        self.calls.insert(id.to_owned(), CallState::Started);
        self.order.push(id.to_owned());
        true
    }

    /// Whether the call exists or existed.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.calls.contains_key(id)
    }

    /// Marks the input as complete; returns whether it was not before.
    pub(super) fn mark_ready(&mut self, id: &str) -> bool {
        match self.calls.get_mut(id) {
            Some(call @ CallState::Started) => {
                *call = CallState::Ready;
                true
            }
            _ => false,
        }
    }

    /// Whether the call's input is complete and its result has not arrived.
    pub(super) fn is_ready(&self, id: &str) -> bool {
        self.calls.get(id) == Some(&CallState::Ready)
    }

    /// Whether the model is still writing the call's input.
    pub(super) fn is_streaming_input(&self, id: &str) -> bool {
        self.calls.get(id) == Some(&CallState::Started)
    }

    /// The call was or will be denied.
    pub(super) fn mark_denied(&mut self, id: &str) {
        self.denied.insert(id.to_owned());
    }

    /// The call's result has arrived; `None` if there is no such call.
    pub(super) fn finish_with_result(
        &mut self,
        id: &str,
        is_error: bool,
        output: String,
        edit: Option<FileEdit>,
    ) -> Option<DriverEvent> {
        let hook_refusal = is_error.then(|| hook_refusal(&output)).flatten();
        let outcome = match is_error {
            true if self.denied.contains(id) || hook_refusal.is_some() || is_refusal(&output) => ToolOutcome::Denied,
            true => ToolOutcome::Failed,
            false => ToolOutcome::Succeeded,
        };
        let output = match hook_refusal {
            Some(reason) => reason.to_owned(),
            None if is_error => strip_error_markup(&output).to_owned(),
            None => output,
        };
        self.close(id, outcome, output, edit)
    }

    /// Ends a call that is still open.
    pub(super) fn finish_as(&mut self, id: &str, outcome: ToolOutcome, output: String) -> Option<DriverEvent> {
        self.close(id, outcome, output, None)
    }

    fn close(&mut self, id: &str, outcome: ToolOutcome, output: String, edit: Option<FileEdit>) -> Option<DriverEvent> {
        let call = self.calls.get_mut(id).filter(|call| **call != CallState::Finished)?;
        *call = CallState::Finished;
        Some(DriverEvent::ToolFinished { id: id.to_owned(), outcome, output: truncate_output(output), edit })
    }

    /// Ends every call that is still open, in the order of their start.
    pub(super) fn finish_all(&mut self, output: &str) -> Vec<DriverEvent> {
        let order = std::mem::take(&mut self.order);
        order
            .iter()
            .filter_map(|id| {
                let outcome = if self.denied.contains(id) { ToolOutcome::Denied } else { ToolOutcome::Failed };
                self.finish_as(id, outcome, output.to_owned())
            })
            .collect()
    }
}

/// The reason, if the text is a newer build's wording for a denial by a hook: `PreToolUse:Read hook error: <reason>`.
fn hook_refusal(output: &str) -> Option<&str> {
    let (tool, reason) = output.strip_prefix("PreToolUse:")?.split_once(" hook error: ")?;
    (!tool.contains(char::is_whitespace)).then_some(reason)
}

/// Prefixes of our own denial messages: the older build stores nothing else about a denial. (Its own messages are the
/// same for a call that was stopped while it ran.)
const REFUSAL_PREFIXES: [&str; 2] = ["The user did not allow this.", "The user does not want to answer."];

fn is_refusal(output: &str) -> bool {
    REFUSAL_PREFIXES.iter().any(|refusal| output.starts_with(refusal))
}

/// The error of a call that the agent did not run, without the markup for its model.
pub(super) fn strip_error_markup(output: &str) -> &str {
    let inner = output.strip_prefix("<tool_use_error>").and_then(|rest| rest.strip_suffix("</tool_use_error>"));
    inner.map_or(output, |inner| inner.strip_prefix("Error: ").unwrap_or(inner))
}

/// Truncates at a character boundary and marks it.
fn truncate_output(mut text: String) -> String {
    if text.len() > MAX_OUTPUT_BYTES {
        let length = text.len();
        text.truncate(text.floor_char_boundary(MAX_OUTPUT_BYTES));
        text.push_str(&format!("\n… ({length} bytes in total)"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_is_truncated_at_a_character_boundary() {
        let cut = truncate_output("é".repeat(MAX_OUTPUT_BYTES));
        assert!(cut.ends_with("é\n… (131072 bytes in total)"));
        assert!(cut.len() < MAX_OUTPUT_BYTES + 64);
    }

    #[test]
    fn only_the_hook_wording_is_a_denial() {
        assert_eq!(hook_refusal("PreToolUse:Read hook error: no"), Some("no"));
        assert_eq!(hook_refusal("PreToolUse: a file that mentions hook error: x"), None);
        assert_eq!(hook_refusal("no such file"), None);
    }
}
