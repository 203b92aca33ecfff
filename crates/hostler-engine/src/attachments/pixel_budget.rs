//! The budget of decoded pixels, shared by all sessions.
//!
//! Planning a message decodes its images one after the other, so a message uses as much as its largest image. A decoded
//! pixel takes about ten bytes while it is scaled and encoded again. Knows nothing of messages, and decodes nothing
//! itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of decoded pixels at a time; a larger image uses the whole budget, and waits until no other is
/// decoded.
const MAX_DECODED_PIXELS: u32 = 32_000_000;

/// The budget.
pub(crate) struct PixelBudget {
    total: u32,
    semaphore: Arc<Semaphore>,
    used: AtomicU32,
    peak_used: AtomicU32,
}

/// A part of the budget, released when it is dropped.
pub(crate) struct PixelPermit {
    budget: Arc<PixelBudget>,
    pixels: u32,
    _permit: OwnedSemaphorePermit,
}

impl PixelBudget {
    /// A budget for images with at most this many pixels each.
    pub(crate) fn new(largest: u64) -> Arc<Self> {
        let total = u32::try_from(largest).unwrap_or(u32::MAX).min(MAX_DECODED_PIXELS);
        let left = Arc::new(Semaphore::new(usize::try_from(total).unwrap_or(Semaphore::MAX_PERMITS)));
        Arc::new(Self { total, semaphore: left, used: AtomicU32::new(0), peak_used: AtomicU32::new(0) })
    }

    /// Waits for this many pixels, in request order. `None` if the host is stopping.
    pub(crate) async fn acquire(self: &Arc<Self>, pixels: u64) -> Option<PixelPermit> {
        let pixels = u32::try_from(pixels).unwrap_or(u32::MAX).min(self.total);
        let permit = Arc::clone(&self.semaphore).acquire_many_owned(pixels).await.ok()?;
        let taken = self.used.fetch_add(pixels, Ordering::AcqRel).saturating_add(pixels);
        self.peak_used.fetch_max(taken, Ordering::AcqRel);
        Some(PixelPermit { budget: Arc::clone(self), pixels, _permit: permit })
    }

    /// The peak of used pixels since the start, and the budget.
    pub(crate) fn peak(&self) -> (u32, u32) {
        (self.peak_used.load(Ordering::Acquire), self.total)
    }
}

impl Drop for PixelPermit {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.pixels, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn acquire_never_exceeds_the_budget() {
        let budget = PixelBudget::new(100);
        let (first, second) = (budget.acquire(60).await.unwrap(), budget.acquire(40).await.unwrap());
        assert!(budget.acquire(1).now_or_never().is_none());
        drop(first);
        let third = budget.acquire(60).now_or_never().flatten().unwrap();
        drop((second, third));
        assert_eq!(budget.peak(), (100, 100));
    }

    #[tokio::test]
    async fn oversized_image_is_decoded_alone() {
        let budget = PixelBudget::new(u64::MAX);
        let (_, total) = budget.peak();
        let whole = budget.acquire(u64::MAX).await.unwrap();
        assert!(budget.acquire(1).now_or_never().is_none());
        drop(whole);
        assert!(budget.acquire(1).now_or_never().is_some());
        assert_eq!(budget.peak(), (total, total));
    }
}
