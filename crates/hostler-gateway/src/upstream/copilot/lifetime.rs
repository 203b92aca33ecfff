//! How long an access may be used, and when it is time for the next one.

use std::time::{Duration, SystemTime};

/// A discovered address is used no longer than this.
pub(super) const DISCOVERY: Duration = Duration::from_secs(30 * 60);
/// No key is believed to last longer, whatever is said of it.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// What a key lasts beyond the moment at which it is to be renewed, when its end is not to be believed.
const GRACE: Duration = Duration::from_secs(60);

/// Two moments in the life of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lifetime {
    renew_at: SystemTime,
    ends_at: SystemTime,
}

/// Where in its life an access is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    /// To be used as it is.
    Fresh,
    /// To be used, while the next one is being fetched.
    Due,
    /// Not to be used any more.
    Over,
}

impl Lifetime {
    /// The lifetime of a key that comes with `expires_at` (Unix seconds by the sender's clock) and `refresh_in`
    /// (seconds from now).
    ///
    /// A key that would end before it is to be renewed is a sign that our clock is ahead of the sender's; then only
    /// the second number, which needs no clock, is believed.
    pub(super) fn told(now: SystemTime, expires_at: u64, refresh_in: Option<u64>) -> Self {
        let unix = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let left = Duration::from_secs(expires_at).saturating_sub(unix).min(LONGEST);
        let (renew_in, left) = match refresh_in.map(|seconds| Duration::from_secs(seconds).min(LONGEST)) {
            None => (left * 4 / 5, left),
            Some(renew_in) if renew_in < left => (renew_in, left),
            Some(renew_in) => (renew_in, renew_in + GRACE),
        };
        Self { renew_at: now + renew_in, ends_at: now + left }
    }

    /// The lifetime of a discovery: asked anew a little before its end, so that nobody has to wait for it.
    pub(super) fn discovered(now: SystemTime) -> Self {
        Self { renew_at: now + DISCOVERY * 5 / 6, ends_at: now + DISCOVERY }
    }

    /// The shorter of the two.
    pub(super) fn within(self, other: Self) -> Self {
        Self { renew_at: self.renew_at.min(other.renew_at), ends_at: self.ends_at.min(other.ends_at) }
    }

    pub(super) fn age(self, now: SystemTime) -> Age {
        if now >= self.ends_at {
            Age::Over
        } else if now >= self.renew_at {
            Age::Due
        } else {
            Age::Fresh
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_lifetime_table() {
        for (expires_at, refresh_in, renew_after, ends_after) in [
            (NOW + 1_800, Some(1_500), 1_500, 1_800),
            (NOW + 1_800, None, 1_440, 1_800),
            // Renewed at every call, and usable for its time.
            (NOW + 1_800, Some(0), 0, 1_800),
            // Our clock is ahead by an hour; by some minutes; by exactly as much as matters.
            (NOW - 1_800, Some(1_500), 1_500, 1_560),
            (NOW + 1_200, Some(1_500), 1_500, 1_560),
            (NOW + 1_500, Some(1_500), 1_500, 1_560),
            // Nothing to hold on to: it serves those who wait for it and nobody else.
            (NOW - 1, None, 0, 0),
            (0, None, 0, 0),
            // Numbers that no calendar has.
            (u64::MAX, Some(1_500), 1_500, 86_400),
            (u64::MAX, Some(u64::MAX), 86_400, 86_460),
            (u64::MAX, None, 69_120, 86_400),
        ] {
            let told = Lifetime::told(at(NOW), expires_at, refresh_in);
            let expected = Lifetime { renew_at: at(NOW + renew_after), ends_at: at(NOW + ends_after) };
            assert_eq!(told, expected, "{expires_at} {refresh_in:?}");
        }
    }

    #[test]
    fn the_age_table() {
        let lifetime = Lifetime::told(at(NOW), NOW + 1_800, Some(1_500));
        for (after, age) in [
            (0, Age::Fresh),
            (1_499, Age::Fresh),
            (1_500, Age::Due),
            (1_799, Age::Due),
            (1_800, Age::Over),
            (90_000, Age::Over),
        ] {
            assert_eq!(lifetime.age(at(NOW + after)), age, "after {after} s");
        }
        // A clock that was set back makes nothing older.
        assert_eq!(lifetime.age(at(NOW - 5_000)), Age::Fresh);
    }

    #[test]
    fn a_discovery_lasts_half_an_hour_and_no_key_prolongs_it() {
        let discovered = Lifetime::discovered(at(NOW));
        let long = Lifetime::told(at(NOW), NOW + 7_200, Some(7_000));
        for lifetime in [discovered, discovered.within(long), long.within(discovered)] {
            for (after, age) in [(1_499, Age::Fresh), (1_500, Age::Due), (1_799, Age::Due), (1_800, Age::Over)] {
                assert_eq!(lifetime.age(at(NOW + after)), age, "after {after} s");
            }
        }
        let short = Lifetime::told(at(NOW), NOW + 600, Some(500));
        assert_eq!(discovered.within(short).age(at(NOW + 600)), Age::Over);
    }
}
