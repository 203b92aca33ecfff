//! The agent's background work: commands and sub-agents that run beside the turns, and what happens to them after a
//! turn is stopped: they continue, are stopped too, or the session asks.
//!
//! A component like the turn machine: no clock, no I/O, no channels; `background_tasks.rs` carries out its effects. The
//! question belongs to the session and not to the turn, which has ended: it is an entry of `inputNeeded` that remains
//! until it is answered or no background work remains.

use std::collections::BTreeMap;

use ahp_types::StateAction;
use ahp_types::actions::{
    ChatBackgroundWorkRemovedAction, ChatBackgroundWorkSetAction, ChatInputCompletedAction, SessionInputNeededSetAction,
};
use ahp_types::state::{
    BackgroundShellWork, BackgroundSubagentWork, BackgroundWork, ChatInputResponseKind, SessionChatInputRequest,
    SessionInputRequest,
};
use hostler_driver::{
    Answer, BackgroundTask, BackgroundTaskKind, Question, QuestionAnswer, QuestionKind, QuestionOption,
};
use uuid::Uuid;

use super::agent_requests::input_needed_removed;
use crate::permissions::pending_requests::{AnswerError, FormOutcome, InputForm};
use crate::sessions::background_on_stop::{self, BackgroundOnStop};
use crate::sessions::session::Session;

#[cfg(test)]
mod tests;

/// Maximum number of tracked pieces of background work.
const MAX_BACKGROUND_TASKS: usize = 256;

/// The id of the question whose options are the pieces of work.
const WORK_QUESTION_ID: &str = "work";

/// What the component reads.
pub(super) struct BackgroundContext<'a> {
    pub(super) session: &'a Session,
    /// What happens to background work when a turn is stopped.
    pub(super) on_stop: BackgroundOnStop,
    /// Whether the agent is being interrupted: its turn was just stopped.
    pub(super) is_interrupting: bool,
    /// The current time.
    pub(super) now: String,
    /// The chat of a running sub-agent.
    pub(super) sub_agent_chat: &'a dyn Fn(&str) -> Option<String>,
}

/// An event of the background work.
#[derive(Debug)]
pub(super) enum BackgroundEvent {
    /// A piece of work has started or changed.
    Changed(BackgroundTask),
    /// A piece of work has ended.
    Ended(String),
    /// A person has stopped the turn.
    TurnStopped,
    /// A person has selected the work to stop; the answer is stored.
    Answered(Vec<String>),
    /// The agent's process has ended.
    AgentEnded,
}

/// An effect that `step` carries out, in order.
#[derive(Debug, PartialEq)]
pub(super) enum BackgroundEffect {
    /// Publish an action of the chat.
    PublishInChat(StateAction),
    /// Publish an action of the session, and update the summaries.
    PublishInSession(StateAction),
    /// A sub-agent and its descendants outlive the turn.
    MoveToBackground(String),
    /// Stop these pieces of work. Their ends arrive as events; work that cannot be stopped remains listed.
    Stop(Vec<String>),
    /// End all sub-agents: their process has ended.
    EndSubAgents,
}

/// The question about background work that outlives a stopped turn.
#[derive(Debug)]
struct StopQuestion {
    id: String,
    form: InputForm,
}

/// The component. See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct BackgroundTasks {
    tasks: BTreeMap<String, BackgroundTask>,
    question: Option<StopQuestion>,
}

impl BackgroundTasks {
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.tasks.contains_key(id)
    }

    /// The work that a person's answer to a request selects; `None` if the request is not the session's question.
    pub(super) fn chosen_tasks(&self, said: &ChatInputCompletedAction) -> Option<Result<Vec<String>, AnswerError>> {
        let asked = self.question.as_ref().filter(|asked| asked.id == said.request_id)?;
        Some(chosen_tasks(&asked.form, said))
    }

    /// Applies an event and returns the effects that follow.
    pub(super) fn on(&mut self, event: BackgroundEvent, context: &BackgroundContext<'_>) -> Vec<BackgroundEffect> {
        match event {
            BackgroundEvent::Changed(_) if self.tasks.len() >= MAX_BACKGROUND_TASKS => Vec::new(),
            BackgroundEvent::Changed(task) => self.change(task, context),
            BackgroundEvent::Ended(id) => match self.tasks.remove(&id) {
                Some(_) => {
                    let mut effects = vec![work_removed(id)];
                    effects.extend(self.update_question(context));
                    effects
                }
                None => Vec::new(),
            },
            BackgroundEvent::TurnStopped => self.stop_or_ask(self.tasks.keys().cloned().collect(), context),
            BackgroundEvent::Answered(chosen) => {
                self.question = None;
                stop(chosen)
            }
            BackgroundEvent::AgentEnded => {
                self.tasks.clear();
                let mut effects = self.clear_question(context);
                effects.push(BackgroundEffect::EndSubAgents);
                let displayed = context.session.chat.background_work.iter().flatten();
                effects.extend(displayed.filter_map(|work| Some(work_removed(work_id(work)?.to_owned()))));
                effects
            }
        }
    }

    fn change(&mut self, task: BackgroundTask, context: &BackgroundContext<'_>) -> Vec<BackgroundEffect> {
        let id = task.id.clone();
        let is_new = self.tasks.insert(id.clone(), task.clone()).is_none();
        let mut effects = vec![BackgroundEffect::MoveToBackground(id.clone())];
        if let Some(work) = to_background_work(task, context) {
            let action = StateAction::ChatBackgroundWorkSet(ChatBackgroundWorkSetAction { work });
            effects.push(BackgroundEffect::PublishInChat(action));
        }
        // Work of a turn that was just stopped is treated like that turn's other work.
        if is_new && context.is_interrupting {
            effects.extend(self.stop_or_ask(vec![id], context));
        }
        effects
    }

    /// Applies the session's policy to work of a stopped turn.
    fn stop_or_ask(&mut self, work: Vec<String>, context: &BackgroundContext<'_>) -> Vec<BackgroundEffect> {
        match context.on_stop {
            BackgroundOnStop::Keep => Vec::new(),
            BackgroundOnStop::Stop => stop(work),
            BackgroundOnStop::Ask => {
                self.question.get_or_insert_with(|| StopQuestion {
                    id: Uuid::new_v4().to_string(),
                    form: InputForm::new(None, Vec::new()),
                });
                self.update_question(context)
            }
        }
    }

    /// Updates the question to the current work.
    fn update_question(&mut self, context: &BackgroundContext<'_>) -> Vec<BackgroundEffect> {
        let Some(asked) = self.question.as_mut() else { return Vec::new() };
        match stop_question_form(self.tasks.values()) {
            Some(form) => {
                let request = SessionInputRequest::ChatInput(SessionChatInputRequest {
                    id: background_on_stop::STOP_QUESTION_REQUEST_ID.to_owned(),
                    chat: context.session.chat_uri.to_string(),
                    request: form.to_request(asked.id.clone()),
                });
                asked.form = form;
                let needed = StateAction::SessionInputNeededSet(Box::new(SessionInputNeededSetAction { request }));
                vec![BackgroundEffect::PublishInSession(needed)]
            }
            None => self.clear_question(context),
        }
    }

    /// Removes the question, also one from before a restart.
    fn clear_question(&mut self, context: &BackgroundContext<'_>) -> Vec<BackgroundEffect> {
        self.question = None;
        match background_on_stop::has_stop_question(&context.session.session) {
            true => vec![BackgroundEffect::PublishInSession(stop_question_removed())],
            false => Vec::new(),
        }
    }
}

