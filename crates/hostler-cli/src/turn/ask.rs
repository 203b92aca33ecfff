//! What waits for a person, on a terminal: one matter after the other, a function over envelopes and lines.
//!
//! The first answer wins, wherever it is given: a matter that somebody else has settled is withdrawn. Whoever was just
//! about to answer it must not answer the next one by mistake, so that one is shown after another Enter.

mod call;
mod draft;
mod form;

use std::collections::{HashMap, VecDeque};

use ahp_types::actions::{ActionEnvelope, ChatToolCallReadyAction, StateAction};

use self::call::PendingCall;
use self::form::Form;
use crate::visible::visible_line;

/// More matters at once than a person can keep in mind; what comes on top is answered as if nobody were there.
const MOST: usize = 32;

const WITHDRAWN: &str = "\nSomebody else has answered.\n";
const NEXT: &str = "Press Enter for the next question. ";

/// What follows from an envelope or a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Asked {
    Nothing,
    /// Show this text; a line is awaited if [`Asker::listens`].
    Show(String),
    /// Dispatch this.
    Answer(Box<StateAction>),
    /// Open this in the person's editor; [`Asker::edited`] hears what has become of it.
    Edit(String),
    /// There are too many matters for this one.
    TooMany,
}

/// What nobody has answered, by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unanswered {
    Call(String),
    Form(String),
}

/// What a line means to a matter.
enum Reply {
    /// Show this and read on.
    Again(String),
    /// Open this in an editor.
    Edit(String),
    Answer(Box<StateAction>),
}

enum Matter {
    Call(PendingCall),
    Form(Form),
}

enum Stage {
    Idle,
    /// Waits for an Enter that belongs to no question.
    Cleared,
    Open,
    /// The answer is on its way to the host.
    Sent,
}

/// The matters of one turn. The first one is the one that is shown.
pub(crate) struct Asker {
    turn: String,
    matters: VecDeque<Matter>,
    stage: Stage,
    /// A question was withdrawn while somebody may have been typing.
    startled: bool,
    names: HashMap<String, String>,
    /// Whether the person has an editor.
    editor: bool,
}

impl std::fmt::Debug for Asker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asker").field("turn", &self.turn).field("matters", &self.matters.len()).finish_non_exhaustive()
    }
}

impl Matter {
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

    fn reply(&mut self, line: &str) -> Reply {
        match self {
            Self::Call(call) => call.reply(line),
            Self::Form(form) => form.reply(line),
        }
    }

    fn restart(&mut self) {
        match self {
            Self::Call(call) => call.restart(),
            Self::Form(form) => form.restart(),
        }
    }
}

impl Asker {
    /// What is asked from now on belongs to another turn.
    pub(crate) fn turn_is_now(&mut self, turn: &str) {
        turn.clone_into(&mut self.turn);
    }

    pub(crate) fn new(turn: &str, editor: bool) -> Self {
        let (matters, names) = (VecDeque::new(), HashMap::new());
        Self { turn: turn.to_owned(), matters, stage: Stage::Idle, startled: false, names, editor }
    }

    /// Whether a line is awaited.
    pub(crate) fn listens(&self) -> bool {
        matches!(self.stage, Stage::Open | Stage::Cleared)
    }

    /// An envelope of the turn's chat.
    pub(crate) fn see(&mut self, envelope: &ActionEnvelope, ours: bool) -> Asked {
        if let Some(reason) = &envelope.rejection_reason {
            return if ours { self.refused(&envelope.action, reason) } else { Asked::Nothing };
        }
        match &envelope.action {
            StateAction::ChatToolCallStart(action) if action.turn_id == self.turn => {
                self.names.insert(action.tool_call_id.clone(), visible_line(&action.display_name));
                Asked::Nothing
            }
            StateAction::ChatToolCallReady(action) if action.turn_id == self.turn && action.confirmed.is_none() => {
                let name = self.names.get(&action.tool_call_id).map_or("Tool", String::as_str);
                self.add(Matter::Call(PendingCall::new(name, action, self.editor)))
            }
            StateAction::ChatInputRequested(action) => self.add(Matter::Form(Form::new(&action.request))),
            action => settled(action).map_or(Asked::Nothing, |id| self.settle(id)),
        }
    }

