//! The fleet: all agent processes of a host, and how many there may be. [`seats`] decides; this hands seats out and
//! rings at those who have to leave.

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

/// How agents are kept while nobody needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentPoolConfig {
    /// How long an agent is kept after its last turn.
    pub idle_timeout: Duration,
    /// How long at most, if work in the background or an open question keeps it.
    pub max_idle_timeout: Duration,
    /// How long an agent that works may say nothing before its turn is shown as stalled; zero: for ever.
    pub stall_timeout: Duration,
    /// How many agents there may be.
    pub limits: AgentPoolLimits,
    /// Whether an agent is opened when a client looks at a session, before there is a message for it.
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

/// What came of a wish for a seat.
pub(crate) enum SlotAcquisition {
    /// There was one.
    Acquired(AgentSlot),
    /// There will be one.
    Waiting(SlotWaiter),
}

/// The right to have one agent process. Dropped when its tree is empty.
pub(crate) struct AgentSlot {
    pool: Arc<AgentPool>,
    id: AgentSlotId,
    eviction_signal: Arc<Notify>,
}

/// A place in the line. Dropped by whoever does not want to wait any longer.
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

    /// A seat for an agent that has a message to work on.
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
            Ok(seat) => SlotAcquisition::Acquired(seat),
            Err(_) => SlotAcquisition::Waiting(waiting),
        }
    }

    /// A seat for an agent that nobody has a message for yet, if there is room.
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
                        let seat = state.new_slot(self, id);
                        admitted.push((state.waiters.remove(&id), seat));
                    }
                    SlotCommand::Evict(id) => {
                        if let Some(bell) = state.eviction_signals.get(&id) {
                            bell.notify_one();
                        }
                    }
                }
            }
        }
        // Without the lock: where nobody waits any more the seat comes straight back.
        for (waiting, seat) in admitted {
            if let Some(waiting) = waiting {
                let _ = waiting.send(seat);
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
    fn new_slot(&mut self, fleet: &Arc<AgentPool>, id: AgentSlotId) -> AgentSlot {
        let bell = Arc::new(Notify::new());
        self.eviction_signals.insert(id, Arc::clone(&bell));
        AgentSlot { pool: Arc::clone(fleet), id, eviction_signal: bell }
    }
}

impl AgentSlot {
    /// Says what the agent does now.
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

    /// Waits until the agent is asked to leave.
    pub(crate) async fn eviction_requested(&self) {
        self.eviction_signal.notified().await;
    }

    /// Whether the agent is still to leave.
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
    /// The seat, when its turn has come.
    pub(crate) async fn acquired(mut self) -> AgentSlot {
        match (&mut self.slot).await {
            Ok(seat) => seat,
            // The fleet gives every wish an answer as long as it is there, and this holds it.
            Err(_) => std::future::pending().await,
        }
    }

    /// What people see meanwhile.
    pub(crate) fn status_text(&self) -> String {
        let state = self.pool.lock();
        let (working, live) = (state.slots.count(SlotUse::Working), state.slots.limits().max_agents);
        if working < live {
            return "Making room for the agent".to_owned();
        }
        format!("Waiting for a free agent ({working} of {live} are working)")
    }
}

impl Drop for SlotWaiter {
    fn drop(&mut self) {
        // A seat that has arrived is another matter: it goes with the receiver.
        let mut state = self.pool.lock();
        if state.waiters.remove(&self.id).is_some() {
            state.slots.release(self.id);
        }
    }
}
