//! Chats: corrections to the protocol's reducer.

use ahp::reducers::apply_action_to_chat;
use ahp_types::StateAction;
use ahp_types::actions::{ChatQueuedMessagesReorderedAction, ChatTurnStartedAction};
use ahp_types::state::{ChatState, ResponsePart, ToolCallContributor, ToolCallState};
use jiff::{SignedDuration, Timestamp};

use super::{ApplyError, ApplyOutcome, Reduce};

/// Maximum duration of a turn in milliseconds: a hundred years.
pub(crate) const MAX_TURN_DURATION_MS: i64 = 100 * 366 * 24 * 60 * 60 * 1000;

impl Reduce for ChatState {
    fn reduce(&mut self, action: &StateAction) -> ApplyOutcome {
        match action {
            StateAction::ChatTurnStarted(start) => {
                if let Some(outcome) = start_refusal(self, start) {
                    return outcome;
                }
                apply_action_to_chat(self, action).into()
            }
            // The reducer sorts messages that are not named; the protocol keeps their order.
            StateAction::ChatQueuedMessagesReordered(action) => {
                let order = complete_queue_order(self, &action.order);
                let whole = StateAction::ChatQueuedMessagesReordered(ChatQueuedMessagesReorderedAction { order });
                apply_action_to_chat(self, &whole).into()
            }
            _ => {
                // The reducer reports `Applied` also if the call was in no state for the action.
                let moves = tool_call_ref(action)
                    .is_none_or(|call| find_tool_call(self, call).is_some_and(|call| accepts_action(call, action)));
                match apply_action_to_chat(self, action).into() {
                    ApplyOutcome::Applied if !moves => ApplyOutcome::NoOp,
                    outcome => outcome,
                }
            }
        }
    }
}

/// Why a turn must not start. The reducer would drop the running turn, and would accept a start time that makes every
/// end invalid.
fn start_refusal(chat: &ChatState, start: &ChatTurnStartedAction) -> Option<ApplyOutcome> {
    if let Some(active) = &chat.active_turn {
        return Some(match active.id == start.turn_id {
            true => ApplyOutcome::NoOp,
            false => ApplyOutcome::Refused(ApplyError::TurnAlreadyRunning(active.id.clone())),
        });
    }
    let broken = !is_valid_start_time(&start.started_at);
    broken.then(|| ApplyOutcome::Refused(ApplyError::InvalidStartTime(start.started_at.clone())))
}

/// Whether a turn with this start time can end.
pub(crate) fn is_valid_start_time(text: &str) -> bool {
    let longest = SignedDuration::from_millis(MAX_TURN_DURATION_MS);
    text.parse::<Timestamp>().is_ok_and(|start| start.checked_add(longest).is_ok())
}

/// A requested order of the queue, followed by the messages that it does not name, in their present order.
pub(crate) fn complete_queue_order(chat: &ChatState, wanted: &[String]) -> Vec<String> {
    let queue = || chat.queued_messages.iter().flatten().map(|message| &message.id);
    let mut order: Vec<String> = Vec::new();
    for id in wanted.iter().filter(|id| queue().any(|queued| queued == *id)).chain(queue()) {
        if !order.contains(id) {
            order.push(id.clone());
        }
    }
    order
}

/// The turn and the call of an action.
fn tool_call_ref(action: &StateAction) -> Option<(&str, &str)> {
    let (turn, call) = match action {
        StateAction::ChatToolCallDelta(action) => (&action.turn_id, &action.tool_call_id),
        StateAction::ChatToolCallReady(action) => (&action.turn_id, &action.tool_call_id),
        StateAction::ChatToolCallConfirmed(action) => (&action.turn_id, &action.tool_call_id),
        StateAction::ChatToolCallComplete(action) => (&action.turn_id, &action.tool_call_id),
        StateAction::ChatToolCallResultConfirmed(action) => (&action.turn_id, &action.tool_call_id),
        StateAction::ChatToolCallContentChanged(action) => (&action.turn_id, &action.tool_call_id),
        StateAction::ChatToolCallAuthRequired(action) => (&action.turn_id, &action.tool_call_id),
        StateAction::ChatToolCallAuthResolved(action) => (&action.turn_id, &action.tool_call_id),
        _ => return None,
    };
    Some((turn, call))
}

/// Finds a call of the running turn.
fn find_tool_call<'a>(chat: &'a ChatState, (turn, call): (&str, &str)) -> Option<&'a ToolCallState> {
    let active = chat.active_turn.as_ref().filter(|active| active.id == turn)?;
    active.response_parts.iter().find_map(|part| match part {
        ResponsePart::ToolCall(part) if tool_call_id(&part.tool_call) == Some(call) => Some(&part.tool_call),
        _ => None,
    })
}

fn tool_call_id(call: &ToolCallState) -> Option<&str> {
    Some(match call {
        ToolCallState::Streaming(call) => &call.tool_call_id,
        ToolCallState::PendingConfirmation(call) => &call.tool_call_id,
        ToolCallState::Running(call) => &call.tool_call_id,
        ToolCallState::AuthRequired(call) => &call.tool_call_id,
        ToolCallState::PendingResultConfirmation(call) => &call.tool_call_id,
        ToolCallState::Completed(call) => &call.tool_call_id,
        ToolCallState::Cancelled(call) => &call.tool_call_id,
        ToolCallState::Unknown(_) => return None,
    })
}

/// Whether a call is in the state that an action requires.
fn accepts_action(call: &ToolCallState, action: &StateAction) -> bool {
    use ToolCallState::{AuthRequired, PendingConfirmation, PendingResultConfirmation, Running, Streaming};
    match action {
        StateAction::ChatToolCallDelta(_) => matches!(call, Streaming(_)),
        StateAction::ChatToolCallReady(_) => matches!(call, Streaming(_) | Running(_) | PendingConfirmation(_)),
        StateAction::ChatToolCallConfirmed(_) => matches!(call, PendingConfirmation(_)),
        StateAction::ChatToolCallContentChanged(_) => matches!(call, Running(_)),
        StateAction::ChatToolCallComplete(action) => {
            matches!(call, Running(_) | PendingConfirmation(_))
                || (matches!(call, AuthRequired(_)) && !action.result.success)
        }
        StateAction::ChatToolCallResultConfirmed(_) => matches!(call, PendingResultConfirmation(_)),
        StateAction::ChatToolCallAuthRequired(_) => {
            matches!(call, Running(call) if matches!(call.contributor, Some(ToolCallContributor::Mcp(_))))
        }
        StateAction::ChatToolCallAuthResolved(_) => matches!(call, AuthRequired(_)),
        _ => true,
    }
}
