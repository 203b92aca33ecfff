//! Compaction: start, result, and the repeated result in a command's output.

use hostler_driver::DriverEvent;

use crate::wire::CompactMetadata;

/// Tracks the agent's reports about compaction: its start, its result, and the result again as text.
#[derive(Debug, Default)]
pub(super) struct CompactionTracker {
    running: bool,
    /// Whether a compaction succeeded in this turn.
    done: bool,
}

impl CompactionTracker {
    pub(super) fn start(&mut self) -> Option<DriverEvent> {
        let is_new = !std::mem::replace(&mut self.running, true);
        is_new.then_some(DriverEvent::CompactionStarted)
    }

    pub(super) fn finish(&mut self, facts: &CompactMetadata) -> Vec<DriverEvent> {
        let mut events: Vec<_> = self.start().into_iter().collect();
        (self.running, self.done) = (false, true);
        events
            .push(DriverEvent::CompactionFinished { tokens_before: facts.pre_tokens, tokens_after: facts.post_tokens });
        events
    }

    pub(super) fn fail(&mut self, reason: &str) -> Vec<DriverEvent> {
        let mut events: Vec<_> = self.start().into_iter().collect();
        self.running = false;
        events.push(DriverEvent::CompactionFailed(reason.to_owned()));
        events
    }

    /// Whether a command's output repeats a reported result.
    pub(super) fn is_repeated_by(&self, output: &str) -> bool {
        self.done && output.starts_with("Compacted")
    }

    /// A compaction that is still running has been abandoned with its turn.
    pub(super) fn end_turn(&mut self) -> Vec<DriverEvent> {
        self.done = false;
        match self.running {
            true => self.fail("The turn ended before the conversation was compacted."),
            false => Vec::new(),
        }
    }
}
