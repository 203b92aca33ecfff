//! What clients want of a session.

use ahp_types::state::MessageAttachment;
use hostler_driver::ImageSelection;
use tokio::sync::oneshot;

use super::Engine;
use crate::actor::{BackgroundOutput, SessionInput};
use crate::attachments::{AttachmentPlanSummary, ClientFileReader};
use crate::session::Dispatch;
use crate::{EngineError, uri};

impl Engine {
    /// Hands a client's wish to the session's actor. The answer is an envelope. Unknown channels are ignored.
    pub async fn dispatch(&self, dispatch: Dispatch) {
        if dispatch.channel == uri::ROOT_CHANNEL_URI {
            return self.host.dispatch_root(dispatch).await;
        }
        if uri::is_terminal_channel(&dispatch.channel) {
            return self.host.dispatch_terminal(dispatch).await;
        }
        let Some(session) = uri::session_of(&dispatch.channel) else { return };
        let Some(handle) = self.host.load_session(&session).await else { return };
        if handle.send(SessionInput::Dispatch(Box::new(dispatch))).await.is_err() {
            tracing::debug!("a dispatch came too late");
        }
    }

    /// Hands a client's wish with attachments to the session's actor, after they were looked at and are kept by reference.
    /// The answer is an envelope. This may take long; what the client wants next has to wait for it.
    pub async fn dispatch_with_attachments(&self, dispatch: Dispatch, fetch: &dyn ClientFileReader) {
        let host = &self.host;
        // What was accepted once is not looked at again.
        if host.answer_duplicate_dispatch(&dispatch).await {
            return;
        }
        match host.prepare_dispatch(dispatch, fetch).await {
            Some(Ok(prepared)) => self.dispatch(prepared).await,
            // Its first sending may have been accepted meanwhile.
            Some(Err((dispatch, _))) if host.answer_duplicate_dispatch(&dispatch).await => {}
            Some(Err((dispatch, reason))) => host.reject(dispatch, reason).await,
            None => {}
        }
    }

    /// What would become of attachments if a message brought them to a chat now. Nothing is kept.
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

    /// The most pixels of pictures that were decoded at a time since the start, and the most that may be.
    #[must_use]
    pub fn decoded_pixels_peak(&self) -> (u32, u32) {
        self.host.pixel_budget.peak()
    }

    /// Sends a client's wish back as refused, to whoever hears the channel. Unknown channels are ignored.
    pub async fn reject(&self, dispatch: Dispatch, reason: String) {
        let known = dispatch.channel == uri::ROOT_CHANNEL_URI
            || self.host.resources.watches.contains(&dispatch.channel)
            || self.host.terminals.contains(&dispatch.channel)
            || uri::session_of(&dispatch.channel).is_some_and(|session| self.host.sessions().contains(&session));
        if known {
            self.host.reject(dispatch, reason).await;
        }
    }

    /// Asks the actor of a channel's session.
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

    /// Ends one piece of a session's background work.
    ///
    /// # Errors
    /// If there is no such session or no such work, or the agent refuses.
    pub async fn stop_background_work(&self, channel: &str, id: &str) -> Result<(), EngineError> {
        self.ask_session_actor(channel, |reply| SessionInput::StopBackgroundTask(id.to_owned(), reply)).await
    }

    /// The end of what a piece of a session's background work has written so far.
    ///
    /// # Errors
    /// If there is no such session or no such work, or its output cannot be had.
    pub async fn background_output(&self, channel: &str, id: &str) -> Result<BackgroundOutput, EngineError> {
        self.ask_session_actor(channel, |reply| SessionInput::ReadBackgroundOutput(id.to_owned(), reply)).await
    }

    /// Takes pictures out of a conversation, so that it can go on without them. Says how many there were.
    ///
    /// # Errors
    /// If there is no such session, if its agent works, or if the agent's record cannot be changed.
    pub async fn drop_images(&self, channel: &str, which: ImageSelection) -> Result<usize, EngineError> {
        self.ask_session_actor(channel, |reply| SessionInput::RemoveImages(which, reply)).await
    }
}
