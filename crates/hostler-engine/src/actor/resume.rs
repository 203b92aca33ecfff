//! A turn that could not go on is taken up again.

use ahp_types::StateAction;
use ahp_types::actions::ChatTurnResumeAction;
use ahp_types::state::{ResponsePart, TurnState};

use super::Actor;
use super::change::Change;
use super::dispatch::Refusal;
use super::steer::said_last;
use crate::session::Dispatch;
use crate::transcript::Transcript;
use crate::turn::Input as TurnInput;

/// What the agent is told when it has the turn's message already.
const GO_ON: &str = "Continue where you left off.";

/// The words that take a turn up again whose message the agent has.
pub(super) fn prompt(parts: &[ResponsePart]) -> String {
    match said_last(parts) {
        // Not in front: words that begin with a slash would become a command.
        Some(words) => format!("{GO_ON}\n\nWhat I said last:\n\n{words}"),
        None => GO_ON.to_owned(),
    }
}

impl Actor {
    pub(super) async fn turn_resumed(
        &mut self,
        dispatch: &Dispatch,
        action: ChatTurnResumeAction,
    ) -> Result<(), Refusal> {
        if self.session.chat.active_turn.is_some() || !self.machine.can_accept() {
            return Err("a turn is running".to_owned());
        }
        self.check_elsewhere().await?;
        let last = self.session.chat.turns.last().filter(|turn| turn.id == action.turn_id);
        let Some(turn) = last else { return Err("only the last turn can be resumed".to_owned()) };
        let resumable = match turn.response_parts.last() {
            Some(ResponsePart::Error(error)) => error.resumable == Some(true),
            _ => false,
        };
        if turn.state != TurnState::Error || !resumable {
            return Err("that turn did not fail, or cannot be resumed".to_owned());
        }
        if self.host.local(&turn.message.text).is_some() {
            return Err("what the host did itself cannot be resumed; send the message again".to_owned());
        }
        let (id, parts) = (turn.id.clone(), turn.response_parts.len());
        let change = Change::default().chat_of(StateAction::ChatTurnResume(action), Some(dispatch.origin())).opens();
        self.commit(change).await.map_err(|error| error.to_string())?;
        self.turn_begins(Transcript::resumed(id.clone(), parts)).await;
        let need = self.need();
        self.drive(TurnInput::Accepted { turn: id, need }).await;
        Ok(())
    }
}
