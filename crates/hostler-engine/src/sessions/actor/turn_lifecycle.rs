//! Starts turns, and publishes what follows from their end.

use std::time::{Duration, Instant};

use ahp_types::actions::ChatTurnStartedAction;
use ahp_types::state::MessageKind;
use ahp_types::{ActionOrigin, StateAction};
use hostler_store::{Blob, StoreError};
use uuid::Uuid;

use super::context::SessionContext;
use super::input::SessionInput;
use super::naming;
use super::session_change::SessionChange;
use crate::clock::ClockExt as _;
use crate::sessions::action_mapper::{ActionBuffer, ActionMapper, TurnErrorDetails, activity_action};
use crate::sessions::local_command::LocalCommand;
use crate::sessions::session::{Dispatch, new_message};
use crate::sessions::state::is_valid_start_time;
use crate::sessions::turn::TurnInput;

/// Delay before a failed store operation is retried.
pub(super) const STORE_RETRY_DELAY: Duration = Duration::from_millis(500);

impl SessionContext {
    // ── Start of turns ────────────────────────────────────────────────────────────────────────────────────────────

    /// Stores and publishes the start of a turn: for a session's first message together with the session itself, in one
    /// transaction, and with the contents that the message refers to.
    async fn begin_turn(
        &mut self,
        action: ChatTurnStartedAction,
        origin: Option<ActionOrigin>,
        blobs: Vec<Blob>,
    ) -> Result<(), StoreError> {
        let turn = action.turn_id.clone();
        let is_rename = matches!(self.host.local_command(&action.message.text), Some(LocalCommand::Rename(_)));
        let title = naming::first_title(&self.session, &action.message, is_rename);
        let mut change = SessionChange::default()
            .client_chat_action(StateAction::ChatTurnStarted(action), origin)
            .blobs(blobs)
            .persist_session();
        if let Some(title) = title {
            change = change.session_action(title);
        }
        self.commit(change).await?;
        self.set_running_turn(ActionMapper::new(turn)).await;
        Ok(())
    }

    /// Starts a turn on a client's request.
    pub(super) async fn begin_client_turn(
        &mut self,
        dispatch: &Dispatch,
        mut action: ChatTurnStartedAction,
    ) -> Result<(), StoreError> {
        // The turn could not end if its start time allowed no valid end time.
        if !is_valid_start_time(&action.started_at) {
            action.started_at = self.host.clock.now_timestamp();
        }
        let blobs = dispatch.attachment_contents.blobs().collect();
        self.begin_turn(action, Some(dispatch.origin()), blobs).await?;
        self.turn.client_id = Some(dispatch.client_id.clone());
        Ok(())
    }

    /// Sets the running turn's mapper after a turn has started or continued.
    pub(super) async fn set_running_turn(&mut self, transcript: ActionMapper) {
        self.turn.started_at = Instant::now();
        self.turn.mapper = Some(transcript);
        self.update_summaries().await;
    }

    /// Starts a turn with the head of the queue: one action removes the message and starts the turn. `None` if the
    /// message is not queued any more, or if the store failed; then it is retried later.
    pub(super) async fn begin_queued_turn(&mut self, id: &str) -> Option<(String, String)> {
        let waiting = self.session.queued_messages().iter().find(|message| message.id == id)?;
        let (turn, text) = (Uuid::new_v4().to_string(), waiting.message.text.clone());
        let action = ChatTurnStartedAction {
            turn_id: turn.clone(),
            started_at: self.host.clock.now_timestamp(),
            message: waiting.message.clone(),
            queued_message_id: Some(id.to_owned()),
            meta: None,
        };
        if let Err(error) = self.begin_turn(action, None, Vec::new()).await {
            tracing::error!(session = &*self.session.uri, %error, "failed to start the turn of a queued message; retrying");
            let pause = self.host.clock.sleep(STORE_RETRY_DELAY);
            self.tasks.spawn(async move {
                pause.await;
                SessionInput::RetryQueue
            });
            return None;
        }
        self.turn.client_id = None;
        Some((turn, text))
    }

    /// Starts a turn for work that the agent began by itself.
    pub(super) async fn start_agent_turn(&mut self, reason: String) -> TurnInput<TurnErrorDetails> {
        let turn_id = Uuid::new_v4().to_string();
        let action = ChatTurnStartedAction {
            turn_id: turn_id.clone(),
            started_at: self.host.clock.now_timestamp(),
            message: new_message(reason, MessageKind::SystemNotification),
            queued_message_id: None,
            meta: None,
        };
        match self.begin_turn(action, None, Vec::new()).await {
            Ok(()) => TurnInput::AgentTurnAccepted(turn_id),
            Err(error) => {
                tracing::error!(session = &*self.session.uri, %error, "failed to start an agent-initiated turn");
                TurnInput::StartFailed
            }
        }
    }

    /// Adds a note that the agent does other work before it handles the turn's message.
    pub(super) async fn note_agent_work(&mut self, reason: String) {
        let mut output = ActionBuffer::default();
        if let Some(transcript) = self.turn.mapper.as_mut() {
            transcript.add_notice(reason, &mut output);
        }
        self.publish_output(&mut output).await;
    }

    // ── End of turns ──────────────────────────────────────────────────────────────────────────────────────────────

    /// Publishes what depends on a turn whose end is stored.
    pub(super) async fn finish_turn(&mut self) {
        self.mark_unread().await;
        self.update_summaries().await;
        self.save_snapshot().await;
    }

    /// Publishes what depends on a cancelled turn.
    pub(super) async fn finish_cancelled_turn(&mut self) {
        self.clear_activity().await;
        self.update_summaries().await;
        self.save_snapshot().await;
    }

    pub(super) async fn clear_activity(&mut self) {
        if self.session.chat.activity.is_some() {
            self.publish_output(&mut activity_action(None).into()).await;
        }
    }
}
