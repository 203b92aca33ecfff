//! Checks and accepts clients' actions whose whole effect is the reducer's, and checks the start of a turn.
//!
//! A dispatch is checked against the state at that moment. A rejection is published with its reason and changes nothing.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::{ChatPendingMessageSetAction, ChatTurnStartedAction};
use hostler_store::{ActionEntry, Batch, BatchDurability};

use super::context::SessionContext;
use super::pending_messages::{MessageEvent, check_message};
use crate::error::InvalidParams;
use crate::resources::MAX_SESSION_DIRECTORIES;
use crate::sessions::annotations;
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::Dispatch;
use crate::sessions::turn::TurnMachine;

/// Maximum number of active clients of a session.
const MAX_ACTIVE_CLIENTS: usize = 64;

impl SessionContext {
    /// Accepts an action whose whole effect is the reducer's.
    pub(super) async fn handle_plain_action(&mut self, dispatch: &Dispatch) -> Result<(), ActionRejection> {
        if self.session.is_annotations_channel(&dispatch.channel) {
            annotations::check_action(&self.session.annotations, &dispatch.action)?;
        } else {
            self.check_plain_action(dispatch)?;
        }
        self.accept_plain_action(dispatch).await
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
                let active = &self.session.session.active_clients;
                let is_active = active.iter().any(|client| client.client_id == action.active_client.client_id);
                match is_active || active.len() < MAX_ACTIVE_CLIENTS {
                    true => Ok(()),
                    false => Err(ActionRejection::TooManyActiveClients { max: MAX_ACTIVE_CLIENTS }),
                }
            }
            StateAction::SessionWorkingDirectorySet(action) if !self.is_default_chat(dispatch) => {
                let known = self.session.session.working_directories.as_deref().unwrap_or_default();
                let uri = dispatch.facts.directory()?;
                if uri != action.directory {
                    return Err(ActionRejection::DirectoryNotNormalized { uri });
                }
                if !known.contains(&uri) && known.len() >= MAX_SESSION_DIRECTORIES {
                    return Err(InvalidParams::TooManyDirectories.into());
                }
                Ok(())
            }
            StateAction::SessionWorkingDirectoryRemoved(action) if !self.is_default_chat(dispatch) => {
                let known = self.session.session.working_directories.as_deref().unwrap_or_default();
                match known.iter().position(|uri| *uri == action.directory) {
                    Some(0) => Err(ActionRejection::PrimaryDirectory),
                    Some(_) => Ok(()),
                    None => Err(ActionRejection::DirectoryNotInSession),
                }
            }
            StateAction::SessionActiveClientRemoved(action) if !self.is_default_chat(dispatch) => {
                let is_active = self.session.session.active_clients.iter().any(|a| a.client_id == action.client_id);
                if is_active { Ok(()) } else { Err(ActionRejection::ClientNotActive) }
            }
            _ => Err(ActionRejection::Unsupported),
        }
    }

    pub(super) async fn accept_plain_action(&mut self, dispatch: &Dispatch) -> Result<(), ActionRejection> {
        let channel: Arc<str> = dispatch.channel.as_str().into();
        let entry = ActionEntry::new(Arc::clone(&channel), dispatch.action.clone())?;
        let batch = self.new_batch(BatchDurability::Durable).entry(entry.with_origin(Some(dispatch.origin())));
        let mut blobs = dispatch.attachment_contents.blobs().peekable();
        // A provisional session is in memory only, but contents are read from the store. Contents that are never sent
        // are collected.
        if !self.session.is_stored && blobs.peek().is_some() {
            let contents =
                Batch::new(Some(Arc::clone(&self.session.uri)), BatchDurability::Durable).client_blobs(blobs.by_ref());
            self.host.publication.commit(contents).await?;
        }
        let batch = batch.blobs(blobs);
        self.host.publication.commit(batch).await?;
        self.session.apply(&channel, &dispatch.action);
        if let StateAction::ChatDraftChanged(_) = &dispatch.action {
            self.keep_draft_contents(&dispatch.attachment_contents);
        }
        if let StateAction::SessionActiveClientSet(action) = &dispatch.action {
            self.host.publication.clients().mark_participant(&action.active_client.client_id);
        }
        if let StateAction::SessionConfigChanged(_) = &dispatch.action {
            self.apply_session_limits();
        }
        let directories = self.session.session.working_directories.as_deref().unwrap_or_default();
        self.host.resources.set_session_directories(&self.session.uri, directories);
        self.update_summaries().await;
        Ok(())
    }

    /// Accepts an action on a sub-agent's read-only chat: the read and archived flags.
    pub(super) async fn handle_sub_agent_action(&mut self, dispatch: &Dispatch) -> Result<(), ActionRejection> {
        match &dispatch.action {
            StateAction::ChatIsReadChanged(_) | StateAction::ChatIsArchivedChanged(_) => {
                self.accept_plain_action(dispatch).await
            }
            _ => Err(ActionRejection::SubAgentChatReadOnly),
        }
    }

    /// Whether the channel is a sub-agent's chat. Fails for a channel that is none of the session's.
    pub(super) fn is_sub_agent_chat(&self, dispatch: &Dispatch) -> Result<bool, ActionRejection> {
        let channel = &dispatch.channel;
        if self.is_default_chat(dispatch)
            || *channel == *self.session.uri
            || self.session.is_annotations_channel(channel)
        {
            return Ok(false);
        }
        self.session.sub_agent_chat(channel).map(|_| true).ok_or(ActionRejection::ChatNotFound)
    }

    pub(super) fn is_default_chat(&self, dispatch: &Dispatch) -> bool {
        dispatch.channel == *self.session.chat_uri
    }

    pub(super) fn check_no_turn(&self, machine: &TurnMachine) -> Result<(), ActionRejection> {
        let is_free = self.session.chat.active_turn.is_none() && machine.can_accept_turn();
        if is_free { Ok(()) } else { Err(ActionRejection::TurnActive) }
    }

    pub(super) fn check_turn_start(
        &self,
        dispatch: &Dispatch,
        action: &ChatTurnStartedAction,
        machine: &TurnMachine,
    ) -> Result<(), ActionRejection> {
        self.check_no_turn(machine)?;
        if action.turn_id.is_empty() || self.session.has_turn(&action.turn_id) || dispatch.facts.is_turn_stored()? {
            return Err(ActionRejection::InvalidTurnId);
        }
        check_message(&action.message, dispatch)?;
        self.check_local_command(&action.message)?;
        match &action.queued_message_id {
            Some(id) if !self.session.queued_messages().iter().any(|message| message.id == *id) => {
                Err(ActionRejection::MessageNotQueued)
            }
            _ => Ok(()),
        }
    }

    /// Checks the form of a message for the queue, or for the running turn.
    pub(super) fn check_pending_message(
        &self,
        dispatch: &Dispatch,
        action: &ChatPendingMessageSetAction,
    ) -> Result<(), ActionRejection> {
        check_message(&action.message, dispatch)?;
        self.check_local_command(&action.message)?;
        if action.id.is_empty() { Err(ActionRejection::InvalidMessageId) } else { Ok(()) }
    }

    pub(super) fn pending_message_event(
        &self,
        dispatch: &Dispatch,
        action: ChatPendingMessageSetAction,
        is_active_elsewhere: bool,
    ) -> MessageEvent {
        let is_local_command = self.host.local_command(&action.message.text).is_some();
        let blobs = dispatch.attachment_contents.blobs().collect();
        MessageEvent::Set { action, origin: dispatch.origin(), blobs, is_local_command, is_active_elsewhere }
    }
}
