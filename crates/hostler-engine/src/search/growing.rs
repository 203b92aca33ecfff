//! Turns that go on elsewhere. Whoever leads one writes all the time, and to read it means to read it from its beginning:
//! it is read from time to time, and as soon as it is over.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hostler_driver::TurnMark;
use uuid::Uuid;

/// How long such a turn is left alone after it was read.
const PAUSE: Duration = Duration::from_secs(10);

/// What to do about a turn of a conversation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// Read it.
    Read,
    /// Nothing was added since it was read.
    Same,
    /// It was read a moment ago. It is due later.
    Later,
}

/// The last turns that were not over when they were read, by their sessions.
#[derive(Debug, Default)]
pub(super) struct Growing {
    turns: Mutex<HashMap<String, Seen>>,
}

#[derive(Debug)]
struct Seen {
    turn: Uuid,
    length: usize,
    at: Duration,
    /// Whether there is more of it than was read.
    more: bool,
}

impl Growing {
    fn turns(&self) -> MutexGuard<'_, HashMap<String, Seen>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether to read a turn of which the index has something already: the last one, which may have been taken up again, and
    /// one that was last when it was read. Nobody who waits is put off.
    pub(super) fn judge(
        &self,
        session: &str,
        mark: &TurnMark,
        is_last: bool,
        now: Duration,
        waited_for: bool,
    ) -> Judged {
        match self.turns().get_mut(session).filter(|seen| seen.turn == mark.id) {
            None if !is_last => Judged::Same,
            Some(seen) if is_last && !mark.over && seen.length == mark.length => Judged::Same,
            Some(seen) if is_last && !mark.over && !waited_for && now < seen.at + PAUSE => {
                seen.more = true;
                Judged::Later
            }
            _ => Judged::Read,
        }
    }

    /// The last turn of a conversation was read.
    pub(super) fn was_read(&self, session: &str, mark: &TurnMark, now: Duration) {
        let mut turns = self.turns();
        if mark.over {
            turns.remove(session);
        } else {
            turns.insert(session.to_owned(), Seen { turn: mark.id, length: mark.length, at: now, more: false });
        }
    }

    /// A session is no more.
    pub(super) fn forget(&self, session: &str) {
        self.turns().remove(session);
    }

    /// How long it is until one is due, if there is more of one.
    pub(super) fn due_in(&self, now: Duration) -> Option<Duration> {
        let turns = self.turns();
        turns.values().filter(|seen| seen.more).map(|seen| (seen.at + PAUSE).saturating_sub(now)).min()
    }

    /// The sessions with one that is due. Each is named once.
    pub(super) fn take_due(&self, now: Duration) -> Vec<String> {
        let mut turns = self.turns();
        let due = turns.iter_mut().filter(|(_, seen)| seen.more && now >= seen.at + PAUSE);
        due.map(|(session, seen)| {
            seen.more = false;
            session.clone()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(turn: u128, length: usize, over: bool) -> TurnMark {
        TurnMark { id: Uuid::from_u128(turn), message: None, command: false, over, length, bytes: 0 }
    }

    #[test]
    fn a_turn_that_goes_on_is_read_from_time_to_time_and_when_it_is_over() {
        let (growing, at) = (Growing::default(), Duration::from_secs);
        let judge = |mark: &TurnMark, now: u64| growing.judge("s", mark, true, at(now), false);
        assert_eq!(judge(&mark(1, 1, false), 5), Judged::Read, "nobody has read it");
        growing.was_read("s", &mark(1, 1, false), at(5));
        assert_eq!(judge(&mark(1, 1, false), 99), Judged::Same);
        assert_eq!((growing.due_in(at(6)), growing.take_due(at(99)).len()), (None, 0), "there is no more of it");
        assert_eq!(judge(&mark(1, 2, false), 6), Judged::Later);
        assert_eq!(growing.judge("s", &mark(1, 2, false), true, at(6), true), Judged::Read, "somebody waits");
        assert_eq!(growing.judge("s", &mark(1, 1, true), false, at(6), false), Judged::Read, "nobody has read its end");
        assert_eq!(growing.judge("s", &mark(0, 1, true), false, at(6), false), Judged::Same, "that was over before");
        assert_eq!(judge(&mark(2, 1, false), 6), Judged::Read, "that is another one");
        assert_eq!(judge(&mark(1, 3, true), 6), Judged::Read, "it is over");
        assert_eq!((growing.due_in(at(6)), growing.take_due(at(14)).len()), (Some(at(9)), 0));
        assert_eq!(growing.take_due(at(15)), ["s"]);
        assert_eq!((growing.due_in(at(15)), judge(&mark(1, 2, false), 15)), (None, Judged::Read));
    }

    #[test]
    fn what_is_over_or_gone_is_not_remembered() {
        let growing = Growing::default();
        for session in ["a", "b", "c"] {
            growing.was_read(session, &mark(1, 1, false), Duration::ZERO);
        }
        growing.was_read("a", &mark(1, 1, true), Duration::ZERO);
        growing.forget("b");
        assert_eq!(growing.turns().keys().collect::<Vec<_>>(), ["c"]);
    }
}
