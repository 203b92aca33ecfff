//! Who may have an agent, and whose agent has to go: a pure function of who asked when and who is idle.
//!
//! A *seat* is the right to have one agent process. It is taken before the process is started and given back when its
//! tree is empty, so there are never more processes than seats. Whoever finds no seat free waits in the order of asking;
//! for everybody who waits, one agent that can be spared is told to leave: those that were opened ahead first, then the
//! ones that have been idle for longest.

use std::collections::{BTreeMap, VecDeque};

/// Names a wish for a seat, and the seat that it becomes.
pub(crate) type AgentSlotId = u64;

/// How many agents there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentPoolLimits {
    /// Agents altogether, at least 1.
    pub max_agents: usize,
    /// Agents that were opened before there was a message for them.
    pub max_prewarmed: usize,
}

impl Default for AgentPoolLimits {
    fn default() -> Self {
        Self { max_agents: 16, max_prewarmed: 2 }
    }
}

/// What a seat's agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotUse {
    /// Something that must not be disturbed.
    Working,
    /// Nothing; its next message would find it ready.
    Idle,
    /// Nothing, and it has never had a message.
    Prewarmed,
    /// It is being closed, or was told to leave.
    Evicting,
}

/// What has to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotCommand {
    /// This wish has become a seat.
    Admit(AgentSlotId),
    /// This seat's agent is to leave.
    Evict(AgentSlotId),
}

/// How many agents there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentPoolStatus {
    /// Seats that are taken: agents that start, live or are being closed.
    pub live: usize,
    /// Those that could be spared.
    pub idle: usize,
    /// Those that were opened ahead and have not been used.
    pub prewarmed: usize,
    /// Turns that wait for an agent.
    pub waiting: usize,
}

#[derive(Debug, Clone, Copy)]
struct SlotState {
    usage: SlotUse,
    /// Grows with every change of use: the smallest has been as it is for longest.
    since: u64,
}

/// The seats of a host.
#[derive(Debug)]
pub(crate) struct AgentSlots {
    limits: AgentPoolLimits,
    last_id: AgentSlotId,
    use_changes: u64,
    occupied: BTreeMap<AgentSlotId, SlotState>,
    waiting: VecDeque<AgentSlotId>,
}

impl AgentSlots {
    pub(crate) fn new(caps: AgentPoolLimits) -> Self {
        let limits = AgentPoolLimits { max_agents: caps.max_agents.max(1), ..caps };
        Self { limits, last_id: 0, use_changes: 0, occupied: BTreeMap::new(), waiting: VecDeque::new() }
    }

    pub(crate) fn limits(&self) -> AgentPoolLimits {
        self.limits
    }

    /// Somebody wants a seat. [`balance`](Self::balance) says what follows.
    pub(crate) fn enqueue(&mut self) -> AgentSlotId {
        self.last_id += 1;
        self.waiting.push_back(self.last_id);
        self.last_id
    }

    /// Somebody wants a seat for an agent without a message: now, and at nobody's expense.
    pub(crate) fn try_occupy_prewarm(&mut self) -> Option<AgentSlotId> {
        let warm = self.count(SlotUse::Prewarmed);
        if warm >= self.limits.max_prewarmed
            || self.occupied.len() >= self.limits.max_agents
            || !self.waiting.is_empty()
        {
            return None;
        }
        self.last_id += 1;
        self.occupy(self.last_id, SlotUse::Prewarmed);
        Some(self.last_id)
    }

    /// A wish is taken back, or a seat given back.
    pub(crate) fn release(&mut self, id: AgentSlotId) {
        self.waiting.retain(|waiting| *waiting != id);
        self.occupied.remove(&id);
    }

    /// The seat's agent does something else. One that was told to leave can only stay by working.
    pub(crate) fn set_use(&mut self, id: AgentSlotId, usage: SlotUse) {
        let Some(seat) = self.occupied.get_mut(&id) else { return };
        if seat.usage == usage || (seat.usage == SlotUse::Evicting && usage != SlotUse::Working) {
            return;
        }
        self.use_changes += 1;
        *seat = SlotState { usage, since: self.use_changes };
    }

    pub(crate) fn slot_use(&self, id: AgentSlotId) -> Option<SlotUse> {
        self.occupied.get(&id).map(|seat| seat.usage)
    }

    pub(crate) fn status(&self) -> AgentPoolStatus {
        let (idle, warm) = (self.count(SlotUse::Idle), self.count(SlotUse::Prewarmed));
        AgentPoolStatus { live: self.occupied.len(), idle, prewarmed: warm, waiting: self.waiting.len() }
    }

    pub(crate) fn count(&self, usage: SlotUse) -> usize {
        self.occupied.values().filter(|seat| seat.usage == usage).count()
    }

    /// Gives free seats to those who wait, and makes room for the rest as far as somebody can be spared.
    pub(crate) fn rebalance(&mut self) -> Vec<SlotCommand> {
        let mut orders = Vec::new();
        while self.occupied.len() < self.limits.max_agents {
            let Some(first) = self.waiting.pop_front() else { break };
            self.occupy(first, SlotUse::Working);
            orders.push(SlotCommand::Admit(first));
        }
        let leaving = self.count(SlotUse::Evicting);
        for _ in leaving..self.waiting.len() {
            let Some(spared) = self.eviction_candidate() else { break };
            self.set_use(spared, SlotUse::Evicting);
            orders.push(SlotCommand::Evict(spared));
        }
        orders
    }

    /// The agent that is missed least.
    fn eviction_candidate(&self) -> Option<AgentSlotId> {
        let oldest = |usage: SlotUse| {
            let these = self.occupied.iter().filter(move |(_, seat)| seat.usage == usage);
            these.min_by_key(|(_, seat)| seat.since).map(|(id, _)| *id)
        };
        oldest(SlotUse::Prewarmed).or_else(|| oldest(SlotUse::Idle))
    }

    fn occupy(&mut self, id: AgentSlotId, usage: SlotUse) {
        self.use_changes += 1;
        self.occupied.insert(id, SlotState { usage, since: self.use_changes });
    }
}
