//! Removes images from a conversation, so that it can continue without them.
//!
//! A component like the turn machine: its decisions have no clock, no I/O and no channels. The transcript is changed while no process runs the
//! conversation: an idle agent is closed first, and a turn that is accepted meanwhile waits, as it waits for any close.

use ahp_types::StateAction;
use hostler_driver::{ImageSelection, RemoveImagesError};
use tokio::sync::oneshot;

use super::SessionInput;
use super::agent::{AgentTaskEvent, SessionAgent};
use super::background_work::BackgroundTasks;
use super::context::SessionContext;
use super::effect::SessionEffect;
use super::session_change::SessionChange;
use crate::EngineError;
use crate::attachments::images_removed_action;
use crate::sessions::session::Session;
use crate::sessions::turn::{AgentPhase, TurnInput, TurnMachine};

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

/// What the component reads besides the session.
#[derive(Clone, Copy)]
pub(super) struct ImageRemovalFacts<'a> {
    pub(super) machine: &'a TurnMachine,
    pub(super) has_background_work: bool,
    /// Whether a process of the agent may still exist.
    pub(super) has_process: bool,
}

impl<'a> ImageRemovalFacts<'a> {
    pub(super) fn new(machine: &'a TurnMachine, agent: &SessionAgent, background_tasks: &BackgroundTasks) -> Self {
        Self { machine, has_background_work: !background_tasks.is_empty(), has_process: agent.has_process() }
    }
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
        session: &Session,
        facts: ImageRemovalFacts<'_>,
    ) -> Vec<ImageRemovalEffect<R>> {
        match event {
            ImageRemovalEvent::Requested { images, requester } => match self.check(session, facts) {
                Ok(()) => {
                    self.pending = Some((images, requester));
                    vec![ImageRemovalEffect::BlockAgent]
                }
                Err(error) => vec![ImageRemovalEffect::Refuse(requester, error)],
            },
            ImageRemovalEvent::AgentBlocked => match facts.machine.agent_phase() {
                AgentPhase::Closing if facts.has_process => Vec::new(),
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

    fn check(&self, session: &Session, facts: ImageRemovalFacts<'_>) -> Result<(), ImageRemovalError> {
        if session.chat.active_turn.is_some() || !facts.machine.can_accept_turn() {
            return Err(ImageRemovalError::TurnActive);
        }
        if facts.has_background_work {
            return Err(ImageRemovalError::BackgroundWork);
        }
        if self.pending.is_some() {
            return Err(ImageRemovalError::InProgress);
        }
        if session.resume_token.is_none() {
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

impl ImageRemoval<oneshot::Sender<ImageRemovalResult>> {
    /// Passes an event and carries out the effects.
    pub(super) async fn step(
        &mut self,
        event: ImageRemovalEvent<oneshot::Sender<ImageRemovalResult>>,
        ctx: &mut SessionContext,
        facts: ImageRemovalFacts<'_>,
    ) -> Vec<SessionEffect> {
        let mut effects = Vec::new();
        for effect in self.on(event, &ctx.session, facts) {
            match effect {
                ImageRemovalEffect::BlockAgent => effects.extend([
                    SessionEffect::Turn(if facts.has_process {
                        TurnInput::RetireAgent
                    } else {
                        TurnInput::BlockOpening
                    }),
                    SessionEffect::ImageRemoval(ImageRemovalEvent::AgentBlocked),
                ]),
                ImageRemovalEffect::Remove(images) => {
                    let driver = ctx.host.agents.driver(&ctx.session.session.provider);
                    let changing = match (driver, &ctx.session.resume_token) {
                        (Some(driver), Some(token)) => driver.remove_images(token, images),
                        _ => Box::pin(std::future::ready(Err(RemoveImagesError::Missing))),
                    };
                    ctx.tasks.spawn(async move {
                        SessionInput::AgentTask(AgentTaskEvent::ImagesRemoved { result: changing.await })
                    });
                }
                ImageRemovalEffect::Record { images, count, requester } => {
                    let meta = images_removed_action(&ctx.session.session, &ctx.session.chat, images);
                    let change = SessionChange::default().session_action(StateAction::SessionMetaChanged(meta));
                    // The transcript is changed even if the commit fails; then only the count of carried images is too
                    // high.
                    let result = ctx.commit(change).await.map(|()| count).map_err(EngineError::from);
                    // The requester may have disconnected.
                    let _ = requester.send(result);
                }
                ImageRemovalEffect::Refuse(requester, error) => drop(requester.send(Err(error.into()))),
                ImageRemovalEffect::UnblockAgent => effects.push(SessionEffect::Turn(TurnInput::AgentClosed)),
            }
        }
        effects
    }
}
