//! Queue of prompts for the user on a terminal, one at a time: a pure function over envelopes and lines.
//!
//! The first answer wins, from any client: a prompt that another client has answered is withdrawn. So that a
//! half-typed answer does not reach the next prompt by mistake, the next one is shown after another Enter.

mod input_form;
mod tool_approval;
mod tool_input_draft;

use std::collections::{HashMap, VecDeque};

use ahp_types::actions::{ActionEnvelope, ChatToolCallReadyAction, StateAction};

use self::input_form::InputFormPrompt;
use self::tool_approval::ToolApprovalPrompt;
use super::EditorError;
use crate::escape_text::escape_invisible_line;

/// Maximum number of waiting prompts; further ones are answered as without a user.
const MAX_PENDING_PROMPTS: usize = 32;

const ANSWERED_ELSEWHERE_TEXT: &str = "\nAnswered by another client.\n";
const NEXT_QUESTION_TEXT: &str = "Press Enter for the next question. ";

/// Step that follows from an envelope or a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PromptStep {
    Wait,
    /// Show this text; a line is awaited if [`PromptQueue::is_awaiting_line`].
    Show(String),
    /// Dispatch this action.
    Answer(Box<StateAction>),
    /// Open this in the user's editor; [`PromptQueue::handle_edited`] receives the result.
    Edit(String),
    /// The queue is full.
    QueueFull,
}

/// Unanswered prompt, by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnansweredPrompt {
    Call(String),
    Form(String),
}

/// Effect of a line on a prompt.
enum LineOutcome {
    /// Show this and read another line.
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
    /// The answer is sent to the host and not confirmed yet.
    AnswerSent,
}

/// Prompts of one turn. The first one is shown.
pub(crate) struct PromptQueue {
    turn: String,
    prompts: VecDeque<PendingPrompt>,
    stage: PromptStage,
    /// A question was withdrawn while the user may have been typing.
    was_question_withdrawn: bool,
    tool_names: HashMap<String, String>,
    /// Whether the user has an editor.
    has_editor: bool,
}

impl std::fmt::Debug for PromptQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PromptQueue")
            .field("turn", &self.turn)
            .field("prompts", &self.prompts.len())
            .finish_non_exhaustive()
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
    /// Assigns later prompts to another turn.
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

    /// Returns whether a line is awaited.
    pub(crate) fn is_awaiting_line(&self) -> bool {
        matches!(self.stage, PromptStage::AwaitingAnswer | PromptStage::AwaitingEnter)
    }

    /// Handles an envelope of the turn's chat.
    pub(crate) fn handle_envelope(&mut self, envelope: &ActionEnvelope, is_ours: bool) -> PromptStep {
        if let Some(reason) = &envelope.rejection_reason {
            return if is_ours { self.handle_rejection(&envelope.action, reason) } else { PromptStep::Wait };
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
            action => resolved_request(action).map_or(PromptStep::Wait, |id| self.resolve(id)),
        }
    }

    /// Adds a pending call of a sub-agent.
    pub(crate) fn add_sub_agent_call(&mut self, tool: &str, call: &ChatToolCallReadyAction) -> PromptStep {
        let name = format!("Sub-agent: {}", escape_invisible_line(tool));
        self.add(PendingPrompt::Call(ToolApprovalPrompt::new(&name, call, self.has_editor)))
    }

    /// Removes a call of a sub-agent that is no longer pending.
    pub(crate) fn resolve_call(&mut self, call: &str) -> PromptStep {
        self.resolve(call)
    }

    /// Handles a typed line.
    pub(crate) fn handle_line(&mut self, line: &str) -> PromptStep {
        self.was_question_withdrawn = false;
        match (&self.stage, self.prompts.front_mut()) {
            (PromptStage::AwaitingEnter, _) => self.show_first(),
            (PromptStage::AwaitingAnswer, Some(prompt)) => {
                let reply = prompt.reply(line.trim());
                self.apply_outcome(reply)
            }
            _ => PromptStep::Wait,
        }
    }

    /// Handles the editor's result, or why there is none.
    pub(crate) fn handle_edited(&mut self, edited: Result<String, EditorError>) -> PromptStep {
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

    /// Returns the waiting prompts, when no user can be asked any more.
    pub(crate) fn take_unanswered(&mut self) -> Vec<UnansweredPrompt> {
        self.stage = PromptStage::Idle;
        let unanswered = |prompt: PendingPrompt| match prompt {
            PendingPrompt::Call(call) => UnansweredPrompt::Call(call.id().to_owned()),
            PendingPrompt::Form(form) => UnansweredPrompt::Form(form.id().to_owned()),
        };
        self.prompts.drain(..).map(unanswered).collect()
    }

    fn add(&mut self, prompt: PendingPrompt) -> PromptStep {
        if let Some(at) = self.prompts.iter().position(|known| known.id() == prompt.id()) {
            // The host has changed the request.
            if let Some(known) = self.prompts.get_mut(at) {
                *known = prompt;
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
        self.prompts.push_back(prompt);
        if matches!(self.stage, PromptStage::Idle) { self.show_next() } else { PromptStep::Wait }
    }

    fn resolve(&mut self, id: &str) -> PromptStep {
        let Some(at) = self.prompts.iter().position(|prompt| prompt.id() == id) else { return PromptStep::Wait };
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
        let is_first = self.prompts.front().is_some_and(|first| resolved_request(action) == Some(first.id()));
        if !is_first || !matches!(self.stage, PromptStage::AnswerSent) {
            return PromptStep::Wait;
        }
        if let Some(first) = self.prompts.front_mut() {
            first.restart();
        }
        match self.show_first() {
            PromptStep::Show(prompt) => {
                PromptStep::Show(format!("The host rejected the answer: {}\n{prompt}", escape_invisible_line(reason)))
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

/// Returns the id of the request that an action resolves.
fn resolved_request(action: &StateAction) -> Option<&str> {
    match action {
        StateAction::ChatToolCallReady(action) if action.confirmed.is_some() => Some(&action.tool_call_id),
        StateAction::ChatToolCallConfirmed(action) => Some(&action.tool_call_id),
        StateAction::ChatToolCallComplete(action) => Some(&action.tool_call_id),
        StateAction::ChatInputCompleted(action) => Some(&action.request_id),
        _ => None,
    }
}

/// Parses the number of an option, from 1.
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
