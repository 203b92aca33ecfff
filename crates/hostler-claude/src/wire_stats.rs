//! Counts of messages that a driver's connections have read and skipped.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a driver's connections have read and skipped, in total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WireStats {
    /// Lines that were messages.
    pub messages: u64,
    /// Messages of an unknown type or shape.
    pub unknown: u64,
    /// Lines that were no messages, or too long.
    pub malformed: u64,
    /// Messages of sub-agents that were skipped.
    pub sub_agent: u64,
}

/// The counters behind [`WireStats`].
#[derive(Debug, Default)]
pub(crate) struct WireCounters {
    messages: AtomicU64,
    unknown: AtomicU64,
    malformed: AtomicU64,
    sub_agent: AtomicU64,
}

impl WireCounters {
    pub(crate) fn count_message(&self) {
        self.messages.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_malformed(&self) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_skipped(&self, unknown: u64, sub_agent: u64) {
        self.unknown.fetch_add(unknown, Ordering::Relaxed);
        self.sub_agent.fetch_add(sub_agent, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> WireStats {
        WireStats {
            messages: self.messages.load(Ordering::Relaxed),
            unknown: self.unknown.load(Ordering::Relaxed),
            malformed: self.malformed.load(Ordering::Relaxed),
            sub_agent: self.sub_agent.load(Ordering::Relaxed),
        }
    }
}
