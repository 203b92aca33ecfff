//! What clients may do to a session, with the preconditions that only the session's one writer can check.

use std::sync::Arc;
use std::time::Instant;

use ahp_types::StateAction;
use ahp_types::actions::{
    ChatTurnCancelledAction, ChatTurnStartedAction, PartialChatSummary, SessionChatUpdatedAction,
    SessionTitleChangedAction,
};
use ahp_types::state::{MessageKind, SessionStatus};
use hostler_store::{Durability, Entry, StoreError};
use jiff::Timestamp;

use super::change::Change;
use super::{Actor, put};
use crate::clock::ClockExt as _;
use crate::record::Record;
use crate::session::{Dispatch, title_from};
use crate::transcript::Transcript;
use crate::turn::{Input as TurnInput, TurnPhase};

/// Why an action is refused, for a person.
type Refusal = String;

/// The longest title that is taken.
const MAX_TITLE: usize = 1_000;

impl Actor {
    pub(super) async fn dispatch(&mut self, dispatch: Dispatch) {
        // Here, in the session's one writer, so that a repetition cannot overtake what it repeats.
        if self.host.answer_repetition(&dispatch).await {
            return;
        }
        let result = match &dispatch.action {
            StateAction::ChatTurnStarted(action) if self.is_chat(&dispatch) => {
                let action = action.clone();
                self.turn_started(&dispatch, action).await
            }
            StateAction::ChatTurnCancelled(action) if self.is_chat(&dispatch) => {
                let action = action.clone();
                self.turn_cancelled(&dispatch, action).await
            }
            StateAction::ChatToolCallConfirmed(action) if self.is_chat(&dispatch) => {
                let action = action.clone();
                self.tool_call_confirmed(&dispatch, action).await
            }
            StateAction::ChatInputAnswerChanged(action) if self.is_chat(&dispatch) => {
                let action = action.clone();
                self.input_answer_changed(&dispatch, action).await
            }
            StateAction::ChatInputCompleted(action) if self.is_chat(&dispatch) => {
                let action = action.clone();
                self.input_completed(&dispatch, action).await
            }
            StateAction::SessionConfigChanged(action) if !self.is_chat(&dispatch) => {
                self.config_changed(&dispatch, action).await
            }
            StateAction::SessionTitleChanged(action) => {
                let title = action.title.clone();
                self.title_changed(&dispatch, title).await
            }
            _ => match self.check_simple(&dispatch) {
                Ok(()) => self.accept_simple(&dispatch).await,
                Err(refusal) => Err(refusal),
            },
        };
        if let Err(reason) = result {
            self.host.reject(dispatch, reason).await;
        }
    }

    /// Actions whose whole effect is the reducer's.
    fn check_simple(&self, dispatch: &Dispatch) -> Result<(), Refusal> {
        match &dispatch.action {
            StateAction::ChatDraftChanged(_)
            | StateAction::ChatIsReadChanged(_)
            | StateAction::ChatIsArchivedChanged(_)
                if self.is_chat(dispatch) =>
            {
                Ok(())
            }
            StateAction::SessionIsReadChanged(_)
            | StateAction::SessionIsArchivedChanged(_)
            | StateAction::SessionActiveClientSet(_)
                if !self.is_chat(dispatch) =>
            {
                Ok(())
            }
            StateAction::SessionActiveClientRemoved(action) if !self.is_chat(dispatch) => {
                let there = self.session.session.active_clients.iter().any(|a| a.client_id == action.client_id);
                if there { Ok(()) } else { Err("that client is not active in this session".to_owned()) }
            }
            _ => Err("this host does not support that action on this channel".to_owned()),
        }
    }

    pub(super) async fn accept_simple(&mut self, dispatch: &Dispatch) -> Result<(), Refusal> {
        let channel: Arc<str> = dispatch.channel.as_str().into();
        let entry = Entry::new(Arc::clone(&channel), dispatch.action.clone()).map_err(|error| error.to_string())?;
        let batch = self.batch(Durability::Durable).entry(entry.with_origin(Some(dispatch.origin())));
        self.host.store.sequencer().commit(batch).await.map_err(|error| error.to_string())?;
        self.session.apply(&channel, &dispatch.action);
        if let StateAction::SessionActiveClientSet(action) = &dispatch.action {
            self.host.hub.clients.take_part(&action.active_client.client_id);
        }
        if let StateAction::SessionConfigChanged(_) = &dispatch.action {
            self.apply_limits();
        }
        self.project().await;
        Ok(())
    }

    /// A new title: of the session, or (VS Code says it on the chat's channel) of the chat's line in it.
    async fn title_changed(&mut self, dispatch: &Dispatch, title: String) -> Result<(), Refusal> {
        if title.trim().is_empty() || title.len() > MAX_TITLE {
            return Err(format!("a title has 1 to {MAX_TITLE} bytes"));
        }
        self.accept_simple(dispatch).await?;
        if self.is_chat(dispatch) {
            let changes = PartialChatSummary { title: Some(title), ..PartialChatSummary::default() };
            let chat = self.session.chat_uri.to_string();
            self.tell_session(StateAction::SessionChatUpdated(SessionChatUpdatedAction { chat, changes })).await;
        }
        Ok(())
    }

