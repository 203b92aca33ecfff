//! The chats of sub-agents: like any other chat of their session, but nobody can say anything in them.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::state::{ChatInteractivity, ChatOrigin, ChatState, ChatSummary, SessionStatus};

use crate::state::{ApplyOutcome, Reduce as _};
use crate::turn_storage::{EvictedTurns, TurnStorage};

/// How many chats of sub-agents a session holds; further ones work unseen.
pub(crate) const MAX_SUB_AGENT_CHATS: usize = 1_000;

/// A sub-agent's chat, moved by the reducer alone.
#[derive(Debug, Clone)]
pub(crate) struct SubAgentChat {
    pub(crate) uri: Arc<str>,
    pub(crate) state: Arc<ChatState>,
    /// What the store has of its turns.
    pub(crate) turn_storage: TurnStorage,
}

impl SubAgentChat {
    /// The chat that a session's new line is about.
    pub(crate) fn new(line: &ChatSummary) -> Self {
        Self::restored(empty_chat(line), EvictedTurns::default())
    }

    /// A chat as the store has it.
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

/// A session's line about a sub-agent's chat that a call of another chat has made.
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

/// A chat that nothing has been said in, as its session's line describes it.
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
