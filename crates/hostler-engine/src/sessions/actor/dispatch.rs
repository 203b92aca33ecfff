//! Handles clients' actions on a session.
//!
//! The actor checks a dispatch against the state at that moment. A rejection is published with its reason and changes
//! nothing.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::{
    ChatTurnCancelledAction, ChatTurnStartedAction, PartialChatSummary, SessionChatUpdatedAction,
};
use hostler_store::{ActionEntry, Batch, BatchDurability};

use super::SessionActor;
use super::background_work::BackgroundEvent;
use super::pending_messages::{MessageEvent, check_message};
use super::session_change::SessionChange;
use crate::clock::ClockExt as _;
use crate::error::InvalidParams;
use crate::host::MAX_SESSION_DIRECTORIES;
use crate::sessions::action_mapper::ActionBuffer;
use crate::sessions::annotations;
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::Dispatch;
use crate::sessions::state::{MAX_TURN_DURATION_MS, is_valid_start_time};
use crate::sessions::turn::{TurnInput, TurnPhase};

/// Maximum number of active clients of a session.
const MAX_ACTIVE_CLIENTS: usize = 64;

/// Maximum length of a title.
pub(super) const MAX_TITLE_BYTES: usize = 1_000;

impl SessionActor {
    pub(super) async fn handle_dispatch(&mut self, dispatch: Dispatch) {
        if let Some(dispatch) = self.hold_for_sync(dispatch).await {
            self.accept_dispatch(dispatch).await;
        }
    }

    /// Handles a dispatch that does not wait for the transcript.
    pub(super) async fn accept_dispatch(&mut self, dispatch: Dispatch) {
        // Checked in the session's single writer, so that a repetition cannot overtake the original.
        if self.ctx.host.answer_repeated_dispatch(&dispatch) {
            return;
        }
        let result = match &dispatch.action {
            _ if self.ctx.session.is_annotations_channel(&dispatch.channel) => {
                self.handle_annotations_changed(&dispatch).await
            }
            _ if !self.is_default_chat(&dispatch) && dispatch.channel != *self.ctx.session.uri => {
                self.handle_sub_agent_dispatch(&dispatch).await
            }
            StateAction::ChatTurnStarted(action) if self.is_default_chat(&dispatch) => {
                let action = action.clone();
                self.handle_turn_started(&dispatch, action).await
            }
            StateAction::ChatTurnCancelled(action) if self.is_default_chat(&dispatch) => {
                let action = action.clone();
                self.handle_turn_cancelled(&dispatch, action).await
            }
            StateAction::ChatTurnResume(action) if self.is_default_chat(&dispatch) => {
                let action = action.clone();
                self.handle_turn_resumed(&dispatch, action).await
            }
            StateAction::ChatPendingMessageSet(action) if self.is_default_chat(&dispatch) => {
                let action = action.clone();
                self.handle_pending_message_set(&dispatch, action).await
            }
            StateAction::ChatPendingMessageRemoved(action) if self.is_default_chat(&dispatch) => {
                let action = action.clone();
                self.step_messages(MessageEvent::Removed { action, origin: dispatch.origin() }).await
            }
            StateAction::ChatQueuedMessagesReordered(action) if self.is_default_chat(&dispatch) => {
                let action = action.clone();
                self.step_messages(MessageEvent::Reordered { action, origin: dispatch.origin() }).await
            }
            StateAction::ChatToolCallConfirmed(action) if self.is_default_chat(&dispatch) => {
                let action = action.clone();
                self.handle_tool_call_confirmed(&dispatch, action).await
            }
            StateAction::ChatInputAnswerChanged(action) if self.is_default_chat(&dispatch) => {
                let action = action.clone();
                self.handle_input_answer_changed(&dispatch, action).await
            }
            StateAction::ChatInputCompleted(action) if self.is_default_chat(&dispatch) => {
                let action = action.clone();
                self.handle_input_completed(&dispatch, action).await
            }
            StateAction::SessionConfigChanged(action) if !self.is_default_chat(&dispatch) => {
                self.handle_config_changed(&dispatch, action).await
            }
            StateAction::SessionTitleChanged(action) => {
                let title = action.title.clone();
                self.handle_title_changed(&dispatch, title).await
            }
            _ => match self.check_plain_action(&dispatch) {
                Ok(()) => self.accept_plain_action(&dispatch).await,
                Err(rejection) => Err(rejection),
            },
        };
        if let Err(rejection) = result {
            self.ctx.host.reject(dispatch, rejection).await;
        }
    }

    /// Handles actions on a sub-agent's read-only chat: answers, cancellation, and the read and archived flags.
    async fn handle_sub_agent_dispatch(&mut self, dispatch: &Dispatch) -> Result<(), ActionRejection> {
        if self.ctx.session.sub_agent_chat(&dispatch.channel).is_none() {
            return Err(ActionRejection::ChatNotFound);
        }
        match &dispatch.action {
            StateAction::ChatToolCallConfirmed(action) => {
                let action = action.clone();
                self.handle_tool_call_confirmed(dispatch, action).await
            }
            StateAction::ChatTurnCancelled(action) => {
                let action = action.clone();
                self.handle_sub_agent_cancelled(dispatch, action).await
            }
            StateAction::ChatIsReadChanged(_) | StateAction::ChatIsArchivedChanged(_) => {
                self.accept_plain_action(dispatch).await
            }
            _ => Err(ActionRejection::SubAgentChatReadOnly),
        }
    }

