//! Background work after a turn is stopped: it continues, is stopped too, or the session asks.
//!
//! The question belongs to the session and not to the turn, which has ended: it is an entry of `inputNeeded` that
//! remains until it is answered or no background work remains.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::ChatInputCompletedAction;
use ahp_types::state::{ChatInputResponseKind, SessionChatInputRequest, SessionInputRequest};
use hostler_driver::{Answer, ConnectionError, Question, QuestionAnswer, QuestionKind, QuestionOption};
use uuid::Uuid;

use super::SessionActor;
use super::agent_requests::input_needed_removed;
use super::session_change::SessionChange;
use crate::background_on_stop::{self, BackgroundOnStop};
use crate::config;
use crate::pending_requests::{AnswerError, FormOutcome, InputForm};
use crate::rejection::ActionRejection;
use crate::session::Dispatch;
use crate::turn::AgentPhase;

/// The id of the question whose options are the pieces of work.
const WORK_QUESTION_ID: &str = "work";

/// The question about background work that outlives a stopped turn.
#[derive(Debug)]
pub(super) struct StopQuestion {
    id: String,
    form: InputForm,
}

impl SessionActor {
    fn background_on_stop(&self) -> BackgroundOnStop {
        let own = self.session.config_value(config::BACKGROUND_ON_STOP).and_then(BackgroundOnStop::from_name);
        own.unwrap_or(self.host.background_on_stop)
    }

    /// Handles that a person has stopped the turn.
    pub(super) async fn handle_turn_stopped(&mut self) {
        match self.background_on_stop() {
            BackgroundOnStop::Keep => {}
            BackgroundOnStop::Stop => self.stop_background_tasks(self.background_tasks.keys().cloned().collect()),
            BackgroundOnStop::Ask => {
                self.stop_question.get_or_insert_with(|| StopQuestion {
                    id: Uuid::new_v4().to_string(),
                    form: InputForm::new(None, Vec::new()),
                });
                self.update_stop_question().await;
            }
        }
    }

    /// Handles new background work. Work of a turn that was just stopped is treated like that turn's other work.
    pub(super) async fn handle_background_started(&mut self, id: &str) {
        if self.machine.agent_phase() != AgentPhase::Interrupting {
            return;
        }
        match self.background_on_stop() {
            BackgroundOnStop::Stop => self.stop_background_tasks(vec![id.to_owned()]),
            BackgroundOnStop::Keep => {}
            BackgroundOnStop::Ask => self.handle_turn_stopped().await,
        }
    }

    /// Updates the question to the current background work.
    pub(super) async fn update_stop_question(&mut self) {
        let form = stop_question_form(
            self.background_tasks.values().map(|task| (task.id.as_str(), task.description.as_str())),
        );
        let Some(asked) = self.stop_question.as_mut() else { return };
        match form {
            Some(form) => {
                let request = form.to_request(asked.id.clone());
                asked.form = form;
                let chat = self.session.chat_uri.to_string();
                let needed = SessionChatInputRequest {
                    id: background_on_stop::STOP_QUESTION_REQUEST_ID.to_owned(),
                    chat,
                    request,
                };
                self.publish_input_needed(SessionInputRequest::ChatInput(needed)).await;
            }
            None => self.clear_stop_question().await,
        }
    }

    /// Removes the question when no background work remains, also one from before a restart.
    pub(super) async fn clear_stop_question(&mut self) {
        self.stop_question = None;
        if background_on_stop::has_stop_question(&self.session.session) {
            self.publish_session_action(input_needed_removed(background_on_stop::STOP_QUESTION_REQUEST_ID.to_owned()))
                .await;
            self.update_summaries().await;
        }
    }

    /// Whether a request id is that of the session's own question.
    pub(super) fn is_stop_question(&self, request: &str) -> bool {
        self.stop_question.as_ref().is_some_and(|asked| asked.id == request)
    }

    /// Handles a person's answer.
    pub(super) async fn handle_stop_question_answer(
        &mut self,
        dispatch: &Dispatch,
        said: ChatInputCompletedAction,
    ) -> Result<(), ActionRejection> {
        let Some(asked) = self.stop_question.as_ref() else { return Ok(()) };
        let chosen = chosen_tasks(&asked.form, &said)?;
        let change = SessionChange::default()
            .client_chat_action(StateAction::ChatInputCompleted(said), Some(dispatch.origin()))
            .session_action(input_needed_removed(background_on_stop::STOP_QUESTION_REQUEST_ID.to_owned()));
        self.commit(change).await?;
        self.stop_question = None;
        self.stop_background_tasks(chosen);
        self.update_summaries().await;
        Ok(())
    }

    /// Stops pieces of work, one after the other. Effects arrive as events; work that cannot be stopped remains listed.
    pub(super) fn stop_background_tasks(&mut self, ids: Vec<String>) {
        let Some((connection, _)) = self.agent.connection().filter(|_| !ids.is_empty()) else { return };
        let session = Arc::clone(&self.session.uri);
        self.host.tasks.spawn(async move {
            for id in ids {
                match connection.stop_task(&id).await {
                    Ok(()) | Err(ConnectionError::RequestNotOpen) => {}
                    Err(error) => tracing::warn!(session = &*session, id, %error, "failed to stop background work"),
                }
            }
        });
    }
}

/// The question about pieces of work, by id and label; `None` without work.
fn stop_question_form<'a>(work: impl Iterator<Item = (&'a str, &'a str)>) -> Option<InputForm> {
    let option =
        |(id, label): (&str, &str)| QuestionOption { id: id.to_owned(), label: label.to_owned(), description: None };
    let mut options: Vec<_> = work.map(option).collect();
    options.sort_by(|one, other| one.id.cmp(&other.id));
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
