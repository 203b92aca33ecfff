//! Renders a turn as text: the response on stdout, tool calls and notices on stderr.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;

use ahp_types::actions::{ActionEnvelope, StateAction};
use ahp_types::state::{ErrorInfo, ResponsePart};

use crate::console::{Console, TextStyle, strip_control_characters, to_one_line};
use crate::escape_text::escape_invisible_line;
use crate::exit::{CommandFailure, Exit};
use crate::progress::Spinner;

use super::TurnEnd;

/// Renders a turn's envelopes as they arrive.
pub(crate) struct TurnRenderer {
    spinner: Spinner,
    /// Kind of the last output on stdout, if any.
    last_output: Option<OutputKind>,
    at_line_start: bool,
    tools: HashMap<String, ToolCallDisplay>,
}

/// Kind of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputKind {
    Answer,
    Reasoning,
}

struct ToolCallDisplay {
    name: String,
    is_announced: bool,
}

impl TurnRenderer {
    pub(crate) fn new(spinner: Spinner) -> Self {
        Self { spinner, last_output: None, at_line_start: true, tools: HashMap::new() }
    }

    /// Renders one envelope.
    pub(crate) fn show(&mut self, envelope: &ActionEnvelope, console: &mut Console) -> io::Result<()> {
        if envelope.rejection_reason.is_some() {
            return Ok(());
        }
        match &envelope.action {
            StateAction::ChatResponsePart(action) => match &action.part {
                ResponsePart::Markdown(part) => self.begin_part(OutputKind::Answer, &part.content, console),
                ResponsePart::Reasoning(part) => self.begin_part(OutputKind::Reasoning, &part.content, console),
                ResponsePart::SystemNotification(part) => {
                    self.print_line(&to_one_line(part.content.as_text()), TextStyle::Dim, console);
                    Ok(())
                }
                _ => Ok(()),
            },
            StateAction::ChatDelta(action) => self.write(OutputKind::Answer, &action.content, console),
            StateAction::ChatReasoning(action) => self.write(OutputKind::Reasoning, &action.content, console),
            StateAction::ChatActivityChanged(action) => {
                self.spinner.set_text(&to_one_line(action.activity.as_deref().unwrap_or_default()));
                Ok(())
            }
            action => {
                self.show_tool(action, console);
                Ok(())
            }
        }
    }

    /// Prints a question on a line of its own.
    pub(crate) fn show_prompt(&mut self, text: &str, console: &mut Console) {
        self.break_line(console);
        console.write_prompt(text);
    }

    /// Ends the text with a line break on a terminal, so that the shell prompt starts on its own line.
    pub(crate) fn finish(&mut self, console: &mut Console) -> io::Result<()> {
        self.spinner.clear();
        if self.at_line_start || !console.out_is_terminal() {
            return Ok(());
        }
        self.at_line_start = true;
        console.write_out("\n")
    }

    /// Separates a new part from the one before.
    fn begin_part(&mut self, kind: OutputKind, content: &str, console: &mut Console) -> io::Result<()> {
        if kind == OutputKind::Reasoning && !console.out_is_terminal() {
            return Ok(());
        }
        if self.last_output.take().is_some() {
            console.write_out(if self.at_line_start { "\n" } else { "\n\n" })?;
            self.at_line_start = true;
        }
        self.write(kind, content, console)
    }

    fn write(&mut self, kind: OutputKind, text: &str, console: &mut Console) -> io::Result<()> {
        let style = match kind {
            OutputKind::Answer => TextStyle::Plain,
            // Reasoning is for people; a program that reads stdout gets the response alone.
            OutputKind::Reasoning if !console.out_is_terminal() => return Ok(()),
            OutputKind::Reasoning => TextStyle::Dim,
        };
        if text.is_empty() {
            return Ok(());
        }
        self.spinner.clear();
        self.last_output = Some(kind);
        self.at_line_start = text.ends_with('\n');
        console.write_out_untrusted(text, style)
    }

    fn show_tool(&mut self, action: &StateAction, console: &mut Console) {
        match action {
            StateAction::ChatToolCallStart(action) => {
                let tool = ToolCallDisplay { name: escape_invisible_line(&action.display_name), is_announced: false };
                self.tools.insert(action.tool_call_id.clone(), tool);
            }
            StateAction::ChatToolCallReady(action) if action.confirmed.is_some() => {
                self.print_tool_call(&action.tool_call_id, action.invocation_message.as_text(), console);
            }
            StateAction::ChatToolCallConfirmed(action) if !action.approved => {
                let reason = action.reason_message.as_ref().map_or("", |reason| reason.as_text());
                self.print_tool_outcome(&action.tool_call_id, "denied", reason, console);
            }
            StateAction::ChatToolCallComplete(action) if action.result.success => {
                self.print_tool_call(&action.tool_call_id, action.result.past_tense_message.as_text(), console);
            }
            StateAction::ChatToolCallComplete(action) => {
                let reason = tool_error_text(action.result.error.as_ref())
                    .unwrap_or_else(|| action.result.past_tense_message.as_text());
                self.print_tool_outcome(&action.tool_call_id, "failed", reason, console);
            }
            _ => {}
        }
    }

