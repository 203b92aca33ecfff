//! The host's clock. Every timeout and every deadline of the engine uses it; only delays of a fraction of a second use
//! the runtime's timer.

use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_driver::Clock;
use jiff::Timestamp;
use tokio::time::Instant;

/// The system's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started_at: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { started_at: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn monotonic(&self) -> Duration {
        self.started_at.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(duration).boxed()
    }
}

/// The time of day in the two forms that are needed, and timeouts.
pub(crate) trait ClockExt {
    /// The time in the store's format.
    fn now_ms(&self) -> i64;
    /// The time in AHP's format.
    fn now_timestamp(&self) -> String;
    /// Waits for a future, at most this long.
    fn timeout<F: Future + Send>(&self, limit: Duration, future: F) -> impl Future<Output = Option<F::Output>> + Send;
}

impl ClockExt for dyn Clock {
    fn now_ms(&self) -> i64 {
        timestamp(self.now()).as_millisecond()
    }

    fn now_timestamp(&self) -> String {
        format_timestamp(self.now())
    }

    fn timeout<F: Future + Send>(&self, limit: Duration, future: F) -> impl Future<Output = Option<F::Output>> + Send {
        let late = self.sleep(limit);
        async move {
            tokio::select! {
                biased;
                output = future => Some(output),
                () = late => None,
            }
        }
    }
}

/// A time in AHP's format.
pub(crate) fn format_timestamp(time: SystemTime) -> String {
    format!("{:.3}", timestamp(time))
}

fn timestamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or_default()
}
