//! The turns of a chat that only the store holds: memory has the running turn and a window of the last ones.
//!
//! What is asked about all turns again and again is folded up when a turn leaves memory. It is the same whether a turn is
//! in memory or not; everything else is read from the store by those who want it.

use std::sync::Arc;

use ahp_types::state::{ChatState, SessionState, Turn, TurnState};
use hostler_store::{ChatRow, TurnRow};
use serde::{Deserialize, Serialize};

use crate::attachments::CarriedAttachments;

/// What is known of the turns that only the store holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EvictedTurns {
    /// How many there are.
    #[serde(alias = "turns")]
    pub(crate) count: usize,
    /// What their messages add to each request, as far as the agent still sends them.
    #[serde(skip_serializing_if = "CarriedAttachments::is_empty")]
    #[serde(alias = "carried")]
    pub(crate) carried_attachments: CarriedAttachments,
    /// The model that the last of their messages named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(alias = "model")]
    pub(crate) last_model: Option<String>,
    /// Whether one of them was completed.
    #[serde(alias = "completed")]
    pub(crate) has_completed_turn: bool,
}

impl EvictedTurns {
    fn add_turn(&mut self, session: &SessionState, turn: &Turn) {
        self.count += 1;
        self.carried_attachments.add_turn(session, turn);
        if let Some(model) = &turn.message.model {
            self.last_model = Some(model.id.clone());
        }
        self.has_completed_turn |= turn.state == TurnState::Complete;
    }
}

/// What the store has of a chat's turns.
#[derive(Debug, Clone, Default)]
pub(crate) struct TurnStorage {
    pub(crate) evicted: EvictedTurns,
    /// How many turns the store was given.
    submitted: usize,
    /// How many of them it has for sure, so that they can be read back.
    committed: usize,
    /// The first turn in memory and the number of all, as the store was told last.
    last_chat_row: Option<(usize, usize)>,
}

impl TurnStorage {
    /// A chat whose first turns are taken in later. Those that follow are not stored yet.
    pub(crate) fn for_import(evicted: EvictedTurns) -> Self {
        let turns = evicted.count;
        Self { evicted, submitted: turns, committed: turns, last_chat_row: None }
    }

    /// A chat that comes from the store.
    pub(crate) fn restored(evicted: EvictedTurns, chat: &ChatState) -> Self {
        let turns = evicted.count + chat.turns.len();
        Self { evicted, submitted: turns, committed: turns, last_chat_row: None }
    }

    /// How many turns of the chat have ended.
    pub(crate) fn total_turns(&self, chat: &ChatState) -> usize {
        self.evicted.count + chat.turns.len()
    }

    /// The chat has moved: a turn that is taken up again is stored again when it ends.
    pub(crate) fn clamp_to_chat(&mut self, chat: &ChatState) {
        let total = self.total_turns(chat);
        self.submitted = self.submitted.min(total);
        self.committed = self.committed.min(total);
    }

    /// The turns that the store was not given yet.
    pub(crate) fn unsubmitted_rows(&self, uri: &Arc<str>, chat: &ChatState) -> serde_json::Result<Vec<TurnRow>> {
        let turns = (self.evicted.count..).zip(&chat.turns).skip(self.submitted.saturating_sub(self.evicted.count));
        turns
            .map(|(position, turn)| {
                let body = serde_json::to_string(turn)?;
                Ok(TurnRow { chat: Arc::clone(uri), position, id: turn.id.clone(), body })
            })
            .collect()
    }

    /// What the store has to know about the chat's turns, if that is news.
    pub(crate) fn changed_chat_row(&self, uri: &Arc<str>, chat: &ChatState) -> Option<ChatRow> {
        let (first, turns) = (self.evicted.count, self.total_turns(chat));
        (self.last_chat_row != Some((first, turns))).then(|| ChatRow {
            uri: Arc::clone(uri),
            first_needed: first,
            turn_count: turns,
        })
    }

    /// The store was given all of that.
    pub(crate) fn mark_submitted(&mut self, chat: &ChatState) {
        self.submitted = self.total_turns(chat);
        self.last_chat_row = Some((self.evicted.count, self.submitted));
    }

    /// Everything that the store was given is committed.
    pub(crate) fn mark_committed(&mut self) {
        self.committed = self.submitted;
    }

    /// Lets turns go that the store has, until no more than `window` are in memory.
    pub(crate) fn evict(&mut self, session: &SessionState, chat: &mut Arc<ChatState>, window: usize) {
        let surplus = chat.turns.len().saturating_sub(window.max(1));
        let free = surplus.min(self.committed.saturating_sub(self.evicted.count));
        if free > 0 {
            for turn in Arc::make_mut(chat).turns.drain(..free) {
                self.evicted.add_turn(session, &turn);
            }
        }
    }
}