    /// Prints one line per call, when its description is first known.
    fn print_tool_call(&mut self, id: &str, what: &str, console: &mut Console) {
        let Some(tool) = self.tools.get_mut(id) else {
            return;
        };
        if std::mem::replace(&mut tool.is_announced, true) {
            return;
        }
        let text = format!("• {}: {}", tool.name, escape_invisible_line(what));
        self.print_line(&text, TextStyle::Dim, console);
    }

    fn print_tool_outcome(&mut self, id: &str, outcome: &str, reason: &str, console: &mut Console) {
        let name = self.tools.get(id).map_or("tool", |tool| tool.name.as_str());
        let text = match to_one_line(reason) {
            reason if reason.is_empty() => format!("✗ {name}: {outcome}"),
            reason => format!("✗ {name}: {outcome}: {reason}"),
        };
        self.print_line(&text, TextStyle::Dim, console);
    }

    /// Prints a line on stderr that does not run into the response on the same terminal.
    fn print_line(&mut self, text: &str, style: TextStyle, console: &mut Console) {
        self.break_line(console);
        console.write_note(text, style);
    }

    fn break_line(&mut self, console: &mut Console) {
        self.spinner.clear();
        if !self.at_line_start && console.out_is_terminal() && console.err_is_terminal() {
            self.at_line_start = console.write_out("\n").is_ok();
        }
    }
}

pub(crate) fn tool_error_text(error: Option<&serde_json::Value>) -> Option<&str> {
    let error = error?;
    error.as_str().or_else(|| error.get("message")?.as_str())
}

/// Converts a turn's end to the command's result: a failure explains why and what to do.
pub(crate) fn turn_end_result(end: TurnEnd) -> Result<(), CommandFailure> {
    match end {
        TurnEnd::Complete | TurnEnd::OutputClosed => Ok(()),
        TurnEnd::Interrupted | TurnEnd::Abandoned => Err(CommandFailure::interrupted()),
        TurnEnd::Cancelled => Err(CommandFailure::new(
            Exit::Interrupted,
            "turnCancelled",
            "The turn was canceled by another client or by the shutdown of the host.",
        )),
        TurnEnd::Rejected { code, reason } => Err(CommandFailure::new(
            Exit::Failed,
            code.map_or("actionRejected".into(), Cow::Owned),
            format!("The host rejected the message: {}", strip_control_characters(&reason)),
        )),
        TurnEnd::SessionRemoved => {
            Err(CommandFailure::new(Exit::Failed, "sessionRemoved", "The session was deleted during the turn."))
        }
        TurnEnd::ConnectionLost(reason) => Err(CommandFailure::new(Exit::Failed, "connectionClosed", reason)),
        TurnEnd::Failed(error) => Err(turn_error_failure(&error)),
    }
}

fn turn_error_failure(error: &ErrorInfo) -> CommandFailure {
    let (exit, hint) = match error.error_type.as_str() {
        "auth" => (
            Exit::UpstreamRefused,
            "The upstream rejected the credential. Set HOSTLER_UPSTREAM_KEY (or the provider's own variable) for the \
             host, or choose another upstream.",
        ),
        "agentMissing" => (Exit::AgentMissing, "Install the agent with `hostler agents install claude`."),
        _ => (Exit::Failed, ""),
    };
    let mut text = strip_control_characters(&error.message);
    if let Some(stderr) = stderr_tail(error) {
        text.push_str("\nOutput of the agent:\n");
        for line in strip_control_characters(stderr).lines() {
            text.push_str(&format!("  {line}\n"));
        }
    }
    let mut text = text.trim_end().to_owned();
    // The error may already contain the hint.
    let has_hint = ["HOSTLER_UPSTREAM_KEY", "hostler agents"].iter().any(|command| error.message.contains(command));
    if !hint.is_empty() && !has_hint {
        text.push('\n');
        text.push_str(hint);
    }
    let code = if error.error_type.is_empty() { Cow::Borrowed("turnFailed") } else { error.error_type.clone().into() };
    CommandFailure::new(exit, code, text)
}

/// Returns the end of the agent's stderr, if the host sent it.
fn stderr_tail(error: &ErrorInfo) -> Option<&str> {
    let of_meta = error.meta.as_ref().and_then(|meta| meta.get("hostler")?.get("stderr")?.as_str());
    of_meta.or(error.stack.as_deref()).filter(|text| !text.trim().is_empty())
}
