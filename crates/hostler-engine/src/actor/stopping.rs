//! A turn is stopped while something goes on beside it: that goes on, is stopped too, or is asked about.
//!
//! The question is the session's and not the turn's, which is over: it is an entry of `inputNeeded` that stays until
//! it is answered or nothing is left to be stopped.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::ChatInputCompletedAction;
use ahp_types::state::{ChatInputResponseKind, SessionChatInputRequest, SessionInputRequest};
use hostler_driver::{Answer, Choice, ConnectionError, Question, QuestionAnswer, QuestionKind};
use uuid::Uuid;

use super::Actor;
use super::change::Change;
use super::desk::no_longer_needed;
use crate::config;
use crate::desk::{Form, Outcome, Refusal};
use crate::session::Dispatch;
use crate::stopping::{self, BackgroundOnStop};
use crate::turn::AgentPhase;

/// The one question, whose options are the pieces of work.
const WORK: &str = "work";

/// What the session asks about the work that outlives a stop.
#[derive(Debug)]
pub(super) struct StopQuestion {
    id: String,
    form: Form,
}

impl Actor {
    fn background_on_stop(&self) -> BackgroundOnStop {
        let own = self.session.config(config::BACKGROUND_ON_STOP).and_then(BackgroundOnStop::named);
        own.unwrap_or(self.host.background_on_stop)
    }

    /// A person has stopped the turn.
    pub(super) async fn stopped_beside(&mut self) {
        match self.background_on_stop() {
            BackgroundOnStop::Keep => {}
            BackgroundOnStop::Stop => self.stop_each(self.beside.keys().cloned().collect()),
            BackgroundOnStop::Ask => {
                self.stop_question.get_or_insert_with(|| StopQuestion {
                    id: Uuid::new_v4().to_string(),
                    form: Form::new(None, Vec::new()),
                });
                self.ask_what_stops().await;
            }
        }
    }

    /// Something begins beside the turns. What belongs to a turn that was just stopped shares its lot.
    pub(super) async fn began_beside(&mut self, id: &str) {
        if self.machine.agent() != AgentPhase::Interrupting {
            return;
        }
        match self.background_on_stop() {
            BackgroundOnStop::Stop => self.stop_each(vec![id.to_owned()]),
            BackgroundOnStop::Keep => {}
            BackgroundOnStop::Ask => self.stopped_beside().await,
        }
    }

    /// Brings the question up to date with what there is to be stopped.
    pub(super) async fn ask_what_stops(&mut self) {
        let form = question(self.beside.values().map(|task| (task.id.as_str(), task.description.as_str())));
        let Some(asked) = self.stop_question.as_mut() else { return };
        match form {
            Some(form) => {
                let request = form.request(asked.id.clone());
                asked.form = form;
                let chat = self.session.chat_uri.to_string();
                let needed = SessionChatInputRequest { id: stopping::KEY.to_owned(), chat, request };
                self.needed(SessionInputRequest::ChatInput(needed)).await;
            }
            None => self.nothing_to_stop().await,
        }
    }

    /// Nothing is left that could be stopped, in this life of the host or since the last one.
    pub(super) async fn nothing_to_stop(&mut self) {
        self.stop_question = None;
        if stopping::is_asked(&self.session.session) {
            self.tell_session(no_longer_needed(stopping::KEY.to_owned())).await;
            self.project().await;
        }
    }

    /// Whether answers are to the session's own question.
    pub(super) fn is_stop_question(&self, request: &str) -> bool {
        self.stop_question.as_ref().is_some_and(|asked| asked.id == request)
    }

    /// A person says what is to be stopped.
    pub(super) async fn stop_question_answered(
        &mut self,
        dispatch: &Dispatch,
        said: ChatInputCompletedAction,
    ) -> Result<(), Refusal> {
        let Some(asked) = self.stop_question.as_ref() else { return Ok(()) };
        let chosen = chosen(&asked.form, &said)?;
        let change = Change::default()
            .chat_of(StateAction::ChatInputCompleted(said), Some(dispatch.origin()))
            .session(no_longer_needed(stopping::KEY.to_owned()));
        self.commit(change).await.map_err(|error| error.to_string())?;
        self.stop_question = None;
        self.stop_each(chosen);
        self.project().await;
        Ok(())
    }

    /// Stops pieces of work, one after the other. What follows from it arrives as events; what cannot be stopped stays
    /// listed.
    pub(super) fn stop_each(&mut self, ids: Vec<String>) {
        let Some((connection, _)) = self.agent.connection().filter(|_| !ids.is_empty()) else { return };
        let session = Arc::clone(&self.session.uri);
        self.host.tasks.spawn(async move {
            for id in ids {
                match connection.stop_task(&id).await {
                    Ok(()) | Err(ConnectionError::NotOpen) => {}
                    Err(error) => tracing::warn!(session = &*session, id, %error, "background work goes on"),
                }
            }
        });
    }
}

/// The question about some work, by ids and what people call it; none about nothing.
fn question<'a>(work: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Form> {
    let option = |(id, label): (&str, &str)| Choice { id: id.to_owned(), label: label.to_owned(), description: None };
    let mut options: Vec<_> = work.map(option).collect();
    options.sort_by(|one, other| one.id.cmp(&other.id));
    if options.is_empty() {
        return None;
    }
    let question = Question {
        id: WORK.to_owned(),
        header: Some("Background work".to_owned()),
        text: "What is to be stopped as well? The rest goes on.".to_owned(),
        kind: QuestionKind::Choice { options, multiple: true, free_text: false },
        required: false,
    };
    let message = "The turn was stopped, and this still goes on in the background.".to_owned();
    Some(Form::new(Some(message), vec![question]))
}

/// The work that an answer names; none if nobody wants to say.
fn chosen(form: &Form, said: &ChatInputCompletedAction) -> Result<Vec<String>, Refusal> {
    if said.response != ChatInputResponseKind::Accept {
        return Ok(Vec::new());
    }
    let answer = |question: &str| said.answers.as_ref().and_then(|answers| answers.get(question)).cloned();
    match form.outcome(said.response, answer)? {
        Outcome::Answered(Answer::Answers(answers)) => Ok(answers
            .into_iter()
            .flat_map(|(_, answer)| match answer {
                QuestionAnswer::Chosen { options, .. } => options,
                _ => Vec::new(),
            })
            .collect()),
        _ => Ok(Vec::new()),
    }
}
