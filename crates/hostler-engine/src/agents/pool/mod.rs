//! The agent pool: all agent processes of a host, and their limits. [`agent_slots`] decides; this module hands out
//! slots and signals evictions.

mod agent_slots;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

pub(crate) use self::agent_slots::SlotUse;
pub use self::agent_slots::{AgentPoolLimits, AgentPoolStatus};
use self::agent_slots::{AgentSlotId, AgentSlots, SlotCommand};

/// Limits and timeouts of agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentPoolConfig {
    /// How long an agent is kept after its last turn.
    pub idle_timeout: Duration,
    /// Maximum time if background work or a pending request keeps it.
    pub max_idle_timeout: Duration,
    /// How long a working agent may send nothing before its turn is displayed as stalled; zero disables this.
    pub stall_timeout: Duration,
    /// Maximum numbers of agents.
    pub limits: AgentPoolLimits,
    /// Whether an agent is opened when a client opens a session, before its first message.
    pub prewarm: bool,
}

impl Default for AgentPoolConfig {
    fn default() -> Self {
        let (idle, idle_max) = (Duration::from_secs(5 * 60), Duration::from_secs(2 * 60 * 60));
        Self {
            idle_timeout: idle,
            max_idle_timeout: idle_max,
            stall_timeout: Duration::from_secs(2 * 60),
            limits: AgentPoolLimits::default(),
            prewarm: false,
        }
    }
}

/// All agents of a host.
pub(crate) struct AgentPool {
    pub(crate) config: AgentPoolConfig,
    state: Mutex<AgentPoolState>,
}

struct AgentPoolState {
    slots: AgentSlots,
    waiters: HashMap<AgentSlotId, oneshot::Sender<AgentSlot>>,
    eviction_signals: HashMap<AgentSlotId, Arc<Notify>>,
}

/// Result of a request for a slot.
pub(crate) enum SlotAcquisition {
    /// A slot was free.
    Acquired(AgentSlot),
    /// The request waits.
    Waiting(SlotWaiter),
}

/// The right to run one agent process. Dropped when its process tree is empty.
pub(crate) struct AgentSlot {
    pool: Arc<AgentPool>,
    id: AgentSlotId,
    eviction_signal: Arc<Notify>,
}

/// A waiting request. Dropping it withdraws the request.
pub(crate) struct SlotWaiter {
    pool: Arc<AgentPool>,
    id: AgentSlotId,
    slot: oneshot::Receiver<AgentSlot>,
}

impl AgentPool {
    pub(crate) fn new(config: AgentPoolConfig) -> Arc<Self> {
        let state = AgentPoolState {
            slots: AgentSlots::new(config.limits),
            waiters: HashMap::new(),
            eviction_signals: HashMap::new(),
        };
        Arc::new(Self { config, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, AgentPoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self) -> AgentPoolStatus {
        self.lock().slots.status()
    }

    /// Requests a slot for an agent that has a message.
    pub(crate) fn acquire(self: &Arc<Self>) -> SlotAcquisition {
        let (sender, receiver) = oneshot::channel();
        let id = {
            let mut state = self.lock();
            let id = state.slots.enqueue();
            state.waiters.insert(id, sender);
            id
        };
        let mut waiting = SlotWaiter { pool: Arc::clone(self), id, slot: receiver };
        self.rebalance();
        match waiting.slot.try_recv() {
            Ok(slot) => SlotAcquisition::Acquired(slot),
            Err(_) => SlotAcquisition::Waiting(waiting),
        }
    }

    /// Acquires a slot for a prewarmed agent, if one is free.
    pub(crate) fn try_acquire_prewarm(self: &Arc<Self>) -> Option<AgentSlot> {
        let mut state = self.lock();
        let id = state.slots.try_occupy_prewarm()?;
        Some(state.new_slot(self, id))
    }

    fn rebalance(self: &Arc<Self>) {
        let mut admitted = Vec::new();
        {
            let mut state = self.lock();
            for order in state.slots.rebalance() {
                match order {
                    SlotCommand::Admit(id) => {
                        let slot = state.new_slot(self, id);
                        admitted.push((state.waiters.remove(&id), slot));
                    }
                    SlotCommand::Evict(id) => {
                        if let Some(eviction_signal) = state.eviction_signals.get(&id) {
                            eviction_signal.notify_one();
                        }
                    }
                }
            }
        }
        // Outside the lock: if the waiter is gone, the slot is dropped and released at once.
        for (waiting, slot) in admitted {
            if let Some(waiting) = waiting {
                let _ = waiting.send(slot);
            }
        }
    }

    fn release(self: &Arc<Self>, id: AgentSlotId) {
        {
            let mut state = self.lock();
            state.slots.release(id);
            state.waiters.remove(&id);
            state.eviction_signals.remove(&id);
        }
        self.rebalance();
    }
}

impl AgentPoolState {
    fn new_slot(&mut self, pool: &Arc<AgentPool>, id: AgentSlotId) -> AgentSlot {
        let eviction_signal = Arc::new(Notify::new());
        self.eviction_signals.insert(id, Arc::clone(&eviction_signal));
        AgentSlot { pool: Arc::clone(pool), id, eviction_signal }
    }
}

impl AgentSlot {
    /// Reports the use of the slot.
    pub(crate) fn set_use(&self, usage: SlotUse) {
        let changed = {
            let mut state = self.pool.lock();
            let before = state.slots.slot_use(self.id);
            state.slots.set_use(self.id, usage);
            before != state.slots.slot_use(self.id)
        };
        if changed {
            self.pool.rebalance();
        }
    }

    /// Waits until the agent is asked to close.
    pub(crate) async fn eviction_requested(&self) {
        self.eviction_signal.notified().await;
    }

    /// Whether the agent still has to close.
    pub(crate) fn is_evicting(&self) -> bool {
        self.pool.lock().slots.slot_use(self.id) == Some(SlotUse::Evicting)
    }
}

impl Drop for AgentSlot {
    fn drop(&mut self) {
        self.pool.release(self.id);
    }
}

impl SlotWaiter {
    /// Waits for the slot.
    pub(crate) async fn acquired(mut self) -> AgentSlot {
        match (&mut self.slot).await {
            Ok(slot) => slot,
            // The pool answers every request while it exists, and this holds a reference to it.
            Err(_) => std::future::pending().await,
        }
    }

    /// The text for people during the wait.
    pub(crate) fn status_text(&self) -> String {
        let state = self.pool.lock();
        let (working, live) = (state.slots.count(SlotUse::Working), state.slots.limits().max_agents);
        if working < live {
            return "Closing an idle agent to make room".to_owned();
        }
        format!("Waiting for a free agent ({working} of {live} are working)")
    }
}

impl Drop for SlotWaiter {
    fn drop(&mut self) {
        // A slot that was sent already is released with the receiver.
        let mut state = self.pool.lock();
        if state.waiters.remove(&self.id).is_some() {
            state.slots.release(self.id);
        }
    }
}
