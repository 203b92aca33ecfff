//! The host's clock as a trait, so that tests can advance it.

use std::fmt;
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;

/// The host's time. Windows and deadlines use it, so that a test can advance it.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time of day, for display.
    fn now(&self) -> SystemTime;

    /// Time since a fixed moment; it never decreases. Windows are measured with it.
    fn monotonic(&self) -> Duration;

    /// Waits. The time starts at the call, not at the first poll.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}
