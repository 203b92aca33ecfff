//! Sliding window of the requests within the last sixty seconds.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

/// Times of the requests in the window. They are recorded only while there is a limit, so there are never more than the
/// limit.
#[derive(Debug, Default)]
pub(super) struct RequestWindow(VecDeque<Instant>);

impl RequestWindow {
    /// Checks the window; if it is full, returns the number of requests and the time of the next free slot.
    pub(super) fn check(&mut self, allowed: u32, now: Instant) -> Result<(), (usize, Instant)> {
        while self.0.front().is_some_and(|first| now.duration_since(*first) >= MINUTE) {
            self.0.pop_front();
        }
        let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
        if self.0.len() < allowed {
            return Ok(());
        }
        // After the limit was lowered, several requests have to expire first; a limit of zero never frees up.
        let freeing = self.0.get(self.0.len() - allowed);
        Err((self.0.len(), freeing.map_or(now + MINUTE, |first| *first + MINUTE)))
    }

    /// Records a request; without a limit nothing is recorded.
    pub(super) fn record(&mut self, allowed: Option<u32>, now: Instant) {
        match allowed {
            Some(_) => self.0.push_back(now),
            None => self.0.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_frees_up_after_a_minute() {
        let (mut window, start) = (RequestWindow::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        window.record(Some(2), at(0));
        window.record(Some(2), at(10));
        assert_eq!(window.check(2, at(59)), Err((2, at(60))));
        assert_eq!(window.check(2, at(60)), Ok(()));
        window.record(Some(2), at(60));
        assert_eq!(window.check(2, at(61)), Err((2, at(70))));
        assert_eq!(window.check(1, at(61)), Err((2, at(120))));
        assert_eq!(window.check(3, at(61)), Ok(()));
        assert_eq!(window.check(0, at(61)), Err((2, at(121))));
        window.record(None, at(62));
        assert_eq!(window.check(1, at(62)), Ok(()));
    }
}
