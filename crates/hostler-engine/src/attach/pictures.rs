//! The budget of pixels that all sessions together may have decoded at a time.
//!
//! Planning a message decodes one picture after the other, so a message takes as much as its largest picture. A decoded pixel takes
//! about ten bytes while it is shrunk and written anew. Knows nothing of messages, and decodes nothing itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What the pictures of all sessions may have at a time; a larger picture takes all of it, and waits until no other is decoded.
const HOST_PIXELS: u32 = 32_000_000;

/// The budget.
pub(crate) struct PictureBudget {
    total: u32,
    left: Arc<Semaphore>,
    taken: AtomicU32,
    most_taken: AtomicU32,
}

/// A part of the budget, which is free again when it is dropped.
pub(crate) struct Pixels {
    budget: Arc<PictureBudget>,
    taken: u32,
    _permit: OwnedSemaphorePermit,
}

impl PictureBudget {
    /// A budget for pictures that may have so many pixels each.
    pub(crate) fn new(largest: u64) -> Arc<Self> {
        let total = u32::try_from(largest).unwrap_or(u32::MAX).min(HOST_PIXELS);
        let left = Arc::new(Semaphore::new(usize::try_from(total).unwrap_or(Semaphore::MAX_PERMITS)));
        Arc::new(Self { total, left, taken: AtomicU32::new(0), most_taken: AtomicU32::new(0) })
    }

    /// Waits for so many pixels, first come, first served. `None` if the host is stopping.
    pub(crate) async fn take(self: &Arc<Self>, pixels: u64) -> Option<Pixels> {
        let pixels = u32::try_from(pixels).unwrap_or(u32::MAX).min(self.total);
        let permit = Arc::clone(&self.left).acquire_many_owned(pixels).await.ok()?;
        let taken = self.taken.fetch_add(pixels, Ordering::AcqRel).saturating_add(pixels);
        self.most_taken.fetch_max(taken, Ordering::AcqRel);
        Some(Pixels { budget: Arc::clone(self), taken: pixels, _permit: permit })
    }

    /// The most pixels that were taken at a time since the start, and how many there are.
    pub(crate) fn peak(&self) -> (u32, u32) {
        (self.most_taken.load(Ordering::Acquire), self.total)
    }
}

impl Drop for Pixels {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.taken, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn no_more_pixels_are_taken_than_there_are() {
        let budget = PictureBudget::new(100);
        let (first, second) = (budget.take(60).await.unwrap(), budget.take(40).await.unwrap());
        assert!(budget.take(1).now_or_never().is_none());
        drop(first);
        let third = budget.take(60).now_or_never().flatten().unwrap();
        drop((second, third));
        assert_eq!(budget.peak(), (100, 100));
    }

    #[tokio::test]
    async fn a_picture_that_is_larger_than_the_budget_is_decoded_alone() {
        let budget = PictureBudget::new(u64::MAX);
        let (_, total) = budget.peak();
        let whole = budget.take(u64::MAX).await.unwrap();
        assert!(budget.take(1).now_or_never().is_none());
        drop(whole);
        assert!(budget.take(1).now_or_never().is_some());
        assert_eq!(budget.peak(), (total, total));
    }
}
