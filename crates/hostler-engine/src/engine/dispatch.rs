//! Passes clients' dispatches and requests to session actors, after attachments are planned.

use ahp_types::state::MessageAttachment;
use hostler_driver::ImageSelection;
use hostler_store::PublishedRejection;
use tokio::sync::oneshot;

use super::Engine;
use crate::attachments::{AttachmentPlanSummary, ClientFileReader};
use crate::sessions::actor::{BackgroundOutput, SessionInput};
use crate::sessions::session::Dispatch;
use crate::{EngineError, uri};

impl Engine {
    /// Passes a client's action to the session's actor. The answer is an envelope. Unknown channels are ignored.
    pub async fn dispatch(&self, mut dispatch: Dispatch) {
        // Terminals have no journal.
        if uri::is_terminal_channel(&dispatch.channel) {
            return self.host.dispatch_terminal(dispatch).await;
        }
        if dispatch.channel == uri::ROOT_CHANNEL_URI {
            if !self.host.answer_journaled_dispatch(&dispatch).await {
                self.host.dispatch_root(dispatch).await;
            }
            return;
        }
        let Some(session) = uri::session_of(&dispatch.channel) else { return };
        let Some(handle) = self.host.load_session(&session).await else { return };
        if self.host.answer_journaled_dispatch(&dispatch).await {
            return;
        }
        dispatch.facts = self.host.look_up_dispatch_facts(&session, handle.has_stored_turns(), &dispatch).await;
        if handle.send(SessionInput::Dispatch(Box::new(dispatch))).await.is_err() {
            tracing::debug!("dropped a dispatch: the channel has ended");
        }
    }

    /// Passes a client's action with attachments to the session's actor, after they are planned and replaced by
    /// references. The answer is an envelope. This may take long; the client's later actions have to wait for it.
    pub async fn dispatch_with_attachments(&self, dispatch: Dispatch, fetch: &dyn ClientFileReader) {
        let host = &self.host;
        // An action that was accepted before is not planned again.
        if host.answer_duplicate_dispatch(&dispatch).await {
            return;
        }
        match host.prepare_dispatch(dispatch, fetch).await {
            Some(Ok(prepared)) => self.dispatch(prepared).await,
            // The same action may have been accepted meanwhile.
            Some(Err((dispatch, _))) if host.answer_duplicate_dispatch(&dispatch).await => {}
            Some(Err((dispatch, rejection))) => host.publication.reject(dispatch, rejection).await,
            None => {}
        }
    }

    /// The attachment plan of a message for a chat. Nothing is stored.
    ///
    /// # Errors
    /// If there is no such chat.
    pub async fn plan_attachments(
        &self,
        channel: &str,
        attachments: Vec<MessageAttachment>,
        fetch: &dyn ClientFileReader,
    ) -> Result<AttachmentPlanSummary, EngineError> {
        let planned = self.host.plan_summary(channel, attachments, fetch).await;
        planned.ok_or_else(|| EngineError::ChannelNotFound(channel.to_owned()))
    }

    /// The peak of decoded image pixels since the start, and their limit.
    #[must_use]
    pub fn decoded_pixels_peak(&self) -> (u32, u32) {
        self.host.attachments.peak_pixels()
    }

    /// Publishes a client's action as rejected to the channel's subscribers. Unknown channels are ignored.
    pub async fn reject(&self, dispatch: Dispatch, rejection: impl Into<PublishedRejection>) {
        let known = dispatch.channel == uri::ROOT_CHANNEL_URI
            || self.host.resources.has_watch(&dispatch.channel)
            || self.host.terminals.contains(&dispatch.channel)
            || uri::session_of(&dispatch.channel)
                .is_some_and(|session| self.host.catalog.sessions().contains(&session));
        if known {
            self.host.publication.reject(dispatch, rejection).await;
        }
    }

    /// Sends a request to the actor of a channel's session.
    async fn ask_session_actor<T>(
        &self,
        channel: &str,
        input: impl FnOnce(oneshot::Sender<Result<T, EngineError>>) -> SessionInput,
    ) -> Result<T, EngineError> {
        let not_found = || EngineError::ChannelNotFound(channel.to_owned());
        let session = uri::session_of(channel).ok_or_else(not_found)?;
        let handle = self.host.load_session(&session).await.ok_or_else(not_found)?;
        let (reply, answer) = oneshot::channel();
        handle.send(input(reply)).await?;
        answer.await.map_err(|_| EngineError::Stopping)?
    }

    /// Stops one piece of a session's background work.
    ///
    /// # Errors
    /// If there is no such session or no such work, or the agent rejects it.
    pub async fn stop_background_work(&self, channel: &str, id: &str) -> Result<(), EngineError> {
        self.ask_session_actor(channel, |reply| SessionInput::StopBackgroundTask(id.to_owned(), reply)).await
    }

    /// The last output of a piece of a session's background work.
    ///
    /// # Errors
    /// If there is no such session or no such work, or its output cannot be read.
    pub async fn background_output(&self, channel: &str, id: &str) -> Result<BackgroundOutput, EngineError> {
        self.ask_session_actor(channel, |reply| SessionInput::ReadBackgroundOutput(id.to_owned(), reply)).await
    }

    /// Removes images from a conversation, so that it can continue without them. Returns their number.
    ///
    /// # Errors
    /// If there is no such session, if its agent is working, or if the transcript cannot be changed.
    pub async fn remove_images(&self, channel: &str, which: ImageSelection) -> Result<usize, EngineError> {
        self.ask_session_actor(channel, |reply| SessionInput::RemoveImages(which, reply)).await
    }
}
