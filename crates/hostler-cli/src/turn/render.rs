//! A turn as text: the answer on stdout, what happens around it on stderr.

use std::collections::HashMap;
use std::io;

use ahp_types::actions::{ActionEnvelope, StateAction};
use ahp_types::state::{ErrorInfo, ResponsePart};

use crate::console::{Console, Style, one_line, printable};
use crate::exit::{Exit, Failure};
use crate::progress::Spinner;
use crate::visible::visible_line;

use super::TurnEnd;

/// Shows a turn's envelopes as they come.
pub(crate) struct Renderer {
    spinner: Spinner,
    /// What was written to stdout last, if anything.
    last: Option<Voice>,
    at_line_start: bool,
    tools: HashMap<String, Tool>,
}

/// Whose words they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Voice {
    Answer,
    Reasoning,
}

struct Tool {
    name: String,
    announced: bool,
}

impl Renderer {
    pub(crate) fn new(spinner: Spinner) -> Self {
        Self { spinner, last: None, at_line_start: true, tools: HashMap::new() }
    }

    /// Shows one envelope.
    pub(crate) fn show(&mut self, envelope: &ActionEnvelope, console: &mut Console) -> io::Result<()> {
        if envelope.rejection_reason.is_some() {
            return Ok(());
        }
        match &envelope.action {
            StateAction::ChatResponsePart(action) => match &action.part {
                ResponsePart::Markdown(part) => self.begin(Voice::Answer, &part.content, console),
                ResponsePart::Reasoning(part) => self.begin(Voice::Reasoning, &part.content, console),
                ResponsePart::SystemNotification(part) => {
                    self.line(&one_line(part.content.as_text()), Style::Dim, console);
                    Ok(())
                }
                _ => Ok(()),
            },
            StateAction::ChatDelta(action) => self.write(Voice::Answer, &action.content, console),
            StateAction::ChatReasoning(action) => self.write(Voice::Reasoning, &action.content, console),
            StateAction::ChatActivityChanged(action) => {
                self.spinner.say(&one_line(action.activity.as_deref().unwrap_or_default()));
                Ok(())
            }
            action => {
                self.show_tool(action, console);
                Ok(())
            }
        }
    }

    /// Shows a question that does not run into the answer on the same screen.
    pub(crate) fn prompt(&mut self, text: &str, console: &mut Console) {
        self.stand_apart(console);
        console.prompt(text);
    }

    /// Finishes the text: on a terminal the prompt stands on its own line.
    pub(crate) fn finish(&mut self, console: &mut Console) -> io::Result<()> {
        self.spinner.clear();
        if self.at_line_start || !console.out_is_terminal() {
            return Ok(());
        }
        self.at_line_start = true;
        console.out("\n")
    }

    /// A new part stands apart from the one before.
    fn begin(&mut self, voice: Voice, content: &str, console: &mut Console) -> io::Result<()> {
        if voice == Voice::Reasoning && !console.out_is_terminal() {
            return Ok(());
        }
        if self.last.take().is_some() {
            console.out(if self.at_line_start { "\n" } else { "\n\n" })?;
            self.at_line_start = true;
        }
        self.write(voice, content, console)
    }

    fn write(&mut self, voice: Voice, text: &str, console: &mut Console) -> io::Result<()> {
        let style = match voice {
            Voice::Answer => Style::Plain,
            // Thoughts are for people; a program that reads the answer gets the answer alone.
            Voice::Reasoning if !console.out_is_terminal() => return Ok(()),
            Voice::Reasoning => Style::Dim,
        };
        if text.is_empty() {
            return Ok(());
        }
        self.spinner.clear();
        self.last = Some(voice);
        self.at_line_start = text.ends_with('\n');
        console.out_foreign(text, style)
    }