    /// A call of a sub-agent waits.
    pub(crate) fn see_worker(&mut self, tool: &str, call: &ChatToolCallReadyAction) -> Asked {
        let name = format!("A sub-agent: {}", visible_line(tool));
        self.add(Matter::Call(PendingCall::new(&name, call, self.editor)))
    }

    /// A call of a sub-agent waits no longer.
    pub(crate) fn settled(&mut self, call: &str) -> Asked {
        self.settle(call)
    }

    /// A line that was typed.
    pub(crate) fn hear(&mut self, line: &str) -> Asked {
        self.startled = false;
        match (&self.stage, self.matters.front_mut()) {
            (Stage::Cleared, _) => self.show_first(),
            (Stage::Open, Some(matter)) => {
                let reply = matter.reply(line.trim());
                self.follow(reply)
            }
            _ => Asked::Nothing,
        }
    }

    /// What has become of a text in the person's editor, or why nothing has.
    pub(crate) fn edited(&mut self, edited: Result<String, String>) -> Asked {
        match (&self.stage, self.matters.front_mut()) {
            (Stage::Open, Some(Matter::Call(call))) => {
                let reply = call.edited(edited);
                self.follow(reply)
            }
            _ => Asked::Nothing,
        }
    }

    fn follow(&mut self, reply: Reply) -> Asked {
        match reply {
            Reply::Again(text) => Asked::Show(text),
            Reply::Edit(text) => Asked::Edit(text),
            Reply::Answer(action) => {
                self.stage = Stage::Sent;
                Asked::Answer(action)
            }
        }
    }

    /// What waits, when nobody can be asked any more.
    pub(crate) fn give_up(&mut self) -> Vec<Unanswered> {
        self.stage = Stage::Idle;
        let unanswered = |matter: Matter| match matter {
            Matter::Call(call) => Unanswered::Call(call.id().to_owned()),
            Matter::Form(form) => Unanswered::Form(form.id().to_owned()),
        };
        self.matters.drain(..).map(unanswered).collect()
    }

    fn add(&mut self, matter: Matter) -> Asked {
        if let Some(at) = self.matters.iter().position(|known| known.id() == matter.id()) {
            // The host has reworded it.
            if let Some(known) = self.matters.get_mut(at) {
                *known = matter;
            }
            return if at == 0 && !matches!(self.stage, Stage::Cleared) { self.show_first() } else { Asked::Nothing };
        }
        if self.matters.len() >= MOST {
            return Asked::TooMany;
        }
        self.matters.push_back(matter);
        if matches!(self.stage, Stage::Idle) { self.show_next() } else { Asked::Nothing }
    }

    fn settle(&mut self, id: &str) -> Asked {
        let Some(at) = self.matters.iter().position(|matter| matter.id() == id) else { return Asked::Nothing };
        self.matters.remove(at);
        if at > 0 {
            return Asked::Nothing;
        }
        match self.stage {
            Stage::Cleared if !self.matters.is_empty() => Asked::Nothing,
            Stage::Open => {
                self.startled = true;
                match self.show_next() {
                    Asked::Show(next) => Asked::Show(format!("{WITHDRAWN}{next}")),
                    _ => Asked::Show(WITHDRAWN.to_owned()),
                }
            }
            _ => self.show_next(),
        }
    }

    fn refused(&mut self, action: &StateAction, reason: &str) -> Asked {
        let is_first = self.matters.front().is_some_and(|first| settled(action) == Some(first.id()));
        if !is_first || !matches!(self.stage, Stage::Sent) {
            return Asked::Nothing;
        }
        if let Some(first) = self.matters.front_mut() {
            first.restart();
        }
        match self.show_first() {
            Asked::Show(again) => Asked::Show(format!("The host did not take it: {}\n{again}", visible_line(reason))),
            other => other,
        }
    }

    fn show_next(&mut self) -> Asked {
        if self.startled && !self.matters.is_empty() {
            self.stage = Stage::Cleared;
            return Asked::Show(NEXT.to_owned());
        }
        self.show_first()
    }

    fn show_first(&mut self) -> Asked {
        match self.matters.front() {
            Some(first) => {
                self.stage = Stage::Open;
                Asked::Show(first.prompt())
            }
            None => {
                self.stage = Stage::Idle;
                Asked::Nothing
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
fn number(line: &str, options: usize) -> Option<usize> {
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
