use std::fmt;
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;

/// Time as the host counts it. Windows and deadlines are measured by it, so that a test can move it.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time of day, for people.
    fn now(&self) -> SystemTime;

    /// How long it is since some moment that stays the same; it only grows. Windows are measured by it.
    fn monotonic(&self) -> Duration;

    /// Waits. The time begins with the call, not when it is awaited.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}