/// The action that removes the question.
pub(super) fn stop_question_removed() -> StateAction {
    input_needed_removed(background_on_stop::STOP_QUESTION_REQUEST_ID.to_owned())
}

fn stop(work: Vec<String>) -> Vec<BackgroundEffect> {
    if work.is_empty() { Vec::new() } else { vec![BackgroundEffect::Stop(work)] }
}

fn work_removed(id: String) -> BackgroundEffect {
    let removed = StateAction::ChatBackgroundWorkRemoved(ChatBackgroundWorkRemovedAction { id });
    BackgroundEffect::PublishInChat(removed)
}

fn work_id(work: &BackgroundWork) -> Option<&str> {
    match work {
        BackgroundWork::Shell(work) => Some(&work.id),
        BackgroundWork::Subagent(work) => Some(&work.id),
        BackgroundWork::Unknown(_) => None,
    }
}

fn to_background_work(task: BackgroundTask, context: &BackgroundContext<'_>) -> Option<BackgroundWork> {
    let mut displayed = context.session.chat.background_work.iter().flatten();
    let started_at = match displayed.find(|work| work_id(work) == Some(&task.id)) {
        Some(BackgroundWork::Shell(work)) => work.started_at.clone(),
        Some(BackgroundWork::Subagent(work)) => work.started_at.clone(),
        _ => context.now.clone(),
    };
    match task.kind {
        BackgroundTaskKind::Shell => Some(BackgroundWork::Shell(BackgroundShellWork {
            id: task.id,
            label: task.description.clone(),
            started_at,
            meta: None,
            command: task.description,
            terminal: None,
        })),
        // A sub-agent without a chat cannot be displayed here either.
        BackgroundTaskKind::SubAgent => Some(BackgroundWork::Subagent(BackgroundSubagentWork {
            chat: (context.sub_agent_chat)(&task.id)?,
            id: task.id,
            label: task.description,
            started_at,
            meta: None,
        })),
    }
}

/// The question about pieces of work; `None` without work.
fn stop_question_form<'a>(work: impl Iterator<Item = &'a BackgroundTask>) -> Option<InputForm> {
    let option = |task: &BackgroundTask| QuestionOption {
        id: task.id.clone(),
        label: task.description.clone(),
        description: None,
    };
    let options: Vec<_> = work.map(option).collect();
    if options.is_empty() {
        return None;
    }
    let question = Question {
        id: WORK_QUESTION_ID.to_owned(),
        header: Some("Background work".to_owned()),
        text: "Which background work do you want to stop? The rest continues.".to_owned(),
        kind: QuestionKind::Choice { options, allows_multiple: true, allows_free_text: false },
        required: false,
    };
    let message = "The turn was stopped. This background work is still running.".to_owned();
    Some(InputForm::new(Some(message), vec![question]))
}

/// The work that an answer selects; none if the question was declined.
fn chosen_tasks(form: &InputForm, said: &ChatInputCompletedAction) -> Result<Vec<String>, AnswerError> {
    if said.response != ChatInputResponseKind::Accept {
        return Ok(Vec::new());
    }
    let answer = |question: &str| said.answers.as_ref().and_then(|answers| answers.get(question)).cloned();
    match form.evaluate(said.response, answer)? {
        FormOutcome::AnswerAgent(Answer::Answers(answers)) => Ok(answers
            .into_iter()
            .flat_map(|(_, answer)| match answer {
                QuestionAnswer::Selected { options, .. } => options,
                _ => Vec::new(),
            })
            .collect()),
        _ => Ok(Vec::new()),
    }
}
