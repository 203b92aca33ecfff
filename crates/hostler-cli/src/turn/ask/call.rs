//! A tool call that waits for a yes or a no.

use ahp_types::actions::{ChatToolCallConfirmedAction, ChatToolCallReadyAction, StateAction};
use ahp_types::state::{
    ConfirmationOption, ConfirmationOptionKind, ToolCallCancellationReason, ToolCallConfirmationReason, ToolInput,
};

use super::{Reply, is_no, is_yes, number};
use crate::console::{one_line, printable};

/// The host's option for a no with a word to the agent.
const DENY_TELL: &str = "deny-tell";
/// Of longer inputs the beginning is shown.
const LINES: usize = 40;
const CHARACTERS: usize = 4000;

/// A call, and how far its person is.
pub(super) struct PendingCall {
    turn: String,
    id: String,
    text: String,
    options: Vec<ConfirmationOption>,
    /// The chosen no wants a word to go with it.
    tells: Option<String>,
}

impl PendingCall {
    pub(super) fn new(name: String, ready: &ChatToolCallReadyAction) -> Self {
        let mut text = format!("\n? {name}: {}\n", one_line(ready.invocation_message.as_text()));
        match &ready.tool_input {
            Some(ToolInput::Inline(input)) => text.push_str(&beginning(input)),
            Some(ToolInput::ContentRef(_)) => text.push_str("  (The input is too long to be shown here.)\n"),
            None => {}
        }
        let options = ready.options.clone().filter(|options| !options.is_empty()).unwrap_or_else(plain_options);
        Self { turn: ready.turn_id.clone(), id: ready.tool_call_id.clone(), text, options, tells: None }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn restart(&mut self) {
        self.tells = None;
    }

    pub(super) fn prompt(&self) -> String {
        let mut text = self.text.clone();
        for (at, option) in self.options.iter().enumerate() {
            text.push_str(&format!("  {}  {}\n", at + 1, one_line(&option.label)));
        }
        format!("{text}A number, or a word to the agent that denies it: ")
    }

    pub(super) fn reply(&mut self, line: &str) -> Reply {
        if let Some(option) = self.tells.take() {
            return self.denial(Some(option), line);
        }
        let of_kind = |kind| self.options.iter().position(|option| option.kind == kind);
        let at = match number(line, self.options.len()) {
            Some(at) => Some(at),
            None if is_yes(line) => of_kind(ConfirmationOptionKind::Approve),
            None if is_no(line) => of_kind(ConfirmationOptionKind::Deny),
            None => None,
        };
        let again = || Reply::Again(format!("A number from 1 to {}, or a word: ", self.options.len()));
        match at.and_then(|at| self.options.get(at)) {
            Some(option) if option.kind == ConfirmationOptionKind::Approve => {
                self.confirmed(true, Some(option.id.clone()), "")
            }
            Some(option) if option.id == DENY_TELL => {
                self.tells = Some(option.id.clone());
                Reply::Again("What to do instead: ".to_owned())
            }
            Some(option) if option.kind == ConfirmationOptionKind::Deny => self.denial(Some(option.id.clone()), ""),
            // Nobody knows what an option of a newer kind does.
            Some(_) => again(),
            // Whoever types a number means an option.
            None if line.is_empty() || line.parse::<i64>().is_ok() || is_yes(line) || is_no(line) => again(),
            None => {
                let tells = self.options.iter().find(|option| option.id == DENY_TELL);
                self.denial(tells.map(|option| option.id.clone()), line)
            }
        }
    }

    fn denial(&self, option: Option<String>, words: &str) -> Reply {
        self.confirmed(false, option, words)
    }

    fn confirmed(&self, approved: bool, option: Option<String>, words: &str) -> Reply {
        Reply::Answer(Box::new(StateAction::ChatToolCallConfirmed(ChatToolCallConfirmedAction {
            turn_id: self.turn.clone(),
            tool_call_id: self.id.clone(),
            meta: None,
            approved,
            confirmed: approved.then_some(ToolCallConfirmationReason::UserAction),
            reason: (!approved).then_some(ToolCallCancellationReason::Denied),
            edited_tool_input: None,
            user_suggestion: None,
            reason_message: (!words.is_empty()).then(|| words.to_owned().into()),
            // Options that we made up are unknown to the host.
            selected_option_id: option.filter(|id| !id.is_empty()),
        })))
    }
}

/// For hosts that offer none.
fn plain_options() -> Vec<ConfirmationOption> {
    let option =
        |label: &str, kind| ConfirmationOption { id: String::new(), label: label.to_owned(), kind, group: None };
    vec![option("Allow", ConfirmationOptionKind::Approve), option("Deny", ConfirmationOptionKind::Deny)]
}

fn beginning(input: &str) -> String {
    let short: String = printable(input).chars().take(CHARACTERS).collect();
    let mut text: String = short.lines().take(LINES).map(|line| format!("  {line}\n")).collect();
    if input.chars().count() > CHARACTERS || short.lines().count() > LINES {
        text.push_str("  … (There is more.)\n");
    }
    text
}
