//! A command of a person, shown as a call of a tool.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::ChatToolCallContentChangedAction;
use ahp_types::state::{ToolResultContent, ToolResultTextContent};
use hostler_driver::{DriverEvent, Gate, ToolDisplay, ToolKind, ToolOutcome};
use serde_json::json;
use serde_json::value::RawValue;

use super::{Output, Transcript};
use crate::commands::CommandEnd;

/// The tool's name.
pub(crate) const TOOL: &str = "Bash";

impl Transcript {
    /// A person's command begins to run.
    pub(crate) fn command_began(&mut self, call: &str, line: &str, input: Arc<RawValue>, out: &mut Output) {
        let display = ToolDisplay {
            name: "Terminal".to_owned(),
            kind: ToolKind::Terminal,
            language: Some("shellscript"),
            present: format!("Running `{line}`"),
            past: format!("Ran `{line}`"),
            ..ToolDisplay::default()
        };
        let id = call.to_owned();
        self.show(DriverEvent::ToolStarted { id, name: TOOL.to_owned(), display: display.clone() }, out);
        self.show(DriverEvent::ToolReady { id: call.to_owned(), input, display }, out);
        self.show(DriverEvent::ToolGated { id: call.to_owned(), gate: Gate::Allow }, out);
    }

    /// What it has printed lately, and where the rest is shown.
    pub(crate) fn command_printed(
        &self,
        call: &str,
        text: String,
        terminal: Option<ToolResultContent>,
        out: &mut Output,
    ) {
        let text = (!text.is_empty()).then_some(ToolResultContent::Text(ToolResultTextContent { text }));
        let content: Vec<_> = text.into_iter().chain(terminal).collect();
        if content.is_empty() {
            return;
        }
        out.push(StateAction::ChatToolCallContentChanged(ChatToolCallContentChangedAction {
            turn_id: self.turn().to_owned(),
            tool_call_id: call.to_owned(),
            meta: None,
            content,
        }));
    }

    /// It has ended, and this is what it printed. Without an end it did not run, and this is why.
    pub(crate) fn command_ended(
        &mut self,
        call: &str,
        end: Option<CommandEnd>,
        printed: String,
        terminal: Option<ToolResultContent>,
        out: &mut Output,
    ) {
        let outcome = if end == Some(CommandEnd::Code(0)) { ToolOutcome::Succeeded } else { ToolOutcome::Failed };
        let id = call.to_owned();
        self.show(DriverEvent::ToolFinished { id, outcome, output: printed, edit: None }, out);
        let Some(StateAction::ChatToolCallComplete(over)) = out.actions.last_mut() else { return };
        if let Some(terminal) = terminal {
            over.result.content.get_or_insert_default().push(terminal);
        }
        over.result.structured_content = match end {
            Some(CommandEnd::Code(code)) => json!({ "exitCode": code }).as_object().cloned(),
            Some(CommandEnd::Signal(signal)) => json!({ "signal": signal }).as_object().cloned(),
            Some(CommandEnd::Unknown) | None => None,
        };
        if let Some(end @ (CommandEnd::Code(1..) | CommandEnd::Signal(_))) = end {
            let how = match end {
                CommandEnd::Code(code) => format!("exit code {code}"),
                CommandEnd::Signal(signal) => format!("signal {signal}"),
                CommandEnd::Unknown => String::new(),
            };
            over.result.error = Some(json!({ "message": how }));
        }
    }
}
