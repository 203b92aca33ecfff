//! A tool call that waits for a yes or a no.

use ahp_types::actions::{ChatToolCallConfirmedAction, ChatToolCallReadyAction, StateAction};
use ahp_types::state::{
    ConfirmationOption, ConfirmationOptionKind, ToolCallCancellationReason, ToolCallConfirmationReason, ToolInput,
};
use serde_json::Value;

use super::draft::Draft;
use super::{Reply, is_no, is_yes, number};
use crate::visible::{exact, visible_line};

/// The host's option for a no with a word to the agent.
const DENY_TELL: &str = "deny-tell";
/// Of longer inputs the beginning is shown.
const LINES: usize = 40;
const CHARACTERS: usize = 4000;
const CHANGED: &str = "Allow it with the changed input";
/// Where no editor is known.
const TYPE: &str = "Type the whole input; an empty line ends it, and nothing at all leaves it as it is.\n";

/// A call, and how far its person is.
pub(super) struct PendingCall {
    turn: String,
    id: String,
    heading: String,
    input: String,
    options: Vec<ConfirmationOption>,
    /// The chosen no wants a word to go with it.
    tells: Option<String>,
    /// The input, where it can be changed.
    draft: Option<Draft>,
    /// Whether there is an editor to change it in.
    editor: bool,
}

impl PendingCall {
    pub(super) fn new(name: &str, ready: &ChatToolCallReadyAction, editor: bool) -> Self {
        let input = match &ready.tool_input {
            Some(ToolInput::Inline(input)) => beginning(input),
            Some(ToolInput::ContentRef(_)) => "  (The input is too long to be shown here.)\n".to_owned(),
            None => String::new(),
        };
        Self {
            turn: ready.turn_id.clone(),
            id: ready.tool_call_id.clone(),
            heading: format!("\n? {name}: {}\n", visible_line(ready.invocation_message.as_text())),
            input,
            options: ready.options.clone().filter(|options| !options.is_empty()).unwrap_or_else(plain_options),
            tells: None,
            draft: Draft::of(ready),
            editor,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn restart(&mut self) {
        self.tells = None;
        if let Some(draft) = &mut self.draft {
            draft.stop_typing();
        }
    }

    /// What a person can choose. A changed input is allowed once: what else the host offers is about the agent's own.
    fn options(&self) -> Vec<ConfirmationOption> {
        if self.changed().is_none() {
            return self.options.clone();
        }
        let denials = self.options.iter().filter(|option| option.kind == ConfirmationOptionKind::Deny).cloned();
        let kind = ConfirmationOptionKind::Approve;
        let allowed = ConfirmationOption { id: String::new(), label: CHANGED.to_owned(), kind, group: None };
        std::iter::once(allowed).chain(denials).collect()
    }

    fn changed(&self) -> Option<&Value> {
        self.draft.as_ref().and_then(Draft::changed)
    }

    pub(super) fn prompt(&self) -> String {
        let mut text = self.heading.clone();
        match self.changed() {
            Some(changed) => text.push_str(&format!("  Changed to:\n{}", beginning(&format!("{changed:#}")))),
            None => text.push_str(&self.input),
        }
        for (at, option) in self.options().iter().enumerate() {
            text.push_str(&format!("  {}  {}\n", at + 1, visible_line(&option.label)));
        }
        let edit = if self.draft.is_some() { "e to change the input, " } else { "" };
        format!("{text}A number, {edit}or a word to the agent that denies it: ")
    }

    /// What has become of the input in the editor, or why nothing has.
    pub(super) fn edited(&mut self, edited: Result<String, String>) -> Reply {
        let taken = edited.and_then(|text| self.draft.as_mut().map_or(Ok(()), |draft| draft.take(text)));
        match taken {
            Ok(()) => Reply::Again(self.prompt()),
            Err(why) => Reply::Again(format!("\n{}\n{}", visible_line(&why), self.prompt())),
        }
    }

    pub(super) fn reply(&mut self, line: &str) -> Reply {
        if let Some(option) = self.tells.take() {
            return self.denial(Some(option), line);
        }
        match &mut self.draft {
            Some(draft) if draft.is_typed() => {
                return match draft.line(line) {
                    Some(text) => self.edited(Ok(text)),
                    None => Reply::Again(String::new()),
                };
            }
            Some(draft) if is_edit(line) && self.editor => return Reply::Edit(draft.text().to_owned()),
            Some(draft) if is_edit(line) => {
                draft.begin_typing();
                return Reply::Again(format!("{}{TYPE}", exact(draft.text())));
            }
            _ => {}
        }
        let options = self.options();
        let of_kind = |kind| options.iter().position(|option| option.kind == kind);
        let at = match number(line, options.len()) {
            Some(at) => Some(at),
            None if is_yes(line) => of_kind(ConfirmationOptionKind::Approve),
            None if is_no(line) => of_kind(ConfirmationOptionKind::Deny),
            None => None,
        };
        let again = || Reply::Again(format!("A number from 1 to {}, or a word: ", options.len()));
        match at.and_then(|at| options.get(at)) {
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
                let tells = options.iter().find(|option| option.id == DENY_TELL);
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
            edited_tool_input: self.changed().filter(|_| approved).map(Value::to_string),
            user_suggestion: None,
            reason_message: (!words.is_empty()).then(|| words.to_owned().into()),
            // Options that we made up are unknown to the host.
            selected_option_id: option.filter(|id| !id.is_empty()),
        })))
    }
}

fn is_edit(line: &str) -> bool {
    line.eq_ignore_ascii_case("e") || line.eq_ignore_ascii_case("edit")
}

/// For hosts that offer none.
fn plain_options() -> Vec<ConfirmationOption> {
    let option =
        |label: &str, kind| ConfirmationOption { id: String::new(), label: label.to_owned(), kind, group: None };
    vec![option("Allow", ConfirmationOptionKind::Approve), option("Deny", ConfirmationOptionKind::Deny)]
}

fn beginning(input: &str) -> String {
    let shown = exact(input);
    let short: String = shown.chars().take(CHARACTERS).collect();
    let mut text: String = short.lines().take(LINES).map(|line| format!("  {line}\n")).collect();
    if shown.chars().count() > CHARACTERS || short.lines().count() > LINES {
        text.push_str("  … (There is more.)\n");
    }
    text
}
