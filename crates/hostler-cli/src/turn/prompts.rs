//! What waits for a person, on a terminal: one matter after the other, a function over envelopes and lines.
//!
//! The first answer wins, wherever it is given: a matter that somebody else has settled is withdrawn. Whoever was just
//! about to answer it must not answer the next one by mistake, so that one is shown after another Enter.

mod input_form;
mod tool_approval;
mod tool_input_draft;

use std::collections::{HashMap, VecDeque};

use ahp_types::actions::{ActionEnvelope, ChatToolCallReadyAction, StateAction};

use self::input_form::InputFormPrompt;
use self::tool_approval::ToolApprovalPrompt;
use crate::escape_text::escape_invisible_line;

/// More matters at once than a person can keep in mind; what comes on top is answered as if nobody were there.
const MAX_PENDING_PROMPTS: usize = 32;

const ANSWERED_ELSEWHERE_TEXT: &str = "\nSomebody else has answered.\n";
const NEXT_QUESTION_TEXT: &str = "Press Enter for the next question. ";

/// What follows from an envelope or a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PromptStep {
    Wait,
    /// Show this text; a line is awaited if [`Asker::listens`].
    Show(String),
    /// Dispatch this.
    Answer(Box<StateAction>),
    /// Open this in the person's editor; [`Asker::edited`] hears what has become of it.
    Edit(String),
    /// There are too many matters for this one.
    QueueFull,
}

/// What nobody has answered, by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnansweredPrompt {
    Call(String),
    Form(String),
}

/// What a line means to a matter.
enum LineOutcome {
    /// Show this and read on.
    Reprompt(String),
    /// Open this in an editor.
    Edit(String),
    Answer(Box<StateAction>),
}

enum PendingPrompt {
    Call(ToolApprovalPrompt),
    Form(InputFormPrompt),
}

enum PromptStage {
    Idle,
    /// Waits for an Enter that belongs to no question.
    AwaitingEnter,
    AwaitingAnswer,
    /// The answer is on its way to the host.
    AnswerSent,
}

/// The matters of one turn. The first one is the one that is shown.
pub(crate) struct PromptQueue {
    turn: String,
    prompts: VecDeque<PendingPrompt>,
    stage: PromptStage,
    /// A question was withdrawn while somebody may have been typing.
    was_question_withdrawn: bool,
    tool_names: HashMap<String, String>,
    /// Whether the person has an editor.
    has_editor: bool,
}

impl std::fmt::Debug for PromptQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asker").field("turn", &self.turn).field("matters", &self.prompts.len()).finish_non_exhaustive()
    }
}

impl PendingPrompt {
    fn id(&self) -> &str {
        match self {
            Self::Call(call) => call.id(),
            Self::Form(form) => form.id(),
        }
    }

    fn prompt(&self) -> String {
        match self {
            Self::Call(call) => call.prompt(),
            Self::Form(form) => form.prompt(),
        }
    }

    fn reply(&mut self, line: &str) -> LineOutcome {
        match self {
            Self::Call(call) => call.handle_line(line),
            Self::Form(form) => form.handle_line(line),
        }
    }

    fn restart(&mut self) {
        match self {
            Self::Call(call) => call.restart(),
            Self::Form(form) => form.restart(),
        }
    }
}

impl PromptQueue {
    /// What is asked from now on belongs to another turn.
    pub(crate) fn set_turn(&mut self, turn: &str) {
        turn.clone_into(&mut self.turn);
    }

    pub(crate) fn new(turn: &str, has_editor: bool) -> Self {
        let (prompts, tool_names) = (VecDeque::new(), HashMap::new());
        Self {
            turn: turn.to_owned(),
            prompts,
            stage: PromptStage::Idle,
            was_question_withdrawn: false,
            tool_names,
            has_editor,
        }
    }

    /// Whether a line is awaited.
    pub(crate) fn is_awaiting_line(&self) -> bool {
        matches!(self.stage, PromptStage::AwaitingAnswer | PromptStage::AwaitingEnter)
    }

    /// An envelope of the turn's chat.
    pub(crate) fn handle_envelope(&mut self, envelope: &ActionEnvelope, ours: bool) -> PromptStep {
        if let Some(reason) = &envelope.rejection_reason {
            return if ours { self.handle_rejection(&envelope.action, reason) } else { PromptStep::Wait };
        }
        match &envelope.action {
            StateAction::ChatToolCallStart(action) if action.turn_id == self.turn => {
                self.tool_names.insert(action.tool_call_id.clone(), escape_invisible_line(&action.display_name));
                PromptStep::Wait
            }
            StateAction::ChatToolCallReady(action) if action.turn_id == self.turn && action.confirmed.is_none() => {
                let name = self.tool_names.get(&action.tool_call_id).map_or("Tool", String::as_str);
                self.add(PendingPrompt::Call(ToolApprovalPrompt::new(name, action, self.has_editor)))
            }
            StateAction::ChatInputRequested(action) => {
                self.add(PendingPrompt::Form(InputFormPrompt::new(&action.request)))
            }
            action => settled(action).map_or(PromptStep::Wait, |id| self.resolve(id)),
        }
    }

    /// A call of a sub-agent waits.
    pub(crate) fn add_sub_agent_call(&mut self, tool: &str, call: &ChatToolCallReadyAction) -> PromptStep {
        let name = format!("A sub-agent: {}", escape_invisible_line(tool));
        self.add(PendingPrompt::Call(ToolApprovalPrompt::new(&name, call, self.has_editor)))
    }

    /// A call of a sub-agent waits no longer.
    pub(crate) fn resolve_call(&mut self, call: &str) -> PromptStep {
        self.resolve(call)
    }

