//! Sub-agent chats: chats of their parent's session that clients can only read.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::state::{ChatInteractivity, ChatOrigin, ChatState, ChatSummary, SessionStatus};

use crate::sessions::state::{ApplyOutcome, Reduce as _};
use crate::sessions::turn_storage::{EvictedTurns, TurnStorage};

/// Maximum number of sub-agent chats of a session; further sub-agents have no chat.
pub(crate) const MAX_SUB_AGENT_CHATS: usize = 1_000;

/// A sub-agent's chat, changed by the reducer only.
#[derive(Debug, Clone)]
pub(crate) struct SubAgentChat {
    pub(crate) uri: Arc<str>,
    pub(crate) state: Arc<ChatState>,
    /// Which of its turns are stored.
    pub(crate) turn_storage: TurnStorage,
}

impl SubAgentChat {
    /// Creates the chat that a new chat summary describes.
    pub(crate) fn new(line: &ChatSummary) -> Self {
        Self::restored(empty_chat(line), EvictedTurns::default())
    }

    /// Restores a stored chat.
    pub(crate) fn restored(chat: ChatState, past: EvictedTurns) -> Self {
        Self {
            uri: chat.resource.as_str().into(),
            turn_storage: TurnStorage::restored(past, &chat),
            state: Arc::new(chat),
        }
    }

    pub(crate) fn apply(&mut self, action: &StateAction) -> ApplyOutcome {
        let outcome = Arc::make_mut(&mut self.state).reduce(action);
        self.turn_storage.clamp_to_chat(&self.state);
        outcome
    }

    /// Whether it waits for a person.
    pub(crate) fn needs_input(&self) -> bool {
        self.state.status & SessionStatus::InputNeeded.bits() == SessionStatus::InputNeeded.bits()
    }
}

/// The summary of a sub-agent chat that a call of another chat started.
pub(crate) fn sub_agent_chat_summary(uri: &str, title: String, chat: &str, call: &str, now: String) -> ChatSummary {
    ChatSummary {
        resource: uri.to_owned(),
        title,
        status: SessionStatus::Idle.bits() | SessionStatus::IsRead.bits(),
        activity: None,
        modified_at: now,
        changes: None,
        origin: Some(ChatOrigin::Tool { chat: chat.to_owned(), tool_call_id: call.to_owned() }),
        movable: None,
        interactivity: Some(ChatInteractivity::ReadOnly),
        working_directories: None,
    }
}

/// An empty chat, as its summary describes it.
pub(crate) fn empty_chat(line: &ChatSummary) -> ChatState {
    ChatState {
        resource: line.resource.clone(),
        title: line.title.clone(),
        status: line.status,
        activity: line.activity.clone(),
        modified_at: line.modified_at.clone(),
        changes: line.changes.clone(),
        origin: line.origin.clone(),
        movable: line.movable,
        interactivity: line.interactivity,
        working_directories: line.working_directories.clone(),
        changesets: None,
        background_work: None,
        canvases: None,
        turns: Vec::new(),
        turns_next_cursor: None,
        active_turn: None,
        steering_message: None,
        queued_messages: None,
        draft: None,
        meta: None,
    }
}
