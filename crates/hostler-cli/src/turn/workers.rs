//! Sub-agents ask in chats of their own. We hear of it from the session, and answer there.

use std::collections::{HashMap, HashSet};

use ahp_types::actions::{ChatToolCallReadyAction, StateAction};
use ahp_types::state::{SessionInputRequest, ToolCallConfirmationState, ToolCallPendingConfirmationState};

/// What sub-agents wait for, by their calls.
#[derive(Debug, Default)]
pub(super) struct Workers {
    asked: HashMap<String, Place>,
    /// Those that began while we followed our turn: what others ask is for others.
    ours: HashSet<String>,
}

#[derive(Debug)]
struct Place {
    chat: String,
    turn: String,
    /// The session's name for it.
    id: String,
}

/// What the session says about sub-agents.
#[derive(Debug)]
pub(super) enum News {
    /// A call waits, by this tool.
    Asked(String, Box<ChatToolCallReadyAction>),
    /// A call waits no longer.
    Settled(String),
}

impl Workers {
    /// An action of the session whose own chat is given.
    pub(super) fn see(&mut self, own: &str, action: &StateAction) -> Option<News> {
        match action {
            StateAction::SessionChatAdded(added) => {
                self.ours.insert(added.summary.resource.clone());
                None
            }
            StateAction::SessionInputNeededSet(set) => {
                let SessionInputRequest::ToolConfirmation(request) = &set.request else { return None };
                let ToolCallConfirmationState::PendingConfirmation(call) = &request.tool_call else { return None };
                if request.chat == own || !self.ours.contains(&request.chat) {
                    return None;
                }
                let place = Place { chat: request.chat.clone(), turn: request.turn_id.clone(), id: request.id.clone() };
                self.asked.insert(call.tool_call_id.clone(), place);
                Some(News::Asked(call.display_name.clone(), Box::new(ready(&request.turn_id, call))))
            }
            StateAction::SessionInputNeededRemoved(removed) => {
                let (call, _) = self.asked.iter().find(|(_, place)| place.id == removed.id)?;
                let call = call.clone();
                self.asked.remove(&call);
                Some(News::Settled(call))
            }
            _ => None,
        }
    }

    /// The chat that an answer belongs into, if it is a sub-agent's.
    pub(super) fn chat(&self, answer: &StateAction) -> Option<&str> {
        let StateAction::ChatToolCallConfirmed(action) = answer else { return None };
        self.asked.get(&action.tool_call_id).map(|place| place.chat.as_str())
    }

    /// The turn of a sub-agent's call.
    pub(super) fn turn(&self, call: &str) -> Option<&str> {
        self.asked.get(call).map(|place| place.turn.as_str())
    }
}

/// The call as its own chat tells of it.
fn ready(turn: &str, call: &ToolCallPendingConfirmationState) -> ChatToolCallReadyAction {
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
