//! Assigns agent slots: a pure function of the order of requests and the use of slots.
//!
//! A slot is the right to run one agent process. It is acquired before the process is started and released when its
//! process tree is empty, so there are never more processes than slots. Slots are assigned in request order. For each
//! waiting request, one unused agent is asked to close: prewarmed agents are evicted first, then the longest idle ones.

use std::collections::{BTreeMap, VecDeque};

/// The id of a slot request, and of the slot that it becomes.
pub(crate) type AgentSlotId = u64;

/// Maximum numbers of agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentPoolLimits {
    /// All agents, at least 1.
    pub max_agents: usize,
    /// Prewarmed agents.
    pub max_prewarmed: usize,
}

impl Default for AgentPoolLimits {
    fn default() -> Self {
        Self { max_agents: 16, max_prewarmed: 2 }
    }
}

/// The use of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotUse {
    /// Its agent works and must not be closed.
    Working,
    /// Its agent is idle and could receive a message at once.
    Idle,
    /// Its agent is idle, and has never received a message.
    Prewarmed,
    /// Its agent is being closed, or was asked to close.
    Evicting,
}

/// What the pool has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotCommand {
    /// Assign a slot to this request.
    Admit(AgentSlotId),
    /// Ask this slot's agent to close.
    Evict(AgentSlotId),
}

/// Numbers of agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentPoolStatus {
    /// Slots in use: agents that start, run or are being closed.
    pub live: usize,
    /// Idle agents.
    pub idle: usize,
    /// Prewarmed agents that are not used yet.
    pub prewarmed: usize,
    /// Turns that wait for a slot.
    pub waiting: usize,
}

#[derive(Debug, Clone, Copy)]
struct SlotState {
    usage: SlotUse,
    /// Increases with every change of use: the smallest value has been in its use for longest.
    since: u64,
}

/// The slots of a host.
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

    /// Enqueues a request for a slot. [`rebalance`](Self::rebalance) returns what follows.
    pub(crate) fn enqueue(&mut self) -> AgentSlotId {
        self.last_id += 1;
        self.waiting.push_back(self.last_id);
        self.last_id
    }

    /// Occupies a slot for a prewarmed agent: at once, and without an eviction.
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

    /// Withdraws a request, or releases a slot.
    pub(crate) fn release(&mut self, id: AgentSlotId) {
        self.waiting.retain(|waiting| *waiting != id);
        self.occupied.remove(&id);
    }

    /// Sets the use of a slot. An agent that was asked to close is kept only if it works.
    pub(crate) fn set_use(&mut self, id: AgentSlotId, usage: SlotUse) {
        let Some(slot) = self.occupied.get_mut(&id) else { return };
        if slot.usage == usage || (slot.usage == SlotUse::Evicting && usage != SlotUse::Working) {
            return;
        }
        self.use_changes += 1;
        *slot = SlotState { usage, since: self.use_changes };
    }

    pub(crate) fn slot_use(&self, id: AgentSlotId) -> Option<SlotUse> {
        self.occupied.get(&id).map(|slot| slot.usage)
    }

    pub(crate) fn status(&self) -> AgentPoolStatus {
        let (idle, warm) = (self.count(SlotUse::Idle), self.count(SlotUse::Prewarmed));
        AgentPoolStatus { live: self.occupied.len(), idle, prewarmed: warm, waiting: self.waiting.len() }
    }

    pub(crate) fn count(&self, usage: SlotUse) -> usize {
        self.occupied.values().filter(|slot| slot.usage == usage).count()
    }

    /// Assigns free slots to waiting requests, and evicts unused agents for the others.
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

    /// The agent to evict next.
    fn eviction_candidate(&self) -> Option<AgentSlotId> {
        let oldest = |usage: SlotUse| {
            let these = self.occupied.iter().filter(move |(_, slot)| slot.usage == usage);
            these.min_by_key(|(_, slot)| slot.since).map(|(id, _)| *id)
        };
        oldest(SlotUse::Prewarmed).or_else(|| oldest(SlotUse::Idle))
    }

    fn occupy(&mut self, id: AgentSlotId, usage: SlotUse) {
        self.use_changes += 1;
        self.occupied.insert(id, SlotState { usage, since: self.use_changes });
    }
}
