//! Maps a person's shell command to the tool call that displays it.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::ChatToolCallContentChangedAction;
use ahp_types::state::{ToolResultContent, ToolResultTextContent};
use hostler_driver::{DriverEvent, GateDecision, ToolDisplay, ToolKind, ToolOutcome};
use serde_json::json;
use serde_json::value::RawValue;

use super::{ActionBuffer, ActionMapper};
use crate::terminals::command_runner::CommandExit;

/// The name of the displayed tool.
pub(crate) const LOCAL_COMMAND_TOOL: &str = "Bash";

impl ActionMapper {
    /// Starts the tool call of a command.
    pub(crate) fn start_local_command(&mut self, call: &str, line: &str, input: Arc<RawValue>, out: &mut ActionBuffer) {
        let display = ToolDisplay {
            name: "Terminal".to_owned(),
            kind: ToolKind::Terminal,
            language: Some("shellscript"),
            running_text: format!("Running `{line}`"),
            finished_text: format!("Ran `{line}`"),
            ..ToolDisplay::default()
        };
        let id = call.to_owned();
        self.map_event(
            DriverEvent::ToolStarted { id, name: LOCAL_COMMAND_TOOL.to_owned(), display: display.clone() },
            out,
        );
        self.map_event(DriverEvent::ToolReady { id: call.to_owned(), input, display }, out);
        self.map_event(DriverEvent::ToolDecided { id: call.to_owned(), decision: GateDecision::Allow }, out);
    }

    /// Updates the call with the last output and the terminal that shows all of it.
    pub(crate) fn update_local_command(
        &self,
        call: &str,
        text: String,
        terminal: Option<ToolResultContent>,
        out: &mut ActionBuffer,
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

    /// Ends the call with the command's output. Without an exit the command did not run, and the output is the reason.
    pub(crate) fn end_local_command(
        &mut self,
        call: &str,
        end: Option<CommandExit>,
        printed: String,
        terminal: Option<ToolResultContent>,
        out: &mut ActionBuffer,
    ) {
        let outcome = if end == Some(CommandExit::Code(0)) { ToolOutcome::Succeeded } else { ToolOutcome::Failed };
        let id = call.to_owned();
        self.map_event(DriverEvent::ToolFinished { id, outcome, output: printed, edit: None }, out);
        let Some(StateAction::ChatToolCallComplete(over)) = out.actions.last_mut() else { return };
        if let Some(terminal) = terminal {
            over.result.content.get_or_insert_default().push(terminal);
        }
        over.result.structured_content = match end {
            Some(CommandExit::Code(code)) => json!({ "exitCode": code }).as_object().cloned(),
            Some(CommandExit::Signal(signal)) => json!({ "signal": signal }).as_object().cloned(),
            Some(CommandExit::Unknown) | None => None,
        };
        if let Some(end @ (CommandExit::Code(1..) | CommandExit::Signal(_))) = end {
            let how = match end {
                CommandExit::Code(code) => format!("exit code {code}"),
                CommandExit::Signal(signal) => format!("signal {signal}"),
                CommandExit::Unknown => String::new(),
            };
            over.result.error = Some(json!({ "message": how }));
        }
    }
}
