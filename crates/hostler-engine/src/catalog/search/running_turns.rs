//! External turns that are still running.
//!
//! Another process extends them all the time, and a turn can only be read from its start. Such a turn is indexed again
//! from time to time, and when it is over, not after every change.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hostler_driver::TurnIndexEntry;
use uuid::Uuid;

/// Minimum time between two reads of a running turn.
const RUNNING_TURN_REINDEX_INTERVAL: Duration = Duration::from_secs(10);

/// What to do about a turn of a conversation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReindexDecision {
    /// Index it.
    Reindex,
    /// It has not changed since it was indexed.
    Unchanged,
    /// It was indexed recently and is due later.
    Defer,
}

/// The last turns that were running when they were indexed, by session.
#[derive(Debug, Default)]
pub(super) struct RunningTurns {
    turns: Mutex<HashMap<String, IndexedTurn>>,
}

#[derive(Debug)]
struct IndexedTurn {
    turn: Uuid,
    length: usize,
    indexed_at: Duration,
    /// Whether it has grown since.
    has_more: bool,
}

impl RunningTurns {
    fn lock_turns(&self) -> MutexGuard<'_, HashMap<String, IndexedTurn>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides whether to read a turn that is already indexed: the last one, which may have been resumed, or one that
    /// was last when it was indexed. A turn that a search waits for is not deferred.
    pub(super) fn decide(
        &self,
        session: &str,
        mark: &TurnIndexEntry,
        is_last: bool,
        now: Duration,
        waited_for: bool,
    ) -> ReindexDecision {
        match self.lock_turns().get_mut(session).filter(|seen| seen.turn == mark.id) {
            None if !is_last => ReindexDecision::Unchanged,
            Some(seen) if is_last && !mark.is_complete && seen.length == mark.record_count => {
                ReindexDecision::Unchanged
            }
            Some(seen)
                if is_last
                    && !mark.is_complete
                    && !waited_for
                    && now < seen.indexed_at + RUNNING_TURN_REINDEX_INTERVAL =>
            {
                seen.has_more = true;
                ReindexDecision::Defer
            }
            _ => ReindexDecision::Reindex,
        }
    }

    /// Notes that the last turn of a conversation was indexed.
    pub(super) fn mark_indexed(&self, session: &str, mark: &TurnIndexEntry, now: Duration) {
        let mut turns = self.lock_turns();
        if mark.is_complete {
            turns.remove(session);
        } else {
            turns.insert(
                session.to_owned(),
                IndexedTurn { turn: mark.id, length: mark.record_count, indexed_at: now, has_more: false },
            );
        }
    }

    /// Removes a deleted session.
    pub(super) fn forget(&self, session: &str) {
        self.lock_turns().remove(session);
    }

    /// Time until the next turn is due, if one has grown.
    pub(super) fn next_due_in(&self, now: Duration) -> Option<Duration> {
        let turns = self.lock_turns();
        turns
            .values()
            .filter(|seen| seen.has_more)
            .map(|seen| (seen.indexed_at + RUNNING_TURN_REINDEX_INTERVAL).saturating_sub(now))
            .min()
    }

    /// Returns the sessions with a due turn, each once.
    pub(super) fn take_due(&self, now: Duration) -> Vec<String> {
        let mut turns = self.lock_turns();
        let due = turns
            .iter_mut()
            .filter(|(_, seen)| seen.has_more && now >= seen.indexed_at + RUNNING_TURN_REINDEX_INTERVAL);
        due.map(|(session, seen)| {
            seen.has_more = false;
            session.clone()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(turn: u128, length: usize, over: bool) -> TurnIndexEntry {
        TurnIndexEntry {
            id: Uuid::from_u128(turn),
            message_id: None,
            is_command: false,
            is_complete: over,
            record_count: length,
            size_bytes: 0,
        }
    }

    #[test]
    fn running_turn_is_reindexed_periodically_and_at_its_end() {
        let (growing, at) = (RunningTurns::default(), Duration::from_secs);
        let judge = |mark: &TurnIndexEntry, now: u64| growing.decide("s", mark, true, at(now), false);
        assert_eq!(judge(&mark(1, 1, false), 5), ReindexDecision::Reindex, "it was not read yet");
        growing.mark_indexed("s", &mark(1, 1, false), at(5));
        assert_eq!(judge(&mark(1, 1, false), 99), ReindexDecision::Unchanged);
        assert_eq!((growing.next_due_in(at(6)), growing.take_due(at(99)).len()), (None, 0), "there is no more of it");
        assert_eq!(judge(&mark(1, 2, false), 6), ReindexDecision::Defer);
        assert_eq!(
            growing.decide("s", &mark(1, 2, false), true, at(6), true),
            ReindexDecision::Reindex,
            "a caller waits"
        );
        assert_eq!(
            growing.decide("s", &mark(1, 1, true), false, at(6), false),
            ReindexDecision::Reindex,
            "its end was not read yet"
        );
        assert_eq!(
            growing.decide("s", &mark(0, 1, true), false, at(6), false),
            ReindexDecision::Unchanged,
            "that was over before"
        );
        assert_eq!(judge(&mark(2, 1, false), 6), ReindexDecision::Reindex, "that is another one");
        assert_eq!(judge(&mark(1, 3, true), 6), ReindexDecision::Reindex, "it is over");
        assert_eq!((growing.next_due_in(at(6)), growing.take_due(at(14)).len()), (Some(at(9)), 0));
        assert_eq!(growing.take_due(at(15)), ["s"]);
        assert_eq!((growing.next_due_in(at(15)), judge(&mark(1, 2, false), 15)), (None, ReindexDecision::Reindex));
    }

    #[test]
    fn finished_and_deleted_turns_are_forgotten() {
        let growing = RunningTurns::default();
        for session in ["a", "b", "c"] {
            growing.mark_indexed(session, &mark(1, 1, false), Duration::ZERO);
        }
        growing.mark_indexed("a", &mark(1, 1, true), Duration::ZERO);
        growing.forget("b");
        assert_eq!(growing.lock_turns().keys().collect::<Vec<_>>(), ["c"]);
    }
}
