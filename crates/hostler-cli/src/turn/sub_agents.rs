//! Requests of sub-agents. A sub-agent asks in a chat of its own; the session announces the request, and the answer
//! goes to that chat.

use std::collections::{HashMap, HashSet};

use ahp_types::actions::{ChatToolCallReadyAction, StateAction};
use ahp_types::state::{SessionInputRequest, ToolCallConfirmationState, ToolCallPendingConfirmationState};

/// Pending requests of sub-agents, by call.
#[derive(Debug, Default)]
pub(super) struct SubAgentRequests {
    pending: HashMap<String, SubAgentRequest>,
    /// Sub-agent chats that started during our turn: other requests are for other clients.
    own_chats: HashSet<String>,
}

#[derive(Debug)]
struct SubAgentRequest {
    chat: String,
    turn: String,
    /// Id of the request in the session.
    request_id: String,
}

/// Change of the pending requests.
#[derive(Debug)]
pub(super) enum SubAgentRequestChange {
    /// A call of this tool is pending.
    Requested(String, Box<ChatToolCallReadyAction>),
    /// A call is no longer pending.
    Resolved(String),
}

impl SubAgentRequests {
    /// Handles an action of the session; `own` is the session's own chat.
    pub(super) fn handle_action(&mut self, own: &str, action: &StateAction) -> Option<SubAgentRequestChange> {
        match action {
            StateAction::SessionChatAdded(added) => {
                self.own_chats.insert(added.summary.resource.clone());
                None
            }
            StateAction::SessionInputNeededSet(set) => {
                let SessionInputRequest::ToolConfirmation(request) = &set.request else { return None };
                let ToolCallConfirmationState::PendingConfirmation(call) = &request.tool_call else { return None };
                if request.chat == own || !self.own_chats.contains(&request.chat) {
                    return None;
                }
                let pending = SubAgentRequest {
                    chat: request.chat.clone(),
                    turn: request.turn_id.clone(),
                    request_id: request.id.clone(),
                };
                self.pending.insert(call.tool_call_id.clone(), pending);
                Some(SubAgentRequestChange::Requested(
                    call.display_name.clone(),
                    Box::new(to_ready_action(&request.turn_id, call)),
                ))
            }
            StateAction::SessionInputNeededRemoved(removed) => {
                let (call, _) = self.pending.iter().find(|(_, request)| request.request_id == removed.id)?;
                let call = call.clone();
                self.pending.remove(&call);
                Some(SubAgentRequestChange::Resolved(call))
            }
            _ => None,
        }
    }

    /// Returns the chat that an answer belongs to, if it is a sub-agent's.
    pub(super) fn chat_for_answer(&self, answer: &StateAction) -> Option<&str> {
        let StateAction::ChatToolCallConfirmed(action) = answer else { return None };
        self.pending.get(&action.tool_call_id).map(|request| request.chat.as_str())
    }

    /// Returns the turn of a sub-agent's call.
    pub(super) fn turn_of_call(&self, call: &str) -> Option<&str> {
        self.pending.get(call).map(|request| request.turn.as_str())
    }
}

/// Converts the call to the action of its own chat.
fn to_ready_action(turn: &str, call: &ToolCallPendingConfirmationState) -> ChatToolCallReadyAction {
    ChatToolCallReadyAction {
        turn_id: turn.to_owned(),
        tool_call_id: call.tool_call_id.clone(),
        meta: None,
        contributor: None,
        intention: call.intention.clone(),
        invocation_message: call.invocation_message.clone(),
        tool_input: call.tool_input.clone(),
        confirmation_title: call.confirmation_title.clone(),
        risk_assessment: None,
        edits: None,
        editable: call.editable,
        confirmed: None,
        options: call.options.clone(),
    }
}
