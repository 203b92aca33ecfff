//! The fleet: all agent processes of a host, and how many there may be. [`seats`] decides; this hands seats out and
//! rings at those who have to leave.

mod seats;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

pub(crate) use self::seats::Use;
pub use self::seats::{Caps, FleetStatus};
use self::seats::{Order, SeatId, Seats};

/// How agents are kept while nobody needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FleetConfig {
    /// How long an agent is kept after its last turn.
    pub idle: Duration,
    /// How long at most, if work in the background or an open question keeps it.
    pub idle_max: Duration,
    /// How long an agent that works may say nothing before its turn is shown as stalled; zero: for ever.
    pub stall: Duration,
    /// How many agents there may be.
    pub caps: Caps,
    /// Whether an agent is opened when a client looks at a session, before there is a message for it.
    pub warm: bool,
}

impl Default for FleetConfig {
    fn default() -> Self {
        let (idle, idle_max) = (Duration::from_secs(5 * 60), Duration::from_secs(2 * 60 * 60));
        Self { idle, idle_max, stall: Duration::from_secs(2 * 60), caps: Caps::default(), warm: false }
    }
}

/// All agents of a host.
pub(crate) struct Fleet {
    pub(crate) config: FleetConfig,
    state: Mutex<State>,
}

struct State {
    seats: Seats,
    waiting: HashMap<SeatId, oneshot::Sender<Seat>>,
    bells: HashMap<SeatId, Arc<Notify>>,
}

/// What came of a wish for a seat.
pub(crate) enum Place {
    /// There was one.
    Now(Seat),
    /// There will be one.
    Later(Waiting),
}

/// The right to have one agent process. Dropped when its tree is empty.
pub(crate) struct Seat {
    fleet: Arc<Fleet>,
    id: SeatId,
    bell: Arc<Notify>,
}

/// A place in the line. Dropped by whoever does not want to wait any longer.
pub(crate) struct Waiting {
    fleet: Arc<Fleet>,
    id: SeatId,
    seat: oneshot::Receiver<Seat>,
}

impl Fleet {
    pub(crate) fn new(config: FleetConfig) -> Arc<Self> {
        let state = State { seats: Seats::new(config.caps), waiting: HashMap::new(), bells: HashMap::new() };
        Arc::new(Self { config, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self) -> FleetStatus {
        self.lock().seats.status()
    }

    /// A seat for an agent that has a message to work on.
    pub(crate) fn ask(self: &Arc<Self>) -> Place {
        let (sender, receiver) = oneshot::channel();
        let id = {
            let mut state = self.lock();
            let id = state.seats.ask();
            state.waiting.insert(id, sender);
            id
        };
        let mut waiting = Waiting { fleet: Arc::clone(self), id, seat: receiver };
        self.balance();
        match waiting.seat.try_recv() {
            Ok(seat) => Place::Now(seat),
            Err(_) => Place::Later(waiting),
        }
    }

    /// A seat for an agent that nobody has a message for yet, if there is room.
    pub(crate) fn ask_warm(self: &Arc<Self>) -> Option<Seat> {
        let mut state = self.lock();
        let id = state.seats.ask_warm()?;
        Some(state.seat(self, id))
    }

    fn balance(self: &Arc<Self>) {
        let mut admitted = Vec::new();
        {
            let mut state = self.lock();
            for order in state.seats.balance() {
                match order {
                    Order::Admit(id) => {
                        let seat = state.seat(self, id);
                        admitted.push((state.waiting.remove(&id), seat));
                    }
                    Order::Evict(id) => {
                        if let Some(bell) = state.bells.get(&id) {
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

    fn release(self: &Arc<Self>, id: SeatId) {
        {
            let mut state = self.lock();
            state.seats.release(id);
            state.waiting.remove(&id);
            state.bells.remove(&id);
        }
        self.balance();
    }
}

impl State {
    fn seat(&mut self, fleet: &Arc<Fleet>, id: SeatId) -> Seat {
        let bell = Arc::new(Notify::new());
        self.bells.insert(id, Arc::clone(&bell));
        Seat { fleet: Arc::clone(fleet), id, bell }
    }
}

impl Seat {
    /// Says what the agent does now.
    pub(crate) fn set(&self, usage: Use) {
        let changed = {
            let mut state = self.fleet.lock();
            let before = state.seats.usage(self.id);
            state.seats.set(self.id, usage);
            before != state.seats.usage(self.id)
        };
        if changed {
            self.fleet.balance();
        }
    }

    /// Waits until the agent is asked to leave.
    pub(crate) async fn asked_to_leave(&self) {
        self.bell.notified().await;
    }

    /// Whether the agent is still to leave.
    pub(crate) fn is_leaving(&self) -> bool {
        self.fleet.lock().seats.usage(self.id) == Some(Use::Leaving)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.fleet.release(self.id);
    }
}

impl Waiting {
    /// The seat, when its turn has come.
    pub(crate) async fn seat(mut self) -> Seat {
        match (&mut self.seat).await {
            Ok(seat) => seat,
            // The fleet gives every wish an answer as long as it is there, and this holds it.
            Err(_) => std::future::pending().await,
        }
    }

    /// What people see meanwhile.
    pub(crate) fn sentence(&self) -> String {
        let state = self.fleet.lock();
        let (working, live) = (state.seats.count(Use::Working), state.seats.caps().live);
        if working < live {
            return "Making room for the agent".to_owned();
        }
        format!("Waiting for a free agent ({working} of {live} are working)")
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // A seat that has arrived is another matter: it goes with the receiver.
        let mut state = self.fleet.lock();
        if state.waiting.remove(&self.id).is_some() {
            state.seats.release(self.id);
        }
    }
}
