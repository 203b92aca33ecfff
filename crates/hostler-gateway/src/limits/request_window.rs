//! Requests within any sixty seconds.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

/// The requests of the last minute. They are remembered only while there is a limit, so they are never more than it.
#[derive(Debug, Default)]
pub(super) struct RequestWindow(VecDeque<Instant>);

impl RequestWindow {
    /// How many requests of the last minute there are, and when the next place becomes free.
    pub(super) fn check(&mut self, allowed: u32, now: Instant) -> Result<(), (usize, Instant)> {
        while self.0.front().is_some_and(|first| now.duration_since(*first) >= MINUTE) {
            self.0.pop_front();
        }
        let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
        if self.0.len() < allowed {
            return Ok(());
        }
        // After a limit was lowered more than one has to go first; a limit of none is never free.
        let freeing = self.0.get(self.0.len() - allowed);
        Err((self.0.len(), freeing.map_or(now + MINUTE, |first| *first + MINUTE)))
    }

    /// Remembers a request; without a limit nothing is remembered.
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
    fn a_place_becomes_free_a_minute_after_it_was_taken() {
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
