//! Turns of a chat that are in the store only: memory holds the running turn and a window of the last completed ones.
//!
//! A turn is evicted after its row is committed, which a later durable batch of the same session proves. Facts about
//! all turns that are needed often (attachments that the conversation carries, the last model) are aggregated at
//! eviction and stored in the snapshot with the start of the window, so a restore reads the window only. Everything
//! else is read from the store when it is needed.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use ahp_types::state::{ChatState, SessionState, Turn, TurnState};
use hostler_store::{ChatRow, TurnRow};
use serde::{Deserialize, Serialize};

use crate::attachments::CarriedAttachments;

/// Aggregates of the evicted turns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EvictedTurns {
    /// Number of evicted turns.
    #[serde(alias = "turns")]
    pub(crate) count: usize,
    /// What their attachments add to each request, as far as the agent still sends them.
    #[serde(skip_serializing_if = "CarriedAttachments::is_empty")]
    #[serde(alias = "carried")]
    pub(crate) carried_attachments: CarriedAttachments,
    /// The model of the last of their messages that named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(alias = "model")]
    pub(crate) last_model: Option<String>,
    /// Whether at least one of them was completed.
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

/// Which of a chat's turns are stored.
#[derive(Debug, Clone, Default)]
pub(crate) struct TurnStorage {
    pub(crate) evicted: EvictedTurns,
    /// Number of turns that were passed to the store.
    submitted: usize,
    /// Number of them that are committed and can be read back.
    committed: usize,
    /// The index of the first turn in memory and the number of all turns, as passed to the store last.
    last_chat_row: Option<(usize, usize)>,
    /// Hashes of the ids of the turns that were evicted since the session was loaded.
    evicted_ids: HashSet<u64>,
}

fn hash_id(id: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(id)
}

impl TurnStorage {
    /// A chat whose first turns are imported later. The turns after them are not stored yet.
    pub(crate) fn for_import(evicted: EvictedTurns) -> Self {
        let turns = evicted.count;
        Self { evicted, submitted: turns, committed: turns, ..Self::default() }
    }

    /// A chat that was restored from the store.
    pub(crate) fn restored(evicted: EvictedTurns, chat: &ChatState) -> Self {
        let turns = evicted.count + chat.turns.len();
        Self { evicted, submitted: turns, committed: turns, ..Self::default() }
    }

    /// Whether a turn with this id was evicted since the session was loaded.
    pub(crate) fn has_evicted(&self, id: &str) -> bool {
        self.evicted_ids.contains(&hash_id(id))
    }

    /// Number of completed turns of the chat.
    pub(crate) fn total_turns(&self, chat: &ChatState) -> usize {
        self.evicted.count + chat.turns.len()
    }

    /// Adapts to a changed chat: a resumed turn is stored again when it ends.
    pub(crate) fn clamp_to_chat(&mut self, chat: &ChatState) {
        let total = self.total_turns(chat);
        self.submitted = self.submitted.min(total);
        self.committed = self.committed.min(total);
    }

    /// The turns that were not passed to the store yet.
    pub(crate) fn unsubmitted_rows(&self, uri: &Arc<str>, chat: &ChatState) -> serde_json::Result<Vec<TurnRow>> {
        let turns = (self.evicted.count..).zip(&chat.turns).skip(self.submitted.saturating_sub(self.evicted.count));
        turns
            .map(|(position, turn)| {
                let body = serde_json::to_string(turn)?;
                Ok(TurnRow { chat: Arc::clone(uri), position, id: turn.id.clone(), body })
            })
            .collect()
    }

    /// The chat's row, if it has changed since it was passed to the store.
    pub(crate) fn changed_chat_row(&self, uri: &Arc<str>, chat: &ChatState) -> Option<ChatRow> {
        let (first, turns) = (self.evicted.count, self.total_turns(chat));
        (self.last_chat_row != Some((first, turns))).then(|| ChatRow {
            uri: Arc::clone(uri),
            first_needed: first,
            turn_count: turns,
        })
    }

    /// Notes that all completed turns and the chat's row were passed to the store.
    pub(crate) fn mark_submitted(&mut self, chat: &ChatState) {
        self.submitted = self.total_turns(chat);
        self.last_chat_row = Some((self.evicted.count, self.submitted));
    }

    /// Notes that everything that was passed to the store is committed.
    pub(crate) fn mark_committed(&mut self) {
        self.committed = self.submitted;
    }

    /// Evicts committed turns until at most `window` turns are in memory.
    pub(crate) fn evict(&mut self, session: &SessionState, chat: &mut Arc<ChatState>, window: usize) {
        let surplus = chat.turns.len().saturating_sub(window.max(1));
        let free = surplus.min(self.committed.saturating_sub(self.evicted.count));
        if free > 0 {
            for turn in Arc::make_mut(chat).turns.drain(..free) {
                self.evicted.add_turn(session, &turn);
                self.evicted_ids.insert(hash_id(&turn.id));
            }
        }
    }
}