    /// A line that was typed.
    pub(crate) fn handle_line(&mut self, line: &str) -> PromptStep {
        self.was_question_withdrawn = false;
        match (&self.stage, self.prompts.front_mut()) {
            (PromptStage::AwaitingEnter, _) => self.show_first(),
            (PromptStage::AwaitingAnswer, Some(matter)) => {
                let reply = matter.reply(line.trim());
                self.apply_outcome(reply)
            }
            _ => PromptStep::Wait,
        }
    }

    /// What has become of a text in the person's editor, or why nothing has.
    pub(crate) fn handle_edited(&mut self, edited: Result<String, String>) -> PromptStep {
        match (&self.stage, self.prompts.front_mut()) {
            (PromptStage::AwaitingAnswer, Some(PendingPrompt::Call(call))) => {
                let reply = call.handle_edited(edited);
                self.apply_outcome(reply)
            }
            _ => PromptStep::Wait,
        }
    }

    fn apply_outcome(&mut self, reply: LineOutcome) -> PromptStep {
        match reply {
            LineOutcome::Reprompt(text) => PromptStep::Show(text),
            LineOutcome::Edit(text) => PromptStep::Edit(text),
            LineOutcome::Answer(action) => {
                self.stage = PromptStage::AnswerSent;
                PromptStep::Answer(action)
            }
        }
    }

    /// What waits, when nobody can be asked any more.
    pub(crate) fn take_unanswered(&mut self) -> Vec<UnansweredPrompt> {
        self.stage = PromptStage::Idle;
        let unanswered = |matter: PendingPrompt| match matter {
            PendingPrompt::Call(call) => UnansweredPrompt::Call(call.id().to_owned()),
            PendingPrompt::Form(form) => UnansweredPrompt::Form(form.id().to_owned()),
        };
        self.prompts.drain(..).map(unanswered).collect()
    }

    fn add(&mut self, matter: PendingPrompt) -> PromptStep {
        if let Some(at) = self.prompts.iter().position(|known| known.id() == matter.id()) {
            // The host has reworded it.
            if let Some(known) = self.prompts.get_mut(at) {
                *known = matter;
            }
            return if at == 0 && !matches!(self.stage, PromptStage::AwaitingEnter) {
                self.show_first()
            } else {
                PromptStep::Wait
            };
        }
        if self.prompts.len() >= MAX_PENDING_PROMPTS {
            return PromptStep::QueueFull;
        }
        self.prompts.push_back(matter);
        if matches!(self.stage, PromptStage::Idle) { self.show_next() } else { PromptStep::Wait }
    }

    fn resolve(&mut self, id: &str) -> PromptStep {
        let Some(at) = self.prompts.iter().position(|matter| matter.id() == id) else { return PromptStep::Wait };
        self.prompts.remove(at);
        if at > 0 {
            return PromptStep::Wait;
        }
        match self.stage {
            PromptStage::AwaitingEnter if !self.prompts.is_empty() => PromptStep::Wait,
            PromptStage::AwaitingAnswer => {
                self.was_question_withdrawn = true;
                match self.show_next() {
                    PromptStep::Show(next) => PromptStep::Show(format!("{ANSWERED_ELSEWHERE_TEXT}{next}")),
                    _ => PromptStep::Show(ANSWERED_ELSEWHERE_TEXT.to_owned()),
                }
            }
            _ => self.show_next(),
        }
    }

    fn handle_rejection(&mut self, action: &StateAction, reason: &str) -> PromptStep {
        let is_first = self.prompts.front().is_some_and(|first| settled(action) == Some(first.id()));
        if !is_first || !matches!(self.stage, PromptStage::AnswerSent) {
            return PromptStep::Wait;
        }
        if let Some(first) = self.prompts.front_mut() {
            first.restart();
        }
        match self.show_first() {
            PromptStep::Show(again) => {
                PromptStep::Show(format!("The host did not take it: {}\n{again}", escape_invisible_line(reason)))
            }
            other => other,
        }
    }

    fn show_next(&mut self) -> PromptStep {
        if self.was_question_withdrawn && !self.prompts.is_empty() {
            self.stage = PromptStage::AwaitingEnter;
            return PromptStep::Show(NEXT_QUESTION_TEXT.to_owned());
        }
        self.show_first()
    }

    fn show_first(&mut self) -> PromptStep {
        match self.prompts.front() {
            Some(first) => {
                self.stage = PromptStage::AwaitingAnswer;
                PromptStep::Show(first.prompt())
            }
            None => {
                self.stage = PromptStage::Idle;
                PromptStep::Wait
            }
        }
    }
}

/// What an action settles.
fn settled(action: &StateAction) -> Option<&str> {
    match action {
        StateAction::ChatToolCallReady(action) if action.confirmed.is_some() => Some(&action.tool_call_id),
        StateAction::ChatToolCallConfirmed(action) => Some(&action.tool_call_id),
        StateAction::ChatToolCallComplete(action) => Some(&action.tool_call_id),
        StateAction::ChatInputCompleted(action) => Some(&action.request_id),
        _ => None,
    }
}

/// The number of an option, from 1, if the line is one.
fn parse_option_number(line: &str, options: usize) -> Option<usize> {
    line.parse::<usize>().ok().filter(|number| (1..=options).contains(number)).map(|number| number - 1)
}

fn is_yes(line: &str) -> bool {
    line.eq_ignore_ascii_case("y") || line.eq_ignore_ascii_case("yes")
}

fn is_no(line: &str) -> bool {
    line.eq_ignore_ascii_case("n") || line.eq_ignore_ascii_case("no")
}

#[cfg(test)]
mod tests;
