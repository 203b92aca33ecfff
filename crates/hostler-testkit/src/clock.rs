//! Clock that a test controls.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_driver::Clock;
use tokio::sync::{Notify, oneshot};

/// Start time of every manual clock: 2026-01-01T00:00:00Z.
const CLOCK_EPOCH: Duration = Duration::from_secs(1_767_225_600);

/// Time that a test advances. Clones share the clock.
#[derive(Clone, Default)]
pub struct ManualClock {
    inner: Arc<ManualClockInner>,
}

#[derive(Default)]
struct ManualClockInner {
    time: Mutex<ClockState>,
    changed: Notify,
}

#[derive(Default)]
struct ClockState {
    now: Duration,
    next_sleeper: u64,
    /// Ordered by wake time, then by registration.
    sleepers: BTreeMap<(Duration, u64), oneshot::Sender<()>>,
}

impl ClockState {
    fn remove_dropped_sleepers(&mut self) {
        self.sleepers.retain(|_, wake| !wake.is_closed());
    }
}

impl ManualClock {
    /// Creates a clock that does not advance by itself.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock_state(&self) -> MutexGuard<'_, ClockState> {
        self.inner.time.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances time. Due sleepers wake in order; a new sleep counts from the new time.
    pub fn advance(&self, duration: Duration) {
        let mut time = self.lock_state();
        let target = time.now + duration;
        while let Some(first) = time.sleepers.first_entry() {
            let (due, _) = *first.key();
            if due > target {
                break;
            }
            // The sleeper may have been dropped.
            let _ = first.remove().send(());
            time.now = time.now.max(due);
        }
        time.now = target;
    }

    /// Returns how many sleepers wake after exactly this time.
    pub fn count_sleepers_due_in(&self, left: Duration) -> usize {
        let mut time = self.lock_state();
        time.remove_dropped_sleepers();
        let due = time.now + left;
        time.sleepers.keys().filter(|(known, _)| *known == due).count()
    }

    /// Returns the number of sleepers.
    pub fn count_sleepers(&self) -> usize {
        let mut time = self.lock_state();
        time.remove_dropped_sleepers();
        time.sleepers.len()
    }

    /// Waits for a sleeper that wakes after exactly this time.
    pub async fn wait_for_sleeper(&self, left: Duration) {
        self.wait_for_sleepers(1, left).await;
    }

    /// Waits for this many of them.
    pub async fn wait_for_sleepers(&self, count: usize, left: Duration) {
        loop {
            let changed = self.inner.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.count_sleepers_due_in(left) >= count {
                return;
            }
            changed.await;
        }
    }
}

impl Clock for ManualClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + CLOCK_EPOCH + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        self.lock_state().now
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration.is_zero() {
            return async {}.boxed();
        }
        let (wake, woken) = oneshot::channel();
        {
            let mut time = self.lock_state();
            time.remove_dropped_sleepers();
            let key = (time.now + duration, time.next_sleeper);
            time.next_sleeper += 1;
            time.sleepers.insert(key, wake);
        }
        self.inner.changed.notify_waiters();
        // The clock outlives its sleepers, so that they do not wake when the test drops its handle.
        let clock = self.clone();
        async move {
            let _ = woken.await;
            drop(clock);
        }
        .boxed()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock").field("now", &self.monotonic()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleepers_wake_in_order_and_not_early() {
        let clock = ManualClock::new();
        let second = Duration::from_secs(1);
        let (late, early, never) = (clock.sleep(3 * second), clock.sleep(2 * second), clock.sleep(9 * second));
        clock.wait_for_sleeper(2 * second).await;
        assert_eq!(clock.count_sleepers(), 3);
        clock.advance(second);
        assert_eq!(clock.count_sleepers(), 3, "no deadline has passed");
        clock.advance(second);
        early.await;
        assert_eq!((clock.count_sleepers_due_in(second), clock.monotonic()), (1, 2 * second));
        clock.advance(5 * second);
        late.await;
        drop(never);
        assert_eq!(clock.count_sleepers(), 0, "one that is dropped sleeps no more");
    }
}
