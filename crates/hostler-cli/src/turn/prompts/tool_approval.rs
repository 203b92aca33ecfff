//! Prompt for a tool call that waits for approval.

use ahp_types::actions::{ChatToolCallConfirmedAction, ChatToolCallReadyAction, StateAction};
use ahp_types::state::{
    ConfirmationOption, ConfirmationOptionKind, ToolCallCancellationReason, ToolCallConfirmationReason, ToolInput,
};
use serde_json::Value;

use super::tool_input_draft::ToolInputDraft;
use super::{LineOutcome, is_no, is_yes, parse_option_number};
use crate::escape_text::{escape_invisible_code, escape_invisible_line};
use crate::turn::EditorError;

/// Host option that denies with a message to the agent.
const DENY_WITH_FEEDBACK_OPTION: &str = "deny-with-feedback";
/// Maximum number of displayed input lines.
const MAX_INPUT_LINES: usize = 40;
const MAX_INPUT_CHARS: usize = 4000;
const ALLOW_CHANGED_LABEL: &str = "Allow with the changed input";
/// Shown if no editor is configured.
const TYPE_INPUT_HINT: &str =
    "Enter the complete input and end it with an empty line. An empty input changes nothing.\n";

/// Pending call and the state of its prompt.
pub(super) struct ToolApprovalPrompt {
    turn: String,
    id: String,
    heading: String,
    input: String,
    options: Vec<ConfirmationOption>,
    /// Selected deny option that waits for its message.
    deny_message_option: Option<String>,
    /// The input, if it can be changed.
    draft: Option<ToolInputDraft>,
    /// Whether there is an editor for the input.
    has_editor: bool,
}

