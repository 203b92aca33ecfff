//! The chats of sub-agents: like any other chat of their session, but nobody can say anything in them.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::state::{ChatInteractivity, ChatOrigin, ChatState, ChatSummary, SessionStatus};

use crate::past::{Kept, Past};
use crate::state::{Outcome, Reduce as _};

/// How many chats of sub-agents a session holds; further ones work unseen.
pub(crate) const MAX_WORKERS: usize = 1_000;

/// A sub-agent's chat, moved by the reducer alone.
#[derive(Debug, Clone)]
pub(crate) struct Worker {
    pub(crate) uri: Arc<str>,
    pub(crate) chat: Arc<ChatState>,
    /// What the store has of its turns.
    pub(crate) kept: Kept,
}

impl Worker {
    /// The chat that a session's new line is about.
    pub(crate) fn new(line: &ChatSummary) -> Self {
        Self::restored(empty_chat(line), Past::default())
    }

    /// A chat as the store has it.
    pub(crate) fn restored(chat: ChatState, past: Past) -> Self {
        Self { uri: chat.resource.as_str().into(), kept: Kept::restored(past, &chat), chat: Arc::new(chat) }
    }

    pub(crate) fn apply(&mut self, action: &StateAction) -> Outcome {
        let outcome = Arc::make_mut(&mut self.chat).reduce(action);
        self.kept.moved(&self.chat);
        outcome
    }

    /// Whether it waits for a person.
    pub(crate) fn needs_input(&self) -> bool {
        self.chat.status & SessionStatus::InputNeeded.bits() == SessionStatus::InputNeeded.bits()
    }
}

/// A session's line about a sub-agent's chat that a call of another chat has made.
pub(crate) fn line(uri: &str, title: String, chat: &str, call: &str, now: String) -> ChatSummary {
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