    fn show_tool(&mut self, action: &StateAction, console: &mut Console) {
        match action {
            StateAction::ChatToolCallStart(action) => {
                let tool = Tool { name: visible_line(&action.display_name), announced: false };
                self.tools.insert(action.tool_call_id.clone(), tool);
            }
            StateAction::ChatToolCallReady(action) if action.confirmed.is_some() => {
                self.announce(&action.tool_call_id, action.invocation_message.as_text(), console);
            }
            StateAction::ChatToolCallConfirmed(action) if !action.approved => {
                let reason = action.reason_message.as_ref().map_or("", |reason| reason.as_text());
                self.tell(&action.tool_call_id, "refused", reason, console);
            }
            StateAction::ChatToolCallComplete(action) if action.result.success => {
                self.announce(&action.tool_call_id, action.result.past_tense_message.as_text(), console);
            }
            StateAction::ChatToolCallComplete(action) => {
                let reason = failure_text(action.result.error.as_ref())
                    .unwrap_or_else(|| action.result.past_tense_message.as_text());
                self.tell(&action.tool_call_id, "failed", reason, console);
            }
            _ => {}
        }
    }

    /// One line per call, the first time that it is known what it does.
    fn announce(&mut self, id: &str, what: &str, console: &mut Console) {
        let Some(tool) = self.tools.get_mut(id) else {
            return;
        };
        if std::mem::replace(&mut tool.announced, true) {
            return;
        }
        let text = format!("• {}: {}", tool.name, visible_line(what));
        self.line(&text, Style::Dim, console);
    }

    fn tell(&mut self, id: &str, verdict: &str, reason: &str, console: &mut Console) {
        let name = self.tools.get(id).map_or("tool", |tool| tool.name.as_str());
        let text = match one_line(reason) {
            reason if reason.is_empty() => format!("✗ {name}: {verdict}"),
            reason => format!("✗ {name}: {verdict}: {reason}"),
        };
        self.line(&text, Style::Dim, console);
    }

    /// A line on stderr that does not run into the answer on the same screen.
    fn line(&mut self, text: &str, style: Style, console: &mut Console) {
        self.stand_apart(console);
        console.note(text, style);
    }

    fn stand_apart(&mut self, console: &mut Console) {
        self.spinner.clear();
        if !self.at_line_start && console.out_is_terminal() && console.err_is_terminal() {
            self.at_line_start = console.out("\n").is_ok();
        }
    }
}

pub(crate) fn failure_text(error: Option<&serde_json::Value>) -> Option<&str> {
    let error = error?;
    error.as_str().or_else(|| error.get("message")?.as_str())
}

/// What a turn's end means for the command: a failure says why and what to do.
pub(crate) fn explain(end: TurnEnd) -> Result<(), Failure> {
    match end {
        TurnEnd::Complete | TurnEnd::Unread => Ok(()),
        TurnEnd::Interrupted | TurnEnd::Abandoned => Err(Failure::interrupted()),
        TurnEnd::Cancelled => {
            Err(Failure::new(Exit::Interrupted, "The turn was cancelled by another client or by the host's end."))
        }
        TurnEnd::Rejected(reason) => {
            Err(Failure::new(Exit::Failed, format!("The host did not take the message: {}", printable(&reason))))
        }
        TurnEnd::Lost(reason) => Err(Failure::new(Exit::Failed, reason)),
        TurnEnd::Failed(error) => Err(explain_error(&error)),
    }
}

fn explain_error(error: &ErrorInfo) -> Failure {
    let (exit, hint) = match error.error_type.as_str() {
        "auth" => (
            Exit::UpstreamRefused,
            "The upstream refused the credential: set HOSTLER_UPSTREAM_KEY (or the provider's usual variable) for the \
             host, or choose another upstream.",
        ),
        "agentMissing" => (Exit::AgentMissing, "Install the agent with `hostler agents install claude`."),
        _ => (Exit::Failed, ""),
    };
    let mut text = printable(&error.message);
    if let Some(stderr) = stderr_tail(error) {
        text.push_str("\nThe agent wrote:\n");
        for line in printable(stderr).lines() {
            text.push_str(&format!("  {line}\n"));
        }
    }
    let mut text = text.trim_end().to_owned();
    // The sentence may have said it already.
    let said = ["HOSTLER_UPSTREAM_KEY", "hostler agents"].iter().any(|way| error.message.contains(way));
    if !hint.is_empty() && !said {
        text.push('\n');
        text.push_str(hint);
    }
    Failure::new(exit, text)
}

/// The end of the agent's stderr, where the host gave it.
fn stderr_tail(error: &ErrorInfo) -> Option<&str> {
    let of_meta = error.meta.as_ref().and_then(|meta| meta.get("hostler")?.get("stderr")?.as_str());
    of_meta.or(error.stack.as_deref()).filter(|text| !text.trim().is_empty())
}