    fn is_chat(&self, dispatch: &Dispatch) -> bool {
        dispatch.channel == *self.session.chat_uri
    }

    async fn turn_started(&mut self, dispatch: &Dispatch, mut action: ChatTurnStartedAction) -> Result<(), Refusal> {
        self.check_start(&action)?;
        // A start time that cannot be read would make the turn impossible to end.
        if action.started_at.parse::<Timestamp>().is_err() {
            action.started_at = self.host.clock.now_text();
        }
        let turn = action.turn_id.clone();
        let wanted = action.message.model.as_ref().map(|model| model.id.clone());
        let title = self.session.session.title.is_empty().then(|| title_from(&action.message.text));
        self.accept(dispatch, action, title).await.map_err(|error| error.to_string())?;

        self.turn_started = Instant::now();
        self.transcript = Some(Transcript::new(turn.clone()));
        self.project().await;
        let reopen = wanted.is_some_and(|wanted| self.agent.model().is_some_and(|model| model != wanted))
            || self.warm_is_stale();
        self.drive(TurnInput::Accepted { turn, reopen }).await;
        Ok(())
    }

    fn check_start(&self, action: &ChatTurnStartedAction) -> Result<(), Refusal> {
        if self.session.chat.active_turn.is_some() || !self.machine.can_accept() {
            return Err("a turn is running; queue the message or wait for the turn's end".to_owned());
        }
        if action.turn_id.is_empty() || self.session.chat.turns.iter().any(|turn| turn.id == action.turn_id) {
            return Err("the turn's id is empty or was used before".to_owned());
        }
        if action.message.origin.kind != MessageKind::User {
            return Err("a client can only send messages of its user".to_owned());
        }
        if action.queued_message_id.is_some() {
            return Err("this host has no queue yet".to_owned());
        }
        if action.message.attachments.as_ref().is_some_and(|attachments| !attachments.is_empty()) {
            return Err("this host does not take attachments yet".to_owned());
        }
        if action.message.text.trim().is_empty() {
            return Err("the message is empty".to_owned());
        }
        Ok(())
    }

    /// The acceptance: for a session's first message together with the session itself, in one transaction.
    async fn accept(
        &mut self,
        dispatch: &Dispatch,
        action: ChatTurnStartedAction,
        title: Option<String>,
    ) -> Result<(), StoreError> {
        let (session, chat) = (Arc::clone(&self.session.uri), Arc::clone(&self.session.chat_uri));
        let started = StateAction::ChatTurnStarted(action);
        let titles = title.map(|title| StateAction::SessionTitleChanged(SessionTitleChangedAction { title }));
        let mut batch = hostler_store::Batch::new(Some(Arc::clone(&session)), Durability::Durable)
            .entry(Entry::new(Arc::clone(&chat), started.clone())?.with_origin(Some(dispatch.origin())));
        if let Some(title) = &titles {
            batch = batch.entry(Entry::new(Arc::clone(&session), title.clone())?);
        }
        if !self.session.stored {
            let opened = Record::Opened {
                session: Box::new((*self.session.session).clone()),
                chat: Box::new((*self.session.chat).clone()),
                created_at: self.session.created_at.clone(),
                conversation: self.session.conversation,
            };
            batch = batch.record(opened.on(&session)?);
        }
        // After a crash the row tells, without reading the journal, that a turn was running.
        let mut summary = self.session.summary();
        summary.status = SessionStatus::InProgress.bits();
        batch = batch.catalogue(put(&session, self.session.listed, &summary)?);

        self.host.store.sequencer().commit(batch).await?;
        self.session.stored = true;
        self.session.apply(&chat, &started);
        if let Some(title) = &titles {
            self.session.apply(&session, title);
        }
        Ok(())
    }

    async fn turn_cancelled(&mut self, dispatch: &Dispatch, action: ChatTurnCancelledAction) -> Result<(), Refusal> {
        if !self.machine.can_cancel(&action.turn_id) {
            return Err(match self.machine.turn() {
                TurnPhase::Ending(turn) if *turn == action.turn_id => "the turn is over already".to_owned(),
                TurnPhase::None => "no turn is running".to_owned(),
                _ => "another turn is running".to_owned(),
            });
        }
        let turn = action.turn_id.clone();
        let cancelled = StateAction::ChatTurnCancelled(action);
        let change = self.nothing_needed(Change::default().chat_of(cancelled, Some(dispatch.origin())));
        self.commit(change).await.map_err(|error| error.to_string())?;
        self.clear_desk().await;
        self.transcript = None;
        self.turn_left_the_line();
        self.tell_budget().await;
        if self.session.chat.activity.is_some() {
            self.flush(&mut crate::transcript::activity(None).into()).await;
        }
        self.project().await;
        self.drive(TurnInput::Cancelled(turn)).await;
        Ok(())
    }
}
