//! How much time the machine took away from everybody.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the watchdog wants to run.
const WATCHDOG_TICK_INTERVAL: Duration = Duration::from_millis(2);

/// How far back it remembers.
const MAX_RECORDED_DELAYS: usize = 5_000;

/// A thread that asks to be woken every few milliseconds. Whatever it comes too late by was taken from it, and so from
/// any other thread that had something to do in time.
pub(crate) struct SchedulingWatchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// When it came too late, and by how much.
    delays: Mutex<Vec<(Instant, Duration)>>,
}

impl SchedulingWatchdog {
    pub(crate) fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || watch(&shared)
        });
        Self { shared, thread: Some(thread) }
    }

    /// The time between two moments that was really there to be used.
    pub(crate) fn usable_time(&self, from: Instant, to: Instant) -> Duration {
        let losses = self.shared.delays.lock().unwrap();
        let between = losses.iter().filter(|(woken, lost)| *woken > from && *woken - *lost < to);
        to.saturating_duration_since(from).saturating_sub(between.map(|(_, lost)| *lost).sum())
    }
}

fn watch(shared: &Shared) {
    while !shared.stop.load(Ordering::Relaxed) {
        let due = Instant::now() + WATCHDOG_TICK_INTERVAL;
        std::thread::sleep(WATCHDOG_TICK_INTERVAL);
        let woken = Instant::now();
        let mut losses = shared.delays.lock().unwrap();
        if losses.len() == MAX_RECORDED_DELAYS {
            losses.drain(..MAX_RECORDED_DELAYS / 2);
        }
        losses.push((woken, woken.saturating_duration_since(due)));
    }
}

impl Drop for SchedulingWatchdog {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
