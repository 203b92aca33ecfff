//! Pictures are taken out of a conversation, so that it can go on without them.
//!
//! The agent's own record is changed while no process leads the conversation: the idle agent is closed first, and a turn
//! that is accepted meanwhile waits, as it waits for any close.

use ahp_types::StateAction;
use hostler_driver::{ImageSelection, RemoveImagesError};
use tokio::sync::oneshot;

use super::agent::AgentTaskEvent;
use super::session_change::SessionChange;
use super::{SessionActor, SessionInput};
use crate::EngineError;
use crate::attachments::images_dropped_action;
use crate::turn::{AgentPhase, TurnInput};

/// How many pictures are gone, or why they are not.
pub(crate) type ImageRemovalResult = Result<usize, EngineError>;

/// A wish that waits for the agent's end.
pub(super) struct PendingImageRemoval {
    images: ImageSelection,
    reply: oneshot::Sender<ImageRemovalResult>,
}

impl SessionActor {
    pub(super) async fn remove_images(&mut self, which: ImageSelection, reply: oneshot::Sender<ImageRemovalResult>) {
        if let Err(sentence) = self.check_image_removal() {
            let _ = reply.send(Err(EngineError::Invalid(sentence.to_owned())));
            return;
        }
        self.image_removal = Some(PendingImageRemoval { images: which, reply });
        let there = self.agent.has_process();
        self.drive(if there { TurnInput::RetireAgent } else { TurnInput::BlockOpening }).await;
        match self.machine.agent_phase() {
            AgentPhase::Closing if there => {}
            AgentPhase::Closing => self.start_image_removal(),
            _ => {
                let sentence = "the agent is at work; try again in a moment";
                self.finish_image_removal(Err(EngineError::Invalid(sentence.to_owned())));
            }
        }
    }

    fn check_image_removal(&self) -> Result<(), &'static str> {
        if self.session.chat.active_turn.is_some() || !self.machine.can_accept_turn() {
            return Err("a turn is running; wait for its end or stop it, then drop the pictures");
        }
        if !self.background_tasks.is_empty() {
            return Err("the agent works in the background; wait for that or stop it, then drop the pictures");
        }
        if self.image_removal.is_some() {
            return Err("pictures are being dropped already");
        }
        if self.session.resume_token.is_none() {
            return Err("the conversation has not begun, so there are no pictures in it");
        }
        Ok(())
    }

    /// The agent is gone. `true` if its conversation is changed before another one may be opened.
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
            (Some(dropping), Some(driver), Some(token)) => driver.remove_images(token, dropping.images),
            _ => Box::pin(std::future::ready(Err(RemoveImagesError::Missing))),
        };
        self.tasks
            .spawn(async move { SessionInput::AgentTask(AgentTaskEvent::ImagesRemoved { result: changing.await }) });
    }

    /// The record was changed, or could not be: whoever waits for an agent gets one now.
    pub(super) async fn handle_images_removed(&mut self, result: Result<usize, RemoveImagesError>) {
        let outcome = match (result, &self.image_removal) {
            (Ok(count), Some(dropping)) => {
                let meta = images_dropped_action(&self.session.session, &self.session.chat, dropping.images);
                let change = SessionChange::default().session_action(StateAction::SessionMetaChanged(meta));
                // The record is changed whatever the store says; only the count of what it holds would be too high.
                self.commit(change).await.map(|()| count).map_err(EngineError::from)
            }
            (Ok(count), None) => Ok(count),
            (Err(error), _) => Err(EngineError::Invalid(error.to_string())),
        };
        self.finish_image_removal(outcome);
        self.drive(TurnInput::AgentClosed).await;
    }

    fn finish_image_removal(&mut self, outcome: ImageRemovalResult) {
        if let Some(dropping) = self.image_removal.take() {
            // Whoever wanted it may be gone.
            let _ = dropping.reply.send(outcome);
        }
    }
}