    /// Checks actions whose whole effect is the reducer's.
    fn check_plain_action(&self, dispatch: &Dispatch) -> Result<(), ActionRejection> {
        match &dispatch.action {
            StateAction::ChatDraftChanged(_)
            | StateAction::ChatIsReadChanged(_)
            | StateAction::ChatIsArchivedChanged(_)
                if self.is_default_chat(dispatch) =>
            {
                Ok(())
            }
            StateAction::SessionIsReadChanged(_) | StateAction::SessionIsArchivedChanged(_)
                if !self.is_default_chat(dispatch) =>
            {
                Ok(())
            }
            StateAction::SessionActiveClientSet(action) if !self.is_default_chat(dispatch) => {
                let active = &self.ctx.session.session.active_clients;
                let is_active = active.iter().any(|client| client.client_id == action.active_client.client_id);
                match is_active || active.len() < MAX_ACTIVE_CLIENTS {
                    true => Ok(()),
                    false => Err(ActionRejection::TooManyActiveClients { max: MAX_ACTIVE_CLIENTS }),
                }
            }
            StateAction::SessionWorkingDirectorySet(action) if !self.is_default_chat(dispatch) => {
                let known = self.ctx.session.session.working_directories.as_deref().unwrap_or_default();
                let uri = self.ctx.host.resolve_directory(&action.directory)?;
                if uri != action.directory {
                    return Err(ActionRejection::DirectoryNotNormalized { uri });
                }
                if !known.contains(&uri) && known.len() >= MAX_SESSION_DIRECTORIES {
                    return Err(InvalidParams::TooManyDirectories.into());
                }
                Ok(())
            }
            StateAction::SessionWorkingDirectoryRemoved(action) if !self.is_default_chat(dispatch) => {
                let known = self.ctx.session.session.working_directories.as_deref().unwrap_or_default();
                match known.iter().position(|uri| *uri == action.directory) {
                    Some(0) => Err(ActionRejection::PrimaryDirectory),
                    Some(_) => Ok(()),
                    None => Err(ActionRejection::DirectoryNotInSession),
                }
            }
            StateAction::SessionActiveClientRemoved(action) if !self.is_default_chat(dispatch) => {
                let is_active = self.ctx.session.session.active_clients.iter().any(|a| a.client_id == action.client_id);
                if is_active { Ok(()) } else { Err(ActionRejection::ClientNotActive) }
            }
            _ => Err(ActionRejection::Unsupported),
        }
    }

    /// Handles people's annotations of files.
    async fn handle_annotations_changed(&mut self, dispatch: &Dispatch) -> Result<(), ActionRejection> {
        annotations::check_action(&self.ctx.session.annotations, &dispatch.action)?;
        self.accept_plain_action(dispatch).await
    }

    pub(super) async fn accept_plain_action(&mut self, dispatch: &Dispatch) -> Result<(), ActionRejection> {
        let channel: Arc<str> = dispatch.channel.as_str().into();
        let entry = ActionEntry::new(Arc::clone(&channel), dispatch.action.clone())?;
        let batch = self.ctx.new_batch(BatchDurability::Durable).entry(entry.with_origin(Some(dispatch.origin())));
        let mut blobs = dispatch.attachment_contents.blobs().peekable();
        // A provisional session is in memory only, but contents are read from the store. Contents that are never sent
        // are collected.
        if !self.ctx.session.is_stored && blobs.peek().is_some() {
            let contents = Batch::new(Some(Arc::clone(&self.ctx.session.uri)), BatchDurability::Durable)
                .client_blobs(blobs.by_ref());
            self.ctx.host.store.sequencer().commit(contents).await?;
        }
        let batch = batch.blobs(blobs);
        self.ctx.host.store.sequencer().commit(batch).await?;
        self.ctx.session.apply(&channel, &dispatch.action);
        if let StateAction::SessionActiveClientSet(action) = &dispatch.action {
            self.ctx.host.broadcaster.clients.mark_participant(&action.active_client.client_id);
        }
        if let StateAction::SessionConfigChanged(_) = &dispatch.action {
            self.ctx.apply_session_limits();
        }
        let directories = self.ctx.session.session.working_directories.as_deref().unwrap_or_default();
        self.ctx.host.resources.session_directories.set(&self.ctx.session.uri, directories);
        self.ctx.update_summaries().await;
        Ok(())
    }

