//! Sessions: the summaries of their chats, with corrections to the protocol's reducer.

use ahp::reducers::apply_action_to_session;
use ahp_types::StateAction;
use ahp_types::actions::{PartialChatSummary, SessionChatAddedAction, SessionChatUpdatedAction};
use ahp_types::state::{ChatSummary, SessionState};

use super::{ApplyOutcome, Reduce};

impl Reduce for SessionState {
    fn reduce(&mut self, action: &StateAction) -> ApplyOutcome {
        let outcome = apply_action_to_session(self, action);
        // The reducer ignores these two fields. This host publishes them by `session/chatAdded`, which every reducer
        // applies.
        if let StateAction::SessionChatUpdated(SessionChatUpdatedAction { chat, changes }) = action
            && let Some(line) = self.chats.iter_mut().find(|line| line.resource == *chat)
        {
            line.movable = changes.movable.or(line.movable);
            line.interactivity = changes.interactivity.or(line.interactivity);
        }
        outcome.into()
    }
}

/// The action that turns one chat summary into another: a partial update if all reducers apply it; otherwise (a field
/// is cleared, or is one of the two that some reducers ignore) the whole summary.
pub(crate) fn chat_summary_change(now: &ChatSummary, next: ChatSummary) -> Option<StateAction> {
    fn news<T: PartialEq + Clone>(now: &T, next: &T) -> Option<T> {
        (now != next).then(|| next.clone())
    }
    if *now == next {
        return None;
    }
    let changes = PartialChatSummary {
        resource: None,
        title: news(&now.title, &next.title),
        status: news(&now.status, &next.status),
        activity: news(&now.activity, &next.activity).flatten(),
        modified_at: news(&now.modified_at, &next.modified_at),
        changes: news(&now.changes, &next.changes).flatten(),
        origin: news(&now.origin, &next.origin).flatten(),
        movable: None,
        interactivity: None,
        working_directories: news(&now.working_directories, &next.working_directories).flatten(),
    };
    let gone = (now.activity.is_some() && next.activity.is_none())
        || (now.changes.is_some() && next.changes.is_none())
        || (now.origin.is_some() && next.origin.is_none())
        || (now.working_directories.is_some() && next.working_directories.is_none());
    let forgotten = now.movable != next.movable || now.interactivity != next.interactivity;
    Some(if gone || forgotten {
        StateAction::SessionChatAdded(SessionChatAddedAction { summary: next })
    } else {
        let chat = next.resource;
        StateAction::SessionChatUpdated(SessionChatUpdatedAction { chat, changes })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ahp_types::state::{ChatInteractivity, SessionStatus};

    fn line() -> ChatSummary {
        serde_json::from_value(serde_json::json!({
            "resource": "ahp-chat:/c", "title": "t", "status": SessionStatus::Idle.bits(), "modifiedAt": "m",
            "activity": "thinks"
        }))
        .unwrap()
    }

    /// The action, and the summary that a client has after it with the unmodified reducer.
    fn followed(now: &ChatSummary, next: ChatSummary) -> (StateAction, ChatSummary) {
        let action = chat_summary_change(now, next).unwrap();
        let mut state: SessionState = serde_json::from_value(serde_json::json!({
            "provider": "p", "title": "", "status": 1, "lifecycle": "ready", "activeClients": [], "chats": [now]
        }))
        .unwrap();
        apply_action_to_session(&mut state, &action);
        (action, state.chats.remove(0))
    }

    #[test]
    fn unmodified_reducer_applies_every_chat_summary_change() {
        let now = line();
        let renamed = ChatSummary { title: "u".into(), status: 8, ..now.clone() };
        let resting = ChatSummary { activity: None, ..now.clone() };
        let locked = ChatSummary { interactivity: Some(ChatInteractivity::ReadOnly), ..now.clone() };
        let movable = ChatSummary { movable: Some(true), ..now.clone() };
        for (next, whole) in [(renamed, false), (resting, true), (locked, true), (movable, true)] {
            let (action, seen) = followed(&now, next.clone());
            assert_eq!(seen, next);
            assert_eq!(matches!(action, StateAction::SessionChatAdded(_)), whole, "{action:?}");
        }
        assert_eq!(chat_summary_change(&now, now.clone()), None);
    }
}
