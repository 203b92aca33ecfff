//! Who may have an agent, and whose agent has to go: a pure function of who asked when and who is idle.
//!
//! A *seat* is the right to have one agent process. It is taken before the process is started and given back when its
//! tree is empty, so there are never more processes than seats. Whoever finds no seat free waits in the order of asking;
//! for everybody who waits, one agent that can be spared is told to leave: those that were opened ahead first, then the
//! ones that have been idle for longest.

use std::collections::{BTreeMap, VecDeque};

/// Names a wish for a seat, and the seat that it becomes.
pub(crate) type SeatId = u64;

/// How many agents there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Agents altogether, at least 1.
    pub live: usize,
    /// Agents that were opened before there was a message for them.
    pub warm: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self { live: 16, warm: 2 }
    }
}

/// What a seat's agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Something that must not be disturbed.
    Working,
    /// Nothing; its next message would find it ready.
    Idle,
    /// Nothing, and it has never had a message.
    Warm,
    /// It is being closed, or was told to leave.
    Leaving,
}

/// What has to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// This wish has become a seat.
    Admit(SeatId),
    /// This seat's agent is to leave.
    Evict(SeatId),
}

/// How many agents there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FleetStatus {
    /// Seats that are taken: agents that start, live or are being closed.
    pub live: usize,
    /// Those that could be spared.
    pub idle: usize,
    /// Those that were opened ahead and have not been used.
    pub warm: usize,
    /// Turns that wait for an agent.
    pub waiting: usize,
}

#[derive(Debug, Clone, Copy)]
struct Seat {
    usage: Use,
    /// Grows with every change of use: the smallest has been as it is for longest.
    since: u64,
}

/// The seats of a host.
#[derive(Debug)]
pub(crate) struct Seats {
    caps: Caps,
    next: SeatId,
    changes: u64,
    taken: BTreeMap<SeatId, Seat>,
    waiting: VecDeque<SeatId>,
}

impl Seats {
    pub(crate) fn new(caps: Caps) -> Self {
        let caps = Caps { live: caps.live.max(1), ..caps };
        Self { caps, next: 0, changes: 0, taken: BTreeMap::new(), waiting: VecDeque::new() }
    }

    pub(crate) fn caps(&self) -> Caps {
        self.caps
    }

    /// Somebody wants a seat. [`balance`](Self::balance) says what follows.
    pub(crate) fn ask(&mut self) -> SeatId {
        self.next += 1;
        self.waiting.push_back(self.next);
        self.next
    }

    /// Somebody wants a seat for an agent without a message: now, and at nobody's expense.
    pub(crate) fn ask_warm(&mut self) -> Option<SeatId> {
        let warm = self.count(Use::Warm);
        if warm >= self.caps.warm || self.taken.len() >= self.caps.live || !self.waiting.is_empty() {
            return None;
        }
        self.next += 1;
        self.take(self.next, Use::Warm);
        Some(self.next)
    }

    /// A wish is taken back, or a seat given back.
    pub(crate) fn release(&mut self, id: SeatId) {
        self.waiting.retain(|waiting| *waiting != id);
        self.taken.remove(&id);
    }

    /// The seat's agent does something else. One that was told to leave can only stay by working.
    pub(crate) fn set(&mut self, id: SeatId, usage: Use) {
        let Some(seat) = self.taken.get_mut(&id) else { return };
        if seat.usage == usage || (seat.usage == Use::Leaving && usage != Use::Working) {
            return;
        }
        self.changes += 1;
        *seat = Seat { usage, since: self.changes };
    }

    pub(crate) fn usage(&self, id: SeatId) -> Option<Use> {
        self.taken.get(&id).map(|seat| seat.usage)
    }

    pub(crate) fn status(&self) -> FleetStatus {
        let (idle, warm) = (self.count(Use::Idle), self.count(Use::Warm));
        FleetStatus { live: self.taken.len(), idle, warm, waiting: self.waiting.len() }
    }

    pub(crate) fn count(&self, usage: Use) -> usize {
        self.taken.values().filter(|seat| seat.usage == usage).count()
    }

    /// Gives free seats to those who wait, and makes room for the rest as far as somebody can be spared.
    pub(crate) fn balance(&mut self) -> Vec<Order> {
        let mut orders = Vec::new();
        while self.taken.len() < self.caps.live {
            let Some(first) = self.waiting.pop_front() else { break };
            self.take(first, Use::Working);
            orders.push(Order::Admit(first));
        }
        let leaving = self.count(Use::Leaving);
        for _ in leaving..self.waiting.len() {
            let Some(spared) = self.spared() else { break };
            self.set(spared, Use::Leaving);
            orders.push(Order::Evict(spared));
        }
        orders
    }

    /// The agent that is missed least.
    fn spared(&self) -> Option<SeatId> {
        let oldest = |usage: Use| {
            let these = self.taken.iter().filter(move |(_, seat)| seat.usage == usage);
            these.min_by_key(|(_, seat)| seat.since).map(|(id, _)| *id)
        };
        oldest(Use::Warm).or_else(|| oldest(Use::Idle))
    }

    fn take(&mut self, id: SeatId, usage: Use) {
        self.changes += 1;
        self.taken.insert(id, Seat { usage, since: self.changes });
    }
}
