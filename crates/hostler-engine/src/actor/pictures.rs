//! Pictures are taken out of a conversation, so that it can go on without them.
//!
//! The agent's own record is changed while no process leads the conversation: the idle agent is closed first, and a turn
//! that is accepted meanwhile waits, as it waits for any close.

use ahp_types::StateAction;
use hostler_driver::{DropError, Images};
use tokio::sync::oneshot;

use super::agent::AgentNews;
use super::change::Change;
use super::{Actor, Input};
use crate::EngineError;
use crate::attach::pictures_dropped;
use crate::turn::{AgentPhase, Input as TurnInput};

/// How many pictures are gone, or why they are not.
pub(crate) type Dropped = Result<usize, EngineError>;

/// A wish that waits for the agent's end.
pub(super) struct Dropping {
    which: Images,
    reply: oneshot::Sender<Dropped>,
}

impl Actor {
    pub(super) async fn drop_images(&mut self, which: Images, reply: oneshot::Sender<Dropped>) {
        if let Err(sentence) = self.may_drop() {
            let _ = reply.send(Err(EngineError::Invalid(sentence.to_owned())));
            return;
        }
        self.dropping = Some(Dropping { which, reply });
        let there = self.agent.is_there();
        self.drive(if there { TurnInput::Retire } else { TurnInput::Hold }).await;
        match self.machine.agent() {
            AgentPhase::Closing if there => {}
            AgentPhase::Closing => self.change_record(),
            _ => {
                let sentence = "the agent is at work; try again in a moment";
                self.dropped(Err(EngineError::Invalid(sentence.to_owned())));
            }
        }
    }

    fn may_drop(&self) -> Result<(), &'static str> {
        if self.session.chat.active_turn.is_some() || !self.machine.can_accept() {
            return Err("a turn is running; wait for its end or stop it, then drop the pictures");
        }
        if !self.beside.is_empty() {
            return Err("the agent works in the background; wait for that or stop it, then drop the pictures");
        }
        if self.dropping.is_some() {
            return Err("pictures are being dropped already");
        }
        if self.session.token.is_none() {
            return Err("the conversation has not begun, so there are no pictures in it");
        }
        Ok(())
    }

    /// The agent is gone. `true` if its conversation is changed before another one may be opened.
    pub(super) fn record_is_due(&mut self) -> bool {
        let due = self.dropping.is_some();
        if due {
            self.change_record();
        }
        due
    }

    fn change_record(&mut self) {
        let driver = self.host.drivers.get(&self.session.session.provider);
        let changing = match (&self.dropping, driver, &self.session.token) {
            (Some(dropping), Some(driver), Some(token)) => driver.drop_images(token, dropping.which),
            _ => Box::pin(std::future::ready(Err(DropError::Missing))),
        };
        self.tasks.spawn(async move { Input::Agent(AgentNews::ImagesDropped { result: changing.await }) });
    }

    /// The record was changed, or could not be: whoever waits for an agent gets one now.
    pub(super) async fn images_dropped(&mut self, result: Result<usize, DropError>) {
        let outcome = match (result, &self.dropping) {
            (Ok(count), Some(dropping)) => {
                let meta = pictures_dropped(&self.session.session, &self.session.chat, dropping.which);
                let change = Change::default().session(StateAction::SessionMetaChanged(meta));
                // The record is changed whatever the store says; only the count of what it holds would be too high.
                self.commit(change).await.map(|()| count).map_err(EngineError::from)
            }
            (Ok(count), None) => Ok(count),
            (Err(error), _) => Err(EngineError::Invalid(error.to_string())),
        };
        self.dropped(outcome);
        self.drive(TurnInput::Closed).await;
    }

    fn dropped(&mut self, outcome: Dropped) {
        if let Some(dropping) = self.dropping.take() {
            // Whoever wanted it may be gone.
            let _ = dropping.reply.send(outcome);
        }
    }
}