    /// Handles a new title: of the session, or (VS Code sends it on the chat's channel) of the chat in the session.
    async fn handle_title_changed(&mut self, dispatch: &Dispatch, title: String) -> Result<(), ActionRejection> {
        if title.trim().is_empty() || title.len() > MAX_TITLE_BYTES {
            return Err(ActionRejection::InvalidTitle { max: MAX_TITLE_BYTES });
        }
        self.accept_plain_action(dispatch).await?;
        if self.is_default_chat(dispatch) {
            let changes = PartialChatSummary { title: Some(title), ..PartialChatSummary::default() };
            let chat = self.ctx.session.chat_uri.to_string();
            self.ctx
                .publish_session_action(StateAction::SessionChatUpdated(SessionChatUpdatedAction { chat, changes }))
                .await;
        }
        Ok(())
    }

    fn is_default_chat(&self, dispatch: &Dispatch) -> bool {
        dispatch.channel == *self.ctx.session.chat_uri
    }

    async fn handle_turn_started(
        &mut self,
        dispatch: &Dispatch,
        mut action: ChatTurnStartedAction,
    ) -> Result<(), ActionRejection> {
        self.check_turn_start(dispatch, &action).await?;
        self.check_not_active_elsewhere()?;
        // The turn could not end if its start time allowed no valid end time.
        if !is_valid_start_time(&action.started_at) {
            action.started_at = self.ctx.host.clock.now_timestamp();
        }
        let (turn, text) = (action.turn_id.clone(), action.message.text.clone());
        let blobs = dispatch.attachment_contents.blobs().collect();
        self.begin_turn(action, Some(dispatch.origin()), blobs).await?;
        self.ctx.turn.client_id = Some(dispatch.client_id.clone());
        let accepted = self.build_accepted_input(turn, &text);
        self.drive(accepted).await;
        let queue = self.queue_changed_input(false);
        self.drive(queue).await;
        Ok(())
    }

    async fn check_turn_start(
        &self,
        dispatch: &Dispatch,
        action: &ChatTurnStartedAction,
    ) -> Result<(), ActionRejection> {
        if self.ctx.session.chat.active_turn.is_some() || !self.machine.can_accept_turn() {
            return Err(ActionRejection::TurnActive);
        }
        if action.turn_id.is_empty() || self.is_turn_id_used(&action.turn_id).await? {
            return Err(ActionRejection::InvalidTurnId);
        }
        check_message(&action.message, dispatch)?;
        self.check_local_command(&action.message)?;
        match &action.queued_message_id {
            Some(id) if !self.ctx.session.queued_messages().iter().any(|message| message.id == *id) => {
                Err(ActionRejection::MessageNotQueued)
            }
            _ => Ok(()),
        }
    }

    /// Whether a turn of the session has this id, in memory or in the store.
    async fn is_turn_id_used(&self, turn: &str) -> Result<bool, ActionRejection> {
        if self.ctx.session.has_turn(turn) || !self.ctx.session.has_evicted_turns() {
            return Ok(self.ctx.session.has_turn(turn));
        }
        let found = self.ctx.host.store.find_turn(&self.ctx.session.uri, turn).await;
        Ok(found?.is_some())
    }

    async fn handle_turn_cancelled(
        &mut self,
        dispatch: &Dispatch,
        mut action: ChatTurnCancelledAction,
    ) -> Result<(), ActionRejection> {
        if !self.machine.can_cancel_turn(&action.turn_id) {
            return Err(match self.machine.turn_phase() {
                TurnPhase::Ending(turn) if *turn == action.turn_id => ActionRejection::TurnEnded,
                TurnPhase::None => ActionRejection::NoActiveTurn,
                _ => ActionRejection::OtherTurnActive,
            });
        }
        // The client computes the duration; one beyond the calendar's range would leave the turn open.
        action.duration = action.duration.clamp(0, MAX_TURN_DURATION_MS);
        let turn = action.turn_id.clone();
        let slot = self.resolve_steering_at_turn_end();
        let mut output = ActionBuffer::default();
        if let (Some(notice), Some(transcript)) = (&slot.notice, self.ctx.turn.mapper.as_mut()) {
            transcript.add_notice(notice.clone(), &mut output);
        }
        let cancelled = StateAction::ChatTurnCancelled(action);
        let change = SessionChange::default().output(output).client_chat_action(cancelled, Some(dispatch.origin()));
        let change = self.remove_turn_input_needed(change);
        let change = slot.add_actions_to(self.end_foreground_sub_agents(change));
        let committed = self.ctx.commit(change).await;
        self.deliver_steering();
        committed?;
        self.withdraw_turn_requests().await;
        self.forget_foreground_sub_agents();
        self.clear_running_turn().await;
        if self.ctx.session.chat.activity.is_some() {
            self.ctx.publish_output(&mut crate::sessions::action_mapper::activity_action(None).into()).await;
        }
        self.ctx.update_summaries().await;
        self.ctx.save_snapshot().await;
        self.drive(TurnInput::Cancelled(turn)).await;
        self.step_background(BackgroundEvent::TurnStopped).await;
        let queue = self.queue_changed_input(false);
        self.drive(queue).await;
        Ok(())
    }
}
