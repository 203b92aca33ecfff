//! Removes images from a conversation, so that it can continue without them.
//!
//! The transcript is changed while no process runs the conversation: an idle agent is closed first, and a turn that is
//! accepted meanwhile waits, as it waits for any close.

use ahp_types::StateAction;
use hostler_driver::{ImageSelection, RemoveImagesError};
use tokio::sync::oneshot;

use super::agent::AgentTaskEvent;
use super::session_change::SessionChange;
use super::{SessionActor, SessionInput};
use crate::EngineError;
use crate::attachments::images_removed_action;
use crate::turn::{AgentPhase, TurnInput};

/// Number of removed images, or why they were not removed.
pub(crate) type ImageRemovalResult = Result<usize, EngineError>;

/// Why images were not removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageRemovalError {
    /// A turn is running.
    #[error("a turn is running; wait until it has ended or stop it, then remove the images")]
    TurnActive,
    /// The agent has background work.
    #[error("the agent has background work; wait until it has ended or stop it, then remove the images")]
    BackgroundWork,
    /// Images are being removed.
    #[error("images are already being removed; wait until that is done")]
    InProgress,
    /// The conversation has no messages.
    #[error("the conversation has no messages, so it has no images")]
    NoConversation,
    /// The agent could not be closed.
    #[error("the agent is busy; try again in a moment")]
    AgentBusy,
    /// The driver could not change the transcript.
    #[error(transparent)]
    Driver(RemoveImagesError),
}

impl ImageRemovalError {
    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::TurnActive => "turnActive",
            Self::BackgroundWork => "backgroundWorkActive",
            Self::InProgress => "imageRemovalInProgress",
            Self::NoConversation => "noConversation",
            Self::AgentBusy => "agentBusy",
            Self::Driver(error) => error.code(),
        }
    }
}

/// A request that waits for the agent to close.
pub(super) struct PendingImageRemoval {
    images: ImageSelection,
    reply: oneshot::Sender<ImageRemovalResult>,
}

impl SessionActor {
    pub(super) async fn remove_images(&mut self, which: ImageSelection, reply: oneshot::Sender<ImageRemovalResult>) {
        if let Err(error) = self.check_image_removal() {
            let _ = reply.send(Err(error.into()));
            return;
        }
        self.image_removal = Some(PendingImageRemoval { images: which, reply });
        let there = self.agent.has_process();
        self.drive(if there { TurnInput::RetireAgent } else { TurnInput::BlockOpening }).await;
        match self.machine.agent_phase() {
            AgentPhase::Closing if there => {}
            AgentPhase::Closing => self.start_image_removal(),
            _ => self.finish_image_removal(Err(ImageRemovalError::AgentBusy.into())),
        }
    }

    fn check_image_removal(&self) -> Result<(), ImageRemovalError> {
        if self.session.chat.active_turn.is_some() || !self.machine.can_accept_turn() {
            return Err(ImageRemovalError::TurnActive);
        }
        if !self.background_tasks.is_empty() {
            return Err(ImageRemovalError::BackgroundWork);
        }
        if self.image_removal.is_some() {
            return Err(ImageRemovalError::InProgress);
        }
        if self.session.resume_token.is_none() {
            return Err(ImageRemovalError::NoConversation);
        }
        Ok(())
    }

    /// Starts a pending removal after the agent has ended. `true` if another agent may open only after it.
    pub(super) fn start_pending_image_removal(&mut self) -> bool {
        let due = self.image_removal.is_some();
        if due {
            self.start_image_removal();
        }
        due
    }

    fn start_image_removal(&mut self) {
        let driver = self.host.drivers.get(&self.session.session.provider);
        let changing = match (&self.image_removal, driver, &self.session.resume_token) {
            (Some(removal), Some(driver), Some(token)) => driver.remove_images(token, removal.images),
            _ => Box::pin(std::future::ready(Err(RemoveImagesError::Missing))),
        };
        self.tasks
            .spawn(async move { SessionInput::AgentTask(AgentTaskEvent::ImagesRemoved { result: changing.await }) });
    }

    /// Handles the result of a removal; a waiting turn can open an agent now.
    pub(super) async fn handle_images_removed(&mut self, result: Result<usize, RemoveImagesError>) {
        let outcome = match (result, &self.image_removal) {
            (Ok(count), Some(removal)) => {
                let meta = images_removed_action(&self.session.session, &self.session.chat, removal.images);
                let change = SessionChange::default().session_action(StateAction::SessionMetaChanged(meta));
                // The transcript is changed even if the commit fails; then only the count of carried images is too
                // high.
                self.commit(change).await.map(|()| count).map_err(EngineError::from)
            }
            (Ok(count), None) => Ok(count),
            (Err(error), _) => Err(ImageRemovalError::Driver(error).into()),
        };
        self.finish_image_removal(outcome);
        self.drive(TurnInput::AgentClosed).await;
    }

    fn finish_image_removal(&mut self, outcome: ImageRemovalResult) {
        if let Some(removal) = self.image_removal.take() {
            // The requester may have disconnected.
            let _ = removal.reply.send(outcome);
        }
    }
}
