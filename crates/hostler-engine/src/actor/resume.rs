//! A turn that could not go on is taken up again.

use ahp_types::StateAction;
use ahp_types::actions::ChatTurnResumeAction;
use ahp_types::state::{ResponsePart, TurnState};
use hostler_driver::ArchiveError;

use super::Actor;
use super::change::Change;
use super::dispatch::Refusal;
use super::elsewhere::PATIENCE;
use super::steer::said_last;
use crate::clock::ClockExt as _;
use crate::session::Dispatch;
use crate::transcript::Transcript;
use crate::turn::Input as TurnInput;

/// What the agent is told when it has the turn's message already.
const GO_ON: &str = "Continue where you left off.";

/// The words that take a turn up again whose message the agent has.
pub(super) fn prompt(parts: &[ResponsePart]) -> String {
    with_last_words(GO_ON.to_owned(), parts)
}

/// The words, and after them what the agent was told last: nobody knows how much of that it has kept.
pub(super) fn with_last_words(mut words: String, parts: &[ResponsePart]) -> String {
    if let Some(last) = said_last(parts) {
        // Not in front: words that begin with a slash would become a command.
        words.push_str("\n\nWhat I said last:\n\n");
        words.push_str(last);
    }
    words
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
        self.check_delivered(&id).await;
        let change = Change::default().chat_of(StateAction::ChatTurnResume(action), Some(dispatch.origin())).opens();
        self.commit(change).await.map_err(|error| error.to_string())?;
        self.turn_begins(Transcript::resumed(id.clone(), parts)).await;
        let need = self.need();
        self.drive(TurnInput::Accepted { turn: id, need }).await;
        Ok(())
    }

    /// Agents write their records behind their words: one that died at its first words knows nothing of the message when it
    /// is opened again. It gets it once more then.
    async fn check_delivered(&mut self, turn: &str) {
        if self.session.delivered.as_deref() == Some(turn) && self.has_lost_message().await {
            tracing::info!(session = &*self.session.uri, "the agent has not kept the message; it gets it again");
            self.session.delivered = None;
        }
    }

    /// Whether an agent that is opened now does not know the message that the last one had.
    async fn has_lost_message(&mut self) -> bool {
        if self.agent.is_there() {
            return false;
        }
        let archive = self.host.archive(&self.session.session.provider);
        let (Some(prompt), Some(archive)) = (self.session.delivered_as, archive) else {
            // Without a token it begins a conversation.
            return self.session.token.is_none();
        };
        match self.host.clock.timeout(PATIENCE, archive.open(self.conversation())).await {
            Some(Ok(record)) => !record.turns().iter().any(|mark| mark.message == Some(prompt)),
            Some(Err(ArchiveError::Missing)) => {
                if self.session.kept.total(&self.session.chat) == 1 {
                    // There is nothing to go on with yet.
                    self.session.token = None;
                }
                true
            }
            _ => false,
        }
    }
}
