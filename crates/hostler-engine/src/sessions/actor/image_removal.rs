//! Removes images from a conversation, so that it can continue without them.
//!
//! A component like the turn machine: no clock, no I/O, no channels. The transcript is changed while no process runs the
//! conversation: an idle agent is closed first, and a turn that is accepted meanwhile waits, as it waits for any close.

use hostler_driver::{ImageSelection, RemoveImagesError};

use crate::EngineError;
use crate::sessions::session::Session;
use crate::sessions::turn::{AgentPhase, TurnMachine};

#[cfg(test)]
mod tests;

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

/// What the component reads.
#[derive(Clone, Copy)]
pub(super) struct ImageRemovalContext<'a> {
    pub(super) session: &'a Session,
    pub(super) machine: &'a TurnMachine,
    pub(super) has_background_work: bool,
    /// Whether a process of the agent may still exist.
    pub(super) has_process: bool,
}

/// An event of the image removal. `R` is the requester, opaque here.
#[derive(Debug)]
pub(super) enum ImageRemovalEvent<R> {
    /// A client asks to remove images.
    Requested { images: ImageSelection, requester: R },
    /// [`ImageRemovalEffect::BlockAgent`] is carried out.
    AgentBlocked,
    /// No process of the agent remains.
    AgentEnded,
    /// The driver has changed the transcript, or could not.
    Removed(Result<usize, RemoveImagesError>),
}

/// An effect that the actor carries out, in order.
#[derive(Debug, PartialEq)]
pub(super) enum ImageRemovalEffect<R> {
    /// Close the agent, or let none open, then pass [`ImageRemovalEvent::AgentBlocked`].
    BlockAgent,
    /// Change the transcript, then pass [`ImageRemovalEvent::Removed`].
    Remove(ImageSelection),
    /// Store which images are removed, and answer with their number.
    Record { images: ImageSelection, count: usize, requester: R },
    /// Answer that no images are removed.
    Refuse(R, ImageRemovalError),
    /// Agents may open again.
    UnblockAgent,
}

/// The component. See the module's documentation.
#[derive(Debug)]
pub(super) struct ImageRemoval<R> {
    /// The request that waits for the agent to close, or for the driver.
    pending: Option<(ImageSelection, R)>,
}

impl<R> Default for ImageRemoval<R> {
    fn default() -> Self {
        Self { pending: None }
    }
}

impl<R> ImageRemoval<R> {
    /// Applies an event and returns the effects that follow.
    pub(super) fn on(
        &mut self,
        event: ImageRemovalEvent<R>,
        context: ImageRemovalContext<'_>,
    ) -> Vec<ImageRemovalEffect<R>> {
        match event {
            ImageRemovalEvent::Requested { images, requester } => match self.check(context) {
                Ok(()) => {
                    self.pending = Some((images, requester));
                    vec![ImageRemovalEffect::BlockAgent]
                }
                Err(error) => vec![ImageRemovalEffect::Refuse(requester, error)],
            },
            ImageRemovalEvent::AgentBlocked => match context.machine.agent_phase() {
                AgentPhase::Closing if context.has_process => Vec::new(),
                AgentPhase::Closing => self.remove(),
                _ => self.refuse(ImageRemovalError::AgentBusy),
            },
            ImageRemovalEvent::AgentEnded => self.remove(),
            ImageRemovalEvent::Removed(result) => {
                let mut effects = match result {
                    Ok(count) => {
                        let record = |(images, requester)| ImageRemovalEffect::Record { images, count, requester };
                        self.pending.take().map(record).into_iter().collect()
                    }
                    Err(error) => self.refuse(ImageRemovalError::Driver(error)),
                };
                effects.push(ImageRemovalEffect::UnblockAgent);
                effects
            }
        }
    }

    fn check(&self, context: ImageRemovalContext<'_>) -> Result<(), ImageRemovalError> {
        if context.session.chat.active_turn.is_some() || !context.machine.can_accept_turn() {
            return Err(ImageRemovalError::TurnActive);
        }
        if context.has_background_work {
            return Err(ImageRemovalError::BackgroundWork);
        }
        if self.pending.is_some() {
            return Err(ImageRemovalError::InProgress);
        }
        if context.session.resume_token.is_none() {
            return Err(ImageRemovalError::NoConversation);
        }
        Ok(())
    }

    /// Removes the images of the pending request. Without one, an agent may open.
    fn remove(&self) -> Vec<ImageRemovalEffect<R>> {
        vec![match &self.pending {
            Some((images, _)) => ImageRemovalEffect::Remove(*images),
            None => ImageRemovalEffect::UnblockAgent,
        }]
    }

    fn refuse(&mut self, error: ImageRemovalError) -> Vec<ImageRemovalEffect<R>> {
        let requester = self.pending.take().map(|(_, requester)| requester);
        requester.map(|requester| ImageRemovalEffect::Refuse(requester, error)).into_iter().collect()
    }
}
