//! Lifetime of an access: when it is renewed and when it expires. Pure; the time is passed in.

use std::time::{Duration, SystemTime};

/// Maximum lifetime of a discovered address.
pub(super) const DISCOVERED_URL_LIFETIME: Duration = Duration::from_secs(30 * 60);
/// Maximum lifetime of a key, regardless of its expiry.
const MAX_KEY_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Lifetime of a key after its renewal time, if its expiry is not plausible.
const KEY_GRACE_PERIOD: Duration = Duration::from_secs(60);

/// Renewal time and expiry of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AccessLifetime {
    renew_at: SystemTime,
    expires_at: SystemTime,
}

/// Age of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessAge {
    /// It is used.
    Fresh,
    /// It is used while the next one is fetched.
    RenewalDue,
    /// It is not used.
    Expired,
}

impl AccessLifetime {
    /// The lifetime of a key with `expires_at` (Unix seconds by the sender's clock) and `refresh_in` (seconds from
    /// now).
    ///
    /// A key that expires before its renewal indicates that the local clock is ahead of the sender's; then only
    /// `refresh_in`, which needs no clock, is used.
    pub(super) fn from_expiry(now: SystemTime, expires_at: u64, refresh_in: Option<u64>) -> Self {
        let unix = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let left = Duration::from_secs(expires_at).saturating_sub(unix).min(MAX_KEY_LIFETIME);
        let (renew_in, left) = match refresh_in.map(|seconds| Duration::from_secs(seconds).min(MAX_KEY_LIFETIME)) {
            None => (left * 4 / 5, left),
            Some(renew_in) if renew_in < left => (renew_in, left),
            Some(renew_in) => (renew_in, renew_in + KEY_GRACE_PERIOD),
        };
        Self { renew_at: now + renew_in, expires_at: now + left }
    }

    /// The lifetime of a discovered address: it is renewed shortly before its end, so that no call waits for it.
    pub(super) fn for_discovery(now: SystemTime) -> Self {
        Self { renew_at: now + DISCOVERED_URL_LIFETIME * 5 / 6, expires_at: now + DISCOVERED_URL_LIFETIME }
    }

    /// The earlier renewal time and expiry of both.
    pub(super) fn shorter(self, other: Self) -> Self {
        Self { renew_at: self.renew_at.min(other.renew_at), expires_at: self.expires_at.min(other.expires_at) }
    }

    pub(super) fn age(self, now: SystemTime) -> AccessAge {
        if now >= self.expires_at {
            AccessAge::Expired
        } else if now >= self.renew_at {
            AccessAge::RenewalDue
        } else {
            AccessAge::Fresh
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
    fn from_expiry_limits_lifetimes_and_tolerates_clock_skew() {
        for (expires_at, refresh_in, renew_after, ends_after) in [
            (NOW + 1_800, Some(1_500), 1_500, 1_800),
            (NOW + 1_800, None, 1_440, 1_800),
            // Renewed at every call, and usable until it expires.
            (NOW + 1_800, Some(0), 0, 1_800),
            // The local clock is ahead by an hour; by some minutes; by exactly the threshold.
            (NOW - 1_800, Some(1_500), 1_500, 1_560),
            (NOW + 1_200, Some(1_500), 1_500, 1_560),
            (NOW + 1_500, Some(1_500), 1_500, 1_560),
            // No plausible time: it serves only the callers that wait for it.
            (NOW - 1, None, 0, 0),
            (0, None, 0, 0),
            // Times out of the calendar's range.
            (u64::MAX, Some(1_500), 1_500, 86_400),
            (u64::MAX, Some(u64::MAX), 86_400, 86_460),
            (u64::MAX, None, 69_120, 86_400),
        ] {
            let lifetime = AccessLifetime::from_expiry(at(NOW), expires_at, refresh_in);
            let expected = AccessLifetime { renew_at: at(NOW + renew_after), expires_at: at(NOW + ends_after) };
            assert_eq!(lifetime, expected, "{expires_at} {refresh_in:?}");
        }
    }

    #[test]
    fn age_follows_the_clock() {
        let lifetime = AccessLifetime::from_expiry(at(NOW), NOW + 1_800, Some(1_500));
        for (after, age) in [
            (0, AccessAge::Fresh),
            (1_499, AccessAge::Fresh),
            (1_500, AccessAge::RenewalDue),
            (1_799, AccessAge::RenewalDue),
            (1_800, AccessAge::Expired),
            (90_000, AccessAge::Expired),
        ] {
            assert_eq!(lifetime.age(at(NOW + after)), age, "after {after} s");
        }
        // A clock that is set back makes an access no older.
        assert_eq!(lifetime.age(at(NOW - 5_000)), AccessAge::Fresh);
    }

    #[test]
    fn a_discovered_address_expires_after_half_an_hour_regardless_of_the_key() {
        let discovered = AccessLifetime::for_discovery(at(NOW));
        let long = AccessLifetime::from_expiry(at(NOW), NOW + 7_200, Some(7_000));
        for lifetime in [discovered, discovered.shorter(long), long.shorter(discovered)] {
            for (after, age) in [
                (1_499, AccessAge::Fresh),
                (1_500, AccessAge::RenewalDue),
                (1_799, AccessAge::RenewalDue),
                (1_800, AccessAge::Expired),
            ] {
                assert_eq!(lifetime.age(at(NOW + after)), age, "after {after} s");
            }
        }
        let short = AccessLifetime::from_expiry(at(NOW), NOW + 600, Some(500));
        assert_eq!(discovered.shorter(short).age(at(NOW + 600)), AccessAge::Expired);
    }
}
