//! The turns of a chat that only the store holds: memory has the running turn and a window of the last ones.
//!
//! What is asked about all turns again and again is folded up when a turn leaves memory. It is the same whether a turn is
//! in memory or not; everything else is read from the store by those who want it.

use std::sync::Arc;

use ahp_types::state::{ChatState, SessionState, Turn, TurnState};
use hostler_store::{ChatRow, TurnRow};
use serde::{Deserialize, Serialize};

use crate::attach::Carried;

/// What is known of the turns that only the store holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Past {
    /// How many there are.
    pub(crate) turns: usize,
    /// What their messages add to each request, as far as the agent still sends them.
    #[serde(skip_serializing_if = "Carried::is_empty")]
    pub(crate) carried: Carried,
    /// The model that the last of their messages named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Whether one of them was completed.
    pub(crate) completed: bool,
}

impl Past {
    fn take(&mut self, session: &SessionState, turn: &Turn) {
        self.turns += 1;
        self.carried.add(session, turn);
        if let Some(model) = &turn.message.model {
            self.model = Some(model.id.clone());
        }
        self.completed |= turn.state == TurnState::Complete;
    }
}

/// What the store has of a chat's turns.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept {
    pub(crate) past: Past,
    /// How many turns the store was given.
    given: usize,
    /// How many of them it has for sure, so that they can be read back.
    safe: usize,
    /// The first turn in memory and the number of all, as the store was told last.
    told: Option<(usize, usize)>,
}

impl Kept {
    /// A chat whose first turns are taken in later. Those that follow are not stored yet.
    pub(crate) fn taken_in(past: Past) -> Self {
        let turns = past.turns;
        Self { past, given: turns, safe: turns, told: None }
    }

    /// A chat that comes from the store.
    pub(crate) fn restored(past: Past, chat: &ChatState) -> Self {
        let turns = past.turns + chat.turns.len();
        Self { past, given: turns, safe: turns, told: None }
    }

    /// How many turns of the chat have ended.
    pub(crate) fn total(&self, chat: &ChatState) -> usize {
        self.past.turns + chat.turns.len()
    }

    /// The chat has moved: a turn that is taken up again is stored again when it ends.
    pub(crate) fn moved(&mut self, chat: &ChatState) {
        let total = self.total(chat);
        self.given = self.given.min(total);
        self.safe = self.safe.min(total);
    }

    /// The turns that the store was not given yet.
    pub(crate) fn rows(&self, uri: &Arc<str>, chat: &ChatState) -> serde_json::Result<Vec<TurnRow>> {
        let turns = (self.past.turns..).zip(&chat.turns).skip(self.given.saturating_sub(self.past.turns));
        turns
            .map(|(position, turn)| {
                let body = serde_json::to_string(turn)?;
                Ok(TurnRow { chat: Arc::clone(uri), position, id: turn.id.clone(), body })
            })
            .collect()
    }

    /// What the store has to know about the chat's turns, if that is news.
    pub(crate) fn row(&self, uri: &Arc<str>, chat: &ChatState) -> Option<ChatRow> {
        let (first, turns) = (self.past.turns, self.total(chat));
        (self.told != Some((first, turns))).then(|| ChatRow { uri: Arc::clone(uri), first, turns })
    }

    /// The store was given all of that.
    pub(crate) fn was_given(&mut self, chat: &ChatState) {
        self.given = self.total(chat);
        self.told = Some((self.past.turns, self.given));
    }

    /// Everything that the store was given is committed.
    pub(crate) fn is_safe(&mut self) {
        self.safe = self.given;
    }

    /// Lets turns go that the store has, until no more than `window` are in memory.
    pub(crate) fn trim(&mut self, session: &SessionState, chat: &mut Arc<ChatState>, window: usize) {
        let surplus = chat.turns.len().saturating_sub(window.max(1));
        let free = surplus.min(self.safe.saturating_sub(self.past.turns));
        if free > 0 {
            for turn in Arc::make_mut(chat).turns.drain(..free) {
                self.past.take(session, &turn);
            }
        }
    }
}
