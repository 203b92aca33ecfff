//! Resumes a failed or interrupted turn (`chat/turnResume`).
//!
//! If the model had started to answer (a host record states it), the agent is asked to continue; otherwise it receives
//! the original message.

use ahp_types::actions::ChatTurnResumeAction;
use ahp_types::state::{ResponsePart, TurnState};
use ahp_types::{ActionOrigin, StateAction};
use uuid::Uuid;

use super::context::SessionContext;
use super::external_turns::DeliveredPrompt;
use super::pending_messages::last_steering_message;
use super::session_change::SessionChange;
use crate::sessions::action_mapper::{ActionBuffer, ActionMapper};
use crate::sessions::rejection::ActionRejection;

/// The prompt for an agent that has the turn's message already.
const CONTINUE_PROMPT: &str = "Continue where you left off.";

const FORGOTTEN_CONVERSATION_NOTICE: &str =
    "The agent stopped before it stored this conversation. It does not remember the turns before this one.";

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

impl SessionContext {
    /// Resumes the last turn, if it failed, and returns its id. The agent is not running a turn.
    pub(super) async fn resume_turn(
        &mut self,
        origin: ActionOrigin,
        action: ChatTurnResumeAction,
        has_process: bool,
        delivered_prompt: DeliveredPrompt,
    ) -> Result<String, ActionRejection> {
        let last = self.session.chat.turns.last().filter(|turn| turn.id == action.turn_id);
        let Some(turn) = last else { return Err(ActionRejection::NotLastTurn) };
        let resumable = match turn.response_parts.last() {
            Some(ResponsePart::Error(error)) => error.resumable == Some(true),
            _ => false,
        };
        if turn.state != TurnState::Error || !resumable {
            return Err(ActionRejection::TurnNotResumable);
        }
        if self.host.local_command(&turn.message.text).is_some() {
            return Err(ActionRejection::LocalTurnNotResumable);
        }
        let (id, parts) = (turn.id.clone(), turn.response_parts.len());
        let had_token = self.session.resume_token.is_some();
        if !has_process {
            self.recheck_delivered(&id, delivered_prompt);
        }
        let is_forgotten = had_token && self.session.resume_token.is_none() && self.turn_count() > 1;
        let change = SessionChange::default()
            .client_chat_action(StateAction::ChatTurnResume(action), Some(origin))
            .persist_session();
        self.commit(change).await?;
        self.set_running_turn(ActionMapper::resumed(id.clone(), parts)).await;
        if is_forgotten && let Some(mapper) = &mut self.turn.mapper {
            let mut notice = ActionBuffer::default();
            mapper.add_notice(FORGOTTEN_CONVERSATION_NOTICE.to_owned(), &mut notice);
            self.publish_output(&mut notice).await;
        }
        Ok(id)
    }

    fn turn_count(&self) -> usize {
        self.session.turn_storage.total_turns(&self.session.chat)
    }

    /// Agents write their transcripts with a delay: an agent that died early in its answer does not know the message
    /// when it is opened again. Then the message is sent once more.
    fn recheck_delivered(&mut self, turn: &str, delivered_prompt: DeliveredPrompt) {
        if self.session.delivered_turn.as_deref() == Some(turn) && self.has_lost_message(delivered_prompt) {
            tracing::info!(
                session = &*self.session.uri,
                "the message is missing from the transcript; sending it again"
            );
            self.session.delivered_turn = None;
        }
    }

    /// Whether an agent that is opened now does not know the message that the last one received.
    fn has_lost_message(&mut self, delivered_prompt: DeliveredPrompt) -> bool {
        let transcript_store = self.host.agents.transcript_store(&self.session.session.provider);
        match delivered_prompt {
            // Without a token the agent starts a new conversation.
            _ if self.session.delivered_prompt_id.is_none() || transcript_store.is_none() => {
                self.session.resume_token.is_none()
            }
            DeliveredPrompt::NotFound => true,
            DeliveredPrompt::NoTranscript => {
                // An agent that died early has stored nothing that could be resumed.
                if self.turn_count() == 1 || self.session.synced_through == Some(Uuid::nil()) {
                    self.session.resume_token = None;
                }
                true
            }
            DeliveredPrompt::Found | DeliveredPrompt::Unknown => false,
        }
    }
}
