//! Resumes a failed or interrupted turn (`chat/turnResume`).
//!
//! If the model had started to answer (a host record states it), the agent is asked to continue; otherwise it receives
//! the original message.

use ahp_types::StateAction;
use ahp_types::actions::ChatTurnResumeAction;
use ahp_types::state::{ResponsePart, TurnState};

use super::SessionActor;
use super::external_turns::DeliveredPrompt;
use super::pending_messages::last_steering_message;
use super::session_change::SessionChange;
use crate::sessions::action_mapper::ActionMapper;
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::Dispatch;
use crate::sessions::turn::TurnInput;

/// The prompt for an agent that has the turn's message already.
const CONTINUE_PROMPT: &str = "Continue where you left off.";

/// The prompt that resumes a turn whose message the agent has.
pub(super) fn continue_prompt(parts: &[ResponsePart]) -> String {
    with_last_steering(CONTINUE_PROMPT.to_owned(), parts)
}

/// The prompt, followed by the last steer: it is unknown how much of it the agent has stored.
pub(super) fn with_last_steering(mut prompt: String, parts: &[ResponsePart]) -> String {
    if let Some(last) = last_steering_message(parts) {
        // Appended, because a prompt that starts with a slash would become a command.
        prompt.push_str("\n\nMy last message:\n\n");
        prompt.push_str(last);
    }
    prompt
}

impl SessionActor {
    pub(super) async fn handle_turn_resumed(
        &mut self,
        dispatch: &Dispatch,
        action: ChatTurnResumeAction,
    ) -> Result<(), ActionRejection> {
        if self.ctx.session.chat.active_turn.is_some() || !self.machine.can_accept_turn() {
            return Err(ActionRejection::TurnActive);
        }
        self.check_not_active_elsewhere()?;
        let last = self.ctx.session.chat.turns.last().filter(|turn| turn.id == action.turn_id);
        let Some(turn) = last else { return Err(ActionRejection::NotLastTurn) };
        let resumable = match turn.response_parts.last() {
            Some(ResponsePart::Error(error)) => error.resumable == Some(true),
            _ => false,
        };
        if turn.state != TurnState::Error || !resumable {
            return Err(ActionRejection::TurnNotResumable);
        }
        if self.ctx.host.local_command(&turn.message.text).is_some() {
            return Err(ActionRejection::LocalTurnNotResumable);
        }
        let (id, parts) = (turn.id.clone(), turn.response_parts.len());
        self.recheck_delivered(&id);
        let change = SessionChange::default()
            .client_chat_action(StateAction::ChatTurnResume(action), Some(dispatch.origin()))
            .persist_session();
        self.ctx.commit(change).await?;
        self.set_running_turn(ActionMapper::resumed(id.clone(), parts)).await;
        let need = self.agent_preparation();
        self.drive(TurnInput::Accepted { turn: id, preparation: need }).await;
        Ok(())
    }

    /// Agents write their transcripts with a delay: an agent that died early in its answer does not know the message
    /// when it is opened again. Then the message is sent once more.
    fn recheck_delivered(&mut self, turn: &str) {
        if self.ctx.session.delivered_turn.as_deref() == Some(turn) && self.has_lost_message() {
            tracing::info!(
                session = &*self.ctx.session.uri,
                "the message is missing from the transcript; sending it again"
            );
            self.ctx.session.delivered_turn = None;
        }
    }

    /// Whether an agent that is opened now does not know the message that the last one received.
    fn has_lost_message(&mut self) -> bool {
        if self.agent.has_process() {
            return false;
        }
        if self.ctx.session.resume_token.is_none() {
            // The agent starts a new conversation.
            return true;
        }
        match self.external.delivered_prompt {
            _ if self.ctx.session.delivered_prompt_id.is_none() => false,
            DeliveredPrompt::NotFound => true,
            DeliveredPrompt::NoTranscript => {
                if self.ctx.session.turn_storage.total_turns(&self.ctx.session.chat) == 1 {
                    // There is no conversation to resume yet.
                    self.ctx.session.resume_token = None;
                }
                true
            }
            DeliveredPrompt::Found | DeliveredPrompt::Unknown => false,
        }
    }
}
