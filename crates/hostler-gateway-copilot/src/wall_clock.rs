//! The clock of the Copilot upstream; replaceable, so that tests can advance it.

use std::time::{Duration, SystemTime};

use futures::FutureExt;
use futures::future::BoxFuture;

/// Returns the time and sleeps.
///
/// It is the wall clock, because keys also expire while a computer sleeps.
pub trait WallClock: Send + Sync {
    /// The current time.
    fn now(&self) -> SystemTime;

    /// Completes after this duration.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemWallClock;

impl WallClock for SystemWallClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(time).boxed()
    }
}
