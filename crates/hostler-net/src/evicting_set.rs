//! A bounded set of connections in which the newest evicts the oldest.
//!
//! Used for connections that have not authenticated: a program that opens many of them evicts its own older ones, and a
//! connection that authenticates leaves the set before it can be evicted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// A set with a maximum number of connections.
#[derive(Debug)]
pub struct EvictingSet {
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    /// By age: the first one is the oldest.
    members: BTreeMap<u64, CancellationToken>,
}

/// A connection's membership. Dropping it leaves the set.
#[derive(Debug)]
pub struct EvictingSetMember {
    set: Arc<EvictingSet>,
    id: u64,
}

impl EvictingSet {
    /// An empty set.
    #[must_use]
    pub fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { capacity, state: Mutex::default() })
    }

    /// Adds a connection, whose token is canceled on eviction. Evicts the oldest others if the set is full.
    #[must_use = "dropping the membership leaves the set"]
    pub fn insert(self: &Arc<Self>, evicted: CancellationToken) -> EvictingSetMember {
        let mut state = self.lock_state();
        let id = state.next_id;
        state.next_id += 1;
        while state.members.len() >= self.capacity.max(1)
            && let Some((_, oldest)) = state.members.pop_first()
        {
            oldest.cancel();
        }
        state.members.insert(id, evicted);
        EvictingSetMember { set: Arc::clone(self), id }
    }

    /// Number of connections in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock_state().members.len()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for EvictingSetMember {
    fn drop(&mut self) {
        self.set.lock_state().members.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_member_is_evicted_and_dropped_ones_do_not_count() {
        let set = EvictingSet::new(2);
        let tokens: [CancellationToken; 5] = std::array::from_fn(|_| CancellationToken::new());
        let [first, second, third, fourth, fifth] = &tokens;
        let _first = set.insert(first.clone());
        let second_member = set.insert(second.clone());
        let _third = set.insert(third.clone());
        assert_eq!((first.is_cancelled(), second.is_cancelled(), set.len()), (true, false, 2));
        drop(second_member);
        let _fourth = set.insert(fourth.clone());
        assert!(!third.is_cancelled(), "the second one has left and made room");
        let _fifth = set.insert(fifth.clone());
        let evicted = tokens.each_ref().map(CancellationToken::is_cancelled);
        assert_eq!(evicted, [true, false, true, false, false]);
    }
}
