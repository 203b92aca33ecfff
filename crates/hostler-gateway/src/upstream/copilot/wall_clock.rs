//! The time as the Copilot upstream sees it: handed in, so that an hour can pass in a test.

use std::time::{Duration, SystemTime};

use futures::FutureExt;
use futures::future::BoxFuture;

/// Tells the time and waits.
///
/// It is the wall clock, since a key goes on ageing while a computer sleeps.
pub trait WallClock: Send + Sync {
    /// The time now.
    fn now(&self) -> SystemTime;

    /// Is ready when so much time has passed.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

/// The real time.
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
