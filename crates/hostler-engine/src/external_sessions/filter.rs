//! `ExternalSessionFilter`: which external sessions are listed.

use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number with the `recent` filter, as in VS Code.
const MAX_RECENT_SESSIONS: usize = 2;

/// Which external sessions are listed. Imported sessions always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExternalSessionFilter {
    /// None.
    None,
    /// The last two, if they are at most a week old.
    Recent,
    /// Those of the last 24 hours.
    Last24Hours,
    /// Those of the last 7 days.
    Last7Days,
    /// Those of the last 30 days.
    Last30Days,
    /// All of them.
    #[default]
    All,
}

impl ExternalSessionFilter {
    /// Each value: name, label, description.
    pub const ALL: [(&'static str, &'static str, &'static str, Self); 6] = [
        ("none", "None", "Only sessions that were created or opened on this host", Self::None),
        ("recent", "Recent", "The two latest sessions of the last 7 days", Self::Recent),
        ("last24Hours", "Last 24 hours", "Sessions that were changed in the last 24 hours", Self::Last24Hours),
        ("last7Days", "Last 7 days", "Sessions that were changed in the last 7 days", Self::Last7Days),
        ("last30Days", "Last 30 days", "Sessions that were changed in the last 30 days", Self::Last30Days),
        ("all", "All", "All sessions that the agent has stored", Self::All),
    ];

    /// The value with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, ..)| *known == name).map(|(.., show)| *show)
    }

    /// Whether a conversation with this modification time is listed, if `newer` others are newer.
    pub(super) fn includes(self, newer: usize, changed: SystemTime, now: SystemTime) -> bool {
        let days = match self {
            Self::None => return false,
            Self::All => return true,
            Self::Recent if newer >= MAX_RECENT_SESSIONS => return false,
            Self::Last24Hours => 1,
            Self::Recent | Self::Last7Days => 7,
            Self::Last30Days => 30,
        };
        // A modification time in the future counts as new.
        now.duration_since(changed).map_or(true, |age| age <= DAY * days)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_include_conversations_by_age_and_count() {
        let now = SystemTime::UNIX_EPOCH + DAY * 1000;
        // Conversations that are 0, 2, 6, 20 and 100 days old, and one of tomorrow.
        let ages = [-1i32, 0, 2, 6, 20, 100];
        let admitted = |name: &str| {
            let show = ExternalSessionFilter::from_name(name).unwrap();
            let changed = |age: i32| match u32::try_from(age) {
                Ok(age) => now - DAY * age,
                Err(_) => now + DAY,
            };
            let admitted = ages.iter().enumerate().filter(|(newer, age)| show.includes(*newer, changed(**age), now));
            admitted.map(|(_, age)| *age).collect::<Vec<_>>()
        };
        assert_eq!(admitted("none"), [0; 0]);
        assert_eq!(admitted("recent"), [-1, 0]);
        assert_eq!(admitted("last24Hours"), [-1, 0]);
        assert_eq!(admitted("last7Days"), [-1, 0, 2, 6]);
        assert_eq!(admitted("last30Days"), [-1, 0, 2, 6, 20]);
        assert_eq!(admitted("all"), ages);
        assert_eq!(ExternalSessionFilter::from_name("some"), None);
        assert!(!ExternalSessionFilter::Recent.includes(0, now - DAY * 8, now), "a week is not recent");
    }
}