impl ToolApprovalPrompt {
    pub(super) fn new(name: &str, ready: &ChatToolCallReadyAction, has_editor: bool) -> Self {
        let input = match &ready.tool_input {
            Some(ToolInput::Inline(input)) => truncate_input(input),
            Some(ToolInput::ContentRef(_)) => "  (The input is too long to show.)\n".to_owned(),
            None => String::new(),
        };
        Self {
            turn: ready.turn_id.clone(),
            id: ready.tool_call_id.clone(),
            heading: format!("\n? {name}: {}\n", escape_invisible_line(ready.invocation_message.as_text())),
            input,
            options: ready.options.clone().filter(|options| !options.is_empty()).unwrap_or_else(default_options),
            deny_message_option: None,
            draft: ToolInputDraft::from_call(ready),
            has_editor,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn restart(&mut self) {
        self.deny_message_option = None;
        if let Some(draft) = &mut self.draft {
            draft.stop_typing();
        }
    }

    /// Returns the options. A changed input can only be allowed once: the host's other options refer to the agent's
    /// own input.
    fn options(&self) -> Vec<ConfirmationOption> {
        if self.changed_input().is_none() {
            return self.options.clone();
        }
        let denials = self.options.iter().filter(|option| option.kind == ConfirmationOptionKind::Deny).cloned();
        let kind = ConfirmationOptionKind::Approve;
        let allowed =
            ConfirmationOption { id: String::new(), label: ALLOW_CHANGED_LABEL.to_owned(), kind, group: None };
        std::iter::once(allowed).chain(denials).collect()
    }

    fn changed_input(&self) -> Option<&Value> {
        self.draft.as_ref().and_then(ToolInputDraft::changed)
    }

    pub(super) fn prompt(&self) -> String {
        let mut text = self.heading.clone();
        match self.changed_input() {
            Some(changed) => text.push_str(&format!("  Changed to:\n{}", truncate_input(&format!("{changed:#}")))),
            None => text.push_str(&self.input),
        }
        for (at, option) in self.options().iter().enumerate() {
            text.push_str(&format!("  {}  {}\n", at + 1, escape_invisible_line(&option.label)));
        }
        let edit = if self.draft.is_some() { ", e to edit the input" } else { "" };
        format!("{text}Enter a number{edit}, or a message that denies the call: ")
    }

    /// Handles the edited input, or why there is none.
    pub(super) fn handle_edited(&mut self, edited: Result<String, EditorError>) -> LineOutcome {
        let problem = match (edited, &mut self.draft) {
            (Ok(text), Some(draft)) => draft.apply(text).err().map(|error| error.to_string()),
            (Ok(_), None) => None,
            (Err(error), _) => Some(error.to_string()),
        };
        LineOutcome::Reprompt(match problem {
            Some(problem) => format!("\n{}\n{}", escape_invisible_line(&problem), self.prompt()),
            None => self.prompt(),
        })
    }

    pub(super) fn handle_line(&mut self, line: &str) -> LineOutcome {
        if let Some(option) = self.deny_message_option.take() {
            return self.deny(Some(option), line);
        }
        match &mut self.draft {
            Some(draft) if draft.is_typing() => {
                return match draft.push_line(line) {
                    Some(text) => self.handle_edited(Ok(text)),
                    None => LineOutcome::Reprompt(String::new()),
                };
            }
            Some(draft) if is_edit(line) && self.has_editor => return LineOutcome::Edit(draft.text().to_owned()),
            Some(draft) if is_edit(line) => {
                draft.begin_typing();
                return LineOutcome::Reprompt(format!("{}{TYPE_INPUT_HINT}", escape_invisible_code(draft.text())));
            }
            _ => {}
        }
        let options = self.options();
        let of_kind = |kind| options.iter().position(|option| option.kind == kind);
        let at = match parse_option_number(line, options.len()) {
            Some(at) => Some(at),
            None if is_yes(line) => of_kind(ConfirmationOptionKind::Approve),
            None if is_no(line) => of_kind(ConfirmationOptionKind::Deny),
            None => None,
        };
        let reprompt = || LineOutcome::Reprompt(format!("Enter a number from 1 to {}, or a message: ", options.len()));
        match at.and_then(|at| options.get(at)) {
            Some(option) if option.kind == ConfirmationOptionKind::Approve => {
                self.confirm(true, Some(option.id.clone()), "")
            }
            Some(option) if option.id == DENY_WITH_FEEDBACK_OPTION => {
                self.deny_message_option = Some(option.id.clone());
                LineOutcome::Reprompt("What should the agent do instead? ".to_owned())
            }
            Some(option) if option.kind == ConfirmationOptionKind::Deny => self.deny(Some(option.id.clone()), ""),
            // Options of a newer kind have an unknown effect.
            Some(_) => reprompt(),
            // A number is meant as an option.
            None if line.is_empty() || line.parse::<i64>().is_ok() || is_yes(line) || is_no(line) => reprompt(),
            None => {
                let feedback = options.iter().find(|option| option.id == DENY_WITH_FEEDBACK_OPTION);
                self.deny(feedback.map(|option| option.id.clone()), line)
            }
        }
    }

    fn deny(&self, option: Option<String>, message: &str) -> LineOutcome {
        self.confirm(false, option, message)
    }

    fn confirm(&self, approved: bool, option: Option<String>, message: &str) -> LineOutcome {
        LineOutcome::Answer(Box::new(StateAction::ChatToolCallConfirmed(ChatToolCallConfirmedAction {
            turn_id: self.turn.clone(),
            tool_call_id: self.id.clone(),
            meta: None,
            approved,
            confirmed: approved.then_some(ToolCallConfirmationReason::UserAction),
            reason: (!approved).then_some(ToolCallCancellationReason::Denied),
            edited_tool_input: self.changed_input().filter(|_| approved).map(Value::to_string),
            user_suggestion: None,
            reason_message: (!message.is_empty()).then(|| message.to_owned().into()),
            // The host does not know our own default options.
            selected_option_id: option.filter(|id| !id.is_empty()),
        })))
    }
}

fn is_edit(line: &str) -> bool {
    line.eq_ignore_ascii_case("e") || line.eq_ignore_ascii_case("edit")
}

/// Returns the options for hosts that offer none.
fn default_options() -> Vec<ConfirmationOption> {
    let option =
        |label: &str, kind| ConfirmationOption { id: String::new(), label: label.to_owned(), kind, group: None };
    vec![option("Allow", ConfirmationOptionKind::Approve), option("Deny", ConfirmationOptionKind::Deny)]
}

fn truncate_input(input: &str) -> String {
    let shown = escape_invisible_code(input);
    let short: String = shown.chars().take(MAX_INPUT_CHARS).collect();
    let mut text: String = short.lines().take(MAX_INPUT_LINES).map(|line| format!("  {line}\n")).collect();
    if shown.chars().count() > MAX_INPUT_CHARS || short.lines().count() > MAX_INPUT_LINES {
        text.push_str("  … (truncated)\n");
    }
    text
}
