//! Measures how much time the machine did not schedule a ready thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval of the watchdog's wake-ups.
const WATCHDOG_TICK_INTERVAL: Duration = Duration::from_millis(2);

/// Number of recorded delays.
const MAX_RECORDED_DELAYS: usize = 5_000;

/// Thread that asks to be woken every few milliseconds. Its delays are time that any other thread could not use
/// either.
pub(crate) struct SchedulingWatchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Delayed wake-ups, and their delays.
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

    /// Returns the usable time between two instants.
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
